"""The windows of a policy: does a file mean what it says, and is what it cannot mean refused?"""

from datetime import date

import jsonschema
import pytest

from guardrail.errors import InvalidFile
from guardrail.files import parse
from guardrail.files.schema import schema
from guardrail.model.calendar import DAY_MINUTES, EVERY_DAY, DateRange

HEAD = """\
apiVersion: guardrail/v1
kind: Policy
metadata: {name: cache-critical}
spec:
  match: {roles: [memcached]}
"""
WEEK = (0, 1, 2, 3, 4)


def read(spec):
    (policy,) = parse((HEAD + spec).encode(), "p.yaml").policies
    return policy


def windows(*entries, kind="deny", zone="America/Los_Angeles", more=""):
    listed = "".join(f"      - {entry}\n" for entry in entries)
    return f"  windows:\n    timezone: {zone}\n    {kind}:\n{listed}{more}"


def entry(text, kind="deny"):
    return getattr(read(windows(text, kind=kind)).windows, kind)[0]


def faults(spec):
    with pytest.raises(InvalidFile) as raised:
        read(spec)
    return [(fault.line, fault.column, fault.message) for fault in raised.value.faults]


# ---------------------------------------------------------------- what it means


def test_the_windows_of_the_design_are_read():
    known = read(
        windows(
            '{days: mon-fri, from: "05:30", to: "10:00", settleBefore: 30m, reason: daily peak}',
            more="    rollback: same\n",
        )
    ).windows
    (peak,) = known.deny
    assert (known.timezone, known.rollback, known.allow) == ("America/Los_Angeles", "same", ())
    assert (peak.days, peak.begins, peak.ends) == (WEEK, 330, 600)
    assert (peak.settle_before, peak.reason, peak.peak) == (1800.0, "daily peak", False)
    assert str(peak) == "mon-fri 05:30-10:00"


@pytest.mark.parametrize(
    ("written", "days"),
    [
        ("mon-fri", WEEK),
        ("sat", (5,)),
        ("sat-sun", (5, 6)),
        ("fri-mon", (0, 4, 5, 6)),
        ("mon-sun", EVERY_DAY),
        ("[mon, wed-fri]", (0, 2, 3, 4)),
        ("[sun, sun, mon]", (0, 6)),
    ],
)
def test_days(written, days):
    assert entry(f'{{days: {written}, from: "01:00", to: "02:00"}}').days == days


@pytest.mark.parametrize(
    ("begins", "ends", "minutes"),
    [
        ("00:00", "24:00", 1440),
        ("21:00", "05:00", 480),
        ("21:00", "00:00", 180),
        ("05:30", "10:00", 270),
    ],
)
def test_times_on_the_clock(begins, ends, minutes):
    found = entry(f'{{from: "{begins}", to: "{ends}"}}')
    assert found.minutes == minutes
    assert 0 <= found.begins < DAY_MINUTES >= found.ends > 0


def test_times_need_no_quotes_in_this_reader():
    assert entry("{from: 05:30, to: 10:00}") == entry('{from: "05:30", to: "10:00"}')


def test_a_freeze_is_whole_days_from_one_day_up_to_another_or_a_single_one():
    found = entry("{dates: [2026-12-18/2027-01-04, 2026-11-26], reason: holidays}")
    assert (found.begins, found.ends, found.days) == (0, DAY_MINUTES, EVERY_DAY)
    assert found.dates == (
        DateRange(date(2026, 12, 18), date(2027, 1, 4)),
        DateRange(date(2026, 11, 26), date(2026, 11, 27)),
    )


