"""Does each shipped policy and change decide what it is there for, on a fleet made up for it?"""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from decide.plan_builders import amount, hosts

from guardrail.decide.calendar import closed_at, expand, next_open
from guardrail.decide.found import Found, Seen, Watching
from guardrail.decide.merge import matches
from guardrail.decide.plan import make_plan
from guardrail.decide.steps import steps_for
from guardrail.files import load, shipped_policies
from guardrail.model.change import ChangeRef
from guardrail.model.fleet import ConsulInventory, Fleet, Host, Leading
from guardrail.model.messages import PlanRequest
from guardrail.model.rollout import Rollout

SHIPPED = load([shipped_policies()])
LOS_ANGELES = ZoneInfo("America/Los_Angeles")
OLD, NEW = "1.8.7", "1.8.8"
CONSUL = ConsulInventory("http://127.0.20.1:8500", "memcached")


def at(*when: int) -> float:
    """A wall time in Los Angeles, in seconds since the epoch."""
    return datetime(*when, tzinfo=LOS_ANGELES).timestamp()


NIGHT = at(2027, 3, 2, 20)  # a Tuesday


def planned(*names: str, fleet: tuple[Host, ...], stages=("1", "25%", "50%", "75%", "100%"),
            change="consul-agent", now=NIGHT, gates=("agent-health",), **fields):  # fmt: skip
    """The plan of these hosts under the shipped policies of these names (none: all of them)."""
    there = [p for p in SHIPPED.policies if not names or p.name in names]
    rollout = Rollout(
        "r",
        "cache",
        ChangeRef(change, OLD, NEW),
        tuple(amount(int(word) if word.isdigit() else word) for word in stages),
        gates=gates,
    )
    found = Found(
        hosts=fleet,
        seen={host.name: Seen(OLD, OLD, leaves="yes") for host in fleet if not host.down},
        change=SHIPPED.change(change),
        changes=tuple(one.name for one in SHIPPED.changes),
        policies=tuple(there),
        gates=SHIPPED.gates,
        watching={gate.name: Watching(1.0, 2.0) for gate in SHIPPED.gates},
        **fields,
    )
    return make_plan(PlanRequest("r", rollout, Fleet("cache", CONSUL), "ann"), found, now=now)


def limit(plan, name: str) -> tuple[float, str]:
    found = next(one for one in plan.limits if one.name == name)
    return found.value, Path(found.origin.file).name


CACHE = hosts(160, domains="abcd")


def test_every_policy_that_ships_is_one_that_is_tried_here() -> None:
    assert {policy.name for policy in SHIPPED.policies} == {
        "base",
        "cache-critical",
        "consul-agents",
        "consul-servers",
        "database-critical",
        "holiday-freeze",
    }
    assert {change.name for change in SHIPPED.changes} == {
        "consul-agent",
        "consul-agent-keep-registered",
        "node-exporter",
    }
    assert all(policy.owners and policy.description for policy in SHIPPED.policies)


def test_base_goes_a_few_at_a_time_in_one_domain_at_a_time() -> None:
    plan = planned("base", fleet=hosts(200, domains="abcd", roles=("web",)))
    assert plan.refusals == ()
    assert plan.caps.unavailable == 10
    assert (plan.caps.unavailable_per_domain, plan.caps.domains_at_once) == (2, 1)
    assert max(wave.end - wave.begin for wave in plan.waves) == 50
    assert plan.approvals == ()


def test_the_incident_as_policy_is_cut_into_waves_of_the_tiers_limit() -> None:
    """25 % at a time over 160 cache hosts: 40 restarts in a row tipped the system over."""
    plan = planned(fleet=CACHE, stages=("25%", "50%", "75%", "100%"))
    assert plan.caps.unavailable == 1
    assert max(wave.end - wave.begin for wave in plan.waves) == 16
    assert limit(plan, "wave") == (16.0, "cache-critical.yaml")
    assert limit(plan, "pace.between") == (30.0, "cache-critical.yaml")
    gates = {gate.name for gate in plan.gates}
    assert gates == {"agent-health", "boot-success", "cache-hit-ratio", "database-margin"}
    assert [gate.recover_by for gate in plan.gates] == ["person"] * 4
    assert any("deregister 160 cache nodes" in warning for warning in plan.warnings)
    assert any("stage" in reason and "10%" in reason for reason in plan.refusals)


def test_cache_hosts_wait_for_a_person_at_the_start_and_at_a_tenth() -> None:
    plan = planned(fleet=CACHE, stages=("1", "10%", "50%", "100%"))
    assert plan.refusals == ()
    points = [(p.point, p.count, p.not_requester) for p in plan.approvals]
    assert points == [("start", 1, True), ("10%", 1, True)]


@pytest.mark.parametrize(
    ("when", "closed"),
    [
        ((2027, 3, 2, 4, 59), False),
        ((2027, 3, 2, 5, 0), True),  # half an hour before the peak
        ((2027, 3, 2, 9, 59), True),
        ((2027, 3, 2, 10, 0), False),
        ((2027, 3, 6, 7, 0), False),  # a Saturday
    ],
)
def test_nothing_begins_on_cache_hosts_in_the_daily_peak(when, closed) -> None:
    windows = SHIPPED.policy("cache-critical").windows
    calendar = expand((windows,), at(2027, 3, 1, 12))
    assert bool(closed_at(calendar, at(*when))) is closed


