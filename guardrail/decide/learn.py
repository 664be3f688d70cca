"""What does an event tell us? Facts only: what follows from them is decided elsewhere.

An answer or a report with another turn than the one that was asked changes nothing.
"""

import dataclasses

from guardrail.decide import (
    catalog,
    freezes,
    leading,
    leasing,
    named,
    observing,
    rollback,
    still_true,
)
from guardrail.decide.bits import bit, span
from guardrail.decide.evolve import replace
from guardrail.decide.holds import FAILURES, JOURNAL, clear_hold, evidence_hold, note, raise_hold
from guardrail.model.operation import (
    Drained,
    Exceptional,
    GateJudged,
    Hold,
    HostAnswered,
    JournalSaid,
    Started,
    State,
    Ticked,
    WatchAgain,
    Watched,
    WatcherLost,
)

NOT_BEGUN_REST = 1.0
BLOCKED_REST = 20.0
"""Seconds before a host that did not begin, or was blocked (a package lock, a full disk), is asked
again: asked at once, a lock would use up all tries within seconds."""

BLOCKED_TRIES = 3
"""How often a host that refuses before the point of no return is asked, before it is set aside."""


def started(state: State, event: Started) -> State:
    """The plan is fixed: run, with the first wave waiting and every gate not judged yet."""
    if state.phase != "planned":
        return state
    state = replace(state, phase="running", started_at=event.at, waiting=wave_hosts(state, 0))
    return note(watch_again(state, WatchAgain(event.at)), event.at, "started")


def ticked(state: State, _: Ticked) -> State:
    """Time alone tells nothing new."""
    return state


def watch_again(state: State, event: WatchAgain) -> State:
    """A new watch begins: whatever was known of the gates is stale, and of our lease."""
    state = still_true.again(watch_anew(state, event.at), event.at)
    state = leading.again(observing.again(state, event.at), event.at)
    return rollback.watched_anew(replace(leasing.again(state), draining=False))


def watch_anew(state: State, at: float) -> State:
    """Whatever was known of the gates is stale, and a new watch begins."""
    watched = tuple(Watched(rule.name, at) for rule in state.course.gates)
    state = freezes.watch_anew(catalog.watch_anew(state, at))
    return replace(state, watched=watched, watch_turn=state.watch_turn + 1)


def drained(state: State, _: Drained) -> State:
    """Nothing more is asked to begin in this run of the carrier."""
    return replace(state, draining=True)


def watcher_lost(state: State, event: WatcherLost) -> State:
    """No watcher, no evidence: every gate is held at once, and watched anew."""
    if event.turn != state.watch_turn:
        return state
    for rule, watched in zip(state.course.gates, state.watched, strict=True):
        silent = f"the watcher fell silent: {event.reason}"
        state = raise_hold(state, evidence_hold(rule, watched, event.at, silent))
    return watch_anew(state, event.at)


def gate_judged(state: State, event: GateJudged) -> State:
    """A gate's verdict, as of now; `since` moves only when the verdict itself changes."""
    if event.turn != state.watch_turn:
        return state
    return replace(state, watched=tuple(_judged(old, event) for old in state.watched))


def _judged(old: Watched, event: GateJudged) -> Watched:
    if old.gate != event.judgement.gate:
        return old
    before = old.judgement.verdict if old.judgement is not None else None
    since = old.since if before == event.judgement.verdict else event.at
    return Watched(old.gate, since, event.judgement)


def journal_said(state: State, event: JournalSaid) -> State:
    """What cannot be recorded is not begun; what happened meanwhile is recorded later."""
    if not event.problem:
        return clear_hold(state, JOURNAL, event.at, "the journal is written again")
    ends = "the journal is written again"
    return raise_hold(state, Hold(JOURNAL, event.at, (event.problem,), ends))


# ---------------------------------------------------------------- hosts


def wave_hosts(state: State, wave: int) -> int:
    """The set of hosts that this wave changes: without those that were asked already and not
    begun, and are set aside or wait for a person, where a wave is cut anew behind them."""
    aside = state.set_aside | state.blocked
    return span(state.course.waves[wave].begin, state.course.waves[wave].end) & ~aside


def host_answered(state: State, event: HostAnswered) -> State:
    """A host's answer, if it is to the question that was asked last."""
    flight = state.flight(event.index)
    if flight is None or flight.turn != event.turn:
        return state
    rest = tuple(other for other in state.in_flight if other.index != event.index)
    state = catalog.answered(replace(state, in_flight=rest, answered_at=event.at), event)
    if state.direction == "back" and flight.direction == "forward":
        return rollback.late_answer(state, event)
    return OUTCOMES[event.outcome](state, event)


