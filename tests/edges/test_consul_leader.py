"""Do the followers of a real Consul cluster come first, and its leader last, whoever that is?"""

import asyncio
import contextlib
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hands import own_address
from http_part import Answer, HttpPart, serving
from test_consul_real import Agent

from guardrail.decide.found import Found, Seen
from guardrail.decide.plan import course_of, make_plan
from guardrail.decide.transition import decide
from guardrail.edges.consul import ConsulHosts
from guardrail.edges.consul_leader import HEALTH, ConsulLeader
from guardrail.errors import Refused, Unanswered
from guardrail.files import load
from guardrail.model.budget import NO_BUDGET
from guardrail.model.change import ChangeRef
from guardrail.model.common import Amount
from guardrail.model.fleet import ConsulInventory, Fleet, HostList, Leading
from guardrail.model.messages import PlanRequest
from guardrail.model.operation import (
    BeginHost,
    HostAnswered,
    LeaderSeen,
    SeeLeader,
    Started,
    State,
    Ticked,
)
from guardrail.model.plan import Course, Plan
from guardrail.model.rollout import Rollout

pytestmark = pytest.mark.real
SHIPPED = load([Path(__file__).parents[2] / "policies"])
NAMES = ("consul-1", "consul-2", "consul-3")


@dataclass
class Servers:
    """Three real servers."""

    agents: dict[str, Agent]

    def fleet(self, asked: str = NAMES[0]) -> Fleet:
        return Fleet("consul-servers", ConsulInventory(self.agents[asked].url, "consul"))

    async def well(self) -> str:
        """Who leads, once all are well."""
        return (await self.seen(lambda led: led is not None and not led.unwell)).host

    async def seen(self, wanted, asked: str = NAMES[0], limit: float = 60.0):
        """Who leads (None: nobody knows), once that is as wanted."""
        give_up = time.monotonic() + limit
        while not wanted(led := await self.look(asked)):
            assert time.monotonic() < give_up, led
            await asyncio.sleep(0.2)
        return led

    async def look(self, asked: str) -> Leading | None:
        with contextlib.suppress(Unanswered):
            return await ConsulLeader().leading(self.fleet(asked))
        return None

    async def another(self, leader: str) -> str:
        """Have another one lead."""
        self.agents[leader].kill()
        asked = next(name for name in NAMES if name != leader)
        await self.seen(lambda led: led is not None and led.host != leader, asked)
        self.agents[leader].start()
        return await self.well()

    def restart(self, name: str, version: str) -> None:
        agent = self.agents[name]
        agent.kill()
        agent.version = version
        agent.start()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("servers")
    agents = {name: Agent(folder, name, {}) for name in NAMES}
    together = {
        "server": True,
        "bootstrap_expect": 3,
        "retry_join": [agent.address for agent in agents.values()],
        "retry_interval": "1s",
    }
    try:
        for agent in agents.values():
            agent.settings = together
            agent.start()
        yield Servers(agents)
    finally:
        for agent in agents.values():
            agent.kill()


async def planned(servers: Servers) -> Plan:
    """The plan of the real servers under the shipped policies."""
    fleet = servers.fleet()
    found = await ConsulHosts().hosts(fleet)
    rollout = Rollout(
        "servers",
        fleet.name,
        ChangeRef("consul-agent", "1.8.7", "1.8.8"),
        (Amount(100, percent=True),),
    )
    known = Found(
        hosts=found,
        seen={host.name: Seen("1.8.7", "1.8.7") for host in found},
        change=SHIPPED.change("consul-agent"),
        policies=SHIPPED.policies,
        gates=SHIPPED.gates,
        leading=await ConsulLeader().leading(fleet),
    )
    request = PlanRequest("servers", rollout, fleet, "ann")
    return make_plan(request, known, now=time.time())


def course(plan: Plan) -> Course:
    """Of the plan only the order, the waves and the leader: there is no Prometheus here."""
    bare = replace(course_of(plan, "sha256:x"), gates=(), approvals=(), leases=(), calendar=None)
    caps = replace(bare.caps, pace=0.0)
    bare = replace(bare, caps=caps, budget=NO_BUDGET, bake_for=0.5, reread=0)
    return replace(bare, freezes=False, merges=False)


