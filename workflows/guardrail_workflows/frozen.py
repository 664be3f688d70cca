"""Is something frozen, while an operation runs, and just before one of its hosts begins?

`FreezeWatch` is a loop beside the gates: it reads all places every two seconds and tells the
operation what has changed. `Asked` is the worker's last look: the operation's permit, the windows,
and the freezes as this very worker can read them; what keeps a host from beginning goes back with
its answer, so that the operation holds on a file that no other worker has.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from guardrail.decide.freezes import about, binds, differs, in_order, words
from guardrail.decide.windows import open_for
from guardrail.edges.freezes import Freezes
from guardrail.errors import Refused, Unanswered
from guardrail.model.freeze import Concerned, Freeze, Seen
from guardrail.model.messages import FreezesTold, HostAnswer, HostTask, WatchTask
from guardrail.model.plan import Plan, PlannedHost
from guardrail.ports import Leaders
from guardrail_workflows.permits import Permits

EVERY = 2.0
"""Seconds between two looks of the watch."""
TRIES = 10
"""How often a worker that was slow asks once more before it refuses."""
SOON = 0.1
"""Seconds that the last look may take after a permit: it is good for 0.3 s."""
LEADER_WITHIN = 0.5
"""Seconds for asking who leads: the host that stands ready waits for 1 s."""

Tell = Callable[[FreezesTold], Awaitable[None]]
"""Tells the operation; told again after the next look if it raises."""


@dataclass(slots=True)
class FreezeWatch:
    """The state of one watch. whom: what of the plan a freeze can be about."""

    task: WatchTask
    whom: Concerned
    freezes: Freezes
    tell: Tell
    clock: Callable[[], float] = time.time
    every: float = EVERY
    told: tuple[Freeze, ...] | None = None

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._say(await self.freezes.now())
            await asyncio.sleep(self.every)

    async def _say(self, seen: Seen) -> None:
        at = self.clock()
        found = about(seen.freezes, self.whom, at)
        if seen.unread:  # what is not known ends no freeze, and is no word that there is none
            found = self._with_those_told(found)
            if not found:
                return
        if self.told is not None and not differs(self.told, found):
            return
        try:
            await self.tell(FreezesTold(self.task.turn, at, found))
        except Exception:  # whatever it is: told again after the next look
            return
        self.told = found

    def _with_those_told(self, found: tuple[Freeze, ...]) -> tuple[Freeze, ...]:
        names = {(one.place, one.name) for one in found}
        more = (one for one in self.told or () if (one.place, one.name) not in names)
        return in_order([*found, *more])


@dataclass(slots=True)
class Asked:
    """Whether one host may begin now; `frozen` and `unread` say why not, where freezes do, `leads`
    where it leads servers of which others are still to come, `refused` where the operation does."""

    task: HostTask
    plan: Plan
    host: PlannedHost
    permits: Permits
    freezes: Freezes
    leaders: Leaders | None = None
    leads: str = ""
    refused: str = ""
    frozen: tuple[Freeze, ...] = ()
    unread: tuple[str, ...] = ()

    async def __call__(self) -> bool:
        """What freezes, the operation and the windows say, all of it fresh at the end."""
        for _ in range(TRIES):
            if not await self._is_free() or not await self._follows():
                return False
            task = self.task
            answer = await self.permits.may_begin(task.operation, task.turn, task.run)
            permitted = time.monotonic()
            self.refused = "" if answer.allowed else answer.reason
            if not answer.allowed or not open_for(self.plan, time.time(), task.direction):
                return False
            # The permit may have taken its time: a freeze may have been set meanwhile.
            if not await self._is_free():
                return False
            if time.monotonic() - permitted < SOON:
                return True
        return False

    async def _is_free(self) -> bool:
        seen = await self.freezes.now()
        whom = Concerned(self.plan.fleet, self.host.roles, not self.host.roles)
        found = about(seen.freezes, whom, time.time())
        self.frozen = tuple(one for one in found if binds(one, self.task.direction))
        self.unread = seen.unread
        return not self.frozen and not self.unread

    async def _follows(self) -> bool:
        """Whether it leads nobody, where it must not: leadership may have moved meanwhile."""
        self.leads = ""
        if not self.task.follower or self.leaders is None:
            return not self.task.follower
        try:
            async with asyncio.timeout(LEADER_WITHIN):
                led = await self.leaders.leading(self.plan.where)
        except (Refused, Unanswered, TimeoutError) as error:
            why = str(error) or f"nothing came within {LEADER_WITHIN:g} s"
            self.leads = f"who leads cannot be told: {why}"
            return False
        if led.host == self.host.name:
            self.leads = f"{led.host} leads now, and others are still to come"
        return not self.leads

    def told(self, answer: HostAnswer) -> HostAnswer:
        """The answer, with what kept the host from beginning, and with the freezes among that."""
        if answer.outcome != "not_begun":
            return answer
        unknown = (f"not known whether it is frozen: {one}" for one in self.unread)
        permit = f"the permit was refused: {self.refused}" if self.refused else ""
        frozen = "; ".join([*map(words, self.frozen), *unknown])
        why = self.leads or frozen or permit or answer.reason
        return replace(answer, reason=why, freezes=self.frozen)
