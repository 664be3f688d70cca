"""Which days and hours is something prepared for, and which days are worked on in a region?

An `Occasion` is what a document says; `Free` is what is known of a region's days; a `Moment` is
what both come to: one time at which load is expected, in seconds since the epoch.
"""

from dataclasses import dataclass
from datetime import date

SATURDAY_SUNDAY = (5, 6)


@dataclass(frozen=True, slots=True)
class Override:
    """A day that is none of what the library says, by the user's own word, which wins."""

    day: date
    working: bool
    reason: str = ""

    def __str__(self) -> str:
        what = "worked on" if self.working else "a holiday"
        return f"{self.day} is {what}" + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True, slots=True)
class WorkingDay:
    """A working day of a region, counted from a named day of each year.

    region: `US`, `GB-SCT`. number: 1 is the first working day after the named day, -1 the last
    before it, 0 the day itself or the first working day after it. month, day: the named day (29
    February is 1 March in years without it), or holiday: the name that the region's holidays have
    for it.
    """

    region: str
    number: int
    month: int = 1
    day: int = 1
    holiday: str = ""


@dataclass(frozen=True, slots=True)
class Occasion:
    """When the load comes: a date, a cron line or a working day; exactly one of these.

    timezone: whose clock counts, a name of the tz database. minute: minutes after midnight on it
    (cron has its own). lasts: seconds from its begin until it is over. overrides: days of the
    region that are other than the library says.
    """

    timezone: str
    minute: int = 0
    lasts: float = 86_400.0
    on: date | None = None
    cron: str = ""
    working_day: WorkingDay | None = None
    overrides: tuple[Override, ...] = ()


@dataclass(frozen=True, slots=True)
class Holiday:
    """A day on which a region does not work."""

    day: date
    name: str


@dataclass(frozen=True, slots=True)
class Free:
    """What is known of a region's days in some years; outside of them nothing is.

    weekend: 0 is Monday. worked: days at weekends that are worked on all the same. known_by: the
    library and its version. certain_until: the last year that the library can know; later ones are
    estimates. overrides: those that are in this already.
    """

    region: str
    years: tuple[int, ...]
    holidays: tuple[Holiday, ...]
    known_by: str
    certain_until: int
    weekend: tuple[int, ...] = SATURDAY_SUNDAY
    worked: tuple[date, ...] = ()
    overrides: tuple[Override, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """One time at which an occasion begins.

    key: tells it from the others of its reminder, and stays when its day moves: a year, a date, or
    the time of a cron line. begins_at, ends_at: seconds since the epoch. offset: minutes east of
    UTC on its clock then. words: what day it is, and why. estimate: whether the day may be another
    one yet. known_by: what it rests on. clock: what was done where the clock shows no such time, or
    shows it twice; empty: it shows it once.
    """

    key: str
    begins_at: float
    ends_at: float
    offset: int
    words: str
    timezone: str
    estimate: bool = False
    known_by: tuple[str, ...] = ()
    clock: str = ""
