"""Hosts that go down while an operation runs: who holds it, who counts, and what ends it."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_builders import amount, found, hosts, policy, request
from told import Told

from guardrail.decide import downs, limits
from guardrail.decide.bits import bit
from guardrail.decide.budget import more_than_chance
from guardrail.decide.explain import advice
from guardrail.decide.plan import course_of, make_plan
from guardrail.decide.transition import may_begin
from guardrail.model.budget import Budget, Fallen
from guardrail.model.fleet import ConsulInventory, Fleet
from guardrail.model.operation import (
    Commanded,
    FleetSeen,
)
from guardrail.model.plan import Caps
from guardrail.model.policy import Match

from builders import course

T0 = 1_700_000_000.0
CONSUL = Fleet("cache", ConsulInventory("http://127.0.0.1:8500", "memcached"))


class Watching(Told):
    """With a catalog that shows which hosts are down."""

    def __init__(self, plan):
        super().__init__(plan, T0)
        self.judged(T0 + 1)
        self.down(T0 + 1)

    def down(self, at, *which):
        """The catalog shows these hosts down."""
        new = [index for index in which if not self.state.down_now >> index & 1]
        fallen = tuple(Fallen(at, i, f"host-{i:03d}", "not in the catalog") for i in new)
        shown = sum(bit(index) for index in which)
        turn = self.state.watch_turn
        return self(FleetSeen(at, turn, index=7, down=f"{shown:x}", fallen=fallen))


def usual(*ends, critical=(), falls=0, caps=None, **more):
    plan = course(*(ends or (12,)), caps=caps or Caps(2, 2, 3, 0), **more)
    return replace(plan, budget=Budget(follow=True, critical=critical, falls=falls))


def test_a_cache_critical_host_that_goes_down_holds_at_once():
    told = Watching(usual(critical=((8, 12),)))
    told.down(T0 + 2, 9)
    hold = told.state.hold("limit:down")
    assert hold.reasons == (
        "host-009 is down since 22:13:22Z: not in the catalog (cache-critical)",
    )
    assert not may_begin(told.state)
    assert advice(told.state)[1] == "guardrail rollout explain x"


def test_another_host_that_goes_down_counts_and_holds_nothing():
    told = Watching(usual(critical=((8, 12),)))
    assert told.asked == [0, 1]
    told.down(T0 + 2, 5)
    told.answer(T0 + 3, 0)
    assert told.holds == []
    assert told.asked == [0, 1], "one away and one down are two"
    told.answer(T0 + 4, 1)
    assert told.asked == [0, 1, 2]


def test_a_host_down_counts_in_its_domain():
    told = Watching(usual(caps=Caps(4, 1, 3, 0)))  # host i is of domain i % 3
    assert told.asked == [0, 1, 2]
    told.down(T0 + 2, 3)
    told.answer(T0 + 3, 0).answer(T0 + 3, 1)
    assert told.asked == [0, 1, 2, 4], "domain 0 has one down"
    assert downs.of_domain(told.state, 0) == 1


def test_a_changed_host_that_dies_holds_at_once():
    """NVSentinel#1764, the engine's part."""
    told = Watching(usual())
    told.answer(T0 + 5, 0)
    told.down(T0 + 30, 0)
    assert told.holds == ["limit:down"]
    assert "changed by this operation lately" in told.state.hold("limit:down").reasons[0]


def test_long_after_its_change_a_host_is_one_of_the_others():
    told = Watching(usual())
    told.answer(T0 + 5, 0)
    told.tick_until(T0 + 1000)
    for index in range(1, 4):
        told.answer(T0 + 4000 + index, told.state.in_flight[0].index)
    for index in range(4, 8):
        told.answer(T0 + 6000 + index, told.state.in_flight[0].index)
    told.down(T0 + 6100, 0)
    assert told.holds == []


def test_hosts_that_we_took_away_are_not_down():
    told = Watching(usual(critical=((0, 12),)))
    told.down(T0 + 2, 0, 1)
    assert told.holds == []
    assert limits.room(told.state) == 0
    told.answer(T0 + 9, 0)
    assert told.holds == []


def test_an_older_view_is_not_believed_of_a_host_that_has_just_answered():
    told = Watching(usual(critical=((0, 12),)))
    told.answer(T0 + 5, 0)
    told.down(T0 + 5.5, 0)
    assert told.holds == []
    told.down(T0 + 8.5, 0)  # the watch tells it again
    assert told.holds == ["limit:down"]


def test_the_hold_ends_when_they_serve_again_and_then_a_bake_comes_first():
    told = Watching(usual(critical=((0, 12),)))
    told.answer(T0 + 3, 0).answer(T0 + 3, 1)
    before = len(told.asked)
    told.down(T0 + 10, 9)
    for flight in told.state.in_flight:
        told.answer(T0 + 11, flight.index)
    told.tick_until(T0 + 60)
    assert len(told.asked) == before
    told.down(T0 + 61)
    assert told.holds == []
    told.tick_until(T0 + 90)
    assert len(told.asked) == before
    told.tick_until(T0 + 92)
    assert len(told.asked) > before


