"""What does a reminder say to people?

Every message ends with the state in a sentence, what happens if nobody acts, and the one command
that is most likely right (design.md §9).
"""

from collections.abc import Sequence

from guardrail.decide.calendar import local, span_words
from guardrail.decide.proving import missing, needed, standing
from guardrail.model.notice import Message
from guardrail.model.occasion import Moment
from guardrail.model.reminder import Lead, ReminderState, Send, Task

BEGUN = "the occasion has begun, and it is not done"
span = span_words


def clock(moment: Moment, at: float) -> str:
    """A time on the clock of the occasion."""
    return local(at, moment.offset)


def when(moment: Moment) -> str:
    """`2027-01-04 06:00 UTC-08:00 (first working day after New Year in US)`, and how sure."""
    known = f"{clock(moment, moment.begins_at)} ({moment.words})"
    known += f"; {moment.clock}" if moment.clock else ""
    return f"{known}; an estimate, the day may still move" if moment.estimate else known


def due(state: ReminderState, leads: Sequence[Lead]) -> str:
    """Which lead times have come."""
    moment = state.wanted.moment
    late = [e for e in leads if state.at - (moment.begins_at - e.before) >= 3600.0]
    named = ", ".join(f"{e.request} {span(e.before)} before" for e in leads)
    return f"{named} it begins" + (" (some of it should have been said earlier)" if late else "")


def idle(lead: Lead) -> str:
    """A lead time that needs no message."""
    return f"{lead.request} {span(lead.before)} before: its steps have their evidence already"


def send(state: ReminderState, level: int, why: str, to: Sequence[str]) -> Send:
    """The message of the newest number."""
    wanted, number = state.wanted, state.sent
    reminder = wanted.reminder
    message = Message(
        kind="reminder",
        about=wanted.id,
        cause=f"reminder:{wanted.id}:{number}",
        subject=f"{reminder.name}: {reminder.what}: {_ahead(state)}",
        lines=(
            f"{reminder.name}: {reminder.what}.",
            f"Why now: {why}.",
            f"When: {when(wanted.moment)}.",
            *(f"It rests on: {known}." for known in wanted.moment.known_by),
            *map(step, missing(state)),
            f"State: {sentence(state)}.",
            _if_nobody(state, level),
            command(state),
        ),
        to=tuple(dict.fromkeys(to)),
        at=state.at,
    )
    return Send(number, level, message)


def _ahead(state: ReminderState) -> str:
    moment = state.wanted.moment
    if state.over:
        return "it is over"
    left = moment.begins_at - state.at
    return f"{span(left)} left" if left >= 1 else "it has begun"


def step(task: Task) -> str:
    """A step that is open."""
    return f"- {task.name}: {task.title}; needs {task.evidence.wanted}"


def sentence(state: ReminderState) -> str:
    """How far it is, and what keeps it from being further."""
    known = standing(state)
    if known == "done":
        return f"done, says {state.done_by}"
    open_ = [f"{task.name} has no ticket" for task in missing(state) if not task.evidence.query]
    why = "; ".join((*open_, *needed(state)))
    ready = "nobody has said that it is done"
    return f"{known}, not done: {why or ready}"


def _if_nobody(state: ReminderState, level: int) -> str:
    people, call = state.wanted.reminder.people, state.call
    if state.over:
        return "If nobody acts: nothing more is said; the next season begins where this one ended."
    if call is not None and level < len(people.levels) - 1:
        at = clock(state.wanted.moment, call.told_at + people.after)
        return f"If nobody acknowledges it by {at}, {people.levels[level + 1]} is told."
    return "If nobody acts: it is not prepared when the load comes."


def command(state: ReminderState) -> str:
    """The one command that is most likely right."""
    if state.over:
        return f"guardrail remind show {state.wanted.id}"
    if state.call is not None and not state.call.waits:
        return f"guardrail remind done {state.wanted.id}"
    return f"guardrail remind ack {state.wanted.id}"
