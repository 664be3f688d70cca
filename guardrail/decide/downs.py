"""Which hosts are newly down, and is that a reason to stop?

A host is down when its node is not in the catalog, or has a critical check there, and we have
neither asked it to change nor had a bad answer from it: those are away, which counts already. Down
before the plan was made is in the plan, and counts until the catalog shows it serving again. What
is down counts against the limits as it is now.

    cache-critical                             holds at once
    changed by this operation within 30 min    holds at once
    any other                                  holds when as many went down within an hour as would
                                               by chance once in a thousand hours (`Budget.falls`)

The catalog is seen later than the host itself answers: for seconds after a good answer an older
view of it is not believed (the watch tells again what it has told).
"""

import dataclasses

from guardrail.decide.bits import bit, has, members, union
from guardrail.decide.churning import own_doing
from guardrail.decide.evolve import replace
from guardrail.model.budget import Fallen
from guardrail.model.operation import FleetSeen, HostAnswered, State

HOUR = 3600.0
LATELY = 1800.0
"""Seconds for which a host counts as changed lately, at least; at most twice that."""
SETTLES = 2.0
"""Seconds after a host's good answer in which a view of the catalog may be older than that."""
MOST_FALLEN = 300
MOST_SETTLED = 200
"""So many are remembered by name; of more, the newest."""


# ---------------------------------------------------------------- who is down


def newly(state: State) -> int:
    """The set of the plan's hosts that are down, and neither away nor given up by a person."""
    if not state.down_now:
        return 0
    ours = state.flying | state.unknown | state.failed | state.astray | state.set_aside
    return state.down_now & ~ours


def before(state: State) -> tuple[int, ...]:
    """How many hosts of each domain were down before the operation and are so still: all of them
    while the catalog does not say otherwise."""
    still = state.catalog.still
    return state.course.down if still is None else still


def total(state: State) -> int:
    """How many hosts are down: before the operation, and newly."""
    return sum(before(state)) + newly(state).bit_count()


def of_domain(state: State, domain: int) -> int:
    """The same of one failure domain."""
    count, fresh, domains = before(state)[domain], newly(state), state.course.domains
    if not fresh:
        return count
    return count + sum(1 for index in members(fresh) if domains[index] == domain)


def alarming(state: State) -> int:
    """Those of the newly down that hold at once, unless a person has gone on without them."""
    down = newly(state)
    if down:
        down &= ~state.down_accepted & ~own_doing(state)
    if not down:
        return 0
    hot = union(state.course.budget.critical) | state.lately | state.lately_before
    return down & hot


def falls(state: State, now: float) -> tuple[Fallen, ...]:
    """The hosts that went down within the last hour by themselves."""
    recent = [one for one in state.catalog.fallen if one.at > now - HOUR and not one.ours]
    own = own_doing(state) if recent else 0
    return tuple([one for one in recent if not has(own, one.index)])


def too_many(state: State, now: float) -> bool:
    """Whether more hosts went down than chance would have it."""
    most = state.course.budget.falls
    return bool(most and state.catalog.fallen) and len(falls(state, now)) >= most


# ---------------------------------------------------------------- what happens


def seen(state: State, event: FleetSeen) -> State:
    """What the catalog shows now, but for hosts that have answered well since."""
    settled = tuple([one for one in state.catalog.settled if event.at <= one[1] + SETTLES])
    down = int(event.down, 16)
    for index, _ in settled:
        down &= ~bit(index)
    fallen, catalog = _fallen(state, event, down), state.catalog
    if settled != catalog.settled or fallen != catalog.fallen:
        catalog = dataclasses.replace(catalog, settled=settled, fallen=fallen)
    accepted = state.down_accepted & down
    return replace(state, down_now=down, down_accepted=accepted, catalog=catalog)


def _fallen(state: State, event: FleetSeen, down: int) -> tuple[Fallen, ...]:
    """Those of the last hour, those that are down still, and the new ones."""
    if not event.fallen and not state.catalog.fallen:
        return ()
    here = replace(state, down_now=down)
    mine = down & ~newly(here)
    fresh = [
        dataclasses.replace(one, ours=bool(mine >> one.index & 1))
        for one in event.fallen
        if down >> one.index & 1
    ]
    again = {one.index for one in fresh}
    old = [
        one
        for one in state.catalog.fallen
        if (one.at > event.at - HOUR or down >> one.index & 1)
        and (one.index not in again or one.at > event.at - HOUR)
    ]
    return tuple([*old, *fresh][-MOST_FALLEN:])


def answered(state: State, event: HostAnswered) -> State:
    """A host that answered well serves, and was changed lately."""
    if event.outcome != "changed" or not state.course.budget.follow:
        return state
    catalog, index = state.catalog, event.index
    lately, before = state.lately, state.lately_before
    if event.at - catalog.turned_over > LATELY:
        lately, before = 0, lately
        catalog = dataclasses.replace(catalog, turned_over=event.at)
    kept = [one for one in catalog.settled if one[0] != index and event.at <= one[1] + SETTLES]
    settled = (*kept, (index, event.at))[-MOST_SETTLED:]
    return replace(
        state,
        lately=lately | bit(index),
        lately_before=before,
        down_now=state.down_now & ~bit(index),
        catalog=dataclasses.replace(catalog, settled=settled),
    )


def accepted(state: State) -> State:
    """A person goes on without the hosts that are down now."""
    fallen = tuple(dataclasses.replace(one, ours=True) for one in state.catalog.fallen)
    return replace(
        state,
        down_accepted=state.down_accepted | newly(state),
        catalog=dataclasses.replace(state.catalog, fallen=fallen),
    )
