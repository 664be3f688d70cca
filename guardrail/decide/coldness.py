"""Which hosts are cold, and may one more be?

A host is cold from the moment it is asked, and counts as one whole host until it is known to be
warm:

    with `warmUp`       until it has answered well: its work ends with the gate that shows it warm
    without             until a bake after it has ended; where cold hosts leave no room for another
                        in the middle of a wave, that bake comes in the middle of the wave
    failed or unknown   until a person has dealt with it

A host that is cold already (it failed, and is asked again) takes nothing more. Where the hosts
serve the slots of a ring, it is the slots that are counted (decide/ring.py).
"""

from guardrail.decide import ring
from guardrail.decide.bits import bit, span
from guardrail.decide.evolve import replace
from guardrail.model.budget import ColdLimit
from guardrail.model.operation import HostAnswered, State

NOT_RESTARTED = ("not_begun", "blocked", "credentials", "gone")


def members_of(limit: ColdLimit) -> int:
    """The set of hosts that a limit is about."""
    return sum(span(begin, end) for begin, end in limit.hosts)


def used(state: State, limit: ColdLimit) -> int:
    """How much of the limit is used up: hosts that are cold, or slots without a warm server."""
    hosts = members_of(limit)
    return ring.cold(state, hosts) if ring.counts(state) else (state.cold & hosts).bit_count()


def full(state: State) -> int:
    """The set of hosts of which no other one may be cold now."""
    found = 0
    for limit in state.course.budget.cold:
        if used(state, limit) >= limit.most:
            found |= members_of(limit)
    return found


def permitted(state: State, hosts: int) -> int:
    """Those of the hosts that may be cold."""
    if ring.counts(state):
        return hosts & ~(full(state) & ~ring.takes_nothing(state))
    return hosts if not state.cold else hosts & ~(full(state) & ~state.cold)


def asked(state: State, index: int) -> State:
    """A host is asked: it counts as cold."""
    if not state.course.budget.cold:
        return state
    return replace(state, cold=state.cold | bit(index))


def answered(state: State, event: HostAnswered) -> State:
    """Warm by the evidence that was asked for, or not restarted at all."""
    index = event.index
    if not state.cold >> index & 1:
        return state
    warm = event.outcome == "changed" and bool(state.course.budget.warm_rules(index, event.turn))
    left = event.outcome in NOT_RESTARTED and not _was_cold(state, index)
    return replace(state, cold=state.cold & ~bit(index)) if warm or left else state


def _was_cold(state: State, index: int) -> bool:
    """Whether it had been asked before, and has not answered well since."""
    return bool((state.astray | state.failed | state.unknown) >> index & 1)


def baked(state: State) -> State:
    """A bake is over: what serves is warm."""
    state = ring.baked(state)
    if not state.cold:
        return state
    away = sum(bit(flight.index) for flight in state.in_flight)
    return replace(state, cold=state.cold & (_lost(state) | away))


def _lost(state: State) -> int:
    return (state.astray | state.failed | state.unknown) & ~state.set_aside


def bake_helps(state: State) -> bool:
    """Whether every waiting host waits for others to be warm, and a bake would make them so."""
    return _all_wait(state) and _a_bake_warms(state)


def stuck(state: State, now: float) -> bool:
    """Whether every waiting host waits for others that neither a bake nor a gate makes warm."""
    if not _all_wait(state) or _a_bake_warms(state):
        return False
    until = ring.warm_until(state)
    return until is None or now >= until


def _all_wait(state: State) -> bool:
    """Whether every waiting host waits for others to be warm, and nothing is in flight."""
    if not state.waiting or state.in_flight or not (state.cold or ring.counts(state)):
        return False
    return not permitted(state, state.waiting)


def _a_bake_warms(state: State) -> bool:
    """Whether a bake makes room: some that are cold serve, and nothing else shows them warm."""
    counted = state.cold & state.serving if ring.counts(state) else state.cold
    return bool(counted & ~_lost(state)) or ring.warmed_by_a_bake(state)


def moments(state: State) -> list[float | None]:
    """When time alone changes something here."""
    return [ring.warm_until(state)] if state.course.budget.cold else []


def words(state: State) -> tuple[str, ...]:
    """Which limits are used up."""
    return tuple(
        f"{_words(state, limit)}, {limit.most} may be ({limit.origin})"
        for limit in state.course.budget.cold
        if used(state, limit) >= limit.most
    )


def _words(state: State, limit: ColdLimit) -> str:
    count = used(state, limit)
    if not ring.counts(state):
        return f"{count} hosts are cold"
    which = ring.words(state, members_of(limit))
    return f"{count} ring slots have no warm server: {which}"
