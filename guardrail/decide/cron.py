"""Which times on the clock does a cron line name?

Five fields: minute, hour, day of the month, month, day of the week (0 and 7 are Sunday). A field
is `*`, a number, a name (`jan`, `mon`), `a-b`, any of these with `/step`, or a list of them. Where
both days are given, either is enough, as cron has it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from guardrail.model.calendar import DAYS

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, MONTHS),
    ("day of the week", 0, 7, ("sun", *DAYS[:6])),
)
MOST = 24
"""Times a day: an occasion that comes more often is none that people are reminded of."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A line that was read. weekdays: 0 is Monday. either: both days are given."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    either: bool

    def on(self, day: date) -> bool:
        """Whether it names times of that day."""
        if day.month not in self.months:
            return False
        dated, named = day.day in self.days, day.weekday() in self.weekdays
        return (dated or named) if self.either else (dated and named)

    def walls(self, first: date, last: date) -> Iterator[tuple[date, int]]:
        """The days from `first` to `last`, and minutes after midnight, in order."""
        for number in range((last - first).days + 1):
            day = first + timedelta(days=number)
            if self.on(day):
                yield from ((day, h * 60 + m) for h in self.hours for m in self.minutes)


def parse(line: str) -> Cron:
    """Read a line. Raises ValueError with what is wrong and what is allowed."""
    fields = line.split()
    if len(fields) != len(_FIELDS):
        names = ", ".join(name for name, *_ in _FIELDS)
        raise ValueError(f"a cron line has five fields ({names}), found {len(fields)}: `{line}`")
    minutes, hours, days, months, week = (
        _field(text, *known) for text, known in zip(fields, _FIELDS, strict=True)
    )
    if len(minutes) * len(hours) > MOST:
        raise ValueError(f"`{line}` comes more than {MOST} times a day; give the hours")
    weekdays = tuple(sorted({(day + 6) % 7 for day in week}))
    either = not fields[2].startswith("*") and not fields[4].startswith("*")
    found = Cron(minutes, hours, days, months, weekdays, either)
    year = (date(2023, 12, 31) + timedelta(days=n) for n in range(1, 8 * 366))
    if not any(map(found.on, year)):
        raise ValueError(f"`{line}` never comes: there is no such day")
    return found


def _field(text: str, name: str, low: int, high: int, words: tuple[str, ...]) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.lower().split(","):
        body, slash, step = part.partition("/")
        first, last = _range(body, name, low, high, words)
        if slash and not re.fullmatch("[1-9][0-9]?", step):
            raise ValueError(f"the {name} `{part}` needs a step from 1 to 99 after `/`")
        last = high if slash and first == last and body != "*" else last
        found.update(range(first, last + 1, int(step) if slash else 1))
    return tuple(sorted(found))


def _range(body: str, name: str, low: int, high: int, words: tuple[str, ...]) -> tuple[int, int]:
    if body == "*":
        return low, high
    first, dash, last = body.partition("-")
    begin = _number(first, name, low, high, words)
    end = _number(last, name, low, high, words) if dash else begin
    if end < begin:
        raise ValueError(f"the {name} `{body}` runs backwards; write two parts with a comma")
    return begin, end


def _number(text: str, name: str, low: int, high: int, words: tuple[str, ...]) -> int:
    if text in words:
        return words.index(text) + low
    if re.fullmatch("[0-9]{1,2}", text) and low <= int(text) <= high:
        return int(text)
    named = f" or one of {', '.join(words)}" if words else ""
    raise ValueError(f"the {name} is a number from {low} to {high}{named}, found `{text}`")
