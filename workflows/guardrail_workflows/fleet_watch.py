"""Who leaves the fleet's catalog, and which hosts do not serve, while an operation runs?

One loop beside the gates: it follows the catalog, and tells the operation what has changed. What
could not be told is kept and told with the next report, so that no departure is lost. A catalog
that does not answer is told once, by name, and again when it answers.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from guardrail.decide.bits import members
from guardrail.decide.departures import Follower, not_serving
from guardrail.errors import Refused, Unanswered
from guardrail.model.budget import Departure, Fallen, Listing
from guardrail.model.messages import FleetTold, WatchTask
from guardrail.ports import Listings

PAUSE = 0.2
"""Seconds between two looks, at least: a service with many checks changes all the time."""
TOLD_AGAIN = 3.0
"""Seconds after which hosts that are down are told once more: an operation does not believe it of
hosts that have just answered well (decide/downs.py)."""
AGAIN = 1.0
"""Seconds between two questions to a catalog that does not answer."""

Tell = Callable[[FleetTold], Awaitable[None]]
"""Tells the operation; told again after the next look if it raises."""


@dataclass(slots=True)
class FleetWatch:
    """The state of one watch. names: the plan's hosts in the plan's order. clock: epoch seconds."""

    task: WatchTask
    names: Sequence[str]
    listings: Listings
    tell: Tell
    clock: Callable[[], float] = time.time
    pause: float = PAUSE
    again: float = AGAIN
    numbers: dict[str, int] = field(init=False)
    follower: Follower = field(init=False)
    untold: list[Departure] = field(default_factory=list)
    told: FleetTold | None = None
    """The last report that arrived; `known_down` are the hosts that were down in it."""
    known_down: int = 0
    again_at: float | None = None

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
        for name in self.follower.take(listing):
            self.untold.append(Departure(at, name, self.numbers.get(name, -1)))
        down = not_serving(listing, self.numbers)
        fresh = members(down & ~self.known_down)
        fallen = tuple(Fallen(at, i, self.names[i], why(listing, self.names[i])) for i in fresh)
        left = tuple(self.untold)
        return FleetTold(self.task.turn, at, "", listing.index, left, f"{down:x}", fallen)

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
        return bool(report.left) or report.down != last.down or again


def why(listing: Listing, name: str) -> str:
    """What the catalog says of a host that does not serve."""
    node = listing.nodes.get(name)
    return "; ".join(node.failing) if node is not None else "not in the catalog"
