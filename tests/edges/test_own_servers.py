"""The machines that this program stands on, by name and address; nobody is 127.0.0.1."""

import socket

from guardrail.edges.own_servers import own_servers, temporal_host
from guardrail.edges.store import PlanFolder
from guardrail.model.fleet import ConsulInventory, Fleet, HostList, KnownFleet
from guardrail.model.gate import Source

CONSUL = Fleet("cache", ConsulInventory("http://127.0.20.1:8500", "memcached"))
SOURCES = (Source("metrics", "http://127.0.20.3:9090"),)


async def test_worker_temporal_consul_and_prometheus_are_known():
    found = await own_servers("127.0.20.2:7233", CONSUL, SOURCES)
    assert {"127.0.20.1", "127.0.20.2", "127.0.20.3", socket.gethostname()} <= found


async def test_a_name_stands_for_its_address_and_itself():
    found = await own_servers("no-such-name.invalid:7233", Fleet("f", HostList(())), ())
    assert "no-such-name.invalid" in found
    assert "" not in found


async def test_this_machine_for_itself_is_nobodys_address():
    found = await own_servers("localhost:7233", Fleet("f", HostList(())), ())
    assert not found & {"127.0.0.1", "::1", "localhost"}


def test_an_ipv6_address_stands_in_brackets():
    assert temporal_host("[fd00::1]:7233") == "fd00::1"
    assert temporal_host("temporal:7233") == "temporal"
    assert temporal_host("") == ""


def test_a_fleet_is_recalled_as_it_was_remembered(tmp_path):
    store, known = PlanFolder(str(tmp_path)), KnownFleet("cache", ("a", "b"), 7.0)
    assert store.recall("key") is None
    store.remember("key", known)
    assert store.recall("key") == known
    assert store.recall("other") is None
    store.remember("key", KnownFleet("cache", ("a",), 8.0))
    assert store.recall("key").hosts == ("a",)


def test_what_is_kept_and_damaged_is_as_if_never_planned(tmp_path):
    store = PlanFolder(str(tmp_path))
    store.remember("key", KnownFleet("cache", ("a",), 7.0))
    (path,) = (tmp_path / "fleets").iterdir()
    path.write_text("{}")
    assert store.recall("key") is None
