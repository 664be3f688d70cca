"""How does a reminder look to a person, and as JSON?"""

from collections.abc import Iterable
from dataclasses import dataclass

from guardrail.decide.calendar import span_words
from guardrail.decide.proving import reading_of, standing
from guardrail.decide.reminder_words import clock, command, sentence, when
from guardrail.model.occasion import Moment
from guardrail.model.reminder import (
    VERIFY,
    Call,
    Reminder,
    ReminderState,
    Standing,
)


@dataclass(frozen=True, slots=True)
class LeadAt:
    """A lead time of a moment, and when it comes. early: seconds before the occasion."""

    request: str
    seconds_early: float
    at: float


@dataclass(frozen=True, slots=True)
class Ahead:
    """A moment that is to come, with its lead times."""

    reminder: str
    what: str
    begins_at: float
    ends_at: float
    timezone: str
    words: str
    estimate: bool
    known_by: tuple[str, ...]
    clock: str
    people: tuple[str, ...]
    leads: tuple[LeadAt, ...]
    begins: str


@dataclass(frozen=True, slots=True)
class StepShown:
    """A step, or `verify`: what is needed, and what there is of it."""

    name: str
    title: str
    request: str
    needs: str
    there: str
    holds: bool


@dataclass(frozen=True, slots=True)
class NoteShown:
    """A line of what happened."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Shown:
    """One reminder for one moment. waits_for: who has to acknowledge; empty: nobody.
    taken_by: who did. snoozed_until, done_at: None where it is not so."""

    reminder: str
    what: str
    standing: Standing
    sentence: str
    begins_at: float
    ends_at: float
    occasion: str
    waits_for: str
    taken_by: str
    snoozed_until: float | None
    snooze_reason: str
    done_by: str
    done_at: float | None
    over: bool
    steps: tuple[StepShown, ...]
    story: tuple[NoteShown, ...]


# ---------------------------------------------------------------- what is to come


def ahead(reminder: Reminder, moment: Moment) -> Ahead:
    """A moment as `remind check` shows it."""
    leads = tuple(
        LeadAt(each.request, each.before, moment.begins_at - each.before) for each in reminder.leads
    )
    return Ahead(
        reminder=reminder.name,
        what=reminder.what,
        begins_at=moment.begins_at,
        ends_at=moment.ends_at,
        timezone=moment.timezone,
        words=moment.words,
        estimate=moment.estimate,
        known_by=moment.known_by,
        clock=moment.clock,
        people=reminder.people.levels,
        leads=leads,
        begins=when(moment),
    )


def ahead_lines(each: Ahead, offset: int) -> list[str]:
    """Its occasion, what that rests on, and when who is told. offset: minutes east of UTC."""
    moment = Moment("", each.begins_at, each.ends_at, offset, each.words, each.timezone)
    told = ", then ".join(each.people)
    return [
        f"{each.reminder}: {each.what}",
        f"  {each.begins} ({each.timezone})",
        *(f"  rests on {known}" for known in each.known_by),
        *(
            f"  {clock(moment, lead.at)}  {lead.request}, {span_words(lead.seconds_early)} before"
            for lead in each.leads
        ),
        f"  told: {told}",
    ]


# ---------------------------------------------------------------- one that runs


def shown(state: ReminderState) -> Shown:
    """One reminder as it is now."""
    moment, call, snooze = state.wanted.moment, state.call, state.snooze
    return Shown(
        reminder=state.wanted.id,
        what=state.wanted.reminder.what,
        standing=standing(state),
        sentence=sentence(state),
        begins_at=moment.begins_at,
        ends_at=moment.ends_at,
        occasion=when(moment),
        waits_for=_waits_for(state, call),
        taken_by=call.by if call is not None else "",
        snoozed_until=snooze.until if snooze is not None else None,
        snooze_reason=snooze.reason if snooze is not None else "",
        done_by=state.done_by,
        done_at=state.done_at,
        over=state.over,
        steps=tuple(_steps(state)),
        story=tuple(NoteShown(note.at, note.text) for note in state.story),
    )


def _waits_for(state: ReminderState, call: Call | None) -> str:
    if call is None or not call.waits:
        return ""
    return state.wanted.reminder.people.levels[call.level]


def _steps(state: ReminderState) -> Iterable[StepShown]:
    reminder = state.wanted.reminder
    tickets = {each.task: each for each in state.tickets}
    for task in reminder.tasks:
        given = tickets.get(task.name)
        there = f"{given.text}, says {given.by}" if given else _read(state, task.name)
        holds = given is not None or _holds(state, task.name)
        yield StepShown(task.name, task.title, task.request, task.evidence.wanted, there, holds)
    if reminder.verify is not None:
        wanted = reminder.verify.evidence.wanted
        there, holds = _read(state, VERIFY), _holds(state, VERIFY)
        yield StepShown(VERIFY, "it is there", "", wanted, there, holds)


def _read(state: ReminderState, name: str) -> str:
    found = reading_of(state, name)
    if found is None:
        return "nothing yet"
    return f"not read: {found.detail}" if found.value is None else f"{found.value:g}"


def _holds(state: ReminderState, name: str) -> bool:
    found = reading_of(state, name)
    evidence = dict(state.wanted.reminder.reads).get(name)
    if found is None or found.value is None or evidence is None:
        return False
    return evidence.holds(found.value)


def row(each: Shown) -> str:
    """One line of `remind list`."""
    waits = f"; waits for {each.waits_for}" if each.waits_for else ""
    return f"{each.reminder}: {each.sentence}{waits}; {each.occasion}"


def lines(state: ReminderState) -> list[str]:
    """All of one reminder: the state, what to do, the steps, what happened."""
    each, moment = shown(state), state.wanted.moment
    taken = f"  taken on by {each.taken_by}" if each.taken_by else ""
    waits = f"  waits for {each.waits_for}" if each.waits_for else ""
    quiet = state.snooze
    snoozed = f"  put off until {clock(moment, quiet.until)}: {quiet.reason}" if quiet else ""
    return [
        f"{each.reminder}: {each.what}",
        f"  {each.occasion} ({moment.timezone})",
        *(f"  rests on {known}" for known in moment.known_by),
        *filter(None, (taken, waits, snoozed)),
        *(f"  {'[x]' if s.holds else '[ ]'} {_step(s)}" for s in each.steps),
        *(f"  {clock(moment, note.at)}  {note.text}" for note in each.story),
        *state_lines(state),
    ]


def _step(step: StepShown) -> str:
    return f"{step.name}: {step.title}; needs {step.needs}; there: {step.there}"


def state_lines(state: ReminderState) -> list[str]:
    """The state in a sentence, what happens if nobody acts, the command most likely right."""
    told = f"{state.wanted.id}: {sentence(state)}."
    if state.over or state.done_by:
        kept = "It is read again until the occasion is over." if not state.over else ""
        return [told, *filter(None, (kept,)), f"guardrail remind show {state.wanted.id}"]
    return [told, _if_nobody(state), command(state)]


def _if_nobody(state: ReminderState) -> str:
    call, people, moment = state.call, state.wanted.reminder.people, state.wanted.moment
    if call is not None and call.waits and call.level + 1 < len(people.levels):
        at = clock(moment, call.told_at + people.after)
        return f"If nobody acknowledges it by {at}, {people.levels[call.level + 1]} is told."
    return f"If nobody acts, it is not prepared at {clock(moment, moment.begins_at)}."
