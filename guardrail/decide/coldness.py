"""Which hosts are cold, and may one more be?

A host is cold from the moment it is asked, and counts as one whole host until it is known to be
warm:

    with `warmUp`       until it has answered well: its work ends with the gate that shows it warm
    without             until a bake after it has ended; where cold hosts leave no room for another
                        in the middle of a wave, that bake comes in the middle of the wave
    failed or unknown   until a person has dealt with it

A host that is cold already (it failed, and is asked again) takes nothing more.
"""

from guardrail.decide.bits import bit, span
from guardrail.decide.evolve import replace
from guardrail.model.budget import ColdLimit
from guardrail.model.operation import HostAnswered, State

NOT_RESTARTED = ("not_begun", "blocked", "credentials", "gone")


def members_of(limit: ColdLimit) -> int:
    """The set of hosts that a limit is about."""
    return sum(span(begin, end) for begin, end in limit.hosts)


def full(state: State) -> int:
    """The set of hosts of which no other one may be cold now."""
    found = 0
    for limit in state.course.budget.cold:
        hosts = members_of(limit)
        if (state.cold & hosts).bit_count() >= limit.most:
            found |= hosts
    return found


def permitted(state: State, hosts: int) -> int:
    """Those of the hosts that may be cold."""
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
    if not state.cold:
        return state
    away = sum(bit(flight.index) for flight in state.in_flight)
    return replace(state, cold=state.cold & (_lost(state) | away))


def _lost(state: State) -> int:
    return (state.astray | state.failed | state.unknown) & ~state.set_aside


def bake_helps(state: State) -> bool:
    """Whether every waiting host waits for others to be warm, and a bake would make them so."""
    if not state.waiting or not state.cold or state.in_flight:
        return False
    return not permitted(state, state.waiting) and bool(state.cold & ~_lost(state))


def stuck(state: State) -> bool:
    """Whether every waiting host waits for others that no bake makes warm."""
    if not state.waiting or not state.cold or state.in_flight:
        return False
    return not permitted(state, state.waiting) and not state.cold & ~_lost(state)


def words(state: State) -> tuple[str, ...]:
    """Which limits are used up."""
    return tuple(
        f"{(state.cold & members_of(limit)).bit_count()} hosts are cold, {limit.most} may be "
        f"({limit.origin})"
        for limit in state.course.budget.cold
        if (state.cold & members_of(limit)).bit_count() >= limit.most
    )
