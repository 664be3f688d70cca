"""How are the windows of a policy written?

    windows:
      timezone: America/Los_Angeles     # whose clock counts; a name of the tz database
      deny:                             # no host begins in these; deny beats allow
        - days: mon-fri                 # that it begins on: mon-fri, sat, or a list [mon, wed-fri]
          from: "05:30"                 # on the clock; up to `to`, which is not in it any more
          to: "10:00"                   # not after `from`: on the next day; 24:00 is midnight
          settleBefore: 30m             # work ends so much earlier: nothing is cold when it begins
          reason: daily peak
          peak: true                    # what `bake.covers: dailyPeak` waits for
        - dates: [2026-12-18/2027-01-04, 2026-11-26]    # from/up to (not in it), or a single day
          reason: holiday freeze
        - calendar: freezes.ics         # other people's: an iCalendar file beside this one (ics.py)
      allow: []                         # once one is here, all that is not allowed is closed
      rollback: warn                    # going back is told of windows; same: it keeps to them

Without `from` and `to` it is whole days, without `days` every day, without `dates` all year. A
window belongs to the day that it begins on.
"""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import lru_cache
from typing import Annotated, Self
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, model_validator

from guardrail.files.values import Duration, Format, Text, shown, wrong
from guardrail.model.calendar import (
    DAY_MINUTES,
    DAYS,
    EVERY_DAY,
    DateRange,
    Window,
    Windows,
    WindowsBack,
)

CLOCK = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
CLOCK_END = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"
DAY_WORD = rf"^({'|'.join(DAYS)})(-({'|'.join(DAYS)}))?$"
DATES = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(/[0-9]{4}-[0-9]{2}-[0-9]{2})?$"


# ---------------------------------------------------------------- words


def clock(value: object) -> int:
    """`05:30` as minutes after midnight. Raises ValueError."""
    if value == "24:00":
        raise ValueError("24:00 is an end and no beginning; write 00:00, of the next day")
    if not isinstance(value, str) or not re.fullmatch(CLOCK, value):
        raise ValueError(
            f'a time from "00:00" to "23:59" is needed, in quotes, found {shown(value)}'
        )
    hours, minutes = value.split(":")
    return int(hours) * 60 + int(minutes)


def clock_end(value: object) -> int:
    """`10:00` or `24:00` as minutes after midnight. Raises ValueError."""
    if value == "24:00":
        return DAY_MINUTES
    if isinstance(value, str) and re.fullmatch(r"24:[0-5][0-9]", value):
        raise ValueError(f"the day ends at 24:00, found {shown(value)}; write 00:{value[3:]}")
    if not isinstance(value, str) or not re.fullmatch(CLOCK, value):
        raise ValueError(
            f'a time from "00:00" to "24:00" is needed, in quotes, found {shown(value)}'
        )
    return clock(value) or DAY_MINUTES


def days(value: object) -> tuple[int, ...]:
    """`mon-fri`, `sat` or a list of such words; 0 is Monday. Raises ValueError."""
    words = value if isinstance(value, list) else [value]
    if not words:
        raise ValueError("at least one day is needed; drop the key for every day")
    return tuple(sorted({day for word in words for day in _of_word(word)}))


def _of_word(word: object) -> Sequence[int]:
    if not isinstance(word, str) or not re.fullmatch(DAY_WORD, word):
        raise ValueError(
            f"days are needed, such as mon-fri, sat or [mon, wed-fri], found {shown(word)}; "
            f"allowed: {', '.join(DAYS)}"
        )
    first, _, last = word.partition("-")
    begin, end = DAYS.index(first), DAYS.index(last or first)
    return [day % len(DAYS) for day in range(begin, end + 1 + (len(DAYS) if end < begin else 0))]


