"""Is what is really there asked for, all of it and politely, before anything is planned?"""

import asyncio
import re
from dataclasses import dataclass, field, replace

import pytest
from decide.plan_builders import CHANGE, NEW, OLD, amount, gate, hosts, policy, request

from guardrail.errors import Refused, Unanswered
from guardrail.files.documents import Documents
from guardrail.model.change import ConsulAgentProbe
from guardrail.model.gate import Age, GateEvidence, Reading, Source
from guardrail.model.policy import Failures
from guardrail.planning import each, plan_rollout
from guardrail.ports import BadCredentials, RestartEffect, Unreachable
from guardrail.twins import TwinHosts, TwinInventory, TwinMetrics

PROMETHEUS = Source("lab", "http://127.0.0.1:9090", timeout=1.5)
GOOD = Reading(0.3, None, 100.0, 99.0)
CRITICAL = policy("critical", cache_critical=True, required_gates=("margin",))


@dataclass
class World:
    """All ports of a plan, in memory."""

    fleet: tuple
    versions: dict = field(default_factory=dict)
    silent: set = field(default_factory=set)
    strangers: set = field(default_factory=set)
    leaves: dict = field(default_factory=dict)
    mute: set = field(default_factory=set)
    readings: dict = field(default_factory=lambda: {"q_margin": GOOD})
    policies: tuple = (CRITICAL,)
    gates: tuple = (gate(),)
    changes: tuple = (CHANGE,)
    sources: tuple = (PROMETHEUS,)
    filtered: bool = False
    lost: set = field(default_factory=set)
    asked: list = field(default_factory=list)
    wanted: list = field(default_factory=list)
    together: int = 0
    most_together: int = 0

    async def restart_effect(self, host):
        if host.name in self.mute:
            raise Unreachable("the agent does not answer")
        return RestartEffect(OLD, self.leaves.get(host.name, True), ("memcached",))

    async def installed(self, host, change):
        self.together += 1
        self.most_together = max(self.most_together, self.together)
        self.asked.append(host.name)
        try:
            await asyncio.sleep(0)
            if host.name in self.strangers:
                raise BadCredentials(f"{host.name} refuses our key")
            return await self.hosts.installed(host, change)
        finally:
            self.together -= 1

    async def running(self, host, change):
        return await self.hosts.running(host, change)

    async def obtainable(self, host, change, version):
        self.wanted.append((host.name, version))
        return await self.hosts.obtainable(host, change, version)

    @property
    def hosts(self):
        versions = {host.name: OLD for host in self.fleet} | self.versions
        return TwinHosts(versions, self.silent, lost=self.lost)

    async def plan(self, asked=None, **fields):
        documents = Documents(
            changes=self.changes,
            gates=self.gates,
            policies=self.policies,
            sources=self.sources,
        )
        return await plan_rollout(
            asked or request(),
            documents,
            TwinInventory(self.fleet, self.filtered),
            self,
            self,
            metrics_of=lambda _source: TwinMetrics(self.readings),
            now=1000.0,
            **fields,
        )


async def test_a_fleet_in_order_gets_a_plan_without_refusals():
    made = await World(hosts(30), leaves=dict.fromkeys(["cache-002"], False)).plan()
    assert made.refusals == ()
    assert [host.version_seen for host in made.hosts] == [OLD] * 30
    assert made.hosts[0].restart.startswith("SIGTERM deregisters cache-001 (memcached)")
    assert made.hosts[1].restart == "stays registered: leave_on_terminate is false"
    assert made.warnings == ("this change will deregister 29 cache nodes for about 5 s each",)
    assert (made.change.digest, made.created_at) == ("sha256:change", 1000.0)
    # 4 readings 2 s apart and the source's time-out: the scrape interval is the measured 1 s
    assert made.gates[0].first_within == 4 * 2.0 + 1.5


async def test_hosts_are_asked_a_few_at_a_time_each_once_and_progress_is_told():
    world, told = World(hosts(20)), []
    await world.plan(at_once=4, progress=lambda done, total: told.append((done, total)))
    assert world.most_together == 4
    assert sorted(world.asked) == [f"cache-{i:03d}" for i in range(1, 21)]
    assert told == [(done, 20) for done in range(1, 21)]


