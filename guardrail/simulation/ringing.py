"""Who serves the slots of a made-up ring while a story is told, and how many of them are cold?

`Ring` is the tier's control plane: a node that leaves the catalog loses its slot to the first
spare, one that comes back is a spare, unless a slot has nobody. It lags behind the catalog.
`RingBooks` is what the record knows of it, counted anew from the events alone.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from guardrail.decide.bits import members
from guardrail.model.budget import RingSeen, RingSize, WarmRule
from guardrail.model.operation import FleetSeen
from guardrail.model.plan import Course
from guardrail.twins import host_name

LAGS = (0.0, 0.5, 2.0)
WARM_AFTER = (2.0, 10.0, 40.0, 90.0)
"""Seconds that a node needs to show that it is warm; the last is longer than it may take."""


def sized(dice: Random, hosts: int) -> RingSize | None:
    """Some fleets are rings; some of these have slots that the plan does not know the nodes of."""
    if dice.random() < 0.5:
        return None
    spares = dice.randrange(hosts)
    return RingSize(hosts - spares + dice.choice((0, 0, 2)), spares + dice.choice((0, 0, 1)))


@dataclass(slots=True)
class Ring:
    """The ring of one operation's tier, and what its watch has to tell. Nodes are names."""

    numbers: dict[str, int]
    slots: list[str]
    spares: list[str]
    lag: float
    warm_after: float
    taken: set[str] = field(default_factory=set)
    warm: set[str] = field(default_factory=set)
    times: dict[str, int] = field(default_factory=dict)
    """How often each node has taken a slot."""

    def leaves(self, node: str) -> str:
        """A node is out of the catalog; who takes its slot, or nobody."""
        if node in self.spares:
            self.spares.remove(node)
        if node not in self.slots:
            return ""
        spare = self.spares.pop(0) if self.spares else ""
        self.slots[self.slots.index(node)] = spare
        self._take(spare)
        return spare

    def joins(self, node: str) -> str:
        """A node is back; itself where it takes a slot."""
        if node in self.slots or node in self.spares:
            return ""
        if "" in self.slots:
            self.slots[self.slots.index("")] = node
            self._take(node)
            return node
        self.spares.append(node)
        return ""

    def _take(self, node: str) -> None:
        if node:
            self.times[node] = self.times.get(node, 0) + 1
            self.taken.add(node)
            self.warm.discard(node)

    def shows(self, node: str, time: int) -> None:
        """A node that took a slot for the so-manieth time is warm, if it serves still."""
        if node in self.slots and self.times.get(node, 0) == time:
            self.warm.add(node)

    def report(self) -> RingSeen:
        """What the watch tells of it; taken for told."""
        serving = {node for node in self.slots if node}
        told = RingSeen(
            *self._split(serving),
            self.slots.count(""),
            len(self.spares),
            *self._split(self.taken & serving),
            *self._split(self.warm & serving),
        )
        self.taken, self.warm = set(), set()
        return told

    def _split(self, nodes: Collection[str]) -> tuple[str, tuple[str, ...]]:
        known = sum(1 << self.numbers[node] for node in nodes if node in self.numbers)
        return f"{known:x}", tuple(sorted(node for node in nodes if node not in self.numbers))


def ring_of(course: Course, seed: int) -> Ring | None:
    """The ring of an operation's tier as it is at first."""
    size, dice = course.budget.ring, Random(f"{seed}/ring")
    if size is None:
        return None
    nodes = [host_name(index) for index in range(course.hosts)]
    nodes += [f"other-{n}" for n in range(size.slots + size.spares - len(nodes))]
    dice.shuffle(nodes)
    numbers = {host_name(index): index for index in range(course.hosts)}

    lag, warm_after = dice.choice(LAGS), dice.choice(WARM_AFTER)
    return Ring(numbers, nodes[: size.slots], nodes[size.slots :], lag, warm_after)


