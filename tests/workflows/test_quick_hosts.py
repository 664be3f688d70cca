"""Is a quick host as quick as it can be, and looked at as often as it must be?"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from decide.plan_builders import found, hosts, request

from guardrail.decide.plan import make_plan
from guardrail.edges.store import PlanFolder
from guardrail.files.planfile import load_host, store_plan
from guardrail.model.change import Change, RunProbe
from guardrail.model.fleet import Host
from guardrail.model.messages import HostTask
from guardrail.ports import Token
from guardrail.twins import TwinHosts, TwinStore
from guardrail_workflows import activities as module
from guardrail_workflows.activities import Activities, host_of
from guardrail_workflows.host_work import HostJob, change_host

SAME = RunProbe(("agent", "version"), r"(\S+)")
PROCESS = RunProbe(("agent", "running"), r"(\S+)")
HOST = Host("test", "h", "127.0.0.1", "a")


@dataclass
class Counted(TwinHosts):
    """Twin hosts that count how often they are looked at."""

    looks: list[str] = field(default_factory=list)

    async def installed(self, host: Host, change: Change) -> str | None:
        self.looks.append("installed")
        return self.versions[host.name]

    async def running(self, host: Host, change: Change) -> str | None:
        self.looks.append("running")
        return self.versions[host.name]


async def looks(running: RunProbe) -> list[str]:
    """What was looked at while a host was changed."""

    async def yes() -> bool:
        return True

    change = Change("c", "a", "exec", SAME, running, (), (("set", "2"),), None, None, 60.0)
    job = HostJob("op", HOST, change, "forward", "1", "2", Token(0, 1, 1))
    hosts = Counted({"h": "1"})
    result = await change_host(
        job, hosts, hosts, catalog=None, permit=yes, heartbeat=lambda _: None
    )
    assert result.outcome == "changed"
    return hosts.looks


async def test_what_has_no_process_is_looked_at_once_before_and_once_after():
    assert await looks(SAME) == ["installed", "installed"]


async def test_a_process_must_look_well_twice():
    assert await looks(PROCESS) == ["installed", "running"] * 3


# ---------------------------------------------------------------- who is next


@pytest.mark.parametrize(
    ("index", "direction", "following"),
    [
        (0, "forward", [1]),
        (1, "forward", [2]),
        (2, "forward", []),
        (2, "back", [1]),
        (0, "back", []),
    ],
)
def test_the_next_host_is_reached_while_this_one_works(index, direction, following):
    """In the plan's order, or against it; past its ends there is nobody."""
    store = TwinStore()
    plan = make_plan(request(), found(hosts(3, domains="abc")), now=1000.5)
    digest = store_plan(store, plan)
    load_host(store, digest, index)
    reached = []
    edges = SimpleNamespace(driver=SimpleNamespace(ahead=reached.append))
    module._reach_next(HostTask("op", digest, index, 1, direction), edges)
    assert reached == [host_of(plan.hosts[each]) for each in following]


# ---------------------------------------------------------------- what is kept open


class Owner(Activities):
    """Activities without a Temporal."""


def owner(tmp_path: Path) -> Activities:
    made = object.__new__(Owner)
    made.store, made._open, made._wholes = PlanFolder(str(tmp_path)), {}, {}
    return made


class Opening:
    """Counts how often edges are opened, and closed."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.opened, self.closed, self.fault = 0, 0, fault

    async def open(self) -> object:
        self.opened += 1
        if self.fault is not None:
            raise self.fault
        return (None, None, None)

    async def close(self) -> None:
        self.closed += 1

    def put(self, monkeypatch) -> "Opening":
        monkeypatch.setattr(module._Opened, "_open", self.open)
        monkeypatch.setattr(module._Opened, "close", self.close)
        return self


async def use(activities: Activities) -> None:
    async with activities._hands("sha256:x"):
        pass


async def test_one_host_after_another_shares_the_edges(tmp_path, monkeypatch):
    counted, activities = Opening().put(monkeypatch), owner(tmp_path)
    monkeypatch.setattr(module, "LINGER", 0.1)
    await use(activities)
    await use(activities)
    assert (counted.opened, counted.closed) == (1, 0)
    async with asyncio.timeout(5):
        while not counted.closed:  # noqa: ASYNC110 (nothing else tells)
            await asyncio.sleep(0.01)
    assert activities._open == {}
    await use(activities)
    assert counted.opened == 2


async def test_what_could_not_be_opened_is_tried_again_by_the_next_host(tmp_path, monkeypatch):
    counted, activities = Opening(RuntimeError("changed")).put(monkeypatch), owner(tmp_path)
    for _ in range(2):
        try:
            await use(activities)
        except RuntimeError:
            continue
    assert counted.opened == 2
