"""The watcher: every gate is heard, changes are told once and in order, and silence is honest."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from guardrail.decide.judge import Trend
from guardrail.edges.gate_reader import GateReader
from guardrail.model.gate import Age, Bound, Gate, Judgement, Kind, Reading
from guardrail_workflows.watching import watch

EVERY = 0.01


def gate(name: str) -> Gate:
    return Gate(name, "", "safety", name, Bound(below=0.7), EVERY, 2, 2)


@dataclass
class Script:
    """Metrics from a list of values and kinds; the last one goes on. A kind of "hang" hangs."""

    steps: list[float | Kind | str]
    asked: int = 0

    async def read(self, query: str, max_age: Age | None = None) -> Reading:
        step = self.steps[min(self.asked, len(self.steps) - 1)]
        self.asked += 1
        if step == "hang":
            await asyncio.Event().wait()
        if isinstance(step, str):
            return Reading(None, step, self.asked, None, "scripted")  # type: ignore[arg-type]
        return Reading(step, None, self.asked, self.asked)

    async def age(self, query: str) -> float | None:
        return 0.0

    async def scrape_interval(self, query: str) -> float | None:
        return 1.0


@dataclass
class Ear:
    """Who is told: it can be deaf for a number of reports."""

    deaf: int = 0
    heard: list[tuple[str, str, str | None]] = field(default_factory=list)
    pulses: list[Sequence[Trend]] = field(default_factory=list)
    tried: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def report(self, judged: Judgement) -> None:
        self.tried += 1
        self.changed.set()
        if self.tried <= self.deaf:
            raise ConnectionError("not now")
        self.heard.append((judged.gate, judged.verdict, judged.kind))

    def heartbeat(self, trends: Sequence[Trend]) -> None:
        self.pulses.append(trends)
        self.changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                self.changed.clear()
                await self.changed.wait()


async def watched(ear: Ear, holds: Callable[[], bool], **scripts: Script) -> None:
    readers = [GateReader(gate(name), script, 0.05) for name, script in scripts.items()]
    task = asyncio.create_task(watch(readers, ear.report, ear.heartbeat))
    waiting = asyncio.create_task(ear.until(holds))
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await waiting


async def test_only_changes_are_told() -> None:
    ear, script = Ear(), Script([0.1, 0.1, 0.1, 0.1, 0.9, 0.9, 0.9, "no_data", "no_data", "stale"])
    await watched(ear, lambda: script.asked > 14, a=script)
    assert ear.heard == [
        ("a", "pass", None),
        ("a", "fail", None),
        ("a", "inconclusive", "no_data"),
        ("a", "inconclusive", "stale"),
    ]


async def test_a_gate_that_hangs_is_unreachable_while_others_go_on() -> None:
    ear, fine = Ear(), Script([0.1])
    await watched(
        ear,
        lambda: ("b", "inconclusive", "unreachable") in ear.heard and fine.asked > 10,
        a=fine,
        b=Script([0.1, 0.1, "hang"]),
    )
    assert ("b", "pass", None) in ear.heard
    assert ("a", "pass", None) in ear.heard
    last = {trend.gate: trend for trend in ear.pulses[-1]}
    assert (last["a"].verdict, last["b"].verdict) == ("pass", "inconclusive")
    assert last["b"].kind == "unreachable"


async def test_no_sign_of_life_before_a_read_has_ended() -> None:
    ear = Ear()
    await watched(ear, lambda: bool(ear.pulses), a=Script(["hang"]))
    assert ear.heard == [("a", "inconclusive", "unreachable")]


async def test_no_sign_of_life_while_a_changed_verdict_is_untold() -> None:
    ear = Ear(deaf=6)
    script = Script([0.9])
    await watched(ear, lambda: len(ear.pulses) > 2, a=script)
    assert ear.tried == 7
    assert ear.heard == [("a", "fail", None)]
    # Before it was untold (one reading is no verdict), and after it was told at last.
    assert ear.pulses[0][0].verdict == ""
    assert all(pulse[0].verdict == "fail" for pulse in ear.pulses[1:])


async def test_a_fail_that_could_not_be_told_is_told_although_it_has_passed_since() -> None:
    ear = Ear(deaf=5)
    await watched(ear, lambda: len(ear.heard) == 2, a=Script([0.9, 0.9, 0.1]))
    assert ear.heard == [("a", "fail", None), ("a", "pass", None)]


async def test_signs_of_life_carry_the_last_values() -> None:
    ear = Ear()
    await watched(ear, lambda: len(ear.pulses) > 3, a=Script([0.1, 0.2, "no_data", 0.3]))
    [told] = ear.pulses[3]
    assert told == Trend("a", "inconclusive", "no_data", (0.1, 0.2, None, 0.3))


async def test_an_error_of_the_watcher_itself_ends_it() -> None:
    def broken(_: Sequence[Trend]) -> None:
        raise ZeroDivisionError

    reader = GateReader(gate("a"), Script([0.1]), 0.05)
    with pytest.raises(ExceptionGroup) as found:
        await watch([reader], Ear().report, broken)
    assert found.group_contains(ZeroDivisionError)
