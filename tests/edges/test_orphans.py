"""What may be behind an orphaned lease: steps that run, and hosts that do not serve."""

import time
from types import SimpleNamespace

import pytest

from guardrail.model.change import Change, ChangeRef, RunProbe
from guardrail.model.fleet import Host
from guardrail.model.lease import Holder, Lease, Need, Part, Share
from guardrail.twins import TwinHosts
from guardrail_workflows import orphans

ONE = Share(1, 1, 1)
HOSTS = tuple(Host("list", f"h{n}", f"127.0.0.{n}", "a", ("web",)) for n in range(3))
PROBES = RunProbe(("a",), "(.*)"), RunProbe(("b",), "(.*)")
CHANGE = Change("c", "a", "exec", *PROBES, (), (("x",),), None, None, 60.0)
PLAN = SimpleNamespace(
    change=ChangeRef("c", "1", "2"),
    host_timeout=60.0,
    leases=(Need("db", False, "3"), Need("web", False, "6"), Need("cold", True, "8")),
)


def lease(expires_at: float = 0.0) -> Lease:
    parts = tuple(Part(role, False, ONE, ONE) for role in ("db", "web"))
    return Lease(Holder("gone", "ann", "why"), 1, 7, parts, 0.0, expires_at)


def test_steps_may_run_until_the_changes_time_limit_is_over() -> None:
    now = time.time()
    assert orphans.steps_may_run(lease(now - 61), PLAN) == ""
    assert orphans.steps_may_run(lease(now - 30), PLAN).startswith("steps may run on its hosts")


def test_its_hosts_are_those_of_its_roles() -> None:
    assert orphans.hosts_of(lease(), PLAN) == 0b111


@pytest.mark.parametrize(
    ("h1", "silent", "why"),
    [
        ("1", set(), ""),
        ("2", set(), ""),
        ("1.5", set(), "h1 runs 1.5, with 1.5 installed"),
        ("2", {"h2"}, "h2 was not read: h2 (127.0.0.2) does not answer"),
    ],
)
async def test_every_host_must_serve_one_of_the_two_versions(
    h1: str, silent: set[str], why: str
) -> None:
    twins = TwinHosts({"h0": "1", "h1": h1, "h2": "2"}, silent=silent)
    assert await orphans.not_serving(HOSTS, PLAN, CHANGE, twins) == why


async def test_installed_and_running_must_agree() -> None:
    class Between(TwinHosts):
        async def running(self, host: Host, change: Change) -> str | None:
            return None if host.name == "h1" else "1"

    twins = Between(dict.fromkeys(("h0", "h1", "h2"), "1"))
    said = await orphans.not_serving(HOSTS, PLAN, CHANGE, twins)
    assert said == "h1 runs nothing, with 1 installed"
