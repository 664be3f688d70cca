"""What will happen to one or more operations? Told in words, and made smaller.

A `Story` is operations and parts. Each part is one thing that goes otherwise than well, and can be
left out: that is how a story that breaks a rule is shrunk. After `calm` everything goes well.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from guardrail.model.common import Origin
from guardrail.model.gate import Kind, Verdict
from guardrail.model.identity import NOBODY, Signer
from guardrail.model.operation import Commanded, Outcome
from guardrail.model.plan import Course
from guardrail.simulation.policing import Edits

ORIGIN = Origin("a made-up policy", "", 0)
PEOPLE = ("ann", "bob", "cid")
"""ann asks for every operation."""
CALM = 600.0
"""Seconds after which everything goes well."""

TroubleKind = Literal[
    "the worker dies",
    "the worker stops and comes back",
    "the server is away",
    "the watcher falls silent",
    "it continues as new",
    "it is drained",
    "a host cannot be reached",
    "the journal cannot be written",
    "a host is put back by hand",
    "a node leaves",
    "a host falls",
    "a host is back",
    "the catalog is silent",
    "it is frozen",
    "it is frozen going forward",
]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a host does when it is asked for the nth time (from 1); all times in seconds.

    takes: above the change's time limit it hangs: silent, so unknown.
    stale: how old the permit is, 0 to 0.3. echo: the answer comes again, so much later.
    second: what a second attempt meets, after a worker was lost; None: the same.
    """

    operation: int
    index: int
    nth: int
    outcome: Outcome = "changed"
    ready: float = 0.1
    go: float = 0.1
    takes: float = 5.0
    stale: float = 0.0
    echo: float | None = None
    second: Outcome | None = None

    @property
    def at(self) -> float:
        """Behaviours are told first."""
        return -1.0

    def words(self) -> str:
        """In one line."""
        late = f", and again {self.echo:g} s later" if self.echo is not None else ""
        times = f"ready after {self.ready:g} s, go after {self.go:g} s, {self.takes:g} s of work"
        which = f"host {self.index}, asked for the {self.nth}. time"
        second = f", a second attempt: {self.second}" if self.second else ""
        return f"{which}: {self.outcome} ({times}){late}{second}"


@dataclass(frozen=True, slots=True)
class Signal:
    """From `at` on, a gate's verdict is another one."""

    at: float
    operation: int
    gate: str
    verdict: Verdict
    kind: Kind | None = None

    def words(self) -> str:
        """In one line."""
        return f"gate {self.gate}: {self.verdict}" + (f" ({self.kind})" if self.kind else "")


@dataclass(frozen=True, slots=True)
class Noise:
    """A gate whose readings are noisy until calm: shares (0..1) of bad, missing, repeated ones."""

    operation: int
    gate: str
    seed: int
    bad: float
    gaps: float
    lies: float

    @property
    def at(self) -> float:
        """Noise is told first."""
        return -1.0

    def words(self) -> str:
        """In one line."""
        return (
            f"gate {self.gate} is read every few seconds: {self.bad:.0%} bad, "
            f"{self.gaps:.0%} missing, {self.lies:.0%} old samples"
        )


