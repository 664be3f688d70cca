"""What does one event of an iCalendar file say, and can it be computed?"""

import math
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from typing import Any
from zoneinfo import ZoneInfo

from guardrail.files.ics_text import Spot

MOST_A_DAY = 24
"""Instants of one rule in a day."""
FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_TIMES = ("DTSTART", "DTEND", "RECURRENCE-ID", "EXDATE", "RDATE")
_ONCE = ("UID", "DTSTART", "DTEND", "DURATION", "RECURRENCE-ID", "RRULE", "STATUS")
_COUNTED = ("BYHOUR", "BYMINUTE", "BYSECOND")
_BY = ("BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYMONTH", "BYSETPOS")
_PARTS = frozenset(("FREQ", "UNTIL", "COUNT", "INTERVAL", "WKST", *_BY, *_COUNTED))

OTHERS = ("occasion", "reminder", "window")
"""Kinds of our own feed (model/season.py) that freeze nothing where it is read."""

Time = date | datetime
Event = Any
"""One of the library's components: what its properties are is known when they are looked at."""


# ---------------------------------------------------------------- what it says


def _several(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _times(value: Any) -> Iterator[tuple[Any, str]]:
    """Every value of a property, which should be a day or a time, with the zone that it names."""
    for one in _several(value):
        zoned = str(one.params.get("TZID", ""))
        for each in getattr(one, "dts", [one]):
            period = isinstance(each.dt, tuple) and each is not one
            yield (each.dt[0] if period else each.dt), zoned


def is_freeze(event: Event) -> bool:
    """Whether an event freezes: every one does but what our own feed says is another thing."""
    return str(event.get("X-GUARDRAIL-KIND", "")).lower() not in OTHERS


def in_zone(value: Time, zone: ZoneInfo | None) -> datetime:
    """A day is its midnight."""
    if not isinstance(value, datetime):
        value = datetime.combine(value, clock())
    return value.replace(tzinfo=zone or UTC) if value.tzinfo is None else value


def span_of(begins: datetime, ends: datetime) -> tuple[float, float] | None:
    """From when to when an event with these times is (seconds since the epoch); None: no length.

    A time that the clock leaves out or shows twice can be read in two ways: as a begin it is the
    earlier one, as an end the later. 02:30 to 03:30 on a spring night is an hour, not nothing.
    """
    since = min(begins.replace(fold=fold).timestamp() for fold in (0, 1))
    until = max(ends.replace(fold=fold).timestamp() for fold in (0, 1))
    return (since, until) if since < until else None


def words(value: object) -> str:
    """A text on one line, without what a terminal would obey."""
    text = "" if value is None else str(value)
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:300]


def names(value: object) -> tuple[str, ...]:
    return tuple(name for each in words(value).split(",") if (name := each.strip()))


def organizer(event: Event) -> str:
    found = event.get("ORGANIZER")
    if found is None or isinstance(found, list):
        return ""
    named = words(found.params.get("CN"))
    return named or re.sub("^mailto:", "", words(found), flags=re.IGNORECASE)


# ---------------------------------------------------------------- what is refused


def faults_of(event: Event, spot: Spot, zone: ZoneInfo | None) -> Iterator[tuple[int, str]]:
    """Why an event cannot be computed as it is written, with lines; nothing: it can."""
    unread = [(name, f"{name} cannot be read: {why}") for name, why in event.errors]
    unread += [(n, f"an event has one {n}") for n in _ONCE if isinstance(event.get(n), list)]
    if "DTSTART" not in event:
        unread.append(("", "this event has no DTSTART"))
    for name, why in unread or _faults(event, zone):
        yield spot.at(str(name)), why


def _faults(event: Event, zone: ZoneInfo | None) -> Iterator[tuple[str, str]]:
    for name in _TIMES:
        for value, zoned in _times(event.get(name)):
            if (why := _time_fault(name, value, zoned, event, zone)) is not None:
                yield name, why
    for rule in _several(event.get("RRULE")):
        if (why := _rule_fault(rule)) is not None:
            yield "RRULE", why
    days = (event[name].dt for name in ("DTSTART", "DTEND") if name in event)
    if all(isinstance(each, date) for each in days) and (why := _length_fault(event)) is not None:
        yield "DTEND", why


def _time_fault(
    name: str, value: Any, zoned: str, event: Event, zone: ZoneInfo | None
) -> str | None:
    """Why it is not known when a time is; None: it is. A day of EXDATE is that day of DTSTART's."""
    if not isinstance(value, date):
        return f"{name} is neither a day nor a time of one"
    timed = isinstance(value, datetime)
    if not _is_naive(value):
        return None
    if zoned and timed:
        return f"the zone `{zoned[:40]}` is not known, and the file does not define it"
    if not _is_naive(event["DTSTART"].dt):
        return f"{name} has no zone, and DTSTART has one" if timed or name == "DTEND" else None
    if zone is not None:
        return None
    what = "time" if timed else "day"
    return (
        f"this {what} has no zone: set GUARDRAIL_FREEZE_TIMEZONE to a name of the tz database, "
        "such as Europe/Berlin"
    )


def _rule_fault(rule: Any) -> str | None:
    """Why a rule is not computed; None: it is."""
    unknown = [part for part in rule if str(part).upper() not in _PARTS]
    if unknown:
        return f"RRULE has the part `{unknown[0]}`, which is not known"
    freq = str(next(iter(_several(rule.get("FREQ"))), "")).upper()
    if freq not in FREQUENCIES:
        return f"RRULE comes {freq or 'at no frequency'}; computed are {', '.join(FREQUENCIES)}"
    if any(step < 1 for step in _several(rule.get("INTERVAL"))):
        return "RRULE needs an INTERVAL of at least 1"
    by = [len(_several(rule.get(part))) or 1 for part in _COUNTED]
    if math.prod(by) > MOST_A_DAY:
        return f"RRULE comes more than {MOST_A_DAY} times a day"
    return None


def _length_fault(event: Event) -> str | None:
    """What is wrong with an end; None: nothing."""
    begins, ends, lasts = (event.get(name) for name in ("DTSTART", "DTEND", "DURATION"))
    if ends is not None and lasts is not None:
        return "an event has a DTEND or a DURATION, not both"
    if lasts is not None and lasts.dt <= timedelta():
        return "this event has no length: its DURATION is not above 0"
    if ends is None:
        timed = isinstance(begins.dt, datetime) and lasts is None
        return "this event has no length: give it a DTEND or a DURATION" if timed else None
    if isinstance(begins.dt, datetime) != isinstance(ends.dt, datetime):
        return "DTSTART and DTEND are both days or both times"
    if _is_naive(begins.dt) and not _is_naive(ends.dt):
        return "DTEND has a zone, and DTSTART has none"
    return None if _wall_length(begins.dt, ends.dt) else "this event ends before it has begun"


def _is_naive(value: Time) -> bool:
    return not isinstance(value, datetime) or value.tzinfo is None


def _wall_length(begins: Time, ends: Time) -> bool:
    """Whether it has a length, either on the clock or in truth."""
    one, other = in_zone(begins, None), in_zone(ends, None)
    same = one.tzinfo == other.tzinfo
    wall = one.replace(tzinfo=None) < other.replace(tzinfo=None)
    return wall if same else one.timestamp() < other.timestamp()
