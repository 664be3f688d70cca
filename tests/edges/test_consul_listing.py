"""Does a real Consul say who leaves, also when it happens between two looks?"""

import asyncio
import contextlib
import json
import signal
import time
from dataclasses import replace

import httpx
import pytest
from test_consul_real import Agent

from guardrail.decide.departures import Follower, not_serving
from guardrail.edges.consul import ConsulHosts
from guardrail.edges.consul_listing import listings_of
from guardrail.errors import Refused, Unanswered
from guardrail.model.budget import RingListed
from guardrail.model.fleet import ConsulInventory, Fleet

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A server, and a client with the service that leaves on SIGTERM."""
    folder = tmp_path_factory.mktemp("listing")
    server = Agent(folder, "server", {"server": True, "bootstrap_expect": 1})
    service = {"services": [{"name": "memcached", "port": 11211}], "node_meta": {"env": "lab"}}
    node = Agent(
        folder, "node-1", {"retry_join": [server.address], "retry_interval": "1s"} | service
    )
    try:
        server.start()
        node.start()
        yield server, node
    finally:
        node.kill()
        server.kill()


async def until(listings, follower, condition, limit=90.0):
    """All who left until a listing is as wanted."""
    left = []
    async with asyncio.timeout(limit):
        while True:
            with contextlib.suppress(Unanswered):  # it has no leader yet
                listing = await listings.next()
                left += follower.take(listing)
                if condition(listing):
                    return left, listing
            await asyncio.sleep(0.05)


def serves(listing):
    return "node-1" in listing.nodes and not listing.nodes["node-1"].failing


async def settled(server, calm=3.0, limit=60.0):
    """Until the catalog has stayed as it is for a while.

    An agent that is told to leave right after its start registers once more while it leaves, and
    then is neither gone nor there.
    """
    give_up, known, since = time.monotonic() + limit, None, time.monotonic()
    async with httpx.AsyncClient() as client:
        while time.monotonic() - since < calm:
            answer = await client.get(f"{server.url}/v1/health/service/memcached")
            if answer.text != known:
                known, since = answer.text, time.monotonic()
            assert time.monotonic() < give_up
            await asyncio.sleep(0.1)


def answers(node):
    """Whether the agent itself is up again."""
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{node.url}/v1/agent/self").status_code == 200
    return False


async def test_who_leaves_is_seen_at_once_and_once(pair):
    server, node = pair
    follower = Follower(())
    async with listings_of(ConsulInventory(server.url, "memcached")) as listings:
        await until(listings, follower, serves)
        asked = time.monotonic()
        waiting = asyncio.create_task(until(listings, follower, lambda one: not one.nodes))
        await asyncio.to_thread(node.kill, signal.SIGTERM)
        left, _ = await waiting
        assert left == ["node-1"]
        assert time.monotonic() - asked < 10
        node.start()
        left, listing = await until(listings, follower, serves)
        assert left == []
        assert not_serving(listing, {"node-1": 0, "node-2": 1}) == 0b10


async def test_who_left_and_came_back_while_nobody_looked_has_left(pair):
    server, node = pair
    source = ConsulInventory(server.url, "memcached", node_meta=(("env", "lab"),))
    follower = Follower(("node-1",))
    async with listings_of(source) as listings:
        await until(listings, follower, serves)
    await settled(server)
    async with listings_of(source) as listings:
        _, seen = await until(listings, follower, serves)
    await asyncio.to_thread(node.kill, signal.SIGTERM)
    node.start()
    later = Follower(("node-1",), index=seen.index)
    async with listings_of(source) as listings:
        left, _ = await until(
            listings, later, lambda one: serves(one) and one.nodes["node-1"].created > seen.index
        )
    assert left == ["node-1"]


async def test_a_restart_that_stays_registered_is_no_departure(pair):
    server, node = pair
    follower = Follower(("node-1",))
    async with listings_of(ConsulInventory(server.url, "memcached")) as listings:
        await until(listings, follower, serves)
        await asyncio.to_thread(node.kill, signal.SIGKILL)
        node.start()
        left, _ = await until(listings, follower, lambda one: serves(one) and answers(node))
    assert left == []


async def test_a_consul_that_is_away_is_silent_by_name():
    async with listings_of(ConsulInventory("http://127.0.0.1:9", "memcached")) as listings:
        with pytest.raises(Unanswered, match="Consul"):
            await listings.next()


# ---------------------------------------------------------------- the ring of a tier


async def test_a_ring_is_read_with_each_listing_and_its_absence_is_no_answer(pair):
    server, _ = pair
    source = ConsulInventory(server.url, "memcached", ring="ring/memcached")
    ring = {"version": 3, "slots": ["node-1", None], "spares": ["node-2"]}
    async with listings_of(source) as listings:
        with pytest.raises(Refused, match="no key ring/memcached"):
            await patiently(listings)
        put(server, ring)
        listing = await patiently(listings)
        assert listing.ring == RingListed(("node-1", ""), ("node-2",))
        put(server, ring | {"slots": ["node-2", "node-2"]})
        with pytest.raises(Unanswered, match="holds no ring"):
            await patiently(listings)
        put(server, ring)
    fleet = Fleet("cache", source)
    assert await ConsulHosts().ring(fleet) == RingListed(("node-1", ""), ("node-2",))
    assert await ConsulHosts().ring(Fleet("cache", replace(source, ring=None))) is None


async def patiently(listings, limit=60.0):
    """The next listing, once the servers have a leader."""
    async with asyncio.timeout(limit):
        while True:
            try:
                return await listings.next()
            except Unanswered as error:
                if "leader" not in str(error):
                    raise
            await asyncio.sleep(0.1)


def put(server, ring):
    answer = httpx.put(f"{server.url}/v1/kv/ring/memcached", content=json.dumps(ring))
    assert answer.text.strip() == "true"
