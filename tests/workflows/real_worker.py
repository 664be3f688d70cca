"""A worker in this process with real activities: hosts that are folders, a real Prometheus.

Hosts are those of the crash tests (tests/crash/fleet.py); only they write their logs.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from crash.fleet import HostFleet, write_source
from edges.prometheus_parts import RealPrometheus, Target, real_prometheus, target
from temporalio.client import Client

from guardrail.cli.start import requested
from guardrail.edges.compose import store_of
from guardrail.edges.freezes import Place
from guardrail.edges.journal import journal_at
from guardrail.edges.temporal import Operations
from guardrail.model.messages import PlanRequest, Status
from guardrail_workflows.activities import Activities
from guardrail_workflows.worker import make_worker

EVERY = 0.05


@dataclass
class Parts:
    """What a worker needs beside Temporal; `exporter.text` is what its gate reads."""

    folder: Path
    prometheus: RealPrometheus
    exporter: Target

    @property
    def hosts(self) -> Path:
        return self.folder / "hosts"

    @property
    def journal(self) -> str:
        return f"file://{self.folder / 'journal'}"

    @property
    def store(self) -> str:
        return f"file://{self.folder / 'plans'}"


@contextmanager
def parts(folder: Path) -> Iterator[Parts]:
    """A Prometheus that scrapes one target, and the worker's documents."""
    for name in ("plans", "hosts"):
        (folder / name).mkdir(parents=True)
    with target("fleet_serves 1\n") as exporter, real_prometheus(folder / "prometheus") as real:
        real.start(exporter)
        write_source(folder / "source", folder / "hosts", real.address)
        yield Parts(folder, real, exporter)


@dataclass
class Here:
    """The worker that runs, and what a person can do."""

    parts: Parts
    operations: Operations
    activities: list[Activities] = field(default_factory=list)

    def request(self, fleet: HostFleet, *, shadow: bool = False) -> PlanRequest:
        """Make the hosts; what is asked for them."""
        file = self.parts.folder / f"{fleet.name}.yaml"
        file.write_text(fleet.make())
        return replace(requested([file], "ann", fleet.name), shadow=shadow)

    async def until(self, name: str, holds, limit: float = 40.0) -> Status:
        """The first status for which a condition holds; fails with the last one seen."""
        give_up = time.monotonic() + limit
        while True:
            status = await self.operations.status(name)
            if holds(status):
                return status
            assert time.monotonic() < give_up, f"{status.sentence}; {status.holds}"
            await asyncio.sleep(EVERY)


@asynccontextmanager
async def worker(
    client: Client, made: Parts, places: tuple[Place, ...] = ()
) -> AsyncIterator[Here]:
    """The real worker, without a build."""
    source = made.folder / "source"
    activities = Activities(
        client, source, store_of(made.store), journal_at(made.journal), None, places
    )
    async with make_worker(client, activities.all):
        yield Here(made, Operations(client, "here"), [activities])
