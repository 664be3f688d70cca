"""Checklists on a real Temporal server: their schedules, and who hears what of them.

Prometheus is a stand-in that answers as told, or is away; what is delivered and recorded is noted.
"""

import asyncio
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from edges.prometheus_parts import StandIn, answered, stand_in
from edges.prometheus_parts import Told as Answer
from temporalio import activity, workflow
from temporalio.client import (
    Client,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    ScheduleSpec,
    ScheduleUpdate,
)
from temporalio.worker import Replayer

from guardrail.decide import check_words
from guardrail.edges.checklists import CATCH_UP, Checklists
from guardrail.edges.converter import CONVERTER
from guardrail.errors import Refused
from guardrail.files import load
from guardrail.model import board, check, journal, messages
from guardrail.model.board import Delivered
from guardrail.model.check import Gone
from guardrail.model.journal import Entry, Head, NoticeGiven, ReportMade
from guardrail.model.notice import Failed, Message, Sent
from guardrail_workflows.check import CheckWorkflow, UpgradedCheckWorkflow
from guardrail_workflows.checking import Checks
from guardrail_workflows.worker import make_worker, sandbox

pytestmark = [pytest.mark.temporal, pytest.mark.asyncio(loop_scope="module")]
LIMIT = 90.0
"""Seconds that anything may take here; what takes longer hangs."""
DOCUMENT = """\
apiVersion: guardrail/v1
kind: Checklist
metadata: {name: NAME, description: as the test says}
spec:
  schedule: {cron: "CRON", timezone: Pacific/Auckland}
  tells: [oncall]
  items:
    - {name: room, title: there is room, query: room, pass: {above: 5}, maxAge: 1h}
    - {name: quota, title: the quota is there, query: quota, pass: {above: 1}, maxAge: 1h}
---
apiVersion: guardrail/v1
kind: Source
metadata: {name: prometheus}
spec: {address: "ADDRESS", timeout: 2s}
"""
LEAP_DAY = "0 9 29 2 *"
"""A time that does not come while a test runs."""
GOOD = {"room": 9.0, "quota": 3.0}


@dataclass
class World:
    """What came of it. refusing: nobody takes a message. breaks: the worker cannot even ask."""

    prometheus: StandIn
    file: Path
    values: dict[str, float] = field(default_factory=lambda: dict(GOOD))
    refusing: bool = False
    breaks: bool = False
    sent: list[Message] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    def answer(self, query: str) -> Answer:
        """Each query by the metric in it; one without a value finds nobody there."""
        found = [value for name, value in self.values.items() if name in query]
        return answered(*found, newest=990.0) if found else Answer(500)

    @activity.defn(name=board.DELIVER)
    async def deliver(self, message: Message) -> Delivered:
        self.sent.append(message)
        given = Failed("oncall", 1.0, "refused") if self.refusing else Sent("oncall", 1.0)
        return Delivered((given,))

    @activity.defn(name=messages.RECORD)
    async def record(self, entries: list[Entry]) -> Head:
        self.entries += entries
        return Head(1, "h")

    @activity.defn(name=check.GO_THROUGH)
    async def broken(self, task: check.GoTask) -> check.Found:
        raise OSError("as the test says")

    def worker(self, client: Client):
        real = Checks(client, self.file.parent).all
        asked = [self.broken] if self.breaks else real
        return make_worker(client, [self.deliver, self.record, *asked])

    @property
    def heard(self) -> list[str]:
        return [message.subject for message in self.sent]


@contextmanager
def world(folder: Path, name: str, cron: str = LEAP_DAY):
    """A source with one checklist, which a Prometheus that answers well is asked for."""
    with stand_in(lambda _: Answer(500)) as prometheus:
        file = folder / "source" / "checklist.yaml"
        file.parent.mkdir()
        text = DOCUMENT.replace("NAME", name).replace("ADDRESS", prometheus.address)
        file.write_text(text.replace("CRON", cron))
        made = World(prometheus, file)
        prometheus.answer = made.answer
        yield made


async def until(holds, what: str):
    """The first true answer; what is asked is in another process, so no event tells."""
    give_up = time.monotonic() + LIMIT
    while not (found := await holds()):
        assert time.monotonic() < give_up, f"{what} did not come within {LIMIT:g} s"
        await asyncio.sleep(0.05)
    return found


async def client_of(server) -> Client:
    address = server.client.service_client.config.target_host
    return await Client.connect(address, data_converter=CONVERTER)


@asynccontextmanager
async def scheduled(server, folder: Path, name: str):
    """The same with its schedule, whose time does not come: what it is, and who keeps it."""
    desk = Checklists(await client_of(server))
    with world(folder, name) as made:
        await desk.keep(load([made.file]).checklists)
        yield made, desk


async def idle(desk: Checklists, name: str) -> int:
    """How many times it was gone through, once the schedule knows that no run is left."""

    async def ended():
        info = (await desk.schedules.of(name)).info
        return None if info.running_actions else (info,)

    (info,) = await until(ended, f"the end of all runs of {name}")
    return info.num_actions


