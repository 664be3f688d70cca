"""Does each occasion begin on its day, and each time on the clock happen exactly once?"""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from importlib.metadata import version
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide import cron
from guardrail.decide.occasions import (
    DAY,
    in_words,
    is_worked,
    moments,
    named_day,
    on_clock,
    working_day,
    years_needed,
)
from guardrail.edges.holidays import RELEASED, free_days, free_for
from guardrail.errors import Refused
from guardrail.model.occasion import Free, Holiday, Occasion, Override, WorkingDay

ZONES = {
    "US": "America/New_York",
    "GB-ENG": "Europe/London",
    "GB-SCT": "Europe/London",
    "JP": "Asia/Tokyo",
    "NZ": "Pacific/Auckland",
}
WEEK = Free("XX", tuple(range(2020, 2040)), (), "test", 2039)


def epoch(*when: int) -> float:
    return datetime(*when, tzinfo=UTC).timestamp()


def found(occasion: Occasion, begin: float, until: float):
    return moments(occasion, free_for(occasion, begin, until), begin, until)


def after_new_year(region: str, number: int = 1, *overrides: Override) -> Occasion:
    return Occasion(
        ZONES[region], 6 * 60, working_day=WorkingDay(region, number), overrides=overrides
    )


# ---------------------------------------------------------------- working days


@pytest.mark.parametrize(
    ("region", "day", "at"),
    [
        ("US", 4, "2027-01-04T06:00:00-05:00"),
        ("GB-ENG", 4, "2027-01-04T06:00:00+00:00"),
        ("GB-SCT", 5, "2027-01-05T06:00:00+00:00"),
        ("JP", 4, "2027-01-04T06:00:00+09:00"),
        ("NZ", 5, "2027-01-05T06:00:00+13:00"),
    ],
)
def test_the_first_working_day_after_new_year_2027(region, day, at):
    (moment,) = found(after_new_year(region), epoch(2026, 10, 1), epoch(2027, 3, 1))
    assert moment.begins_at == datetime.fromisoformat(at).timestamp()
    assert datetime.fromtimestamp(moment.begins_at, ZoneInfo(ZONES[region])).day == day
    assert moment.key == "2027"
    assert moment.words == f"first working day after New Year in {region}"
    assert moment.known_by == (f"holidays {version('holidays')}",)
    assert not moment.estimate
    assert moment.ends_at == moment.begins_at + DAY


@pytest.mark.parametrize(
    ("rule", "year", "day"),
    [
        (WorkingDay("US", -1), 2027, date(2026, 12, 31)),
        (WorkingDay("US", -1), 2028, date(2027, 12, 30)),  # New Year 2028 is observed on Friday
        (WorkingDay("US", 0), 2027, date(2027, 1, 4)),
        (WorkingDay("US", 3), 2027, date(2027, 1, 6)),
        (WorkingDay("GB-ENG", -1, 12, 25), 2026, date(2026, 12, 24)),
        (WorkingDay("GB-ENG", 1, 12, 25), 2026, date(2026, 12, 29)),  # Boxing Day is on Saturday
        (WorkingDay("US", 1, holiday="Thanksgiving Day"), 2026, date(2026, 11, 27)),
        (WorkingDay("US", 1, 2, 29), 2028, date(2028, 3, 1)),
        (WorkingDay("US", 0, 2, 29), 2028, date(2028, 2, 29)),
        (WorkingDay("US", 0, 2, 29), 2027, date(2027, 3, 1)),
        (WorkingDay("JP", -1, 1, 1), 2028, date(2027, 12, 31)),
    ],
)
def test_days_are_counted_from_a_named_day_over_the_years_end(rule, year, day):
    free = free_days(rule.region, range(year - 1, year + 2))
    assert working_day(free, named_day(rule, free, year), rule.number) == day


def test_a_holiday_that_a_region_has_not_is_refused_with_those_it_has():
    with pytest.raises(Refused, match="no holiday `Golden Week` in 2027; there: Christmas Day"):
        named_day(WorkingDay("US", 1, holiday="Golden Week"), free_days("US", [2027]), 2027)


