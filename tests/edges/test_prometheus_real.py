"""A real Prometheus: restarted, stopped, with holes, without its targets. No answer misleads.

The targets count up by 100 a second, so every rate but about 100 is a false one.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from prometheus_parts import SCRAPE, RealPrometheus, Target, real_prometheus, target, until

from guardrail.edges.gate_reader import GateReader, nobody_says
from guardrail.edges.prometheus import Prometheus
from guardrail.model.gate import Age, Bound, Gate, GateEvidence, Reading, Source, Targets

pytestmark = pytest.mark.real

WORK = """\
work_total {t}e2
shard{n="a"} 1
shard{n="b"} 2
odd NaN
fixed{k="x\\"y"} 1
"""
RATE = "sum(rate(work_total[2s]))"
AGE = Age(scrapes=3)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[RealPrometheus]:
    with real_prometheus(tmp_path / "prometheus") as part:
        yield part


@pytest.fixture
def work() -> Iterator[Target]:
    with target(WORK) as made:
        yield made


@pytest.fixture
async def metrics(place: RealPrometheus) -> AsyncIterator[Prometheus]:
    async with Prometheus(Source("test", place.address, timeout=1.0)) as made:
        yield made


async def readings_until(
    metrics: Prometheus, holds: Callable[[Reading], bool], query: str = RATE, limit: float = 30.0
) -> list[Reading]:
    """All readings, one every 50 ms, up to the first that `holds`."""
    found: list[Reading] = []
    end = time.monotonic() + limit
    while not found or not holds(found[-1]):
        assert time.monotonic() < end, found[-5:]
        found.append(await metrics.read(query, AGE))
        await asyncio.sleep(0.05)
    return found


def is_good(reading: Reading) -> bool:
    return reading.kind is None


def is_false(reading: Reading) -> bool:
    """A rate that is not there: a dip, or a peak. Extrapolation alone is good for 12 %."""
    return reading.value is not None and not 85 < reading.value < 115


async def settled(metrics: Prometheus, query: str = RATE) -> Reading:
    return (await readings_until(metrics, is_good, query))[-1]


async def test_a_server_just_started_warms_up_and_then_tells_the_truth(
    place: RealPrometheus, work: Target, metrics: Prometheus
) -> None:
    place.start(work)
    found = await readings_until(metrics, is_good)
    found += [await metrics.read(RATE, AGE) for _ in range(20)]
    assert "warming_up" in {reading.kind for reading in found}
    assert not [reading for reading in found if is_false(reading)]


async def test_a_hole_in_the_range_is_warming_up_and_no_false_dip(
    place: RealPrometheus, work: Target, metrics: Prometheus
) -> None:
    """Killed for 1.5 s of a 2 s range: Prometheus itself answers with half the rate."""
    place.start(work)
    await settled(metrics)
    place.end()
    down = [await metrics.read(RATE, AGE)]
    await asyncio.sleep(1.5)
    place.start(work)
    raw: list[float] = []
    found: list[Reading] = []
    good_since = time.monotonic()
    while not found or not is_good(found[-1]) or time.monotonic() < good_since + 1.0:
        answer = await asyncio.to_thread(place.ask, RATE)
        raw += [float(each["value"][1]) for each in answer]
        found.append(await metrics.read(RATE, AGE))
        if not is_good(found[-1]):
            good_since = time.monotonic()
    assert down[0].kind == "unreachable"
    assert [value for value in raw if not 85 < value < 115], "this hole would mislead nobody"
    assert not [reading for reading in found if is_false(reading)]
    assert {reading.kind for reading in found} <= {"stale", "warming_up", "no_data", None}
    assert "warming_up" in {reading.kind for reading in found}


async def test_samples_from_before_a_restart_are_stale(
    place: RealPrometheus, work: Target, metrics: Prometheus
) -> None:
    """Prometheus answers them as current for five minutes."""
    place.start(work)
    await settled(metrics, "shard{n='a'}")
    place.end()
    work.locked = True  # so that nothing is scraped afterwards
    await asyncio.sleep(4 * SCRAPE)
    with target("other 1") as elsewhere:
        place.start(elsewhere)
        raw = await asyncio.to_thread(place.ask, 'shard{n="a"}')
        reading = await metrics.read('shard{n="a"}', AGE)
        age = await metrics.age('shard{n="a"}')
    assert [each["value"][1] for each in raw] == ["1"]
    assert (reading.value, reading.kind) == (None, "stale")
    assert age is not None
    assert age > 4 * SCRAPE


async def test_an_exporter_that_repeats_an_old_time_stamp_is_stale(
    place: RealPrometheus, metrics: Prometheus
) -> None:
    with target(f"old 1 {round(time.time() * 1000)}\nnew 1") as frozen:
        place.start(frozen)
        await settled(metrics, "new")
        raw = await asyncio.to_thread(place.ask, "old")
        by_seconds = await metrics.read("max(old) + max(new)", Age(seconds=0.6))
        by_scrapes = await metrics.read("old", AGE)
    assert raw
    assert (by_seconds.value, by_seconds.kind) == (None, "stale")
    assert "of old is" in by_seconds.detail
    assert (by_scrapes.value, by_scrapes.kind) == (None, "warming_up")


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("shard", "ambiguous"),
        ("odd", "not_finite"),
        ('shard{n="a"} / 0', "not_finite"),
        ("scalar(shard)", "not_finite"),
        ("nowhere", "no_data"),
        ("sum(shard) + sum(nowhere)", "no_data"),
        ("sum(shard) or vector(0) + sum(nowhere)", "no_data"),
        ("sum(shard) > 100", "no_data"),
        ("sum(shard", "rejected_query"),
        ("shard * on(job) group_left shard", "rejected_query"),
    ],
)
async def test_what_is_no_number_has_a_name(shared: Prometheus, query: str, kind: str) -> None:
    found = await readings_until(shared, lambda reading: reading.kind == kind, query)
    assert not [reading for reading in found if reading.value is not None]
    assert found[-1].detail


@pytest.fixture(scope="module")
def module_work() -> Iterator[Target]:
    with target(WORK) as made:
        yield made


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, module_work: Target
) -> Iterator[RealPrometheus]:
    """One server for the tests that leave it as they found it."""
    with real_prometheus(tmp_path_factory.mktemp("p")) as part:
        part.start(module_work)
        until(lambda: len(part.ask("count_over_time(work_total[10s]) > 10")) == 1)
        yield part


@pytest.fixture
async def shared(running: RealPrometheus) -> AsyncIterator[Prometheus]:
    async with Prometheus(Source("test", running.address, timeout=1.0)) as made:
        yield made


async def test_values_come_from_vectors_and_bare_numbers_alike(shared: Prometheus) -> None:
    await settled(shared, 'shard{n="b"}')
    for query, value in {
        "max(shard)": 2.0,
        "scalar(max(shard)) + 1": 3.0,
        "max(shard) # a comment": 2.0,
        'fixed{k="x\\"y"}': 1.0,
        "max_over_time(sum(shard)[1s:250ms])": 3.0,
        "max(shard) + max(shard offset 500ms)": 4.0,
        'label_replace(shard{n="a"}, "z", "1", "", "")': 1.0,
    }.items():
        reading = (await readings_until(shared, is_good, query))[-1]
        assert reading.value == value, query
        assert reading.sampled_at is not None
        assert 0 <= reading.taken_at - reading.sampled_at < 1.0


async def test_a_reading_is_one_request_once_the_interval_is_known(shared: Prometheus) -> None:
    query = f"{RATE} / max(shard)"
    await settled(shared, query)
    before = shared.api.sent
    for _ in range(10):
        await shared.read(query, AGE)
    assert shared.api.sent - before == 10


async def test_the_scrape_interval_is_measured(shared: Prometheus) -> None:
    assert await shared.scrape_interval(RATE) == pytest.approx(SCRAPE, abs=0.02)
    assert await shared.scrape_interval("nowhere") is None


async def test_age_is_below_two_scrapes_and_absent_without_data(shared: Prometheus) -> None:
    age = await shared.age(RATE)
    assert age is not None
    assert 0 <= age < 2 * SCRAPE + 0.2
    assert await shared.age("nowhere") is None


async def test_a_value_never_gets_the_sample_time_of_another(shared: Prometheus) -> None:
    """The target tells its own time, so each sample's value and time stand in a fixed relation."""
    seen = {}
    end = time.monotonic() + 6 * SCRAPE
    while time.monotonic() < end or len(seen) < 4:
        reading = await shared.read("max(work_total)", AGE)
        if reading.sampled_at is None:
            continue
        assert seen.setdefault(reading.sampled_at, reading.value) == reading.value
    assert len(set(seen.values())) == len(seen)


# ---------------------------------------------------------------- gates on the real thing


def gate(query: str, **evidence: object) -> Gate:
    found = GateEvidence(max_age=AGE, **evidence)  # type: ignore[arg-type]
    return Gate("test", "", "safety", query, Bound(above=0), 0.25, 2, 2, found)


async def expecting(number: int, asked: Gate, metrics: Prometheus) -> Reading:
    async def expected() -> int | None:
        return number

    return await GateReader(asked, metrics, 2.0, expected).read()


async def test_targets_that_vanish_are_missed_although_the_value_goes_on(
    place: RealPrometheus, work: Target, metrics: Prometheus
) -> None:
    asked = gate("max(shard)", targets=Targets("count(up == 1)", at_least=0.98))
    with target(WORK) as second:
        place.start(work, second)
        await asyncio.to_thread(until, lambda: len(place.ask("work_total offset 1s")) == 2)
        whole = await expecting(2, asked, metrics)
        second.locked = True
        await asyncio.to_thread(until, lambda: place.ask("up == 0") != [])
        short = await expecting(2, asked, metrics)
        in_flight = await expecting(1, asked, metrics)
        work.locked = True
        await asyncio.to_thread(until, lambda: len(place.ask("up == 0")) == 2)
        none = await GateReader(asked, metrics, 2.0, nobody_says).read()
    assert (whole.value, whole.kind) == (2.0, None)
    assert (short.value, short.kind) == (None, "targets_missing")
    assert "1 of 2" in short.detail
    assert in_flight.value == 2.0
    assert none.kind == "no_data"


async def test_an_absent_series_is_zero_only_while_its_witness_has_data(
    shared: Prometheus,
) -> None:
    seen = gate("sum(nowhere)", zero_when="max(shard) > 1")
    unseen = gate("sum(nowhere)", zero_when="max(shard) > 100")
    odd = gate("sum(nowhere)", zero_when="odd")
    several = gate("sum(nowhere)", zero_when="shard")
    await settled(shared, "max(shard)")
    assert (await expecting(1, seen, shared)).value == 0.0
    assert (await expecting(1, several, shared)).value == 0.0
    assert (await expecting(1, unseen, shared)).kind == "no_data"
    assert (await expecting(1, odd, shared)).kind == "not_finite"


async def test_a_stopped_process_is_unreachable_within_the_read_time_out(
    running: RealPrometheus, shared: Prometheus
) -> None:
    await settled(shared)
    running.send(signal.SIGSTOP)
    try:
        start = time.monotonic()
        reading = await shared.read(RATE, AGE)
        took = time.monotonic() - start
    finally:
        running.send(signal.SIGCONT)
    assert reading.kind == "unreachable"
    assert 0.9 < took < 9.0
    found = await readings_until(shared, is_good)
    assert not [each for each in found if is_false(each)]


async def test_an_exporter_locked_out_is_no_data_at_once(
    running: RealPrometheus, shared: Prometheus, module_work: Target
) -> None:
    """Case 10: the rate goes on for a whole range, over samples from before the lock-out."""
    await settled(shared)
    module_work.locked = True
    try:
        await asyncio.to_thread(until, lambda: running.ask("up == 0") != [])
        raw = await asyncio.to_thread(running.ask, RATE)
        reading = await shared.read(RATE, AGE)
    finally:
        module_work.locked = False
    assert raw
    assert (reading.value, reading.kind) == (None, "no_data")
    await settled(shared)
