"""When does a rollout start another host, wait, hold, move on, or end?

This is the one place where that is decided. An event comes in; three questions are answered in
order, each by a file of its own or a function below:

    1. learn     What does the event tell us?             decide/learn.py, decide/commands.py
    2. refresh   What stands against starting anything?   decide/holds.py
    3. advance   If nothing does: what comes next?        below

`advance` is a walk through two steps. A wave is *changing* while it has hosts to begin, and
*baking* after that; every hold sends it back to baking, so that what follows a hold is always:
settle what is in flight, bake, judge, and only then go on.

       ┌────────────── any hold ───────────────┐
       ▼                                       │
    baking ── good for bake_for ──▶ changing ──┤
       ▲                                       │
       └── every host of the wave answered ────┘
       │
       └─▶ the wave is done: the next one, or completed

The function is pure: no clock, no I/O. Whoever carries the events (a Temporal workflow, a
simulation, a test) does the actions and comes back with what happened.
"""

from collections.abc import Callable
from typing import Any

from guardrail.decide import (
    catalog,
    catalog_holds,
    coldness,
    freeze_holds,
    freezes,
    holds,
    leading,
    learn,
    leasing,
    limits,
    observing,
    overrides,
    overriding,
    rollback,
    shadow,
    still_true,
    tighten,
    windows,
)
from guardrail.decide.bits import bit, has
from guardrail.decide.commands import obey
from guardrail.decide.evolve import replace
from guardrail.decide.found import counted
from guardrail.decide.named import and_more
from guardrail.decide.rollback import before_going_back, binding
from guardrail.model.operation import (
    Action,
    BeginHost,
    Decision,
    Event,
    Finish,
    Flight,
    Phase,
    State,
    Watch,
)

LEARN: dict[str, Callable[[State, Any], State]] = {
    "started": learn.started,
    "host_answered": learn.host_answered,
    "host_warming": coldness.warming,
    "gate_judged": learn.gate_judged,
    "watcher_lost": learn.watcher_lost,
    "watch_again": tighten.watch_again,
    "ticked": learn.ticked,
    "fleet_seen": catalog.seen,
    "freezes_seen": freezes.seen,
    "drained": learn.drained,
    "journal_said": learn.journal_said,
    "lease_told": leasing.told,
    "policy_merged": tighten.merged,
    "hosts_read": still_true.told,
    "plan_observed": observing.told,
    "leader_seen": leading.told,
    "commanded": obey,
}
"""What each kind of event tells us."""


def decide(state: State, event: Event) -> Decision:
    """What is known after an event, and what to do about it. A finished operation never changes."""
    if state.finished:
        return Decision(state)
    known = LEARN[event.kind](overriding.expire(state, event.at), event)
    after, actions = advance(look(known, event.at), event.at)
    if after is not state:
        actions = (*_watch(state, after), *actions, *_follow(state, after))
    return Decision(after, actions, wake_at(after, event.at))


def _watch(before: State, after: State) -> tuple[Watch, ...]:
    """Gates are watched anew."""
    anew = after.watch_turn != before.watch_turn and not after.finished
    return (Watch(after.watch_turn),) if anew else ()


def _follow(before: State, after: State) -> tuple[Action, ...]:
    """What each part of what is known asks for, when it has come to differ."""
    return (
        *leasing.action(before, after),
        *tighten.action(before, after),
        *still_true.action(before, after),
        *observing.action(before, after),
        *leading.action(before, after),
    )


def look(state: State, now: float) -> State:
    """What must stand now, and whether the policy turns the operation back because of it."""
    if state.phase != "running":
        return state
    state = holds.refresh(rollback.before_recovery(state, now), now)
    state = catalog_holds.refresh(state, now)
    state = rollback.consider(overriding.settle(state, now), now)
    if state.course.calendar is not None:
        state = windows.refresh(state, now, bake_left(state, now), bake_needed(state))
    state = freeze_holds.refresh(still_true.refresh(state, now), now)
    return leading.refresh(observing.refresh(leasing.refresh(state, now), now), now)


