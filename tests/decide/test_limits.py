"""Which host may be begun now: tables of limits and what they leave room for."""

from collections import Counter
from dataclasses import replace
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide import limits
from guardrail.decide.bits import bit, has, members, span
from guardrail.decide.explain import domain_counts
from guardrail.model.operation import Flight, State
from guardrail.model.plan import Caps

from builders import course


def state(*, caps, domains=(0, 0, 1, 1, 2, 2), down=None, flying=(), unknown=0, failed=0, **more):
    hosts = len(domains)
    plan = course(hosts, caps=caps, domains=domains, down=down)
    flights = tuple(Flight(index, turn + 1, 0.0) for turn, index in enumerate(flying))
    taken = unknown | failed | sum(bit(index) for index in flying)
    return State(plan, "x", "running", in_flight=flights, unknown=unknown, failed=failed,
                 waiting=span(0, hosts) & ~taken, **more)  # fmt: skip


@pytest.mark.parametrize(
    ("caps", "down", "flying", "unknown", "failed", "next_"),
    [
        # hosts:   a a b b c c      (plan indexes 0 to 5, domains 0 to 2)
        (Caps(1, 1, 1, 0), None, (), 0, 0, 0),
        (Caps(1, 1, 1, 0), None, (0,), 0, 0, None),
        (Caps(2, 1, 3, 0), None, (0,), 0, 0, 2),  # a is full, b has room
        (Caps(2, 2, 3, 0), None, (0,), 0, 0, 1),
        (Caps(3, 1, 1, 0), None, (0,), 0, 0, None),  # one domain at once, and it is full
        (Caps(3, 2, 1, 0), None, (2,), 0, 0, 3),  # one domain at once: stay in b
        (Caps(3, 1, 2, 0), None, (0, 2), 0, 0, None),
        (Caps(2, 2, 3, 0), (1, 0, 0), (), 0, 0, 0),  # one down leaves room for one
        (Caps(2, 2, 3, 0), (1, 0, 0), (0,), 0, 0, None),
        (Caps(3, 1, 3, 0), (1, 0, 0), (), 0, 0, 2),  # a has one down already
        (Caps(1, 1, 1, 0), None, (), 0b1, 0, None),  # unknown keeps its place
        (Caps(1, 1, 1, 0), None, (), 0, 0b1, None),  # failed keeps its place
        (Caps(2, 1, 3, 0), None, (), 0b1, 0, 2),
        (Caps(2, 2, 1, 0), None, (), 0b100, 0, 3),
        (Caps(6, 2, 1, 0), None, (0, 2), 0, 0, None),  # became stricter: too many domains already
    ],
)
def test_the_next_host(caps, down, flying, unknown, failed, next_):  # noqa: PLR0917
    now = state(caps=caps, down=down, flying=flying, unknown=unknown, failed=failed)
    assert limits.next_host(now) == next_


@pytest.mark.parametrize(
    ("cap", "down", "most"),
    [(1, 0, 1), (2, 0, 1), (4, 0, 2), (5, 0, 2), (4, 2, 3), (4, 3, 4), (2, 2, 2), (1, 3, 1)],
)
def test_going_slowly_halves_our_own_part_and_leaves_one(cap, down, most):
    slow = state(caps=Caps(cap, cap, 3, 0), down=(down, 0, 0), slowed=True)
    assert limits.most_away(slow) == most


@pytest.mark.parametrize(
    ("failed", "blocked", "row", "why"),
    [
        (0b1, 0, 1, None),
        (0b11, 0, 0, "2 failed, 1 allowed"),
        (0b1, 0b10, 0, "2 failed, 1 allowed"),
        (0b1, 0, 3, "3 failed one after another, 2 allowed"),
        (0b1, 0, 2, None),
    ],
)
def test_failures(failed, blocked, row, why):
    now = state(caps=Caps(9, 9, 3, 1, failures_consecutive=2), failed=failed)
    assert limits.too_many_failures(replace(now, blocked=blocked, consecutive_failures=row)) == why


