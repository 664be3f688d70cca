"""The rollout workflow on a real Temporal server, with made-up hands and eyes."""

import asyncio
import contextlib
from dataclasses import dataclass, field, replace

import pytest
from temporalio import activity
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError

from guardrail.decide.chain import check
from guardrail.model import messages
from guardrail.model.common import Origin
from guardrail.model.messages import HostAnswer, HostTask, MayBegin, Status
from guardrail.model.plan import ApprovalPoint, Caps, Course, GateRule, Wave
from guardrail_workflows.permits import VALID, Permits

from engine import ALL, World, operation

pytestmark = pytest.mark.temporal
HERE = Origin("policy test", "test.yaml", 1)


def course(*ends, approvals=(), bake=0.2, by="person", unavailable=2):
    waves = tuple(Wave(str(e), b, e) for b, e in zip((0, *ends[:-1]), ends, strict=True))
    gates = (GateRule("margin", "safety", 1.0, by, 0.5, 5.0, HERE, "q", "below 0.7"),)
    caps = Caps(unavailable, unavailable, 3, 0)
    domains = tuple(i % 3 for i in range(ends[-1]))
    return Course("sha256:x", "ann", waves, domains, (0, 0, 0), caps, gates, approvals, bake)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_rollout_completes_and_changes_every_host_once(server):
    world = World(course(1, 4, 9), server.client)
    async with operation(server.client, world) as op:
        end = await op.handle.result()
    assert end.phase == "completed"
    assert end.changed == 9
    assert sorted(name for name, _, _ in world.begun) == [f"host-{i:03d}" for i in range(9)]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_refused_plan_starts_nothing_and_says_why(server):
    world = World(course(3), server.client, refusals=("no host may go: all is down",))
    async with operation(server.client, world) as op:
        with pytest.raises(WorkflowFailureError) as failed:
            await op.handle.result()
    assert failed.value.cause.type == "Refused"
    assert failed.value.cause.details == ("no host may go: all is down",)
    assert world.begun == []


@pytest.mark.asyncio(loop_scope="module")
async def test_a_failing_gate_holds_and_a_person_resumes(server):
    world = World(course(1, 6), server.client, up_to=2)
    async with operation(server.client, world) as op:
        await op.until(lambda s: s.changed == 2)
        world.verdicts["margin"] = "fail"
        await op.until(lambda s: s.holds)
        world.up_to = ALL
        held = await op.until(lambda s: not s.in_flight)
        assert [hold.name for hold in held.holds] == ["gate:margin"]
        assert len(world.begun) == 2
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await op.say("resume")
        assert "nothing here is yours to clear now" in str(refused.value.cause)
        world.verdicts["margin"] = "pass"
        await op.until(lambda s: s.gates[0].judgement.verdict == "pass")
        assert len(world.begun) == 2
        await op.say("resume")
        end = await op.handle.result()
    assert (end.phase, end.changed) == ("completed", 6)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_pause_said_twice_with_one_id_is_obeyed_once(server):
    world = World(course(1, 6), server.client, up_to=0)
    async with operation(server.client, world) as op:
        await op.until(lambda s: s.phase == "running")
        first = await op.say("pause", reason="lunch", ident="one")
        again = await op.say("pause", reason="lunch", ident="one")
        assert first == again
        status = await op.status()
        assert [hold.name for hold in status.holds] == ["operator:bob"]
        assert sum("pause by bob" in note.text for note in status.story) == 1
        world.up_to = ALL
        await op.say("resume")
        assert (await op.handle.result()).phase == "completed"


@pytest.mark.asyncio(loop_scope="module")
async def test_an_approval_is_waited_for_and_the_requester_does_not_count(server):
    point = ApprovalPoint("start", 0, 1, True, HERE)
    world = World(course(2, approvals=(point,)), server.client)
    async with operation(server.client, world) as op:
        held = await op.until(lambda s: s.holds)
        assert [hold.name for hold in held.holds] == ["approval:start"]
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await op.say("approve", by="ann", point="start")
        assert "wants somebody else" in str(refused.value.cause)
        assert world.begun == []
        await op.say("approve", by="cid", point="start")
        assert (await op.handle.result()).phase == "completed"


