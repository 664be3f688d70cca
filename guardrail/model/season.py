"""What is on the calendar of a season: occasions, reminders, and when nothing may begin?"""

from dataclasses import dataclass
from typing import Literal

EntryKind = Literal["occasion", "reminder", "window", "freeze"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing on the calendar. Times: seconds since the epoch.

    key: tells it from all others of its kind, and stays when its day moves. ends_at: None for what
    is a single moment, and for a freeze that stands until it is lifted. timezone: on whose clock it
    was written; empty: UTC. details: more, line by line. roles, fleets, binds_back: of a freeze,
    whom it concerns (all where there are none), and whether going back waits, too.
    """

    kind: EntryKind
    key: str
    title: str
    begins_at: float
    ends_at: float | None = None
    timezone: str = ""
    details: tuple[str, ...] = ()
    estimate: bool = False
    roles: tuple[str, ...] = ()
    fleets: tuple[str, ...] = ()
    binds_back: bool = True

    @property
    def uid(self) -> str:
        """The name that calendars know it by."""
        return f"{self.kind}/{self.key}@guardrail"


@dataclass(frozen=True, slots=True)
class Season:
    """All entries that touch the time from `begins_at` to `ends_at`, in order.

    unread: what could not be read, so that something may be missing.
    """

    begins_at: float
    ends_at: float
    entries: tuple[Entry, ...] = ()
    unread: tuple[str, ...] = ()
