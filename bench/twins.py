"""What stands in for hosts and gates in a measurement? A worker with the real workflow, the real
plan store and the real permits, whose hosts answer when they are told to.

    python -m bench.twins --address HOST:PORT --folder DIR --ready FILE [--prometheus URL]

A made-up host does what a real one does at its begin: it is ready, the worker asks its permit, and
the host goes on only if "go" comes within 1 s of "ready" by its own clock. It then writes the
moment to the folder's file `begins`, holds its place for the time that the shape says, and answers.
"""

import argparse
import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.client import Client

from bench.parts import Shape, shape_of
from guardrail.decide.found import Found, Seen, Watching
from guardrail.decide.plan import course_of, make_plan
from guardrail.decide.waves import cut
from guardrail.edges.compose import store_of
from guardrail.edges.converter import CONVERTER
from guardrail.edges.journal import journal_at
from guardrail.files import Documents
from guardrail.files.planfile import load_head, store_plan
from guardrail.model import messages
from guardrail.model.change import Change, RunProbe
from guardrail.model.fleet import Host
from guardrail.model.gate import Bound, Gate, GateEvidence, Judgement, Reading, Source
from guardrail.model.messages import (
    Arrivals,
    HostAnswer,
    HostTask,
    Judged,
    Planned,
    PlanRequest,
    RereadAnswer,
    RereadTask,
    WatchTask,
)
from guardrail.model.plan import Caps, Course, Plan
from guardrail_workflows.activities import Activities, beats
from guardrail_workflows.frozen import Asked
from guardrail_workflows.worker import make_worker

ZONES = 3
GO_WITHIN = 1.0
"""Seconds from "ready" in which "go" must come, by the host's own clock (edges/runner.sh)."""


def hosts(count: int) -> tuple[Host, ...]:
    """A fleet with failure domains, roles and labels, as an inventory would list it."""
    return tuple(
        Host(
            "bench",
            f"cache-{n:06d}",
            f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}",
            f"zone-{n % ZONES}",
            ("memcached",),
            (("os", "debian12"),),
        )
        for n in range(count)
    )


def change() -> Change:
    """A change whose steps nobody runs."""
    probe = RunProbe(("twin", "version"), r"(\S+)")
    steps = (("twin", "set", "{to}"),)
    return Change("twin", "twin", "exec", probe, probe, (), steps, None, None, 600.0, "sha256:twin")


def gate(shape: Shape) -> Gate:
    """The one gate of a shape: real where it is a query, made up otherwise."""
    bound = Bound(below=0.5)
    return Gate("bench", "Breach", "health", shape.gate, bound, shape.every, 1, 1, GateEvidence())


def plan_of(request: PlanRequest, shape: Shape) -> Plan:
    """A real plan by `make_plan`, with the shape's limits."""
    fleet = hosts(shape.hosts)
    gates = (gate(shape),) if shape.gate else ()
    found = Found(
        hosts=fleet,
        seen={host.name: Seen("1", "1") for host in fleet},
        change=change(),
        changes=("twin",),
        gates=gates,
        watching={"bench": Watching(shape.every, 2.0)},
    )
    named = tuple(gate.name for gate in gates)
    asked = replace(request, rollout=replace(request.rollout, gates=named))
    plan = make_plan(asked, found, now=time.time())
    rules = tuple(
        replace(rule, recover_by="evidence", good_for=0.2, grace=60.0) for rule in plan.gates
    )
    caps = Caps(shape.in_flight, shape.in_flight, ZONES, 0)
    # No policy, so built-in defaults would count: small waves, and an approval to wait for.
    waves = cut(asked.rollout.stages, len(plan.hosts), most=None, alone=0)
    fixed = replace(plan, waves=waves, approvals=(), refusals=())
    return replace(fixed, caps=caps, bake_for=shape.bake_for, gates=rules)


def unfrozen(course: Course) -> Course:
    """The course without freezes and without policies that are merged again: made-up eyes see no
    freeze, and there is no source to read."""
    return replace(course, freezes=False, merges=False)