@pytest.mark.asyncio(loop_scope="module")
async def test_an_unknown_host_holds_until_a_person_retries(server):
    world = World(course(1, 3), server.client, outcomes={"host-000": ["unknown"]})
    async with operation(server.client, world) as op:
        held = await op.until(lambda s: s.holds)
        assert [hold.name for hold in held.holds] == ["host:host-000"]
        assert held.unknown == 1
        await op.say("retry", hosts=("host-000",))
        end = await op.handle.result()
    assert (end.phase, end.changed) == ("completed", 3)
    turns = [turn for name, turn, _ in world.begun if name == "host-000"]
    assert len(turns) == 2
    assert turns[0] < turns[1]


@pytest.mark.asyncio(loop_scope="module")
async def test_abort_leaves_done_hosts_done_and_says_which(server):
    world = World(course(1, 6), server.client, up_to=2)
    async with operation(server.client, world) as op:
        await op.until(lambda s: s.changed == 2)
        said = await op.say("abort", reason="wrong version")
        world.up_to = ALL
        end = await op.handle.result()
    assert end.phase == "aborted"
    assert "at most" in said.text
    assert end.changed == len(world.begun) == 2
    assert any("wrong version" in reason for reason in end.finish_reasons)
    assert int(end.changed_hosts, 16).bit_count() == end.changed


@pytest.mark.asyncio(loop_scope="module")
async def test_silent_gates_hold_and_nothing_begins(server):
    world = World(course(3), server.client, verdicts={"margin": "silent"})
    async with operation(server.client, world) as op:
        held = await op.until(lambda s: s.holds)
        assert [hold.name for hold in held.holds] == ["evidence:margin"]
        assert world.begun == []
        await op.say("abort", reason="enough")
        assert (await op.handle.result()).phase == "aborted"


@pytest.mark.asyncio(loop_scope="module")
async def test_the_memo_says_what_holds_without_a_worker(server):
    world = World(course(3), server.client, up_to=0)
    async with operation(server.client, world) as op:
        await op.until(lambda s: s.phase == "running")
        await op.say("pause", reason="lunch")
    described = await op.handle.describe()
    assert "operator:bob: lunch" in await described.memo_value(messages.MEMO_SUMMARY)
    await op.handle.terminate()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_new_run_goes_on_where_the_last_one_ended(server):
    world = World(course(1, 3, 5, 8, 12), server.client)
    async with operation(server.client, world, run_events=30) as op:
        handle = server.client.get_workflow_handle(messages.workflow_id(op.name))
        first = (await handle.describe()).run_id
        end: Status = await op.handle.result()
        last = (await handle.describe()).run_id
    assert first != last
    assert (end.phase, end.changed) == ("completed", 12)
    assert len({name for name, _, _ in world.begun}) == len(world.begun) == 12
    assert len(world.watches) == len(set(world.watches)) > 1


@pytest.mark.asyncio(loop_scope="module")
async def test_a_run_without_a_quiet_moment_is_drained(server):
    """Always something in flight in one long wave: nothing more is asked until the next run."""
    world = World(course(40, unavailable=3, bake=0.0), server.client, takes=0.05)
    async with operation(server.client, world, run_events=16) as op:
        first = (await op.handle.describe()).run_id
        end: Status = await op.handle.result()
        last = (await op.handle.describe()).run_id
    assert first != last
    assert (end.phase, end.changed) == ("completed", 40)
    assert len({name for name, _, _ in world.begun}) == len(world.begun) == 40