async def through(desk: Checklists, name: str, action=None) -> Gone:
    """Have it gone through once, and see what came of it."""
    before = await idle(desk, name)
    await (action() if action is not None else desk.schedules.trigger(name))

    async def begun():
        info = (await desk.schedules.of(name)).info
        return info.recent_actions[-1] if info.num_actions > before else None

    run = (await until(begun, f"a run of {name}")).action
    handle = desk.client.get_workflow_handle(
        run.workflow_id, run_id=run.first_execution_run_id, result_type=Gone
    )
    return await asyncio.wait_for(handle.result(), LIMIT)


async def test_a_schedule_has_the_documents_clock_and_leaves_out_what_is_old(server, tmp_path):
    client = await client_of(server)
    desk = Checklists(client)
    with world(tmp_path, "kept", cron="30 9 1,2 * mon") as made:
        assert await desk.keep(load([made.file]).checklists) == ("kept",)
        assert await desk.keep(load([made.file]).checklists) == ()
        known = await desk.schedules.of("kept")
        schedule = known.schedule
        assert schedule.spec.time_zone_name == "Pacific/Auckland"
        assert schedule.policy.catchup_window == CATCH_UP == timedelta(hours=1)
        assert schedule.policy.overlap is ScheduleOverlapPolicy.SKIP
        # Either day is enough, as cron has it: the first two of a month, and Mondays.
        zone = ZoneInfo("Pacific/Auckland")
        times = [at.astimezone(zone) for at in known.info.next_action_times]
        assert {(at.hour, at.minute) for at in times} == {(9, 30)}
        assert all(at.day <= 2 or at.weekday() == 0 for at in times)
        assert any(at.day > 2 for at in times)
        assert any(at.weekday() != 0 for at in times)
        assert not known.info.recent_actions  # nothing before its time
        standing = await desk.standing("kept")
        assert (standing.report, standing.problem, standing.paused) == (None, "", False)
        assert standing.next_at == times[0].timestamp()
        with pytest.raises(Refused, match="the checklist nobody has no schedule"):
            await desk.standing("nobody")


async def test_it_fires_is_paused_and_triggered_and_paused_stays_paused(server, tmp_path):
    async with scheduled(server, tmp_path, "fires") as (made, desk):
        handle = desk.client.get_schedule_handle("guardrail-check/fires")
        every = ScheduleSpec(intervals=[ScheduleIntervalSpec(timedelta(seconds=1))])

        def quickly(given):
            given.description.schedule.spec = every
            return ScheduleUpdate(given.description.schedule)

        def reports():
            return [e.record for e in made.entries if isinstance(e.record, ReportMade)]

        async with made.worker(desk.client):
            await handle.update(quickly)

            async def fired():
                return len(reports()) >= 2

            await until(fired, "two times of the schedule")
            await desk.schedules.pause("fires", "the site moves")
            count, paused = await idle(desk, "fires"), time.time()
            triggered = 0
            while time.time() < paused + 3.0:  # three times of an interval that does not fire
                gone = await through(desk, "fires")
                assert gone.report.verdict == "pass", gone.report
                triggered += 1
            assert await idle(desk, "fires") == count + triggered
            made.file.write_text(made.file.read_text().replace("Auckland", "Chatham"))
            assert await desk.keep(load([made.file]).checklists) == ("fires",)
            known = (await desk.schedules.of("fires")).schedule
            assert known.spec.time_zone_name == "Pacific/Chatham"
            assert (known.state.paused, known.state.note) == (True, "the site moves")
            standing = await desk.standing("fires")
            assert (standing.paused, standing.note) == (True, "the site moves")
            assert standing.report is not None
        assert made.sent == []


async def test_who_hears_of_what_does_not_pass_and_of_the_first_that_does(server, tmp_path):
    async with scheduled(server, tmp_path, "tells") as (made, desk), made.worker(desk.client):
        first = await through(desk, "tells")
        assert (first.report.verdict, first.owed, made.sent) == ("pass", False, [])
        made.values["room"] = 3.0
        failed = await through(desk, "tells")
        await through(desk, "tells")
        assert failed.report.verdict == "fail"
        assert made.heard == ["tells: FAIL: room"] * 2  # each time
        made.values = {}  # Prometheus is away
        away = await through(desk, "tells")
        assert away.report.verdict == "inconclusive"
        assert {each.kind for each in away.report.items} == {"unreachable"}
        assert made.heard[2:] == ["tells: not known: room, quota"]
        made.values = dict(GOOD)
        again = await through(desk, "tells")
        assert (again.report.verdict, again.owed) == ("pass", False)
        assert made.heard[3:] == ["tells: passes again"]
        await through(desk, "tells")
        assert len(made.heard) == 4  # it passed before
        standing = await desk.standing("tells")
        assert standing.report is not None
        assert standing.report.verdict == "pass"
    assert {message.to for message in made.sent} == {("oncall",)}
    assert made.sent[0].lines[-1] == "guardrail season report tells"
    kept = [entry for entry in made.entries if entry.operation == journal.NOTICES]
    assert [entry.record.subject for entry in kept] == made.heard
    assert all(isinstance(e.record, NoticeGiven) and e.record.sent for e in kept)
    reports = [entry for entry in made.entries if entry.operation == journal.CHECKS]
    verdicts = ["pass", "fail", "fail", "inconclusive", "pass", "pass"]
    assert [entry.record.verdict for entry in reports] == verdicts
    assert check_words.report_of(reports[1].record, reports[1].at) == failed.report
    ids = [(entry.operation, entry.id) for entry in made.entries]
    assert len(ids) == len(set(ids))


