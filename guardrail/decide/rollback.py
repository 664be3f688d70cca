"""May an operation go back, which hosts does it take back, and what stands in its way?

A rollback restarts the same agents that the rollout restarted, so it keeps every limit and every
safety gate that going forward kept. It goes newest first, wave by wave, once an operation, and
never turns round again. What differs from going forward:

    health gates    judge the new version, so they never stand in the way of leaving it
    approvals       were asked for the new version; a person or the policy asked for this
    a bake first    every safety gate good for recover.for, before the first host goes back
    any failure     holds: there is no version left to flee to
    a bad version   one that keeps its hosts leaving the catalog is left before recovery, at a pace
                    of its own (decide/churning.py)
    break-glass     two people, by their keys, may accept churn in a system that is not well: then
                    gates do not bind, and limits still do
"""

import dataclasses

from guardrail.decide import churning
from guardrail.decide.bits import bit
from guardrail.decide.catalog_holds import CATALOG, survives_a_turn
from guardrail.decide.churning import touched
from guardrail.decide.evolve import replace
from guardrail.decide.found import are, counted
from guardrail.decide.holds import (
    ABORT,
    BREAK_GLASS,
    FAILURES,
    clear_hold,
    gate_binds,
    note,
    raise_hold,
)
from guardrail.model.operation import Commanded, Hold, HostAnswered, Scope, State

WAVE_TAKEN_BACK = "rollback:wave"
"""The hold after a rollback of one wave: only more rollback, or an abort, goes on from there."""


# ---------------------------------------------------------------- what stands in the way


def binding(state: State) -> tuple[Hold, ...]:
    """The holds under which nothing may begin in the present direction."""
    if state.direction == "forward":
        return state.holds
    return tuple(hold for hold in state.holds if binds_back(state, hold))


def binds_back(state: State, hold: Hold) -> bool:
    """Whether a hold stands in the way of going back."""
    kind, _, name = hold.name.partition(":")
    if kind in ("approval", "policy"):
        return False
    if kind in ("gate", "evidence") and hold.name != CATALOG:
        return any(gate_binds(state, rule) for rule in state.course.gates if rule.name == name)
    return True


def safety_gates(state: State) -> frozenset[str]:
    """The gates that judge both directions."""
    return frozenset(rule.name for rule in state.course.gates if rule.gate_class == "safety")


def recover_for(state: State) -> float:
    """Seconds that every safety gate must be good before the first host goes back."""
    safety = safety_gates(state)
    return max((r.good_for for r in state.course.gates if r.name in safety), default=0.0)


# ---------------------------------------------------------------- which hosts


def wave_span(state: State, wave: int) -> int:
    """The set of hosts of a wave."""
    planned = state.course.waves[wave]
    return (1 << planned.end) - (1 << planned.begin)


def last_touched_wave(state: State, hosts: int) -> int | None:
    """The last wave that has any of these hosts."""
    waves = reversed(range(len(state.course.waves)))
    return next((wave for wave in waves if hosts & wave_span(state, wave)), None)


def would_take_back(state: State, scope: Scope) -> int:
    """The hosts that a rollback would bring to the former version, as far as is known now."""
    hosts = (touched(state) | _asked_forward(state)) & ~state.set_aside | state.take_back
    wave = last_touched_wave(state, hosts)
    return hosts if scope == "all" or wave is None else hosts & wave_span(state, wave)


def _asked_forward(state: State) -> int:
    flights = (bit(f.index) for f in state.in_flight if f.direction == "forward")
    return sum(flights)


# ---------------------------------------------------------------- turning round


def refuse(state: State, command: Commanded) -> str | None:
    """Why a rollback cannot be asked for now."""
    if state.hold(ABORT):
        return "it is being aborted: nothing new begins any more"
    if state.course.rollback_when == "never":
        return "the policy says rollback.when: never; abort it, and plan a rollout to go back"
    if state.direction == "forward":
        return (
            None if would_take_back(state, "all") else "no host was changed: nothing to take back"
        )
    if command.accept_churn and command.by not in state.churn_accepted:
        return None
    if state.scope == "wave" and command.scope == "all":
        return None
    return "it is going back already; there is one rollback an operation"


def obey(state: State, command: Commanded) -> State:
    """A person asks for a rollback, for more of it, or breaks the glass."""
    if command.accept_churn and command.by not in state.churn_accepted:
        people = (*state.churn_accepted, command.by)
        state = replace(state, churn_accepted=people)
        count = f"{len(people)} of {BREAK_GLASS}"
        state = note(state, command.at, f"churn accepted by {command.by} ({count})")
    if state.direction == "back" and command.scope != "all":
        return state
    if state.direction == "back" and state.scope == "all":
        return state
    return turn_back(state, command.at, command.scope, f"asked by {command.by}")


def consider(state: State, now: float) -> State:
    """`auto`: go back when the new version is judged bad. Never because of a safety gate."""
    if state.course.rollback_when != "auto" or state.direction == "back" or state.hold(ABORT):
        return state
    why = bad_version(state)
    if why is None or not would_take_back(state, "all"):
        return state
    return turn_back(state, now, "all", f"by policy: {why}")


