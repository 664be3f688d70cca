"""An operation holds, and the mail arrives: real Temporal, real mail server, real web hook."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from receivers import mail_box, web_hook
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Replayer
from test_rollout import course

from guardrail.decide import chain, notices
from guardrail.edges.converter import CONVERTER
from guardrail.edges.deployment import make_current
from guardrail.edges.notices import Bulletin
from guardrail.edges.notify import Channels
from guardrail.edges.temporal import Operations
from guardrail.model import messages
from guardrail.model.board import HEAR, NOTICES, NOTICES_ID, NoticesInput, Tiding, Tidings
from guardrail.model.common import Origin, Secret
from guardrail.model.journal import NOTICES as NOTICES_JOURNAL
from guardrail.model.journal import NoticeGiven
from guardrail.model.messages import Planned, PlanRequest
from guardrail.model.notice import Channel
from guardrail.model.plan import ApprovalPoint
from guardrail_workflows import telling
from guardrail_workflows.notices import NoticesWorkflow
from guardrail_workflows.notifying import Notifying
from guardrail_workflows.rollout import RolloutWorkflow
from guardrail_workflows.worker import make_worker, sandbox

from engine import ALL, World, operation, real_server

pytestmark = pytest.mark.temporal
SECRET = "t0ken-of-the-hook"
START = ApprovalPoint("start", 0, 1, False, Origin("policy test", "test.yaml", 1))


@dataclass
class Telling(World):
    """A world whose worker has channels."""

    channels: Sequence[Channel] = ()
    dumb: bool = False
    tellings: list[Tidings] = field(default_factory=list)

    @activity.defn(name=messages.PLAN_OPERATION)
    async def plan(self, request: PlanRequest) -> Planned:
        return replace(await World.plan(self, request), notices=bool(self.channels))

    @property
    def activities(self):
        telling = Notifying(self.client, Channels(lambda: self.channels))

        @activity.defn(name="tell_notices")
        async def tell(tidings: Tidings) -> None:
            if self.dumb:
                raise ApplicationError("nobody there", type="Unanswered")
            self.tellings.append(tidings)
            await telling.tell(tidings)

        return [*World.activities.fget(self), tell, *telling.all[1:]]


@pytest.fixture(autouse=True)
async def nothing_before(server):
    """Each test has a board of its own: there is one in a namespace."""
    yield
    try:
        await server.client.get_workflow_handle(NOTICES_ID).terminate()
    except RPCError:
        return


@pytest.fixture
def box():
    with mail_box() as box:
        yield box


@pytest.fixture
def hook():
    with web_hook() as hook:
        yield hook


@pytest.fixture
def channels(box, hook, monkeypatch):
    """A pager that is asked first, and mail where it fails."""
    monkeypatch.setenv("PAGER_URL", hook.url(f"/{SECRET}"))
    monkeypatch.setenv("MAIL_URL", box.url())
    quick = {"wait": 0.01, "tries": 2, "timeout": 5.0}
    pager = Channel("pager", Secret("env", "PAGER_URL"), otherwise="mail", **quick)
    mail = Channel("mail", Secret("env", "MAIL_URL"), ("finish",), **quick)
    return (pager, mail)


async def until(what, limit=25.0):
    end = time.monotonic() + limit
    while not what():
        assert time.monotonic() < end, "it did not come about in time"
        await asyncio.sleep(0.05)


def given(world: Telling, name: str) -> list[NoticeGiven]:
    """What the journal of that name has of messages; the journal is sound."""
    if name not in world.journal.kept:
        return []
    checked = chain.check(world.journal.read(name), name)
    assert checked.broken is None
    return [line.record for line in checked.lines if isinstance(line.record, NoticeGiven)]


@pytest.mark.asyncio(loop_scope="module")
async def test_an_operation_holds_and_the_mail_arrives_since_the_pager_refuses(
    server, channels, box, hook
):
    """The whole way: the message, its end, the journal, and that no address is anywhere."""
    hook.answers = [500]
    client = server.client
    world = Telling(course(1, 6), client, up_to=2, channels=channels)
    async with operation(client, world) as op:
        await op.until(lambda s: s.changed == 2)
        world.verdicts["margin"] = "fail"
        await op.until(lambda s: s.holds)
        world.up_to = ALL
        await op.until(lambda s: not s.in_flight)
        await until(lambda: box.mails)
        (mail,) = box.mails
        assert mail.subject == f"guardrail: {op.name} is held on gate:margin"
        state, unless, command = mail.text.strip().splitlines()[-3:]
        assert state.startswith(f"{op.name}: held on gate:margin; ")
        assert unless.startswith("If nobody acts ")
        assert command == f"guardrail rollout explain {op.name}"
        assert hook.paths == [f"/{SECRET}"] * 2
        await until(lambda: len(given(world, op.name)) == 2)
        world.verdicts["margin"] = "pass"
        await op.until(lambda s: s.gates[0].judgement.verdict == "pass")
        await op.say("resume")
        end = await op.handle.result()
        assert end.phase == "completed"
        await until(lambda: len(box.mails) == 2)
        assert box.mails[1].subject == f"guardrail: {op.name} has completed"
        await until(lambda: len(given(world, op.name)) == 4)
        board = client.get_workflow_handle(NOTICES_ID)
        histories = [await each.fetch_history() for each in (op.handle, board)]
    refused, taken = given(world, op.name)[:2]
    assert (refused.channel, refused.sent, refused.why, refused.tries) == (
        "pager", False, "it answered HTTP 500", 2,
    )  # fmt: skip
    assert (taken.channel, taken.sent, taken.message) == ("mail", True, "hold")
    for history in histories:
        text = history.to_json()
        assert SECRET not in text
        assert str(box.port) not in text
        assert "127.0.0.1" not in text
    assert SECRET.encode() not in world.journal.read(op.name)
    replayer = Replayer(
        workflows=[RolloutWorkflow, NoticesWorkflow],
        data_converter=CONVERTER,
        workflow_runner=sandbox(),
    )
    for history in histories:
        await replayer.replay_workflow(history)


@pytest.mark.asyncio(loop_scope="module")
async def test_approvals_that_are_wanted_are_told_to_whoever_gets_them(server, channels, hook):
    world = Telling(course(2, approvals=(START,)), server.client, channels=channels)
    async with operation(server.client, world) as op:
        await until(lambda: hook.got)
        assert hook.got[0]["title"] == f"guardrail: {op.name} waits for approval at start"
        assert hook.got[0]["message"].splitlines()[-1].startswith("guardrail rollout approve")
        await op.say("abort", reason="enough")
        await op.handle.result()
        await until(lambda: len(hook.got) == 2)
        assert hook.got[1]["title"] == f"guardrail: {op.name} was aborted"


@pytest.mark.asyncio(loop_scope="module")
async def test_without_channels_nothing_of_this_is_in_history(server):
    world = Telling(course(1, 3), server.client)
    async with operation(server.client, world) as op:
        assert (await op.handle.result()).phase == "completed"
        history = (await op.handle.fetch_history()).to_json()
    assert "tell_notices" not in history
    assert world.tellings == []


@pytest.mark.asyncio(loop_scope="module")
async def test_a_rollout_goes_on_and_ends_though_nothing_can_be_told(server, channels):
    world = Telling(course(1, 4, approvals=(START,)), server.client, channels=channels, dumb=True)
    async with operation(server.client, world) as op:
        await op.until(lambda s: s.holds)
        await op.say("approve", point="start")
        status = await op.until(lambda s: s.phase == "completed")
        assert status.changed == 4
        world.dumb = False
        assert (await op.handle.result()).phase == "completed"


@pytest.mark.asyncio(loop_scope="module")
async def test_an_operation_that_goes_on_in_a_new_run_tells_what_stands_once(
    server, channels, hook
):
    """Each run tells it anew, in case the last one was cut off; it is said once."""
    world = Telling(course(*range(1, 25)), server.client, channels=channels)
    async with operation(server.client, world, run_events=120) as op:
        world.verdicts["margin"] = "fail"
        handle = server.client.get_workflow_handle(op.handle.id, result_type=messages.Status)
        running = replace(op, handle=handle)
        await running.until(lambda s: s.holds)
        await until(lambda: hook.got)
        world.verdicts["margin"] = "pass"
        await running.until(lambda s: s.gates[0].judgement.verdict == "pass")
        await running.say("resume")
        assert (await handle.result()).phase == "completed"
        await until(lambda: len(hook.got) == 2)
    runs = [told for told in world.tellings if not told.standing]
    assert len(runs) >= 2, "it went on in one run only, which shows nothing"
    assert [got["title"].rpartition(" ")[2] for got in hook.got] == ["gate:margin", "completed"]


@pytest.mark.asyncio(loop_scope="module")
async def test_what_stands_is_known_again_after_the_board_was_ended_by_force(
    server, channels, hook, monkeypatch
):
    monkeypatch.setattr(telling, "TOLD_AGAIN", timedelta(seconds=1))
    world = Telling(course(2, approvals=(START,)), server.client, channels=channels)
    async with operation(server.client, world) as op:
        await until(lambda: hook.got)
        await server.client.get_workflow_handle(NOTICES_ID).terminate()
        await until(lambda: len(hook.got) == 2)
        assert hook.got[1]["title"] == f"guardrail: {op.name} waits for approval at start"
        count = len(world.tellings)
        await until(lambda: len(world.tellings) >= count + 3)
        assert len(hook.got) == 2  # telling it again and again is no news
        await op.say("abort", reason="enough")
        await op.handle.result()


# ---------------------------------------------------------------- the board by itself


@asynccontextmanager
async def a_board(client: Client, world: Telling):
    async with make_worker(client, world.activities):
        yield Bulletin(client)


def held(number: int, at: float) -> Tidings:
    lines = ("why", "held", "If nobody acts nothing more is changed.", "guardrail rollout list")
    standing = Tiding("hold:gate:x", "hold", "is held on gate:x", "are held on gate:x", lines)
    return Tidings(f"op-{number:04d}", f"run-{number}", 1, at, (standing,))


@pytest.mark.asyncio(loop_scope="module")
async def test_a_thousand_identical_holds_make_one_message(server, channels, hook):
    world = Telling(course(1), server.client, channels=channels)
    async with a_board(server.client, world) as board:
        for begin in range(0, 1000, 50):
            await asyncio.gather(
                *(board.tell(held(n, time.time())) for n in range(begin, begin + 50))
            )
        await until(lambda: hook.got, limit=60.0)
        assert len(hook.got) == 1
        assert hook.got[0]["title"] == "guardrail: 1000 operations are held on gate:x"
        assert "and 980 more" in hook.got[0]["message"].splitlines()[0]
        (group,) = (await board.board()).groups
        assert all(member.said for member in group.members)
        await until(lambda: given(world, NOTICES_JOURNAL))
    (record,) = given(world, NOTICES_JOURNAL)
    assert (record.operations, record.sent) == (1000, True)


@pytest.mark.asyncio(loop_scope="module")
async def test_what_nobody_took_is_said_once_somebody_does(
    server, channels, hook, box, monkeypatch
):
    monkeypatch.setattr(notices, "RETRIES", (2.0,))
    hook.answers, box.refuse = [500, 500, 200], ["554 no"]
    world = Telling(course(1), server.client, channels=channels)
    async with a_board(server.client, world) as board:
        await board.tell(held(1, time.time()))
        await until(lambda: hook.got)
        await until(lambda: len(given(world, "op-0001")) == 3)
    told = [(each.channel, each.sent) for each in given(world, "op-0001")]
    assert told == [("pager", False), ("mail", False), ("pager", True)]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_board_goes_on_in_a_new_run_with_all_that_was_said(server, channels, hook):
    world, client = Telling(course(1), server.client, channels=channels), server.client
    async with a_board(client, world) as board:
        await client.start_workflow(
            NOTICES, NoticesInput(run_events=40), id=NOTICES_ID, task_queue=messages.TASK_QUEUE
        )
        first = (await client.get_workflow_handle(NOTICES_ID).describe()).run_id
        handle = client.get_workflow_handle(NOTICES_ID)
        number, later = 1, first
        end = time.monotonic() + 30
        while later == first:
            assert time.monotonic() < end, "it never went on in a new run"
            await handle.signal(HEAR, replace(held(1, time.time()), number=number))
            number += 1
            await asyncio.sleep(0.5)
            later = (await handle.describe()).run_id
        await asyncio.sleep(0.5)
        assert [group.like for group in (await board.board()).groups] == ["hold:gate:x"]
    assert len(hook.got) == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_what_was_told_while_no_worker_was_there_is_said_once_one_is(server, channels, hook):
    world = Telling(course(1), server.client, channels=channels)
    await Bulletin(server.client).tell(held(1, time.time()))
    assert hook.got == []
    async with a_board(server.client, world):
        await until(lambda: hook.got)
    assert hook.got[0]["title"] == "guardrail: op-0001 is held on gate:x"


async def test_a_later_build_that_decides_otherwise_carries_on(channels, hook, monkeypatch):
    """The board outlives builds: what an earlier one decided is in history, and is not decided
    again when the later one replays it."""
    async with real_server() as env:
        client, operations = env.client, Operations(env.client, "here")
        world = Telling(course(1), client, channels=channels)
        async with make_worker(client, world.activities, "build-a"):
            await make_current(operations, "build-a")
            await Bulletin(client).tell(held(1, time.time()))
            await until(lambda: hook.got)
        monkeypatch.setattr(notices, "GATHER", 6.0)
        monkeypatch.setattr(notices, "JOINS", (0.5,))
        monkeypatch.setattr(notices, "REPEATS", (5_000.0,))
        async with make_worker(client, world.activities, "build-b"):
            await make_current(operations, "build-b")
            await Bulletin(client).tell(held(2, time.time()))
            await until(lambda: len(hook.got) == 2)
            kept = await Bulletin(client).board()
        told = [(member.operation, member.said) for member in kept.groups[0].members]
        assert told == [("op-0001", True), ("op-0002", True)]
        history = (await client.get_workflow_handle(NOTICES_ID).fetch_history()).to_json()
        assert "WORKFLOW_TASK_FAILED" not in history
    assert hook.got[1]["message"].splitlines()[0] == "2 operations: op-0002, op-0001."
    assert hook.got[1]["message"].splitlines()[2] == "1 of them newly."
