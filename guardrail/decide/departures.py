"""Which nodes have left a service between two listings of the catalog, and which do not serve?

A node that left and came back before anybody looked has left all the same: the catalog numbers its
entries, and a new entry has a higher number than the state of the catalog that was seen before.

    before   after                     it has left
    there    not there                 once
    there    there, entered later      once, and is back
    -        there                     no: it is new
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from guardrail.model.budget import Listing


@dataclass(slots=True)
class Follower:
    """What one watch knows of a service while it follows the catalog.

    fleet: the plan's hosts, which were all there when the plan was made. missing: those of them
    that earlier watches have told to be gone. index: the catalog's number of the last state that
    they looked at; 0: nobody has looked yet.
    """

    fleet: Collection[str]
    missing: Collection[str] = ()
    index: int = 0
    last: Listing | None = field(default=None)

    def take(self, listing: Listing) -> tuple[str, ...]:
        """The nodes that have left since the last listing, sorted."""
        left = self._first(listing) if self.last is None else self._next(self.last, listing)
        self.last, self.index = listing, listing.index
        return tuple(sorted(left))

    def _first(self, listing: Listing) -> set[str]:
        """Nobody looked for a while: only the plan's hosts are known from before."""
        there = set(self.fleet) - set(self.missing)
        gone = there - listing.nodes.keys()
        return gone | entered_after(self.index, listing, there) if self.index else gone

    def _next(self, last: Listing, listing: Listing) -> set[str]:
        gone = last.nodes.keys() - listing.nodes.keys()
        return gone | entered_after(last.index, listing, last.nodes.keys())


def entered_after(index: int, listing: Listing, names: Collection[str]) -> set[str]:
    """Those of the names that were entered anew since; none where the catalog counts anew (its
    servers were set up again), since then every number says nothing."""
    if listing.index < index:
        return set()
    return {name for name in names if name in listing.nodes and listing.nodes[name].created > index}


def not_serving(listing: Listing, hosts: dict[str, int]) -> int:
    """The set of plan indexes whose node is not listed, or has a critical check."""
    found = 0
    for name, index in hosts.items():
        node = listing.nodes.get(name)
        if node is None or node.failing:
            found |= 1 << index
    return found
