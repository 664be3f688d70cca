"""Does a foreign calendar freeze at the instants that others read in it? Is a broken one refused?

What is compared with is vobject with dateutil's rules and zones: nothing of what is under test.
"""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
import vobject
from dateutil import tz
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st
from vobject.icalendar import registerTzid

from guardrail.errors import InvalidFile, Refused
from guardrail.files import ics
from guardrail.files.freeze import parse, parse_in

NOW = datetime(2027, 1, 1, 9, 30, tzinfo=UTC).timestamp()
ZONES = ("America/New_York", "Europe/Berlin", "Pacific/Auckland", "Australia/Lord_Howe")
for _zone in ZONES:
    registerTzid(_zone, tz.gettz(_zone))

JUNE, JANUARY, NOVEMBER = (
    datetime.fromisoformat(day) for day in ("2026-06-01", "2027-01-01", "2027-11-30")
)
HEAD = "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//them//EN\n"


def calendar(*events: str, head: str = "") -> bytes:
    """A file with these events, one property a line."""
    bodies = [f"BEGIN:VEVENT\n{event.strip()}\nEND:VEVENT\n" for event in events]
    return (HEAD + head + "".join(bodies) + "END:VCALENDAR\n").replace("\n", "\r\n").encode()


def spans(text: bytes, timezone: str = "", now: float = NOW) -> list[tuple[str, str]]:
    found = ics.freezes(text, "x.ics", timezone, now)
    return [(utc(one.since), utc(one.until or 0)) for one in found]


def utc(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%m-%d %H:%M}"


NIGHTLY = """\
UID:nightly@them
SUMMARY:Nightly batch
ORGANIZER;CN=Ann:mailto:ann@example.com
DTSTART;TZID=America/New_York:20270312T230000
DTEND;TZID=America/New_York:20270313T010000
RRULE:FREQ=DAILY;COUNT=4
EXDATE;TZID=America/New_York:20270313T230000
"""


# ---------------------------------------------------------------- what it comes to


def test_an_event_is_a_freeze_with_its_words() -> None:
    first, second, third = ics.freezes(calendar(NIGHTLY), "url:http://them/x.ics", now=NOW)
    assert (first.reason, first.by, first.place) == (
        "Nightly batch",
        "Ann",
        "url:http://them/x.ics",
    )
    assert first.name == "nightly@them/20270313T040000Z"
    assert (utc(first.since), utc(first.until or 0)) == ("03-13 04:00", "03-13 06:00")
    # The 13th is taken out; clocks went forward on the 14th.
    assert [utc(one.since) for one in (second, third)] == ["03-15 03:00", "03-16 03:00"]
    assert all(one.binds_back for one in (first, second, third))


def test_moved_and_cancelled_instances_are_where_they_were_moved_to() -> None:
    moved = """\
UID:nightly@them
RECURRENCE-ID;TZID=America/New_York:20270314T230000
DTSTART:20270316T120000Z
DTEND:20270316T130000Z
"""
    cancelled = """\
UID:nightly@them
RECURRENCE-ID;TZID=America/New_York:20270315T230000
STATUS:CANCELLED
DTSTART;TZID=America/New_York:20270315T230000
DTEND;TZID=America/New_York:20270316T010000
"""
    assert spans(calendar(NIGHTLY, moved, cancelled)) == [
        ("03-13 04:00", "03-13 06:00"),
        ("03-16 12:00", "03-16 13:00"),
    ]


def test_a_day_without_an_end_is_one_day_in_the_named_zone() -> None:
    day = calendar("UID:d\nDTSTART;VALUE=DATE:20271225\nTRANSP:TRANSPARENT")
    assert spans(day, "Pacific/Auckland") == [("12-24 11:00", "12-25 11:00")]
    days = calendar("UID:d\nDTSTART;VALUE=DATE:20271220\nDTEND;VALUE=DATE:20271223")
    assert spans(days, "America/New_York") == [("12-20 05:00", "12-23 05:00")]


def test_the_files_own_zone_counts_where_no_other_is_named() -> None:
    text = calendar(
        "UID:f\nDTSTART:20270601T090000\nDURATION:PT1H", head="X-WR-TIMEZONE:Europe/Berlin\n"
    )
    assert spans(text) == [("06-01 07:00", "06-01 08:00")]
    assert spans(text, "America/New_York") == [("06-01 13:00", "06-01 14:00")]


def test_a_zone_that_the_file_defines_is_used() -> None:
    zone = """\
BEGIN:VTIMEZONE
TZID:Theirs
BEGIN:STANDARD
DTSTART:19700101T000000
TZOFFSETFROM:+0300
TZOFFSETTO:+0300
END:STANDARD
END:VTIMEZONE
"""
    event = "UID:a\nDTSTART;TZID=Theirs:20270601T090000\nDURATION:PT1H"
    assert spans(calendar(event, head=zone)) == [("06-01 06:00", "06-01 07:00")]