async def test_each_host_to_change_is_asked_whether_both_versions_can_be_had():
    world = World(hosts(3), versions={"cache-002": NEW})
    await world.plan()
    assert sorted(world.wanted) == [(f"cache-00{i}", v) for i in (1, 3) for v in (OLD, NEW)]


async def test_without_a_way_back_cache_critical_hosts_are_not_begun():
    made = await World(hosts(3), lost={OLD}).plan()
    (refusal,) = made.refusals
    assert refusal.startswith(f"no way back: {OLD} cannot be brought to 3 hosts: cache-001, ")
    assert f"(cache-001: the repository has no {OLD})" in refusal
    assert "these hosts are cache-critical" in refusal


async def test_a_version_that_nobody_has_is_refused():
    made = await World(hosts(2), lost={NEW}).plan()
    assert [r.partition(" to ")[0] for r in made.refusals] == [f"{NEW} cannot be brought"]


async def test_hosts_that_are_down_are_not_asked():
    world = World(hosts(4, down=1))
    made = await world.plan()
    assert "cache-001" not in world.asked
    assert [e.name for e in made.excluded] == ["cache-001"]


async def test_hosts_that_cannot_be_seen_are_named_with_the_reason_and_the_others_are_planned():
    world = World(hosts(4), silent={"cache-002"}, strangers={"cache-003"})
    made = await world.plan()
    (reason,) = made.refusals
    assert reason.startswith("2 hosts cannot be looked at")
    assert "cache-002 (cache-002 (127.0.20.2) does not answer)" in reason
    assert "cache-003 (cache-003 refuses our key)" in reason
    assert len(made.hosts) == 4


async def test_versions_decide_who_is_left_out_and_who_is_in_the_way():
    made = await World(hosts(3), versions={"cache-001": NEW, "cache-003": "1.8.5"}).plan()
    assert [e.name for e in made.excluded] == ["cache-001"]
    (reason,) = made.refusals
    assert "something else is on 1 host: cache-003 (1.8.5)" in reason


async def test_an_agent_that_does_not_say_what_a_restart_does_is_a_warning():
    world = World(hosts(3), mute={"cache-001"}, leaves={"cache-002": None, "cache-003": False})
    made = await world.plan()
    assert made.refusals == ()
    assert made.hosts[0].restart.startswith("may deregister cache-001")
    assert made.warnings == (
        "this change will deregister 2 cache nodes for about 5 s each (of 2 that is not certain)",
    )


async def test_only_consul_agents_are_asked_what_a_restart_does():
    exporter = replace(CHANGE, agent="exporter")
    made = await World(hosts(2), changes=(exporter,)).plan()
    assert [host.restart for host in made.hosts] == ["", ""]
    asked = replace(exporter, running=ConsulAgentProbe())
    made = await World(hosts(2), changes=(asked,)).plan()
    assert made.hosts[0].restart


async def test_a_change_that_is_not_in_the_source_is_refused_before_any_host_is_asked():
    world = World(hosts(3), changes=())
    made = await world.plan()
    assert world.asked == []
    assert made.refusals[0].startswith("change consul-agent is not in the worker's source")
    assert len(made.hosts) == 3


async def test_an_inventory_that_is_not_whole_is_no_plan():
    with pytest.raises(Refused, match="filtered"):
        await World(hosts(3), filtered=True).plan()


async def test_a_prometheus_that_does_not_answer_is_no_plan():
    silent = {"q_margin": Reading(None, "unreachable", 100.0, detail="connection refused")}
    with pytest.raises(Unanswered, match=r"Prometheus at http://127.0.0.1:9090 .*refused") as error:
        await World(hosts(3), readings=silent).plan()
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    ("reading", "says"),
    [
        (None, r"gate margin has no evidence now \(no_data"),
        (Reading(0.3, None, 100.0, 50.0), r"no evidence now \(stale: 50 s old"),
        (Reading(0.9, None, 100.0, 99.0), "gate margin reads 0.9 now, not below 0.7"),
    ],
)
async def test_a_gate_that_would_not_pass_now_is_a_warning(reading, says):
    made = await World(hosts(1), readings={"q_margin": reading} if reading else {}).plan()
    assert made.refusals == ()
    assert any(re.search(says, line) for line in made.warnings)