def dates(value: object) -> DateRange:
    """`2026-12-18/2027-01-04`, the second not in it; or a single day. Raises ValueError."""
    if not isinstance(value, str) or not re.fullmatch(DATES, value):
        raise ValueError(
            "days of a year are needed, such as 2026-12-18, or 2026-12-18/2027-01-04 with the "
            f"second not in it any more, found {shown(value)}"
        )
    first, _, last = value.partition("/")
    begin = _day(first)
    end = _day(last) if last else begin + timedelta(days=1)
    if end <= begin:
        raise ValueError(f"{last} is not after {first}: no day would be in it")
    return DateRange(begin, end)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"there is no day {text}") from error


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def zone(value: str) -> str:
    """A name of the tz database that this machine has. Raises ValueError."""
    known = _zones()
    if not known:
        raise ValueError(
            "this machine has no database of time zones: install tzdata (the package of the "
            "system, or the one of Python)"
        )
    if value not in known:
        near = difflib.get_close_matches(value, sorted(known), n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ";"
        raise ValueError(
            f"{shown(value)} is no time zone known here{hint} a name such as "
            "America/Los_Angeles, Europe/Berlin or UTC is needed"
        )
    return value


_DAYS_SCHEMA = {"type": "string", "pattern": DAY_WORD}
Clock = Annotated[int, PlainValidator(clock), WithJsonSchema({"type": "string", "pattern": CLOCK})]
ClockEnd = Annotated[
    int, PlainValidator(clock_end), WithJsonSchema({"type": "string", "pattern": CLOCK_END})
]
Days = Annotated[
    tuple[int, ...],
    PlainValidator(days),
    WithJsonSchema(
        {"anyOf": [_DAYS_SCHEMA, {"type": "array", "items": _DAYS_SCHEMA, "minItems": 1}]}
    ),
]
Dates = Annotated[
    DateRange, PlainValidator(dates), WithJsonSchema({"type": "string", "pattern": DATES})
]
Zone = Annotated[Text, AfterValidator(zone)]


# ---------------------------------------------------------------- formats


class AllowFormat(Format):
    """A time on the clock, on some days."""

    days: Days | None = Field(default=None, description="That it begins on; every day.")
    from_: Clock | None = Field(default=None, alias="from", description="00:00 to 23:59.")
    to: ClockEnd | None = Field(
        default=None, description="Not in it any more; not after `from`: on the next day."
    )
    dates: list[Dates] = Field(default=[], description="Days that it may begin on; all.")
    settle_before: Duration = Field(
        default=0.0, description="The allowed time ends so much earlier."
    )
    reason: Text | None = Field(default=None, description="Shown to whoever has to wait.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.from_ is None) != (self.to is None):
            raise wrong(((), "`from` and `to` are given together; without them it is whole days"))
        if self.from_ is not None and self.from_ == self.to:
            raise wrong((("to",), 'it ends as it begins; for a whole day write "00:00" to "24:00"'))
        if self.dates and not any(map(self._comes, self.dates)):
            raise wrong((("dates",), "none of these days is one of `days`: it would never come"))
        return self

    def _comes(self, known: DateRange) -> bool:
        length = min((known.end - known.begin).days, len(DAYS))
        first = known.begin.weekday()
        return any((first + n) % len(DAYS) in (self.days or EVERY_DAY) for n in range(length))


class DenyFormat(AllowFormat):
    """A time on the clock in which no host begins."""

    peak: bool = Field(default=False, description="What `bake.covers: dailyPeak` waits for.")
    calendar: Text | None = Field(
        default=None, description="An iCalendar file, relative to this document: its events close."
    )

    @model_validator(mode="after")
    def _alone(self) -> Self:
        given = self.model_fields_set - {"calendar", "reason", "settle_before"}
        if self.calendar is not None and given:
            raise wrong(
                (("calendar",), "it says when by itself; beside it are `reason` and `settleBefore`")
            )
        return self


class WindowsFormat(Format):
    """When work may go on, on whose clock."""

    timezone: Zone = Field(description="A name of the tz database, such as Europe/Berlin.")
    deny: list[DenyFormat] = Field(default=[], description="No host begins in these.")
    allow: list[AllowFormat] = Field(
        default=[], description="With any here, hosts begin in these alone; deny beats them."
    )
    rollback: WindowsBack = Field(
        default="warn", description="Whether going back keeps to them, or is only told."
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.deny and not self.allow:
            raise wrong(((), "at least one entry in `deny` or `allow` is needed here"))
        return self

    @property
    def has_peak(self) -> bool:
        return any(entry.peak for entry in self.deny)


Spans = tuple[tuple[float, float], ...]
Said = Callable[[int, str], Spans]
"""What the calendar of a `deny` entry, by index, says; raises InvalidFile."""


def to_windows(written: WindowsFormat, said: Said, *, covers_peak: bool) -> Windows:
    """The model; the places of its entries are added where they are merged. Raises InvalidFile."""
    return Windows(
        timezone=written.timezone,
        deny=tuple(_deny(entry, number, said) for number, entry in enumerate(written.deny)),
        allow=tuple(_window(entry) for entry in written.allow),
        rollback=written.rollback,
        covers_peak=covers_peak,
    )


def _deny(written: DenyFormat, number: int, said: Said) -> Window:
    window = _window(written, peak=written.peak)
    if written.calendar is None:
        return window
    return replace(window, calendar=written.calendar, spans=said(number, written.calendar))


def _window(written: AllowFormat, *, peak: bool = False) -> Window:
    return Window(
        days=written.days or EVERY_DAY,
        begins=written.from_ or 0,
        ends=DAY_MINUTES if written.to is None else written.to,
        dates=tuple(written.dates),
        settle_before=written.settle_before,
        reason=written.reason or "",
        peak=peak,
    )
