"""Which processes does a measurement start, and how large do they grow?

A Temporal server as `guardrail up` starts it (database in a WAL file), workers with made-up hands
(bench/twins.py), and a sampler of memory and processor time. Everything is tied to this process
and ends with it.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from temporalio.client import WorkflowFailureError

from guardrail.cli.children import Child, start
from guardrail.cli.up import Wanted, server_command, temporal_binary
from guardrail.edges.temporal import Operations, connect
from guardrail.errors import Unanswered
from guardrail.model import messages
from guardrail.model.change import ChangeRef
from guardrail.model.common import Amount
from guardrail.model.fleet import Fleet, HostList
from guardrail.model.messages import PlanRequest, Status
from guardrail.model.operation import FINAL
from guardrail.model.rollout import Rollout

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 10.0


def free_port() -> int:
    """A port of the loopback that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ---------------------------------------------------------------- what is asked for


@dataclass(frozen=True, slots=True)
class Shape:
    """A made-up fleet and how it is changed: hosts, hosts in flight, seconds a host takes.

    gate: a PromQL query, or empty for none. The worker finds this in the rollout's description.
    """

    hosts: int
    in_flight: int = 50
    takes: float = 0.0
    stages: tuple[str, ...] = ("1%", "25%", "50%", "75%", "100%")
    bake_for: float = 0.05
    gate: str = "made up"
    every: float = 1.0
    run_events: int = 0

    def request(self, name: str) -> PlanRequest:
        """The request that a person's file would become."""
        stages = tuple(Amount(float(stage.removesuffix("%")), True) for stage in self.stages)
        change = ChangeRef("twin", "1", "2")
        described = json.dumps(asdict(self))
        rollout = Rollout(name, "twins", change, stages, description=described)
        return PlanRequest(name, rollout, Fleet("twins", HostList(())), "ann")


def shape_of(rollout: Rollout) -> Shape:
    """The shape that `Shape.request` wrote."""
    told = json.loads(rollout.description)
    return Shape(**{**told, "stages": tuple(told["stages"])})


# ---------------------------------------------------------------- the processes


@dataclass
class Bench:
    """A running server with its workers. `folder` holds database, plans and begin logs."""

    folder: Path
    address: str
    operations: Operations
    server: Child
    workers: list[Child] = field(default_factory=list)
    count: int = 0

    @property
    def begins(self) -> Path:
        """Where every host that begins writes its time: "MONOTONIC EPOCH OPERATION INDEX"."""
        return self.folder / "begins"

    async def add_worker(self, *words: str) -> Child:
        """One more worker; it is asked for work from when this returns."""
        self.count += 1
        ready = self.folder / f"ready-{self.count}"
        command = [sys.executable, "-m", "bench.twins", "--address", self.address]
        command += ["--folder", str(self.folder), "--ready", str(ready), *words]
        worker = await start(f"worker {self.count}", command, self.folder / f"w{self.count}.log")
        self.workers.append(worker)
        await until(ready.exists, 30, f"worker {self.count} asks for work", worker)
        return worker

    async def begin(self, name: str, shape: Shape) -> None:
        """Start an operation."""
        await self.operations.start(shape.request(name))

    async def ended(self, name: str, limit: float) -> Status:
        """The operation's last status, once it has ended. Raises RuntimeError when it failed."""
        handle = self.operations.client.get_workflow_handle(
            messages.workflow_id(name), result_type=Status
        )
        try:
            status: Status = await asyncio.wait_for(handle.result(), limit)
        except WorkflowFailureError:
            reasons = await self.operations.refusals(name)
            raise RuntimeError(f"{name} failed: {'; '.join(reasons)}") from None
        if status.phase not in FINAL:
            raise RuntimeError(f"{name}: {status.sentence}")
        return status

    async def close(self) -> None:
        for worker in self.workers:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGCONT)
            await worker.stop(PATIENCE)
        await self.server.stop(PATIENCE)


@asynccontextmanager
async def running(workers: int = 1, *words: str) -> AsyncIterator[Bench]:
    """A server and its workers, stopped at the end. `words`: see bench/twins.py."""
    with tempfile.TemporaryDirectory(prefix="guardrail-bench-") as name:
        folder = Path(name)
        wanted = Wanted(
            port=free_port(),
            database=folder / "temporal.db",
            source=folder,
            store="",
            journal="",
            workers=workers,
            ready_file=None,
        )
        server = await start(
            "Temporal", server_command(temporal_binary(), wanted), folder / "server.log"
        )
        bench: Bench | None = None
        try:
            bench = Bench(folder, wanted.address, await _connected(wanted.address), server)
            for _ in range(workers):
                await bench.add_worker(*words)
            yield bench
        finally:
            await (bench.close() if bench else server.stop(PATIENCE))


async def _connected(address: str) -> Operations:
    give_up = time.monotonic() + 60
    while True:
        try:
            return await connect({"target_host": address, "namespace": "default"})
        except Unanswered:
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(0.1)


async def until(condition: object, limit: float, what: str, child: Child | None = None) -> None:
    """Wait for a condition (a function, plain or async). Raises RuntimeError when time is up."""
    give_up = time.monotonic() + limit
    while True:
        answer = condition()  # type: ignore[operator]
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return
        if child is not None and not child.running:
            raise RuntimeError(child.ended())
        if time.monotonic() > give_up:
            raise RuntimeError(f"not within {limit:g} s: {what}")
        await asyncio.sleep(0.02)


# ---------------------------------------------------------------- memory and processor time


@dataclass
class Sampler:
    """Resident memory (MB) and processor time (s) of processes, once a second."""

    pids: Sequence[int]
    memory: dict[int, list[float]] = field(default_factory=dict)
    processor: dict[int, float] = field(default_factory=dict)

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            self.sample()
            await asyncio.sleep(1.0)

    def sample(self) -> None:
        """One sample of each process that lives."""
        for pid in self.pids:
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
                pages, ticks = int(fields[21]), int(fields[11]) + int(fields[12])
                self.memory.setdefault(pid, []).append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
                self.processor[pid] = ticks / os.sysconf("SC_CLK_TCK")

    def over_time(self, pid: int) -> str:
        """Memory at the beginning, at each quarter and at the end, in MB."""
        samples = self.memory[pid]
        picked = [samples[round(part * (len(samples) - 1) / 4)] for part in range(5)]
        return ", ".join(f"{sample:.0f}" for sample in picked)


@asynccontextmanager
async def sampled(*pids: int) -> AsyncIterator[Sampler]:
    """A sampler that runs as long as the block lasts."""
    sampler = Sampler(pids)
    task = asyncio.create_task(sampler.run())
    try:
        yield sampler
    finally:
        sampler.sample()
        task.cancel()
