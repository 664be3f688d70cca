"""A release under a held operation: two builds side by side on one real Temporal server.

The held operation stays with the build it began with, through continue-as-new, and ends there; a
new one goes to the new build. What each build was asked to do is seen at its own made-up hands.
"""

import asyncio
import subprocess
import sys
import time

import pytest
import pytest_asyncio
from test_rollout import course

from guardrail.cli import release
from guardrail.cli.release import build_id, joins, take_over
from guardrail.edges.deployment import current_build, make_current, open_operations
from guardrail.edges.temporal import NoWorker, Operations
from guardrail.errors import Refused, Unanswered
from guardrail.files import shipped_policies
from guardrail.model import messages
from guardrail_workflows.worker import make_worker

from engine import ALL, Running, World, real_server, start

pytestmark = pytest.mark.temporal
OLD, NEW = "0.1.0-old", "0.2.0-new"


@pytest_asyncio.fixture
async def operations():
    """A server of its own for each test: which build is current is kept there."""
    async with real_server() as env:
        yield Operations(env.client, env.client.service_client.config.target_host)


async def held(operations, world, name, **fields):
    """An operation that has changed a host and is held by a person."""
    world.up_to = 1
    op = Running(world, await start(operations.client, name, **fields), name)
    await op.until(lambda s: s.changed == 1)
    await op.say("pause", reason="release")
    world.up_to = ALL
    await op.until(lambda s: not s.in_flight)
    return op


async def test_a_held_operation_ends_on_its_build_and_a_new_one_takes_the_new(operations):
    client = operations.client
    old, new = World(course(1, 3, 6, 9), client), World(course(1, 4), client)
    async with make_worker(client, old.activities, OLD):
        await make_current(operations, OLD)
        before = await held(operations, old, "before", run_events=30)
        first = (await before.handle.describe()).run_id
        async with make_worker(client, new.activities, NEW):
            await make_current(operations, NEW)
            assert await current_build(operations) == NEW
            after = Running(new, await start(client, "after"), "after")
            assert (await after.handle.result()).phase == "completed"
            assert sorted(host for host, _, _ in new.begun) == [f"host-{i:03d}" for i in range(4)]
            # Queries, updates and the memo of the held one are answered by its own build.
            assert [hold.name for hold in (await before.status()).holds] == ["operator:bob"]
            await before.say("resume")
            end = await client.get_workflow_handle(
                messages.workflow_id("before"), result_type=messages.Status
            ).result()
    assert (end.phase, end.changed) == ("completed", 9)
    assert sorted(host for host, _, _ in old.begun) == [f"host-{i:03d}" for i in range(9)]
    assert len(new.begun) == 4
    assert (await operations.known("before")).build == OLD
    assert (await operations.known("after")).build == NEW
    assert (await before.handle.describe()).run_id != first  # it was continued as new meanwhile
    found = {each.operation: each.phase for each in await operations.all()}
    assert found == {"before": "completed", "after": "completed"}


async def test_with_its_build_gone_an_operation_waits_whole_and_says_for_whom(operations):
    client = operations.client
    old, new = World(course(1, 3), client), World(course(1, 3), client)
    async with make_worker(client, old.activities, OLD):
        await make_current(operations, OLD)
        op = await held(operations, old, "before")
    async with make_worker(client, new.activities, NEW):
        await make_current(operations, NEW)
        with pytest.raises(NoWorker, match=f"before wants one of build {OLD}"):
            await operations.status("before")
        known = await operations.known("before")
        assert known.open
        assert "operator:bob: release" in known.sentence  # the memo needs no worker
        assert await operations.workers(NEW) == 1
        async with make_worker(client, old.activities, OLD):
            await op.say("resume")
            assert (await op.handle.result()).phase == "completed"
    assert new.begun == []


async def test_a_build_does_not_take_over_while_operations_of_another_are_open(operations):
    client = operations.client
    world = World(course(1, 3), client)
    async with make_worker(client, world.activities, OLD):
        await make_current(operations, OLD)
        op = await held(operations, world, "before")
        assert await take_over(operations, OLD, beside=False) == []
        with pytest.raises(Refused) as refused:
            await take_over(operations, NEW, beside=False)
        told = str(refused.value)
        assert f"before (build {OLD}): running, wave 1 of 2; held on operator:bob" in told
        assert "guardrail rollout abort NAME" in told
        assert "guardrail up --beside" in told
        beside = "\n".join(await take_over(operations, NEW, beside=True))
        assert f"before (build {OLD})" in beside
        assert f"TEMPORAL_ADDRESS={operations.address} guardrail worker" in beside
        await op.say("abort", reason="release")
        await op.handle.result()
        assert await take_over(operations, NEW, beside=False) == []


