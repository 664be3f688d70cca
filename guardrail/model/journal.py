"""What is kept of an operation when Temporal has long forgotten it?

The journal: entries in the order in which things happened, each with one record. A record holds
names, versions, digests and reasons; never a secret, never a command line. Times are seconds
since the epoch. How an entry becomes a line, and what chains the lines, is in decide/chain.py.
"""

from dataclasses import dataclass
from typing import Any, Literal

Pairs = tuple[tuple[str, str], ...]

FREEZES = "_freezes"
"""Where freezes by command are recorded: they belong to no operation, and none is called so."""

NOTICES = "_notices"
"""Where messages are recorded that are about more operations than have them in their own."""

CHECKS = "_checks"
"""Where reports of checklists are recorded."""

# ---------------------------------------------------------------- records


@dataclass(frozen=True, slots=True)
class PlanFixed:
    """The operation begins on this plan. facts: what the carrier knows, such as versions."""

    plan: str
    requester: str
    hosts: int
    stages: tuple[str, ...]
    limits: Pairs
    gates: Pairs  # name, digest
    approvals: Pairs  # point, how many people
    facts: Pairs = ()
    kind: Literal["plan"] = "plan"


@dataclass(frozen=True, slots=True)
class CommandSaid:
    """A person said something. refusal: why it changed nothing; empty when it was obeyed.

    options: what else was said with it, such as the scope of a rollback.
    """

    verb: str
    by: str
    reason: str = ""
    point: str = ""
    hosts: tuple[str, ...] = ()
    over: str = ""
    refusal: str = ""
    options: Pairs = ()
    kind: Literal["command"] = "command"


@dataclass(frozen=True, slots=True)
class GateTold:
    """A gate's verdict. why: the kind of missing evidence; value None: there was none.

    counted: whether it came from the present watch; others change nothing.
    """

    gate: str
    verdict: str
    why: str
    value: float | None
    reasons: tuple[str, ...]
    counted: bool
    kind: Literal["gate"] = "gate"


@dataclass(frozen=True, slots=True)
class WatchBegun:
    """The gates are watched anew, with this turn. lost: why the watch before it ended."""

    turn: int
    lost: str = ""
    kind: Literal["watch"] = "watch"


@dataclass(frozen=True, slots=True)
class HoldRaised:
    """A hold stands. again: it stood before, for other reasons or other hosts."""

    name: str
    reasons: tuple[str, ...]
    ends: str
    by: str = ""
    hosts: tuple[int, ...] = ()
    again: bool = False
    kind: Literal["hold"] = "hold"


@dataclass(frozen=True, slots=True)
class HoldCleared:
    """A hold stands no more. by: the person whose command cleared it; empty: nobody's."""

    name: str
    why: str
    by: str = ""
    kind: Literal["cleared"] = "cleared"


@dataclass(frozen=True, slots=True)
class LeaseBroken:
    """A person broke the operation's lease on these roles; `token` is the lease's."""

    roles: tuple[str, ...]
    token: int
    by: str
    reason: str
    kind: Literal["lease_broken"] = "lease_broken"


@dataclass(frozen=True, slots=True)
class FreezeSet:
    """A person set a freeze by command. until: seconds since the epoch; None: it has no end. roles,
    fleets: whom it concerns; none: all."""

    name: str
    by: str
    reason: str
    until: float | None
    roles: tuple[str, ...] = ()
    fleets: tuple[str, ...] = ()
    binds_back: bool = True
    kind: Literal["freeze_set"] = "freeze_set"


@dataclass(frozen=True, slots=True)
class FreezeLifted:
    """A person ended a freeze before its time; set_by: whose it was."""

    name: str
    set_by: str
    by: str
    reason: str
    kind: Literal["freeze_lifted"] = "freeze_lifted"


@dataclass(frozen=True, slots=True)
class Turned:
    """The operation goes the other way from here on."""

    direction: str
    kind: Literal["turned"] = "turned"


@dataclass(frozen=True, slots=True)
class WaveBegun:
    """A wave begins, or begins to go back; `number` counts from 1."""

    number: int
    of: int
    stage: str
    hosts: int
    direction: str
    kind: Literal["wave"] = "wave"


@dataclass(frozen=True, slots=True)
class GonePast:
    """A shadow went on where its rollout would have waited for so many people to agree."""

    point: str
    people: int
    origin: str
    kind: Literal["gone_past"] = "gone_past"


@dataclass(frozen=True, slots=True)
class HostAsked:
    """A host was asked to change; `index` is its place in the plan, from 0."""

    index: int
    turn: int
    direction: str
    kind: Literal["asked"] = "asked"