@pytest.mark.parametrize(
    ("begins", "ends", "span"),
    [
        # New York, 14 March 2027: 02:00 to 03:00 is left out, at 07:00 in UTC.
        ("0314T023000", "0314T033000", ("03-14 06:30", "03-14 07:30")),
        ("0314T023000", "0314T031500", ("03-14 06:30", "03-14 07:15")),
        ("0314T021500", "0314T024500", ("03-14 06:15", "03-14 07:45")),
        ("0314T013000", "0314T023000", ("03-14 06:30", "03-14 07:30")),
        ("0314T013000", "0314T033000", ("03-14 06:30", "03-14 07:30")),
        # 7 November 2027: 01:00 to 02:00 comes twice.
        ("1107T010000", "1107T013000", ("11-07 05:00", "11-07 06:30")),
        ("1107T013000", "1107T030000", ("11-07 05:30", "11-07 08:00")),
    ],
)
def test_clock_changes_make_a_freeze_longer_and_never_of_no_length(
    begins: str, ends: str, span: tuple[str, str]
) -> None:
    zone = "TZID=America/New_York"
    text = calendar(f"UID:a\nDTSTART;{zone}:2027{begins}\nDTEND;{zone}:2027{ends}")
    assert spans(text) == [span]


def test_what_guardrail_writes_of_whom_and_of_what_is_read() -> None:
    times = "DTSTART:20270601T090000Z\nDTEND:20270601T100000Z\n"
    ours = f"UID:a\n{times}X-GUARDRAIL-ROLES:memcached,web\nX-GUARDRAIL-ROLLBACK:warn"
    other = f"UID:b\n{times}X-GUARDRAIL-KIND:occasion"
    (one,) = ics.freezes(calendar(ours, other), "x", now=NOW)
    assert (one.name, one.roles, one.binds_back) == ("a", ("memcached", "web"), False)


def test_only_the_year_to_come_is_computed() -> None:
    event = "UID:y\nDTSTART:20100101T000000Z\nDURATION:PT1H\nRRULE:FREQ=WEEKLY"
    found = ics.freezes(calendar(event), "x", now=NOW)
    assert 52 <= len(found) <= 53
    assert found[0].since >= NOW - 86_400
    long = "UID:l\nDTSTART:20261201T000000Z\nDTEND:20270201T000000Z"
    assert spans(calendar(long)) == [("12-01 00:00", "02-01 00:00")]
    over = "UID:o\nDTSTART:20261201T000000Z\nDTEND:20261202T000000Z"
    assert spans(calendar(over)) == []


# ---------------------------------------------------------------- as others read it

RULES = st.one_of(
    st.builds("FREQ=DAILY;INTERVAL={}".format, st.integers(1, 9)),
    st.builds(
        "FREQ=WEEKLY;BYDAY={}".format,
        st.lists(
            st.sampled_from(["MO", "TU", "WE", "TH", "FR", "SA", "SU"]), min_size=1, unique=True
        ).map(",".join),
    ),
    st.builds(
        "FREQ=MONTHLY;BYDAY={}{}".format, st.sampled_from([1, 2, -1]), st.sampled_from(["SU", "FR"])
    ),
    st.builds("FREQ=MONTHLY;BYMONTHDAY={}".format, st.sampled_from([1, 29, 31, -1])),
    st.builds(
        "FREQ=YEARLY;BYMONTH={};BYMONTHDAY={}".format, st.integers(1, 12), st.integers(1, 28)
    ),
)


@settings(max_examples=80)
@given(
    rule=RULES,
    zone=st.sampled_from(ZONES),
    start=st.datetimes(JUNE, NOVEMBER),
    minutes=st.integers(1, 3 * 1440),
    more=st.tuples(st.integers(0, 60), st.sets(st.integers(0, 20), max_size=3)),
)
def test_foreign_instants_are_those_of_an_independent_library(
    rule: str, zone: str, start: datetime, minutes: int, more: tuple[int, set[int]]
) -> None:
    """A recurring event freezes at each instant that vobject and dateutil give, and at no other."""
    start = rrulestr(rule, dtstart=start.replace(second=0, microsecond=0))[0]
    count, left_out = more
    rule += f";COUNT={count}" if count else ""
    event = f"{event_at(start, minutes, zone)}\nRRULE:{rule}"
    walls = [at.replace(tzinfo=None) for at in theirs(calendar(event))]
    gone = [walls[n] for n in sorted(left_out) if n < len(walls)]
    text = calendar(event + "".join(f"\nEXDATE;TZID={zone}:{written(at)}" for at in gone))
    begin, end = JANUARY.replace(tzinfo=UTC).timestamp(), NOW // 86_400 * 86_400 + 366 * 86_400
    there = [at.timestamp() for at in theirs(text)]
    # At the edges, how long it lasts over a change of the clock decides: these are left out.
    expected = [at for at in there if begin < at < end]
    found = ics.freezes(text, "x", now=NOW)
    assert [one.since for one in found if one.since > begin] == expected
    assert all(one.since in there for one in found)
    assert all(one.until is not None and one.since < one.until for one in found)


