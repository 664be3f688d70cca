"""What may a person say to an operation, and what does it change?

`refusal` is asked first, before anything is recorded; `obey` changes the state. A command that
is refused changes nothing.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from guardrail.decide import leasing, observing, overrides, overriding, people, rollback
from guardrail.decide.bits import bit, has, members
from guardrail.decide.catalog_holds import DOWN, gone_on_without
from guardrail.decide.evolve import replace
from guardrail.decide.found import are, counted
from guardrail.decide.holds import (
    ABORT,
    BREAK_GLASS,
    clear_hold,
    evidence_is_good,
    note,
    passing_since,
    raise_hold,
)
from guardrail.decide.learn import forget
from guardrail.decide.named import named, needy
from guardrail.model.operation import Approved, Commanded, Hold, State


def refusal(state: State, command: Commanded) -> str | None:
    """Why this command cannot be taken now, in words that say what to do; None if it can."""
    if not command.by:
        return "say who you are: --by NAME, or GUARDRAIL_USER in the environment"
    if state.finished:
        return f"the operation is {state.phase} already; nothing can be said to it any more"
    if command.accept_churn and not command.verified:
        return people.sign_it(command.by, f"it takes {BREAK_GLASS} people to accept churn")
    return VERBS[command.verb].refuse(state, command)


def obey(state: State, command: Commanded) -> State:
    """The state after a command; the same state when it is refused."""
    if refusal(state, command) is not None:
        return state
    because = f": {command.reason}" if command.reason else ""
    state = note(state, command.at, f"{command.verb} by {command.by}{because}")
    return VERBS[command.verb].do(state, command)


# ---------------------------------------------------------------- pause and resume


def operator_hold(name: str) -> str:
    """The hold that one person's pause raises. Each person has their own."""
    return f"operator:{name}"


def _pause(state: State, command: Commanded) -> State:
    reason = command.reason or "no reason given"
    ends = f"{command.by} (resume), or another person with --over {command.by} --reason"
    name = operator_hold(command.by)
    return raise_hold(state, Hold(name, command.at, (reason,), ends, by=command.by))


def _own_holds(state: State, command: Commanded) -> list[str]:
    wanted = [operator_hold(name) for name in (command.by, command.over) if name]
    return [name for name in wanted if state.hold(name)]


def recovered_gates(state: State) -> list[str]:
    """Gate holds that a person may clear now: the gate passes again."""
    return [
        f"gate:{watched.gate}"
        for watched in state.watched
        if state.hold(f"gate:{watched.gate}") and passing_since(watched) is not None
    ]


def _wrong_over(state: State, command: Commanded) -> str:
    """Why nothing can be resumed over that name; empty: it can, or no name was said."""
    if command.over and not command.reason:
        return f"resuming over {command.over} needs --reason: they are told"
    name = command.over
    known = name == observing.PLAN and observing.acceptable(state)
    if name and not known and not state.hold(operator_hold(name)):
        return f"{name} holds nothing here"
    return ""


def _refuse_resume(state: State, command: Commanded) -> str | None:
    if wrong := _wrong_over(state, command):
        return wrong
    if command.over == observing.PLAN and observing.acceptable(state):
        return None
    if _own_holds(state, command) or recovered_gates(state) or leasing.resumable(state):
        return None
    if not state.holds:
        return "nothing is held"
    if state.hold(DOWN):
        return None
    stands = "; ".join(f"{hold.name} ends by {hold.clears}" for hold in state.holds)
    return f"nothing here is yours to clear now. {stands}"


def _resume(state: State, command: Commanded) -> State:
    if command.over == observing.PLAN and observing.acceptable(state):
        return observing.accepted(state, command)
    over = f" over {command.over}: {command.reason}" if command.over else ""
    state = gone_on_without(state, command.at, command.by)
    if command.over:
        told = f"{command.over}, who is told: {command.by} lifts your hold, {command.reason}"
        state = note(state, command.at, told)
    for name in (*_own_holds(state, command), *recovered_gates(state)):
        state = clear_hold(state, name, command.at, f"resumed by {command.by}{over}")
    return leasing.resumed(state, command.at, f"resumed by {command.by}{over}")


# ---------------------------------------------------------------- approve


def _refuse_approve(state: State, command: Commanded) -> str | None:
    points = {point.point: point for point in state.course.approvals}
    point = points.get(command.point)
    if point is None:
        if (asked := overrides.pending(state, command.point)) is not None:
            return overriding.refuse_consent(state, asked, command)
        known = ", ".join((*points, *overrides.waiting_points(state))) or "none"
        return f"no approval is asked for at {command.point!r}; points of this plan: {known}"
    return people.refuse_approval(state, point, command)


def _approve(state: State, command: Commanded) -> State:
    if (asked := overrides.pending(state, command.point)) is not None:
        return overriding.consent(state, asked, command)
    consent = Approved(command.point, command.by, command.at, command.verified, command.key)
    return replace(state, approved=(*state.approved, consent))


# ---------------------------------------------------------------- retry and skip


def asked_about(state: State, command: Commanded) -> tuple[int, ...]:
    """The plan indexes of the hosts a command names; of all that need a person if it names none."""
    need = _needy_by_name(state)
    if command.hosts:
        return tuple(need[name] for name in command.hosts if name in need)
    return (*need.values(), *members(needy(state) & ~named(state)))


