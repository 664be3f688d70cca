"""Which rules does an operation obey, and what exactly is broken when it does not?

The rules of design.md §4, each under its name, looking at every moment once: what was known
before, what happened, what was known after, and what was asked. A `Referee` keeps the record and
shows each moment to every rule; the first rule that is broken ends it with `Broken`.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from guardrail.model.operation import (
    State,
)
from guardrail.model.plan import Course
from guardrail.simulation.record import Record
from guardrail.simulation.rule import Broken, Rule, Seen
from guardrail.simulation.rules_holds import (
    Explained,
    InconclusiveNeverAdvances,
    NoStartUnderHold,
    ResumeBakesFirst,
)
from guardrail.simulation.rules_hosts import (
    AnswersMatchTurns,
    NoLoop,
    OneChangePerHost,
    Progress,
    StillTrue,
)
from guardrail.simulation.rules_limits import ChurnHolds, ColdHolds, LimitsHold, RollbackObeysLimits
from guardrail.simulation.rules_policies import PoliciesTighten
from guardrail.simulation.rules_times import FreezesHold, WindowsHold
from guardrail.twins import Begun, Moment, host_name

RULES: tuple[type[Rule], ...] = (
    PoliciesTighten,
    AnswersMatchTurns,
    NoLoop,
    NoStartUnderHold,
    InconclusiveNeverAdvances,
    ColdHolds,
    RollbackObeysLimits,
    LimitsHold,
    ChurnHolds,
    WindowsHold,
    FreezesHold,
    OneChangePerHost,
    ResumeBakesFirst,
    StillTrue,
    Explained,
    Progress,
)
"""All rules, in the order in which they look at a moment: the most particular one speaks first."""

LOOKS = {
    rule: [name for name in ("observe", "asks") if getattr(rule, name) is not getattr(Rule, name)]
    for rule in RULES
}
"""What each of them looks at moments with."""


@dataclass(slots=True)
class Referee:
    """The record of one operation, and the rules that watch it.

    only: the names of the rules that watch; None: all of them.
    """

    course: Course
    name_of: Callable[[int], str] = host_name
    only: Collection[str] | None = None
    record: Record = field(init=False)
    rules: tuple[Rule, ...] = field(init=False)
    looks: tuple[Callable[[Seen], None], ...] = field(init=False)
    looks_when_asked: tuple[Callable[[Seen], None], ...] = field(init=False)
    before: State | None = None

    def __post_init__(self) -> None:
        self.record = Record(self.course, self.name_of)
        chosen = [rule for rule in RULES if self.only is None or rule.name in self.only]
        self.rules = tuple(rule(self.course) for rule in chosen if rule.concerns(self.course))
        self.looks = self._looks("observe")
        self.looks_when_asked = self._looks("observe", "asks")

    def _looks(self, *names: str) -> tuple[Callable[[Seen], None], ...]:
        """What the rules look with, in their order, without those that have nothing to look at."""
        own = [(rule, name) for rule in self.rules for name in names if name in LOOKS[type(rule)]]
        return tuple([getattr(rule, name) for rule, name in own])

    def observe(self, moment: Moment) -> None:
        """One moment more; raises Broken."""
        self.record.observe(moment)
        seen = Seen(self.before, moment, self.record)
        try:
            for look in self.looks_when_asked if seen.asked else self.looks:
                look(seen)
        except Broken as broken:
            broken.at = moment.event.at
            raise
        self.record.asks(moment)
        self.before = moment.state

    def begun(self, begun: Begun) -> None:
        """A host has begun; raises Broken."""
        assert self.before is not None  # noqa: S101 - nothing begins before the first moment
        try:
            for rule in self.rules:
                rule.begun(begun, self.record, self.before)
        except Broken as broken:
            broken.at = begun.at
            raise

    def end(self) -> None:
        """Nothing more will happen; raises Broken."""
        assert self.before is not None  # noqa: S101
        try:
            for rule in self.rules:
                rule.end(self.before, self.record)
        except Broken as broken:
            broken.at = self.record.at
            raise