def may_begin(state: State, turn: int | None = None) -> bool:
    """Whether a host that was asked to begin may do so now: the permit of design.md §5.

    Hosts asked before a hold, and ready only after it, wait for the bake like all others.
    turn: the one that it was asked with, where that is known: nobody may begin with a turn that
    has been answered already, by a later attempt of the same work.
    """
    if turn is not None and all(flight.turn != turn for flight in state.in_flight):
        return False
    going = state.phase == "running" and state.step == "changing"
    return going and not binding(state) and leasing.covered(state)


def advance(state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    """One step as far as it goes now: at most one wave ends, any number of hosts begin."""
    if state.phase != "running":
        return state, ()
    if state.holds:
        abort = state.hold(holds.ABORT)
        if abort is not None and not state.in_flight:
            return finish(state, now, "aborted", (*abort.reasons, in_words(state)))
        if binding(state):
            return tighten.stale(back_to_baking(state)), ()
    if state.step == "baking":
        state = bake(state, now)
        if not is_baked(state):
            return state, ()
        return go_on(state, now) if tighten.fresh(state) else (tighten.ask(state), ())
    return begin_hosts(state, now)


# ---------------------------------------------------------------- baking


def back_to_baking(state: State) -> State:
    """What a hold does: a bake begins anew after it, and changed hosts are read anew."""
    begun = state.step == "changing" or state.baked or state.baking_since is not None
    if not begun and state.true_wave < 0:
        return state  # it holds since an earlier event, and nothing has begun since
    return replace(state, step="baking", baked=0.0, baking_since=None, true_wave=-1)


def bake(state: State, now: float) -> State:
    """Count the seconds of good evidence: with nothing in flight and every gate passing."""
    since = state.baking_since
    baked = state.baked + (now - since if since is not None else 0.0)
    good = holds.evidence_is_good(state) and not state.in_flight
    if not good and before_going_back(state):
        baked = 0.0  # recovered is good for so long without a break
    state = replace(state, baked=baked, baking_since=now if good else None)
    return windows.cover(state, now, good=good)


def bake_needed(state: State) -> float:
    """Seconds of good evidence that are asked for now; none before the first host.

    Before the first host goes back the system must have recovered.
    """
    if before_going_back(state):
        return rollback.recover_for(state)
    return state.course.bake_for if state.turn else 0.0


def bake_left(state: State, now: float) -> float:
    """Seconds of good evidence that are still missing before a host may begin."""
    if state.step == "changing":
        return 0.0
    since = state.baking_since
    baked = state.baked + (now - since if since is not None else 0.0)
    return max(0.0, bake_needed(state) - baked)


def is_baked(state: State) -> bool:
    """Good for long enough (to the millisecond), good at this very moment, and a daily peak seen
    where that is asked for."""
    if state.baking_since is None or state.baked < bake_needed(state) - 0.001:
        return False
    return windows.peak_is_covered(state, state.baking_since)


def go_on(state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    """The bake is over: on with this wave, with the next one, or done."""
    if still_true.due(state):
        return still_true.ask(state), ()
    state = coldness.baked(leasing.baked(state, now))
    state = replace(state, step="changing", baked=0.0, baking_since=None, policies_fresh=False)
    if state.waiting:
        return begin_hosts(state, now)
    if state.direction == "back":
        return go_on_back(state, now)
    if state.wave + 1 < len(state.course.waves):
        return next_wave(state, now)
    if state.put_off:
        return advance(look(leading.next_put_off(state), now), now)
    return finish(state, now, "completed", (in_words(state),))


def go_on_back(state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    """On with the wave before, or all that was asked for is back."""
    state = leading.enter_wave(state)
    if state.waiting:
        state = holds.note(state, now, f"wave {state.wave + 1} goes back")
        return advance(look(state, now), now)
    if state.scope == "wave":
        return advance(rollback.wave_taken_back(state, now), now)
    return finish(state, now, "rolled_back", (in_words(state),))


def next_wave(state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    """Begin the next wave, unless it wants an approval first."""
    wave = state.wave + 1
    state = replace(state, wave=wave, waiting=learn.wave_hosts(state, wave))
    stage = state.course.waves[wave].stage
    count = len(state.course.waves)
    state = holds.note(state, now, f"wave {wave + 1} of {count} begins (to {stage})")
    return advance(look(state, now), now)


# ---------------------------------------------------------------- changing


def begin_hosts(state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    """Begin as many hosts as evidence, pace, leases and limits allow at this moment."""
    if observing.due(state):
        return observing.ask(state), ()
    if state.waiting and not leasing.covered(state):
        return (leasing.ask_first(state) if _may_ask(state) else state), ()
    actions: tuple[Action, ...] = ()
    state = leading.put_off(state, now)
    while (index := _host_to_begin(state, now)) is not None:
        if leading.due(state, now):
            return leading.ask(state), actions
        state = begin(state, index, now)
        actions = (*actions, BeginHost(index, state.turn, state.direction))
    if not state.in_flight and (not state.waiting or coldness.bake_helps(state)):
        return advance(replace(state, step="baking", baked=0.0, baking_since=None), now)
    return state, actions


def _may_ask(state: State) -> bool:
    """Whether a lease would be made use of now."""
    return holds.evidence_is_good(state) and not state.draining


def _host_to_begin(state: State, now: float) -> int | None:
    paced = limits.next_begin_at(state)
    if state.draining:
        return None
    if not holds.evidence_is_good(state) or (paced is not None and now < paced):
        return None
    return limits.next_host(state, now)


def begin(state: State, index: int, now: float) -> State:
    """The state once this host has been asked to change, with a turn of its own."""
    turn = state.turn + 1
    flights = (*state.in_flight, Flight(index, turn, now, state.direction))
    waiting = state.waiting & ~bit(index)
    state = catalog.asked(state, index, turn, now)
    return replace(
        state,
        turn=turn,
        in_flight=flights,
        waiting=waiting,
        last_begin_at=now,
        true_wave=-1,
        leader_at=None,
    )


# ---------------------------------------------------------------- the end


def finish(
    state: State, now: float, phase: Phase, reasons: tuple[str, ...]
) -> tuple[State, tuple[Action, ...]]:
    """The operation ends here, for these reasons."""
    state = leasing.end(state, now, "the operation is over")
    state = replace(state, phase=phase, finished_at=now, finish_reasons=reasons)
    return holds.note(state, now, f"{phase}: {'; '.join(reasons)}"), (Finish(phase),)


def in_words(state: State) -> str:
    """How many hosts were changed, or are back, and which were not."""
    if state.direction == "back":
        return rollback.in_words(state)
    left = [known.name for known in state.exceptional if not has(state.changed, known.index)]
    left += [more] if (more := and_more(state)) else []
    aside = f"; left out: {', '.join(left)}" if left else ""
    came = still_true.left_out(state)
    count = f"{state.changed.bit_count()} of {counted(state.course.hosts)}"
    return f"{count} {shadow.changed(state.course)}{aside}{came}"


# ---------------------------------------------------------------- when to look again


def wake_at(state: State, now: float) -> float | None:
    """The next moment at which time alone changes something; None: only an event can."""
    if state.phase != "running":
        return None
    moments = [*_moments(state), *_edges(state, now), *catalog_holds.moments(state, now)]
    return min([at for at in moments if at is not None and at > now], default=None)


def _edges(state: State, now: float) -> tuple[float | None, ...]:
    if state.course.calendar is None:
        return ()
    return windows.edges(state, now, bake_left(state, now), bake_needed(state))


def _moments(state: State) -> list[float | None]:
    moments: list[float | None] = [limits.next_begin_at(state) if state.waiting else None]
    moments += [state.reread_at, state.observe_at, state.leader_again]
    moments += [leasing.give_back_at(state), overrides.next_end(state)]
    moments += freeze_holds.moments(state)
    if state.resting:
        moments += [until for _, until in state.resting]
    if state.baking_since is not None:
        moments.append(state.baking_since + bake_needed(state) - state.baked)
    for rule, watched in zip(state.course.gates, state.watched, strict=True):
        moments.append(holds.evidence_due(rule, watched))
        if holds.of_gate(state, rule):
            moments.append(holds.good_again_at(rule, watched))
    return moments