def written(at: datetime) -> str:
    return f"{at:%Y%m%dT%H%M%S}"


def event_at(start: datetime, minutes: int, zone: str) -> str:
    end = start + timedelta(minutes=minutes)
    return f"UID:r\nDTSTART;TZID={zone}:{written(start)}\nDTEND;TZID={zone}:{written(end)}"


def theirs(text: bytes) -> list[datetime]:
    """The begins up to the end of the year, as vobject has them."""
    event = vobject.readOne(text.decode()).vevent
    found = []
    for at in event.getrruleset(addRDate=True):
        if at.year > 2028 or len(found) > 1_000:
            break
        found.append(at)
    return found


@settings(max_examples=200)
@given(
    zone=st.sampled_from(ZONES),
    start=st.datetimes(JANUARY + timedelta(days=2), NOVEMBER),
    minutes=st.integers(1, 300),
)
def test_a_freeze_is_never_of_no_length(zone: str, start: datetime, minutes: int) -> None:
    """Whatever clocks do, an event with a length on the clock freezes for at least some time, and
    no moment at which the clock shows a time in it is left out."""
    start = start.replace(second=0, microsecond=0)
    end = start + timedelta(minutes=minutes)
    (one,) = ics.freezes(calendar(event_at(start, minutes, zone)), "x", now=NOW)
    assert one.until is not None
    assert one.since < one.until
    shown = tz.gettz(zone)
    for minute in range(-180, minutes + 180, 7):
        at = one.since + minute * 60
        wall = datetime.fromtimestamp(at, shown).replace(tzinfo=None)
        if start <= wall < end:
            assert one.since <= at < one.until


# ---------------------------------------------------------------- what is refused

EVENT = "UID:a\nDTSTART:20270601T090000Z\nDTEND:20270601T100000Z\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"just words", "x.ics:1:1: `just words` is no line of an iCalendar file"),
        (calendar(EVENT)[:-15], "x.ics:1:1: BEGIN:VCALENDAR has no END: the file is cut off"),
        (
            calendar(EVENT + "END:VTODO"),
            "x.ics:8:1: END:VTODO ends nothing: VEVENT of line 4 is open",
        ),
        (calendar(EVENT + "nonsense"), "x.ics:8:1: `nonsense` is no line"),
        (calendar(EVENT).replace(b"\r\nUID", b"\rUID"), "x.ics:4:1: a carriage return in the"),
        (b"BEGIN:VTODO\r\nEND:VTODO\r\n", "begins with BEGIN:VCALENDAR, found BEGIN:VTODO"),
        (b"SUMMARY:x\r\n", "x.ics:1:1: an iCalendar file begins with BEGIN:VCALENDAR"),
        (calendar("UID:a"), "x.ics:4:1: this event has no DTSTART"),
        (calendar("UID:a\nDTSTART:soon"), "x.ics:6:1: DTSTART cannot be read"),
        (calendar("UID:a\nDTSTART:20270601T090000Z"), "x.ics:4:1: this event has no length"),
        (calendar(EVENT + "DTSTART:20270701T090000Z"), "an event has one DTSTART"),
        (calendar(EVENT + "DURATION:PT1H"), "a DTEND or a DURATION, not both"),
        (
            calendar("UID:a\nDTSTART:20270601T090000Z\nDTEND:20270601T090000Z"),
            "x.ics:7:1: this event ends before it has begun",
        ),
        (
            calendar("UID:a\nDTSTART:20270601T090000\nDURATION:PT1H"),
            "x.ics:6:1: this time has no zone: set GUARDRAIL_FREEZE_TIMEZONE",
        ),
        (calendar("UID:a\nDTSTART;VALUE=DATE:20270601"), "x.ics:6:1: this day has no zone"),
        (
            calendar("UID:a\nDTSTART;TZID=No/Where:20270601T090000\nDURATION:PT1H"),
            "x.ics:6:1: the zone `No/Where` is not known",
        ),
        (
            calendar("UID:a\nDTSTART;VALUE=PERIOD:20270601T090000Z/PT1H\nDURATION:PT1H"),
            "x.ics:6:1: DTSTART is neither a day nor a time of one",
        ),
        (calendar("UID:a\nDTSTART;VALUE=TIME:090000\nDURATION:PT1H"), "x.ics:6:1: DTSTART"),
        (calendar(EVENT.replace("DTEND", "DTEND;VALUE=TIME")), "x.ics:7:1: DTEND"),
        (calendar(EVENT.replace("DTEND:", "DURATION:P") + "X-A:b"), "x.ics:7:1: DURATION cannot"),
        (calendar(EVENT + "EXDATE:20270601T090000\n"), "EXDATE has no zone, and DTSTART has one"),
        (calendar(EVENT + "EXDATE:2027\n"), "x.ics:8:1: EXDATE cannot be read"),
        (
            calendar(EVENT + "RRULE:FREQ=HOURLY"),
            "x.ics:8:1: RRULE comes HOURLY; computed are DAILY",
        ),
        (calendar(EVENT + "RRULE:COUNT=3"), "RRULE comes at no frequency"),
        (calendar(EVENT + "RRULE:FREQ=DAILY;BYFOO=3"), "RRULE has the part `BYFOO`"),
        (calendar(EVENT + "RRULE:FREQ=DAILY;INTERVAL=0"), "INTERVAL"),
        (calendar(EVENT + "RRULE:FREQ=DAILY;COUNT=2;UNTIL=20270701T0Z"), "RRULE"),
        (
            calendar(EVENT + "RRULE:FREQ=DAILY;BYHOUR=1,2,3,4,5;BYMINUTE=1,2,3,4,5"),
            "x.ics:8:1: RRULE comes more than 24 times a day",
        ),
        (b"\xff\xfe\x00", "x.ics:1:1: this is not UTF-8"),
        (calendar(EVENT, head="X-WR-TIMEZONE:Mars/Base\n"), "X-WR-TIMEZONE names no zone"),
        (calendar(*[EVENT] * 2_001), "at most 2,000 events are read, found 2,001"),
    ],
)
def test_a_broken_calendar_is_refused_with_its_place_and_in_words(text: bytes, said: str) -> None:
    with pytest.raises(InvalidFile) as refused:
        ics.freezes(text, "x.ics", now=NOW)
    assert said in str(refused.value)


