"""Which freezes does an iCalendar file of somebody else's come to?

Each event is one freeze, and a recurring one as many as it has instants in the year to come, as the
library `recurring-ical-events` has them (EXDATE, RDATE, RECURRENCE-ID and moved instances too):

    STATUS:CANCELLED                   none; other states and TRANSP do not matter
    a day, or a time without a zone    in the zone that GUARDRAIL_FREEZE_TIMEZONE names, else the
                                       file's own X-WR-TIMEZONE; without either it is refused
    a time that the clock leaves out,  the earlier reading of it where something begins, the later
    or shows twice                     one where it ends: it is frozen longer, and never for nothing
    X-GUARDRAIL-KIND                   none where it names another kind: `guardrail season ics`
                                       writes more than freezes
    X-GUARDRAIL-ROLES, -FLEETS and     whom it concerns, and whether going back waits, as in
    -ROLLBACK                          files/freeze.py

Whatever cannot be read is refused with its line: a calendar that is half understood does not say
when nothing is frozen.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import icalendar
import recurring_ical_events

from guardrail.errors import Fault, InvalidFile
from guardrail.files.ics_event import (
    Event,
    faults_of,
    in_zone,
    is_freeze,
    names,
    organizer,
    span_of,
    words,
)
from guardrail.files.ics_text import BOM, MOST_TOLD, Spot, scan
from guardrail.model.freeze import Freeze

AHEAD = timedelta(days=366)
"""For how long instants are computed, from the beginning of today (UTC)."""
AROUND = timedelta(days=2)
"""What is computed besides, for times whose zone is not looked at by the library."""
MOST_FREEZES = 5_000
LONGEST = 5.0
"""Seconds that the events of a file may take; a rule that never comes is looked for up to the year
9999."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What one file comes to: freezes, or what is wrong with it."""

    freezes: tuple[Freeze, ...] = ()
    faults: tuple[Fault, ...] = ()


def freezes(
    text: bytes, place: str, timezone: str = "", now: float | None = None
) -> tuple[Freeze, ...]:
    """The freezes of a calendar from the beginning of the day of `now` (UTC) for AHEAD, in order.

    timezone: a name of the tz database, for days and times without a zone. The same text of one day
    is looked at once. Raises InvalidFile.
    """
    today = datetime.fromtimestamp(time.time() if now is None else now, UTC)
    begin = today.replace(hour=0, minute=0, second=0, microsecond=0)
    found = _outcome(text, place, timezone, begin)
    if found.faults:
        raise InvalidFile(found.faults)
    return found.freezes


def spans(text: bytes, place: str, timezone: str) -> tuple[tuple[float, float], ...]:
    """From when to when the events of a calendar are, in order. Raises as `freezes` does."""
    found = freezes(text, place, timezone)
    return tuple((one.since, one.until) for one in found if one.until is not None)


@lru_cache(maxsize=8)
def _outcome(text: bytes, place: str, timezone: str, begin: datetime) -> _Outcome:
    try:
        return _Outcome(_Reader(place, timezone, begin).read(text))
    except InvalidFile as error:
        return _Outcome(faults=error.faults[:MOST_TOLD])


