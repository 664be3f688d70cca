"""The worker's policies are read again before each wave, on a real server: stricter applies, and
policies that cannot be read hold."""

import asyncio
import time
from dataclasses import replace

import pytest
from test_rollout import course

from guardrail.files import parse
from guardrail.model.budget import WarmRule
from guardrail.model.common import Origin
from guardrail.model.plan import Caps, TierWave
from guardrail.twins import as_planned

from engine import World, operation, stands

pytestmark = pytest.mark.temporal


OWN = """
apiVersion: guardrail/v1
kind: Policy
metadata: {name: own, owners: [ann]}
spec:
  match: {roles: [memcached]}
  limits: {unavailable: 5%, churn: {departures: 6, per: 10m}}
  windows:
    timezone: America/Los_Angeles
    deny: [{days: mon-fri, from: "05:30", to: "10:00", settleBefore: 30m, reason: peak}]
"""


def asking(*ends, **fields):
    return replace(course(*ends, **fields), merges=True)


@pytest.mark.asyncio(loop_scope="module")
async def test_policies_are_merged_before_each_wave(server):
    world = World(asking(1, 3, 5), server.client)
    async with operation(server.client, world) as op:
        end = await op.handle.result()
        assert (end.phase, end.changed) == ("completed", 5)
        assert world.merges == 3


@pytest.mark.asyncio(loop_scope="module")
async def test_the_callers_own_policies_are_merged_each_time_too(server):
    own = parse(OWN, "own.yaml").policies
    world = World(asking(1, 3), server.client)
    async with operation(server.client, world, policies=own, run_events=30) as op:
        await op.handle.result()
    assert world.added == [own] * world.merges != []


@pytest.mark.asyncio(loop_scope="module")
async def test_policies_that_cannot_be_read_hold_until_they_can(server):
    world = World(asking(1, 3), server.client, policies="policies/base.yaml:3:1: unknown key `x`")
    async with operation(server.client, world) as op:
        status = await op.until(stands("policy"))
        assert not world.begun
        (hold,) = [hold for hold in status.holds if hold.name == "policy"]
        assert "policies/base.yaml:3:1: unknown key `x`" in hold.reasons[0]
        world.policies = None
        end = await op.handle.result()
        assert (end.phase, end.changed) == ("completed", 3)


@pytest.mark.asyncio(loop_scope="module")
async def test_what_became_stricter_applies_also_in_the_next_run(server):
    plan = asking(1, 3, 6, unavailable=3)
    strict = replace(as_planned(plan, time.time()), caps=Caps(1, 1, 3, 0), wave=1)
    world = World(plan, server.client, policies=strict, takes=0.05)
    async with operation(server.client, world, run_events=40) as op:
        end = await op.handle.result()
        assert (end.phase, end.changed) == ("completed", 6)
        assert [(wave.begin, wave.end) for wave in end.waves] == [(n, n + 1) for n in range(6)]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_smaller_wave_of_a_tier_and_a_stricter_warm_up_reach_the_hosts(server):
    plan = asking(1, 5, unavailable=3)
    origin = Origin("policy cache", "cache.yaml", 8)
    world = World(plan, server.client, takes=0.05, hang=asyncio.Event())
    async with operation(server.client, world, run_events=40) as op:
        await op.until(lambda s: bool(s.in_flight))
        world.policies = replace(
            as_planned(plan, time.time()),
            tiers=(TierWave("memcached", 1, "1e", origin),),
            warm=(WarmRule("cache-warm", 60.0, ((0, 3),), origin, "sha256:w"),),
        )
        world.hang.set()
        end = await op.handle.result()
        assert (end.phase, end.changed) == ("completed", 5)
        assert [(wave.begin, wave.end) for wave in end.waves] == [(n, n + 1) for n in range(5)]
    assert world.warmed["host-000"] == (), "it was asked before"
    assert [rule.within for rule in world.warmed["host-002"]] == [60.0]
    assert world.warmed["host-004"] == (), "the policy is not about it"
