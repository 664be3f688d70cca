"""A gate's readings become a verdict: each rule, each peer's trap, and what always holds."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide.judge import (
    KEPT,
    LONGEST_SCRAPE,
    Track,
    differs,
    judge,
    judge_once,
    pending,
    trend,
)
from guardrail.model.gate import Age, Bound, Gate, GateEvidence, Judgement, Kind, Reading

MARGIN = Gate("margin", "", "safety", "q", Bound(below=0.7), every=2.0, fail_after=2, pass_after=3)


def sample(value: float, at: float, taken: float | None = None) -> Reading:
    return Reading(value, None, at + 0.1 if taken is None else taken, at)


def nothing(kind: Kind, at: float, detail: str = "") -> Reading:
    return Reading(None, kind, at, None, detail)


def after(*readings: Reading, gate: Gate = MARGIN) -> tuple[Track, Judgement | None]:
    track, judgement = Track(), None
    for reading in readings:
        track, judgement = judge(gate, track, reading)
    return track, judgement


def verdict(*readings: Reading, gate: Gate = MARGIN) -> str | None:
    _, judgement = after(*readings, gate=gate)
    return None if judgement is None else judgement.verdict


def good(*times: float) -> list[Reading]:
    return [sample(0.1, at) for at in times]


def bad(*times: float) -> list[Reading]:
    return [sample(0.9, at) for at in times]


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([], None),
        (good(1, 2), None),
        (good(1, 2, 3), "pass"),
        (bad(1), None),
        (bad(1, 2), "fail"),
        ([*good(1, 2, 3), *bad(4)], "pass"),
        ([*good(1, 2, 3), *bad(4, 5)], "fail"),
        ([*good(1, 2, 3), *bad(4), *good(5), *bad(6)], "pass"),
        ([*bad(1, 2), *good(3, 4)], "fail"),
        ([*bad(1, 2), *good(3, 4), *bad(5), *good(6, 7)], "fail"),
        ([*bad(1, 2), *good(3, 4, 5)], "pass"),
        ([*good(1, 2), *bad(3), *good(4, 5)], None),
        ([*good(1, 1, 1, 1, 2)], None),
        ([*bad(1, 1, 1)], None),
        ([*good(1, 2), *bad(2), *good(3)], "pass"),
        ([*good(3, 2, 1)], None),
        ([nothing("no_data", 1)], "inconclusive"),
        ([*good(1, 2, 3), nothing("stale", 4)], "inconclusive"),
        ([nothing("partial", 1), *good(2, 3)], "inconclusive"),
        ([nothing("partial", 1), *good(2, 3, 4)], "pass"),
        ([nothing("partial", 1), *bad(2)], "inconclusive"),
        ([nothing("partial", 1), *bad(2, 3)], "fail"),
        ([*good(1, 2), nothing("no_data", 3), *good(4)], "inconclusive"),
        ([*good(1, 2, 3), nothing("no_data", 4), *good(3, 3, 3)], "inconclusive"),
        ([*bad(1, 2), nothing("unreachable", 3), *good(4, 5)], "inconclusive"),
    ],
)
def test_verdict_after(readings: list[Reading], expected: str | None) -> None:
    assert verdict(*readings) == expected


@pytest.mark.parametrize(
    ("reading", "kind"),
    [
        (sample(math.nan, 1.0), "not_finite"),
        (sample(math.inf, 1.0), "not_finite"),
        (sample(-math.inf, 1.0), "not_finite"),
        (Reading(None, None, 1.0, 1.0), "no_data"),
        (Reading(0.1, None, 1.0, None), "stale"),
        (Reading(0.1, None, 1.0, math.nan), "stale"),
        (Reading(0.1, "partial", 1.0, 1.0), "partial"),
    ],
)
def test_what_is_no_evidence_has_a_name_and_no_value(reading: Reading, kind: str) -> None:
    judged = judge_once(replace(MARGIN, bound=Bound(above=-1.0)), reading)
    assert (judged.verdict, judged.kind, judged.value) == ("inconclusive", kind, None)


def test_a_sample_repeated_for_longer_than_its_age_allows_becomes_stale() -> None:
    gate = replace(MARGIN, evidence=GateEvidence(max_age=Age(seconds=5.0)))
    frozen = [sample(0.1, 3.0, taken) for taken in (3.0, 5.0, 7.0, 8.0)]
    assert verdict(*good(1, 2), *frozen, gate=gate) == "pass"
    _, judged = after(*good(1, 2), *frozen, sample(0.1, 3.0, 8.1), gate=gate)
    assert judged is not None
    assert (judged.verdict, judged.kind) == ("inconclusive", "stale")


def test_by_scrapes_the_samples_own_distances_tell_when_a_repeat_is_stale() -> None:
    gate = replace(MARGIN, evidence=GateEvidence(max_age=Age(scrapes=3.0)))
    start = good(15, 30, 45)
    assert verdict(*start, sample(0.1, 45.0, 89.0), gate=gate) == "pass"
    assert verdict(*start, sample(0.1, 45.0, 91.0), gate=gate) == "inconclusive"


def test_a_first_sample_repeated_for_ever_is_stale_too() -> None:
    gate = replace(MARGIN, pass_after=1)
    limit = 3 * LONGEST_SCRAPE
    assert verdict(sample(0.1, 0.0, 0.0), sample(0.1, 0.0, limit - 1), gate=gate) == "pass"
    assert verdict(sample(0.1, 0.0, 0.0), sample(0.1, 0.0, limit + 1), gate=gate) == "inconclusive"


def test_samples_of_two_jobs_soon_and_long_after_each_other_are_not_stale() -> None:
    """Two jobs scraped every 15 s, one second apart: the oldest sample moves by 1 s, then 14 s."""
    times = [0.0, 1.0, 15.0, 16.0, 30.0, 31.0]
    readings = [sample(0.1, at, at) for at in times]
    assert verdict(*readings, sample(0.1, 31.0, 44.9)) == "pass"


def test_a_clock_that_was_ahead_costs_one_stale_reading_and_not_for_ever() -> None:
    ahead = good(1001, 1002, 1003)
    back = [sample(0.1, at, 994.0 + at) for at in (10.0, 11.0, 12.0, 13.0)]
    track, judged = after(*ahead, back[0])
    assert judged is not None
    assert judged.kind == "stale"
    assert verdict(*ahead, *back) == "pass"
    assert track.sampled_at == 10.0


def test_reasons_say_how_far_the_way_to_the_other_verdict_is() -> None:
    _, passing = after(*good(1, 2, 3), *bad(4))
    assert passing is not None
    assert passing.reasons[:2] == (
        "0.9 is not below 0.7",
        "still pass: 1 of 2 bad readings in a row",
    )
    track, failing = after(*bad(1, 2), *good(3))
    assert failing is not None
    assert failing.reasons[1] == "still fail: 1 of 3 good readings in a row"
    assert pending(MARGIN, track) == "1 of 3 good readings in a row"


def test_reasons_keep_the_name_of_what_was_wrong_until_evidence_is_back() -> None:
    _, judged = after(nothing("throttled", 1, "too many requests"), *good(2))
    assert judged is not None
    assert judged.kind == "throttled"
    assert judged.reasons == (
        "evidence is back, 1 of 3 good readings in a row",
        "before that throttled: too many requests",
    )


def test_a_changed_kind_is_news_and_another_value_is_not() -> None:
    _, one = after(nothing("stale", 1))
    _, other = after(nothing("no_data", 1))
    _, again = after(nothing("no_data", 2))
    assert differs(None, one)
    assert differs(one, other)
    assert not differs(other, again)
    assert not differs(None, None)


def test_a_trend_carries_the_last_twelve_values() -> None:
    track, _ = after(*good(*range(1, 20)), nothing("stale", 30))
    told = trend("margin", track)
    assert (told.verdict, told.kind, len(told.values)) == ("inconclusive", "stale", KEPT)
    assert told.values[-2:] == (0.1, None)
    assert trend("margin", Track()).verdict == ""


# ---------------------------------------------------------------- cases from the peers


def test_case_1_no_measurement_but_errors_never_passes_and_all_are_listed() -> None:
    """argo#4479: the run is cut short after errors and failures."""
    gate = replace(MARGIN, every=30.0, pass_after=5, fail_after=5)
    readings = [nothing("unreachable", 0), *bad(30), nothing("no_data", 60), *bad(90, 120)]
    _, judged = after(*readings, gate=gate)
    assert judged is not None
    assert judged.verdict == "inconclusive"
    assert [reading.value for reading in judged.readings] == [None, 0.9, None, 0.9, 0.9]