async def test_one_bound_to_no_build_would_be_taken_over_so_that_is_refused(operations):
    world = World(course(1, 3), operations.client)
    await start(operations.client, "waits")  # begun by no worker yet: whoever comes may have it
    assert await take_over(operations, NEW, beside=False) == []
    async with make_worker(operations.client, world.activities):
        await held(operations, world, "before")
    with pytest.raises(Refused, match="no build: begun by a worker without one") as refused:
        await take_over(operations, NEW, beside=True)
    assert "--beside" not in str(refused.value)


async def test_a_worker_that_joins_gets_new_operations_when_none_does_or_when_told(operations):
    client = operations.client
    assert await joins(operations, OLD, current=False) == (
        True,
        [f"new operations go to build {OLD}"],
    )
    world = World(course(1, 3), client)
    async with make_worker(client, world.activities, OLD):
        await make_current(operations, OLD)
        assert await joins(operations, OLD, current=False) == (False, [])
        becomes, told = await joins(operations, NEW, current=False)
        assert not becomes
        assert f"new operations go to build {OLD}" in told[0]
        await held(operations, world, "before")
        becomes, told = await joins(operations, NEW, current=True)
        assert becomes
        assert any(f"before (build {OLD})" in line for line in told)
        assert [each.operation for each in await open_operations(operations)] == ["before"]


async def test_a_build_without_a_worker_does_not_become_current(operations):
    began = time.monotonic()
    with pytest.raises(Unanswered, match=f"build {NEW} cannot take new operations"):
        await make_current(operations, NEW, within=0.3)
    assert time.monotonic() - began < 5
    assert await current_build(operations) == ""


async def test_a_worker_process_becomes_current_when_told_and_stops_in_order(operations, tmp_path):
    worker = [sys.executable, "-m", "guardrail_workflows.worker"]
    where = ["--address", operations.address, "--source", str(shipped_policies())]
    what = ["--store", f"file://{tmp_path}/plans", "--journal", f"file://{tmp_path}/journal"]
    what += ["--build-id", NEW, "--current"]
    process = await asyncio.create_subprocess_exec(*worker, *where, *what)
    try:
        async with asyncio.timeout(30):
            while await current_build(operations) != NEW:
                assert process.returncode is None
                await asyncio.sleep(0.1)
        assert await operations.workers(NEW) == 1
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_new_operations_cannot_go_to_a_worker_without_a_build():
    worker = [sys.executable, "-m", "guardrail_workflows.worker", "--current"]
    where = ["--address", "127.0.0.1:1", "--source", ".", "--store", "file:///nowhere"]
    where += ["--journal", "file:///nowhere"]
    ended = subprocess.run([*worker, *where], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "--current needs a --build-id" in ended.stderr


# ---------------------------------------------------------------- which build is this?


def copy_of(tmp_path, monkeypatch):
    """Two packages with a file each, in place of the installed ones."""
    for package in release.PACKAGES:
        for folder in (package, f"{package}/cli", f"{package}/__pycache__"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "one.py").write_text("1\n")
    monkeypatch.setattr(release, "_folder", lambda package: tmp_path / package)
    return build_id.__wrapped__


def test_a_build_is_known_by_the_code_that_a_worker_runs(tmp_path, monkeypatch):
    build = copy_of(tmp_path, monkeypatch)
    first = build()
    assert first == build()
    (tmp_path / "guardrail" / "cli" / "one.py").write_text("2\n")
    (tmp_path / "guardrail" / "__pycache__" / "one.py").write_text("2\n")
    assert build() == first
    seen = {first}
    for package in release.PACKAGES:
        (tmp_path / package / "one.py").write_text("2\n")
        seen.add(build())
    (tmp_path / "guardrail" / "one.py").rename(tmp_path / "guardrail" / "two.py")
    seen.add(build())
    assert len(seen) == 4


def test_a_worker_runs_nothing_that_its_build_leaves_out():
    script = "import guardrail_workflows.worker, sys; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    left_out = [f"guardrail.{folder}" for folder in release.NOT_RUN]
    assert "guardrail.decide.transition" in ran
    assert not [name for name in ran if name.startswith(tuple(left_out))]