def test_a_person_may_go_on_without_a_host_that_stays_down_and_it_still_counts():
    told = Watching(usual(critical=((0, 12),)))
    told.answer(T0 + 3, 0).answer(T0 + 3, 1)
    told.down(T0 + 10, 9)
    told(Commanded(T0 + 20, "resume", "bob"))
    assert told.holds == []
    assert downs.total(told.state) == 1
    told.down(T0 + 30, 9, 10)
    assert told.holds == ["limit:down"], "another one"
    assert told.state.hold("limit:down").reasons[0].startswith("host-010")


def test_one_that_came_back_and_falls_again_holds_again():
    told = Watching(usual(critical=((0, 12),)))
    told.down(T0 + 10, 9)
    told(Commanded(T0 + 20, "resume", "bob"))
    told.down(T0 + 30)
    told.down(T0 + 40, 9)
    assert told.holds == ["limit:down"]


def test_more_than_chance_within_an_hour_hold():
    told = Watching(usual(falls=3, caps=Caps(9, 9, 3, 0), bake=5.0))
    told.down(T0 + 10, 9).down(T0 + 20, 9, 10)
    assert told.holds == []
    told.down(T0 + 30, 9, 10, 11)
    assert told.state.hold("limit:down").reasons == (
        (
            "3 hosts went down within an hour, 2 may by chance: host-009 at 22:13:30Z, host-010 "
            "at 22:13:40Z, host-011 at 22:13:50Z"
        ),
    )
    told.tick_until(T0 + 3609)
    assert told.holds == ["limit:down"]
    told.tick_until(T0 + 3611)
    assert told.holds == []


def test_hosts_that_fell_long_ago_and_are_down_still_are_no_news():
    told = Watching(usual(falls=2, caps=Caps(9, 9, 3, 0)))
    told.down(T0 + 10, 9)
    told.down(T0 + 5000, 9, 10)
    assert "limit:down" not in told.holds


def test_a_fall_ends_no_limit_when_it_turns_back():
    told = Watching(usual(critical=((8, 12),)))
    told.answer(T0 + 3, 0)
    told.down(T0 + 10, 9)
    told(Commanded(T0 + 20, "rollback", "bob"))
    assert told.holds == ["limit:down"]


# ---------------------------------------------------------------- the numbers


@pytest.mark.parametrize(
    ("fleet", "count"), [(1, 2), (30, 2), (32, 2), (33, 3), (288, 4), (3000, 13), (100_000, 178)]
)
def test_how_many_falls_an_hour_are_more_than_chance(fleet, count):
    assert more_than_chance(fleet / 720) == count


@given(st.floats(0.001, 50))
def test_more_than_chance_is_the_smallest_such_count(expected):
    def at_least(n):
        return 1 - sum(math.exp(-expected) * expected**k / math.factorial(k) for k in range(n))

    count = more_than_chance(expected)
    assert at_least(count) < 0.001 + 1e-9
    assert at_least(count - 1) >= 0.001 - 1e-9


# ---------------------------------------------------------------- NVSentinel#1764


def realistic(down, **limits_):
    known = hosts(288, domains="abc", down=down)
    wide = {"unavailable": amount("5%"), "unavailable_per_domain": 288, "domains_at_once": 3}
    wide["unavailable_per_domain"] = amount("100%")
    careful = policy(match=Match(roles=("memcached",)), cache_critical=True, limits=wide | limits_)
    asked = replace(request(), fleet=CONSUL)
    return make_plan(asked, found(known, policies=(careful,)), now=1000.0)


def test_twenty_of_288_down_exceed_five_per_cent_and_are_named():
    plan = realistic(20)
    (why,) = plan.refusals
    assert "20 of 288 hosts are down" in why
    assert "exceeds the limit of 14" in why
    assert all(f"cache-{n:03d}" in why for n in range(1, 21))
    assert "take them out of fleet cache" in why
    assert "override" in why
    assert [host.name for host in plan.excluded] == [f"cache-{n:03d}" for n in range(1, 21)]


def test_with_them_out_of_the_way_it_starts_and_the_first_changed_host_that_dies_holds_it():
    plan = realistic(3)
    assert plan.refusals == ()
    course_ = course_of(plan, "sha256:x")
    assert course_.budget.critical == ((0, 285),)
    bare = course(285, caps=course_.caps, domains=course_.domains, down=course_.down)
    told = Watching(replace(bare, budget=course_.budget))
    first = told.asked[0]
    told.answer(T0 + 9, first)
    told.down(T0 + 60, first)
    assert told.holds == ["limit:down"]
    asked = len(told.asked)
    told.tick_until(T0 + 10_000)
    assert len(told.asked) == asked
