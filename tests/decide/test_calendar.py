"""Which times are closed, on which clocks, and does work fit before it closes?

Times in tables are wall times of the zone that stands beside them, as an operator would check them.
"""

from dataclasses import replace
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guardrail.decide.calendar import (
    closed_at,
    closing,
    expand,
    first_fit,
    fits,
    local,
    longest_open,
    next_close,
    next_open,
    peak_seen_at,
    shut_at,
    span_words,
    stricter_of,
)
from guardrail.model.calendar import DateRange, Window, Windows
from guardrail.model.common import Origin

LA, BERLIN, LORD_HOWE = "America/Los_Angeles", "Europe/Berlin", "Australia/Lord_Howe"
SAO_PAULO, APIA, KOLKATA = "America/Sao_Paulo", "Pacific/Apia", "Asia/Kolkata"
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def at(zone, text, fold=0):
    """`2026-11-30 05:30` on the clocks of that zone, in seconds since the epoch."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def clock(text):
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def window(times, days="", *, settle=0.0, dates=(), **fields):
    """`05:30-10:00`, `mon fri`."""
    begins, ends = times.split("-")
    which = tuple(DAYS.index(day) for day in days.split()) or tuple(range(7))
    ranges = tuple(DateRange(*map(date.fromisoformat, pair)) for pair in dates)
    return Window(which, clock(begins), clock(ends), ranges, settle, **fields)


def calendar(zone, since, *, deny=(), allow=(), days=60, **fields):
    known = Windows(zone, tuple(deny), tuple(allow), **fields)
    return expand([known], at(zone, since), days * DAY)


def pair(shut):
    return shut.closes_at, shut.opens_at


def spans(made, zone):
    """The closed times as wall times."""
    shown = [[datetime.fromtimestamp(t, ZoneInfo(zone)) for t in pair(span)] for span in made.shut]
    return [f"{b:%Y-%m-%d %H:%M}/{e:%Y-%m-%d %H:%M}" for b, e in shown]


# ---------------------------------------------------------------- kured#204 (peers.md, case 7)

WEEKDAY_NIGHTS = [window("21:00-05:00", "mon tue wed thu fri")]


@pytest.mark.parametrize(
    ("local_time", "inside"),
    [
        ("2019-04-04 00:49", True),
        ("2019-04-04 22:49", True),
        ("2019-04-05 08:59", False),
        ("2019-04-05 09:01", False),
        ("2019-03-31 10:00", False),
        ("2019-04-04 12:00", False),
        # and the trap behind it: the night of a day belongs to the day it begins on
        ("2019-04-06 04:59", True),  # Saturday morning, of Friday's night
        ("2019-04-06 05:00", False),
        ("2019-04-06 22:00", False),  # Saturday night
        ("2019-04-08 04:59", False),  # Monday morning would be of Sunday's night
        ("2019-04-08 20:59", False),
        ("2019-04-08 21:00", True),
    ],
)
def test_case_7_a_night_from_monday_to_friday(local_time, inside):
    made = calendar(LA, "2019-03-20 00:00", allow=WEEKDAY_NIGHTS)
    assert (closed_at(made, at(LA, local_time)) == ()) is inside


# ---------------------------------------------------------------- single windows on the clock


@pytest.mark.parametrize(
    ("zone", "times", "dates", "since", "closed"),
    [
        # an ordinary day, and one that ends at midnight
        (LA, "05:30-10:00", "2026-11-30", "2026-11-29 12:00",
         ["2026-11-30 05:30/2026-11-30 10:00"]),
        (LA, "22:00-24:00", "2026-11-30", "2026-11-29 12:00",
         ["2026-11-30 22:00/2026-12-01 00:00"]),
        (LA, "22:00-00:00", "2026-11-30", "2026-11-29 12:00",
         ["2026-11-30 22:00/2026-12-01 00:00"]),
        # past midnight, past the year's end, on and past a leap day
        (LA, "21:00-05:00", "2026-11-30", "2026-11-29 12:00",
         ["2026-11-30 21:00/2026-12-01 05:00"]),
        (BERLIN, "22:00-06:00", "2026-12-31", "2026-12-20 12:00",
         ["2026-12-31 22:00/2027-01-01 06:00"]),
        (BERLIN, "22:00-06:00", "2028-02-28", "2028-02-20 12:00",
         ["2028-02-28 22:00/2028-02-29 06:00"]),
        (BERLIN, "22:00-06:00", "2028-02-29", "2028-02-20 12:00",
         ["2028-02-29 22:00/2028-03-01 06:00"]),
        (BERLIN, "22:00-06:00", "2027-02-28", "2027-02-20 12:00",
         ["2027-02-28 22:00/2027-03-01 06:00"]),
        # spring: 02:00 to 03:00 is left out; a window in it comes an hour later
        (LA, "02:00-03:00", "2026-03-08", "2026-03-01 12:00",
         ["2026-03-08 03:00/2026-03-08 04:00"]),
        (LA, "02:15-02:45", "2026-03-08", "2026-03-01 12:00",
         ["2026-03-08 03:15/2026-03-08 03:45"]),
        (LA, "01:30-02:30", "2026-03-08", "2026-03-01 12:00",
         ["2026-03-08 01:30/2026-03-08 03:00"]),
        (LA, "02:30-03:15", "2026-03-08", "2026-03-01 12:00",
         ["2026-03-08 03:00/2026-03-08 03:15"]),
        (LA, "23:00-04:00", "2026-03-07", "2026-03-01 12:00",
         ["2026-03-07 23:00/2026-03-08 04:00"]),
        (BERLIN, "02:15-02:45", "2026-03-29", "2026-03-20 12:00",
         ["2026-03-29 03:15/2026-03-29 03:45"]),
        (BERLIN, "02:30-04:00", "2026-03-29", "2026-03-20 12:00",
         ["2026-03-29 03:00/2026-03-29 04:00"]),
        # half an hour of spring; a midnight that is left out; a day that is
        (LORD_HOWE, "02:05-02:20", "2026-10-04", "2026-09-28 12:00",
         ["2026-10-04 02:35/2026-10-04 02:50"]),
        (SAO_PAULO, "00:00-00:30", "2018-11-04", "2018-10-20 12:00",
         ["2018-11-04 01:00/2018-11-04 01:30"]),
        (APIA, "08:00-10:00", "2011-12-30", "2011-12-20 12:00",
         ["2011-12-31 08:00/2011-12-31 10:00"]),
        # no summer time
        (KOLKATA, "23:30-00:30", "2026-03-29", "2026-03-20 12:00",
         ["2026-03-29 23:30/2026-03-30 00:30"]),
    ],
)  # fmt: skip
def test_a_window_on_the_clock(zone, times, dates, since, closed):
    one = window(times, dates=[(dates, str(date.fromisoformat(dates) + timedelta(days=1)))])
    assert spans(calendar(zone, since, deny=[one]), zone) == closed


@pytest.mark.parametrize(
    ("zone", "day", "times", "pieces"),
    [
        # 01:00 to 02:00 comes twice: two hours in one piece
        (LA, "2026-11-01", "01:00-02:00", [("01:00", 0, 2 * HOUR)]),
        (LA, "2026-11-01", "00:30-02:30", [("00:30", 0, 3 * HOUR)]),
        # a part of it comes, goes, and comes again
        (LA, "2026-11-01", "01:30-02:00", [("01:30", 0, HOUR / 2), ("01:30", 1, HOUR / 2)]),
        (BERLIN, "2026-10-25", "02:15-02:45", [("02:15", 0, HOUR / 2), ("02:15", 1, HOUR / 2)]),
        (BERLIN, "2026-10-25", "02:00-03:00", [("02:00", 0, 2 * HOUR)]),
        (LORD_HOWE, "2026-04-05", "01:30-02:00", [("01:30", 0, HOUR)]),
    ],
)  # fmt: skip
def test_an_hour_that_comes_twice_is_covered_twice(zone, day, times, pieces):
    one = window(times, dates=[(day, str(date.fromisoformat(day) + timedelta(days=1)))])
    made = calendar(zone, str(date.fromisoformat(day) - timedelta(days=5)), deny=[one])
    begins = [(at(zone, f"{day} {text}", fold), length) for text, fold, length in pieces]
    assert list(map(pair, made.shut)) == [(begin, begin + length) for begin, length in begins]


def test_windows_are_half_open():
    made = calendar(LA, "2026-11-29 00:00", deny=[window("05:30-10:00")])
    begins, ends = at(LA, "2026-11-30 05:30"), at(LA, "2026-11-30 10:00")
    closed = [t for t in (begins - 0.5, begins, ends - 0.5, ends) if closed_at(made, t)]
    assert closed == [begins, ends - 0.5]


def test_a_freeze_over_the_holidays_is_one_closed_time():
    freeze = window("00:00-24:00", dates=[("2026-12-18", "2027-01-04")], reason="holidays")
    made = calendar(BERLIN, "2026-12-01 00:00", deny=[freeze])
    assert spans(made, BERLIN) == ["2026-12-18 00:00/2027-01-04 00:00"]
    assert len(made.closed) == 1
    assert next_open(made, at(BERLIN, "2026-12-24 18:00")) == at(BERLIN, "2027-01-04 00:00")


def test_days_and_dates_must_both_be_met():
    one = window("06:00-07:00", "mon", dates=[("2026-11-30", "2026-12-08")])
    made = calendar(BERLIN, "2026-11-20 00:00", deny=[one])
    assert spans(made, BERLIN) == [
        "2026-11-30 06:00/2026-11-30 07:00",
        "2026-12-07 06:00/2026-12-07 07:00",
    ]


# ---------------------------------------------------------------- deny, allow, settle


def test_a_deny_that_is_over_closes_nothing_and_an_allow_that_is_not_on_closes():
    """argocd#5590, #10425: which of the two blocks is stated, not an accident."""
    past = window("00:00-24:00", dates=[("2026-01-01", "2026-01-08")])
    made = calendar(LA, "2026-11-30 12:00", deny=[past])
    assert made.shut == ()
    assert fits(made, at(LA, "2026-11-30 12:00"), 30 * DAY)
    night = calendar(LA, "2026-11-30 12:00", allow=[window("21:00-05:00")])
    assert next_open(night, at(LA, "2026-11-30 12:00")) == at(LA, "2026-11-30 21:00")


