"""Is it the new version itself that keeps hosts leaving the catalog?

Going back restarts the same agents, so it waits until the system has recovered. Where the version
is what keeps the system from recovering, that wait would never end. So it is the second exception
of the rules (the first: health gates never block going back):

    when     nothing of ours is in flight, and since the last answer hosts at the new version have
             left by themselves, more of them than chance would pick from the plan's hosts
    then     safety gates do not bind, and what the version's own hosts do to the budget of
             departures and to the hosts that are down does not stand in the way of leaving it
    still    every other limit, the catalog itself, freezes, people; and a pace of its own, at
             which going back makes fewer hosts cold at a time than the version does now
"""

import dataclasses
from collections.abc import Sequence
from math import comb

from guardrail.decide import found
from guardrail.decide.bits import has
from guardrail.decide.evolve import replace
from guardrail.model.budget import Departure
from guardrail.model.operation import State

ONE_IN = 100
"""Chance picks that many of the hosts that left from those at the new version once in so many."""
LEAST = 3
"""Hosts at the new version that must have left: of fewer none can be fewer, and one is a host's
own fault."""
SETTLES = 2.0
"""Seconds after the last answer in which a departure may still be our doing."""
WITHIN = 300.0
"""Seconds before the newest departure for which others are looked at with it."""
COLD_FOR = 60.0
"""Seconds for which a host that left counts as cold, at least; else as long as a bake."""


def touched(state: State) -> int:
    """The hosts that are, or may be, no longer at the former version."""
    return state.changed | state.failed | state.unknown | state.tried


# ---------------------------------------------------------------- what is known


def by_themselves(state: State) -> tuple[Departure, ...]:
    """Departures of the plan's hosts since the last answer that nobody of ours asked for."""
    since = state.answered_at
    if since is None or state.in_flight:
        return ()
    mine = [d for d in state.catalog.departures if d.seen and not d.turn and d.index >= 0]
    newest = max((d.at for d in mine), default=0.0)
    return tuple(d for d in mine if d.at > max(since + SETTLES, newest - WITHIN))


def is_the_version(state: State) -> bool:
    """Whether hosts at the new version leave more than chance would have it.

    Each host counts once, however often it left: one broken host is not a bad version. The chance
    is exact: of all hosts so many have left, and no fewer of them than this are at the new version
    (the upper tail of the hypergeometric distribution, as in Fisher's exact test).
    """
    left = {one.index for one in by_themselves(state)}
    new = touched(state)
    ours, hosts, changed = sum(has(new, i) for i in left), state.course.hosts, new.bit_count()
    if ours < LEAST:
        return False
    ways = sum(
        comb(changed, k) * comb(hosts - changed, len(left) - k)
        for k in range(ours, min(changed, len(left)) + 1)
    )
    return ways * ONE_IN <= comb(hosts, len(left))


def cold_for(state: State) -> float:
    """Seconds for which a host that left counts as cold."""
    gates = (rule.good_for for rule in state.course.gates if rule.gate_class == "safety")
    return max(COLD_FOR, state.course.bake_for, *gates)


def cold_now(state: State, now: float) -> int:
    """How many hosts at the new version are cold because they left by themselves."""
    new, since = touched(state), now - cold_for(state)
    return len({d.index for d in by_themselves(state) if d.at > since and has(new, d.index)})


def gap(state: State, now: float) -> float | None:
    """Seconds between two hosts that go back before recovery; None: it would not be better.

    Any stretch of `cold_for` seconds then has one beginning less than hosts are cold now.
    """
    cold = cold_now(state, now)
    if cold < LEAST or not is_the_version(state):
        return None
    return cold_for(state) / (cold - 2)


# ---------------------------------------------------------------- what follows


def why(state: State, now: float) -> str:
    """What speaks against the version itself."""
    new = touched(state)
    left = {one.index for one in by_themselves(state)}
    ours = sum(has(new, index) for index in left)
    others = state.course.hosts - new.bit_count()
    hosts = found.counted(new.bit_count(), "changed host")
    return (
        f"{ours} of {hosts} left the catalog by themselves, and "
        f"{len(left) - ours} of {others} others; {cold_now(state, now)} are cold now"
    )


def own_doing(state: State) -> int:
    """The hosts whose leaving and falling does not stand in the way: the version's own."""
    return touched(state) if state.back_gap is not None else 0


def counted(state: State) -> Sequence[Departure]:
    """The departures that count against the budget."""
    left, own = state.catalog.departures, own_doing(state)
    if not own:
        return left
    return [d for d in left if d.turn or not d.seen or d.index < 0 or not has(own, d.index)]


def came_back(state: State, index: int) -> State:
    """A host has left the version behind, and with it what it did at that version."""
    if state.back_gap is None:
        return state
    kept = tuple(d for d in state.catalog.departures if d.turn or not d.seen or d.index != index)
    return replace(state, catalog=dataclasses.replace(state.catalog, departures=kept))
