"""What is said about a reminder, to whom and when, and what counts as done?

`remind(state, event) -> Decision` is the only place where that is decided; it has no clock. After
each event everything that has become due is done at once, so an outage of any length ends with one
message about all that it missed, and nothing is said twice:

    a lead time comes, a snooze ends, the occasion begins,
    what was verified is not any more                        -> a call: somebody has to acknowledge
    nobody acknowledges in time, or a message reaches nobody -> the deputy, then the channel
    the first lead time, then every so often, to the end     -> all queries are read
    the occasion is over                                     -> the end

What nobody could read is not verified. `done` is a person's word, and is taken only with a ticket
for each step that asks for one, and with all queries read just now and good.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce

from guardrail.decide import reminder_words as words
from guardrail.decide.proving import FRESH, all_hold, missing, needed, refusal
from guardrail.errors import Refused
from guardrail.model.reminder import (
    Acked,
    Amended,
    Ask,
    Call,
    Decision,
    DoneSaid,
    Lead,
    NotDelivered,
    ReadBack,
    ReadWanted,
    ReminderEvent,
    ReminderNote,
    ReminderState,
    Send,
    Snooze,
    Snoozed,
    Tick,
    Ticket,
    TicketGiven,
    Wanted,
    WasRead,
)

__all__ = ["FRESH", "begin", "remind"]

STORY = 50
"""Lines of the story that are kept."""
LAST = 2
"""The last level of `People.levels`."""

Done = tuple[ReminderState, tuple[Send | Ask, ...]]
Why = tuple[ReminderState, tuple[str, ...]]
"""A state, and why somebody has to be called now."""


def begin(wanted: Wanted, at: float) -> Decision:
    """A reminder that nothing is known of yet. at: seconds since the epoch."""
    return _carried(ReminderState(wanted, at), ())


def remind(state: ReminderState, event: ReminderEvent) -> Decision:
    """What becomes of it. Raises Refused for a person's word that cannot be taken."""
    now = replace(state, at=max(state.at, event.at))
    heard, whys = _heard(now, event)
    return _carried(heard, whys, read=isinstance(event, ReadWanted))


def _carried(state: ReminderState, whys: tuple[str, ...], *, read: bool = False) -> Decision:
    """Everything that is due, in order; then when to look again."""
    actions: tuple[Send | Ask, ...] = ()
    rules: tuple[Callable[[ReminderState], Done], ...] = (
        _ends,
        lambda known: _calls(known, whys),
        _escalates,
        lambda known: _asks(known, now=read),
    )
    for rule in rules:
        if not state.over:
            state, more = rule(state)
            actions += more
    return Decision(state, actions, wake_at(state))


# ---------------------------------------------------------------- what was heard


def _heard(state: ReminderState, event: ReminderEvent) -> Why:
    match event:
        case Acked() | Snoozed() | TicketGiven() | DoneSaid():
            if (why := refusal(state, event)) is not None:
                raise Refused(*why)
            return _said(state, event), ()
        case WasRead():
            return _read(state, event)
        case NotDelivered():
            return _lost(state, event), ()
        case Amended():
            return _amended(state, event)
        case Tick() | ReadWanted():
            return state, ()


def _said(state: ReminderState, said: Acked | Snoozed | TicketGiven | DoneSaid) -> ReminderState:
    """A person's word that may be taken."""
    match said:
        case Acked():
            noted = _note(state, f"{said.by} has taken it on")
            return replace(noted, call=_answered(state.call, said.by))
        case Snoozed():
            until = words.clock(state.wanted.moment, said.until)
            noted = _note(state, f"{said.by} put it off until {until}: {said.reason}")
            snooze = Snooze(said.by, said.reason, state.at, said.until)
            count = state.snoozes + 1
            call = _answered(state.call, said.by)
            return replace(noted, snooze=snooze, snoozes=count, call=call)
        case TicketGiven():
            noted = _note(state, f"{said.by} gave {said.text} for {said.task}")
            others = tuple(each for each in state.tickets if each.task != said.task)
            ticket = Ticket(said.task, said.text, said.by, state.at)
            return replace(noted, tickets=(*others, ticket))
        case DoneSaid():
            noted = _note(state, f"{said.by} said that it is done")
            call = _answered(state.call, said.by)
            return replace(noted, done_by=said.by, done_at=state.at, snooze=None, call=call)