def test_deny_beats_allow():
    made = calendar(
        LA, "2026-11-30 12:00", allow=[window("21:00-05:00")], deny=[window("23:00-01:00")], days=1
    )
    assert spans(made, LA)[:2] == [
        "2026-11-30 05:00/2026-11-30 21:00",
        "2026-11-30 23:00/2026-12-01 01:00",
    ]


def test_an_allow_that_never_comes_again_is_closed_to_the_end():
    gone = window("21:00-05:00", dates=[("2026-01-01", "2026-01-08")])
    made = calendar(LA, "2026-11-30 12:00", allow=[gone])
    assert next_open(made, at(LA, "2026-11-30 12:00")) is None
    assert first_fit(made, at(LA, "2026-11-30 12:00"), 1.0) is None
    assert longest_open(made, at(LA, "2026-11-30 12:00"))[1] == at(LA, "2026-11-30 12:00")


def test_settling_closes_earlier_and_never_opens_later():
    peak = window("05:30-10:00", "mon", settle=30 * MINUTE)
    made = calendar(LA, "2026-11-29 00:00", deny=[peak], days=7)
    assert spans(made, LA) == ["2026-11-30 05:00/2026-11-30 10:00"]
    night = window("21:00-05:00", "mon", settle=30 * MINUTE)
    made = calendar(LA, "2026-11-30 12:00", allow=[night], days=2)
    assert next_open(made, at(LA, "2026-11-30 12:00")) == at(LA, "2026-11-30 21:00")
    assert next_close(made, at(LA, "2026-11-30 21:00")) == at(LA, "2026-12-01 04:30")


