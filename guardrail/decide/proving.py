"""How far is a reminder, what is missing, and may a person's word be taken?

requested: each step that wants a ticket has one. confirmed: each quota was read back, and is what
was asked for. verified: each target is reached, by the reminder's own query too. done: a named
person said so, with all of it at hand.
"""

import re
from collections.abc import Iterable

from guardrail.decide.calendar import local, span_words
from guardrail.model.reminder import (
    VERIFY,
    Acked,
    DoneSaid,
    Evidence,
    EvidenceKind,
    ReadBack,
    ReminderState,
    Said,
    Snoozed,
    Standing,
    Task,
    TicketGiven,
)

FRESH = 300.0
"""Seconds that a reading is good for when somebody says that it is done."""


def standing(state: ReminderState) -> Standing:
    """How far it is."""
    if state.done_by:
        return "done"
    reached: Standing = "open"
    levels: tuple[tuple[EvidenceKind, Standing], ...] = (
        ("ticket", "requested"),
        ("quota", "confirmed"),
        ("target", "verified"),
    )
    for kind, name in levels:
        there = _of_kind(state, kind)
        if there and not all(_is_there(state, *each) for each in there):
            return reached
        reached = name if there else reached
    return reached


def _of_kind(state: ReminderState, kind: EvidenceKind) -> list[tuple[str, Evidence]]:
    reminder = state.wanted.reminder
    own = [(VERIFY, reminder.verify.evidence)] if reminder.verify else []
    every = [*((task.name, task.evidence) for task in reminder.tasks), *own]
    return [(name, evidence) for name, evidence in every if evidence.kind == kind]


def _is_there(state: ReminderState, name: str, evidence: Evidence) -> bool:
    if evidence.kind == "ticket":
        return any(each.task == name for each in state.tickets)
    found = reading_of(state, name)
    return found is not None and found.value is not None and evidence.holds(found.value)


def reading_of(state: ReminderState, name: str) -> ReadBack | None:
    """The last reading of a step, or of `verify`."""
    return next((each for each in state.readings if each.name == name), None)


def missing(state: ReminderState, request: str = "") -> tuple[Task, ...]:
    """The steps without their evidence; of one type of request, or of all."""
    tasks = state.wanted.reminder.tasks
    asked = [task for task in tasks if request in ("", task.request)]
    return tuple(task for task in asked if not _is_there(state, task.name, task.evidence))


def all_hold(state: ReminderState) -> bool:
    """Whether all that is read by queries was read, and is as it has to be."""
    reads = state.wanted.reminder.reads
    return bool(reads) and all(_is_there(state, *each) for each in reads)


def needed(state: ReminderState, *, unread: bool = True) -> tuple[str, ...]:
    """What is not as it has to be of what is read, in words. unread: also what was not read."""
    found = []
    for name, evidence in state.wanted.reminder.reads:
        reading = reading_of(state, name)
        if reading is None or reading.value is None:
            if unread:
                found.append(f"{name} cannot be read: {_unread(reading)}")
        elif not evidence.holds(reading.value):
            found.append(f"{name} is {reading.value:g}, and {evidence.wanted} is needed")
    return tuple(found)


def _unread(reading: ReadBack | None) -> str:
    return "nobody has asked yet" if reading is None else reading.detail or "no reason was given"


# ---------------------------------------------------------------- a person's word


def refusal(state: ReminderState, said: Said) -> tuple[str, ...] | None:
    """Why a person's word cannot be taken, every reason; None: it can."""
    reasons = tuple(_reasons(state, said))
    return reasons or None


def _reasons(state: ReminderState, said: Said) -> Iterable[str]:
    if not said.by.strip():
        yield "say who you are: only a named person's word is taken"
    if state.over or said.at >= state.wanted.moment.ends_at:
        yield f"the occasion of {state.wanted.id} is over"
    elif isinstance(said, Acked) and state.call is None:
        yield f"nothing of {state.wanted.id} was sent yet; the first message comes later"
    elif isinstance(said, Snoozed):
        yield from _no_snooze(state, said)
    elif isinstance(said, TicketGiven):
        yield from _no_ticket(state, said)
    elif isinstance(said, DoneSaid):
        yield from _not_done(state, said)


def _no_snooze(state: ReminderState, said: Snoozed) -> Iterable[str]:
    people, moment = state.wanted.reminder.people, state.wanted.moment
    if not said.reason.strip():
        yield "say why it can wait: a reason is needed"
    if state.done_by:
        yield f"{state.done_by} said that it is done: there is nothing to put off"
    if state.snoozes >= people.snooze_times:
        yield f"it was put off {state.snoozes} times already, which is the limit"
    if said.until <= said.at:
        yield "it can be put off until a later time only"
    if said.until > said.at + people.snooze_most:
        yield f"it can be put off for {span_words(people.snooze_most)} at most"
    if said.until >= moment.begins_at:
        yield f"the occasion begins at {local(moment.begins_at, moment.offset)}, before that"


def _no_ticket(state: ReminderState, said: TicketGiven) -> Iterable[str]:
    tasks = {task.name: task for task in state.wanted.reminder.tasks}
    task = tasks.get(said.task)
    wanting = [name for name, each in tasks.items() if each.evidence.kind == "ticket"]
    if task is None or task.evidence.kind != "ticket":
        what = "is read back by a query" if task else "is no step"
        yield f"`{said.task}` {what}; steps with a ticket: {', '.join(wanting) or 'none'}"
    elif not re.fullmatch(task.evidence.pattern, said.text.strip()):
        yield f"`{said.text}` is no {task.evidence.wanted[2:]}, which `{said.task}` needs"


def _not_done(state: ReminderState, said: DoneSaid) -> Iterable[str]:
    for task in missing(state):
        if task.evidence.kind == "ticket":
            yield f"{task.name} ({task.title}) has no ticket yet: {task.evidence.wanted}"
    yield from needed(state)
    old = [e for e in state.readings if e.value is not None and said.at - e.at > FRESH]
    if old:
        yield f"{', '.join(e.name for e in old)}: read longer ago than {span_words(FRESH)}"