@dataclass
class Carrier:
    """Carries events to `decide`, and actions to real servers."""

    plan: Plan
    servers: Servers
    state: State = field(init=False)
    wake_at: float | None = None
    begun: list[str] = field(default_factory=list)
    led: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.state = State(course(self.plan), "servers")

    async def happen(self, event) -> None:
        decision = decide(self.state, event)
        self.state, self.wake_at = decision.state, decision.wake_at
        self.held |= {hold.name for hold in self.state.holds}
        for action in decision.actions:
            if isinstance(action, SeeLeader):
                await self.happen(await self.look(action.turn))
            elif isinstance(action, BeginHost):
                await self.happen(await self.change(action))

    async def look(self, turn: int) -> LeaderSeen:
        try:
            led = await ConsulLeader().leading(self.plan.where)
        except Unanswered as error:
            return LeaderSeen(time.time(), turn, problem=str(error))
        names = [host.name for host in self.plan.hosts]
        return LeaderSeen(time.time(), turn, names.index(led.host), led.host, led.unwell)

    async def change(self, begin: BeginHost) -> HostAnswered:
        name = self.plan.hosts[begin.index].name
        self.begun.append(name)
        self.led.append((await ConsulLeader().leading(self.plan.where)).host)
        self.servers.restart(name, "1.8.8")
        return HostAnswered(time.time(), begin.index, begin.turn, "changed", name)

    async def run(self, seconds: float) -> None:
        until = time.time() + seconds
        await self.happen(Started(time.time()))
        while not self.state.finished and time.time() < until:
            wait = (self.wake_at or time.time() + 0.5) - time.time()
            await asyncio.sleep(min(max(wait, 0.05), 1.0))
            await self.happen(Ticked(time.time()))


async def test_a_leader_that_came_after_the_plan_is_restarted_last(servers: Servers) -> None:
    then = await servers.well()
    plan = await planned(servers)
    assert [host.roles for host in plan.hosts] == [("consul",)] * 3
    assert "consul-servers" in {name for name, _ in plan.policies}
    assert (plan.leader, plan.hosts[-1].name) == (then, then)
    now = await servers.another(then)
    assert now != then
    carrier = Carrier(plan, servers)
    await carrier.run(90)
    assert carrier.state.phase == "completed", carrier.state.story
    assert sorted(carrier.begun) == sorted(NAMES)
    assert carrier.begun[-1] == now
    assert carrier.led == [now] * 3  # it was an election for nobody but the last
    assert any(f"{now} leads now" in note.text for note in carrier.state.story)


async def test_no_server_begins_while_another_is_not_well_or_nobody_leads(servers: Servers) -> None:
    leader = await servers.well()
    plan = await planned(servers)
    ill, asked = sorted(set(NAMES) - {leader})
    here = servers.fleet(asked)
    servers.agents[ill].kill()
    led = await servers.seen(lambda led: led is not None and led.unwell, asked)
    assert (led.host, ill in led.unwell) == (leader, True)
    carrier = Carrier(replace(plan, where=here), servers)
    await carrier.run(3)
    assert carrier.begun == []
    (reason,) = carrier.state.hold("leader").reasons
    assert f"calls its servers not healthy: {ill}" in reason
    servers.agents[leader].kill()
    await servers.seen(lambda led: led is None, asked)
    carrier = Carrier(replace(plan, where=here), servers)
    await carrier.run(3)
    assert carrier.begun == []
    assert carrier.state.hold("leader") is not None


@pytest.fixture
async def told():
    """A Consul that says what a test wants."""
    async with serving(own_address()) as part:
        yield part


def server(name, *, leads=False, healthy=True):
    return {"Name": name, "Leader": leads, "Healthy": healthy}


async def asked(part: HttpPart, body, status: int = 200) -> Leading:
    part.answers[HEALTH] = Answer(body, status)
    return await ConsulLeader().leading(Fleet("servers", ConsulInventory(part.url, "consul")))


async def test_not_well_is_429_with_an_answer_and_none_to_spare_is_not_well(told) -> None:
    both = [server("a", leads=True), server("b", healthy=False)]
    body = {"Healthy": False, "FailureTolerance": 0, "Servers": both}
    ill = await asked(told, body, 429)
    assert (ill.host, "not healthy: b" in ill.unwell) == ("a", True)
    bare = {"Healthy": True, "FailureTolerance": 0, "Servers": [server("a", leads=True)]}
    assert "none of its 1 servers may be lost" in (await asked(told, bare)).unwell
    assert await asked(told, bare | {"FailureTolerance": 1}) == Leading("a")


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ("Permission denied", 403, "HTTP 403: Permission denied"),
        ("rate limited", 429, "HTTP 429: rate limited"),
        ({"Healthy": True, "FailureTolerance": 1}, 200, "without its usual fields"),
        ({"Healthy": True, "FailureTolerance": 1, "Servers": []}, 200, "0 of its servers say"),
    ],
)
async def test_an_answer_that_does_not_say_who_leads_is_none(told, body, status, why) -> None:
    with pytest.raises(Unanswered, match=why):
        await asked(told, body, status)


async def test_a_fleet_that_is_not_found_in_consul_cannot_be_asked() -> None:
    with pytest.raises(Refused, match="lists its hosts itself"):
        await ConsulLeader().leading(Fleet("servers", HostList(())))
