"""A freeze by command, by a worker's file and at a URL: on a real Temporal, with real hosts.

The watch looks every 0.3 s here instead of 2; a worker's last look is as old as in earnest.
"""

import asyncio
import contextlib
import time

import pytest
from crash.fleet import HostFleet, now
from edges.http_part import Answer, serving
from real_worker import parts, worker
from temporalio import activity
from temporalio.worker import Replayer

from guardrail.decide.chain import check
from guardrail.edges.compose import store_of
from guardrail.edges.converter import CONVERTER
from guardrail.edges.freezes import Commands, File, Url
from guardrail.edges.journal import journal_at
from guardrail.errors import Refused
from guardrail.files.freeze import parse
from guardrail.files.planfile import load_head
from guardrail.model.freeze import FREEZE_OFF, FREEZE_ON, FREEZES_ID, Freeze, FreezesInput, Lift
from guardrail.model.freeze import FREEZES as FREEZES_WORKFLOW
from guardrail.model.journal import EMPTY, FREEZES, Entry, FreezeLifted, FreezeSet, Head
from guardrail.model.messages import RECORD, TASK_QUEUE
from guardrail_workflows import frozen
from guardrail_workflows.freezes import FreezesWorkflow
from guardrail_workflows.worker import make_worker

pytestmark = pytest.mark.temporal
QUICK = 0.3
SETTLED = 2.3
ICE = Freeze("ice", "the site is slow", "bea", 0.0)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with parts(tmp_path_factory.mktemp("freezes")) as found:
        yield found


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(frozen, "EVERY", QUICK)


def frozen_now(status):
    return "freeze" in [hold.name for hold in status.holds]


def reason(status):
    (hold,) = [hold for hold in status.holds if hold.name == "freeze"]
    return hold.reasons[0]


@pytest.mark.asyncio(loop_scope="module")
async def test_set_by_command_and_lifted_and_kept_for_whoever_asks(server, made):
    desk = Commands(server.client)
    async with worker(server.client, made):
        assert await desk.read() == ()
        with pytest.raises(Refused, match="there is none to lift"):
            await desk.off(Lift("ice", "bea", "over"))
        await desk.on(ICE)
        with pytest.raises(Refused, match="there is a freeze ice already"):
            await desk.on(ICE)
        with pytest.raises(Refused, match="is past"):
            await desk.on(Freeze("old", "x", "bea", 0.0, until=5.0))
        (one,) = await desk.read()
        assert (one.name, one.by, one.place) == ("ice", "bea", "command")
        assert abs(one.since - time.time()) < 60
        with pytest.raises(Refused, match="there is no freeze snow"):
            await desk.off(Lift("snow", "bea", "over"))
        # Whoever ends the workflow by force lifts nothing.
        await server.client.get_workflow_handle(FREEZES_ID).terminate()
        assert [each.name for each in await desk.read()] == ["ice"]
        await desk.on(Freeze("more", "x", "bea", 0.0))
        assert [each.name for each in await desk.read()] == ["ice", "more"]
        await desk.off(Lift("more", "bea", "over"))
        after = await desk.off(Lift("ice", "cid", "well again"))
        assert [(gone.freeze.name, gone.by) for gone in after.lifted] == [
            ("more", "bea"),
            ("ice", "cid"),
        ]
        assert await desk.read() == ()
        lines = await recorded(made, 4)
    assert [line.record for line in lines] == [
        FreezeSet("ice", "bea", "the site is slow", None),
        FreezeSet("more", "bea", "x", None),
        FreezeLifted("more", "bea", "bea", "over"),
        FreezeLifted("ice", "bea", "cid", "well again"),
    ]
    assert abs(lines[0].at - time.time()) < 60


async def recorded(made, count):
    """The journal of freezes, once it has so many lines: they are written beside the answer."""
    journal, limit = journal_at(made.journal), time.monotonic() + 10
    while True:
        with contextlib.suppress(Refused):
            checked = check(journal.read(FREEZES), FREEZES)
            assert checked.broken is None
            if len(checked.lines) >= count:
                return checked.lines
        assert time.monotonic() < limit, "not within 10 s"
        await asyncio.sleep(0.05)


