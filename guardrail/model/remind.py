"""Which words travel between the command line, a reminder's workflow and its workers?

Records are plain and frozen, so that they go through JSON both ways. Times are seconds since the
epoch.
"""

from dataclasses import dataclass
from typing import Literal

from guardrail.model.reminder import ReadBack, ReminderState, Wanted

REMINDER = "Reminder"
"""The workflow type of one reminder for one moment."""
REMINDERS = "Reminders"
"""The workflow type that begins those that are near; a schedule starts it."""

REMIND_SAY = "say"
"""The one update: a person's `Word`, answered by the `ReminderState` after it."""
AMENDED = "amended"
"""The signal with a `Wanted`: the document, or the day, may be another one."""
REMINDER_STATE = "state"
"""The query, answered by `ReminderState`."""

TELL_TIME = "tell_time"
READ_REMINDER = "read_reminder"
BEGIN_REMINDERS = "begin_reminders"
"""Activities."""

SCHEDULE = "guardrail-remind/"
"""How the ids of our schedules begin."""

Verb = Literal["ack", "snooze", "ticket", "done"]


def reminder_id(of: str) -> str:
    """The workflow's id of one reminder for one moment (`transit-gateway/2027`)."""
    return f"reminder/{of}"


@dataclass(frozen=True, slots=True)
class Word:
    """What a person says of a reminder. `id` makes saying it twice harmless.

    until: for snooze. task, text: a step, and the ticket for it. at: when it was said; believed
    within a minute of the server's time.
    """

    id: str
    verb: Verb
    by: str
    at: float = 0.0
    reason: str = ""
    until: float = 0.0
    task: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Read all queries of a reminder of the worker's source."""

    reminder: str
    turn: int


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """What they answered, and when."""

    turn: int
    readings: tuple[ReadBack, ...]
    at: float


@dataclass(frozen=True, slots=True)
class BeginTask:
    """Begin what is near of a reminder of the worker's source. at: as of when, 0: now."""

    reminder: str
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Begun:
    """What was begun, or heard of its document again (`running`); what had ended already; and why
    nothing was."""

    begun: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ReminderInput:
    """The workflow's argument; after the first run with its state."""

    wanted: Wanted
    state: ReminderState | None = None
