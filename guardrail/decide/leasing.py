"""When does an operation ask for a lease, keep it, or give it back?

A lease covers the roles of one wave's hosts. It is asked for before the wave's first host, and kept
while any host of ours is away, cold or baking: to the end of the wave's bake. Then it goes back,
and the next wave asks anew, so that who waits has its turn between two waves.

    asked ── granted ──▶ hosts begin ── the wave has baked ──▶ given back
      │                      │ └── somebody urgent waits: hold `yield`; once nothing is away it is
      │                      │     given back and asked for again, and a bake follows
      │                      ├── limits are others now: asked for anew at once, and kept meanwhile
      │                      ├── its keeper fell silent: hold `lease`; asked for again, then a bake
      │                      ├── a person broke it: hold `lease`, until a person resumes
      │                      └── another hold, nothing away, and a bake's time good: given back
      └── waits: hold `lease`, with who has it; once granted, a bake follows

Other holds raised while it waits make it wait no more: it asks again after them.
"""

import dataclasses

from guardrail.decide.claims import claims_of, limit_beside_others, own_limit
from guardrail.decide.evolve import replace
from guardrail.decide.holds import clear_hold, evidence_is_good, raise_hold
from guardrail.decide.limits import not_serving
from guardrail.decide.overriding import exceeded
from guardrail.decide.rollback import binding, wave_span
from guardrail.model.lease import Ask, Claim
from guardrail.model.operation import EndLease, Hold, KeepLease, LeaseTold, State

LEASE = "lease"
YIELD = "yield"
OWN = frozenset((LEASE, YIELD))
REGAINED = "the lease regained, then a bake"


# ---------------------------------------------------------------- what is asked for


def needs(state: State) -> tuple[Claim, ...]:
    """What this wave's hosts need, and those that are away or cold, of whatever wave: an operation
    that turned round waits for another wave than the one that it has hosts of. Hosts that were put
    off have no wave any more."""
    hosts = wave_span(state, state.wave) | not_serving(state) | state.waiting | state.put_off
    hosts |= state.flying
    if state.lease is not None and state.lease_ask is not None and cold(state):
        hosts |= wave_span(state, state.lease_ask.wave)
    return claims_of(state, hosts)


def unsettled(state: State) -> bool:
    """Whether any host of ours is away, or may be."""
    return bool(state.in_flight) or bool(not_serving(state))


def cold(state: State) -> bool:
    """Whether any host of ours is away, or was begun since the last bake ended."""
    return unsettled(state) or state.turn > state.baked_turn


def covered(state: State) -> bool:
    """Whether hosts of this wave may begin, as far as leases go."""
    return not state.course.leases or (state.lease_sure and _is_asked_for(state))


def _is_asked_for(state: State) -> bool:
    """Whether what was asked for last is what this wave needs, as limits are now."""
    ask = state.lease_ask
    return ask is not None and ask.wave == state.wave and ask.most == own_limit(state)


def ask_first(state: State) -> State:
    """Ask for what this wave needs, unless it has been asked for."""
    if _is_asked_for(state):
        return state
    return _ask(state, keep=state.lease is not None and cold(state))


def _ask(state: State, *, keep: bool) -> State:
    ask = Ask(state.wave, needs(state), own_limit(state), keep)
    lease = state.lease if keep else None
    turn = state.lease_turn + 1
    return replace(state, lease_ask=ask, lease=lease, lease_turn=turn, lease_sure=False)


def again(state: State) -> State:
    """Its keeper is gone: another one asks for the same, and what it has is not sure till then."""
    if state.lease_ask is None or state.lease_broken:
        return state
    ask = dataclasses.replace(state.lease_ask, keep=state.lease is not None)
    return replace(state, lease_ask=ask, lease_turn=state.lease_turn + 1, lease_sure=False)


def end(state: State, now: float, why: str = "") -> State:
    """Give back what there is, and wait for nothing."""
    if state.lease_ask is None:
        return state
    turn = state.lease_turn + 1
    state = replace(
        state, lease=None, lease_ask=None, lease_turn=turn, lease_sure=False, calm_since=None
    )
    if state.lease_broken:
        return state
    return clear_hold(clear_hold(state, LEASE, now, why), YIELD, now, why)


def baked(state: State, now: float) -> State:
    """A bake is over: what was begun before it is warm. With it a wave's lease ends."""
    state = replace(state, baked_turn=state.turn)
    return state if state.waiting or unsettled(state) else end(state, now, "the wave has baked")


