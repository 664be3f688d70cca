"""Do the lab's own pieces hold without a lab: ring, admission, shards, wire, identity?"""

import asyncio
import os
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from lab.rig import PATIENCE

from guardrail.errors import Refused
from guardrail.lab.boot import Admission, Cache
from guardrail.lab.database import Database, QueueFull
from guardrail.lab.layout import Layout, from_arguments
from guardrail.lab.memcache import Memcached
from guardrail.lab.parameters import parameters
from guardrail.lab.parts import Part
from guardrail.lab.processes import Identity, alive, descendants, marked, start_time, stop
from guardrail.lab.register import Register, read_register
from guardrail.lab.ring import Ring
from guardrail.lab.wire import Client, Query, Reply, Server, sample

# --- layout ---


def test_a_layout_survives_its_own_arguments(tmp_path: Path) -> None:
    layout = Layout(tmp_path, 77, 12)
    assert from_arguments([*layout.as_arguments(), "--else", "1"]) == layout


def test_every_address_is_on_the_labs_own_block(tmp_path: Path) -> None:
    layout = Layout(tmp_path, 20)
    assert (layout.slots, layout.spares) == (24, 6)
    assert [host.name for host in layout.hosts][::29] == ["cache-001", "cache-030"]
    assert [host.address for host in layout.hosts][::29] == ["127.0.20.10", "127.0.20.39"]
    assert {host.zone for host in layout.hosts} == {"a", "b", "c"}


@pytest.mark.parametrize(("block", "count"), [(0, 30), (255, 30), (20, 4), (20, 61)])
def test_an_impossible_layout_is_refused(tmp_path: Path, block: int, count: int) -> None:
    with pytest.raises(ValueError, match=r"block|cache hosts"):
        Layout(tmp_path, block, count)


def test_an_unknown_host_is_an_error_that_says_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="cache-001 to cache-030"):
        Layout(tmp_path).host("cache-031")


def test_the_reference_ring_has_the_measured_numbers() -> None:
    numbers = parameters(24)
    assert (numbers.keys, numbers.keys_per_boot, numbers.shard_capacity) == (20_000, 10, 40)
    # The queue must be longer than the time-out, or the lab recovers by itself.
    assert numbers.queue_bound / numbers.shard_capacity > numbers.timeout


# --- ring ---

NAMES = [f"cache-{n:03d}" for n in range(1, 11)]


def formed() -> Ring:
    ring = Ring()
    ring.form(NAMES, 8)
    return ring


def test_a_departure_promotes_the_first_spare_and_a_return_makes_a_spare() -> None:
    ring = formed()
    assert ring.leave("cache-003") == "cache-009"
    assert ring.slots[2] == "cache-009"
    ring.join("cache-003")
    assert ring.spares == ["cache-010", "cache-003"]


def test_a_departed_spare_costs_no_slot() -> None:
    ring = formed()
    assert ring.leave("cache-010") is None
    assert ring.slots == NAMES[:8]
    assert ring.spares == ["cache-009"]


def test_without_spares_a_slot_is_nobodys_until_someone_returns() -> None:
    ring = formed()
    for name in ("cache-009", "cache-010", "cache-001"):
        ring.leave(name)
    assert ring.slots[0] is None
    ring.join("cache-010")
    assert ring.slots[0] == "cache-010"


@given(some.lists(some.sampled_from(NAMES), max_size=40))
def test_no_node_is_ever_in_two_places(changes: list[str]) -> None:
    ring, present = formed(), set(NAMES)
    for name in changes:
        if name in present:
            ring.leave(name)
            present.discard(name)
        else:
            ring.join(name)
            present.add(name)
        placed = [slot for slot in ring.slots if slot] + ring.spares
        assert sorted(placed) == sorted(present)
        assert len(ring.slots) == 8


# --- admission and the read path ---


def test_a_cap_admits_its_rate_and_none_admits_all(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: at)
    monkeypatch.setattr("guardrail.lab.boot.time", clock)
    gate, at = Admission(), 5.0
    assert all(gate.admit() for _ in range(1000))
    gate.set(100)
    admitted = 0
    for millisecond in range(1, 501):
        at = 5.0 + millisecond / 1000
        admitted += gate.admit()
    assert admitted in (49, 50)  # the last one is due at this very moment
    at += 10  # what nobody asked for is not saved up
    assert sum(gate.admit() for _ in range(100)) == 20


def test_a_cap_of_zero_admits_nothing() -> None:
    gate = Admission()
    gate.set(0)
    assert not any(gate.admit() for _ in range(100))


def test_keys_go_to_their_slots_node_and_an_empty_slot_has_none() -> None:
    cache = Cache()
    cache.follow({"slots": ["a", None], "addresses": {"a": "127.0.0.1"}, "version": 3})
    groups = cache.by_node(range(100))
    assert set(groups) == {"a", ""}
    assert all(zlib.crc32(b"k%d" % key) % 2 == 0 for key in groups["a"])