async def test_that_it_passes_again_is_owed_until_somebody_has_it(server, tmp_path):
    async with scheduled(server, tmp_path, "owed") as (made, desk), made.worker(desk.client):
        made.values["room"] = 3.0
        await through(desk, "owed")
        made.values["room"], made.refusing = 9.0, True
        assert (await through(desk, "owed")).owed
        made.refusing = False
        assert not (await through(desk, "owed")).owed
        await through(desk, "owed")
    assert made.heard == ["owed: FAIL: room", "owed: passes again", "owed: passes again"]
    kept = [e.record.sent for e in made.entries if e.operation == journal.NOTICES]
    assert kept == [True, False, True]


async def test_a_list_that_cannot_be_read_or_asked_does_not_pass(server, tmp_path):
    async with scheduled(server, tmp_path, "broken") as (made, desk):
        async with made.worker(desk.client):
            right = made.file.read_text()
            made.file.write_text(right.replace("items:", "itmes:"))
            gone = await through(desk, "broken")
            assert gone.report.verdict == "inconclusive"
            assert "unknown key `itmes`" in gone.report.problem
            assert "could not go through" not in gone.report.problem  # it is an answer
            made.file.write_text(right)
        made.breaks = True
        async with made.worker(desk.client):
            gone = await through(desk, "broken")
            assert gone.report.verdict == "inconclusive"
            assert "could not go through it" in gone.report.problem
    assert len(made.heard) == 2
    assert all(said.startswith("broken: not known: ") for said in made.heard)
    assert {message.to for message in made.sent} == {("oncall",)}


async def test_one_that_is_taken_out_says_so_once_and_has_no_schedule(server, tmp_path):
    async with scheduled(server, tmp_path, "out") as (made, desk), made.worker(desk.client):
        made.file.write_text(made.file.read_text().split("---\n")[1])
        await desk.schedules.trigger("out")

        async def told():
            return made.heard

        assert await until(told, "a message") == ["out: it is not gone through any more"]
        with pytest.raises(Refused, match="has no schedule"):
            await desk.standing("out")


async def test_a_run_that_nobody_ends_is_no_news_of_now(server, tmp_path):
    async with scheduled(server, tmp_path, "waits") as (made, desk):
        async with made.worker(desk.client):
            await through(desk, "waits")
        await idle(desk, "waits")
        await desk.schedules.trigger("waits")  # no worker is there

        async def stuck():
            found = await desk.standing("waits")
            return found if found.problem else None

        found = await until(stuck, "a run that waits")
        assert "it has not ended yet; is there a worker?" in found.problem
        assert found.report is not None
        assert found.report.verdict == "pass"
        async with made.worker(desk.client):
            await idle(desk, "waits")
        assert (await desk.standing("waits")).problem == ""


async def test_a_run_is_carried_on_by_a_build_that_says_something_else(
    server, tmp_path, monkeypatch
):
    """What is said is decided in the activity, so its replay decides nothing."""
    async with scheduled(server, tmp_path, "replayed") as (made, desk):
        made.values["room"] = 3.0
        async with made.worker(desk.client):
            await through(desk, "replayed")
            run = (await desk.schedules.of("replayed")).info.recent_actions[-1].action
    handle = desk.client.get_workflow_handle(run.workflow_id, run_id=run.first_execution_run_id)
    monkeypatch.setattr(check_words, "message", lambda *_, **__: None)
    replayer = Replayer(
        workflows=[CheckWorkflow], data_converter=CONVERTER, workflow_runner=sandbox()
    )
    await replayer.replay_workflow(await handle.fetch_history())


@pytest.mark.parametrize("kind", [CheckWorkflow, UpgradedCheckWorkflow])
async def test_a_check_answers_to_the_name_the_library_uses(kind):
    assert workflow._Definition.must_from_class(kind).name == check.CHECK


async def test_the_activity_has_the_name_the_library_uses(tmp_path):
    (real,) = Checks(None, tmp_path).all
    assert activity._Definition.must_from_callable(real).name == check.GO_THROUGH