def action(before: State, after: State) -> tuple[KeepLease | EndLease, ...]:
    """What the carrier has to do about leases after an event."""
    if after.lease_turn == before.lease_turn:
        return ()
    if after.lease_ask is None:
        return (EndLease(after.lease_turn),)
    token = after.lease.token if after.lease is not None else 0
    return (KeepLease(after.lease_turn, after.lease_ask, token),)


# ---------------------------------------------------------------- what is told


def told(state: State, event: LeaseTold) -> State:
    """The table's word on what was asked for last."""
    if event.turn != state.lease_turn or state.lease_ask is None or state.lease_broken:
        return state
    if event.word == "granted":
        return _granted(state, event)
    if event.word == "wanted":
        ends = f"hosts in flight settled and the lease given back; {REGAINED}"
        return _held(_has(state, event), event, YIELD, ends)
    if event.word == "broken":
        ends = "a person (resume); it then asks for the lease again"
        state = replace(state, lease=None, lease_sure=False, lease_broken=True)
        return _held(state, event, LEASE, ends)
    if event.word == "waits":
        return state if state.hold(YIELD) else _held(state, event, LEASE, REGAINED)
    return again(_held(state, event, LEASE, REGAINED))


def _held(state: State, event: LeaseTold, name: str, ends: str) -> State:
    return raise_hold(state, Hold(name, event.at, event.reasons, ends))


def _has(state: State, event: LeaseTold) -> State:
    """It is there. Lost meanwhile, or waited for: then a bake comes first."""
    if event.grant is None:
        return state
    state = replace(state, lease=event.grant, lease_sure=True)
    if event.anew:
        state = replace(state, step="baking", baked=0.0, baking_since=None)
    why = f"gained, {', '.join(event.grant.roles)} (token {event.grant.token})"
    return clear_hold(state, LEASE, event.at, why)


def _granted(state: State, event: LeaseTold) -> State:
    state = _has(state, event)
    return clear_hold(state, YIELD, event.at, "nobody more urgent waits for it")


def resumable(state: State) -> bool:
    """Whether a person may go on after the lease was broken: nothing is in flight any more."""
    return state.lease_broken and state.lease_ask is None


def resumed(state: State, now: float, why: str) -> State:
    """A person goes on after a break: the lease is asked for again when a host may begin."""
    if not resumable(state):
        return state
    return clear_hold(replace(state, lease_broken=False), LEASE, now, why)


# ---------------------------------------------------------------- what follows


def refresh(state: State, now: float) -> State:
    """Give back, or ask anew, where that follows from what is known."""
    if state.lease_ask is None:
        return state
    state = _calm(state, now)
    if state.lease_broken:
        return state if state.in_flight else end(state, now)
    if _may_be_given_back(state, now):
        return end(state, now, "given back while something else holds")
    if state.hold(YIELD) and state.lease is not None and not unsettled(state):
        return _ask(state, keep=False)
    if state.hold(LEASE) and not _is_asked_for(state):
        return ask_first(state)  # it turned round while it waited, or limits are others now
    return _ask(state, keep=True) if _limits_are_others(state) else state


def _limits_are_others(state: State) -> bool:
    """Whether what it has was asked for with other limits: an override has come, or is over.

    It is asked for anew at once, whatever holds and whether or not a host waits for it, since
    others are granted theirs by the limit that this one brings. Not while more is away than the
    limits allow now: that is what it has, until hosts have settled.
    """
    ask, sure = state.lease_ask, state.lease_sure and state.lease is not None
    if ask is None or not sure or ask.wave != state.wave or state.hold(YIELD):
        return False
    limit = limit_beside_others(state)
    same = ask.most == own_limit(state) and all(claim.limit == limit for claim in ask.claims)
    return not same and exceeded(state) is None


def _calm(state: State, now: float) -> State:
    """Since when nothing is away and all evidence is good, whatever holds."""
    good = evidence_is_good(state) and not unsettled(state)
    if good and state.calm_since is not None:
        return state
    return replace(state, calm_since=now if good else None)


def _held_otherwise(state: State) -> bool:
    return any(hold.name not in OWN for hold in binding(state))


def _may_be_given_back(state: State, now: float) -> bool:
    if unsettled(state) or not _held_otherwise(state):
        return False
    due = give_back_at(state)
    return not cold(state) or (due is not None and now >= due - 0.001)


def give_back_at(state: State) -> float | None:
    """When hosts begun since the last bake will be taken for warm, though something holds."""
    if state.lease_ask is None or state.calm_since is None or not _held_otherwise(state):
        return None
    return state.calm_since + state.course.bake_for
