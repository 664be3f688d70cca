"""When may work go on, and when may it not?

`Windows` is what a policy writes: wall times in a named zone. `Calendar` is what it comes to: a
list of closed intervals in seconds since the epoch, made once, when the plan is made. The engine
only ever sees the second, so that it needs no time zones and replays the same everywhere.
"""

from dataclasses import dataclass
from datetime import date
from typing import Literal

from guardrail.model.common import Origin

DAY_MINUTES = 24 * 60
NOWHERE = Origin("", "", 0)
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERY_DAY = tuple(range(len(DAYS)))

WindowsBack = Literal["warn", "same"]


@dataclass(frozen=True, slots=True)
class DateRange:
    """Days from `begin` (included) to `end` (excluded)."""

    begin: date
    end: date

    def __contains__(self, day: date) -> bool:
        return self.begin <= day < self.end

    def __str__(self) -> str:
        single = (self.end - self.begin).days == 1
        return f"{self.begin}" if single else f"{self.begin}/{self.end}"


@dataclass(frozen=True, slots=True)
class Window:
    """One entry of `deny` or `allow`; it belongs to the day that it begins on.

    days: 0 (Monday) to 6. begins: minutes after midnight, 0 to 1439. ends: 1 to 1440; one that is
    not after `begins` is on the next day. dates: the days that it may begin on; empty: all.
    settle_before: seconds that the allowed time ends earlier. peak: whether it marks a daily peak
    that a bake may have to cover. calendar: a file of other people's that says when instead; spans:
    what it says, in seconds since the epoch, from (included), to (excluded).
    """

    days: tuple[int, ...] = EVERY_DAY
    begins: int = 0
    ends: int = DAY_MINUTES
    dates: tuple[DateRange, ...] = ()
    settle_before: float = 0.0
    reason: str = ""
    peak: bool = False
    origin: Origin = NOWHERE
    calendar: str = ""
    spans: tuple[tuple[float, float], ...] = ()

    @property
    def minutes(self) -> int:
        """How long it is on the clock, in minutes: 1 to 1440."""
        return self.ends - self.begins + (DAY_MINUTES if self.ends <= self.begins else 0)

    def on(self, day: date) -> bool:
        """Whether it begins on that day."""
        dated = not self.dates or any(day in dates for dates in self.dates)
        return day.weekday() in self.days and dated

    def __str__(self) -> str:
        if self.calendar:
            return f"as {self.calendar} says"
        parts = [_days(self.days), f"{_clock(self.begins)}-{_clock(self.ends)}"]
        parts += [" and ".join(map(str, self.dates))] if self.dates else []
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of one policy. Deny beats allow; without an allow all that is not denied is.

    timezone: a name of the tz database. rollback: whether going back keeps to them as well
    (`same`), or they are only told of (`warn`). covers_peak: whether the bake before the next
    stage must cover one of each deny that is marked as a peak.
    """

    timezone: str
    deny: tuple[Window, ...] = ()
    allow: tuple[Window, ...] = ()
    rollback: WindowsBack = "warn"
    covers_peak: bool = False
    origin: Origin = NOWHERE

    def __str__(self) -> str:
        kinds = (("deny", self.deny), ("allow", self.allow))
        said = [f"{kind} {' and '.join(map(str, which))}" for kind, which in kinds if which]
        return f"{'; '.join(said)} {self.timezone}"


# ---------------------------------------------------------------- what it comes to


@dataclass(frozen=True, slots=True)
class ClosedBy:
    """What closes: one deny entry, or everything outside a policy's allow entries.

    written: the wall times, in words. binds_back: whether going back keeps to it. settle: seconds
    that it begins before the wall time that is written. peak: whether a bake must cover one.
    """

    reason: str
    written: str
    timezone: str
    origin: Origin
    binds_back: bool = False
    settle: float = 0.0
    peak: bool = False

    def __str__(self) -> str:
        return self.reason or self.written


@dataclass(frozen=True, slots=True)
class Closed:
    """No host begins from `closes_at` (included) to `opens_at` (excluded), in seconds since the
    epoch.

    by: index into the calendar's rules. close_offset, open_offset: minutes east of UTC on the
    clocks of the rule's zone at those times.
    """

    closes_at: float
    opens_at: float
    by: int
    close_offset: int = 0
    open_offset: int = 0


@dataclass(frozen=True, slots=True)
class Shut:
    """A time in which something closes, whatever it is; as `Closed`."""

    closes_at: float
    opens_at: float


@dataclass(frozen=True, slots=True)
class Calendar:
    """All closed times of an operation from the making of its plan to `known_until`.

    After that nothing is known, and what is not known is closed. closed: in order of begin. shut:
    their union, in order, nothing touching; shut_back: of those that going back keeps to.
    """

    known_until: float
    rules: tuple[ClosedBy, ...] = ()
    closed: tuple[Closed, ...] = ()
    shut: tuple[Shut, ...] = ()
    shut_back: tuple[Shut, ...] = ()

    @property
    def binds_back(self) -> bool:
        """Whether anything here stands in the way of going back."""
        return any(rule.binds_back for rule in self.rules)

    @property
    def covers_peak(self) -> bool:
        """Whether the bake before the next stage must cover a daily peak."""
        return any(rule.peak for rule in self.rules)


# ---------------------------------------------------------------- in words


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _days(days: tuple[int, ...]) -> str:
    """`mon-fri`, `sat`, `mon, wed`; nothing for every day."""
    if len(days) == len(DAYS):
        return ""
    first, last = days[0], days[-1]
    if len(days) > 2 and days == tuple(range(first, last + 1)):
        return f"{DAYS[first]}-{DAYS[last]}"
    return ",".join(DAYS[day] for day in days)
