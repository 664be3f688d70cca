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
class RingSize:
    """How many slots the tier's ring has, how many of them nobody serves, and how many spares."""

    slots: int
    spares: int
    empty: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """What the plan allows, beyond its `Caps`.

    follow: whether the fleet's catalog is followed (it is where the inventory is Consul). grace:
    seconds that it may be silent before a hold. good_for: seconds that it must answer again.
    leaving: stretches (begin, end) of hosts whose restart takes their node out of the catalog.
    critical: stretches of hosts that are cache-critical. falls: so many hosts that go down within
    an hour are more than chance; 0: nobody counts them. cold: each of them holds. warm: each of
    them must be shown by a host that is back, before it counts as warm. ring: what is cold are
    slots of this ring, as it was when the plan was made; None: what is cold are hosts.
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
    ring: RingSize | None = None

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
        return max([rule.within for rule in self.warm], default=0.0)


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
class RingSeen:
    """What the watch tells of the tier's ring. Hosts of the plan are sets, as hex numbers.

    serving, others: the plan's hosts, and other nodes by name, that serve a slot. empty: slots that
    nobody serves. spares: nodes that can take a slot. taken, taken_others: who has taken a slot, or
    has left the catalog and serves one again, since the last report. warm, warm_others: who has
    shown since it took its slot that it is warm.
    """

    serving: str = "0"
    others: tuple[str, ...] = ()
    empty: int = 0
    spares: int = 0
    taken: str = "0"
    taken_others: tuple[str, ...] = ()
    warm: str = "0"
    warm_others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RingKnown:
    """What is known of the ring, besides the plan's hosts in it (`State.serving`, `State.fresh`).

    told: the present watch has told of it. others: other nodes that serve a slot; fresh: those of
    them that have not shown yet that they are warm. taken_at: when a slot was taken last.
    """

    told: bool = False
    empty: int = 0
    spares: int = 0
    others: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    taken_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Catalog:
    """What is known of the catalog.

    told: whether the present watch has told of it. silent_since, problem: since when it has not
    answered, and why; None while it answers. good_since: since when it answers without a break.
    index: the catalog's own number of its last state that was looked at.
    departures: within the longest time that any limit speaks of, oldest first. fallen: hosts that
    went down within the last hour, and those that are down still, oldest first. settled: hosts that
    answered well within the last seconds, and when. turned_over: when the sets of hosts changed
    lately were turned over last. still: how many of the hosts of each domain that were down at the
    plan are down still; None: nobody has told. ring: of the ring.
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
    still: tuple[int, ...] | None = None
    ring: RingKnown = RingKnown()


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
class RingListed:
    """A tier's ring: the node that serves each slot (empty: nobody does), and the spares."""

    slots: tuple[str, ...]
    spares: tuple[str, ...] = ()

    @property
    def serving(self) -> frozenset[str]:
        """The nodes that serve a slot."""
        return frozenset(self.slots) - {""}

    @property
    def size(self) -> RingSize:
        """How large it is."""
        return RingSize(len(self.slots), len(self.spares), self.slots.count(""))


@dataclass(frozen=True, slots=True)
class Listing:
    """All nodes of a service, and the catalog's own number of this state of it. ring: of its tier,
    where the fleet says that it has one."""

    index: int
    nodes: dict[str, Listed]
    ring: RingListed | None = None
