"""Is a checklist as good as its worst answer, and does a lock cover the peak with its tail?"""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide.checking import (
    beside,
    checked,
    peak_after,
    questions,
    report,
    without_peak,
    worst,
)
from guardrail.decide.judge import judge_once
from guardrail.model.checklist import Answers, Checked, Checklist, Item, Locked, Plain
from guardrail.model.gate import Age, Bound, Gate, Reading
from guardrail.model.occasion import Moment

HOUR = 3600.0
AGE = Age(seconds=60)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


PEAK = Moment("2027", at("2027-01-04T14:00"), at("2027-01-09T14:00"), -480, "back", "UTC")
LOCK = Item("lock", "locked", Locked("since", "until", 2 * HOUR, 6 * HOUR), AGE)
ROOM = Item("room", "room", Plain("q", Bound(above=5)), AGE)
SECOND = Item("two", "second", Answers("a", "b", "q", Bound(above=0)), AGE)


def nobody(name: str) -> Gate:
    raise AssertionError(name)


def answered(item: Item, *values: float | None) -> tuple[Checked, ...]:
    """The item's queries, read now: None has no data."""
    asked = questions(item, PEAK, nobody)
    readings = [
        Reading(value, None if value is not None else "no_data", 10.0, 9.0) for value in values
    ]
    return tuple(
        checked(question, judge_once(question.gate, reading, "http://p"))
        for question, reading in zip(asked, readings, strict=True)
    )


# ---------------------------------------------------------------- locks


@pytest.mark.parametrize(
    ("since", "until", "verdicts"),
    [
        ("2027-01-04T12:00", "2027-01-09T20:00", ("pass", "pass")),  # to the minute
        ("2027-01-04T12:01", "2027-01-09T20:00", ("fail", "pass")),
        ("2027-01-04T12:00", "2027-01-09T19:59", ("pass", "fail")),
        ("2026-12-01T00:00", "2027-02-01T00:00", ("pass", "pass")),
        ("2027-01-04T14:00", "2027-01-09T14:00", ("fail", "fail")),  # the peak, and no more
    ],
)
def test_a_lock_must_reach_from_before_the_peak_to_after_its_tail(
    since: str, until: str, verdicts: tuple[str, str]
) -> None:
    found = answered(LOCK, at(since), at(until))
    assert tuple(each.verdict for each in found) == verdicts
    assert [each.part for each in found] == ["since", "until"]


def test_how_much_a_lock_falls_short_is_said() -> None:
    since, until = answered(LOCK, at("2027-01-04T13:30"), at("2027-01-09T14:00"))
    assert since.reasons == ("locked since 2027-01-04 13:30:00Z: 1 h 30 min too late",)
    assert since.bound == "locked by 2027-01-04 12:00:00Z"
    assert until.reasons == ("locked until 2027-01-09 14:00:00Z: 6 h too early",)
    assert until.bound == "locked until 2027-01-09 20:00:00Z at least"


@pytest.mark.parametrize("value", [0.0, 1.8e12])
def test_what_is_no_time_locks_nothing(value: float) -> None:
    for each in answered(LOCK, value, value):
        assert (each.verdict, each.reasons) == (
            "fail",
            (f"{value:g} is no time in seconds since the epoch",),
        )


def test_a_lock_without_a_peak_is_inconclusive() -> None:
    assert questions(LOCK, None, nobody) == ()
    found = without_peak(LOCK, 5.0)
    assert (found.verdict, found.kind) == ("inconclusive", "no_data")
    assert "no peak is known within a year" in found.reasons[0]


# ---------------------------------------------------------------- verdicts

VERDICTS = st.sampled_from(["pass", "fail", "inconclusive"])


@given(st.lists(VERDICTS, max_size=9))
def test_inconclusive_is_never_a_pass(verdicts) -> None:
    """A list passes when everything on it does, and there is something on it; it fails when
    anything fails."""
    found = worst(verdicts)
    assert (found == "pass") == (bool(verdicts) and set(verdicts) == {"pass"})
    assert (found == "fail") == ("fail" in verdicts)


@given(st.sets(st.sampled_from(["room", "lock", "two"])))
def test_an_item_that_nobody_answered_is_no_pass(there) -> None:
    """Whatever answers are missing, the report is not a pass."""
    checklist = Checklist("c", "0 9 * * *", "UTC", (ROOM, LOCK, SECOND))
    answers = [*answered(ROOM, 9.0), *answered(LOCK, 9e8, 4e9), *answered(SECOND, 1.0)]
    kept = [each for each in answers if each.item in there]
    assert report(checklist, 0.0, PEAK, kept).verdict == (
        "pass" if there == {"room", "lock", "two"} else "inconclusive"
    )


def test_an_answer_says_value_bound_and_reason() -> None:
    (found,) = answered(ROOM, 3.0)
    assert (found.verdict, found.value, found.bound) == ("fail", 3.0, "above 5")
    assert found.reasons == ("3 is not above 5",)
    (found,) = answered(ROOM, None)
    assert (found.verdict, found.kind, found.value) == ("inconclusive", "no_data", None)


def test_the_first_of_two_is_told_and_not_judged() -> None:
    (second,) = answered(SECOND, 2.0)
    dark = Reading(None, "unreachable", 10.0, detail="http://a: refused")
    told = beside(second, dark, "http://a")
    assert (told.verdict, told.reasons[-1]) == ("pass", "the first is dark: http://a: refused")
    there = beside(second, Reading(7.0, None, 10.0, 9.0), "http://a")
    assert there.reasons[-1] == "the first (http://a) answers 7"


# ---------------------------------------------------------------- when


def test_the_peak_is_the_one_whose_tail_is_not_over() -> None:
    later = Moment("2028", at("2028-01-03T14:00"), at("2028-01-08T14:00"), -480, "back", "UTC")
    checklist = Checklist("c", "0 9 * * *", "UTC", (LOCK,))
    both = (PEAK, later)
    assert peak_after(checklist, both, at("2026-12-01")) == PEAK
    assert peak_after(checklist, both, at("2027-01-09T19:59")) == PEAK
    assert peak_after(checklist, both, at("2027-01-09T20:00")) == later
    assert peak_after(checklist, both, at("2029-01-01")) is None
