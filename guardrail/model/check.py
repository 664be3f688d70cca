"""Which words travel between the command line, a checklist's schedule and its workers?

Records are plain and frozen, so that they go through JSON both ways. Times are seconds since the
epoch.
"""

from dataclasses import dataclass

from guardrail.model.checklist import Report
from guardrail.model.notice import Message

CHECK = "Check"
"""The workflow type that goes through a checklist once; a schedule starts it."""
GO_THROUGH = "go_through_checklist"
"""An activity: a `GoTask`, answered by `Found`."""
SCHEDULE = "guardrail-check/"
"""How the ids of our schedules begin."""


@dataclass(frozen=True, slots=True)
class CheckTask:
    """Go through a checklist of the worker's source. timezone, tells: as the document had them when
    its schedule was kept, for when it cannot be read."""

    checklist: str
    timezone: str = "UTC"
    tells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GoTask:
    """owed: it did not pass when it was gone through last, or nobody has heard yet that it does."""

    check: CheckTask
    owed: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What it came to, and what is to be said of it; None: nothing."""

    report: Report
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """The workflow's result, which the next run is given. owed: see `GoTask`, for that run."""

    report: Report
    owed: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a checklist's schedule.

    next_at: its next time; None: none comes. note: what was said when it was paused or kept.
    begun_at: when it began to be gone through the last time; None: not yet. report: of the last
    time that Temporal keeps one of. problem: why that says nothing of now: a later time has not
    ended, or not well, or Temporal has let go of it.
    """

    checklist: str
    paused: bool
    note: str
    next_at: float | None
    begun_at: float | None = None
    report: Report | None = None
    problem: str = ""
