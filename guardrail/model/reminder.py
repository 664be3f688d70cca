"""What is prepared for an occasion, by whom, what shows that it was, and how far is it?

`requested`, `confirmed`, `verified` and `done` are four things: somebody asked for it (a ticket),
whoever grants it did (a quota, read back), it is there (the target against what is), and a named
person said so, with all of that in hand.
"""

from dataclasses import dataclass
from typing import Literal

from guardrail.model.gate import Bound
from guardrail.model.notice import Message
from guardrail.model.occasion import Moment, Occasion

EvidenceKind = Literal["ticket", "quota", "target"]
Standing = Literal["open", "requested", "confirmed", "verified", "done"]
VERIFY = "verify"
"""The name under which the reminder's own query is read, beside its steps."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What shows that a step was taken.

    ticket: `pattern` is what its number looks like. quota, target: `query` is read back; a quota
    has to be inside `bound`, a target has to be reached: at least `target`.
    """

    kind: EvidenceKind
    pattern: str = ""
    query: str = ""
    bound: Bound | None = None
    target: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a finite value that was read is what is needed."""
        if self.target is not None:
            return value >= self.target
        return self.bound is not None and self.bound.holds(value)

    @property
    def wanted(self) -> str:
        """What is needed, in words."""
        if self.kind == "ticket":
            return f"a ticket such as {self.pattern}"
        return f"at least {self.target:g}" if self.target is not None else str(self.bound)


@dataclass(frozen=True, slots=True)
class Task:
    """A step of a reminder. request: its type, by which lead times are given."""

    name: str
    title: str
    request: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Lead:
    """Requests of a type are reminded of so long before the occasion (seconds)."""

    request: str
    before: float


@dataclass(frozen=True, slots=True)
class Verify:
    """What shows that it is there: read every so many seconds until the occasion is over."""

    evidence: Evidence
    every: float = 3600.0


@dataclass(frozen=True, slots=True)
class People:
    """Who is told, by the names under which the worker knows their addresses.

    after: seconds within which somebody has to acknowledge before the next one is told.
    snooze_most, snooze_times: the longest snooze (seconds), and how many an occasion may have.
    """

    owner: str
    deputy: str
    channel: str
    after: float = 4 * 3600.0
    snooze_most: float = 3 * 86_400.0
    snooze_times: int = 3

    @property
    def levels(self) -> tuple[str, ...]:
        """In the order in which they are told."""
        return (self.owner, self.deputy, self.channel)


@dataclass(frozen=True, slots=True)
class Reminder:
    """The document `Reminder`. leads: the longest first. source: where its queries are read; None:
    the only Source there is."""

    name: str
    what: str
    occasion: Occasion
    leads: tuple[Lead, ...]
    people: People
    tasks: tuple[Task, ...]
    verify: Verify | None = None
    source: str | None = None
    description: str = ""
    digest: str = ""

    @property
    def reads(self) -> tuple[tuple[str, Evidence], ...]:
        """All that is read back by a query, by name."""
        own = [(VERIFY, self.verify.evidence)] if self.verify else []
        steps = [(t.name, t.evidence) for t in self.tasks if t.evidence.kind != "ticket"]
        return (*steps, *own)

    @property
    def every(self) -> float:
        """Seconds between two readings."""
        return self.verify.every if self.verify else 3600.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """One reminder for one moment: what a workflow is begun for."""

    reminder: Reminder
    moment: Moment

    @property
    def id(self) -> str:
        """`transit-gateway/2027`."""
        return f"{self.reminder.name}/{self.moment.key}"


# ---------------------------------------------------------------- its state


@dataclass(frozen=True, slots=True)
class Call:
    """What somebody has to acknowledge.

    why: one sentence. level: who was told last, an index of `People.levels`. told_at: when.
    number: of the last message. failed: that one did not reach anybody.
    """

    why: str
    leads: tuple[Lead, ...]
    level: int
    told_at: float
    number: int
    failed: bool = False
    by: str = ""

    @property
    def waits(self) -> bool:
        """Whether nobody has acknowledged it yet."""
        return not self.by


@dataclass(frozen=True, slots=True)
class Snooze:
    """Quiet until a time, for a reason. Times: seconds since the epoch."""

    by: str
    reason: str
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Ticket:
    """The evidence of a step that somebody gave."""

    task: str
    text: str
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What a query of the reminder answered. value None: nothing that could be used, see detail."""

    name: str
    value: float | None
    at: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ReminderNote:
    """A line of what happened."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class ReminderState:
    """All that is known of one reminder for one moment. Times: seconds since the epoch.

    settled: leads that were spoken of, or that needed no word any more. snoozes: how many there
    were. readings: the last ones. asked: the turn of the last question, asked_at: when. verified:
    all that is read is as it has to be. unread_since: since when some of it cannot be read.
    done_by, done_at: who said that it is done. sent: messages decided on so far. begun, over:
    whether the occasion has begun, is over. story: the last lines of what happened.
    """

    wanted: Wanted
    at: float
    settled: tuple[Lead, ...] = ()
    call: Call | None = None
    snooze: Snooze | None = None
    snoozes: int = 0
    tickets: tuple[Ticket, ...] = ()
    readings: tuple[ReadBack, ...] = ()
    asked: int = 0
    asked_at: float = 0.0
    verified: bool = False
    unread_since: float | None = None
    done_by: str = ""
    done_at: float | None = None
    sent: int = 0
    begun: bool = False
    over: bool = False
    story: tuple[ReminderNote, ...] = ()


# ---------------------------------------------------------------- events and actions


@dataclass(frozen=True, slots=True)
class Tick:
    """It is so late."""

    at: float


@dataclass(frozen=True, slots=True)
class Acked:
    """A named person has taken it on."""

    at: float
    by: str


@dataclass(frozen=True, slots=True)
class Snoozed:
    """A named person wants quiet until a time."""

    at: float
    by: str
    until: float
    reason: str


@dataclass(frozen=True, slots=True)
class TicketGiven:
    """A named person gives the evidence of a step."""

    at: float
    by: str
    task: str
    text: str


@dataclass(frozen=True, slots=True)
class DoneSaid:
    """A named person says that it is done."""

    at: float
    by: str


@dataclass(frozen=True, slots=True)
class ReadWanted:
    """Somebody wants all of it read now."""

    at: float


@dataclass(frozen=True, slots=True)
class WasRead:
    """The answers to the question of that turn."""

    at: float
    turn: int
    readings: tuple[ReadBack, ...]


@dataclass(frozen=True, slots=True)
class NotDelivered:
    """The message of that number did not reach all that it names."""

    at: float
    number: int
    problem: str


@dataclass(frozen=True, slots=True)
class Amended:
    """The document, or the day, is another one now."""

    at: float
    wanted: Wanted


Said = Acked | Snoozed | TicketGiven | DoneSaid
ReminderEvent = Tick | Said | ReadWanted | WasRead | NotDelivered | Amended


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to all channels that it names; it is delivered once one of them has it.

    level: an index of `People.levels`; above 0 it is an escalation.
    """

    number: int
    level: int
    message: Message


@dataclass(frozen=True, slots=True)
class Ask:
    """Read all queries of the reminder; the answer has the same turn."""

    turn: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of it, what to do, and when to look again (None: it has ended)."""

    state: ReminderState
    actions: tuple[Send | Ask, ...] = ()
    wake_at: float | None = None
