"""Who leaves the fleet's catalog, and which hosts do not serve, while an operation runs?

One loop beside the gates: it follows the catalog, and tells the operation what has changed. What
could not be told is kept and told with the next report, so that no departure is lost. A catalog
that does not answer is told once, by name, and again when it answers. Hosts that were down when the
plan was made are down until the catalog has shown them serving for a while.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from guardrail.decide.bits import members
from guardrail.decide.departures import Follower, not_serving
from guardrail.errors import Refused, Unanswered
from guardrail.model.budget import Departure, Fallen, Listing, RingSeen
from guardrail.model.messages import FleetTold, WatchTask
from guardrail.ports import Listings
from guardrail_workflows.ring_watch import RingWatch

PAUSE = 0.2
"""Seconds between two looks, at least: a service with many checks changes all the time."""
TOLD_AGAIN = 3.0
"""Seconds after which hosts that are down are told once more: an operation does not believe it of
hosts that have just answered well (decide/downs.py)."""
STEADY = 10.0
"""Seconds for which a host that was down must be seen serving: at first that proves nothing."""
AGAIN = 1.0
"""Seconds between two questions to a catalog that does not answer."""

Tell = Callable[[FleetTold], Awaitable[None]]
"""Tells the operation; told again after the next look if it raises."""


@dataclass(slots=True)
class FleetWatch:
    """The state of one watch. names: the plan's hosts in the plan's order. clock: epoch seconds.

    was_down: the failure domain (a number below `domains`) of each host that was down when the plan
    was made. ring: where the tier has one, what watches it.
    """

    task: WatchTask
    names: Sequence[str]
    listings: Listings
    tell: Tell
    clock: Callable[[], float] = time.time
    pause: float = PAUSE
    again: float = AGAIN
    was_down: Mapping[str, int] = field(default_factory=dict)
    domains: int = 0
    ring: RingWatch | None = None
    numbers: dict[str, int] = field(init=False)
    follower: Follower = field(init=False)
    untold: list[Departure] = field(default_factory=list)
    told: FleetTold | None = None
    """The last report that arrived; `known_down` are the hosts that were down in it."""
    known_down: int = 0
    again_at: float | None = None
    serves_since: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers = {name: index for index, name in enumerate(self.names)}
        self.known_down = int(self.task.down, 16)
        missing = [self.names[index] for index in members(self.known_down)]
        self.follower = Follower(self.numbers, missing, self.task.index)

    async def run(self) -> None:
        """Follow the catalog until cancelled."""
        while True:
            try:
                listing = await self.listings.next()
            except (Unanswered, Refused) as error:
                await self._say(FleetTold(self.task.turn, self.clock(), str(error)))
                await asyncio.sleep(self.again)
                continue
            await self._say(self._seen(listing))
            await asyncio.sleep(self.pause)

    def _seen(self, listing: Listing) -> FleetTold:
        at = self.clock()
        gone = self.follower.take(listing)
        for name in gone:
            self.untold.append(Departure(at, name, self.numbers.get(name, -1)))
        down = not_serving(listing, self.numbers)
        fresh = members(down & ~self.known_down)
        fallen = tuple(Fallen(at, i, self.names[i], why(listing, self.names[i])) for i in fresh)
        return FleetTold(
            self.task.turn,
            at,
            "",
            listing.index,
            tuple(self.untold),
            f"{down:x}",
            fallen,
            self._still_down(listing, at),
            self.ring.take(listing.ring, gone) if self.ring and listing.ring else None,
        )

    def _still_down(self, listing: Listing, at: float) -> tuple[int, ...] | None:
        """Of each domain, how many of those that were down have not served for a while; None where
        none was."""
        if not self.was_down:
            return None
        counts = [0] * self.domains
        for name, domain in self.was_down.items():
            node = listing.nodes.get(name)
            if node is None or node.failing:
                self.serves_since.pop(name, None)
            since = self.serves_since.setdefault(name, at) if node and not node.failing else at
            counts[domain] += at - since < STEADY
        return tuple(counts)

    async def _say(self, report: FleetTold) -> None:
        if not self._is_new(report):
            return
        try:
            await self.tell(report)
        except Exception:  # whatever it is: told again after the next look
            return
        twice = self.told is not None and report.down == self.told.down
        self.told, self.again_at = report, None
        if not report.problem:
            self.untold.clear()
            if self.ring and report.ring:
                self.ring.told(report.ring)
            self.known_down = int(report.down, 16)
            self.again_at = None if twice or not self.known_down else report.at + TOLD_AGAIN

    def _is_new(self, report: FleetTold) -> bool:
        """Only what changes is told: each report is a line in the operation's history."""
        last = self.told
        if last is None or bool(report.problem) != bool(last.problem):
            return True
        if report.problem:
            return False
        again = self.again_at is not None and report.at >= self.again_at
        if report.left or report.down != last.down or again:
            return True
        return report.still != last.still or _changed(last.ring, report.ring)


def _changed(last: RingSeen | None, now: RingSeen | None) -> bool:
    """Whether anything is to be told of the ring."""
    if last is None or now is None:
        return last is not now
    told = replace(last, taken="0", taken_others=(), warm="0", warm_others=())
    return now != told


def why(listing: Listing, name: str) -> str:
    """What the catalog says of a host that does not serve."""
    node = listing.nodes.get(name)
    return "; ".join(node.failing) if node is not None else "not in the catalog"
