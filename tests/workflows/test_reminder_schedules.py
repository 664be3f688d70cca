"""Reminders on a real Temporal server: their schedules, and a worker that goes away."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from decide.reminders import TASKS, moment, reminder
from reminder_world import Told
from temporalio import activity, workflow
from temporalio.client import ScheduleIntervalSpec, ScheduleSpec, ScheduleUpdate
from temporalio.worker import Replayer

from guardrail.decide import reminding
from guardrail.edges.converter import CONVERTER
from guardrail.edges.reminders import Reminding
from guardrail.errors import Refused
from guardrail.files import load
from guardrail.model import remind
from guardrail.model.occasion import Occasion
from guardrail.model.remind import REMINDER, ReminderInput, Word, reminder_id
from guardrail.model.reminder import Lead, People, Wanted
from guardrail_workflows.reminder import ReminderWorkflow, UpgradedReminderWorkflow
from guardrail_workflows.reminding import Reminders
from guardrail_workflows.worker import sandbox

pytestmark = pytest.mark.temporal
DOCUMENT = """\
apiVersion: guardrail/v1
kind: Reminder
metadata: {name: NAME}
spec:
  prescale: transit gateway
  occasion: {timezone: Pacific/Auckland, date: DAY}
  leads: {ticket: [LEAD]}
  people: {owner: ann, deputy: bob, channel: oncall}
  steps: [{name: ask, title: ask, request: ticket, evidence: {ticket: "CASE-[0-9]+"}}]