@pytest.mark.asyncio(loop_scope="module")
async def test_failed_hosts_are_taken_back_by_policy_newest_first(server):
    plan = replace(course(1, 3, 6, unavailable=1), rollback_when="auto")
    world = World(plan, server.client, outcomes={"host-002": ["failed"]})
    async with operation(server.client, world) as op:
        end = await op.handle.result()
    assert (end.phase, end.changed, end.reverted) == ("rolled_back", 0, 3)
    assert [name for name, _, _ in world.begun][3:] == ["host-002", "host-001", "host-000"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_person_takes_back_the_last_wave_and_then_all(server):
    world = World(course(2, 4, unavailable=1), server.client, up_to=3)
    async with operation(server.client, world) as op:
        await op.until(lambda s: s.changed == 3)
        await op.say("rollback", scope="wave", reason="odd")
        world.up_to = ALL
        held = await op.until(lambda s: any(h.name == "rollback:wave" for h in s.holds))
        assert held.changed == 2
        await op.say("rollback", scope="all")
        end = await op.handle.result()
    assert (end.phase, end.changed) == ("rolled_back", 0)


def lines_of(world, name):
    """The journal's lines; the chain must be sound."""
    checked = check(world.journal.read(name), name)
    assert checked.broken is None, checked
    return checked.lines


@pytest.mark.asyncio(loop_scope="module")
async def test_what_happens_is_in_the_journal_once_and_in_order(server):
    world = World(course(1, 3), server.client)
    async with operation(server.client, world) as op:
        await op.handle.result()
    kinds = [line.kind for line in lines_of(world, op.name)]
    assert kinds[0] == "plan"
    assert kinds[-1] == "end"
    assert kinds.count("asked") == kinds.count("answered") == 3


@pytest.mark.asyncio(loop_scope="module")
async def test_a_journal_that_cannot_be_written_holds_until_it_can(server):
    world = World(course(1, 6), server.client, up_to=1)
    async with operation(server.client, world) as op:
        await op.until(lambda s: s.changed == 1)
        world.unwritable = "no space left"
        world.up_to = 3
        held = await op.until(lambda s: s.holds)
        assert [hold.name for hold in held.holds] == ["journal"]
        assert "no space left" in held.holds[0].reasons[0]
        world.unwritable, world.up_to = "", ALL
        end = await op.handle.result()
    assert (end.phase, end.changed) == ("completed", 6)
    lines = lines_of(world, op.name)
    assert [line.sequence for line in lines] == list(range(1, len(lines) + 1))
    answers = [line.fields["outcome"] for line in lines if line.kind == "answered"]
    assert answers.count("changed") == 6


@dataclass
class Zombies(World):
    """The first attempt on host-000 falls silent before it begins, and comes back at the end."""

    told: list[MayBegin] = field(default_factory=list)
    taken_over: asyncio.Event = field(default_factory=asyncio.Event)

    @activity.defn(name=messages.CHANGE_HOST)
    async def stand_still(self, task: HostTask) -> HostAnswer:
        permits = Permits(self.ask)
        if task.index == 0 and activity.info().attempt == 1:
            self.told.append(await permits.may_begin(task.operation, task.turn, task.run))
            with contextlib.suppress(asyncio.CancelledError):
                await self.taken_over.wait()  # silent: no heartbeat for 5 s
            await asyncio.shield(self.come_back(permits, task))
        elif task.index == 1:
            while not self.taken_over.is_set() or len(self.told) < 2:
                activity.heartbeat()
                await asyncio.sleep(0.05)
        return HostAnswer(task.index, task.turn, "changed", f"host-{task.index:03d}")

    async def come_back(self, permits: Permits, task: HostTask) -> None:
        handle = self.client.get_workflow_handle(messages.workflow_id(task.operation))
        while (await handle.query(messages.STATUS, result_type=Status)).changed < 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await asyncio.sleep(VALID)
        self.told.append(await permits.may_begin(task.operation, task.turn, task.run))
        self.taken_over.set()

    async def ask(self, operation: str) -> MayBegin:
        handle = self.client.get_workflow_handle(messages.workflow_id(operation))
        return await handle.query(messages.MAY_BEGIN, result_type=MayBegin)

    @property
    def activities(self):
        return [self.plan, self.load, self.stand_still, self.watch, self.record]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_zombie_whose_turn_was_answered_is_refused_by_the_operation(server):
    """Others go on beginning meanwhile: it is its turn that is over, and nothing else."""
    world = Zombies(course(2), server.client)
    async with operation(server.client, world) as op:
        end = await op.handle.result()
    assert (end.phase, end.changed) == ("completed", 2)
    first, last = world.told
    assert first.allowed
    assert (last.allowed, last.turns) == (False, (2,))
    assert "turn 1 is not in flight any more" in last.reason