def anyone_stuck(state: State) -> bool:
    """Whether any host waits for a person: to retry it, or to skip it."""
    return bool(needy(state))


def _needy_by_name(state: State) -> dict[str, int]:
    need = needy(state)
    return {known.name: known.index for known in state.exceptional if has(need, known.index)}


def _refuse_hosts(state: State, command: Commanded) -> str | None:
    known = list(_needy_by_name(state))
    strange = [name for name in command.hosts if name not in known]
    if not strange and needy(state):
        return None
    said = f"{', '.join(strange)}: not waiting for a person. " if strange else ""
    more = (needy(state) & ~named(state)).bit_count()
    also = [f"{more} more that are not kept by name: retry without names asks all"] if more else []
    return f"{said}Hosts that are: {', '.join([*known, *also]) or 'none'}"


def _release(state: State, command: Commanded, index: int) -> State:
    """Take a host out of the sets and holds that wait for a person."""
    gone = ~bit(index)
    state = replace(state, failed=state.failed & gone, unknown=state.unknown & gone)
    state = replace(state, blocked=state.blocked & gone, waiting=state.waiting & gone)
    for hold in state.holds:
        if index in hold.hosts:
            state = _without_host(state, hold, command, index)
    return replace(state, consecutive_failures=0)


def _without_host(state: State, hold: Hold, command: Commanded, index: int) -> State:
    hosts = tuple(other for other in hold.hosts if other != index)
    if not hosts:
        return clear_hold(state, hold.name, command.at, f"{command.verb} by {command.by}")
    names = {known.index: known.name for known in state.exceptional}
    gone = f"{names.get(index, index)} is "
    reasons = tuple(reason for reason in hold.reasons if not reason.startswith(gone))
    reasons = reasons or (f"{are(len(hosts))} waited for that no name is kept of",)
    first = next((names[other] for other in hosts if other in names), f"number {hosts[0]}")
    name = hold.name if hold.name != f"host:{names.get(index)}" else f"host:{first}"
    rest = dataclasses.replace(hold, name=name, hosts=hosts, reasons=reasons)
    others = tuple(other for other in state.holds if other.name != hold.name)
    return raise_hold(replace(state, holds=others), rest)


def _retry(state: State, command: Commanded) -> State:
    for index in asked_about(state, command):
        lost = (state.failed | state.unknown) & bit(index)
        state = forget(_release(state, command, index), index)
        again = bit(index) if state.direction == "forward" else 0  # silent, and asked anew
        state = replace(state, astray=state.astray | lost, changed=state.changed & ~again)
        if state.direction == "forward" or state.take_back & bit(index):
            state = replace(state, waiting=state.waiting | bit(index))
    return state


def _skip(state: State, command: Commanded) -> State:
    for index in asked_about(state, command):
        state = _release(state, command, index)
        aside, back = state.set_aside | bit(index), state.take_back & ~bit(index)
        kept = state.astray & ~bit(index)
        state = replace(state, set_aside=aside, take_back=back, astray=kept)
    return state


# ---------------------------------------------------------------- abort


def _refuse_abort(state: State, _: Commanded) -> str | None:
    return "it is being aborted already" if state.hold(ABORT) else None


def _abort(state: State, command: Commanded) -> State:
    reason = f"aborted by {command.by}: {command.reason or 'no reason given'}"
    return raise_hold(state, Hold(ABORT, command.at, (reason,), "nothing: an abort is for good"))


def _refuse_pause(state: State, _: Commanded) -> str | None:
    return "it is being aborted: nothing new begins any more" if state.hold(ABORT) else None


@dataclass(frozen=True, slots=True)
class _Verb:
    refuse: Callable[[State, Commanded], str | None]
    do: Callable[[State, Commanded], State]


VERBS: dict[str, _Verb] = {
    "pause": _Verb(_refuse_pause, _pause),
    "resume": _Verb(_refuse_resume, _resume),
    "approve": _Verb(_refuse_approve, _approve),
    "retry": _Verb(_refuse_hosts, _retry),
    "skip": _Verb(_refuse_hosts, _skip),
    "abort": _Verb(_refuse_abort, _abort),
    "rollback": _Verb(rollback.refuse, rollback.obey),
    "override": _Verb(overriding.refuse, overriding.obey),
}


# ---------------------------------------------------------------- what is answered


def answer(state: State, command: Commanded) -> str:
    """What a person is told once a command has been obeyed; `state` is the one after it."""
    flights = len(state.in_flight)
    if command.verb == "rollback":
        hosts = state.take_back.bit_count()
        return f"going back: {counted(hosts)}, newest first, and those of {flights} in flight"
    if (said := overriding.answer(state, command)) is not None:
        return said
    if command.verb in ("pause", "abort"):
        return f"nothing new is asked to begin; at most {flights} in flight"
    if state.holds:
        return "still held: " + "; ".join(f"{hold.name} ({hold.clears})" for hold in state.holds)
    if not evidence_is_good(state):
        return "nothing holds; it goes on when every gate passes"
    return "nothing holds; it settles, bakes and goes on"
