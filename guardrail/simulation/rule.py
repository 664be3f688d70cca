"""What is a rule of an operation, and what does it look at?"""

from dataclasses import dataclass

from guardrail.model.operation import (
    BeginHost,
    Event,
    State,
)
from guardrail.model.plan import Course
from guardrail.simulation.record import Record
from guardrail.twins import Begun, Moment

LATE = 1.3 + 1e-9
"""Seconds: a permit of 0.3 s, and a host's own second between ready and go (design.md §5)."""
BAKE_EXACT = 0.01
SLOWED = 2


class Broken(Exception):
    """A rule does not hold: which one, and what was seen."""

    def __init__(self, rule: str, what: str, at: float = 0.0) -> None:
        self.rule, self.what, self.at = rule, what, at
        super().__init__(f"{rule} at {at:g} s: {what}")


@dataclass(slots=True)
class Seen:
    """One moment as the rules see it: `before` is None at the first."""

    before: State | None
    moment: Moment
    record: Record

    @property
    def state(self) -> State:
        return self.moment.state

    @property
    def event(self) -> Event:
        return self.moment.event

    @property
    def asked(self) -> tuple[BeginHost, ...]:
        return self.moment.asked


class Rule:
    """One rule; `observe` sees each moment, `begun` each host that begins, `end` the end."""

    name = ""

    def __init__(self, course: Course) -> None:
        self.course = course

    def observe(self, seen: Seen) -> None:
        """One moment more."""

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        """A host has begun: its script got "go"."""

    def end(self, state: State, record: Record) -> None:
        """Nothing more will happen."""

    def check(self, holds: object, what: str, *about: object) -> None:
        """Broken, unless it holds."""
        if not holds:
            told = " ".join([what, *(str(each) for each in about)])
            raise Broken(self.name, told)


def late_answer(seen: Seen) -> bool:
    """Whether a host asked to go forward has answered after the turn: the wave follows it."""
    back = seen.record.direction == "back" and not seen.record.gone_back
    return back and seen.event.kind == "host_answered"
