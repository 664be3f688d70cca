"""Leases on a real Temporal server: two operations on one role, and what kills do to them."""

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
from leasing_world import Leasing, begin, needing
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError
from temporalio.worker import Replayer
from test_rollout import course

from guardrail.decide import leases
from guardrail.decide.chain import check
from guardrail.edges import leases as edge
from guardrail.edges.deployment import make_current
from guardrail.edges.leases import Desk
from guardrail.edges.temporal import Operations
from guardrail.errors import Refused
from guardrail.model import messages
from guardrail.model.lease import (
    LEASES_ID,
    Break,
    Claim,
    Done,
    Holder,
    LeasesInput,
    Share,
    Wanted,
)
from guardrail_workflows.leases import LeasesWorkflow
from guardrail_workflows.worker import make_worker, sandbox

from engine import ALL, real_server

pytestmark = pytest.mark.temporal
ONE = Share(1, 1, 1)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A lease lasts 4 s instead of 30; the proportions are the real ones."""
    monkeypatch.setattr(leases, "LAST_FOR", 4.0)
    monkeypatch.setattr(edge, "RENEW_EVERY", 1.0)
    monkeypatch.setattr(edge, "LATE", 0.5)
    monkeypatch.setattr(edge, "LOOK_EVERY", 0.2)
    monkeypatch.setattr(edge, "ORPHANS_EVERY", 0.5)


@asynccontextmanager
async def world_of(server, **courses):
    """A worker, and operations by these names to start on it."""
    world = Leasing(course(1), server.client, courses=courses)
    async with make_worker(server.client, world.activities):
        yield world


def names(status):
    return [hold.name for hold in status.holds]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_second_waits_for_the_first_and_names_it(server):
    async with world_of(server, one=needing(2), two=needing(2)) as world:
        world.hang = asyncio.Event()
        one = await begin(world, "one")
        await one.until(lambda s: s.in_flight)
        two = await begin(world, "two", requester="bea")
        held = await two.until(lambda s: s.holds)
        assert names(held) == ["lease"]
        assert "memcached is held by one (ann: agent 1 to 2) since" in held.holds[0].reasons[0]
        world.hang.set()
        ends = [await op.handle.result() for op in (one, two)]
        table = await Desk(server.client).table()
    assert [(end.phase, end.changed) for end in ends] == [("completed", 2), ("completed", 2)]
    assert (table.leases, table.waiting) == ((), ())
    tokens = dict(world.tokens)
    assert 0 < tokens["one"] < tokens["two"]
    last = max(end for name, _, end in world.spans if name == "one")
    assert last < min(start for name, start, _ in world.spans if name == "two")


@pytest.mark.asyncio(loop_scope="module")
async def test_an_urgent_one_makes_the_first_yield_and_it_goes_on_after_a_bake(server):
    async with world_of(server, slow=needing(6), now=needing(1)) as world:
        world.hang = asyncio.Event()
        slow = await begin(world, "slow")
        await slow.until(lambda s: s.in_flight)
        now = await begin(world, "now", priority="urgent", requester="bea")
        held = await slow.until(lambda s: "yield" in names(s))
        assert "now is urgent (bea: agent 1 to 2)" in held.holds[0].reasons[0]
        world.hang.set()
        urgent = await now.handle.result()
        end = await slow.handle.result()
    assert (urgent.phase, end.phase, end.changed) == ("completed", "completed", 6)
    ours = [(start, end) for name, start, end in world.spans if name == "now"]
    for name, start, done in world.spans:
        assert name == "now" or done <= ours[0][0] or start >= ours[0][1]
    assert any(name == "slow" and start > ours[0][1] for name, start, _ in world.spans)


@pytest.mark.asyncio(loop_scope="module")
async def test_who_is_terminated_leaves_an_orphan_that_blocks_until_a_person_breaks_it(server):
    async with world_of(server, dead=needing(3), next=needing(1)) as world:
        desk = Desk(server.client)
        world.hang = asyncio.Event()
        dead = await begin(world, "dead")
        await dead.until(lambda s: s.in_flight)
        await dead.handle.terminate("as the test says")
        world.hang.set()
        other = await begin(world, "next")
        held = await other.until(
            lambda s: s.holds and "orphaned: not renewed since" in s.holds[0].reasons[0], 15
        )
        assert names(held) == ["lease"]
        begun = len(world.begun)
        with pytest.raises(Refused, match="nobody holds web; held are: memcached"):
            await desk.break_lease(Break("web", "cid", "gone"))
        await desk.break_lease(Break("memcached", "cid", "dead is dead"))
        end = await other.handle.result()
        assert (end.phase, len(world.begun)) == ("completed", begun + 1)
        lines = await recorded(world, "dead", "lease_broken")
    assert lines[0].fields["reason"] == "dead is dead"


@pytest.mark.asyncio(loop_scope="module")
async def test_an_orphan_whose_hosts_were_read_and_serve_is_ended_without_a_person(server):
    async with world_of(server, gone=needing(3), after_it=needing(1)) as world:
        world.hang = asyncio.Event()
        gone = await begin(world, "gone")
        await gone.until(lambda s: s.in_flight)
        await gone.handle.terminate("as the test says")
        world.hang.set()
        world.looks = ["steps may run on its hosts for 1 s more", "host-000 runs nothing", ""]
        other = await begin(world, "after_it")
        end = await other.handle.result()
        lines = await recorded(world, "gone", "lease_broken")
    assert end.phase == "completed"
    assert world.looks == [""]
    assert (lines[0].fields["by"], len(lines)) == ("guardrail", 1)
    assert "its hosts were read: all of them serve" in lines[0].fields["reason"]


async def free(server):
    """Until nobody holds a lease; what is asked is not in this process, so no event tells."""
    async with asyncio.timeout(10):
        while (await Desk(server.client).table()).leases:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def recorded(world, operation, kind):
    """The journal's lines of that kind, once there are any."""
    async with asyncio.timeout(10):
        while True:
            checked = check(world.journal.read(operation), operation)
            assert checked.broken is None
            if found := [line for line in checked.lines if line.kind == kind]:
                return found
            await asyncio.sleep(0.05)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_broken_holder_begins_nothing_until_a_person_resumes(server):
    async with world_of(server, broken=needing(4)) as world:
        world.up_to = 1
        op = await begin(world, "broken")
        await op.until(lambda s: s.changed)
        await Desk(server.client).break_lease(Break("memcached", "cid", "mine now"))
        await op.until(lambda s: "lease" in names(s))
        world.up_to = ALL
        held = await op.until(lambda s: not s.in_flight)
        assert held.holds[0].reasons == ("the lease on memcached was broken by cid: mine now",)
        await free(server)
        begun = len(world.begun)
        assert (await op.status()).changed == held.changed
        await op.say("resume")
        end = await op.handle.result()
    assert (end.phase, end.changed) == ("completed", 4)
    assert len(world.begun) == 4 > begun


