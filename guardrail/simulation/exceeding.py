"""Which limits hold, told from what people said about overrides, and from nothing else?

Part of the record (simulation/record.py): it knows in its own words who may override what, and
when that is over.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from guardrail.model.operation import Commanded
from guardrail.model.plan import Caps, Course

FIELDS = {
    "unavailable": "unavailable",
    "unavailablePerDomain": "unavailable_per_domain",
    "domainsAtOnce": "domains_at_once",
    "failures": "failures",
    "failures.consecutive": "failures_consecutive",
    "pace.between": "pace",
}
DAY = 86_400.0


@dataclass(slots=True)
class Exceeding:
    """Overrides by limit: (value, until, whom it waits for); past: those that were in force, with
    their ends. over: one has ended, and hosts are in flight that there is no room for any more.
    vouched_start: it is known who asked for the operation. down: how many hosts
    of each domain are down since before the operation; least_down: the fewest that ever were."""

    course: Course
    at: float = 0.0
    known: dict[str, tuple[float, float, frozenset[str]]] = field(default_factory=dict)
    past: list[tuple[str, float, float]] = field(default_factory=list)
    over: bool = False
    vouched_start: bool = False
    down: tuple[int, ...] = field(init=False)
    least_down: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.down = self.least_down = self.course.down

    def caps(self, at: float) -> Caps:
        """The plan's limits, with those put in that are in force at that time; where one has taken
        another's place since, the looser of the two."""
        if not self.known and not self.past:
            return self.course.caps
        now = [(limit, value, until) for limit, (value, until, w) in self.known.items() if not w]
        new: dict[str, float] = {}
        for limit, value, until in (*now, *self.past):
            if until > at:
                field, looser = FIELDS[limit], min if limit == "pace.between" else max
                new[field] = looser(value, new.get(field, value))
        whole: dict[str, Any] = {name: v if name == "pace" else int(v) for name, v in new.items()}
        if "failures" in whole:
            whole["failures_share"] = None
        return dataclasses.replace(self.course.caps, **whole)

    def goes_on(self, at: float) -> None:
        """Time has passed."""
        self.at = at
        if not self.known:
            return
        ended = [limit for limit, (_, until, _) in self.known.items() if until <= at]
        for limit in ended:
            self._ends(limit, self.known[limit][1])

    def _ends(self, limit: str, at: float) -> None:
        value, _, waits = self.known.pop(limit)
        if not waits:
            self.past.append((limit, value, at))
            self.over = True

    def settle(self, away: Collection[int], flying: bool) -> None:
        """What happened has been taken in."""
        self.over = self.over and flying and bool(self.exceeded(away, self.at))

    def sees(self, down: tuple[int, ...]) -> None:
        """So many hosts of each domain are down since before the operation."""
        if down is self.down:
            return
        self.down = down
        self.least_down = tuple(map(min, down, self.least_down))

    def exceeded(
        self, away: Collection[int], at: float, least: tuple[int, ...] | None = None
    ) -> str:
        """Which limit has more hosts away than it allows at that time; empty: none has.

        least: the hosts that were down, where fewer were down when somebody was asked.
        """
        caps, down = self.caps(at), self.down if least is None else least
        counts = Counter(self.course.domains[index] for index in away)
        if away and len(away) + sum(down) > caps.unavailable:
            return f"{len(away)} are away, {caps.unavailable} are allowed"
        full = [d for d, n in counts.items() if n + down[d] > caps.unavailable_per_domain]
        if full or len(counts) > caps.domains_at_once:
            return f"of {len(counts)} domains, in {full} more than are allowed"
        return ""

    # ------------------------------------------------------------ people

    def asked(self, said: Commanded) -> None:
        """Somebody asks for one."""
        if said.limit not in FIELDS or not self._may(said) or not self._sound(said):
            return
        now = getattr(self.course.caps, FIELDS[said.limit])
        if said.limit in self.known:
            self._ends(said.limit, said.at)
        if said.value == now:
            return
        owners = self._owners(said.limit)
        waits = frozenset() if said.verified and self._owner(said, owners) else owners
        self.known[said.limit] = (said.value, said.until, waits)

    def _may(self, said: Commanded) -> bool:
        points = self.course.approvals
        mine = said.by == self.course.requester
        if not said.reason or (mine and any(point.not_requester for point in points)):
            return False
        signed = [point for point in points if point.count > 1 or point.verified]
        if any(point.not_requester for point in signed) and not self.vouched_start:
            return False
        return said.verified or not signed

    def _sound(self, said: Commanded) -> bool:
        now = getattr(self.course.caps, FIELDS[said.limit])
        if now is None or said.value != int(said.value) or said.value < 0:
            return False
        if said.value == 0 and said.limit != "pace.between":
            return False
        if said.value == now:
            return said.limit in self.known
        more = said.value < now if said.limit == "pace.between" else said.value > now
        return more and said.at < said.until <= said.at + DAY

    def _owners(self, limit: str) -> frozenset[str]:
        found = [each for each in self.course.limits if each.name == limit]
        return frozenset(name for each in found for word in each.words for name in word.owners)

    def _owner(self, said: Commanded, owners: frozenset[str]) -> bool:
        return said.by in owners and said.by != self.course.requester

    def agreed(self, said: Commanded) -> None:
        """Somebody approves; of an override, if they own the policy and have signed."""
        limit = said.point.removeprefix("override:").partition("=")[0]
        if not said.point.startswith("override:") or limit not in self.known or not said.verified:
            return
        value, until, waits = self.known[limit]
        named = said.point.partition("=")[2].startswith(f"{value:g}@")
        if named and self._owner(said, waits):
            self.known[limit] = (value, until, frozenset())
