"""Which hosts are known by name, when there is not room for the names of all?

An operation keeps hosts by number; names, outcomes and reasons are kept of those that did not
simply change, and of no more than a thousand: a state that grew with what goes wrong could not be
carried on any more. What is dropped is the last of those that are needed least:

    waits for a person under a hold, or is unknown      needed most: the hold speaks of it
    failed, or blocked for good                         a person retries or skips it
    waits to be asked again by itself                   its tries are counted
    set aside, or gone                                  only to be told

Nothing else depends on a name: a host without one keeps its place in every set and hold, counts in
every limit, and is taken along by `retry` without names.
"""

from guardrail.decide.bits import has
from guardrail.decide.evolve import replace
from guardrail.model.operation import Exceptional, State

MOST_NAMED = 1_000


def held_hosts(state: State) -> int:
    """The hosts that a hold is about."""
    held = 0
    for hold in state.holds:
        for index in hold.hosts:
            held |= 1 << index
    return held


def needy(state: State) -> int:
    """The hosts that wait for a person: to retry them, or to skip them."""
    return state.failed | state.unknown | state.blocked | held_hosts(state)


def named(state: State) -> int:
    """The hosts that are known by name."""
    return sum({1 << known.index for known in state.exceptional})


def unnamed(state: State) -> int:
    """The hosts that did not simply change, and are not known by name."""
    return (needy(state) | state.set_aside) & ~named(state)


def and_more(state: State) -> str:
    """How many those are, in words; empty: none."""
    count = unnamed(state).bit_count()
    return f"{count} more that {'is' if count == 1 else 'are'} not kept by name" if count else ""


def remember(state: State, known: Exceptional, *, held: bool = False) -> State:
    """The state that knows this of a host, and no more of it; the one needed least may go.

    held: a hold is about to be raised for it.
    """
    others = tuple(other for other in state.exceptional if other.index != known.index)
    kept = (*others, known)
    if len(kept) > MOST_NAMED:
        first = held_hosts(state) | state.unknown | (1 << known.index if held else 0)
        ranks = [(rank(state, first, each.index), place) for place, each in enumerate(kept)]
        _, last = max(ranks)
        kept = (*kept[:last], *kept[last + 1 :])
    return replace(state, exceptional=kept)


def rank(state: State, first: int, index: int) -> int:
    """How little the name of a host is needed, 0 to 3. first: the hosts that come first."""
    if has(first, index):
        return 0
    if has(state.failed | state.blocked, index):
        return 1
    return 3 if has(state.set_aside, index) else 2