@dataclass(slots=True)
class _Reader:
    """Reads one file; collects what is wrong with it. begin: whose day it is computed from."""

    place: str
    timezone: str
    begin: datetime
    faults: list[Fault] = field(default_factory=list)

    def read(self, text: bytes) -> tuple[Freeze, ...]:
        spots = scan(text, self.place)
        calendars = self._parsed(text)
        events: list[Event] = [event for one in calendars for event in one.walk("VEVENT")]
        if len(events) != len(spots):
            what = f"{len(spots)} events begin here, and {len(events)} can be read"
            raise InvalidFile((Fault(self.place, 1, 1, what),))
        at = {id(event): spot for event, spot in zip(events, spots, strict=True)}
        found = [one for calendar in calendars for one in self._calendar(calendar, at)]
        if len(found) > MOST_FREEZES:
            self._say(1, f"more than {MOST_FREEZES:,} freezes in the year to come")
        if self.faults:
            raise InvalidFile(tuple(dict.fromkeys(self.faults)))
        return tuple(sorted(found, key=lambda one: (one.since, one.until or 0.0, one.name)))

    def _say(self, line: int, what: str) -> None:
        self.faults.append(Fault(self.place, line, 1, what))

    def _parsed(self, text: bytes) -> list[icalendar.Component]:
        try:
            return list(icalendar.Calendar.from_ical(text.removeprefix(BOM), multiple=True))
        except Exception as error:  # the library has many; each means that it cannot be read
            why = " ".join(str(error).split())[:200]
            fault = Fault(self.place, 1, 1, f"this iCalendar file cannot be read: {why}")
            raise InvalidFile((fault,)) from None

    def _calendar(self, calendar: icalendar.Component, at: dict[int, Spot]) -> Iterator[Freeze]:
        """Every freeze of it in the time that is computed; faults are collected."""
        zone = self._zone(calendar)
        ours: list[Event] = [event for event in calendar.walk("VEVENT") if is_freeze(event)]
        for event in ours:
            self._check(event, at[id(event)], zone)
        if self.faults:
            return
        end = time.monotonic() + LONGEST
        for events in _by_uid(ours):
            spot = at[id(events[0])]
            yield from self._series(events, spot, zone)
            if time.monotonic() > end:
                self._say(spot.line, f"it takes longer than {LONGEST:g} s to compute these events")
                return

    def _check(self, event: Event, spot: Spot, zone: ZoneInfo | None) -> None:
        try:
            for line, what in faults_of(event, spot, zone):
                self._say(line, what)
        except Exception as error:  # a value of a kind that nobody expects there
            self._say(spot.line, f"this event cannot be read: {' '.join(str(error).split())[:200]}")

    def _zone(self, calendar: icalendar.Component) -> ZoneInfo | None:
        """The zone for days and times without one; None: none is named, or none that is known."""
        name = self.timezone or str(calendar.get("X-WR-TIMEZONE", "")).strip()
        if not name:
            return None
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            whose = "GUARDRAIL_FREEZE_TIMEZONE" if self.timezone else "X-WR-TIMEZONE"
            self._say(1, f"{whose} names no zone of the tz database: `{name[:40]}`")
            return None

    def _series(self, events: list[Event], spot: Spot, zone: ZoneInfo | None) -> Iterator[Freeze]:
        """The instants of the events with one UID, as the library has them."""
        alone = icalendar.Calendar()
        alone.subcomponents = list(events)
        end = self.begin + AHEAD
        try:
            found = recurring_ical_events.of(alone).between(self.begin - AROUND, end + AROUND)
        except Exception as error:  # a rule or a time that the library can make nothing of
            why = " ".join(str(error).split())[:200]
            self._say(spot.at("RRULE"), f"this event cannot be computed: {why}")
            return
        several = len(events) > 1 or any(key in events[0] for key in ("RRULE", "RDATE"))
        for event in found:
            one = self._freeze(event, spot, zone, several=several)
            if one and _meets(one, self.begin.timestamp(), end.timestamp()):
                yield one

    def _freeze(
        self, event: Event, spot: Spot, zone: ZoneInfo | None, *, several: bool
    ) -> Freeze | None:
        """One instant; None: it was cancelled."""
        if str(event.get("STATUS", "")).upper() == "CANCELLED":
            return None
        span = span_of(in_zone(event["DTSTART"].dt, zone), in_zone(event["DTEND"].dt, zone))
        if span is None:
            self._say(spot.at("DTEND"), "this event comes without a length")
            return None
        stamp = f"/{datetime.fromtimestamp(span[0], UTC):%Y%m%dT%H%M%SZ}" if several else ""
        return Freeze(
            name=(words(event.get("UID")) or f"event-{spot.line}") + stamp,
            reason=words(event.get("SUMMARY")),
            by=organizer(event),
            since=span[0],
            until=span[1],
            place=self.place,
            roles=names(event.get("X-GUARDRAIL-ROLES")),
            fleets=names(event.get("X-GUARDRAIL-FLEETS")),
            binds_back=str(event.get("X-GUARDRAIL-ROLLBACK", "")).strip().lower() != "warn",
        )


def _by_uid(events: list[Event]) -> list[list[Event]]:
    """What belongs together: an event and its moved instances."""
    series: dict[object, list[Event]] = {}
    for event in events:
        series.setdefault(str(event.get("UID", "")) or id(event), []).append(event)
    return list(series.values())


def _meets(freeze: Freeze, begin: float, end: float) -> bool:
    return freeze.since < end and (freeze.until is None or begin < freeze.until)
