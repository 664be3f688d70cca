"""Who has left between two listings of a service; and what a plan allows of it."""

from dataclasses import replace

import pytest
from plan_builders import CHANGE, NEW, OLD, amount, found, hosts, policy, request

from guardrail.decide.budget import stretches
from guardrail.decide.departures import Follower, not_serving
from guardrail.decide.found import Seen
from guardrail.decide.plan import course_of, make_plan
from guardrail.model.budget import ChurnLimit, Listed, Listing
from guardrail.model.fleet import ConsulInventory, Fleet
from guardrail.model.policy import Churn


def listing(index, **nodes):
    return Listing(index, {name: Listed(created) for name, created in nodes.items()})


def taken(*listings, fleet=("a", "b"), **known):
    follower = Follower(fleet, **known)
    return [follower.take(one) for one in listings]


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, ()),
        ({"a": 1, "b": 2}, {"a": 1}, ("b",)),
        ({"a": 1, "b": 2}, {}, ("a", "b")),
        ({"a": 1}, {"a": 1, "b": 12}, ()),  # b is new, or back
        ({"a": 1, "b": 2}, {"a": 1, "b": 12}, ("b",)),  # away and back between two looks
        ({"a": 1, "b": 2, "spare": 3}, {"a": 1, "b": 2}, ("spare",)),  # of no plan, and counted
    ],
)
def test_who_left_between_two_listings(before, after, left):
    first, second = listing(10, **before), listing(13, **after)
    assert taken(first, second, fleet=tuple(before))[1] == left


def test_back_is_no_departure_and_away_again_is_one():
    there, gone, back = listing(10, a=1, b=2), listing(11, a=1), listing(12, a=1, b=12)
    assert taken(there, gone, back, listing(13, a=1)) == [(), ("b",), (), ("b",)]


def test_a_host_of_the_plan_that_is_gone_at_the_first_look_has_left():
    assert taken(listing(10, a=1)) == [("b",)]


def test_a_later_watch_sees_who_left_and_came_back_while_nobody_looked():
    assert taken(listing(20, a=1, b=15), index=10) == [("b",)]
    assert taken(listing(20, a=1, b=9), index=10) == [()]
    assert taken(listing(20, a=1), index=10) == [("b",)]


def test_who_was_told_to_be_gone_is_not_told_again_by_a_later_watch():
    assert taken(listing(20, a=1), index=10, missing=("b",)) == [()]
    assert taken(listing(20, a=1, b=15), index=10, missing=("b",)) == [()]


def test_a_catalog_that_counts_anew_has_not_lost_everybody():
    """Its servers were set up again: every entry is new, and every number lower than before."""
    assert taken(listing(900, a=1, b=2), listing(7, a=3, b=4)) == [(), ()]


def test_hosts_that_do_not_serve():
    nodes = {"a": Listed(1), "b": Listed(1, ("serfHealth is critical",))}
    assert not_serving(Listing(5, nodes), {"a": 0, "b": 1, "c": 2}) == 0b110


# ---------------------------------------------------------------- in the plan


def test_stretches():
    assert stretches([True, True, False, True]) == ((0, 2), (3, 4))
    assert stretches([]) == stretches([False]) == ()


CONSUL = Fleet("cache", ConsulInventory("http://127.0.0.1:8500", "memcached"))


def planned(*, change=CHANGE, fleet=CONSUL, leaves="yes", **more):
    known = hosts(4)
    limits = {"churn": Churn(6, 600.0)}
    seen = {host.name: Seen(OLD, OLD, leaves=leaves) for host in known}
    seen["cache-002"] = Seen(OLD, OLD, leaves="no")
    asked = replace(request(), fleet=fleet)
    facts = found(known, policies=(policy(limits=limits),), change=change, seen=seen, **more)
    return make_plan(asked, facts, now=1000.0)


def test_the_plan_says_who_leaves_and_how_many_may():
    plan = planned()
    assert plan.refusals == ()
    assert plan.budget.follow
    assert [limit.departures for limit in plan.budget.churn] == [6]
    assert plan.budget.leaving == ((0, 1), (2, 4))
    (row,) = [limit for limit in plan.limits if limit.name == "churn"]
    assert (row.written, row.value, row.unit) == ("6 per 600 s", 6.0, "nodes")
    course = course_of(plan, "sha256:x")
    assert course.budget == plan.budget
    assert isinstance(course.budget.churn[0], ChurnLimit)


def test_a_change_that_keeps_nodes_registered_takes_none_away():
    assert planned(change=replace(CHANGE, keeps_registered=True)).budget.leaving == ()


def test_what_an_agent_does_not_say_counts_as_leaving():
    assert planned(leaves="unknown").budget.leaving == ((0, 1), (2, 4))
    assert planned(leaves="").budget.leaving == ()


def test_the_finish_time_knows_what_may_leave_and_be_cold():
    def seconds(known, **limits):
        seen = {host.name: Seen(OLD, OLD, leaves="yes") for host in known}
        wide = {"unavailable": amount(9), "unavailable_per_domain": amount(9)}
        said = policy(limits=wide | limits, bake_for=60.0)
        asked = replace(request("100%"), fleet=CONSUL)
        made = make_plan(asked, found(known, policies=(said,), seen=seen), now=1.0)
        return made.seconds_expected - made.bake_for

    nine = hosts(9)
    assert seconds(nine) == 10
    assert seconds(nine, churn=Churn(3, 600.0)) == 2 * 660 + 10
    assert seconds(nine, cold_capacity=amount(2)) == 4 * 70 + 10


def test_a_gate_that_is_called_catalog_is_refused():
    asked = replace(request(gates=("catalog",)), fleet=CONSUL)
    plan = make_plan(asked, found(hosts(2), gates=("catalog",)), now=1.0)
    assert [why for why in plan.refusals if "rename it" in why]


def test_churn_that_nobody_can_count_refuses_the_plan():
    plan = planned(fleet=Fleet("cache", request().fleet.inventory))
    (why,) = [reason for reason in plan.refusals if "churn" in reason]
    assert "6 per 600 s" in why
    assert "Consul" in why
    assert not plan.budget.follow


def test_a_host_at_the_new_version_is_in_no_stretch():
    seen = {"cache-001": Seen(NEW, NEW, leaves="yes")}
    plan = make_plan(replace(request(), fleet=CONSUL), found(hosts(3), seen=seen), now=1.0)
    assert len(plan.hosts) == 2
    assert plan.budget.leaving == ()
