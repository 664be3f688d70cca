"""May one more host be away now, and which one may it be?

A host counts as away from the moment it is asked to change until it has answered well or a
person has dealt with it: an unknown or failed host keeps its place. Hosts that were down before
the operation count as well. The limits are `Caps` of the plan, with overrides put in.
"""

import math
from collections import Counter
from collections.abc import Iterator

from guardrail.decide import catalog, downs
from guardrail.decide.bits import members, newest_first
from guardrail.decide.found import counted
from guardrail.decide.overrides import caps_now
from guardrail.model.common import Amount
from guardrail.model.operation import State

SLOWED = 2  # after a gate recovered by evidence alone: half the hosts, twice the gap


def away(state: State) -> int:
    """How many hosts this operation has taken away, or fears it has."""
    lost = not_serving(state)
    if not lost:
        return len(state.in_flight)  # without making a set: it is asked twice an event
    flying = sum(1 for flight in state.in_flight if not lost >> flight.index & 1)
    return flying + lost.bit_count()


def not_serving(state: State) -> int:
    """The hosts that answered badly, or not at all, and have not answered well since."""
    return state.unknown | state.failed | state.astray


def most_away(state: State) -> int:
    """How many hosts may be away and down together: the plan's limit, or what our lease leaves.

    Going slowly halves our own part of the limit (down hosts keep theirs), and leaves one host:
    halving the whole left no room at all beside a host that was down before.
    """
    cap, down = caps_now(state).unavailable, sum(downs.before(state))
    if state.lease is not None:
        cap = min(cap, down + state.lease.share.hosts)
    return down + max(1, (cap - down) // SLOWED) if state.slowed and cap > down else cap


def room(state: State) -> int:
    """How many more hosts may be begun now, by the limit over all hosts."""
    return most_away(state) - away(state) - downs.total(state)


def gap(state: State) -> float:
    """Seconds between two begins."""
    pace = caps_now(state).pace * (SLOWED if state.slowed else 1)
    return max(pace, state.back_gap or 0.0)


def next_begin_at(state: State) -> float | None:
    """The earliest time (seconds since the epoch) that the pace allows; None: at once."""
    if state.last_begin_at is None:
        return None
    pace = gap(state)
    return state.last_begin_at + pace if pace else None


def away_by_domain(state: State) -> Counter[int]:
    """Hosts away in each failure domain."""
    domains = state.course.domains
    counts = Counter([domains[flight.index] for flight in state.in_flight])
    if lost := not_serving(state):
        lost &= ~state.flying
        counts.update(domains[index] for index in members(lost))
    return counts


def rested(state: State, now: float) -> int:
    """The waiting hosts that may be asked now: not left alone for a while, and their nodes may
    leave the catalog."""
    resting = sum([1 << index for index, until in state.resting if until > now])
    return catalog.permitted(state, state.waiting & ~resting, now)


def next_host(state: State, now: float = math.inf) -> int | None:
    """The first waiting host, in plan order, that every limit has room for; None if none has.

    Going back the last one comes first. A host that is away already takes nothing more away.
    """
    if not state.waiting:
        return None
    if room(state) <= 0:
        return _first_astray(state, now)
    counts, domains = away_by_domain(state), state.course.domains
    asked = {domain: domain_has_room(state, counts, domain) for domain in sorted(counts)}
    if len(counts) >= domains_at_once(state) and not any(asked.values()):
        return _first_astray(state, now)  # found without looking at every waiting host
    for index in _in_order(state, rested(state, now)):
        if state.astray >> index & 1:
            return index
        domain = domains[index]
        if domain not in asked:
            asked[domain] = domain_has_room(state, counts, domain)
        if asked[domain]:
            return index
    return None


def _in_order(state: State, hosts: int) -> Iterator[int]:
    return members(hosts) if state.direction == "forward" else newest_first(hosts)


def _first_astray(state: State, now: float) -> int | None:
    """The first waiting host that is away already."""
    if not state.astray & state.waiting:
        return None
    return next(_in_order(state, rested(state, now) & state.astray), None)


def domain_has_room(state: State, counts: Counter[int], domain: int) -> bool:
    """Whether this failure domain may lose one more, and be one of those with hosts away."""
    taken, most = counts[domain] + downs.of_domain(state, domain), per_domain(state)
    ours = state.lease.share.per_domain if state.lease is not None else most
    others = sum(1 for other, count in counts.items() if count and other != domain)
    return taken < most and counts[domain] < ours and others < domains_at_once(state)


def per_domain(state: State) -> int:
    """How many hosts of one domain may be away and down together."""
    return caps_now(state).unavailable_per_domain


def domains_at_once(state: State) -> int:
    """In how many domains hosts may be away: the plan's limit, or what our lease leaves."""
    most = caps_now(state).domains_at_once
    return most if state.lease is None else min(most, state.lease.share.domains)


def too_many_failures(state: State) -> str | None:
    """Why failures are above their limit, in words; None while they are within it.

    Of a share as much is allowed as it is of the hosts that are tried by the end of this wave: of
    those tried so far the first one would be all of them, and of all hosts a share is used up only
    when hundreds have failed. Going back any failure of a host that is to go back is one too many.
    """
    count = (state.failed | state.blocked).bit_count()
    if not count and not state.consecutive_failures:
        return None  # no limit is below that
    caps = caps_now(state)
    if state.direction == "back":
        count = ((state.failed | state.blocked) & state.take_back).bit_count()
        return f"{count} failed on the way back, none is allowed" if count else None
    if count > caps.failures:
        return f"{count} failed, {caps.failures} allowed"
    reached = state.course.waves[state.wave].end
    if count > (most := allowed_of(caps.failures_share, reached)):
        share = f"{100 * (caps.failures_share or 0):.4g}%"
        of = f"{share} of the {counted(reached)} up to the end of this wave"
        return f"{count} failed, {most} allowed ({of})"
    row = caps.failures_consecutive
    if row is not None and state.consecutive_failures > row:
        return f"{state.consecutive_failures} failed one after another, {row} allowed"
    return None


def allowed_of(share: float | None, hosts: int) -> int:
    """How many of so many hosts may fail: rounded down, and none of a few; None: all."""
    return hosts if share is None else Amount(share * 100, percent=True).of(hosts, least=0)
