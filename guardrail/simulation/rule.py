"""What is a rule of an operation, and what does it look at?"""

from dataclasses import dataclass, field
from typing import NoReturn

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
    """One moment as the rules see it: `before` is None at the first.

    holding: the holds that stand in the way of the present direction. passing: whether each gate
    that may stand in the way passes. Both are the record's word, asked for once for all rules: no
    rule changes what they are made of.
    """

    before: State | None
    moment: Moment
    record: Record
    state: State = field(init=False)
    event: Event = field(init=False)
    asked: tuple[BeginHost, ...] = field(init=False)
    holding: list[str] = field(init=False)
    passing: bool = field(init=False)

    def __post_init__(self) -> None:
        moment, record = self.moment, self.record
        self.state, self.event, self.asked = moment.state, moment.event, moment.asked
        self.holding = [one.name for one in moment.state.holds if record.holds_back(one.name)]
        self.passing = record.binding_gates_pass()


class Rule:
    """One rule; `observe` sees each moment, `asks` then those in which hosts are asked to begin,
    `begun` each host that begins, `end` the end."""

    name = ""

    def __init__(self, course: Course) -> None:
        self.course = course

    @classmethod
    def concerns(cls, course: Course) -> bool:
        """Whether there is anything in this course that the rule is about."""
        del course
        return True

    def observe(self, seen: Seen) -> None:
        """One moment more."""

    def asks(self, seen: Seen) -> None:
        """Hosts are asked to begin in this moment, which has been observed."""

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        """A host has begun: its script got "go"."""

    def end(self, state: State, record: Record) -> None:
        """Nothing more will happen."""

    def check(self, holds: object, what: str, *about: object) -> None:
        """Broken, unless it holds."""
        if not holds:
            self.broken(what, *about)

    def broken(self, what: str, *about: object) -> NoReturn:
        """Broken. Where a rule looks at every moment it asks first, and words it only then."""
        raise Broken(self.name, " ".join([what, *(str(each) for each in about)]))


def late_answer(seen: Seen) -> bool:
    """Whether a host asked to go forward has answered after the turn: the wave follows it."""
    back = seen.record.direction == "back" and not seen.record.gone_back
    return back and seen.event.kind == "host_answered"