async def test_nothing_is_no_warning_where_nothing_may_mean_zero():
    quiet = gate(evidence=GateEvidence(Age(scrapes=3), zero_when="up"))
    made = await World(hosts(1), gates=(quiet,), readings={}).plan()
    assert not any("no evidence" in line for line in made.warnings)


@pytest.mark.parametrize(
    ("named", "sources", "says"),
    [
        ("other", (PROMETHEUS,), "read from source other, which is not in"),
        (None, (), "names no source, and there is not just one; sources there: none"),
        (None, (PROMETHEUS, replace(PROMETHEUS, name="b")), "sources there: b, lab"),
    ],
)
async def test_a_gate_whose_source_cannot_be_told_is_refused(named, sources, says):
    made = await World(hosts(1), gates=(gate(source=named),), sources=sources).plan()
    assert says in made.refusals[0]


async def test_gates_that_nobody_asks_for_are_not_read():
    other = gate("other", source="nowhere")
    assert (await World(hosts(2), gates=(gate(), other)).plan()).refusals == ()


async def test_the_guards_own_servers_come_last():
    made = await World(hosts(3)).plan(guards=frozenset({"cache-001"}))
    assert made.hosts[-1].name == "cache-001"


async def test_the_first_error_ends_the_other_questions_and_is_raised_as_it_is():
    ended = []

    async def ask(item):
        try:
            if item == 3:
                raise Unanswered("Consul", "127.0.0.1", "gone")
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    with pytest.raises(Unanswered, match="gone"):
        await each(ask, range(10), at_once=4)
    assert sorted(ended) == [0, 1, 2, 3]


# ---------------------------------------------------------------- what the caller adds


def adding(*policies):
    return replace(request(), policies=policies)


def stated(made):
    """What the plan keeps to, without the policies that are named for it."""
    return made.caps, made.waves, made.gates, made.bake_for, made.rollback_when


async def test_a_policy_that_the_caller_adds_applies_where_it_is_stricter():
    own = policy("own", bake_for=3600.0, required_gates=("errors",))
    world = World(hosts(4), gates=(gate(), gate("errors")))
    world.readings["q_errors"] = GOOD
    made = await world.plan(adding(own))
    assert made.refusals == ()
    assert made.bake_for == 3600.0
    assert [rule.name for rule in made.gates] == ["errors", "margin"]
    assert made.gates[0].first_within == 4 * 2.0 + 1.5, "it was looked at, as the others"
    assert [name for name, _ in made.policies] == ["critical", "own"]


async def test_no_policy_that_the_caller_adds_loosens_anything():
    limits = {"unavailable": amount("100%"), "wave": amount("100%"), "failures": Failures(hosts=9)}
    loose = policy("loose", limits=limits, bake_for=0.0, rollback_when="auto")
    strict = {"unavailable": amount(1), "wave": amount(2), "failures": Failures(hosts=0)}
    world = World(
        hosts(9),
        policies=(policy("strict", limits=strict, bake_for=9.0, rollback_when="never"), CRITICAL),
    )
    alone, added = await world.plan(), await world.plan(adding(loose))
    assert added.refusals == alone.refusals == ()
    assert stated(added) == stated(alone)


async def test_a_policy_that_the_caller_adds_does_not_take_the_place_of_a_default():
    loose = policy("loose", limits={"unavailable": amount(9), "wave": amount(20)}, bake_for=0.0)
    world = World(hosts(20), policies=())
    alone, added = await world.plan(), await world.plan(adding(loose))
    assert stated(added) == stated(alone)
    assert (added.caps.unavailable, added.bake_for) == (1, 600.0)
    assert added.approvals == alone.approvals != (), "still somebody else has to agree"


async def test_a_policy_of_the_source_counts_once_when_it_is_given_too():
    world = World(hosts(4))
    assert await world.plan(adding(CRITICAL)) == await world.plan()


async def test_a_policy_of_the_source_given_otherwise_is_refused_and_changes_nothing():
    other = replace(policy("critical", bake_for=1.0), digest="sha256:other", file="mine.yaml")
    world = World(hosts(4))
    made = await world.plan(adding(other))
    (refusal,) = made.refusals
    assert refusal.startswith("policy critical (mine.yaml) is not the one that the worker's source")
    assert "(critical.yaml)" in refusal
    assert replace(made, refusals=()) == await world.plan()