def test_more_instants_than_can_be_meant_are_refused() -> None:
    busy = "RRULE:FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23"
    with pytest.raises(InvalidFile, match="more than 5,000 freezes"):
        ics.freezes(calendar(EVENT + busy), "x", now=NOW)


def test_a_rule_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ics, "LONGEST", -1.0)
    with pytest.raises(InvalidFile, match="x:4:1: it takes longer than"):
        ics.freezes(calendar(EVENT), "x", now=NOW)


@settings(max_examples=300)
@given(st.data())
def test_any_damage_is_refused_or_changes_no_instant(data: st.DataObject) -> None:
    """A calendar that was cut or garbled is refused as such, never with another error."""
    text = calendar(NIGHTLY, EVENT)
    at = data.draw(st.integers(0, len(text) - 1))
    garbled = data.draw(
        st.sampled_from(
            [text[:at], text[:at] + b"\n" + text[at:], text[:at] + b"Q" + text[at + 1 :]]
        )
    )
    try:
        found = ics.freezes(garbled, "x.ics", "UTC", NOW)
    except InvalidFile:
        return
    assert all(one.until is not None and one.since < one.until for one in found)
    assert all(one.since <= other.since for one, other in pairwise(found))


# ---------------------------------------------------------------- among other documents


def test_a_calendar_is_known_by_its_name_its_type_or_its_first_words() -> None:
    text = calendar(EVENT.replace("2027", "2099"))
    assert parse(text, "kv:http://consul/freezes", 1.0) == ()
    for how in ({"place": "file:/x.ics"}, {"place": "url:http://x", "calendar": True}):
        with pytest.raises(InvalidFile, match="begins with BEGIN:VCALENDAR"):
            parse(b"reason: launch", since=1.0, **how)  # type: ignore[arg-type]
    (empty,) = parse(b"", "file:/x.ics", 7.0)
    assert (empty.since, empty.until) == (7.0, None)


def test_the_zone_is_named_for_all_places_or_refused() -> None:
    begin = datetime.now(UTC).date() + timedelta(days=3)
    text = calendar(f"UID:d\nDTSTART;VALUE=DATE:{begin:%Y%m%d}")
    (one,) = parse_in("Pacific/Auckland")(text, "file:x.ics", 1.0)
    assert datetime.fromtimestamp(one.since, tz.gettz("Pacific/Auckland")).date() == begin
    with pytest.raises(InvalidFile, match="GUARDRAIL_FREEZE_TIMEZONE"):
        parse_in("")(text, "file:x.ics", 1.0)
    with pytest.raises(Refused, match="GUARDRAIL_FREEZE_TIMEZONE is a name of the tz database"):
        parse_in("Mars/Base")
