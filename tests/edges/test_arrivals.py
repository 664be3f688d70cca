"""Hosts that came since a plan was made are found by name; silence is no news."""

from dataclasses import replace

import pytest
from decide import plan_builders as pb

from guardrail.errors import Refused
from guardrail.model.fleet import ConsulInventory
from guardrail.twins import TwinInventory
from guardrail_workflows.arrivals import MOST_NAMED, arrived


def consul(plan):
    where = replace(plan.where, inventory=ConsulInventory("http://127.0.0.1:8500", "memcached"))
    return replace(plan, where=where)


FLEET = pb.hosts(4)


async def test_hosts_that_the_plan_has_or_leaves_out_are_no_arrivals():
    down = (replace(FLEET[0], down=True), *FLEET[1:])
    roomy = pb.policy("p", limits={"unavailable": pb.amount(3)})
    plan = consul(pb.plan(down, policies=(roomy,)))
    assert (await arrived(plan, TwinInventory(FLEET))).names == ()


async def test_hosts_that_came_are_named_in_order():
    more = (*FLEET[1:], *pb.hosts(2, prefix="new"))
    assert (await arrived(consul(pb.plan(FLEET)), TwinInventory(more))).names == (
        "new-001",
        "new-002",
    )


async def test_very_many_are_counted():
    found = await arrived(
        consul(pb.plan(FLEET)), TwinInventory(pb.hosts(MOST_NAMED + 9, prefix="n"))
    )
    assert (len(found.names), found.others) == (MOST_NAMED, 9)


async def test_a_listed_fleet_has_what_it_had():
    assert (await arrived(pb.plan(FLEET), TwinInventory(pb.hosts(9)))).names == ()


async def test_a_filtered_inventory_is_no_answer():
    with pytest.raises(Refused):
        await arrived(consul(pb.plan(FLEET)), TwinInventory(FLEET, filtered=True))