def test_settling_longer_than_the_open_time_leaves_none_open():
    made = calendar(LA, "2026-11-29 00:00", deny=[window("06:00-05:00", settle=2 * HOUR)])
    assert next_open(made, at(LA, "2026-11-30 05:30")) is None
    made = calendar(LA, "2026-11-29 00:00", allow=[window("05:00-06:00", settle=2 * HOUR)])
    assert next_open(made, at(LA, "2026-11-30 05:30")) is None


def test_an_allowed_time_over_many_days_settles_once():
    whole = window("00:00-24:00", dates=[("2026-11-30", "2026-12-03")], settle=HOUR)
    made = calendar(BERLIN, "2026-11-30 01:00", allow=[whole])
    assert next_close(made, at(BERLIN, "2026-11-30 01:00")) == at(BERLIN, "2026-12-02 23:00")


PEAK = window("05:30-10:00", "mon tue wed thu fri", settle=HOUR / 2, peak=True)


# ---------------------------------------------------------------- of several policies


def test_closed_times_of_several_policies_are_put_together_each_with_its_origin():
    """Two zones: what closes is named, and the one that ends last is named first."""
    one = Windows(LA, (window("05:30-10:00", reason="peak", origin=Origin("p", "a.yaml", 3)),))
    two = Windows(
        BERLIN, (window("18:00-20:00", reason="news", origin=Origin("q", "b.yaml", 9)),), (), "same"
    )
    made = expand([one, two], at(LA, "2026-11-30 00:00"), 2 * DAY)
    assert spans(made, LA)[0] == "2026-11-30 05:30/2026-11-30 11:00"
    there, behind = closed_at(made, at(LA, "2026-11-30 09:30"))
    assert behind.by == 0
    assert made.rules[there.by].reason == "news"
    assert str(made.rules[there.by].origin) == "q (b.yaml:9)"
    assert local(there.opens_at, there.open_offset) == "2026-11-30 20:00 UTC+01:00"
    first = closing(made, at(LA, "2026-11-30 05:30"))
    assert made.rules[first.by].reason == "peak"