def test_an_override_wins_and_is_recorded_with_the_librarys_version():
    off = Override(date(2027, 1, 4), working=False, reason="we move house")
    on = Override(date(2027, 1, 2), working=True)
    begin, until = epoch(2026, 10, 1), epoch(2027, 3, 1)
    (moved,) = found(after_new_year("US", 1, off), begin, until)
    assert datetime.fromtimestamp(moved.begins_at, UTC).date() == date(2027, 1, 5)
    assert moved.known_by[1:] == ("override: 2027-01-04 is a holiday (we move house)",)
    (sooner,) = found(after_new_year("GB-SCT", 1, on), begin, until)
    assert datetime.fromtimestamp(sooner.begins_at, UTC).date() == date(2027, 1, 2)
    assert sooner.known_by == (
        f"holidays {version('holidays')}",
        "override: 2027-01-02 is worked on",
    )


def test_far_years_are_marked_as_estimates():
    days = found(after_new_year("JP"), epoch(2026, 6, 1), epoch(2031, 6, 1))
    certain = RELEASED[version("holidays")] + 1
    assert [(m.key, m.estimate) for m in days] == [
        (str(year), year > certain) for year in range(2027, 2032)
    ]


def test_a_year_that_the_library_does_not_have_is_an_estimate_and_not_without_holidays():
    free = free_days("US", [2150])
    assert free.certain_until < 2150


def test_what_nothing_is_known_of_is_refused():
    with pytest.raises(Refused, match="nothing is known of the days of 2041"):
        is_worked(WEEK, date(2041, 1, 1))
    with pytest.raises(Refused, match="no such working day within a year"):
        working_day(replace(WEEK, weekend=tuple(range(7))), date(2027, 1, 1), 1)
    with pytest.raises(Refused, match="days of the region are needed"):
        moments(after_new_year("US"), None, 0.0, 1.0)


@pytest.mark.parametrize("region", ["XX", "GB-SCOT", "us"])
def test_a_region_that_is_not_known_is_refused(region):
    with pytest.raises(Refused, match=f"`{region}` is no region whose holidays are known"):
        free_days(region, [2027])


def test_a_weekend_that_is_worked_on_by_decree_is_a_working_day():
    free = free_days("HU", [2026])
    assert is_worked(free, date(2026, 1, 10))
    assert date(2026, 1, 10).weekday() == 5


def test_the_release_that_is_installed_is_noted_with_its_year():
    assert version("holidays") in RELEASED


@given(
    st.dates(date(2021, 1, 1), date(2037, 12, 31)),
    st.integers(-30, 30),
    st.sets(st.dates(date(2021, 1, 1), date(2037, 12, 31)), max_size=10),
)
def test_a_counted_day_is_worked_on_and_so_many_working_days_away(day, number, holidays):
    free = replace(WEEK, holidays=tuple(Holiday(each, "x") for each in holidays))
    there = working_day(free, day, number)
    assert is_worked(free, there)
    step = -1 if number < 0 else 1
    between = [day + timedelta(days=n) for n in range(step, (there - day).days + step, step)]
    assert sum(is_worked(free, each) for each in between) == (abs(number) or int(there != day))


# ---------------------------------------------------------------- the clock


@pytest.mark.parametrize(
    ("zone", "day", "minute", "at", "said"),
    [
        # Clocks go forward: there is no such time, and it comes by as much later.
        ("America/New_York", "2027-03-14", 150, "2027-03-14T03:30:00-04:00", "it is 03:30"),
        ("Europe/London", "2027-03-28", 90, "2027-03-28T02:30:00+01:00", "it is 02:30"),
        ("Australia/Lord_Howe", "2026-10-04", 135, "2026-10-04T02:45:00+11:00", "it is 02:45"),
        # Clocks go back: it is shown twice, and the first counts.
        ("America/New_York", "2026-11-01", 90, "2026-11-01T01:30:00-04:00", "the first time"),
        ("Europe/London", "2026-10-25", 90, "2026-10-25T01:30:00+01:00", "the first time"),
        ("Australia/Lord_Howe", "2027-04-04", 105, "2027-04-04T01:45:00+11:00", "the first time"),
        # The edges of both.
        ("America/New_York", "2027-03-14", 119, "2027-03-14T01:59:00-05:00", ""),
        ("America/New_York", "2027-03-14", 180, "2027-03-14T03:00:00-04:00", ""),
        ("America/New_York", "2026-11-01", 120, "2026-11-01T02:00:00-05:00", ""),
        ("Pacific/Auckland", "2026-12-31", 1439, "2026-12-31T23:59:00+13:00", ""),
    ],
)
def test_a_time_on_the_clock_is_one_moment(zone, day, minute, at, said):
    found_at, clock = on_clock(date.fromisoformat(day), minute, zone)
    assert found_at == datetime.fromisoformat(at).timestamp()
    assert said in clock
    assert bool(said) == bool(clock)


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/London", "Pacific/Auckland"])
def test_half_past_two_each_night_happens_once_a_day_the_whole_year(zone):
    nightly = Occasion(zone, cron="30 2 * * *")
    year = found(nightly, epoch(2026, 7, 1), epoch(2027, 7, 1))
    days = [datetime.fromtimestamp(m.begins_at, ZoneInfo(zone)).date() for m in year]
    assert len(days) == len(set(days)) == 365
    odd = [m for m in year if m.clock]
    spring = [m for m in odd if "leaves 02:30 out" in m.clock]
    assert len(spring) == (0 if zone == "Europe/London" else 1)  # there it is 01:30 that is out