@pytest.mark.asyncio(loop_scope="module")
async def test_an_operation_carried_on_in_new_runs_keeps_its_lease(server):
    async with world_of(server, long=needing(2, 5, 9, 14, 20)) as world:
        op = await begin(world, "long", run_events=90)
        handle = server.client.get_workflow_handle(messages.workflow_id("long"))
        first = (await handle.describe()).run_id
        end = await op.handle.result()
        last = (await handle.describe()).run_id
        table = await Desk(server.client).table()
    assert first != last
    assert (end.phase, end.changed) == ("completed", 20)
    assert table.leases == ()
    assert all(token for _, token in world.tokens)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_table_that_is_terminated_goes_on_with_what_it_knew(server):
    async with world_of(server, kept=needing(3), after=needing(1)) as world:
        world.hang = asyncio.Event()
        desk = Desk(server.client)
        one = await begin(world, "kept")
        await one.until(lambda s: s.in_flight)
        before = await desk.table()
        await server.client.get_workflow_handle(LEASES_ID).terminate("as the test says")
        two = await begin(world, "after")
        held = await two.until(lambda s: s.holds)
        assert "held by kept" in held.holds[0].reasons[0]
        world.hang.set()
        ends = [await op.handle.result() for op in (one, two)]
        after = await desk.table()
    assert [end.phase for end in ends] == ["completed", "completed"]
    assert before.leases[0].token < after.last


@pytest.mark.asyncio(loop_scope="module")
async def test_the_table_goes_on_as_new_and_loses_nobody(server, monkeypatch):
    async with world_of(server) as world:
        desk = Desk(server.client)
        monkeypatch.setattr(edge, "LeasesInput", partial(LeasesInput, run_events=40))
        with suppress(RPCError):  # there may be none yet
            await server.client.get_workflow_handle(LEASES_ID).terminate("to begin a short one")
        holders = [
            Wanted(Holder(f"op-{n}", "ann", "a test"), 1, (Claim(f"role-{n}", True, ONE, ONE),))
            for n in range(5)
        ]
        tokens = []
        first = None
        for _ in range(10):
            tokens += [(await desk.ask(wanted)).grant.token for wanted in holders]
            handle = server.client.get_workflow_handle(LEASES_ID)
            first = first or (await handle.describe()).run_id
        assert (await handle.describe()).run_id != first
        assert len(set(tokens)) == 5
        for wanted in holders:
            await desk.give_back(Done(wanted.holder.operation, 1))
        assert world.begun == []


@pytest.mark.asyncio(loop_scope="module")
async def test_what_was_said_to_the_table_can_be_replayed(server):
    async with world_of(server):
        wanted = Wanted(Holder("last", "ann", "a test"), 1, (Claim("cold", True, ONE, ONE),))
        await Desk(server.client).ask(wanted)
    history = await server.client.get_workflow_handle(LEASES_ID).fetch_history()
    replayer = Replayer(
        workflows=[LeasesWorkflow],
        workflow_runner=sandbox(),
        data_converter=pydantic_data_converter,
    )
    await replayer.replay_workflow(history)


async def test_the_table_goes_on_under_a_later_build():
    """Operations end on their build; the table outlives them all, on whichever is current."""
    wanted = Wanted(Holder("long", "ann", "a test"), 1, (Claim("built", True, ONE, ONE),))
    tokens = []
    async with real_server() as env:
        for build in ("1-a", "2-b"):
            world = Leasing(course(1), env.client)
            async with make_worker(env.client, world.activities, build):
                await make_current(Operations(env.client, "the test's server"), build)
                tokens.append((await Desk(env.client).ask(wanted)).grant.token)
    assert tokens[0] <= tokens[1]