def test_going_back_keeps_only_to_windows_that_say_so():
    one = Windows(LA, (window("05:30-10:00"),))
    two = Windows(LA, (window("09:00-11:00"),), (), "same")
    made = expand([one, two], at(LA, "2026-11-30 00:00"), DAY)
    inside = at(LA, "2026-11-30 06:00")
    assert pair(shut_at(made, inside)) == (at(LA, "2026-11-30 05:30"), at(LA, "2026-11-30 11:00"))
    assert shut_at(made, inside, back=True) is None
    assert next_close(made, inside, back=True) == at(LA, "2026-11-30 09:00")
    assert closed_at(made, at(LA, "2026-11-30 09:30"), back=True)[0].by == 1


def test_after_its_end_a_calendar_is_closed_and_going_back_only_where_it_binds():
    made = calendar(LA, "2026-11-30 00:00", deny=[window("05:30-10:00")], days=1)
    after = at(LA, "2026-12-01 12:00")
    assert pair(shut_at(made, after)) == (made.known_until, float("inf"))
    assert next_open(made, after) is None
    assert not fits(made, made.known_until - HOUR, 2 * HOUR)
    assert fits(made, after, 30 * DAY, back=True)
    same = calendar(LA, "2026-11-30 00:00", deny=[window("05:30-10:00")], days=1, rollback="same")
    assert not fits(same, after, 1.0, back=True)