def test_hours_that_the_clock_leaves_out_do_not_come_twice():
    hourly = Occasion("America/New_York", cron="30 * * * *")
    night = found(hourly, epoch(2027, 3, 14, 5), epoch(2027, 3, 14, 9))
    assert [datetime.fromtimestamp(m.begins_at, UTC).hour for m in night] == [5, 6, 7, 8]


# ---------------------------------------------------------------- dates and cron


def test_a_date_comes_once():
    one = Occasion("Europe/Berlin", 9 * 60, on=date(2026, 12, 31))
    assert [m.key for m in found(one, epoch(2026, 1, 1), epoch(2028, 1, 1))] == ["2026-12-31"]
    assert found(one, epoch(2026, 12, 31, 8, 1), epoch(2028, 1, 1)) == ()
    assert years_needed(one, 0.0, 1.0) == ()


@pytest.mark.parametrize(
    ("line", "days"),
    [
        ("0 9 29 2 *", ["2028-02-29", "2032-02-29"]),
        ("0 9 31 12 *", [f"{year}-12-31" for year in range(2027, 2033)]),
        ("0 9 1 jan mon", None),
    ],
)
def test_leap_days_and_the_years_end_by_cron(line, days):
    every = found(Occasion("UTC", cron=line), epoch(2027, 1, 1), epoch(2033, 1, 1))
    if days is not None:
        assert [m.key for m in every] == [f"{day}T0900" for day in days]
    else:  # either day is enough: 1 January, or a Monday in January
        assert {(m.key[5:10] == "01-01") or _monday(m.key) for m in every} == {True}
        assert len(every) > 6 * 4


def _monday(key: str) -> bool:
    return date.fromisoformat(key[:10]).weekday() == 0


@pytest.mark.parametrize(
    ("line", "minutes", "hours", "weekdays"),
    [
        ("0 6 * * mon-fri", (0,), (6,), (0, 1, 2, 3, 4)),
        ("*/30 1-2 * * 0", (0, 30), (1, 2), (6,)),
        ("5,10 20/2 * * 7", (5, 10), (20, 22), (6,)),
        ("0 0 * * sat,sun", (0,), (0,), (5, 6)),
    ],
)
def test_fields_of_a_cron_line(line, minutes, hours, weekdays):
    parsed = cron.parse(line)
    assert (parsed.minutes, parsed.hours, parsed.weekdays) == (minutes, hours, weekdays)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("0 6 * *", "five fields"),
        ("60 6 * * *", "minute is a number from 0 to 59, found `60`"),
        ("0 6 * * mun", "or one of sun, mon"),
        ("0 6 5-2 * *", "runs backwards"),
        ("0 6 */0 * *", "a step from 1 to 99"),
        ("* * * * *", "more than 24 times a day"),
        ("0 6 30 2 *", "never comes"),
        ("0 6 * * -", "found ``"),
    ],
)
def test_a_cron_line_that_is_none_is_refused_with_what_is_allowed(line, said):
    with pytest.raises(ValueError, match=said):
        cron.parse(line)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (WorkingDay("US", 1), "first working day after New Year in US"),
        (WorkingDay("US", -2, 12, 25), "second last working day before Christmas in US"),
        (WorkingDay("US", 0, 7, 1), "07-01 or the first working day after it in US"),
        (WorkingDay("US", 7, holiday="Labor Day"), "7th working day after Labor Day in US"),
    ],
)
def test_a_rule_in_words(rule, words):
    assert in_words(rule) == words
