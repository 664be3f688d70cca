"""A Temporal server of its own, and the real workflow with host work that is only pretended."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from temporalio import activity

from guardrail.cli.up import Wanted, server_command, temporal_binary
from guardrail.edges.store import PlanFolder
from guardrail.edges.temporal import Operations, connect
from guardrail.files.planfile import store_plan
from guardrail.model import messages
from guardrail.model.change import ChangeRef
from guardrail.model.common import Origin
from guardrail.model.gate import Judgement, Reading
from guardrail.model.journal import Entry, Head
from guardrail.model.messages import HostAnswer, HostTask, Judged, Planned, PlanRequest, WatchTask
from guardrail.model.plan import ApprovalPoint, Caps, Course, GateRule, Plan, PlannedHost, Wave
from guardrail.twins import TwinJournal
from guardrail_workflows.worker import make_worker

PYTHON = Path(sys.executable)
HOSTS = 4
ORIGIN = Origin("policy test", "test.yaml", 1)

FILES = """
apiVersion: guardrail/v1
kind: Fleet
metadata: {name: cache}
spec:
  inventory:
    hosts: [{name: cache-001, address: 127.0.0.1, failureDomain: a, roles: [memcached]}]
---
apiVersion: guardrail/v1
kind: Rollout
metadata: {name: NAME}
spec:
  fleet: cache
  change: {name: consul-agent, from: 1.8.7, to: 1.8.8}
  stages: [1, 100%]
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def temporal_server(folder: Path) -> Iterator[str]:
    """A development server as `guardrail up` starts it; gives its address."""
    port = free_port()
    wanted = Wanted(port, folder / "temporal.db", folder, "", "", 1, None)
    with (folder / "temporal.log").open("wb") as log:
        server = subprocess.Popen(server_command(temporal_binary(), wanted), stdout=log, stderr=log)
    try:
        yield wanted.address
    finally:
        server.terminate()
        server.wait(20)


async def connected(address: str) -> Operations:
    """A connection once the server answers."""
    for _ in range(200):
        with contextlib.suppress(Exception):
            return await connect({"target_host": address, "namespace": "default"})
        await asyncio.sleep(0.1)
    raise AssertionError(f"no Temporal at {address}")


@dataclass
class Pretended:
    """What the pretended hosts do, and what was asked of them."""

    store: str
    seconds: float = 0.2
    outcomes: dict[int, str] = field(default_factory=dict)
    refusals: tuple[str, ...] = ()
    approvals: tuple[ApprovalPoint, ...] = ()
    planning: float = 0.0
    fault: Exception | None = None
    begun: list[tuple[str, int, float]] = field(default_factory=list)
    journal: TwinJournal = field(default_factory=TwinJournal)

    def activities(self):
        """The activities of a real worker, pretended."""

        @activity.defn(name=messages.PLAN_OPERATION)
        async def plan_operation(request: PlanRequest) -> Planned:
            await asyncio.sleep(self.planning)
            if self.fault is not None:
                raise self.fault
            if self.refusals:
                return Planned("", None, self.refusals, ())
            return self._planned(request)

        @activity.defn(name=messages.CHANGE_HOST)
        async def change_host(task: HostTask) -> HostAnswer:
            loop = asyncio.get_running_loop()
            began = loop.time()
            self.begun.append((task.operation, task.index, began))
            while loop.time() < began + self.seconds:  # which a test may change meanwhile
                activity.heartbeat()
                await asyncio.sleep(0.1)
            outcome = self.outcomes.get(task.index, "changed")
            return HostAnswer(task.index, task.turn, outcome, name(task.index), "pretended")

        @activity.defn(name=messages.WATCH_GATES)
        async def watch_gates(task: WatchTask) -> None:
            reading = Reading(0.4, None, 1.0, 1.0)
            judgement = Judgement("margin", "pass", None, ("0.4 below 0.7",), (reading,))
            handle = activity.client().get_workflow_handle(messages.workflow_id(task.operation))
            await handle.signal(messages.JUDGED, Judged(task.turn, judgement))
            while True:
                activity.heartbeat([{"gate": "margin", "verdict": "pass", "values": [0.4]}])
                await asyncio.sleep(0.2)

        @activity.defn(name=messages.RECORD)
        async def record(entries: list[Entry]) -> Head:
            return self.journal.append(entries)

        return [plan_operation, change_host, watch_gates, record]

    def plan(self, request: PlanRequest) -> Plan:
        """The plan of four pretended hosts."""
        waves = (Wave("1", 0, 1), Wave("100%", 1, HOSTS))
        gates = (GateRule("margin", "safety", 10.0, "person", 1.0, 10.0, ORIGIN, "q", "below 0.7"),)
        return Plan(
            rollout=request.rollout.name,
            fleet=request.fleet.name,
            change=ChangeRef("consul-agent", "1.8.7", "1.8.8"),
            requester=request.requester,
            created_at=1.0,
            hosts=tuple(PlannedHost(name(i), "127.0.0.1", "a") for i in range(HOSTS)),
            waves=waves,
            domains=("a",),
            excluded=(),
            caps=Caps(1, 1, 1, 0),
            limits=(),
            gates=gates,
            approvals=self.approvals,
            bake_for=0.5,
            policies=(),
            seconds_expected=5.0,
            where=request.fleet,
            host_timeout=60.0,
        )

    def _planned(self, request: PlanRequest) -> Planned:
        plan = self.plan(request)
        digest = store_plan(PlanFolder(self.store), plan)
        course = Course(
            digest,
            request.requester,
            plan.waves,
            (0,) * HOSTS,
            (0,),
            plan.caps,
            plan.gates,
            self.approvals,
            plan.bake_for,
        )
        return Planned(digest, course, (), ())


def name(index: int) -> str:
    return f"cache-{index + 1:03d}"


@contextlib.asynccontextmanager
async def working(address: str, pretended: Pretended) -> AsyncIterator[None]:
    """A worker with the real workflow and pretended activities."""
    client = (await connected(address)).client
    async with make_worker(client, pretended.activities()):
        yield


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Line:
    """The command line as a person has it: a process, with an environment."""

    environment: dict[str, str]

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            str(PYTHON),
            "-c",
            "from guardrail.cli import main; main()",
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment,
        )

    async def __call__(self, *words: str, limit: float = 40.0) -> Ended:
        process = await self.start(*words)
        try:
            out, err = await asyncio.wait_for(process.communicate(), limit)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())


def line(folder: Path, address: str = "", **more: str) -> Line:
    """A command line with its own state folder and user."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    own = {
        "GUARDRAIL_STATE": str(folder),
        "GUARDRAIL_USER": "ann",
        "TZ": "UTC",
        "COLUMNS": "100",
        "TEMPORAL_CONFIG_FILE": "/nonexistent/temporal.toml",
    }
    where = {"TEMPORAL_ADDRESS": address} if address else {}
    return Line({**kept, **own, **where, **more})