"""


async def until(holds, limit: float = 20.0):
    """Until something holds; what is asked is in another process, so no event tells."""
    async with asyncio.timeout(limit):
        while not (found := holds()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return found


async def waits(handle):
    """The history of a run once it has set its timer; without one a replay never ends."""
    async with asyncio.timeout(20):
        while True:
            found = await handle.fetch_history()
            if any(event.HasField("timer_started_event_attributes") for event in found.events):
                return found
            await asyncio.sleep(0.05)


async def owner_of(desk: Reminding, of: str) -> str:
    return (await desk.state(of)).wanted.reminder.people.owner


async def client_of(server):
    from temporalio.client import Client

    return await Client.connect(
        server.client.service_client.config.target_host, data_converter=CONVERTER
    )


@pytest.mark.asyncio(loop_scope="module")
async def test_a_schedule_fires_is_paused_triggered_and_backfilled(server):
    client = await client_of(server)
    told, desk = Told(), Reminding(client)
    ours = reminder(name="scheduled", occasion=Occasion("Pacific/Auckland"), digest="sha256:1")
    async with told.worker(client):
        assert await desk.keep([ours]) == ("scheduled",)
        await until(lambda: len(told.looks) == 1)  # new ones look at once
        assert await desk.keep([ours]) == ()
        known = (await desk.schedules.of("scheduled")).schedule
        assert known.spec.time_zone_name == "Pacific/Auckland"
        assert known.policy.catchup_window == timedelta(days=366)

        handle = client.get_schedule_handle("guardrail-remind/scheduled")
        every = ScheduleSpec(intervals=[ScheduleIntervalSpec(timedelta(seconds=1))])

        def quickly(given):
            given.description.schedule.spec = every
            return ScheduleUpdate(given.description.schedule)

        await handle.update(quickly)
        await until(lambda: len(told.looks) >= 3)  # it fires
        await desk.schedules.pause("scheduled", "as the test says")
        info = await desk.schedules.of("scheduled")
        assert info.schedule.state.paused
        await until(lambda: len(told.looks) >= info.info.num_actions)
        count = len(told.looks)
        await asyncio.sleep(2.5)  # two times of an interval that does not fire
        assert len(told.looks) == count
        await desk.schedules.trigger("scheduled")
        await until(lambda: len(told.looks) == count + 1)

        changed = reminder(name="scheduled", occasion=Occasion("Asia/Tokyo"), digest="sha256:2")
        assert await desk.keep([changed]) == ("scheduled",)
        assert (await desk.schedules.of("scheduled")).schedule.state.paused  # that stays
        await until(lambda: len(told.looks) == count + 2)
        await desk.schedules.resume("scheduled", "as the test says")
        last = datetime(2026, 11, 20, tzinfo=UTC).timestamp()
        await desk.schedules.backfill("scheduled", last - 3 * 86_400, last)
        looks = await until(lambda: told.looks[count + 2 :] if len(told.looks) > count + 4 else [])
    zone = ZoneInfo("Asia/Tokyo")
    times = sorted(datetime.fromtimestamp(look.at, zone) for look in looks)
    assert [(at.day, at.hour, at.minute) for at in times] == [(17, 12, 0), (18, 12, 0), (19, 12, 0)]
    with pytest.raises(Refused, match="nobody has no schedule"):
        await desk.schedules.of("nobody")


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_near_in_the_source_is_begun_once_and_what_changes_is_heard(server, tmp_path):
    client = await client_of(server)
    day = datetime.now(ZoneInfo("Pacific/Auckland")).date() + timedelta(days=5)
    text = DOCUMENT.replace("NAME", "near").replace("DAY", str(day)).replace("LEAD", "10d")
    far = DOCUMENT.replace("NAME", "far").replace("DAY", str(day + timedelta(days=300)))
    file = tmp_path / "reminder.yaml"
    file.write_text(f"{text}---\n{far.replace('LEAD', '10d')}")
    told, desk = Told(), Reminding(client)
    real = Reminders(client, tmp_path)
    async with told.worker(client, real):
        await desk.keep(load([tmp_path]).reminders)
        await until(lambda: told.sent)
        assert [to for _, to in told.sent[f"near/{day}"]] == [("ann",)]
        assert set(told.sent) == {f"near/{day}"}  # the other one is far away
        await desk.schedules.trigger("near")
        file.write_text(text.replace("owner: ann", "owner: cid"))
        await desk.keep(load([tmp_path]).reminders)
        async with asyncio.timeout(20):
            while await owner_of(desk, f"near/{day}") != "cid":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert await desk.pick("near") == f"near/{day}"
        state = await desk.say(f"near/{day}", Word("1", "ack", "bob", at=time.time()))
        assert state.call.by == "bob"
        assert len(told.causes) == 1
        with pytest.raises(Refused, match="no reminder `else` is open; open: near/"):
            await desk.pick("else")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_worker_that_is_away_drops_nothing_and_says_it_once(server):
    client = await client_of(server)
    told, desk, now = Told(), Reminding(client), time.time()
    leads = tuple(Lead("ticket", before) for before in (58.0, 57.0, 56.0))
    people = People("ann", "bob", "oncall", after=3600.0)
    ours = reminder(name="away", leads=leads, people=people, verify=None)
    ours = Wanted(ours, moment(now + 60.0, key="x", lasts=10.0))
    await client.start_workflow(
        REMINDER, ReminderInput(ours), id=reminder_id(ours.id), task_queue="guardrail"
    )
    async with told.worker(client):
        await until(lambda: told.sent)
    await asyncio.sleep(max(0.0, now + 5.0 - time.time()))  # the others come meanwhile
    async with told.worker(client):
        await until(lambda: len(told.causes) > 1)
        state = await desk.state(ours.id)
    assert set(state.settled) == set(leads)
    assert len(told.causes) == len(set(told.causes)) <= 3


@pytest.mark.asyncio(loop_scope="module")
async def test_a_later_build_that_decides_otherwise_carries_it_on(server, monkeypatch):
    """What it replays of a reminder that waits is a timer, and no decision."""
    client = await client_of(server)
    told, desk, now = Told(), Reminding(client), time.time()
    made = reminder(name="built", leads=(Lead("ticket", 7200.0),), tasks=TASKS[:1], verify=None)
    ours = Wanted(made, moment(now + 3600.0))
    handle = await client.start_workflow(
        REMINDER, ReminderInput(ours), id=reminder_id(ours.id), task_queue="guardrail"
    )
    first = handle.first_execution_run_id
    async with told.worker(client):
        await until(lambda: told.sent)
        state = await desk.say(ours.id, Word("1", "ack", "bob", at=time.time()))
        assert state.call.by == "bob"
        assert await desk.state(ours.id) == state
        latest = client.get_workflow_handle(reminder_id(ours.id))
        waiting = await waits(latest)
    replayer = Replayer(
        workflows=[ReminderWorkflow], data_converter=CONVERTER, workflow_runner=sandbox()
    )
    begun = client.get_workflow_handle(reminder_id(ours.id), run_id=first)
    await replayer.replay_workflow(await begun.fetch_history())  # this build, all that it decided

    def otherwise(*_):
        raise AssertionError("nothing is decided in a replay of what waits")

    monkeypatch.setattr(reminding, "remind", otherwise)
    quiet = replace(reminding.begin(ours, now), actions=())
    monkeypatch.setattr(reminding, "begin", lambda *_: quiet)
    monkeypatch.setattr(reminding, "wake_at", lambda state: state.at + 7.0)
    await replayer.replay_workflow(waiting)
    with pytest.raises(workflow.NondeterminismError):  # the one that did decide
        await replayer.replay_workflow(await begun.fetch_history())


@pytest.mark.parametrize("kind", [ReminderWorkflow, UpgradedReminderWorkflow])
def test_a_reminder_answers_to_the_names_the_library_uses(kind):
    found = workflow._Definition.must_from_class(kind)
    assert found.name == REMINDER
    assert set(found.updates) == {remind.REMIND_SAY}
    assert set(found.signals) == {remind.AMENDED}
    assert set(found.queries) == {remind.REMINDER_STATE}


def test_the_activities_have_the_names_the_library_uses(tmp_path):
    real = Reminders(None, tmp_path).all
    names = {activity._Definition.must_from_callable(each).name for each in real}
    assert names == {remind.TELL_TIME, remind.READ_REMINDER, remind.BEGIN_REMINDERS}
