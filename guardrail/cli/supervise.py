"""What keeps the embedded server and its workers going, and in which order do they stop?

A worker that dies is told of and started again, each time after a longer wait; the server's death
ends everything, since nothing can be decided without it. At a signal: workers first, so that they
can finish what they hold, then the server; a second signal ends both at once. Operations are
never touched.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from guardrail.cli.children import Child, start
from guardrail.cli.release import take_over
from guardrail.edges.deployment import make_current
from guardrail.edges.temporal import Operations, connect
from guardrail.errors import Refused, Unanswered

READY = 60.0
"""Seconds within which server, and then workers, must answer."""
WORKER_PATIENCE = 20.0
"""Seconds a worker may take to stop; host work is detached on its host and survives it."""
WITHOUT_SERVER = 2.0
"""The same once the server has ended: a worker then waits for it in vain (20 s, tried)."""
SERVER_PATIENCE = 15.0
BACK_OFF = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before a worker is started again; from the first on after it ran for a minute."""
STEADY = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to run. `lock` keeps two servers from one database.

    build: the workers', which new operations go to once all of them answer. beside: whether
    operations of another build may be open meanwhile.
    """

    address: str
    server: list[str]
    worker: list[str]
    workers: int
    logs: Path
    lock: Path
    ready_file: Path | None
    greeting: list[str]
    build: str
    beside: bool = False


async def supervise(plan: Plan) -> int:
    """Run server and workers until a signal. Raises Unanswered when the server ends by itself."""
    with _only_one(plan.lock), _ready_file(plan.ready_file):
        supervisor = Supervisor(plan)
        supervisor.listen()
        try:
            await supervisor.run()
        finally:
            await supervisor.stop()
    return 0


class Supervisor:
    """The children that run now, and the wish to stop."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.server: Child | None = None
        self.workers: dict[int, Child] = {}
        self.stopping = asyncio.Event()
        self.hurry = asyncio.Event()

    def listen(self) -> None:
        """Take SIGINT and SIGTERM as the wish to stop; a second one as haste."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        (self.hurry if self.stopping.is_set() else self.stopping).set()

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Start everything, say so, and keep it going until the wish to stop."""
        server = await start("Temporal", self.plan.server, self.plan.logs / "temporal.log")
        self.server = server
        lives = [asyncio.create_task(self._server_ends(server))]
        try:
            lives.append(asyncio.create_task(self._work()))
            wish = asyncio.create_task(self.stopping.wait())
            done, _ = await asyncio.wait([*lives, wish], return_when=asyncio.FIRST_COMPLETED)
            wish.cancel()
            for life in lives:
                if life in done:
                    await life  # raises why it ended
        finally:
            for life in lives:
                life.cancel()
            await asyncio.gather(*lives, return_exceptions=True)

    async def _server_ends(self, server: Child) -> None:
        await server.process.wait()
        raise Unanswered(
            "Temporal", self.plan.address, f"{server.ended()}\nNothing is left running"
        )

    async def _work(self) -> None:
        operations = await self._server_answers()
        others = await take_over(operations, self.plan.build, beside=self.plan.beside)
        numbers = range(1, self.plan.workers + 1)
        kept = [asyncio.create_task(self._keep_worker(number)) for number in numbers]
        try:
            await self._workers_answer(operations)
            await make_current(operations, self.plan.build)
            self._tell_ready(others)
            await asyncio.gather(*kept)
        finally:
            for task in kept:
                task.cancel()
            await asyncio.gather(*kept, return_exceptions=True)

    async def _server_answers(self) -> Operations:
        limit = time.monotonic() + READY
        while True:
            try:
                return await connect({"target_host": self.plan.address, "namespace": "default"})
            except Unanswered:
                if time.monotonic() > limit:
                    raise
                await asyncio.sleep(0.05)

    async def _workers_answer(self, operations: Operations) -> None:
        limit = time.monotonic() + READY
        while await operations.workers(self.plan.build) < self.plan.workers:
            if time.monotonic() > limit:
                log = self.plan.logs / "worker-1.log"
                reason = f"no worker asked for work within {READY:g} s; see {log}"
                raise Unanswered("A worker", self.plan.address, reason)
            await asyncio.sleep(0.1)

    def _tell_ready(self, others: list[str]) -> None:
        for line in [*self.plan.greeting, *others]:
            typer.echo(line)
        if self.plan.ready_file is not None and self.server is not None:
            facts = {
                "address": self.plan.address,
                "pid": os.getpid(),
                "server": self.server.pid,
                "workers": [worker.pid for worker in self.workers.values()],
            }
            fresh = self.plan.ready_file.with_name(self.plan.ready_file.name + ".part")
            fresh.write_text(json.dumps(facts) + "\n")
            fresh.replace(self.plan.ready_file)

    async def _keep_worker(self, number: int) -> None:
        """Start a worker again and again."""
        tries = 0
        while True:
            began = time.monotonic()
            log = self.plan.logs / f"worker-{number}.log"
            worker = self.workers[number] = await start(f"worker {number}", self.plan.worker, log)
            await worker.process.wait()
            tries = 0 if time.monotonic() - began > STEADY else tries
            wait = BACK_OFF[min(tries, len(BACK_OFF) - 1)]
            tries += 1
            typer.echo(f"{worker.ended()}\nIt is started again in {wait:g} s.", err=True)
            await asyncio.sleep(wait)

    # ------------------------------------------------------------ stopping

    async def stop(self) -> None:
        """Workers, then the server; at once after another signal."""
        self.stopping.set()
        running = [worker for worker in self.workers.values() if worker.running]
        if running:
            typer.echo(
                "stopping: workers first, then Temporal; operations stay as they are", err=True
            )
        server = self.server if self.server is not None and self.server.running else None
        await self._all(running, WORKER_PATIENCE if server else WITHOUT_SERVER)
        if server is not None:
            await self._all([server], SERVER_PATIENCE)

    async def _all(self, children: list[Child], patience: float) -> None:
        if not children:
            return
        haste = asyncio.create_task(self._kill_in_haste(children))
        for said in await asyncio.gather(*(child.stop(patience) for child in children)):
            typer.echo(said, err=True)
        haste.cancel()

    async def _kill_in_haste(self, children: list[Child]) -> None:
        await self.hurry.wait()
        for child in children:
            child.kill()


# ---------------------------------------------------------------- files


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold the database's lock; the kernel lets go of it however this process ends."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            database = path.name.removesuffix(".lock")
            raise Refused(
                f"another guardrail up uses the database {path.with_name(database)}; "
                "end that one, or take another: --db FILE"
            ) from None
        yield


@contextlib.contextmanager
def _ready_file(path: Path | None) -> Iterator[None]:
    """No ready file of an earlier run at the beginning, and none at the end."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    try:
        yield
    finally:
        if path is not None:
            path.unlink(missing_ok=True)