def test_without_windows_there_is_no_calendar():
    assert expand([], 0.0) is None


def test_a_zone_that_the_machine_does_not_know_is_an_error_never_utc():
    with pytest.raises(ZoneInfoNotFoundError):
        expand([Windows("Mars/Olympus", (window("05:30-10:00"),))], 0.0)


def test_a_calendar_made_again_later_is_never_looser():
    """A deny that went stays, one that came counts, and nothing is known for longer."""
    noon, night = window("12:00-13:00"), window("22:00-23:00")
    old = calendar(LA, "2026-11-30 00:00", deny=[noon], days=3)
    new = calendar(LA, "2026-12-01 10:00", deny=[night], days=3)
    both = stricter_of(old, new)
    assert spans(both, LA) == [
        "2026-11-30 12:00/2026-11-30 13:00",
        "2026-12-01 12:00/2026-12-01 13:00",
        "2026-12-01 22:00/2026-12-01 23:00",
        "2026-12-02 12:00/2026-12-02 13:00",
        "2026-12-02 22:00/2026-12-02 23:00",
    ]
    assert both.known_until == old.known_until
    assert stricter_of(both, new) is both
    assert stricter_of(None, new) is new
    assert stricter_of(old, None) is old


def test_a_calendar_made_again_of_the_same_windows_is_the_one_there_was():
    noon = window("12:00-13:00", origin=Origin("p", "a.yaml", 3))
    old = calendar(LA, "2026-11-30 00:00", deny=[noon], days=3)
    moved = replace(noon, origin=Origin("p", "a.yaml", 4))
    assert stricter_of(old, calendar(LA, "2026-12-01 12:30", deny=[moved], days=3)) is old
    same = calendar(LA, "2026-12-01 10:00", deny=[moved], days=3, rollback="same")
    assert stricter_of(old, same).shut_back[0].closes_at == at(LA, "2026-12-01 12:00")
    assert stricter_of(old, same).shut == old.shut


@pytest.mark.parametrize(
    "windows",
    [
        {"deny": [window("00:00-24:00", dates=[("2026-11-20", "2027-01-04")])]},
        {"allow": [window("10:00-11:00", dates=[("2027-01-10", "2027-01-11")])]},
        {"deny": [replace(PEAK, origin=Origin("p", "a.yaml", 4))], "covers_peak": True},
    ],
)
def test_made_again_and_again_it_stays_the_same(windows):
    """Long closed times begin where a calendar begins: that is nothing more."""
    first = calendar(LA, "2026-11-30 00:00", **windows)
    for day in range(1, 20):
        later = calendar(LA, f"2026-12-{day:02d} 10:00", **windows)
        assert stricter_of(first, later) is first


def test_a_peak_that_a_policy_begins_to_ask_for_must_be_seen():
    old = calendar(LA, "2026-11-29 00:00", deny=[PEAK])
    both = stricter_of(old, calendar(LA, "2026-11-30 00:00", deny=[PEAK], covers_peak=True))
    assert both.covers_peak
    assert peak_seen_at(both, at(LA, "2026-11-30 04:00")) == at(LA, "2026-11-30 10:00")
    assert both.shut == old.shut


# ---------------------------------------------------------------- does it fit, when does it open


@pytest.mark.parametrize(
    ("since", "minutes", "fit"),
    [
        ("2026-11-30 04:00", 15, "2026-11-30 04:00"),
        ("2026-11-30 04:44", 15, "2026-11-30 04:44"),
        ("2026-11-30 04:45", 15, "2026-11-30 10:00"),  # it has to end before 05:00, not at it
        ("2026-11-30 06:00", 15, "2026-11-30 10:00"),
        ("2026-11-30 10:00", 15, "2026-11-30 10:00"),
        ("2026-11-30 04:00", 24 * 60, None),
    ],
)
def test_when_work_fits(since, minutes, fit):
    made = calendar(LA, "2026-11-30 00:00", deny=[window("05:30-10:00", settle=30 * MINUTE)])
    found = first_fit(made, at(LA, since), minutes * MINUTE)
    assert found == (at(LA, fit) if fit else None)
    assert fits(made, at(LA, since), minutes * MINUTE) is (fit == since)


