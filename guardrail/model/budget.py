"""What may leave the catalog or be cold, and what is known of the catalog while an operation runs?

`Budget` is the part of a course that speaks of the catalog; `Catalog` is what the watch has told of
it so far. Times are seconds since the epoch, hosts are plan indexes.
"""

from dataclasses import dataclass

from guardrail.model.common import Origin


@dataclass(frozen=True, slots=True)
class ChurnLimit:
    """At most so many departures within any `per` seconds, whoever causes them."""

    departures: int
    per: float
    origin: Origin

    def __str__(self) -> str:
        return f"{self.departures} within {self.per:g} s"


Stretches = tuple[tuple[int, int], ...]
"""Hosts as stretches (begin, end) of the plan."""


@dataclass(frozen=True, slots=True)
class ColdLimit:
    """At most so many of these hosts may be cold: restarted, and not warm yet."""

    most: int
    hosts: Stretches
    origin: Origin


@dataclass(frozen=True, slots=True)
class WarmRule:
    """The gate that each of these hosts must pass once it is back, within so many seconds.

    digest: of the gate's document when the plan was made. after: a policy that became stricter has
    said it; it binds hosts that were asked with a later turn than this one. 0: it is the plan's.
    """

    gate: str
    within: float
    hosts: Stretches
    origin: Origin
    digest: str = ""
    after: int = 0

    def binds(self, index: int, turn: int) -> bool:
        """Whether this host, asked with that turn, must show it."""
        return self.after < turn and any(begin <= index < end for begin, end in self.hosts)


@dataclass(frozen=True, slots=True)
class Budget:
    """What the plan allows, beyond its `Caps`.

    follow: whether the fleet's catalog is followed (it is where the inventory is Consul). grace:
    seconds that it may be silent before a hold. good_for: seconds that it must answer again.
    leaving: stretches (begin, end) of hosts whose restart takes their node out of the catalog.
    critical: stretches of hosts that are cache-critical. falls: so many hosts that go down within
    an hour are more than chance; 0: nobody counts them. cold: each of them holds. warm: each of
    them must be shown by a host that is back, before it counts as warm.
    """

    follow: bool = False
    grace: float = 10.0
    good_for: float = 10.0
    churn: tuple[ChurnLimit, ...] = ()
    leaving: Stretches = ()
    critical: Stretches = ()
    falls: int = 0
    cold: tuple[ColdLimit, ...] = ()
    warm: tuple[WarmRule, ...] = ()

    def warm_rules(self, index: int, turn: int) -> tuple[WarmRule, ...]:
        """What this host, asked with that turn, must show once it is back: of several words on one
        gate the one with the shortest time."""
        shortest: dict[str, WarmRule] = {}
        for rule in sorted(self.warm, key=lambda rule: rule.within):
            if rule.binds(index, turn):
                shortest.setdefault(rule.gate, rule)
        return tuple(rule for rule in self.warm if shortest.get(rule.gate) is rule)

    @property
    def warm_within(self) -> float:
        """The most seconds that a host may take to be warm."""
        return max((rule.within for rule in self.warm), default=0.0)


@dataclass(frozen=True, slots=True)
class Departure:
    """A node that left the catalog, or that will because its host was asked to change.

    index: of the plan's host; -1: another node of the service. turn: of ours, when the host was
    asked; 0: nobody asked. seen: the catalog has shown it.
    """

    at: float
    host: str = ""
    index: int = -1
    turn: int = 0
    seen: bool = True


@dataclass(frozen=True, slots=True)
class Fallen:
    """A host of the plan that does not serve any more, since when, and what the catalog says.

    ours: it was away because of this operation, as far as was known then.
    """

    at: float
    index: int
    host: str
    why: str
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Catalog:
    """What is known of the catalog.

    told: whether the present watch has told of it. silent_since, problem: since when it has not
    answered, and why; None while it answers. good_since: since when it answers without a break.
    index: the catalog's own number of its last state that was looked at.
    departures: within the longest time that any limit speaks of, oldest first. fallen: hosts that
    went down within the last hour, and those that are down still, oldest first. settled: hosts that
    answered well within the last seconds, and when. turned_over: when the sets of hosts changed
    lately were turned over last.
    """

    told: bool = False
    silent_since: float | None = None
    problem: str = ""
    good_since: float | None = None
    index: int = 0
    departures: tuple[Departure, ...] = ()
    fallen: tuple[Fallen, ...] = ()
    settled: tuple[tuple[int, float], ...] = ()
    turned_over: float = 0.0


NO_BUDGET = Budget()
"""Of a fleet whose catalog nobody follows."""

UNTOLD = Catalog()
"""Nothing is known of the catalog yet."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A node of a service. created: the catalog's number of when it was entered last: a higher one
    than before says that it had left in between. failing: its critical checks, each in words."""

    created: int
    failing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """All nodes of a service, and the catalog's own number of this state of it."""

    index: int
    nodes: dict[str, Listed]