def before_going_back(state: State) -> bool:
    """Whether the operation has turned, and no host has been asked to go back yet."""
    return state.direction == "back" and state.turn == state.turned_at_turn


def watched_anew(state: State) -> State:
    """Before the first host goes back, a new watch has to see anew that it has recovered."""
    if not before_going_back(state):
        return state
    return replace(state, step="baking", baked=0.0, baking_since=None)


def before_recovery(state: State, now: float) -> State:
    """Turned, with no host begun: the wait for recovery ends where the version is the trouble."""
    if (
        not before_going_back(state)
        or state.back_gap is not None
        or (gap := churning.gap(state, now)) is None
    ):
        return state
    state = replace(state, back_gap=gap)
    why = churning.why(state, now)
    return note(state, now, f"goes back before recovery, a host every {gap:.0f} s: {why}")


def bad_version(state: State) -> str | None:
    """What says that the new version is bad: a health gate, or failures above their limit."""
    safety = safety_gates(state)
    for hold in state.holds:
        kind, _, name = hold.name.partition(":")
        if hold.name == FAILURES or (kind == "gate" and name not in safety):
            return f"{hold.name}, {'; '.join(hold.reasons)}"
    return None


def turn_back(state: State, now: float, scope: Scope, why: str) -> State:
    """From here on the operation goes back; holds that were about going forward end."""
    hosts = would_take_back(state, scope)
    first = state.direction == "forward"
    fresh = hosts & ~state.take_back  # the others have been asked to go back already
    state = replace(
        state,
        direction="back",
        scope=scope,
        take_back=state.take_back | hosts & ~_asked_forward(state),
        turned_at_turn=state.turn if first else state.turned_at_turn,
        set_aside=state.set_aside | (state.blocked & ~hosts if first else 0),
        astray=state.astray | (state.failed | state.unknown) & fresh,
        failed=state.failed & ~fresh,
        unknown=state.unknown & ~fresh,
        blocked=0 if first else state.blocked & ~fresh,
        exceptional=tuple(dataclasses.replace(known, tries=0) for known in state.exceptional),
        consecutive_failures=0,
        step="baking",
        baked=0.0,
        baking_since=None,
    )
    stuck = (
        state.failed | state.unknown | state.blocked | (0 if first else state.take_back & ~fresh)
    )
    for hold in state.holds:
        if _ends_by_turning(hold, stuck):
            state = clear_hold(state, hold.name, now, "the operation goes back")
    count = hosts.bit_count()
    return enter_wave(note(state, now, f"rollback of {counted(count)} ({scope}), {why}"))


def _ends_by_turning(hold: Hold, stuck: int) -> bool:
    """Holds about going forward; not of hosts that still wait for a person."""
    if survives_a_turn(hold):
        return False
    kind = hold.name.partition(":")[0]
    about = sum(bit(index) for index in hold.hosts)
    return kind in ("approval", "limit", "rollback") or (kind == "host" and not about & stuck)


def enter_wave(state: State) -> State:
    """The last wave that still has hosts to take back, with those waiting; or none is left.

    Hosts that do not serve wait in every wave: they take no more of the limits than they have.
    """
    wave = last_touched_wave(state, state.take_back)
    if wave is None:
        return replace(state, waiting=0)
    stuck = state.failed | state.unknown | state.blocked
    mine = wave_span(state, wave) | state.astray
    waiting = state.take_back & mine & ~(state.flying | stuck)
    return replace(state, wave=wave, waiting=waiting)


def wave_taken_back(state: State, now: float) -> State:
    """The one wave that was asked for is back: hold."""
    reason = "the last wave is back at the former version"
    ends = "rollback --scope all, or abort"
    return raise_hold(state, Hold(WAVE_TAKEN_BACK, now, (reason,), ends))


# ---------------------------------------------------------------- answers


def late_answer(state: State, event: HostAnswered) -> State:
    """A host that was asked to go forward answers after the operation turned: take it back too.

    It is of the last wave, so every scope has it.
    """
    lost = bit(event.index)
    if event.outcome == "gone":
        return replace(state, set_aside=state.set_aside | lost, astray=state.astray & ~lost)
    if event.outcome in ("changed", "failed", "unknown"):
        state = replace(state, tried=state.tried | lost)
    if event.outcome in ("failed", "unknown"):
        state = replace(state, astray=state.astray | lost)
    if event.outcome == "changed":
        state = replace(state, astray=state.astray & ~lost)
    if not state.tried & lost:
        return state
    state = replace(state, take_back=state.take_back | lost)
    return enter_wave(note(state, event.at, f"{event.name}: {event.outcome}; goes back too"))


def came_back(state: State, index: int) -> State:
    """A host is at the former version again."""
    gone = ~bit(index)
    return replace(
        churning.came_back(state, index),
        changed=state.changed & gone,
        tried=state.tried & gone,
        astray=state.astray & gone,
        take_back=state.take_back & gone,
        reverted=state.reverted | bit(index),
    )


def in_words(state: State) -> str:
    """What a rollback has come to."""
    left = touched(state)
    names = [known.name for known in state.exceptional if left & bit(known.index)]
    named = f": {', '.join(names)}" if names else ""
    kept = f"; {are(left.bit_count())} not{named}" if left else ""
    return f"{are(state.reverted.bit_count())} back at the former version{kept}"