def test_a_policy_that_covers_a_daily_peak_says_which_window_it_is():
    peak = '{from: "05:30", to: "10:00", peak: true}'
    covering = "  bake: {for: 10m, covers: dailyPeak}\n"
    known = read(windows(peak) + covering).windows
    assert known.covers_peak
    assert known.deny[0].peak
    assert not read(windows(peak)).windows.covers_peak
    for spec in (covering, windows(peak.replace("true", "false")) + covering):
        ((_, _, message),) = faults(spec)
        assert "`peak: true`" in message


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "says"),
    [
        # argocd#10071: an hour 24 that was accepted, and crashed later
        ('{from: "24:00", to: "05:00"}', "24:00 is an end and no beginning; write 00:00"),
        ('{from: "21:00", to: "24:30"}', "the day ends at 24:00, found `24:30`; write 00:30"),
        ('{from: "25:00", to: "26:00"}', 'a time from "00:00" to "23:59" is needed'),
        ('{from: "5:30", to: "10:00"}', "found `5:30`"),
        ("{from: 5, to: 10}", "found the number 5"),
        ('{from: "21:60", to: "22:00"}', "found `21:60`"),
        ('{from: "05:30"}', "`from` and `to` are given together"),
        ('{from: "05:30", to: "05:30"}', 'for a whole day write "00:00" to "24:00"'),
        ("{days: monday}", "days are needed, such as mon-fri"),
        ("{days: fri-thr}", "found `fri-thr`; allowed: mon, tue"),
        ("{days: []}", "at least one day is needed"),
        ("{days: [1]}", "found the number 1"),
        ("{dates: [2026-13-01]}", "there is no day 2026-13-01"),
        ("{dates: [2026-02-29]}", "there is no day 2026-02-29"),
        ("{dates: [2027-01-04/2026-12-18]}", "2026-12-18 is not after 2027-01-04"),
        ("{dates: [2026-12-18/2026-12-18]}", "no day would be in it"),
        ("{dates: [christmas]}", "days of a year are needed"),
        ("{dates: [2026-12-18-2027-01-04]}", "with the second not in it any more"),
        ("{days: mon-fri, dates: [2026-12-19/2026-12-21]}", "it would never come"),
        ("{days: mon, until: 10}", "unknown key `until`"),
        ("{settleBefore: soon}", "a duration is needed"),
        ('{reason: ""}', "a text that is not empty"),
        ("{peak: daily}", "`true` or `false` is needed"),
    ],
)
def test_an_entry_that_means_nothing_is_refused_in_words(text, says):
    (fault, *more) = faults(windows(text))
    assert fault[0] == 9
    assert says in fault[2]
    assert not more or "{from" in text


@pytest.mark.parametrize(
    ("zone", "says"),
    [
        ("PST", "did you mean"),
        ("America/Los_Angles", "did you mean `America/Los_Angeles`?"),
        ("Mars/Olympus", "a name such as America/Los_Angeles, Europe/Berlin or UTC is needed"),
        ("", "is needed"),
    ],
)
def test_a_zone_that_is_not_known_is_refused_with_the_nearest(zone, says):
    spec = windows('{from: "05:30", to: "10:00"}', zone=zone or '""')
    if zone == "PST":
        spec = windows('{from: "05:30", to: "10:00"}', zone="US/Pacifik")
    ((line, _, message),) = faults(spec)
    assert line == 7
    assert says in message


def test_windows_without_an_entry_or_a_zone_are_refused():
    ((_, _, message),) = faults("  windows: {timezone: UTC}\n")
    assert "`deny` or `allow`" in message
    ((_, _, message),) = faults('  windows: {deny: [{from: "05:30", to: "10:00"}]}\n')
    assert "`timezone` is missing" in message


def test_an_allowed_time_is_no_peak():
    ((_, _, message),) = faults(windows('{from: "21:00", to: "05:00", peak: true}', kind="allow"))
    assert "unknown key `peak`" in message


# ---------------------------------------------------------------- what an editor is told


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        ({"days": "mon-fri", "from": "05:30", "to": "24:00", "peak": True}, True),
        ({"days": ["mon", "wed-fri"], "dates": ["2026-12-18/2027-01-04"]}, True),
        ({"from": "24:00", "to": "05:00"}, False),
        ({"from": "21:00", "to": "24:30"}, False),
        ({"days": "monday"}, False),
        ({"dates": ["christmas"]}, False),
    ],
)
def test_the_schema_knows_the_words(entry, fits):
    document = {
        "apiVersion": "guardrail/v1",
        "kind": "Policy",
        "metadata": {"name": "p"},
        "spec": {"match": {}, "windows": {"timezone": "UTC", "deny": [entry]}},
    }
    assert jsonschema.Draft202012Validator(schema("Policy")).is_valid(document) is fits