@dataclass(frozen=True, slots=True)
class Said:
    """A person says something."""

    operation: int
    command: Commanded

    @property
    def at(self) -> float:
        """When."""
        return self.command.at

    def words(self) -> str:
        """In one line."""
        said = self.command
        more = [f"over {said.over}"] if said.over else []
        more += [f"hosts {', '.join(said.hosts)}"] if said.hosts else []
        more += [f"scope {said.scope}"] if said.verb == "rollback" else []
        more += ["accepts churn"] if said.accept_churn else []
        more += ["with a signature"] if said.verified else []
        if said.verb == "override":
            more += [f"{said.limit} {said.value:g} until {said.until:g} s"]
        return f"{said.by} says {said.verb} {' '.join(more)}".rstrip()


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something dies, stops or is cut off. length: seconds. host: of the fleet, where it is one."""

    at: float
    operation: int
    kind: TroubleKind
    length: float = 0.0
    host: int = 0

    def words(self) -> str:
        """In one line."""
        lasts = f" for {self.length:g} s" if self.length else ""
        which = f" (host {self.host})" if "host" in self.kind else ""
        return f"{self.kind}{which}{lasts}"


Part = Behaviour | Signal | Noise | Said | Trouble


@dataclass(frozen=True, slots=True)
class Planned:
    """An operation of a story. first_report: seconds from a watch to its first verdicts.

    first_host: which host of the fleet is its host 0. sick: its health gates fail for good.
    churns: seconds after which a host at its new version leaves the catalog by itself; 0: it stays.
    policies: what they say later on. asked_by: who signed the start.
    """

    name: str
    course: Course
    starts: float = 0.0
    first_report: float = 1.0
    first_host: int = 0
    sick: bool = False
    churns: float = 0.0
    policies: Edits = ()
    asked_by: Signer = NOBODY


@dataclass(frozen=True, slots=True)
class Story:
    """All that will happen. calm: from then on (seconds) everything goes well."""

    seed: int
    operations: tuple[Planned, ...]
    parts: tuple[Part, ...]
    calm: float = CALM


def key_of(name: str) -> str:
    """The key that this person signs with."""
    return f"SHA256:{name}"


# ---------------------------------------------------------------- smaller, and in words


def shrink(found: Story, breaks: Callable[[Story], bool]) -> Story:
    """The story with as many parts and operations left out as still breaks the same way."""
    found = _fewer_operations(found, breaks)
    size = max(1, len(found.parts) // 2)
    while size:
        start = 0
        while start < len(found.parts):
            rest = found.parts[:start] + found.parts[start + size :]
            smaller = replace(found, parts=rest)
            if breaks(smaller):
                found = smaller
            else:
                start += size
        size //= 2
    return found


def _fewer_operations(found: Story, breaks: Callable[[Story], bool]) -> Story:
    for number in reversed(range(len(found.operations))):
        smaller = without_operation(found, number)
        if smaller.operations and breaks(smaller):
            found = smaller
    return found


def without_operation(found: Story, number: int) -> Story:
    """The story without one operation and all that happens to it."""
    operations = found.operations[:number] + found.operations[number + 1 :]
    parts = tuple(
        replace(part, operation=part.operation - (part.operation > number))
        for part in found.parts
        if part.operation != number
    )
    return replace(found, operations=operations, parts=parts)


def in_words(told: Story) -> tuple[str, ...]:
    """The operations and the parts, one a line, in order of time."""
    lines = [f"seed {told.seed}; from {told.calm:g} s on everything goes well"]
    for planned in told.operations:
        lines += _course_in_words(planned)
    for part in sorted(told.parts, key=lambda part: part.at):
        when = f"{part.at:8.1f} s " if part.at >= 0 else "           "
        lines.append(f"  {when} {told.operations[part.operation].name}: {part.words()}")
    return tuple(lines)


def _course_in_words(planned: Planned) -> list[str]:
    course, caps = planned.course, planned.course.caps
    waves = ", ".join(f"{wave.begin}-{wave.end - 1}" for wave in course.waves)
    gates = ", ".join(f"{r.name} ({r.gate_class}, by {r.recover_by})" for r in course.gates)
    points = ", ".join(f"{p.count} at {p.point}" for p in course.approvals) or "none"
    sick = "; its health gates fail for good" if planned.sick else ""
    sick += f"; its hosts leave every {planned.churns:g} s" if planned.churns else ""
    limits = (
        f"away {caps.unavailable}, per domain {caps.unavailable_per_domain}, domains at once "
        f"{caps.domains_at_once}, failures {caps.failures} (row {caps.failures_consecutive}, "
        f"share {caps.failures_share}), "
        f"pace {caps.pace:g} s"
    )
    ways = (
        f"gates {gates}; bake {course.bake_for:g} s; rollback {course.rollback_when}; approvals "
        f"{points}; starts at {planned.starts:g} s, first verdicts after {planned.first_report:g} s"
    )
    hosts = f"hosts {waves}; domains {course.domains}; down {course.down}"
    windows = _windows_in_words(course)
    return [f"  {planned.name}: {hosts}", f"    {limits}", f"    {ways}{sick}", *windows]


def _windows_in_words(course: Course) -> list[str]:
    if course.calendar is None:
        return []
    (rule,), (first, second, *_) = course.calendar.rules, course.calendar.closed
    every = f"{first.closes_at:g} to {first.opens_at:g} s, {second.closes_at:g} to ..."
    more = ("; going back, too" if rule.binds_back else "") + ("; a peak" if rule.peak else "")
    return [f"    closed {every}{more}; a host takes up to {course.host_timeout:g} s"]