@dataclass(frozen=True, slots=True)
class HostTold:
    """A host's answer. seconds: whole ones since it was asked. facts: versions seen.

    seconds None: nobody waits for this answer any more; it changes nothing, and is recorded.
    """

    index: int
    turn: int
    name: str
    outcome: str
    reason: str
    seconds: int | None
    facts: Pairs = ()
    kind: Literal["answered"] = "answered"


@dataclass(frozen=True, slots=True)
class HostsReread:
    """Changed hosts were read again: how many, and which were not as they should be.

    wrong: name, and what was found. more: wrong ones that are not listed. problem: why they could
    not be read.
    """

    read: int
    wrong: Pairs = ()
    more: int = 0
    problem: str = ""
    kind: Literal["reread"] = "reread"


@dataclass(frozen=True, slots=True)
class NoticeGiven:
    """A message was given to a channel, by its name; why: it did not take it, after so many tries.

    message: the kind of message. operations: how many it is about.
    """

    channel: str
    message: str
    cause: str
    subject: str
    sent: bool
    why: str = ""
    tries: int = 1
    operations: int = 1
    kind: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True)
class ReportMade:
    """A checklist was gone through by its schedule; as rows, see `decide/check_words.py`.

    peak: what it was for; empty: nothing. items: what each query of it came to.
    """

    checklist: str
    verdict: str
    peak: tuple[Any, ...]
    items: tuple[tuple[Any, ...], ...]
    problem: str = ""
    kind: Literal["report"] = "report"


@dataclass(frozen=True, slots=True)
class Ended:
    """The operation is over. `changed` counts hosts."""

    phase: str
    reasons: tuple[str, ...]
    changed: int
    hosts: int
    kind: Literal["end"] = "end"


Record = (
    PlanFixed
    | CommandSaid
    | GateTold
    | WatchBegun
    | HoldRaised
    | HoldCleared
    | LeaseBroken
    | FreezeSet
    | FreezeLifted
    | Turned
    | WaveBegun
    | GonePast
    | HostAsked
    | HostTold
    | HostsReread
    | NoticeGiven
    | ReportMade
    | Ended
)

RECORDS: tuple[type[Record], ...] = (
    PlanFixed,
    CommandSaid,
    GateTold,
    WatchBegun,
    HoldRaised,
    HoldCleared,
    LeaseBroken,
    FreezeSet,
    FreezeLifted,
    Turned,
    WaveBegun,
    GonePast,
    HostAsked,
    HostTold,
    HostsReread,
    NoticeGiven,
    ReportMade,
    Ended,
)


# ---------------------------------------------------------------- entries and what is kept of them


@dataclass(frozen=True, slots=True)
class EntryId:
    """What makes an entry the same one when it is recorded again.

    run: which operation of that name (Temporal's id of its first run; empty outside Temporal):
    a name may be used again once Temporal has forgotten it. event: the number of the event in
    that operation. part: the number of the entry among those of its event.
    """

    run: str
    event: int
    part: int

    def __str__(self) -> str:
        of = f" of run {self.run}" if self.run else ""
        return f"event {self.event}, part {self.part}{of}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to be recorded, once. operation: or `FREEZES`, `NOTICES` or
    `CHECKS`."""

    operation: str
    id: EntryId
    at: float
    record: Record


@dataclass(frozen=True, slots=True)
class Head:
    """The last line of a journal: its sequence number (from 1) and its hash, 64 hex digits.

    A head that is kept elsewhere shows later whether the end of the journal has been cut off.
    """

    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.sequence}:{self.hash}"


EMPTY = Head(0, "0" * 64)
"""The head of a journal without a line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it was read. `fields` is the record as JSON has it.

    record None: a kind, or a field, that only a newer guardrail knows.
    """

    sequence: int
    id: EntryId
    operation: str
    at: float
    kind: str
    fields: dict[str, Any]
    record: Record | None
    hash: str


Wrong = Literal["changed", "removed", "inserted", "torn", "reordered", "unknown"]


@dataclass(frozen=True, slots=True)
class Broken:
    """The first line that is not what was written. `line` counts from 1, as an editor does."""

    line: int
    wrong: Wrong
    why: str

    def __str__(self) -> str:
        return f"line {self.line} is broken ({self.wrong}): {self.why}"


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of a journal: the sound lines from its beginning, and what ends them."""

    head: Head
    lines: tuple[Line, ...]
    broken: Broken | None