def left(world: Any, running: Any, index: int, back_at: float, tell: Callable[[], None]) -> None:
    """A node has left the catalog, and is back in it later; `tell` looks at what has become."""
    ring, node = running.service.ring, host_name(index)
    if ring is None:
        return

    def took(who: str) -> None:
        _will_show(world, running, who, tell)
        tell()

    def comes() -> None:
        if running.service.out.get(index, 0.0) <= world.now:  # it has not left again
            took(ring.joins(node))

    world.at(world.now + ring.lag, lambda: took(ring.leaves(node)))
    world.at(back_at + ring.lag + 0.1, comes)


def watched(world: Any, running: Any, tell: Callable[[], None]) -> None:
    """A new watch reads the gates of all that have taken a slot and are not known to be warm."""
    known = running.state
    if running.service.ring is None:
        return
    for node in (*map(host_name, members(known.fresh)), *known.catalog.ring.fresh):
        _will_show(world, running, node, tell)


def _will_show(world: Any, running: Any, who: str, tell: Callable[[], None]) -> None:
    """A node shows after a while that it is warm, where any gate asks for it."""
    ring = running.service.ring
    if not who or not _by_gate(running.state.course, ring, who):
        return
    time = ring.times.get(who, 0)

    def shows() -> None:
        ring.shows(who, time)
        tell()

    world.at(world.now + ring.warm_after, shows)


def _by_gate(course: Course, ring: Ring, node: str) -> bool:
    rules, index = course.budget.warm, ring.numbers.get(node)
    if index is None:
        return bool(rules)
    return any(begin <= index < end for rule in rules for begin, end in rule.hosts)


# ---------------------------------------------------------------- the books


@dataclass(slots=True)
class RingBooks:
    """What is known of the ring. fresh: who took a slot and has not shown that it is warm."""

    course: Course
    told: bool = False
    serving: set[int] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    fresh: set[int] = field(default_factory=set)
    fresh_others: set[str] = field(default_factory=set)
    empty: int = 0

    @property
    def counts(self) -> bool:
        """Whether slots are counted, and not hosts."""
        return self.course.budget.ring is not None and self.told

    @property
    def good(self) -> bool:
        """Whether it has been told, or there is none."""
        return self.course.budget.ring is None or self.told

    def sees(self, event: FleetSeen) -> None:
        """A report of the present watch."""
        told = event.ring
        if told is None:
            return
        self.told, self.empty = True, told.empty
        self.serving, self.others = self._hosts(told.serving), set(told.others)
        fresh = (self.fresh | self._hosts(told.taken)) - self._hosts(told.warm)
        others = (self.fresh_others | set(told.taken_others)) - set(told.warm_others)
        self.fresh, self.fresh_others = fresh & self.serving, others & self.others

    def _hosts(self, number: str) -> set[int]:
        return set(members(int(number, 16)))

    def baked(self, lost: Collection[int], warm: Collection[WarmRule]) -> None:
        """A bake is over: who serves is warm, unless a gate has to show it."""
        spans = [span for rule in warm for span in rule.hosts]
        by_gate = {i for begin, end in spans for i in range(begin, end)}
        self.fresh &= by_gate | set(lost)
        if not warm:
            self.fresh_others = set()

    def taking(self, index: int, cold: Collection[int]) -> bool:
        """Whether asking this host makes one more cold. cold: the hosts that are so already."""
        if not self.counts:
            return index not in cold
        return index in self.serving and index not in cold and index not in self.fresh

    def count(self, cold: set[int], hosts: set[int], warmth: Mapping[int, int]) -> float:
        """How much of a limit about these hosts is used up. warmth: what hosts told, in percent."""
        if not self.counts:
            return sum(100 - warmth.get(index, 0) for index in cold & hosts) / 100
        asked = (cold & self.serving & hosts) - self.fresh
        whole = len(self.fresh & hosts) + self.empty + len(self.fresh_others)
        return whole + sum(100 - warmth.get(index, 0) for index in asked) / 100
