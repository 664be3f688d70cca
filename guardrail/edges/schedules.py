"""How does a document of the worker's source have a Temporal Schedule, and keep it?

Reminders and checklists are begun by schedules of ours. A schedule belongs to a document: its runs
are named by the document's digest, so a document that was edited is seen to be another one. Whether
a schedule is paused is a person's word, and stays as it is.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleBackfill,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleOverlapPolicy,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from guardrail.edges.shared import LIMIT
from guardrail.edges.temporal import ANSWER, short
from guardrail.errors import Refused, Unanswered

T = TypeVar("T")


def run_id(kind: str, name: str, digest: str) -> str:
    """What the runs of a document's schedule are called: another name for another document."""
    return f"{kind}/{name}/{digest.removeprefix('sha256:')[:12]}"


async def asked(call: Awaitable[T], address: str, no_such: str = "") -> T:
    """What Temporal answers. Raises Unanswered; and Refused, with these words, where there is no
    such thing."""
    try:
        return await asyncio.wait_for(call, ANSWER + 1)
    except TimeoutError:
        raise Unanswered("Temporal", address, f"nothing within {ANSWER:g} s") from None
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and no_such:
            raise Refused(no_such) from None
        raise Unanswered("Temporal", address, short(error)) from None


@dataclass(frozen=True, slots=True)
class Schedules:
    """The schedules of one kind of document. Every call raises Unanswered.

    prefix: how their ids begin; a document's name follows. what: the kind in words. at_once: one
    that is new or changed acts at once, too.
    """

    client: Client
    address: str
    prefix: str
    what: str
    at_once: bool = False

    async def keep(self, wanted: Mapping[str, Schedule]) -> tuple[str, ...]:
        """A schedule for each document, by name, as it is now; the names of new and changed ones.

        The action's id tells whether it is the same document (`run_id`).
        """
        return tuple([name for name, each in wanted.items() if await self._put(name, each)])

    async def _put(self, name: str, wanted: Schedule) -> bool:
        try:
            await asked(
                self.client.create_schedule(
                    self.prefix + name,
                    wanted,
                    trigger_immediately=self.at_once,
                    rpc_timeout=LIMIT,
                ),
                self.address,
            )
        except ScheduleAlreadyRunningError:
            return await self._renew(name, wanted)
        return True

    async def _renew(self, name: str, wanted: Schedule) -> bool:
        known = await self.of(name)
        old, new = known.schedule.action, wanted.action
        same = isinstance(old, ScheduleActionStartWorkflow) and old.id == getattr(new, "id", None)
        if same:
            return False

        def change(given: ScheduleUpdateInput) -> ScheduleUpdate:
            wanted.state = given.description.schedule.state
            return ScheduleUpdate(schedule=wanted)

        await asked(self._handle(name).update(change, rpc_timeout=LIMIT), self.address)
        if self.at_once:
            await self.trigger(name)
        return True

    async def names(self) -> tuple[str, ...]:
        """The documents that have one, sorted; what was made or deleted a moment ago may not be
        listed rightly yet."""
        return tuple(sorted(await asked(self._names(), self.address)))

    async def _names(self) -> list[str]:
        found = await self.client.list_schedules(rpc_timeout=LIMIT)
        ids = [each.id async for each in found]
        return [each.removeprefix(self.prefix) for each in ids if each.startswith(self.prefix)]

    async def of(self, name: str) -> ScheduleDescription:
        """What Temporal knows of one. Raises Refused where there is none (all that follow, too)."""
        return await self._asked(self._handle(name).describe(rpc_timeout=LIMIT), name)

    async def pause(self, name: str, note: str) -> None:
        """Nothing happens at its times until it is resumed."""
        await self._asked(self._handle(name).pause(note=note, rpc_timeout=LIMIT), name)

    async def resume(self, name: str, note: str) -> None:
        """Its times count again."""
        await self._asked(self._handle(name).unpause(note=note, rpc_timeout=LIMIT), name)

    async def trigger(self, name: str) -> None:
        """Act now, paused or not."""
        await self._asked(self._handle(name).trigger(rpc_timeout=LIMIT), name)

    async def backfill(self, name: str, begin: float, until: float) -> None:
        """Act as of each time from `begin` to `until`, in seconds since the epoch."""
        span = ScheduleBackfill(
            datetime.fromtimestamp(begin, UTC),
            datetime.fromtimestamp(until, UTC),
            ScheduleOverlapPolicy.ALLOW_ALL,
        )
        await self._asked(self._handle(name).backfill(span, rpc_timeout=LIMIT), name)

    async def delete(self, name: str) -> None:
        """Its times are over; what it has begun goes on."""
        await self._asked(self._handle(name).delete(rpc_timeout=LIMIT), name)

    def _handle(self, name: str) -> ScheduleHandle:
        return self.client.get_schedule_handle(self.prefix + name)

    async def _asked(self, call: Awaitable[T], name: str) -> T:
        no_such = f"the {self.what} {name} has no schedule; is it in a worker's source?"
        return await asked(call, self.address, no_such)