def _answered(call: Call | None, by: str) -> Call | None:
    return None if call is None else replace(call, by=by)


def _read(state: ReminderState, event: WasRead) -> Why:
    """Judge what was read; an answer to another question than the last one says nothing."""
    if event.turn != state.asked or state.over:
        return state, ()
    told = {each.name: each for each in event.readings}
    unread = "the answer does not name it"
    names = [name for name, _ in state.wanted.reminder.reads]
    readings = tuple(told.get(name, ReadBack(name, None, state.at, unread)) for name in names)
    now = replace(state, readings=readings)
    if all_hold(now):
        noted = now if now.verified else _note(now, "all that is read is as it has to be")
        return replace(noted, verified=True, unread_since=None), ()
    return _failing(now)


def _failing(state: ReminderState) -> Why:
    """Something is not as it has to be, or cannot be read: not at once, then it is not known."""
    unread = any(each.value is None for each in state.readings)
    since = (state.at if state.unread_since is None else state.unread_since) if unread else None
    known = replace(state, unread_since=since)
    wrong = needed(known, unread=False)
    patient = since is not None and state.at - since < 2 * state.wanted.reminder.every
    if not known.verified or (patient and not wrong):
        return known, ()
    why = f"it was verified, and is not any more: {'; '.join(needed(known))}"
    reopened = replace(known, verified=False, done_by="", done_at=None, snooze=None)
    return _note(reopened, why), (why,)


def _lost(state: ReminderState, event: NotDelivered) -> ReminderState:
    noted = _note(state, f"message {event.number} reached nobody: {event.problem}")
    call = state.call
    if call is None or call.number != event.number:
        return noted
    return replace(noted, call=replace(call, failed=True))


def _amended(state: ReminderState, event: Amended) -> Why:
    """The document or the day is another one; who was told of the old day hears of it."""
    old, new = state.wanted.moment, event.wanted.moment
    if event.wanted == state.wanted:
        return state, ()
    now, whys = _undone(_note(replace(state, wanted=event.wanted), "the document was changed"))
    if old.begins_at == new.begins_at:
        return now, whys
    why = f"the day has moved from {words.when(old)} to {words.when(new)}"
    moved = replace(now, begun=now.begun and state.at >= new.begins_at)
    return _note(moved, why), (*whys, why) if state.settled else whys


def _undone(state: ReminderState) -> Why:
    """What was done is not any more where the document now asks for more evidence."""
    wants = [task.name for task in missing(state)]
    if not state.done_by or not wants:
        return state, ()
    why = f"it was done, and now needs more: {', '.join(wants)}"
    return replace(_note(state, why), done_by="", done_at=None), (why,)


# ---------------------------------------------------------------- what is due


def _ends(state: ReminderState) -> Done:
    """The occasion is over; one that was never done is said so."""
    if state.at < state.wanted.moment.ends_at:
        return state, ()
    over = replace(_note(state, "the occasion is over"), over=True, snooze=None)
    if state.done_by:
        return replace(over, call=None), ()
    sent = replace(over, sent=over.sent + 1, call=None)
    why = "the occasion is over, and nobody said that it was done"
    return sent, (words.send(sent, LAST, why, state.wanted.reminder.people.levels),)


def _calls(state: ReminderState, whys: tuple[str, ...]) -> Done:
    """One call for everything that has become due."""
    steps: tuple[Callable[[ReminderState], Why], ...] = (_unsnoozed, _begins)
    for step in steps:
        state, more = step(state)
        whys += more
    state, due = _due(state)
    if due:
        whys += (words.due(state, due),)
    if not whys or state.done_by:
        return state, ()
    return _call(state, "; ".join(whys), due)


def _unsnoozed(state: ReminderState) -> Why:
    snooze = state.snooze
    if snooze is None or state.at < min(snooze.until, state.wanted.moment.begins_at):
        return state, ()
    why = f"{snooze.by} had put it off until now: {snooze.reason}"
    return _note(replace(state, snooze=None), "it is not put off any more"), (why,)


def _begins(state: ReminderState) -> Why:
    if state.begun or state.at < state.wanted.moment.begins_at:
        return state, ()
    return _note(replace(state, begun=True), "the occasion has begun"), (words.BEGUN,)


