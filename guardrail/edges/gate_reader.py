"""What does a gate read right now, all that its evidence asks for taken into account?

A gate is a query, a query that counts its targets, and one that says when nothing means zero
(design.md §7). Here they become one `Reading`, or one named reason why there is none.
"""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace

from guardrail.decide.judge import Track, judge
from guardrail.model.gate import Gate, Judgement, Kind, Reading
from guardrail.ports import Metrics

Expected = Callable[[], Awaitable[int | None]]
"""How many targets there must be: plan - excluded - in flight. None: nobody has said."""


async def nobody_says() -> int | None:
    """No plan is there to say how many targets to expect; at least one is asked for then."""
    return None


@dataclass(frozen=True, slots=True)
class GateReader:
    """Reads one gate. `limit` bounds a whole reading, in seconds; `clock` is for its end."""

    gate: Gate
    metrics: Metrics
    limit: float
    expected: Expected = nobody_says
    source: str = ""
    clock: Callable[[], float] = time.time

    async def read(self) -> Reading:
        """One reading within `limit`; never raises."""
        try:
            async with asyncio.timeout(self.limit):
                return await self._read()
        except TimeoutError:
            return self._none("unreachable", f"{self.source}: no answer within {self.limit:g} s")
        except Exception as error:  # whatever it is, it is no evidence
            return self._none("unreachable", f"{type(error).__name__}: {error}")

    async def _read(self) -> Reading:
        value, shortage = await asyncio.gather(self._value(), self._shortage())
        if value.kind is None and shortage is not None:
            return replace(value, value=None, kind=shortage.kind, detail=shortage.detail)
        if shortage is not None and shortage.kind != value.kind:
            return replace(value, detail=f"{value.detail}; {shortage.detail}")
        return value

    async def _value(self) -> Reading:
        evidence = self.gate.evidence
        found = await self.metrics.read(self.gate.query, evidence.max_age)
        if found.kind != "no_data" or evidence.zero_when is None:
            return found
        shown = await self.metrics.read(evidence.zero_when, evidence.max_age)
        if shown.kind in (None, "ambiguous"):  # several series are data, too
            return _zero(found, shown)
        why = f"zeroWhen cannot tell ({shown.kind}: {shown.detail})"
        if shown.kind == "no_data":
            return replace(found, detail=f"{found.detail}; zeroWhen has no data either")
        return replace(found, kind=shown.kind, detail=f"{found.detail}; {why}")

    async def _shortage(self) -> Reading | None:
        """What is wrong with the targets; None: enough of them are there."""
        targets = self.gate.evidence.targets
        if targets is None:
            return None
        found = await self.metrics.read(targets.query, self.gate.evidence.max_age)
        if found.kind not in (None, "no_data"):
            return replace(found, detail=f"targets: {found.detail}")
        there = found.value or 0.0
        try:
            expected = await self.expected()
        except Exception as error:  # an unknown number is a missing one
            return self._none("targets_missing", f"how many to expect is not known: {error}")
        wanted = 1.0 if expected is None else max(1.0, targets.at_least * expected)
        if there >= wanted - 1e-9:
            return None
        of = "" if expected is None else f" of {expected}"
        needed = f"{targets.at_least:.4g} of them, {math.ceil(wanted)}," if of else "at least 1"
        return self._none("targets_missing", f"targets there: {there:g}{of}; {needed} needed")

    def _none(self, kind: Kind, detail: str) -> Reading:
        return Reading(None, kind, self.clock(), detail=detail)


def _zero(found: Reading, shown: Reading) -> Reading:
    """Nothing, while zeroWhen has data, is 0; as old as the older of the two."""
    times = [at for at in (found.sampled_at, shown.sampled_at) if at is not None]
    return Reading(
        0.0, None, shown.taken_at, min(times, default=None), "absent, and zeroWhen holds"
    )


async def follow(
    reader: GateReader, track: Track | None = None
) -> AsyncGenerator[tuple[Track, Judgement | None], None]:
    """Read the gate every `every` seconds, for ever; each reading with what it adds up to.

    A read that does not even end when its time is up is left behind and counts as `unreachable`,
    for as long as it lasts.
    """
    loop, gate = asyncio.get_running_loop(), reader.gate
    track, reading = track or Track(), None
    start = loop.time()
    try:
        while True:
            if reading is None or reading.done():
                reading = asyncio.create_task(reader.read())
            track, judgement = judge(gate, track, await _ended(reading, reader), reader.source)
            yield track, judgement
            start = max(start + gate.every, loop.time())
            await asyncio.sleep(start - loop.time())
    finally:
        if reading is not None:
            reading.cancel()


async def _ended(reading: asyncio.Task[Reading], reader: GateReader) -> Reading:
    # Not wait_for: that waits for a task which does not end when it is cancelled.
    done, _ = await asyncio.wait({reading}, timeout=reader.limit + min(0.5, reader.gate.every))
    if done and not reading.cancelled():
        return reading.result()
    reading.cancel()
    detail = f"{reader.source}: a read hangs and did not end within {reader.limit:g} s"
    return Reading(None, "unreachable", reader.clock(), detail=detail)