def test_case_2_a_value_outside_the_bound_never_passes_however_long_it_lasts() -> None:
    """argo#3850: pass below 300, the value stays at 350; a timer behind it changes nothing."""
    gate = replace(MARGIN, bound=Bound(below=300.0), fail_after=10_000)
    readings = [sample(350.0, float(at)) for at in range(2_000)]
    assert verdict(*readings, gate=gate) is None
    assert verdict(*readings, gate=replace(gate, fail_after=2)) == "fail"


@pytest.mark.parametrize("kind", ["no_data", "not_finite"])
def test_case_3_an_empty_answer_or_nan_is_inconclusive_by_name(kind: Kind) -> None:
    """argo#1466, #180."""
    _, judged = after(*good(1, 2, 3), nothing(kind, 4))
    assert judged is not None
    assert (judged.verdict, judged.kind) == ("inconclusive", kind)


def test_case_10_metrics_that_vanish_under_load_are_not_low_load() -> None:
    """MariaDB at max_connections locks its exporter out: the gate was passing until then."""
    busy = [sample(value, at) for value, at in ((0.4, 1.0), (0.5, 2.0), (0.65, 3.0))]
    assert verdict(*busy) == "pass"
    assert verdict(*busy, nothing("no_data", 4)) == "inconclusive"


