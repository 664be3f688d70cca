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
from dataclasses import dataclass

from bench.parts import Bench, Shape, running, until
from bench.rows import Row, spread
from guardrail.cli.talk import STILL
from guardrail.errors import Unanswered
from guardrail.model.messages import Said, Say

TRIES = 20
KILLS = 10
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


async def killed() -> list[Row]:
    """A worker is killed just before a pause: how much later does the answer come?"""
    times: list[float] = []
    async with running(WORKERS) as bench:
        await _begin(bench, 100, 1.5)
        for number in range(KILLS):
            await _until_flying(bench, 100)
            times.append(await _killed_once(bench, number % WORKERS))
            await bench.add_worker()
            await say(bench, "resume")
    return [
        spread(
            "pause just after a worker was killed: until it is answered",
            times,
            "s",
            note=f"one of {WORKERS} workers in turn, kill -9: about half of these kills hit "
            "the one that does not hold the workflow, and cost nothing; the slowest is what counts",
        ),
        Row("pause just after a worker was killed: slowest answer", max(times), "s", at_most=2.0),
    ]


async def _killed_once(bench: Bench, number: int) -> float:
    victim = bench.workers.pop(number)
    victim.kill()
    sent = time.monotonic()
    await say(bench, "pause")
    answered = time.monotonic()
    await victim.stop(5)
    return answered - sent