def _due(state: ReminderState) -> tuple[ReminderState, tuple[Lead, ...]]:
    """The lead times that have come and are to be spoken of; others that have come are settled."""
    begins = state.wanted.moment.begins_at
    leads = [each for each in state.wanted.reminder.leads if each not in state.settled]
    come = tuple(each for each in leads if begins - each.before <= state.at)
    if not come or state.snooze is not None:
        return state, ()
    settled = replace(state, settled=(*state.settled, *come))
    idle = [each for each in come if state.done_by or not missing(state, each.request)]
    noted = reduce(lambda s, lead: _note(s, words.idle(lead)), idle, settled)
    return noted, tuple(each for each in come if each not in idle)


def _call(state: ReminderState, why: str, leads: tuple[Lead, ...]) -> Done:
    """Somebody has to acknowledge. One that nobody has acknowledged yet goes on where it was: else
    calls that come often would never get past the owner."""
    old, people = state.call, state.wanted.reminder.people
    goes_on = old is not None and old.waits
    level = old.level if old is not None and goes_on else 0
    told_at = old.told_at if old is not None and goes_on else state.at
    level, told_at = (LAST, state.at) if state.begun else (level, told_at)
    sent = replace(state, sent=state.sent + 1)
    known = replace(sent, call=Call(why, leads, level, told_at, sent.sent))
    noted = _note(known, f"message {sent.sent} to {', '.join(people.levels[: level + 1])}: {why}")
    return noted, (words.send(noted, level, why, people.levels[: level + 1]),)


def _escalates(state: ReminderState) -> Done:
    """Nobody acknowledged in time, or nobody was reached: the next one; the last one again."""
    call, people = state.call, state.wanted.reminder.people
    if call is None or not call.waits or not _is_next(state, call):
        return state, ()
    level = min(call.level + 1, LAST)
    sent = state.sent + 1
    why = f"{_who(state, call)}; {call.why}"
    later = replace(call, level=level, told_at=state.at, number=sent, failed=False)
    noted = _note(
        replace(state, sent=sent, call=later), f"message {sent} to {people.levels[level]}"
    )
    return noted, (words.send(noted, level, why, people.levels[level : level + 1]),)


def _is_next(state: ReminderState, call: Call) -> bool:
    late = state.at >= call.told_at + state.wanted.reminder.people.after
    return (call.failed or late) if call.level < LAST else (call.failed and late)


def _who(state: ReminderState, call: Call) -> str:
    name = state.wanted.reminder.people.levels[call.level]
    if call.failed:
        return f"{name} could not be reached"
    return f"{name} has not acknowledged within {words.span(state.wanted.reminder.people.after)}"


def _asks(state: ReminderState, *, now: bool) -> Done:
    """All queries are read: from the first lead time on, and when somebody wants it."""
    if not state.wanted.reminder.reads or (state.at < _next_ask(state) and not now):
        return state, ()
    asked = replace(state, asked=state.asked + 1, asked_at=state.at)
    return asked, (Ask(asked.asked),)


def _next_ask(state: ReminderState) -> float:
    reminder, moment = state.wanted.reminder, state.wanted.moment
    first = moment.begins_at - max((lead.before for lead in reminder.leads), default=0.0)
    return max(first, state.asked_at + reminder.every)


# ---------------------------------------------------------------- when to look again


def wake_at(state: ReminderState) -> float | None:
    """The next time at which something becomes due, later than now; None: it is over."""
    if state.over:
        return None
    return min((at for at in _times(state) if at > state.at), default=None)


def _times(state: ReminderState) -> Iterable[float]:
    reminder, moment = state.wanted.reminder, state.wanted.moment
    yield moment.ends_at
    yield moment.begins_at
    if state.snooze is not None:
        yield state.snooze.until
    else:
        settled = set(state.settled)
        yield from (moment.begins_at - e.before for e in reminder.leads if e not in settled)
    if reminder.reads:
        yield _next_ask(state)
    if state.call is not None and state.call.waits:
        yield state.call.told_at + reminder.people.after


def _note(state: ReminderState, text: str) -> ReminderState:
    return replace(state, story=(*state.story, ReminderNote(state.at, text))[-STORY:])
