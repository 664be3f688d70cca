"""Is a real Consul read rightly: its catalog, its gossip, and what its agents say of themselves?"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from hands import own_address, until

from guardrail.edges.consul import ConsulCatalog, ConsulHosts, open_api
from guardrail.edges.exec import ExecDriver
from guardrail.edges.probes import ConsulRestarts, Probes
from guardrail.errors import Refused, Unanswered
from guardrail.lab import tools
from guardrail.model.common import Secret
from guardrail.model.fleet import ConsulInventory, FailureDomain, Fleet, Host
from guardrail.ports import CatalogEntry, RestartEffect

pytestmark = pytest.mark.real
TOKEN = "8b5d2a52-9f3c-4a2e-9d8e-0c1f5a6b7c8d"


@dataclass
class Agent:
    folder: Path
    name: str
    settings: dict[str, object]
    version: str = "1.8.7"
    address: str = field(default_factory=own_address)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.address}:8500"

    def start(self) -> None:
        base = {
            "node_name": self.name,
            "bind_addr": self.address,
            "client_addr": self.address,
            "data_dir": str(self.folder / f"{self.name}.data"),
            "disable_update_check": True,
            "ports": {"dns": -1, "grpc": -1},
            "performance": {"raft_multiplier": 1},
            "gossip_lan": {
                "probe_interval": "200ms",
                "probe_timeout": "100ms",
                "suspicion_mult": 2,
                "gossip_interval": "50ms",
            },
        }
        config = self.folder / f"{self.name}.json"
        config.write_text(json.dumps(base | self.settings))
        found, _ = tools.find()
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(found.consul(self.version)), "agent", "-config-file", str(config)],
                stdout=log,
                stderr=log,
            )

    def kill(self, how: int = signal.SIGKILL) -> None:
        if self.process:
            os.kill(self.process.pid, how)
            self.process.wait()
            self.process = None


@dataclass
class Cluster:
    server: Agent
    leaving: Agent
    staying: Agent

    @property
    def fleet(self) -> Fleet:
        source = ConsulInventory(self.server.url, "memcached", filter='Meta.env == "lab"')
        return Fleet("cache", source, FailureDomain(node_meta="zone"))

    @property
    def agents(self) -> tuple[Agent, ...]:
        return (self.server, self.leaving, self.staying)


def answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError, ValueError):
        found = httpx.get(f"{url}/v1/health/service/memcached", params={"passing": "1"}).json()
        return len(found) == 2
    return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("consul")
    server = Agent(folder, "server", {"server": True, "bootstrap_expect": 1})
    service = {"services": [{"name": "memcached", "port": 11211}, {"name": "web", "port": 80}]}
    client = {
        "retry_join": [server.address],
        "retry_interval": "1s",
        "node_meta": {"env": "lab", "zone": "a"},
    }
    stay = {"leave_on_terminate": False, "node_meta": {"env": "lab", "zone": "b"}}
    leaving = Agent(folder, "node-1", client | service)
    staying = Agent(folder, "node-2", client | service | stay)
    found = Cluster(server, leaving, staying)
    try:
        for agent in found.agents:
            agent.start()
        limit = time.monotonic() + 30
        while not answers(server.url):
            assert time.monotonic() < limit, (folder / "server.log").read_text()[-2000:]
            time.sleep(0.1)
        yield found
    finally:
        for agent in found.agents:
            agent.kill()


async def test_hosts_of_a_real_catalog(cluster: Cluster) -> None:
    first, second = await ConsulHosts().hosts(cluster.fleet)
    assert first.name == "node-1"
    assert first.address == cluster.leaving.address
    assert (first.inventory, first.failure_domain) == ("consul/dc1", "a")
    assert first.roles == ("memcached", "web")
    assert first.label("env") == "lab"
    assert not first.down
    assert second.failure_domain == "b"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"filter": 'Meta.env == "prod"'}, "lists no host"),
        ({"service": "nothing"}, "lists no host"),
        ({"filter": "Foo == 1"}, "does not accept"),
        ({"node_meta": (("zone", "z"),)}, "lists no host"),
    ],
)
async def test_what_a_real_catalog_does_not_have_is_refused(
    cluster: Cluster, changes: dict[str, object], match: str
) -> None:
    given = {"address": cluster.server.url, "service": "memcached"} | changes
    source = ConsulInventory(**given)  # type: ignore[arg-type]
    with pytest.raises(Refused, match=match):
        await ConsulHosts().hosts(Fleet("cache", source))


async def test_node_meta_chooses_hosts(cluster: Cluster) -> None:
    source = ConsulInventory(cluster.server.url, "memcached", node_meta=(("zone", "b"),))
    assert [host.name for host in await ConsulHosts().hosts(Fleet("f", source))] == ["node-2"]


async def test_a_datacenter_that_is_not_there_is_unanswered(cluster: Cluster) -> None:
    source = ConsulInventory(cluster.server.url, "memcached", datacenter="nowhere")
    with pytest.raises(Unanswered, match="No path to datacenter"):
        await ConsulHosts().hosts(Fleet("f", source))


async def test_what_restarts_will_do_is_read_from_the_agents(
    cluster: Cluster, tmp_path: Path
) -> None:
    probes = Probes(ExecDriver(tmp_path))
    restarts = ConsulRestarts(probes)
    found = [
        await restarts.restart_effect(Host("t", agent.name, agent.address, "a"))
        for agent in (cluster.leaving, cluster.staying)
    ]
    await probes.close()
    assert found == [
        RestartEffect("1.8.7", True, ("memcached", "web")),
        RestartEffect("1.8.7", False, ("memcached", "web")),
    ]


async def test_an_upgrade_is_seen_by_the_servers_and_a_dead_agent_too(cluster: Cluster) -> None:
    catalog = ConsulCatalog(open_api(ConsulInventory(cluster.server.url, "memcached")))
    before = await catalog.entry("node-2")
    assert before is not None
    assert (before.version, before.alive, before.failing) == ("1.8.7", True, ())
    assert before.services == ("memcached", "web")
    assert await catalog.entry("nobody") is None

    cluster.staying.kill()
    dead = await seen(catalog, "node-2", alive=False)
    assert "serfHealth" in dead.failing or not dead.alive
    await until(lambda: not answers(cluster.server.url))
    hosts = {host.name: host for host in await ConsulHosts().hosts(cluster.fleet)}
    assert hosts["node-2"].down
    assert "serfHealth" in hosts["node-2"].down_reason

    cluster.staying.version = "1.8.8"
    cluster.staying.start()
    after = await seen(catalog, "node-2", alive=True, version="1.8.8")
    assert after.services == ("memcached", "web")
    await catalog.close()


async def seen(
    catalog: ConsulCatalog, node: str, *, alive: bool, version: str = "1.8.7"
) -> CatalogEntry:
    """The entry once it says so: its checks may be newer than its version, which is gossip."""
    async with asyncio.timeout(20):
        while True:
            entry = await catalog.entry(node)
            if entry is not None and (entry.alive, entry.version) == (alive, version):
                return entry
            await asyncio.sleep(0.1)


async def test_a_token_that_may_not_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consul 1.8 says nothing of what ACLs hide: the answer is empty, and that is refused."""
    acl = {"enabled": True, "default_policy": "deny", "tokens": {"master": TOKEN}}
    server = Agent(tmp_path, "server", {"server": True, "bootstrap_expect": 1, "acl": acl})
    server.start()
    source = ConsulInventory(server.url, "consul")
    monkeypatch.setenv("CONSUL_TOKEN_HERE", TOKEN)
    allowed = Fleet(
        "f", ConsulInventory(server.url, "consul", token=Secret("env", "CONSUL_TOKEN_HERE"))
    )
    try:
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(Unanswered, Refused):
                    assert len(await ConsulHosts().hosts(allowed)) == 1
                    break
                await asyncio.sleep(0.1)
        with pytest.raises(Refused, match="the token may read"):
            await ConsulHosts().hosts(Fleet("f", source))
    finally:
        server.kill()