class SlowConnection:
    """Stands in for a database connection; each query takes the time it is told to."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def cursor(self) -> "SlowConnection":
        return self

    async def __aenter__(self) -> "SlowConnection":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def execute(self, _: str) -> None:
        await asyncio.sleep(self.seconds)

    async def fetchall(self) -> Sequence[Any]:
        return ()


async def test_a_timed_out_query_is_executed_all_the_same() -> None:
    database = Database(parameters(24))
    with pytest.raises(TimeoutError):
        await database.scatter([1])
    shard = database.shards[0]
    assert (shard.wanted, shard.depth) == (1, 1)
    worker = asyncio.create_task(shard.serve(SlowConnection(0)))
    await asyncio.wait_for(shard.submit([2]), PATIENCE)  # behind the first in the queue
    worker.cancel()
    assert (shard.executed, shard.wasted, shard.answered) == (2, 1, 1)


async def test_a_full_queue_turns_away_at_once_and_still_counts_the_demand() -> None:
    numbers = parameters(24)
    database = Database(numbers)
    for _ in range(numbers.queue_bound):
        database.shards[3].submit([1])
    with pytest.raises(QueueFull, match="shard 3"):  # nothing is ever taken off this queue
        await asyncio.wait_for(database.scatter([1]), PATIENCE)
    assert [shard.wanted for shard in database.shards] == [1] * 6
    assert database.shards[3].rejected == 1


async def test_all_shards_must_answer() -> None:
    database = Database(parameters(24))
    workers = [asyncio.create_task(shard.serve(SlowConnection(0))) for shard in database.shards[:5]]
    with pytest.raises(TimeoutError):
        await database.scatter([1])
    last = asyncio.create_task(database.shards[5].serve(SlowConnection(0)))
    await database.scatter([2])
    for worker in (*workers, last):
        worker.cancel()
    assert "lab_db_capacity" in "\n".join(database.lines())


# --- wire ---


async def test_server_and_client_agree() -> None:
    async def echo(query: Query) -> Reply:
        return 200, query["word"]

    server = await Server({"GET /echo": echo, "POST /set": echo}).listen("127.0.0.1", 0)
    client = Client("127.0.0.1", server.sockets[0].getsockname()[1])
    answers = [
        await client.request("GET", "/echo?word=a%20b"),
        await client.request("GET", "/echo"),
        await client.request("GET", "/set?word=x"),
        await client.request("GET", "/nowhere"),
    ]
    client.close()
    server.close()
    assert [status for status, _, _ in answers] == [200, 400, 405, 404]
    assert answers[0][2] == b"a b"


async def test_a_silent_server_is_an_error_in_time() -> None:
    async def never(_: Query) -> Reply:
        await asyncio.sleep(60)
        return 200, ""

    server = await Server({"GET /": never}).listen("127.0.0.1", 0)
    client = Client("127.0.0.1", server.sockets[0].getsockname()[1])
    with pytest.raises(TimeoutError):
        await client.request("GET", "/", within=0.1)
    server.close()


async def test_a_memcached_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ConnectionRefusedError):
        await Memcached("127.0.0.1", 1).get(["k1"])


def test_a_sample_is_prometheus_text() -> None:
    assert sample("lab_x", 1.5, shard="2") == 'lab_x{shard="2"} 1.5'
    assert sample("lab_x", float("inf")) == "lab_x inf"


# --- processes ---


def test_a_pid_with_another_start_time_is_another_process() -> None:
    me = Identity(os.getpid(), start_time(os.getpid()) or 0)
    assert alive(me)
    assert not alive(Identity(me.pid, me.start + 1))
    assert stop([Identity(me.pid, me.start + 1)]) == []


def test_children_and_marked_processes_are_found_and_stopped() -> None:
    mark = {"GUARDRAIL_TEST_MARK": "yes"}
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, **mark}) as child:
        found = Identity(child.pid, start_time(child.pid) or 0)
        assert found in descendants([os.getpid()])
        assert marked("GUARDRAIL_TEST_MARK", "yes") == [found]
        assert stop([found]) == []
    assert start_time(child.pid) is None


def test_a_register_reads_back_as_it_was_written(tmp_path: Path) -> None:
    register = Register(Layout(tmp_path, 9, 5), "id", 1.5)
    part = Part("a/b", "sshd", "127.0.9.10", 2222, ("x", "y"), {"K": "v"}, "log", Identity(1, 2))
    register.add(part)
    assert read_register(tmp_path).parts == {"a/b": part}
    assert read_register(tmp_path).layout == register.layout


def test_no_register_and_a_broken_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="guardrail lab up"):
        read_register(tmp_path)
    Layout(tmp_path).state_file.write_text("{")
    with pytest.raises(Refused, match="remove it"):
        read_register(tmp_path)
