"""Cold hosts: how many may be at once, when one is warm again, and what a plan makes of it."""

from dataclasses import replace

import pytest
from plan_builders import amount, gate, hosts, percent, plan, policy
from told import Told

from guardrail.decide import coldness
from guardrail.decide.bits import members
from guardrail.decide.carry import pack, unpack
from guardrail.decide.plan import course_of
from guardrail.model.budget import Budget, ColdLimit, WarmRule
from guardrail.model.common import Origin
from guardrail.model.operation import Commanded
from guardrail.model.plan import Caps
from guardrail.model.policy import Match, WarmUp
from guardrail.simulation.world import through_json

from builders import course

ORIGIN = Origin("policy cache", "cache.yaml", 9)
T0 = 1000.0


class Cooling(Told):
    """With limits on how many hosts may be cold at once."""

    def __init__(self, *cold, warm=(), hosts=6, bake=30.0, failures=0):
        made = course(hosts, caps=Caps(9, 9, 3, failures), bake=bake)
        limits = tuple(ColdLimit(most, spans, ORIGIN) for most, spans in cold)
        rules = tuple(WarmRule("warm", 900.0, spans, ORIGIN) for spans in warm)
        budget = Budget(cold=limits, warm=rules)
        super().__init__(replace(made, budget=budget), T0)
        self.judged(T0 + 1)

    @property
    def cold(self):
        return list(members(self.state.cold))


ALL = ((0, 6),)


def test_no_more_hosts_are_asked_than_may_be_cold():
    told = Cooling((2, ALL))
    assert told.asked == [0, 1]
    assert told.cold == [0, 1]


def test_a_host_is_warm_once_its_work_has_ended_with_its_gate():
    told = Cooling((1, ALL), warm=(ALL,))
    told.answer(T0 + 100, 0)
    assert told.asked == [0, 1]
    assert told.cold == [1]


def test_without_such_a_gate_it_is_warm_after_a_bake_in_the_middle_of_the_wave():
    told = Cooling((2, ALL))
    told.answer(T0 + 5, 0)
    assert told.asked == [0, 1], "host 0 serves, and is cold"
    told.answer(T0 + 10, 1)
    assert told.state.step == "baking"
    assert told.holds == []
    told.tick_until(T0 + 39)
    assert told.asked == [0, 1]
    told.tick_until(T0 + 41)
    assert told.asked == [0, 1, 2, 3]
    assert told.cold == [2, 3]


def test_a_bake_that_is_not_good_warms_nobody():
    told = Cooling((2, ALL))
    told.answer(T0 + 5, 0).answer(T0 + 6, 1)
    told.judged(T0 + 20, "inconclusive")
    told.tick_until(T0 + 25)
    told.judged(T0 + 26)
    told.tick_until(T0 + 36)
    assert told.cold == [0, 1]
    told.tick_until(T0 + 60)
    assert told.asked == [0, 1, 2, 3]


def test_a_bake_of_no_seconds_goes_through():
    told = Cooling((1, ALL), bake=0.0)
    for index in range(6):
        told.answer(T0 + 10 + index, index)
    assert told.state.phase == "completed"
    assert told.asked == list(range(6))


def test_every_limit_holds_for_its_own_hosts():
    told = Cooling((1, ((0, 3),)), (2, ((3, 6),)))
    assert told.asked == [0, 3, 4]


def test_hosts_of_no_limit_are_passed_on_to():
    told = Cooling((1, ((0, 4),)))
    assert told.asked == [0, 4, 5]


@pytest.mark.parametrize("outcome", ["not_begun", "blocked", "credentials", "gone"])
def test_a_host_that_was_not_restarted_is_not_cold(outcome):
    told = Cooling((2, ALL))
    told.answer(T0 + 5, 0, outcome)
    assert 0 not in told.cold


def test_a_failed_host_stays_cold_until_a_person_deals_with_it_and_takes_no_more_when_retried():
    told = Cooling((1, ALL), failures=3)
    told.answer(T0 + 5, 0, "failed")
    assert told.holds == ["limit:coldCapacity"]
    hold = told.state.hold("limit:coldCapacity")
    assert hold.reasons == ("1 host is cold, 1 may be (policy cache (cache.yaml:9))",)
    told.tick_until(T0 + 300)
    assert told.asked == [0]
    told(Commanded(T0 + 301, "retry", "bob"))
    told.tick_until(T0 + 340)
    assert told.holds == []
    assert told.asked == [0, 0]
    assert told.cold == [0]


def test_a_skipped_host_is_warm_after_the_next_bake():
    told = Cooling((1, ALL), failures=3)
    told.answer(T0 + 5, 0, "failed")
    told(Commanded(T0 + 10, "skip", "bob"))
    told.tick_until(T0 + 50)
    assert told.asked == [0, 1]


def test_going_back_makes_hosts_cold_too():
    told = Cooling((1, ALL))
    told.answer(T0 + 5, 0)
    told(Commanded(T0 + 6, "rollback", "bob"))
    told.tick_until(T0 + 100)
    assert told.asked == [0, 0]
    assert told.cold == [0]


def test_who_is_cold_is_carried():
    told = Cooling((2, ALL))
    again = unpack(through_json(pack(told.state)), told.state.course)
    assert again.cold == told.state.cold == 0b11


def test_no_limit_no_cold_hosts():
    told = Cooling()
    assert told.asked == list(range(6))
    assert told.state.cold == 0
    assert not coldness.bake_helps(told.state)


# ---------------------------------------------------------------- in the plan

CACHE = Match(roles=("memcached",))
WARM = replace(gate("cache-warm"), query='memcached_warm{instance="{host}"}')


def mixed():
    return hosts(30) + hosts(90, roles=("web",), prefix="web")


def test_a_share_is_of_the_tier_and_of_its_hosts_only():
    p = policy(match=CACHE, limits={"cold_capacity": percent(5)})
    made = plan(mixed(), "100%", policies=(p,))
    (limit,) = made.budget.cold
    assert (limit.most, limit.hosts) == (1, ((0, 30),))
    (row,) = [one for one in made.limits if one.name == "coldCapacity"]
    assert (row.written, row.value) == ("5%", 1.0)


def test_the_time_to_be_warm_is_time_of_the_host():
    p = policy(match=CACHE, warm_up=WarmUp("margin", 900.0), limits={"wave": amount("100%")})
    made = plan(mixed(), "100%", policies=(p,))
    assert course_of(made, "x").host_timeout == made.host_timeout + 900
    (rule,) = made.budget.warm
    assert (rule.gate, rule.within, rule.hosts) == ("margin", 900.0, ((0, 30),))
    assert made.budget.warm_rules(29, 1) == (rule,)
    assert made.budget.warm_rules(30, 1) == ()


def test_a_gate_that_names_no_host_or_is_not_there_refuses_the_plan():
    p = policy(match=CACHE, warm_up=WarmUp("margin", 900.0))
    (why,) = plan(mixed(), "100%", policies=(p,)).refusals
    assert "write {host}" in why
    p = policy(match=CACHE, warm_up=WarmUp("no-such", 900.0))
    (why,) = plan(mixed(), "100%", policies=(p,)).refusals
    assert "gate no-such" in why
    assert "margin" in why