@dataclass(slots=True)
class TwinActivities(Activities):
    """The worker's activities with made-up hands and, unless a Prometheus is named, eyes."""

    folder: Path = Path()
    prometheus: str = ""
    shapes: dict[str, Shape] = field(default_factory=dict)

    @property
    def all(self) -> Sequence[Callable[..., Any]]:
        eyes = self.watch_gates if self.prometheus else self.watch_made_up
        made_up = (self.plan_made_up, self.change_made_up, self.reread_made_up, eyes)
        return (
            *made_up,
            self.no_arrivals,
            self.load_unfrozen,
            self.keep_lease,
            self.end_lease,
            self.record,
        )

    async def documents(self) -> Documents:
        """The documents that a real watcher reads: one gate, one source."""
        gates = tuple(gate(shape) for shape in list(self.shapes.values())[-1:])
        return Documents(gates=gates, sources=(Source("bench", self.prometheus),))

    @activity.defn(name=messages.PLAN_OPERATION)
    async def plan_made_up(self, request: PlanRequest) -> Planned:
        """A real plan of a made-up fleet, in the real plan store."""
        shape = shape_of(request.rollout)
        plan = await asyncio.to_thread(plan_of, request, shape)
        digest = await asyncio.to_thread(store_plan, self.store, plan)
        self.shapes[digest] = shape
        return Planned(digest, unfrozen(course_of(plan, digest)), (), ())

    @activity.defn(name=messages.LOAD_COURSE)
    async def load_unfrozen(self, digest: str) -> Course:
        """The course of a stored plan, for every run after the first."""
        return unfrozen(await Activities.load_course(self, digest))

    def _shape(self, digest: str) -> Shape:
        if digest not in self.shapes:
            described = load_head(self.store, digest).description
            rollout = Shape(1).request("").rollout
            self.shapes[digest] = shape_of(replace(rollout, description=described))
        return self.shapes[digest]

    @activity.defn(name=messages.CHANGE_HOST)
    async def change_made_up(self, task: HostTask) -> HostAnswer:
        """One host: its plan, its permit, its time, its answer."""
        host = await self.planned_host(task)
        beat = beats()
        beat("look")
        plan = load_head(self.store, task.plan)
        if not await self._go(Asked(task, plan, host, self.permits, self.freezes)):
            return HostAnswer(task.index, task.turn, "not_begun", host.name, "no permit")
        self._log(task)
        await self._work(self._shape(task.plan).takes, beat)
        return HostAnswer(task.index, task.turn, "changed", host.name, f"{host.name} is at 2")

    async def _go(self, asked: Asked) -> bool:
        """Whether the host got "go" in time; one that was late is made ready again."""
        while True:
            ready = time.monotonic()
            if not await asked():
                return False
            if time.monotonic() - ready <= GO_WITHIN:
                return True

    @activity.defn(name=messages.REREAD_HOSTS)
    async def reread_made_up(self, task: RereadTask) -> RereadAnswer:
        """Every host is as it was left."""
        return RereadAnswer(int(task.hosts, 16).bit_count(), at=time.time())

    @activity.defn(name=messages.FIND_ARRIVALS)
    async def no_arrivals(self, _: str) -> Arrivals:
        """No host came since the plan was made."""
        return Arrivals(at=time.time())

    def _log(self, task: HostTask) -> None:
        line = f"{time.monotonic():.6f} {time.time():.6f} {task.operation} {task.index}\n"
        with (self.folder / "begins").open("ab", buffering=0) as file:
            file.write(line.encode())

    async def _work(self, takes: float, beat: Callable[[str], None]) -> None:
        left = takes * random.uniform(0.5, 1.5)  # noqa: S311 - jitter
        while left > 0:
            await asyncio.sleep(min(1.0, left))
            left -= 1.0
            beat("apply")

    @activity.defn(name=messages.WATCH_GATES)
    async def watch_made_up(self, task: WatchTask) -> None:
        """A watcher that tells once that all is well, and lives."""
        handle = self.client.get_workflow_handle(messages.workflow_id(task.operation))
        for rule in load_head(self.store, task.plan).gates:
            now = time.time()
            good = Judgement(rule.name, "pass", None, (), (Reading(0.1, None, now, now),))
            await handle.signal(messages.JUDGED, Judged(task.turn, good))
        while True:
            activity.heartbeat()
            await asyncio.sleep(1.0)


async def run(given: argparse.Namespace) -> None:
    """Work until told to end."""
    client = await Client.connect(given.address, data_converter=CONVERTER)
    store = store_of(str(given.folder / "plans"))
    journal = journal_at(str(given.folder / "journal"))
    twins = TwinActivities(client, given.folder, store, journal)
    twins.folder, twins.prometheus = given.folder, given.prometheus
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with make_worker(client, twins.all):
        given.ready.write_text(str(os.getpid()))
        await stop.wait()


def main() -> None:
    """A worker process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--ready", required=True, type=Path)
    parser.add_argument("--prometheus", default="")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
