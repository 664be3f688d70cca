"""How soon after `pause` does no host begin any more, and what if a worker stops or dies?

Made-up hosts go through the real permits (0.3 s, then "go" within 1 s by the host's own clock) and
write each begin. The command line promises: 1.3 s after the answer no host begins any more.
"""

import asyncio
import os
import random
import signal
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest

from bench.parts import Bench, Shape, running, until
from bench.rows import Row, spread
from guardrail.cli.children import Child
from guardrail.cli.talk import STILL
from guardrail.errors import Unanswered
from guardrail.model import messages
from guardrail.model.messages import Said, Say

TRIES = 20
KILLS = 12
WORKERS = 2
AFTER = 1.9
"""Seconds beyond the answer in which begins are still looked for."""


@dataclass(frozen=True, slots=True)
class Try:
    """One pause. Seconds: until the answer; from the answer to the last begin (0: none after it);
    hosts that began later than the promise; hosts in flight by the answer."""

    answer: float
    last_begin: float
    late: int
    in_flight: int


async def rows(in_flight: int) -> list[Row]:
    """Twenty pauses with so many hosts in flight."""
    takes = 1.5 if in_flight <= 100 else 6.0
    async with running(WORKERS) as bench:
        await _begin(bench, in_flight, takes)
        tries = [await _pause(bench, in_flight) for _ in range(TRIES)]
    return _rows(f"pause, {in_flight:,} in flight", tries, f"hosts take {takes:g} s ± 50 %")


async def stopped() -> list[Row]:
    """The same with a worker stopped (SIGSTOP) for 2 s around the pause."""
    async with running(WORKERS) as bench:
        await _begin(bench, 100, 1.5)
        tries = []
        for number in range(TRIES):
            victim = bench.workers[number % WORKERS].pid
            tries.append(await _pause(bench, 100, victim))
    return _rows(
        "pause, 100 in flight, a worker stopped around it", tries, "one of two workers, for 2 s"
    )


def _rows(name: str, tries: list[Try], how: str) -> list[Row]:
    late = sum(one.late for one in tries)
    flying = sorted(one.in_flight for one in tries)
    note = f"{how}; {WORKERS} workers; by the answers {flying[0]:,} to {flying[-1]:,} in flight"
    begins = [one.last_begin for one in tries]
    return [
        Row(
            f"{name}: hosts begun later than {STILL} s after the answer",
            late,
            "hosts",
            len(tries),
            at_most=0,
            note=note,
        ),
        spread(f"{name}: until it is answered", [one.answer for one in tries], "s"),
        spread(f"{name}: last host begun after the answer", begins, "s"),
    ]


async def _begin(bench: Bench, in_flight: int, takes: float) -> None:
    shape = Shape(100_000, in_flight=in_flight, takes=takes, stages=("100%",), bake_for=0.0)
    await bench.begin("op", shape)


async def _pause(bench: Bench, in_flight: int, victim: int | None = None) -> Try:
    await _until_flying(bench, in_flight)
    # The stop comes before or after the pause: at every point of the way to the answer.
    stop = asyncio.create_task(_stop(victim)) if victim is not None else None
    await asyncio.sleep(random.uniform(0.0, 0.7) if stop else random.uniform(0.0, 0.2))  # noqa: S311
    sent = time.monotonic()
    said = await say(bench, "pause")
    answered = time.monotonic()
    await asyncio.sleep(AFTER)
    if stop is not None:
        await stop
    begins = [float(line.split()[0]) for line in _tail(bench)]
    after = [at - answered for at in begins if at > answered]
    await say(bench, "resume")
    late = sum(at > STILL for at in after)
    return Try(answered - sent, max(after, default=0.0), late, said.in_flight)


async def _stop(pid: int) -> None:
    await asyncio.sleep(random.uniform(0.0, 0.5))  # noqa: S311 - at any point
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(2.0)
    finally:
        os.kill(pid, signal.SIGCONT)


def _tail(bench: Bench, size: int = 2_000_000) -> list[str]:
    """The last lines of the begins, whole ones only."""
    with bench.begins.open("rb") as file:
        file.seek(max(0, bench.begins.stat().st_size - size))
        return file.read().decode().split("\n")[1:-1]


