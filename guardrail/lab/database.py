"""What does the sharded database do at its limit?

Each shard has two connections whose every query takes 50 ms, so it completes 40 a second,
sharply. In front of them is one first-in-first-out queue. A caller that times out abandons its
answer, but the query is executed all the same: that is what keeps the system down once the
queue is longer than the time-out.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from guardrail.lab.parameters import Parameters
from guardrail.lab.wire import sample


class QueueFull(Exception):
    """The shard turned the query away at once, as a full server does."""


class Shard:
    """One shard: its connections, its queue and its counters."""

    def __init__(self, number: int, parameters: Parameters) -> None:
        self.number = number
        self.wanted = self.answered = self.executed = self.wasted = self.rejected = 0
        self._parameters = parameters
        self._queue: asyncio.Queue[tuple[Sequence[int], asyncio.Future[None]]] = asyncio.Queue(
            parameters.queue_bound
        )

    @property
    def depth(self) -> int:
        return self._queue.qsize()

    def submit(self, keys: Sequence[int]) -> "asyncio.Future[None]":
        """Queue a query; raises QueueFull at once when there is no room."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((keys, answer))
        except asyncio.QueueFull:
            self.rejected += 1
            raise QueueFull(f"shard {self.number} has {self.depth} queries waiting") from None
        return answer

    async def serve(self, connection: Any) -> None:
        """Work off the queue on one connection, until cancelled."""
        while True:
            keys, answer = await self._queue.get()
            error = await self.execute(connection, keys)
            self.executed += 1
            if answer.done():
                self.wasted += 1
            elif error:
                answer.set_exception(error)
            else:
                self.answered += 1
                answer.set_result(None)

    async def execute(self, connection: Any, keys: Sequence[int]) -> Exception | None:
        """Run one query; returns what went wrong, so that the queue is worked off all the same."""
        marks = ",".join(str(int(key)) for key in keys) or "0"
        statement = (
            f"select id, v from s{self.number} where id in ({marks}) "  # noqa: S608 - integers only
            f"union all select -1, sleep({self._parameters.query_time})"
        )
        try:
            async with connection.cursor() as cursor:
                await cursor.execute(statement)
                await cursor.fetchall()
        except Exception as fault:
            await asyncio.sleep(self._parameters.query_time)  # a lost server must not spin
            return fault
        return None


class Database:
    """All shards, over one MariaDB server."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self.shards = [Shard(number, parameters) for number in range(parameters.shards)]
        self._workers: list[asyncio.Task[None]] = []

    async def open(self, host: str, port: int = 3306) -> None:
        """Connect every shard's pool and try it; raises OSError or the driver's error."""
        import asyncmy

        for shard in self.shards:
            for _ in range(self._parameters.pool):
                connection = await asyncmy.connect(
                    host=host, port=port, user="lab", password="", db="lab", autocommit=True
                )
                if fault := await shard.execute(connection, [1]):
                    raise fault
                self._workers.append(asyncio.create_task(shard.serve(connection)))

    async def scatter(self, keys: Sequence[int]) -> None:
        """Ask every shard and need every answer; raises QueueFull, TimeoutError or an error."""
        for shard in self.shards:
            shard.wanted += 1
        answers = []
        full: QueueFull | None = None
        for shard in self.shards:
            try:
                answers.append(shard.submit(keys))
            except QueueFull as fault:
                full = fault
        if full:
            # What the other shards took is executed for nobody.
            for answer in answers:
                answer.cancel()
            raise full
        done = asyncio.gather(*answers)
        async with asyncio.timeout(self._parameters.timeout):
            await done

    def lines(self) -> list[str]:
        """Counters and gauges, each with its shard; demand and capacity share their labels."""
        lines = []
        for shard in self.shards:
            values = {
                "lab_scatter_total": shard.wanted,
                "lab_scatter_ok_total": shard.answered,
                "lab_db_queries_total": shard.executed,
                "lab_db_wasted_total": shard.wasted,
                "lab_db_rejected_total": shard.rejected,
                "lab_db_queue": shard.depth,
                "lab_db_capacity": self._parameters.shard_capacity,
            }
            lines += [sample(name, v, shard=str(shard.number)) for name, v in values.items()]
        return lines