@pytest.mark.asyncio(loop_scope="module")
async def test_what_an_earlier_build_has_not_recorded_is_replayed_so(server, monkeypatch):
    """A run that was begun without the journal goes on under this build, which records."""
    client, name = server.client, "freezes-of-old"
    with monkeypatch.context() as patch:
        patch.setattr(FreezesWorkflow, "_is_journaled", lambda _: False)
        async with make_worker(client, []):
            old = await client.start_workflow(
                FREEZES_WORKFLOW, FreezesInput(), id=name, task_queue=TASK_QUEUE
            )
            for freeze in ("ice", "snow"):
                await old.execute_update(FREEZE_ON, Freeze(freeze, "x", "bea", 0.0))
    asked = []

    @activity.defn(name=RECORD)
    async def record(entries: list[Entry]) -> Head:
        asked.extend(entry.record for entry in entries)
        return EMPTY

    async with make_worker(client, [record]):
        await old.execute_update(FREEZE_OFF, Lift("ice", "cid", "well"))
        await old.execute_update(FREEZE_ON, Freeze("rain", "x", "bea", 0.0))
        history = await old.fetch_history()
        await old.terminate()
    assert [each.name for each in asked] == ["ice", "rain"]
    replayer = Replayer(workflows=[FreezesWorkflow], data_converter=CONVERTER)
    assert (await replayer.replay_workflow(history)).replay_failure is None


@pytest.mark.asyncio(loop_scope="module")
async def test_a_freeze_by_command_holds_and_its_end_leads_to_a_bake(server, made):
    fleet = HostFleet("cold", made.hosts, 24, takes=0.3, staging=0.0)
    desk = Commands(server.client)
    async with worker(server.client, made) as here:
        await here.operations.start(here.request(fleet))
        await here.until("cold", lambda s: s.changed >= 2)
        await desk.on(ICE)
        set_at = now()
        held = await here.until("cold", frozen_now)
        assert "by bea: the site is slow (command, ice)" in reason(held)
        assert held.advice[-1] == "guardrail freeze status"
        await asyncio.sleep(max(0.0, set_at + SETTLED - now()))
        quiet = await here.until("cold", lambda s: not s.in_flight)
        begun = len(fleet.aways())
        assert begun < fleet.count
        assert not [away for away in fleet.aways() if away.begin > set_at + SETTLED]
        assert quiet.changed == begun
        await desk.off(Lift("ice", "bea", "well again"))
        end = await here.until("cold", lambda s: s.finished_at is not None)
    assert (end.phase, end.changed) == ("completed", fleet.count)
    entries = check(journal_at(made.journal).read("cold"), "cold").lines
    cleared = next(e for e in entries if e.kind == "cleared" and e.fields["name"] == "freeze")
    asked = [e.at for e in entries if e.kind == "asked" and e.at > cleared.at]
    assert min(asked) - cleared.at >= 0.49  # the bake


@pytest.mark.asyncio(loop_scope="module")
async def test_a_file_and_a_url_hold_from_the_start_and_the_plan_says_so(server, made, tmp_path):
    file = tmp_path / "freeze.yaml"
    file.touch()
    fleet = HostFleet("still", made.hosts, 3, takes=0.1, staging=0.0)
    async with serving("127.0.46.1", 8600) as part:
        part.answers["/freezes"] = Answer([{"reason": "launch", "roles": ["web"]}])
        places = (File(file, parse), Url(f"{part.url}/freezes", parse))
        async with worker(server.client, made, places) as here:
            await here.operations.start(here.request(fleet))
            held = await here.until("still", frozen_now)
            reasons = next(hold.reasons for hold in held.holds if hold.name == "freeze")
            assert f": no reason given (file:{file})" in reasons[0]
            assert f": launch (url:{part.url}/freezes), for web" in reasons[1]
            warnings = load_head(store_of(made.store), held.plan).warnings
            assert "no host begins now: frozen since" in str(warnings)
            file.unlink()
            await here.until("still", lambda s: frozen_now(s) and "launch" in reason(s))
            assert fleet.aways() == []
            part.answers["/freezes"] = Answer([{"reason": "launch", "roles": ["memcached"]}])
            end = await here.until("still", lambda s: s.finished_at is not None)
    assert (end.phase, end.changed) == ("completed", 3)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_file_that_only_the_hosts_worker_has_keeps_them_from_beginning(
    server, made, tmp_path, monkeypatch
):
    """The watch runs with other eyes: it is told by whoever refuses."""
    file = tmp_path / "freeze"
    fleet = HostFleet("mine", made.hosts, 2, takes=0.1, staging=0.0)
    monkeypatch.setattr("guardrail.decide.freezes.AGAIN", 1.5)
    async with worker(server.client, made, (File(file, parse),)) as here:
        blind = here.activities[0].freezes
        real = frozen.FreezeWatch._say

        async def without_files(self, seen):
            kept = tuple(one for one in seen.freezes if not one.place.startswith("file:"))
            await real(self, type(seen)(kept, seen.unread))

        monkeypatch.setattr(frozen.FreezeWatch, "_say", without_files)
        file.write_text("reason: this machine is being moved\n")
        assert (await blind.now()).freezes
        await here.operations.start(here.request(fleet))
        held = await here.until("mine", frozen_now)
        assert "this machine is being moved (file:" in reason(held)
        assert fleet.aways() == []
        file.unlink()
        end = await here.until("mine", lambda s: s.finished_at is not None)
    assert (end.phase, end.changed) == ("completed", 2)