async def _until_flying(bench: Bench, in_flight: int) -> None:
    async def flying() -> bool:
        try:
            status = await bench.operations.status("op")
        except Unanswered:
            return False
        return not status.holds and len(status.in_flight) >= 0.9 * in_flight

    await until(flying, 60, f"{in_flight} hosts are in flight")
    begun = _count(bench)
    await until(lambda: _count(bench) > begun, 30, "hosts begin")


def _count(bench: Bench) -> int:
    return bench.begins.stat().st_size if bench.begins.exists() else 0


async def say(bench: Bench, verb: str) -> Said:
    """A person's command, said again until it is answered."""
    command = Say(uuid.uuid4().hex, verb, "ann", "bench")  # type: ignore[arg-type]
    while True:
        try:
            return await bench.operations.say("op", command)
        except Unanswered:
            await asyncio.sleep(0.05)


# ---------------------------------------------------------------- a worker dies


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill. Seconds until the answer; events of history that the next worker replays first;
    whether it was killed in the middle of a workflow task."""

    answer: float
    events: int
    at_work: bool


async def killed() -> list[Row]:
    """The worker that holds the workflow is killed just before a pause: how late is the answer?"""
    kills: list[Kill] = []
    async with running(WORKERS) as bench:
        await _begin(bench, 100, 1.5)
        for _ in range(KILLS):
            await _until_flying(bench, 100)
            await asyncio.sleep(random.uniform(0.0, 1.0))  # noqa: S311 - at any point of a run
            kills.append(await _killed_once(bench))
            await bench.add_worker()
            await say(bench, "resume")
    name, times = "pause just after a worker was killed", [kill.answer for kill in kills]
    events = sorted(kill.events for kill in kills)
    note = (
        f"kill -9 of the one of {WORKERS} workers that holds the workflow, by its last task; "
        f"{events[0]:,} to {events[-1]:,} events to replay"
    )
    rows = [spread(f"{name}: until it is answered", times, "s", note=note)]
    for at_work, when in ((False, "between two tasks"), (True, "in the middle of a task")):
        some = [kill.answer for kill in kills if kill.at_work is at_work]
        if some:
            rows.append(spread(f"{name}, {when}: until it is answered", some, "s"))
    return [*rows, Row(f"{name}: slowest answer", max(times), "s", at_most=2.0)]


async def _killed_once(bench: Bench) -> Kill:
    victim = await _holder(bench)
    victim.kill()
    sent = time.monotonic()
    await say(bench, "pause")
    answered = time.monotonic()
    bench.workers.remove(victim)
    await victim.stop(5)
    return Kill(answered - sent, *await _left_by(bench, victim))


async def _holder(bench: Bench) -> Child:
    """The worker that the operation's next task goes to: the one that did its last."""
    while True:
        for event in await _latest(bench):
            done = event.workflow_task_completed_event_attributes.identity
            for worker in bench.workers:
                if done.partition("@")[0] == str(worker.pid):
                    return worker
        await asyncio.sleep(0.01)


async def _left_by(bench: Bench, victim: Child) -> tuple[int, bool]:
    """How many events the killed worker left, and whether a task of its own was open."""
    for event in await _latest(bench, 200):
        by = event.workflow_task_completed_event_attributes.identity
        if by.partition("@")[0] == str(victim.pid):
            return event.event_id, False
        lost = event.workflow_task_timed_out_event_attributes
        if lost.timeout_type == TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE:
            return lost.scheduled_event_id, True
    return 0, False


async def _latest(bench: Bench, count: int = 50) -> Sequence[HistoryEvent]:
    """The last events of the operation's present run, newest first."""
    client = bench.operations.client
    answer = await client.workflow_service.get_workflow_execution_history_reverse(
        GetWorkflowExecutionHistoryReverseRequest(
            namespace=client.namespace,
            execution=WorkflowExecution(workflow_id=messages.workflow_id("op")),
            maximum_page_size=count,
        )
    )
    return answer.history.events