def test_the_longest_open_time_is_over_the_weekend():
    made = calendar(
        LA, "2026-11-30 00:00", deny=[window("05:30-10:00", "mon tue wed thu fri")], days=14
    )
    begins, ends = longest_open(made, at(LA, "2026-11-30 00:00"))
    assert begins == at(LA, "2026-12-04 10:00")
    assert span_words(ends - begins) == "2 d 19 h"


# ---------------------------------------------------------------- one daily peak


@pytest.mark.parametrize(
    ("since", "seen"),
    [
        ("2026-11-30 04:00", "2026-11-30 10:00"),
        ("2026-11-30 05:15", "2026-11-30 10:00"),  # the time to settle is no part of the peak
        ("2026-11-30 05:30", "2026-11-30 10:00"),
        ("2026-11-30 05:31", "2026-12-01 10:00"),  # a part of a peak is none
        ("2026-12-04 12:00", "2026-12-07 10:00"),  # none at the weekend
    ],
)
def test_a_peak_is_seen_when_all_of_it_has_passed(since, seen):
    made = calendar(LA, "2026-11-29 00:00", deny=[PEAK], covers_peak=True)
    assert peak_seen_at(made, at(LA, since)) == at(LA, seen)


def test_of_two_peaks_both_must_be_seen_and_none_is_seen_after_the_calendars_end():
    evening = window("18:00-20:00", peak=True)
    made = calendar(LA, "2026-11-29 00:00", deny=[PEAK, evening], days=3, covers_peak=True)
    assert peak_seen_at(made, at(LA, "2026-11-30 04:00")) == at(LA, "2026-11-30 20:00")
    assert peak_seen_at(made, at(LA, "2026-11-30 17:00")) == at(LA, "2026-12-01 10:00")
    assert peak_seen_at(made, at(LA, "2026-12-01 11:00")) is None


def test_a_peak_that_nobody_has_to_cover_is_an_ordinary_window():
    made = calendar(LA, "2026-11-29 00:00", deny=[PEAK])
    assert not made.covers_peak
    assert peak_seen_at(made, at(LA, "2026-11-30 04:00")) is None


# ---------------------------------------------------------------- minute by minute

ZONES = [LA, BERLIN, LORD_HOWE, SAO_PAULO, KOLKATA]
STARTS = ["2018-11-02", "2026-03-06", "2026-03-27", "2026-04-03", "2026-10-02", "2026-10-23",
          "2026-10-30", "2026-12-30", "2028-02-27"]  # fmt: skip
FEW_DAYS = 5


