"""What does the engine itself cost for each host, and does that grow with the fleet?

The real workflow, plan store and permits on an embedded server (database in a WAL file), hosts
that answer at once. While the largest fleet is changed, its status is asked for as a person would.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.parts import Bench, Sampler, Shape, running, sampled
from bench.rows import Row, spread
from guardrail.edges.temporal import ANSWER
from guardrail.errors import Unanswered
from guardrail.model import messages

FLEETS = (1_000, 10_000, 100_000)
PAST = 2_000
"""Operations that have ended, for `rollout list`."""
AT_ONCE = 24
LISTS = 5
GROWTH = "engine: time of 100,000 hosts over time of 10,000"


@dataclass(frozen=True, slots=True)
class Runs:
    """What the histories of one operation's runs amount to."""

    count: int
    events: int
    most_events: int
    most_bytes: int


@dataclass
class Asked:
    """How long status and explain took while the operation ran, in seconds. One that got no answer
    counts with the time after which nobody waits for it any more."""

    status: list[float] = field(default_factory=list)
    explain: list[float] = field(default_factory=list)


async def measure(count: int) -> list[Row]:
    """One operation over so many hosts, from start to end."""
    async with running() as bench:
        server, worker = bench.server.pid, bench.workers[0].pid
        async with sampled(server, worker) as sampler:
            began, asked = time.monotonic(), Asked()
            await bench.begin("op", Shape(count))
            asking = asyncio.create_task(_ask(bench, "op", asked))
            status = await bench.ended("op", 1200)
            took = time.monotonic() - began
            asking.cancel()
        if status.changed != count:
            raise RuntimeError(f"{status.changed} of {count} hosts changed: {status.sentence}")
        runs = await runs_of(bench, "op")
        database = sum(path.stat().st_size for path in bench.folder.glob("temporal.db*"))
    return _rows(count, took, runs, asked, sampler, (server, worker), database)


def _rows(
    count: int,
    took: float,
    runs: Runs,
    asked: Asked,
    sampler: Sampler,
    pids: tuple[int, int],
    database: int,
) -> list[Row]:
    name, (server, worker) = f"engine, {count:,} hosts", pids
    cost = [sampler.processor[pid] / count * 1000 for pid in pids]
    note = (
        f"{count / took:,.0f} hosts/s, 50 in flight, one activity a host, 5 waves; WAL file of "
        f"{database / 1e6:.0f} MB; per host {cost[0]:.2f} ms of the server's and {cost[1]:.2f} ms "
        f"of the worker's processor, {runs.events / count:.2f} events; {runs.count} runs"
    )
    limit = 240.0 if count == 100_000 else None
    rows = [
        Row(f"{name}: time", took, "s", at_most=limit, note=note),
        Row(f"{name}: longest history", runs.most_events, "events", at_most=32_000),
        Row(f"{name}: largest history", runs.most_bytes / 1e6, "MB", at_most=10),
    ]
    for part, pid, most in (("worker", worker, 400), ("server", server, None)):
        peak = max(sampler.memory[pid])
        over = f"at start, quarters and end: {sampler.over_time(pid)} MB"
        rows.append(Row(f"{name}: {part}'s memory", peak, "MB", at_most=most, note=over))
    for what, times in (("status", asked.status), ("explain", asked.explain)):
        if times:
            lost = sum(time >= ANSWER for time in times)
            note = f"asked every 2 s; {lost} got no answer within {ANSWER:g} s"
            rows.append(spread(f"{name}: {what} while it runs", times, "s", note=note))
    return rows


def growth(rows: Sequence[Row]) -> list[Row]:
    """How much longer ten times the hosts take, where both were measured on a quiet machine."""
    times = {row.name: row for row in rows if row.quiet}
    small = times.get("engine, 10,000 hosts: time")
    large = times.get("engine, 100,000 hosts: time")
    if small is None or large is None:
        return []
    ratio = large.value / small.value
    return [replace(large, name=GROWTH, value=ratio, unit="times", at_most=11.0, note="")]


async def _ask(bench: Bench, name: str, asked: Asked) -> None:
    """Ask for status and explanation every two seconds, as `watch` and a person would."""
    while True:
        await asyncio.sleep(2.0)
        asked.status.append(await _patiently(lambda: bench.operations.status(name)))
        asked.explain.append(await _patiently(lambda: bench.operations.explain(name)))


async def _patiently(call: Callable[[], Awaitable[object]]) -> float:
    """Seconds that a question takes; at least its time-out where no answer comes."""
    began = time.monotonic()
    try:
        return await timed(call)
    except Unanswered:
        return max(ANSWER, time.monotonic() - began)


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """Seconds that a call takes."""
    began = time.monotonic()
    await call()
    return time.monotonic() - began


async def runs_of(bench: Bench, name: str) -> Runs:
    """The histories of all runs of an operation, by the server's own count."""
    client = bench.operations.client
    query = f"WorkflowId = '{messages.workflow_id(name)}'"
    await asyncio.sleep(1.0)  # the list is a little behind
    counts, sizes = [], []
    async for run in client.list_workflows(query):
        described = await client.get_workflow_handle(run.id, run_id=run.run_id).describe()
        info = described.raw_description.workflow_execution_info
        counts.append(info.history_length)
        sizes.append(info.history_size_bytes)
    return Runs(len(counts), sum(counts), max(counts), max(sizes))


# ---------------------------------------------------------------- many past operations


async def past() -> list[Row]:
    """How long `rollout list` takes once thousands of operations have ended."""
    async with running() as bench:
        began = time.monotonic()
        await _many(bench)
        each = (time.monotonic() - began) / PAST
        await bench.begin("open", Shape(50, in_flight=1, takes=2.0))
        lists = [await timed(bench.operations.all) for _ in range(LISTS)]
        found = len(await bench.operations.all(ended=PAST))
        every = [await timed(lambda: bench.operations.all(ended=PAST)) for _ in range(LISTS)]
        command = [await asyncio.to_thread(_list_command, bench.address) for _ in range(LISTS)]
    name = f"rollout list, {PAST:,} past operations"
    note = f"an operation of one host, start to end: {each * 1000:.0f} ms with {AT_ONCE} at once"
    return [
        spread(f"{name}: open ones and the last 20", lists, "s", note=note),
        spread(f"{name}: all {found:,} of them", every, "s"),
        spread(f"{name}: the command as a person runs it", command, "s"),
    ]


async def _many(bench: Bench) -> None:
    names = iter([f"past-{n:05d}" for n in range(PAST)])

    async def work() -> None:
        for name in names:
            await bench.begin(name, Shape(1, stages=("100%",), bake_for=0.0))
            await bench.ended(name, 120)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def _list_command(address: str) -> float:
    program = str(Path(sys.executable).with_name("guardrail"))
    began = time.monotonic()
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [program, "rollout", "list"],
            env={"PATH": "/usr/bin:/bin", "TEMPORAL_ADDRESS": address},
            capture_output=True,
            check=True,
            timeout=60,
        )
    return time.monotonic() - began