def _changed(state: State, event: HostAnswered) -> State:
    """A success ends a row of failures, unless that row holds already: then a person ends it."""
    state = forget(state, event.index)
    if state.direction == "back":
        return rollback.came_back(state, event.index)
    done = bit(event.index)
    state = replace(state, changed=state.changed | done, tried=state.tried | done)
    state = replace(state, astray=state.astray & ~done)
    return state if state.hold(FAILURES) else replace(state, consecutive_failures=0)


def _failed(state: State, event: HostAnswered) -> State:
    state = _not_serving(replace(state, failed=state.failed | bit(event.index)), event)
    return _remember(_one_more_failure(state), event)


def _unknown(state: State, event: HostAnswered) -> State:
    state = _not_serving(replace(state, unknown=state.unknown | bit(event.index)), event)
    ends = "a person: retry or skip the host, or abort"
    return _host_hold(_remember(state, event, held=True), event, ends)


def _not_serving(state: State, event: HostAnswered) -> State:
    gone = bit(event.index)
    return replace(state, tried=state.tried | gone, astray=state.astray & ~gone)


def _not_begun(state: State, event: HostAnswered, rest: float = NOT_BEGUN_REST) -> State:
    """The host waits again, and is left alone for a while."""
    others = tuple(pair for pair in state.resting if pair[0] != event.index and pair[1] > event.at)
    resting = (*others, (event.index, event.at + rest))
    return replace(state, waiting=state.waiting | bit(event.index), resting=resting)


def _blocked(state: State, event: HostAnswered) -> State:
    """A host that there is no room to remember is not asked again: its tries cannot be counted."""
    known = _known(state, event)
    state = _remember(state, event)
    if 0 < tries(state, event.index) < BLOCKED_TRIES:
        return _not_begun(state, event, BLOCKED_REST)
    state = replace(state, blocked=state.blocked | bit(event.index))
    return _one_more_failure(named.remember(state, known))


def _credentials(state: State, event: HostAnswered) -> State:
    ends = "a person: mend the credentials, then retry"
    state = _remember(_not_begun(state, event), event, held=True)
    return _host_hold(state, event, ends)


def _gone(state: State, event: HostAnswered) -> State:
    left = ~bit(event.index)
    state = replace(state, take_back=state.take_back & left, astray=state.astray & left)
    return _remember(replace(state, set_aside=state.set_aside | bit(event.index)), event)


OUTCOMES = {
    "changed": _changed,
    "failed": _failed,
    "unknown": _unknown,
    "not_begun": _not_begun,
    "blocked": _blocked,
    "credentials": _credentials,
    "gone": _gone,
}


def forget(state: State, index: int) -> State:
    """Nothing is exceptional about this host any more."""
    rest = tuple(other for other in state.exceptional if other.index != index)
    return replace(state, exceptional=rest)


def tries(state: State, index: int) -> int:
    """How often in a row this host gave its last outcome."""
    return next((known.tries for known in state.exceptional if known.index == index), 0)


def _one_more_failure(state: State) -> State:
    return replace(state, consecutive_failures=state.consecutive_failures + 1)


def _remember(state: State, event: HostAnswered, *, held: bool = False) -> State:
    state = named.remember(state, _known(state, event), held=held)
    return note(state, event.at, f"{event.name}: {event.outcome}, {event.reason}")


def _known(state: State, event: HostAnswered) -> Exceptional:
    before = next((x for x in state.exceptional if x.index == event.index), None)
    again = before.tries + 1 if before is not None and before.outcome == event.outcome else 1
    return Exceptional(event.index, event.name, event.outcome, event.reason, event.at, again)


def _host_hold(state: State, event: HostAnswered, ends: str) -> State:
    """Hosts failing alike share one hold, which is named after the first of them.

    They fail alike where the same ends it. Reasons are kept as long as names are.
    """
    alike = next((hold for hold in state.holds if _same_cause(hold, ends)), None)
    reason = f"{event.name} is {event.outcome}: {event.reason}"
    if alike is None:
        new = Hold(f"host:{event.name}", event.at, (reason,), ends, hosts=(event.index,))
        return raise_hold(state, new)
    told = (reason,) if len(alike.reasons) < named.MOST_NAMED else ()
    hosts = tuple(sorted({*alike.hosts, event.index}))
    both = dataclasses.replace(alike, reasons=(*alike.reasons, *told), hosts=hosts)
    return raise_hold(state, both)


def _same_cause(hold: Hold, ends: str) -> bool:
    return hold.name.startswith("host:") and hold.clears == ends
