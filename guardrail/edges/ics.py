"""How does a season become a file that every calendar can subscribe to? (iCalendar, RFC 5545)

The same season is the same file, byte for byte: names (UID) stay, entries have their order, and
DTSTAMP is when the season begins, since the hour at which a file was made is nothing that changed.

    times                 in UTC: readers of zones differ by an hour near a change of the clock
                          (seen); what a clock shows is in the description
    freezes               on whole seconds, rather longer than shorter
    no end                a moment has none; a freeze that stands until it is lifted ends with the
                          season, and says so

X-GUARDRAIL-KIND, -ROLES, -FLEETS and -ROLLBACK say the rest: read as a freeze place (files/ics.py)
the file freezes where its freezes do, and nothing else of it does.
"""

import math
from datetime import UTC, datetime

import icalendar

from guardrail.model.season import Entry, Season

MADE_BY = "-//guardrail//season//EN"
OPEN = "it stands until it is lifted; here it ends with the season"


def feed(season: Season, name: str = "guardrail") -> bytes:
    """The season as an iCalendar file."""
    calendar = icalendar.Calendar()
    for key, value in (("PRODID", MADE_BY), ("VERSION", "2.0"), ("CALSCALE", "GREGORIAN")):
        calendar.add(key, value)
    calendar.add("X-WR-CALNAME", name)
    stamp = _utc(math.floor(season.begins_at))
    for entry in season.entries:
        calendar.add_component(_event(entry, season, stamp))
    return bytes(calendar.to_ical())


def _event(entry: Entry, season: Season, stamp: datetime) -> icalendar.Event:
    event = icalendar.Event()
    event.add("UID", entry.uid)
    event.add("DTSTAMP", stamp)
    event.add("SUMMARY", entry.title + (" (estimate)" if entry.estimate else ""))
    event.add("DTSTART", _utc(math.floor(entry.begins_at)))
    endless = entry.kind == "freeze" and entry.ends_at is None
    ends = max(season.ends_at, entry.begins_at + 1) if endless else entry.ends_at
    if ends is not None:
        event.add("DTEND", _utc(math.ceil(ends)))
    event.add("DESCRIPTION", "\n".join((*entry.details, *([OPEN] if endless else []))))
    event.add("CATEGORIES", [entry.kind])
    event.add("TRANSP", "TRANSPARENT")  # nobody is busy, and nobody is to be invited around it
    for key, value in _ours(entry):
        event.add(key, value)
    return event


def _ours(entry: Entry) -> list[tuple[str, str]]:
    """What reading it again needs (files/ics.py)."""
    lists = (("ROLES", entry.roles), ("FLEETS", entry.fleets))
    found: list[tuple[str, str]] = [("X-GUARDRAIL-KIND", entry.kind)]
    found += [(f"X-GUARDRAIL-{key}", ",".join(names)) for key, names in lists if names]
    return found + ([] if entry.binds_back else [("X-GUARDRAIL-ROLLBACK", "warn")])


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
