"""Which hosts are cold, and may one more be?

A host is cold from the moment it is asked, and counts as one whole host until it is known to be
warm:

    with `warmUp`       until it has answered well: its work ends with the gate that shows it warm
    without             until a bake after it has ended; where cold hosts leave no room for another
                        in the middle of a wave, that bake comes in the middle of the wave
    failed or unknown   until a person has dealt with it

One that is back and in flight still counts only as much as it is cold, where its gate says how warm
it is: a reading that is a share (the gate passes above a number up to 1) over that number. A cache
that has half of the hits that make it warm lacks as many as half a cold one. Of several gates the
coldest counts; without evidence it is a whole one.

A host that is cold already (it failed, and is asked again) takes nothing more. Where the hosts
serve the slots of a ring, it is the slots that are counted (decide/ring.py).
"""

import math

from guardrail.decide import ring
from guardrail.decide.bits import bit, has, union
from guardrail.decide.evolve import replace
from guardrail.decide.found import are
from guardrail.model.budget import ColdLimit
from guardrail.model.gate import Gate, Judgement
from guardrail.model.operation import HostAnswered, HostWarming, State

MOST_UNSHOWN = 90
"""Percent: the most that counts as warm before the gate has passed."""

NOT_RESTARTED = ("not_begun", "blocked", "credentials", "gone")
"""Answers after which the host's agent was not restarted."""


def members_of(limit: ColdLimit) -> int:
    """The set of hosts that a limit is about."""
    return union(limit.hosts)


def used(state: State, limit: ColdLimit) -> float:
    """How much of the limit is used up: hosts that are cold, by how cold they are, or slots without
    a warm server."""
    hosts = members_of(limit)
    if not ring.counts(state):
        return (100 * (state.cold & hosts).bit_count() - _warm(state, hosts)) / 100
    known = ring.cold(state, hosts)
    return (100 * known - _warm(state, hosts & state.serving & ~state.fresh)) / 100


def _warm(state: State, hosts: int) -> int:
    """How much of the cold ones is warm, in hundredths of a host."""
    return sum(percent for index, percent in state.warmth if (hosts & state.cold) >> index & 1)


def warm_share(gate: Gate, judged: Judgement | None) -> int:
    """How warm what this judgement is about is, in percent, rounded down to tens; 100 only once the
    gate has passed. 0 where that cannot be told."""
    above = gate.bound.above
    if judged is None or judged.verdict == "inconclusive" or above is None or not 0 < above <= 1:
        return 0
    if judged.verdict == "pass":
        return 100
    value = judged.value
    if value is None or not math.isfinite(value):
        return 0
    return max(0, min(MOST_UNSHOWN, math.floor(10 * value / above) * 10))


def warming(state: State, event: HostWarming) -> State:
    """A host tells how warm it is; of another turn it is not believed."""
    flight = state.flight(event.index)
    if flight is None or flight.turn != event.turn or not has(state.cold, event.index):
        return state
    percent = max(0, min(MOST_UNSHOWN, event.percent))
    return _told(state, event.index, percent)


def _told(state: State, index: int, percent: int) -> State:
    """With what is known of one host; 0: nothing."""
    others = [one for one in state.warmth if one[0] != index]
    if not percent and len(others) == len(state.warmth):
        return state
    new = [(index, percent)] if percent else []
    return replace(state, warmth=tuple(sorted([*others, *new])))


def full(state: State) -> int:
    """The set of hosts of which no other one may be cold now."""
    found = 0
    for limit in state.course.budget.cold:
        if used(state, limit) + 1 > limit.most:
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
    return replace(_told(state, index, 0), cold=state.cold | bit(index))


def answered(state: State, event: HostAnswered) -> State:
    """Warm by the evidence that was asked for, or not restarted at all."""
    index = event.index
    state = _told(state, index, 0) if state.warmth else state
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
    return replace(state, cold=state.cold & (ring.lost(state) | state.flying))


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
    return bool(counted & ~ring.lost(state)) or ring.warmed_by_a_bake(state)


def moments(state: State) -> list[float | None]:
    """When time alone changes something here."""
    return [ring.warm_until(state)] if state.course.budget.cold else []


def words(state: State) -> tuple[str, ...]:
    """Which limits are used up."""
    return tuple(
        f"{_words(state, limit)}, {limit.most} may be ({limit.origin})"
        for limit in state.course.budget.cold
        if used(state, limit) + 1 > limit.most
    )


def _words(state: State, limit: ColdLimit) -> str:
    count = used(state, limit)
    if not ring.counts(state):
        whole = int(count)
        return f"{are(whole) if whole == count else f'{count:g} hosts are'} cold"
    have = "ring slot has" if count == 1 else "ring slots have"
    which = ring.words(state, members_of(limit))
    return f"{count:g} {have} no warm server: {which}"
