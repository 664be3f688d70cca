"""Changed hosts are read again by an activity, window by window, and what it finds holds."""

import time
from dataclasses import replace

import pytest
from temporalio import activity
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from test_rollout import course

from guardrail.decide.chain import check
from guardrail.model import messages
from guardrail.model.journal import HostsReread
from guardrail.model.operation import HostFound
from guardrail_workflows.read_again import WINDOW, windows

from engine import ALL, World, operation, stands

pytestmark = pytest.mark.temporal


def test_hosts_are_cut_into_windows_of_the_plan():
    hosts = 1 | 1 << 999 | 1 << 1000 | 1 << 5500
    assert list(windows(hosts)) == [1 | 1 << 999, 1 << 1000, 1 << 5500]
    assert max(len(f"{part:x}") for part in windows((1 << 100_000) - 1)) <= 100_000 / 4 + 1
    assert sum(part.bit_count() for part in windows((1 << 3_500) - 1)) == 3_500
    assert WINDOW == 1_000


@pytest.mark.asyncio(loop_scope="module")
async def test_a_host_put_back_by_hand_holds_until_it_is_changed_again(server):
    wrong = HostFound(1, "host-001", "at 1, and was brought to 2")
    plan = replace(course(1, 3), reread=100)
    world = World(plan, server.client, reread=[(), (wrong,)], arrivals=("host-new",))
    async with operation(server.client, world) as op:
        status = await op.until(stands("reverted"))
        (hold,) = status.holds
        assert hold.reasons == ("host-001 is at 1, and was brought to 2",)
        assert status.changed == 2
        await op.say("retry", hosts=("host-001",))
        end = await op.handle.result()
    assert (end.phase, end.changed) == ("completed", 3)
    assert end.finish_reasons == (
        "3 of 3 hosts changed; 1 host came since the plan was made and is left out: host-new",
    )
    assert [name for name, _, _ in world.begun].count("host-001") == 2
    assert [int(task.hosts, 16) for task in world.readings] == [1, 7, 7]
    lines = check(world.journal.kept[op.name]).lines
    told = [line.record for line in lines if isinstance(line.record, HostsReread)]
    assert [len(record.wrong) for record in told] == [0, 1, 0]


class Unreadable(World):
    """The first readings end in an error."""

    left = 3

    @activity.defn(name=messages.REREAD_HOSTS)
    async def read_again(self, task):
        if self.left:
            self.left -= 1
            raise ApplicationError("the plan store is silent", type="Unanswered")
        return await World.read_again(self, task)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_reading_that_breaks_holds_and_says_why(server):
    world = Unreadable(replace(course(2), reread=100), server.client)
    async with operation(server.client, world) as op:
        status = await op.until(stands("reread"))
        assert "the plan store is silent" in status.holds[0].reasons[0]
        assert status.phase == "running"
        await op.say("abort")
        assert (await op.handle.result()).phase == "aborted"


@pytest.mark.asyncio(loop_scope="module")
async def test_after_a_long_hold_what_has_moved_is_accepted_by_name(server):
    plan = replace(course(1, 3), observe_after=0.5)
    world = World(plan, server.client, up_to=1, moved=[("1 host went: host-009",)])
    async with operation(server.client, world) as op:
        await op.until(lambda s: s.changed == 1)
        await op.say("pause")
        world.up_to = ALL
        long = time.monotonic() + 0.7
        await op.until(lambda _: time.monotonic() > long)
        await op.say("resume")
        status = await op.until(stands("plan"))
        assert status.holds[0].reasons == ("since the plan was made: 1 host went: host-009",)
        with pytest.raises(WorkflowUpdateFailedError):
            await op.say("resume")
        await op.say("resume", over="plan", reason="it was scrapped")
        end = await op.handle.result()
    assert (end.phase, end.changed) == ("completed", 3)