@pytest.mark.parametrize(
    ("share", "hosts", "allowed"),
    [
        (None, 7, 7), (0.0, 9, 0), (0.02, 1, 0), (0.02, 49, 0), (0.02, 50, 1), (0.02, 99, 1),
        (0.02, 750, 15), (0.29, 100, 29), (0.33, 3, 0), (0.34, 3, 1), (0.5, 1, 0), (1.0, 1, 1),
    ],
)  # fmt: skip
def test_how_many_of_so_many_hosts_may_fail(share, hosts, allowed):
    assert limits.allowed_of(share, hosts) == allowed


SHARED = Caps(9, 9, 3, 3, failures_share=0.25)


@pytest.mark.parametrize(
    ("wave", "failed", "why"),
    [
        (0, 0b1, "1 failed, 0 allowed (25% of the 1 host up to the end of this wave)"),
        (1, 0b10, None),
        (1, 0b11, "2 failed, 1 allowed (25% of the 6 hosts up to the end of this wave)"),
        (2, 0b111, None),
        (2, 0b1111, "4 failed, 3 allowed"),  # of all of them, as the plan has it
    ],
)
def test_a_share_of_failures_is_of_the_hosts_tried_by_the_end_of_the_wave(wave, failed, why):
    now = State(course(1, 6, 12, caps=SHARED), "op", phase="running", wave=wave, failed=failed)
    assert limits.too_many_failures(now) == why


@given(st.integers(0, 100), st.lists(st.integers(1, 40), min_size=1, max_size=4, unique=True),
       st.integers(0, 2**40 - 1), st.integers(0, 9))  # fmt: skip
def test_no_wave_goes_on_with_more_failures_than_its_share_of_the_hosts_so_far(
    share, ends, failed, most
):
    plan = course(*sorted(ends), caps=Caps(9, 9, 3, most, failures_share=share / 100))
    failed &= (1 << plan.hosts) - 1
    for number, wave in enumerate(plan.waves):
        now = State(plan, "op", phase="running", wave=number, failed=failed)
        few = failed.bit_count() * 100 <= share * wave.end and failed.bit_count() <= most
        assert (limits.too_many_failures(now) is None) == few


def test_a_failure_in_each_of_two_domains_keeps_both():
    now = state(caps=Caps(9, 9, 2, 9), failed=0b1, unknown=0b100)
    assert limits.away_by_domain(now) == Counter({0: 1, 1: 1})
    assert limits.away(now) == 2
    assert limits.next_host(now) == 1


@given(st.sets(st.integers(0, 400)))
def test_members_of_a_set(hosts):
    as_number = sum(bit(index) for index in hosts)
    assert list(members(as_number)) == sorted(hosts)
    assert all(has(as_number, index) for index in hosts)


def big(**more):
    """100,000 hosts ordered by domain, the first domain full of hosts away."""
    count = 100_000
    domains = tuple(index * 3 // count for index in range(count))
    return state(caps=Caps(100, 5, 3, 0), domains=domains, flying=range(5), **more)


def test_a_hundred_thousand_hosts_are_looked_at_in_a_moment():
    """It took 0.6 s an event; a workflow task may take two in all."""
    now = big()
    began = perf_counter()
    assert limits.next_host(now) == 33_334
    assert perf_counter() - began < 0.3


def test_hosts_by_domain_are_counted_in_one_pass():
    many = big()
    racks = tuple(index // 40 for index in range(100_000))
    plan = replace(many.course, domains=racks, down=(0,) * 2500)
    now = replace(many, course=plan, changed=span(40, 90), failed=bit(0), unknown=bit(1))
    began = perf_counter()
    counts = domain_counts(now)
    assert perf_counter() - began < 2.0
    assert [(c.total, c.changed, c.in_flight, c.failed, c.unknown) for c in counts[:3]] == [
        (40, 0, 5, 1, 1),
        (40, 40, 0, 0, 0),
        (40, 10, 0, 0, 0),
    ]
