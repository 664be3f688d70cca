"""How is the table of leases asked, and started where there is none yet?

One workflow in the namespace has the table (model/lease.py has its names). Whoever asks first
starts it, in one call with the question. Where there was a table that somebody terminated, what it
knew is read from its history; only if that cannot be had does the new one wait for its holders.

`keep` keeps one lease: it asks, looks every second or two (a question leaves nothing in history),
renews every few seconds, and tells the operation what is new. It shows life only while its renewals
are heard, so that its operation knows of a lost one well before the table takes it for orphaned.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from guardrail.decide.leases import differs
from guardrail.edges.shared import LIMIT, NotThere, Shared
from guardrail.edges.temporal import ANSWER, short
from guardrail.errors import Refused, Unanswered
from guardrail.model.lease import (
    ASK_LEASE,
    BREAK_LEASE,
    GIVE_BACK,
    LEASES,
    LEASES_ID,
    LOOK_LEASE,
    RENEW_EVERY,
    TABLE,
    Answer,
    Break,
    Done,
    Lease,
    LeasesInput,
    Table,
    Wanted,
)


@dataclass(frozen=True, slots=True)
class Desk:
    """Where leases are asked for, in one namespace. Every call raises Unanswered."""

    client: Client
    address: str = ""

    async def ask(self, wanted: Wanted) -> Answer:
        """Ask for a lease, or renew it; the table's workflow is started if it has to be."""
        said = replace(wanted, at=time.time())
        try:
            return await self._table.update(ASK_LEASE, said, Answer)
        except NotThere:
            return await self._start_and_ask(said)

    async def look(self, wanted: Wanted) -> Answer:
        """What asking now would be answered. Nothing is changed, and nothing goes to history."""
        try:
            return await self._table.query(LOOK_LEASE, Answer, replace(wanted, at=time.time()))
        except NotThere:
            return Answer("lost", ("there is no table of leases any more",))

    async def give_back(self, done: Done) -> None:
        """All that the operation asked for up to this turn is over; without a table it is so."""
        with suppress(NotThere):
            await self._table.update(GIVE_BACK, replace(done, at=time.time()), Table)

    async def break_lease(self, said: Break) -> Table:
        """Break the leases on a role; the table after it. Raises Refused where there is none."""
        try:
            return await self._table.update(BREAK_LEASE, replace(said, at=time.time()), Table)
        except NotThere:
            raise Refused("no lease was ever asked for here: there is nothing to break") from None

    async def table(self) -> Table:
        """All leases; an empty table where none was ever asked for."""
        try:
            return await self._table.query(TABLE, Table)
        except NotThere:
            return Table()

    @property
    def _table(self) -> Shared:
        return Shared(
            self.client,
            self.address,
            LEASES,
            LEASES_ID,
            what="the table of leases",
            summary="who may spend which role's limits now",
        )

    async def _start_and_ask(self, said: Wanted) -> Answer:
        given = await self._beginning()
        try:
            return await self._table.start_and_update(ASK_LEASE, said, Answer, given)
        except NotThere:
            raise self._table.silent("it ended just now") from None

    async def _beginning(self) -> LeasesInput:
        """With what a table begins: nothing, what the last one knew, or with care."""
        now = time.time()
        handle = self._table.handle
        try:
            await handle.describe(rpc_timeout=LIMIT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return LeasesInput(at=now)
            raise self._table.silent(short(error)) from None
        try:
            # A workflow that has ended can still be asked, for as long as Temporal keeps it.
            call = handle.query(TABLE, result_type=Table, rpc_timeout=LIMIT)
            return LeasesInput(at=now, table=await asyncio.wait_for(call, ANSWER + 1))
        except (RPCError, TimeoutError, WorkflowQueryFailedError):
            return LeasesInput(careful=True, at=now)


# ---------------------------------------------------------------- keeping one


BY_ITSELF = "guardrail"
"""Who is said to have broken a lease that nothing is behind."""
LATE = 2.0
"""Seconds by which a renewal may be late."""
LOOK_EVERY = 1.5
AGAIN = 0.5
"""Seconds between two looks, and before a table that was silent is asked again."""


ORPHANS_EVERY = 10.0
"""Seconds between two looks at what is behind orphaned leases that are in the way."""

Behind = Callable[[Lease], Awaitable[str]]
"""What may be behind an orphaned lease, in words; empty: it was looked at, and nothing is away."""


async def keep(
    desk: Desk,
    wanted: Wanted,
    report: Callable[[Answer], Awaitable[None]],
    heartbeat: Callable[[str], None],
    behind: Behind | None = None,
) -> None:
    """Ask for a lease and keep it until cancelled; returns when a later ask has replaced this one.

    `report` is told what is new; what it raises as Unanswered is told again. `heartbeat`: all is
    well, and was within RENEW_EVERY + LATE of the last renewal that was heard. `behind`: asked of
    orphaned leases in the way while it waits; one that has nothing behind it is ended.
    """
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(_keep(desk, wanted, report, heartbeat))
        if behind is not None:
            looking = group.create_task(_end_orphans(desk, wanted, behind))
            keeping.add_done_callback(lambda _: looking.cancel())


async def _end_orphans(desk: Desk, wanted: Wanted, behind: Behind) -> None:
    while True:
        await asyncio.sleep(ORPHANS_EVERY)
        with suppress(Unanswered, Refused):
            if (await desk.look(wanted)).word == "waits":
                await end_orphans(desk, wanted, behind)


async def end_orphans(desk: Desk, wanted: Wanted, behind: Behind) -> None:
    """End the orphaned leases on roles that are wanted, where nothing is behind them any more.

    Raises Unanswered, Refused.
    """
    roles, now = {claim.role for claim in wanted.claims}, time.time()
    for lease in (await desk.table()).leases:
        if lease.orphaned(now) and roles & set(lease.roles) and not await behind(lease):
            why = "its operation has ended, and its hosts were read: all of them serve"
            name = lease.holder.operation
            said = Break(lease.roles[0], BY_ITSELF, why, name, orphaned=True)
            await desk.break_lease(said)


async def _keep(
    desk: Desk,
    wanted: Wanted,
    report: Callable[[Answer], Awaitable[None]],
    heartbeat: Callable[[str], None],
) -> None:
    told: Answer | None = None
    asked, lost = -RENEW_EVERY, False
    while told is None or told.word != "superseded":
        began = time.monotonic()
        try:
            answer = None if began >= asked + RENEW_EVERY else await desk.look(wanted)
            if answer is None or differs(told, answer):
                answer = await desk.ask(wanted)
                asked, lost = began, lost or answer.anew
            if lost or differs(told, answer):
                await report(replace(answer, anew=lost))
            told, lost = answer, False
            if answer.grant is not None:  # whoever must know its holders anew hears of it
                wanted = replace(wanted, keep=True, token=answer.grant.token)
        except (Unanswered, Refused):
            await asyncio.sleep(AGAIN)
            continue
        if time.monotonic() < asked + RENEW_EVERY + LATE:
            heartbeat(answer.word)
        await asyncio.sleep(LOOK_EVERY)
