"""When is a host that is back warm again?

A policy names the gate that says so (`warmUp`), and how long it may take. The gate's query names
the host; it is read as any other gate is, until it passes. A host that is not warm in time is not
done: it is `unknown`, keeps its place among those away, and waits for a person. Whoever takes over
from a lost worker asks anew.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from guardrail.edges.gate_reader import GateReader, follow
from guardrail.edges.promql import fill
from guardrail.errors import Refused
from guardrail.model.budget import WarmRule
from guardrail.model.gate import Gate, Judgement
from guardrail.ports import Metrics

BEAT_EVERY = 1.0

Heartbeat = Callable[[str], None]


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


async def cold_still(all_of: Sequence[Warmth], heartbeat: Heartbeat) -> str:
    """Wait until the host has shown all; why it is cold still, or nothing once it is warm."""
    waits = [asyncio.create_task(_shown(one)) for one in all_of]
    try:
        left = set(waits)
        while left:
            heartbeat("warm")
            done, left = await asyncio.wait(left, timeout=BEAT_EVERY)
            for each in done:
                if each.result():
                    return each.result()
        return ""
    finally:
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _shown(one: Warmth) -> str:
    """Nothing once the gate passes; after its time, what it said last."""
    last: list[Judgement] = []
    try:
        async with asyncio.timeout(one.within), aclosing(follow(one.reader)) as readings:
            async for _, judged in readings:
                last = last if judged is None else [judged]
                if judged is not None and judged.verdict == "pass":
                    return ""
    except TimeoutError:
        pass
    said = "; ".join(last[0].reasons) if last else "it was not judged once"
    return f"gate {one.reader.gate.name} has not passed within {one.within:g} s: {said}"
