"""A gate becomes one reading: targets, zeroWhen and time-outs each do what they say."""

import asyncio
from contextlib import aclosing

import pytest

from guardrail.edges.gate_reader import Expected, GateReader, follow, nobody_says
from guardrail.model.gate import Age, Bound, Gate, GateEvidence, Kind, Reading, Targets
from guardrail.ports import Metrics
from guardrail.twins import TwinMetrics

TARGETS = Targets("there", at_least=0.98)


def gate(every: float = 1.0, **evidence: object) -> Gate:
    found = GateEvidence(max_age=Age(seconds=3.0), **evidence)  # type: ignore[arg-type]
    return Gate("margin", "", "safety", "q", Bound(below=0.7), every, 2, 2, found)


def value(number: float, at: float = 99.5) -> Reading:
    return Reading(number, None, 100.0, at)


def nothing(kind: Kind, at: float | None = None) -> Reading:
    return Reading(None, kind, 100.0, at, f"because of {kind}")


def says(number: int | None) -> Expected:
    async def expected() -> int | None:
        return number

    return expected


async def read(asked: Gate, expected: Expected = nobody_says, **table: Reading) -> Reading:
    return await GateReader(asked, TwinMetrics(table), 1.0, expected).read()


@pytest.mark.parametrize(
    ("there", "expected", "kind"),
    [
        (24, 24, None),
        (23, 24, "targets_missing"),
        (99, 100, None),
        (98, 100, None),
        (97, 100, "targets_missing"),
        (1, 1, None),
        (0, 0, "targets_missing"),
        (1, None, None),
        (0, None, "targets_missing"),
    ],
)
async def test_at_least_98_percent_of_the_expected_targets(
    there: int, expected: int | None, kind: Kind | None
) -> None:
    found = await read(gate(targets=TARGETS), says(expected), q=value(0.1), there=value(there))
    assert found.kind == kind
    assert (found.value is None) == (kind is not None)


async def test_an_empty_count_of_targets_is_none_at_all() -> None:
    found = await read(gate(targets=TARGETS), says(3), q=value(0.1))
    assert (found.value, found.kind) == (None, "targets_missing")
    assert "0 of 3" in found.detail


@pytest.mark.parametrize("kind", ["stale", "throttled", "ambiguous", "unreachable", "not_finite"])
async def test_a_count_that_cannot_be_trusted_spoils_the_reading_by_its_name(kind: Kind) -> None:
    found = await read(gate(targets=TARGETS), says(3), q=value(0.1), there=nothing(kind))
    assert (found.value, found.kind) == (None, kind)
    assert found.detail.startswith("targets: ")


async def test_what_is_wrong_with_the_value_comes_before_its_targets() -> None:
    found = await read(gate(targets=TARGETS), says(3), q=nothing("stale"), there=value(1))
    assert found.kind == "stale"
    assert "1 of 3" in found.detail


async def test_an_unknown_number_of_expected_targets_is_no_evidence() -> None:
    async def broken() -> int | None:
        raise RuntimeError("the operation does not answer")

    found = await read(gate(targets=TARGETS), broken, q=value(0.1), there=value(3))
    assert (found.value, found.kind) == (None, "targets_missing")
    assert "the operation does not answer" in found.detail


@pytest.mark.parametrize(
    ("witness", "number", "kind"),
    [
        (value(5.0), 0.0, None),
        (nothing("ambiguous", 99.0), 0.0, None),
        (nothing("no_data"), None, "no_data"),
        (nothing("stale"), None, "stale"),
        (nothing("not_finite", 99.0), None, "not_finite"),
        (nothing("unreachable"), None, "unreachable"),
        (value(5.0, at=90.0), None, "stale"),
    ],
)
async def test_absent_is_zero_only_while_the_witness_has_fresh_data(
    witness: Reading, number: float | None, kind: Kind | None
) -> None:
    found = await read(gate(zero_when="w"), q=nothing("no_data"), w=witness)
    assert (found.value, found.kind) == (number, kind)


@pytest.mark.parametrize("kind", ["stale", "warming_up", "ambiguous", "not_finite", "partial"])
async def test_only_an_empty_answer_can_be_zero(kind: Kind) -> None:
    found = await read(gate(zero_when="w"), q=nothing(kind), w=value(5.0))
    assert (found.value, found.kind) == (None, kind)


async def test_a_zero_is_as_old_as_its_oldest_sample() -> None:
    both = await read(gate(zero_when="w"), q=nothing("no_data", 98.0), w=value(5.0, at=99.0))
    alone = await read(gate(zero_when="w"), q=nothing("no_data"), w=value(5.0, at=99.0))
    assert (both.sampled_at, alone.sampled_at) == (98.0, 99.0)


async def test_without_zero_when_absent_stays_absent() -> None:
    assert (await read(gate())).kind == "no_data"


class Stuck(TwinMetrics):
    """Metrics that never answer, and may even refuse to be cancelled."""

    stubborn = False
    released = asyncio.Event()
    asked = 0

    async def read(self, query: str, max_age: Age | None = None) -> Reading:
        self.asked += 1
        while True:
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise
            else:
                return await super().read(query, max_age)


class Broken(TwinMetrics):
    async def read(self, query: str, max_age: Age | None = None) -> Reading:
        raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("metrics", [Stuck({}), Broken({})])
async def test_a_hang_or_a_bug_is_unreachable_and_never_raised(metrics: Metrics) -> None:
    found = await GateReader(gate(), metrics, 0.05).read()
    assert (found.value, found.kind) == (None, "unreachable")


async def test_following_counts_on_through_readings() -> None:
    table = {"q": value(0.1, at=99.0)}
    reader = GateReader(gate(every=0.01), TwinMetrics(table), 1.0)
    seen = []
    async with aclosing(follow(reader)) as found:
        async for _, judged in found:
            seen.append(judged.verdict if judged else None)
            table["q"] = value(0.1, at=99.0 + len(seen) / 10)
            if len(seen) == 2:
                break
    assert seen == [None, "pass"]


async def test_a_read_that_will_not_even_be_cancelled_is_unreachable_until_it_ends() -> None:
    metrics = Stuck({"q": value(0.1)})
    metrics.stubborn, metrics.released = True, asyncio.Event()
    reader = GateReader(gate(every=0.02), metrics, 0.02)
    seen = []
    try:
        async with asyncio.timeout(10), aclosing(follow(reader)) as found:
            async for track, _ in found:
                seen.append(track.readings[-1].kind)
                if len(seen) == 3:
                    assert metrics.asked == 1, "a hanging read is not asked again beside itself"
                    metrics.released.set()
                if seen[-1] is None:
                    break
    finally:
        metrics.released.set()
    assert seen[:3] == ["unreachable"] * 3
    assert seen[-1] is None
