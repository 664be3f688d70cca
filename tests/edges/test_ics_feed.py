"""Does another program read from the feed what is in the season, and guardrail its freezes?"""

from dataclasses import replace
from datetime import UTC, datetime

import vobject
from hypothesis import given, settings
from hypothesis import strategies as st

from guardrail.edges.ics import feed
from guardrail.files import ics
from guardrail.model.season import Entry, Season

BEGIN, END = (
    datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()
    for day in ("2026-10-01", "2027-04-01")
)
ZONES = (
    "",
    "America/Los_Angeles",
    "Europe/London",
    "Asia/Tokyo",
    "Pacific/Auckland",
    "Australia/Lord_Howe",
)
WORDS = st.text(
    st.characters(
        min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"]
    )
    | st.sampled_from(" ,;:\\\"'"),
    min_size=1,
    max_size=90,
).filter(lambda text: text == text.strip() and bool(text))


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    kind = draw(st.sampled_from(["occasion", "reminder", "window", "freeze"]))
    begins = draw(st.integers(int(BEGIN), int(END) - 1))
    length = draw(st.integers(1, 20 * 86_400))
    freeze = kind == "freeze"
    ends = None if kind == "reminder" else float(begins + length)
    names = st.lists(st.sampled_from(["memcached", "web", "cache"]), unique=True).map(tuple)
    return Entry(
        kind=kind,
        key=draw(st.text("abc/-.:0123", min_size=1, max_size=30)),
        title=draw(WORDS),
        begins_at=float(begins),
        ends_at=draw(st.sampled_from([ends, None])) if freeze else ends,
        timezone="" if freeze else draw(st.sampled_from(ZONES)),
        details=tuple(draw(st.lists(WORDS, max_size=3))),
        roles=draw(names) if freeze else (),
        fleets=draw(names) if freeze else (),
        binds_back=draw(st.booleans()) if freeze else True,
    )


SEASONS = st.lists(entries(), max_size=8, unique_by=lambda each: each.uid).map(
    lambda some: Season(BEGIN, END, tuple(some))
)


def ends_of(entry: Entry) -> float | None:
    return END if entry.kind == "freeze" and entry.ends_at is None else entry.ends_at


@settings(max_examples=60)
@given(SEASONS)
def test_the_feed_reads_as_the_same_events_elsewhere(season: Season) -> None:
    """An independent parser finds the feed valid, and in it the same names, times and words."""
    calendar = vobject.readOne(feed(season).decode())
    assert calendar.validate(raiseException=True)
    found = {}
    for event in calendar.contents.get("vevent", []):
        end = event.dtend.value.timestamp() if "dtend" in event.contents else None
        words = (event.summary.value, event.description.value)
        found[event.uid.value] = (event.dtstart.value.timestamp(), end, words[0])
        assert words[1].startswith(
            "\n".join(next(each.details for each in season.entries if each.uid == event.uid.value))
        )
    assert found == {
        each.uid: (each.begins_at, ends_of(each), each.title) for each in season.entries
    }


@settings(max_examples=60)
@given(SEASONS)
def test_the_feed_freezes_where_its_freezes_do(season: Season) -> None:
    """Read as a freeze place, the feed gives its freezes, and nothing else of it freezes."""
    read = ics.freezes(feed(season), "feed.ics", now=BEGIN)
    found = [
        (each.name, each.since, each.until, each.roles, each.fleets, each.binds_back)
        for each in read
    ]
    expected = [
        (each.uid, each.begins_at, ends_of(each), each.roles, each.fleets, each.binds_back)
        for each in season.entries
        if each.kind == "freeze"
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


@settings(max_examples=30)
@given(SEASONS)
def test_the_same_season_is_the_same_file(season: Season) -> None:
    """Byte for byte; made of a season that begins later, it differs in DTSTAMP alone."""
    made = feed(season)
    assert feed(Season(season.begins_at, season.ends_at, season.entries)) == made
    later = feed(replace(season, begins_at=season.begins_at + 86_400))
    assert without_stamps(later) == without_stamps(made)


def without_stamps(made: bytes) -> list[bytes]:
    return [line for line in made.splitlines() if not line.startswith(b"DTSTAMP")]


def test_the_hour_at_which_it_is_made_is_not_in_it() -> None:
    entry = Entry("freeze", "a", "quiet", BEGIN, BEGIN + 10)
    assert b"DTSTAMP:20261001T000000Z\r\n" in feed(Season(BEGIN, END, (entry,)))


def test_parts_of_seconds_make_a_freeze_longer() -> None:
    entry = Entry("freeze", "a", "quiet", BEGIN + 0.4, BEGIN + 9.2)
    (one,) = ics.freezes(feed(Season(BEGIN, END, (entry,))), "x", now=BEGIN)
    assert (one.since, one.until) == (BEGIN, BEGIN + 10)
