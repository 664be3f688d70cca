"""Who serves the slots of the tier's ring, and who of them has shown that it is warm?

The part of the fleet's watch that knows the ring (see decide/ring.py for what it counts). Who takes
a slot is read by the gates about it from then on, until they pass; what was seen and could not be
told is told with the next report.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from guardrail.decide.bits import members
from guardrail.model.budget import RingListed, RingSeen

Shows = Callable[[str], Awaitable[None]]
"""Ends once the node of that name has shown that it is warm."""


@dataclass(slots=True)
class RingWatch:
    """What one watch knows of a ring. names: the plan's hosts. known: what an earlier watch has
    told last, `taken` being all that had not shown yet that they are warm."""

    names: Mapping[str, int]
    shows: Shows
    known: RingSeen | None = None
    before: frozenset[str] | None = field(init=False, default=None)
    taken: set[str] = field(default_factory=set)
    """Who has taken a slot, and is not told yet."""
    waits: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """Who has taken a slot, and has not shown yet that it is warm."""
    warm: set[str] = field(default_factory=set)
    """Who has shown that, and is not told yet."""

    def __post_init__(self) -> None:
        if self.known is not None:
            by_number = {index: name for name, index in self.names.items()}
            self.before = frozenset(_named(self.known.serving, self.known.others, by_number))
            self._wait(_named(self.known.taken, self.known.taken_others, by_number))

    def take(self, ring: RingListed, left: Collection[str]) -> RingSeen:
        """What is to be told of this ring. left: nodes that have left the catalog since the last
        look, whether or not they are back."""
        self._who_is_warm()
        serving = ring.serving
        taken = serving & set(left)
        if self.before is not None:
            taken |= serving - self.before
        self.taken = (self.taken | taken) & serving
        self.warm -= taken
        self._forget([*taken, *(self.waits.keys() - serving)])
        self._wait(taken)
        self.before = serving
        return self._report(ring)

    def told(self, report: RingSeen) -> None:
        """That report has arrived."""
        by_number = {index: name for name, index in self.names.items()}
        self.taken -= _named(report.taken, report.taken_others, by_number)
        self.warm -= _named(report.warm, report.warm_others, by_number)

    def close(self) -> None:
        """Read no gate any more."""
        self._forget(list(self.waits))

    def _report(self, ring: RingListed) -> RingSeen:
        serving, others = self._split(ring.serving)
        taken, taken_others = self._split(self.taken)
        warm, warm_others = self._split(self.warm)
        return RingSeen(
            serving=serving,
            others=others,
            empty=ring.size.empty,
            spares=len(ring.spares),
            taken=taken,
            taken_others=taken_others,
            warm=warm,
            warm_others=warm_others,
        )

    def _split(self, nodes: Collection[str]) -> tuple[str, tuple[str, ...]]:
        """The plan's hosts of these nodes as a hex number, and the others by name."""
        known = sum(1 << self.names[node] for node in nodes if node in self.names)
        return f"{known:x}", tuple(sorted(node for node in nodes if node not in self.names))

    # ------------------------------------------------------------ who is warm

    def _wait(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self.waits[node] = asyncio.ensure_future(self.shows(node))

    def _forget(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            if (wait := self.waits.pop(node, None)) is not None:
                wait.cancel()

    def _who_is_warm(self) -> None:
        """Those whose gates have passed; where they could not be read they are read again."""
        for node, wait in [(n, w) for n, w in self.waits.items() if w.done()]:
            del self.waits[node]
            if wait.cancelled() or wait.exception() is not None:
                self._wait([node])
            else:
                self.warm.add(node)


def _named(hosts: str, others: Iterable[str], names: Mapping[int, str]) -> set[str]:
    """Nodes by name: hosts of the plan as a hex number, and others."""
    return {*(names[index] for index in members(int(hosts, 16))), *others}
