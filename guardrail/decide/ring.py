"""Which slots of the tier's ring have no warm server?

A fleet may say that its hosts serve the slots of a ring (`inventory.consul.ring`). A restart that
takes a node out of the catalog then costs the slot that it had, and not the node: a spare takes the
slot, and is cold; the node comes back as a spare, and nobody waits for it. So what counts against
cold capacity is

    a slot that nobody serves                                    1, until somebody does
    a slot whose server took it, or left and is back, since      1, until its server is warm
    a slot whose server was asked to change                      1, until it is warm or has lost it
    a host that has no slot                                      nothing

Warm is who passes the `warmUp` gate about it, read once it has the slot; where no policy names one,
who serves once a bake has ended. So a dead node whose slot a warmed spare takes uses nothing up
beyond the time that the spare needs to show it. Who served a slot when the operation began counts
as warm: the gates judge that system.
"""

import dataclasses

from guardrail.decide.bits import union
from guardrail.decide.evolve import replace
from guardrail.model.budget import RingKnown, RingSeen
from guardrail.model.operation import FleetSeen, State


def counts(state: State) -> bool:
    """Whether slots are counted, and not hosts: there is a ring, and the watch has told of it."""
    return state.course.budget.ring is not None and state.catalog.ring.told


def missing(state: State) -> bool:
    """Whether there is a ring that nobody has told of: then nothing begins."""
    return state.course.budget.ring is not None and not state.catalog.ring.told


def cold(state: State, hosts: int) -> int:
    """How many slots are without a warm server, of those that these hosts serve; slots that nobody
    serves, and those of nodes that the plan does not have, count for any hosts."""
    known = state.catalog.ring
    ours = (state.cold & state.serving) | state.fresh
    return (ours & hosts).bit_count() + known.empty + len(known.fresh)


def takes_nothing(state: State) -> int:
    """The waiting hosts that may be asked and make no more slots cold than there are."""
    return state.waiting & (~state.serving | state.cold | state.fresh)


def known(state: State) -> RingSeen | None:
    """What the next watch has to know; None: nobody has told of a ring yet."""
    ring = state.catalog.ring
    if not (ring.told or state.serving or ring.others or ring.empty):
        return None
    return RingSeen(
        serving=f"{state.serving:x}",
        others=ring.others,
        empty=ring.empty,
        spares=ring.spares,
        taken=f"{state.fresh:x}",
        taken_others=ring.fresh,
    )


# ---------------------------------------------------------------- what happens


def anew(known: RingKnown) -> RingKnown:
    """A new watch begins: who serves has to be told again."""
    return dataclasses.replace(known, told=False) if known.told else known


def seen(state: State, event: FleetSeen) -> State:
    """What the present watch tells of the ring."""
    told, known = event.ring, state.catalog.ring
    if told is None:
        return state
    serving = int(told.serving, 16)
    fresh = (state.fresh | int(told.taken, 16)) & serving & ~int(told.warm, 16)
    taken = told.taken != "0" or bool(told.taken_others)
    ring = RingKnown(
        told=True,
        empty=told.empty,
        spares=told.spares,
        others=told.others,
        fresh=_fresh_others(known, told),
        taken_at=event.at if taken else known.taken_at,
    )
    catalog = state.catalog if ring == known else dataclasses.replace(state.catalog, ring=ring)
    return replace(state, serving=serving, fresh=fresh, catalog=catalog)


def _fresh_others(known: RingKnown, told: RingSeen) -> tuple[str, ...]:
    fresh = {*known.fresh, *told.taken_others} & set(told.others)
    return tuple(sorted(fresh - set(told.warm_others)))


def baked(state: State) -> State:
    """A bake has ended: who serves is warm, unless a gate has to show it."""
    if not warmed_by_a_bake(state):
        return state
    known, fresh = state.catalog.ring, state.fresh & ~_bake_warms(state)
    others = known.fresh if state.course.budget.warm else ()
    catalog = dataclasses.replace(state.catalog, ring=dataclasses.replace(known, fresh=others))
    return replace(state, fresh=fresh, catalog=catalog)


def _bake_warms(state: State) -> int:
    """The fresh servers that nothing but a bake shows to be warm: of those that serve."""
    return state.fresh & ~by_gate(state) & ~state.flying & ~lost(state)


def lost(state: State) -> int:
    """The hosts that answered badly and have not answered well since, but for those given up."""
    return (state.astray | state.failed | state.unknown) & ~state.set_aside


def by_gate(state: State) -> int:
    """The hosts that a gate has to show to be warm."""
    return union(stretch for rule in state.course.budget.warm for stretch in rule.hosts)


def warmed_by_a_bake(state: State) -> bool:
    """Whether a bake makes any slot warm whose server took it."""
    others = bool(state.catalog.ring.fresh) and not state.course.budget.warm
    return counts(state) and (others or bool(_bake_warms(state)))


def warm_until(state: State) -> float | None:
    """Until when those that took a slot may take to show that they are warm; None: nobody does."""
    shows = state.fresh & by_gate(state) or (state.course.budget.warm and state.catalog.ring.fresh)
    if not counts(state) or not shows:
        return None
    return state.catalog.ring.taken_at + state.course.budget.warm_within


def words(state: State, hosts: int) -> str:
    """Which slots are cold, in words."""
    known = state.catalog.ring
    asked, fresh = state.cold & state.serving & ~state.fresh & hosts, state.fresh & hosts
    parts = [
        (known.empty, "served by nobody"),
        (fresh.bit_count() + len(known.fresh), "taken by a server that is not known to be warm"),
        (asked.bit_count(), "whose server was asked to change"),
    ]
    return ", ".join(f"{count} {what}" for count, what in parts if count)