# ---------------------------------------------------------------- what always holds

KINDS: list[Kind] = ["no_data", "stale", "unreachable", "partial", "targets_missing"]
steps = st.one_of(
    st.tuples(st.sampled_from([0.1, 0.9, 0.7, math.nan, math.inf]), st.integers(-2, 4)),
    st.sampled_from(KINDS),
)
gates = st.builds(
    lambda f, p, age: replace(
        MARGIN, fail_after=f, pass_after=p, evidence=GateEvidence(max_age=age)
    ),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([Age(seconds=3.0), Age(scrapes=3.0)]),
)
walks = st.lists(steps, max_size=40)


def played(walk: list[tuple[float, int] | Kind]) -> list[Reading]:
    """One reading a second; a step's number moves its sample time, back too."""
    readings, at = [], 100.0
    for number, step in enumerate(walk):
        now = 100.0 + number
        if isinstance(step, str):
            readings.append(nothing(step, now))
        else:
            at += step[1]
            readings.append(sample(step[0], at, now))
    return readings


def last_inconclusive(gate: Gate, readings: list[Reading]) -> int:
    """The number of readings up to and with the last that was no evidence."""
    found, track = 0, Track()
    for number, reading in enumerate(readings, 1):
        track, _ = judge(gate, track, reading)
        if track.readings[-1].kind:
            found = number
    return found


@given(gates, walks)
def test_no_verdict_without_enough_distinct_samples_since_the_last_doubt(
    gate: Gate, walk: list[tuple[float, int] | Kind]
) -> None:
    readings = played(walk)
    _, judged = after(*readings, gate=gate)
    if judged is None or judged.verdict == "inconclusive":
        return
    since = readings[last_inconclusive(gate, readings) :]
    holds = judged.verdict == "pass"
    needed = gate.pass_after if holds else gate.fail_after
    kept = {
        r.sampled_at
        for r in since
        if r.value is not None and math.isfinite(r.value) and gate.bound.holds(r.value) == holds
    }
    assert len(kept) >= needed


@given(gates, walks)
def test_a_reading_without_a_finite_value_is_always_inconclusive(
    gate: Gate, walk: list[tuple[float, int] | Kind]
) -> None:
    track = Track()
    for reading in played(walk):
        track, judged = judge(gate, track, reading)
        if reading.value is None or not math.isfinite(reading.value):
            assert judged is not None
            assert judged.verdict == "inconclusive"


@given(gates, walks, st.data())
def test_reading_a_sample_twice_changes_no_verdict(
    gate: Gate, walk: list[tuple[float, int] | Kind], data: st.DataObject
) -> None:
    readings = played(walk)
    doubled = [r for reading in readings for r in [reading] * data.draw(st.integers(1, 3))]
    assert verdict(*readings, gate=gate) == verdict(*doubled, gate=gate)


@given(gates, walks)
def test_a_kind_goes_with_inconclusive_and_with_nothing_else(
    gate: Gate, walk: list[tuple[float, int] | Kind]
) -> None:
    track = Track()
    for reading in played(walk):
        track, judged = judge(gate, track, reading)
        assert len(track.readings) <= KEPT
        if judged is not None:
            assert (judged.kind is not None) == (judged.verdict == "inconclusive")
            assert judged.reasons


@given(gates, st.integers(1, 30), st.booleans())
def test_enough_good_evidence_always_ends_in_a_pass(gate: Gate, before: int, doubt: bool) -> None:
    """Progress: whatever was before, pass_after good samples in a row pass."""
    start = [nothing("no_data", 1.0)] * doubt + bad(*(100.0 + at for at in range(before)))
    fresh = good(*(200.0 + at for at in range(gate.pass_after)))
    assert verdict(*start, *fresh, gate=gate) == "pass"