class Oracle:
    """What a person with a clock would say: looks at it once a minute, and at nothing else."""

    def __init__(self, zone, first, days):
        self.zone, self.first = ZoneInfo(zone), first
        self.minutes = [first + 60.0 * n for n in range(int(days * 1440))]
        self.walls = [datetime.fromtimestamp(t, self.zone).replace(tzinfo=None, fold=0)
                      for t in self.minutes]  # fmt: skip

    def shown(self, one):
        """The minutes (by number) at which the clock shows a time of the window."""
        found = set()
        days = {wall.date() for wall in self.walls}
        days |= {day + timedelta(days=n) for day in set(days) for n in (-1, 1)}
        for day in sorted(days):
            if one.on(day):
                found |= self._of_day(one, day)
        return found

    def _of_day(self, one, day):
        start = datetime.combine(day, time()) + timedelta(minutes=one.begins)
        end = start + timedelta(minutes=one.minutes)
        there = {n for n, wall in enumerate(self.walls) if start <= wall < end}
        steps = zip(self.walls, self.walls[1:], strict=False)
        jumps = [b - a - timedelta(minutes=1) for a, b in steps if a < start and b >= end]
        for jump in [] if there else jumps:
            there = {n for n, wall in enumerate(self.walls) if start <= wall - jump < end}
        return there

    def closed(self, deny, allow):
        """The minutes at which it is closed."""
        shut = set()
        for one in deny:
            settle = int(one.settle_before // 60)
            shut |= {n - k for n in self.shown(one) for k in range(settle + 1)}
        if allow:
            allowed = set()
            for one in allow:
                settle, there = int(one.settle_before // 60), self.shown(one)
                allowed |= {n for n in there if all(n + k in there for k in range(settle + 1))}
            shut |= set(range(len(self.minutes))) - allowed
        return shut


@st.composite
def some_window(draw):
    begins = draw(st.integers(0, 1439) | st.sampled_from([0, 60, 90, 120, 150, 1380]))
    ends = draw(st.integers(1, 1440) | st.sampled_from([60, 120, 135, 150, 180, 1440]))
    ends = ends if ends != begins else begins + 1
    days = draw(st.sets(st.integers(0, 6), min_size=1))
    settle = draw(st.sampled_from([0.0, 0.0, 600.0, 5400.0]))
    return Window(tuple(sorted(days)), begins, ends, settle_before=settle)


@settings(max_examples=40)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(STARTS),
    st.lists(some_window(), max_size=2),
    st.lists(some_window(), max_size=2),
)
@example(LA, "2026-03-06", [Window(begins=135, ends=165)], [])
@example(BERLIN, "2026-10-23", [Window(begins=135, ends=165)], [])
@example(LORD_HOWE, "2026-10-02", [], [Window(begins=125, ends=140)])
def test_every_minute_is_as_a_clock_on_the_wall_says(zone, start, deny, allow):
    begin = at(zone, f"{start} 00:00")
    made = expand([Windows(zone, tuple(deny), tuple(allow))], begin, FEW_DAYS * DAY)
    margin = 2 * 1440
    oracle = Oracle(zone, begin - margin * 60.0, FEW_DAYS + 4)
    closed = oracle.closed(deny, allow)
    for n in range(margin, margin + FEW_DAYS * 1440):
        moment = oracle.minutes[n]
        found = made is not None and shut_at(made, moment) is not None
        assert found is (n in closed), f"{oracle.walls[n]} in {zone}"


@settings(max_examples=100)
@given(
    st.lists(some_window(), min_size=1, max_size=3),
    st.integers(0, 3 * 1440),
    st.integers(1, 2000),
)
def test_the_first_fit_is_the_first_minute_that_fits(deny, since, minutes):
    made = calendar(LA, "2026-11-30 00:00", deny=deny, days=5)
    begin = at(LA, "2026-11-30 00:00") + since * MINUTE
    found = first_fit(made, begin, minutes * MINUTE - 1)
    steps = (begin + n * MINUTE for n in range(5 * 1440))
    expected = next((t for t in steps if fits(made, t, minutes * MINUTE - 1)), None)
    assert found == expected


def test_a_window_in_words():
    peak = window("05:30-10:00", "mon tue wed thu fri")
    assert str(peak) == "mon-fri 05:30-10:00"
    assert str(window("00:00-24:00", "sat sun")) == "sat,sun 00:00-24:00"
    freeze = window(
        "00:00-24:00", dates=[("2026-12-18", "2027-01-04"), ("2026-11-26", "2026-11-27")]
    )
    assert str(freeze) == "00:00-24:00 2026-12-18/2027-01-04 and 2026-11-26"
    assert [span_words(s) for s in (0, 45, 900, 5400, 3 * DAY)] == [
        "0 s", "45 s", "15 min", "1 h 30 min", "3 d",
    ]  # fmt: skip
