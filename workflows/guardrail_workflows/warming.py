"""When is a host that is back warm again?

A policy names the gate that says so (`warmUp`), and how long it may take. The gate's query names
the host; it is read as any other gate is, until it passes. A host that is not warm in time is not
done: it is `unknown`, keeps its place among those away, and waits for a person. Whoever takes over
from a lost worker asks anew. Where the tier is a ring, a host that has no slot has nothing to show:
who took its slot has to (ring_watch.py).
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from guardrail.decide.coldness import warm_share
from guardrail.edges.gate_reader import GateReader, follow
from guardrail.edges.promql import fill
from guardrail.errors import Refused
from guardrail.model.budget import WarmRule
from guardrail.model.gate import Gate, Judgement, Reading
from guardrail.ports import Metrics

BEAT_EVERY = 1.0

LOOK_EVERY = 3.0
"""Seconds between two looks at the ring."""

Heartbeat = Callable[[str], None]
Serves = Callable[[], Awaitable[bool]]
Tell = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Warmth:
    """What one host must show: the reader of a gate that is about it, and within how long."""

    reader: GateReader
    within: float


def warmth(
    rule: WarmRule, host: str, gate: Gate, metrics: Metrics, *, limit: float, source: str
) -> Warmth:
    """What this host must show. limit: seconds that one read may take.

    Raises Refused where the gate is not the one that was planned with, or cannot name the host.
    """
    if rule.digest != gate.digest:
        raise Refused(f"gate {gate.name} was changed after the plan was made; make a new plan")
    about = replace(gate, query=fill(gate.query, {"host": host}))
    return Warmth(GateReader(about, metrics, limit, source=source), rule.within)


async def cold_still(
    all_of: Sequence[Warmth],
    heartbeat: Heartbeat,
    serves: Serves | None = None,
    tell: Tell | None = None,
    told: int | None = 0,
) -> str:
    """Wait until the host has shown all; why it is cold still, or nothing once it is warm.

    serves: whether it has a slot of its tier's ring; without one it has nothing to show. tell: how
    warm it is, in percent, each time that changes; tried again if it raises. told: what has been
    told of it; None: nobody knows.
    """
    shown = [0] * len(all_of)
    waits = [asyncio.create_task(_shown(one, at, shown)) for at, one in enumerate(all_of)]
    try:
        left, look_at = set(waits), 0.0
        while left:
            heartbeat("warm")
            if tell is not None and (percent := min(shown)) != told:
                with contextlib.suppress(Exception):
                    await tell(percent)
                    told = percent
            if serves is not None and time.monotonic() >= look_at:
                if not await serves():
                    return ""
                look_at = time.monotonic() + LOOK_EVERY
            done, left = await asyncio.wait(left, timeout=BEAT_EVERY)
            for each in done:
                if each.result():
                    return each.result()
        return ""
    finally:
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def until_warm(all_of: Sequence[Warmth], since: float) -> None:
    """Wait until every gate has passed on samples taken after `since` (seconds since the epoch),
    however long that takes."""
    await asyncio.gather(*(_passed(_Since.of(one.reader, since)) for one in all_of))


async def _passed(reader: GateReader) -> None:
    async with aclosing(follow(reader)) as readings:
        async for _, judged in readings:
            if judged is not None and judged.verdict == "pass":
                return


@dataclass(frozen=True, slots=True)
class _Since(GateReader):
    """A gate that takes only samples that are newer than a moment for evidence."""

    since: float = 0.0

    @classmethod
    def of(cls, one: GateReader, since: float) -> "_Since":
        """That gate, from then on."""
        return cls(one.gate, one.metrics, one.limit, one.expected, one.source, one.clock, since)

    async def read(self) -> Reading:
        found = await GateReader.read(self)
        if found.kind is None and (found.sampled_at is None or found.sampled_at < self.since):
            why = "its samples are from before it took the slot"
            return replace(found, value=None, kind="stale", detail=why)
        return found


async def _shown(one: Warmth, at: int, shown: list[int]) -> str:
    """Nothing once the gate passes; after its time, what it said last. shown: how warm it is by
    each gate, this one's at `at`."""
    last: list[Judgement] = []
    try:
        async with asyncio.timeout(one.within), aclosing(follow(one.reader)) as readings:
            async for _, judged in readings:
                last = last if judged is None else [judged]
                shown[at] = warm_share(one.reader.gate, judged)
                if judged is not None and judged.verdict == "pass":
                    return ""
    except TimeoutError:
        pass
    said = "; ".join(last[0].reasons) if last else "it was not judged once"
    return f"gate {one.reader.gate.name} has not passed within {one.within:g} s: {said}"