def test_a_twentieth_of_the_tier_may_be_cold_and_a_host_counts_until_it_is_warm() -> None:
    plan = planned(fleet=CACHE, stages=("10%", "100%"))
    assert limit(plan, "coldCapacity") == (8.0, "cache-critical.yaml")
    assert [(one.departures, one.per) for one in plan.budget.churn] == [(6, 600.0)]
    assert [(rule.gate, rule.within) for rule in plan.budget.warm] == [("cache-warm", 900.0)]
    assert "{host}" in SHIPPED.gate("cache-warm").query


def test_consul_agents_are_judged_by_their_own_health_on_every_host() -> None:
    plan = planned(
        "base", "consul-agents", fleet=hosts(60, domains="abc", roles=("web",)), gates=()
    )
    assert plan.refusals == ()
    assert {gate.name for gate in plan.gates} == {"agent-health", "boot-success"}
    assert limit(plan, "failures.consecutive") == (2.0, "consul-agents.yaml")
    other = [p.name for p in SHIPPED.policies if matches(p, "cache", "node-exporter", CACHE[0])]
    assert "consul-agents" not in other


@pytest.mark.parametrize("role", ["consul", "consul-server"])
def test_consul_servers_go_one_by_one_the_leader_last_while_they_can_lose_one(role) -> None:
    fleet = hosts(5, domains="abc", roles=(role,), prefix="consul")
    plan = planned(fleet=fleet, leading=Leading("consul-001"))
    assert plan.refusals == ()
    assert (plan.leader_last, plan.hosts[-1].name) == (True, "consul-001")
    assert any("who leads" in reason for reason in planned(fleet=fleet).refusals)
    assert [wave.end - wave.begin for wave in plan.waves] == [1] * 5
    assert (plan.caps.unavailable, plan.caps.failures, plan.caps.pace) == (1, 0, 60.0)
    assert "consul-autopilot" in {gate.name for gate in plan.gates}
    assert SHIPPED.gate("consul-autopilot").bound.holds(1)
    assert not SHIPPED.gate("consul-autopilot").bound.holds(0)


def test_hosts_of_the_database_go_one_by_one_and_never_back_by_themselves() -> None:
    plan = planned(
        fleet=hosts(8, domains="ab", roles=("mariadb",), prefix="db"), change="node-exporter"
    )
    assert plan.refusals == ()
    assert [wave.end - wave.begin for wave in plan.waves] == [1] * 8
    assert plan.rollback_when == "ask"
    assert limit(plan, "bake.for") == (900.0, "database-critical.yaml")


@pytest.mark.parametrize(
    ("when", "closed"),
    [
        ((2026, 12, 17, 22, 59), False),
        ((2026, 12, 17, 23, 0), True),
        ((2026, 12, 25, 12), True),
        ((2027, 1, 3, 23, 59), True),
        ((2027, 1, 4, 0, 0), False),
        ((2027, 12, 31, 12), True),
    ],
)
def test_over_the_holidays_nothing_begins_anywhere(when, closed) -> None:
    policy = SHIPPED.policy("holiday-freeze")
    nobody = replace(CACHE[0], roles=(), failure_domain="")
    assert matches(policy, "any", "any", nobody)
    calendar = expand((policy.windows,), at(*when) - 5 * 86_400)
    assert bool(closed_at(calendar, at(*when))) is closed


def test_a_freeze_says_why_and_until_when() -> None:
    policy = SHIPPED.policy("holiday-freeze")
    now = at(2026, 12, 24, 12)
    calendar = expand((policy.windows,), now)
    assert next_open(calendar, now) == at(2027, 1, 4)
    (closed,) = closed_at(calendar, now)
    assert calendar.rules[closed.by].reason == "holiday freeze"


# ---------------------------------------------------------------- changes


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("consul-agent", "systemctl restart consul"),
        ("consul-agent-keep-registered", "systemctl kill --signal=KILL consul"),
        ("node-exporter", "systemctl restart prometheus-node-exporter"),
    ],
)
def test_each_change_installs_the_version_it_is_asked_for_and_has_a_way_back(name, words) -> None:
    change = SHIPPED.change(name)
    forward = steps_for(change, "forward", OLD, NEW, "web-1")
    back = steps_for(change, "back", OLD, NEW, "web-1")
    assert any(words in " ".join(step) for step in forward.apply)
    assert any(f"{NEW}" in word for step in (*forward.prepare, *forward.apply) for word in step)
    assert any(f"{OLD}" in word for step in back.apply for word in step)
    assert not any(NEW in word for step in back.apply for word in step)
    assert change.obtainable is not None


def test_with_the_change_that_keeps_nodes_registered_nothing_leaves_the_catalog() -> None:
    plan = planned(fleet=CACHE, stages=("10%", "100%"), change="consul-agent-keep-registered")
    assert not any("deregister" in warning for warning in plan.warnings)
