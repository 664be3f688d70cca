"""What is known of the fleet's catalog, and may one more node leave it?

A departure counts against the budget from the moment its host is asked: it is expected then, and
seen once the catalog shows it. So two hosts asked within a second are two departures, though
neither has left yet, and a host that is restarted by a person is one, though nobody asked us.

    expected + seen + this one   must be within every limit before a host may be asked
    seen                         at a limit: a hold, until the oldest one is old enough
"""

import dataclasses
import math
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter

from guardrail.decide import churning, coldness, downs, ring
from guardrail.decide.bits import has, union
from guardrail.decide.evolve import replace
from guardrail.model.budget import Catalog, ChurnLimit, Departure
from guardrail.model.operation import FleetSeen, HostAnswered, State

KEPT = 100
"""Departures that are remembered beyond those that a limit counts, so that a hold can name them."""

HISTORY = 600.0
"""Seconds for which departures are remembered at least: a limit that a policy brings later counts
those before it."""

EXACT = 0.001
"""Seconds: what is over is over at its very end, whatever sums of floating numbers come to."""


def is_good(state: State) -> bool:
    """Whether the catalog answers, or nobody has to look at it."""
    catalog = state.catalog
    answers = catalog.told and catalog.silent_since is None
    return not state.course.budget.follow or (answers and not ring.missing(state))


# ---------------------------------------------------------------- the budget


def seen_within(state: State, limit: ChurnLimit, now: float) -> tuple[Departure, ...]:
    """The departures that the catalog has shown, within the limit's time."""
    return tuple([one for one in within(state, limit, now) if one.seen])


def within(state: State, limit: ChurnLimit, now: float) -> tuple[Departure, ...]:
    """Those that count against a limit now, expected ones too, oldest first.

    A host in flight may still leave, however long ago it was asked: it counts as if it left now.
    """
    left, since = churning.counted(state), now - limit.per + EXACT
    if not left or not state.in_flight:
        return tuple([one for one in left if one.at > since])
    turns = {flight.turn for flight in state.in_flight}
    counted = [_may_still(one, turns, now) for one in left]
    return _in_order([one for one in counted if one.at > since])


def _may_still(one: Departure, turns: Collection[int], now: float) -> Departure:
    return one if one.seen or one.turn not in turns else dataclasses.replace(one, at=now)


def room(state: State, now: float) -> int | None:
    """How many more hosts whose node leaves the catalog may be asked now; None: any number."""
    limits = state.course.budget.churn
    left = [limit.departures - len(within(state, limit, now)) for limit in limits]
    return min(left, default=None)


def leaving(state: State) -> int:
    """The set of hosts whose restart takes their node out of the catalog."""
    return union(state.course.budget.leaving)


def permitted(state: State, hosts: int, now: float) -> int:
    """Those of the hosts that the budget has room for now; all at the end of all times (infinity),
    since every budget has room again some time."""
    if math.isinf(now):
        return hosts
    hosts = coldness.permitted(state, hosts)
    left = room(state, now)
    return hosts if left is None or left > 0 else hosts & ~leaving(state)


def free_at(departures: Sequence[Departure], limit: ChurnLimit) -> float | None:
    """When there is room for one more; None: there is now. Oldest first."""
    over = len(departures) - limit.departures
    return departures[over].at + limit.per if over >= 0 else None


# ---------------------------------------------------------------- what happens


def watch_anew(state: State, at: float) -> State:
    """A new watch begins: what the catalog is like now has to be told again."""
    if not state.course.budget.follow:
        return state
    silent = state.catalog.silent_since
    anew = dataclasses.replace(
        state.catalog,
        told=False,
        silent_since=at if silent is None else silent,
        problem=state.catalog.problem or "the catalog was not read yet",
        good_since=None,
        still=None,
        ring=ring.anew(state.catalog.ring),
    )
    return replace(state, catalog=anew)


def asked(state: State, index: int, turn: int, now: float) -> State:
    """A host is asked: it is cold from now on, and its departure is expected, if it will leave and
    departures count."""
    state = coldness.asked(state, index)
    if not state.course.budget.churn or not has(leaving(state), index):
        return state
    one = Departure(now, f"host number {index}", index, turn, seen=False)
    return _with(state, state.catalog, (one,), now)


def answered(state: State, event: HostAnswered) -> State:
    """A host that was not restarted has not left: what was expected of it is taken back. Any other
    one left before it answered, if it left."""
    if event.outcome not in coldness.NOT_RESTARTED:
        state = downs.answered(state, event)
    state = coldness.answered(state, event)
    known = state.catalog.departures
    if not any(_expected_of(one, event.turn) for one in known):
        return state
    kept = (
        dataclasses.replace(one, at=event.at) if _expected_of(one, event.turn) else one
        for one in known
        if event.outcome not in coldness.NOT_RESTARTED or not _expected_of(one, event.turn)
    )
    return replace(state, catalog=dataclasses.replace(state.catalog, departures=_in_order(kept)))


def _expected_of(one: Departure, turn: int) -> bool:
    return not one.seen and one.turn == turn


def _in_order(departures: Iterable[Departure]) -> tuple[Departure, ...]:
    return tuple(sorted(departures, key=attrgetter("at")))


def seen(state: State, event: FleetSeen) -> State:
    """What the watch tells of the catalog. Nodes that left have left, whichever watch saw it."""
    catalog = state.catalog
    if event.left:
        state = _with(state, catalog, event.left, event.at)
    if event.turn != state.watch_turn:
        return state
    if event.problem:
        since = event.at if catalog.silent_since is None else catalog.silent_since
        known = dataclasses.replace(
            state.catalog, silent_since=since, problem=event.problem, good_since=None, still=None
        )
        return replace(state, catalog=known)
    good = event.at if catalog.good_since is None else catalog.good_since
    known = dataclasses.replace(
        state.catalog,
        told=True,
        silent_since=None,
        problem="",
        good_since=good,
        index=event.index,
        still=event.still,
    )
    return ring.seen(downs.seen(replace(state, catalog=known), event), event)


def _with(state: State, catalog: Catalog, new: Sequence[Departure], now: float) -> State:
    """With these departures, oldest first, and without those that no limit speaks of any more."""
    known = list(catalog.departures)
    for one in new:
        known = _joined(known, one)
    limits = state.course.budget.churn
    longest = max([HISTORY, *(limit.per for limit in limits)])
    most = max((limit.departures for limit in limits), default=0) + KEPT
    turns = {flight.turn for flight in state.in_flight}
    open_ones = [one for one in known if not one.seen and one.turn in turns]
    others = [one for one in known if one not in open_ones and one.at > now - longest]
    kept = _in_order([*open_ones, *_in_order(others)[-most:]])
    return replace(state, catalog=dataclasses.replace(catalog, departures=kept))


def _joined(known: list[Departure], one: Departure) -> list[Departure]:
    """One more departure: told twice it is one, and one that was expected is that one."""
    if any(other.seen and (other.host, other.at) == (one.host, one.at) for other in known):
        return known
    for place in reversed(range(len(known))):
        other = known[place]
        if one.seen and not other.seen and other.index == one.index:
            return [*known[:place], dataclasses.replace(one, turn=other.turn), *known[place + 1 :]]
    return [*known, one]
