"""guardrail remind check, list, show, ack, snooze, done and test, in words and as JSON."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
import typer
from cli_engine import connected, line, temporal_server
from temporalio import activity
from workflows.reminder_world import Told

from guardrail.cli.session import end_of
from guardrail.edges.reminders import Reminding
from guardrail.files import load
from guardrail.model import remind
from guardrail.model.notice import ROUTES, SEND, Answer, Failed, Route, SendTask, Sent
from guardrail.model.remind import ReadAnswer, ReadTask
from guardrail.model.reminder import ReadBack
from guardrail_workflows.reminding import Reminders, tell_time
from guardrail_workflows.worker import make_worker

DOCUMENT = """\
apiVersion: guardrail/v1
kind: Reminder
metadata: {name: gateway}
spec:
  prescale: transit gateway, to 50 Gbit/s
  occasion: {timezone: Europe/London, at: "07:00", date: DAY, lasts: 2d}
  leads: {ticket: [10d], quota: [2d]}
  people: {owner: ann, deputy: bob, channel: oncall}
  steps:
    - {name: ask, title: ask for it, request: ticket, evidence: {ticket: "CASE-[0-9]+"}}
    - name: quota
      title: see the quota
      request: quota
      evidence: {quota: {query: tgw_quota, pass: {above: 49}}}
  verify: {query: tgw_capacity, target: 50, every: 1h}
"""


@pytest.fixture
def address(tmp_path):
    with temporal_server(tmp_path) as where:
        yield where


def document(tmp_path, days: int = 5) -> str:
    day = str((datetime.now(UTC) + timedelta(days=days)).date())
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "gateway.yaml").write_text(DOCUMENT.replace("DAY", day))
    return day


async def test_check_shows_what_comes_and_refuses_what_is_wrong(tmp_path):
    day = document(tmp_path, days=40)
    run = line(tmp_path)
    shown = await run("remind", "check", str(tmp_path / "source"))
    assert shown.code == 0, shown.err
    assert f"{day} 07:00 UTC" in shown.out
    assert "ticket, 10 d before" in shown.out
    assert "told: ann, then bob, then oncall" in shown.out
    (one,) = json.loads((await run("remind", "check", str(tmp_path / "source"), "--json")).out)[
        "coming"
    ]
    assert [(lead["request"], lead["earlySeconds"]) for lead in one["leads"]] == [
        ("ticket", 864_000),
        ("quota", 172_800),
    ]
    none = await run("remind", "check", str(tmp_path / "source"), "--until", "30d")
    assert none.out == "1 reminders are right; none of them comes in that time.\n"
    file = tmp_path / "source" / "gateway.yaml"
    file.write_text(file.read_text().replace("owner:", "ownr:"))
    wrong = await run("remind", "check", str(tmp_path / "source"))
    assert (wrong.code, "did you mean `owner`?" in wrong.err) == (2, True)


async def test_from_the_first_message_to_done(address, tmp_path):
    day = document(tmp_path)
    client = (await connected(address)).client
    run, told = line(tmp_path, address), Told()
    real, values = Reminders(client, tmp_path / "source"), {}

    @activity.defn(name=remind.READ_REMINDER)
    async def read(task: ReadTask) -> ReadAnswer:
        at = activity.info().started_time.timestamp()
        found = tuple(ReadBack(n, values.get(n), at, "no data") for n in ("quota", "verify"))
        return ReadAnswer(task.turn, found, at)

    @activity.defn(name=ROUTES)
    async def routes() -> list[Route]:
        return [Route("ann"), Route("bob")]

    @activity.defn(name=SEND)
    async def send(task: SendTask) -> Answer:
        if task.channel == "oncall":
            return Failed("oncall", 1.0, "there is no channel `oncall`")
        return Sent(task.channel, 1.0)

    mine = [tell_time, real.begin, read, told.deliver, told.record, routes, send]
    nothing = await run("remind", "list")
    assert nothing.out.startswith("No reminder is open.")
    async with make_worker(client, mine):
        await Reminding(client).keep(load([tmp_path / "source"]).reminders)
        async with asyncio.timeout(20):
            while not told.causes:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        listed = await run("remind", "list")
        assert listed.out.startswith(f"gateway/{day}: open, not done: ask has no ticket")
        assert "waits for ann" in listed.out
        early = await run("remind", "done", "gateway")
        assert early.code == 1
        assert "ask (ask for it) has no ticket yet: a ticket such as CASE-[0-9]+" in early.err
        assert "verify cannot be read: no data" in early.err

        taken = await run("remind", "ack", "gateway", "--by", "bob")
        assert taken.code == 0, taken.err
        assert taken.out.splitlines()[-1] == f"guardrail remind done gateway/{day}"
        long = await run("remind", "snooze", "gateway", "--until", "4d", "--reason", "closed")
        assert (long.code, "3 d at most" in long.err) == (1, True)
        none = await run("remind", "snooze", "gateway", "--until", "1d")
        assert (none.code, "a reason is needed" in none.err) == (1, True)
        put = await run("remind", "snooze", "gateway", "--until", "1d", "--reason", "closed")
        assert put.code == 0, put.err

        step = ("remind", "done", "gateway", "--step", "ask", "--ticket")
        assert "is no ticket such as" in (await run(*step, "7")).err
        given = json.loads((await run(*step, "CASE-7", "--json")).out)
        assert (given["standing"], given["takenBy"]) == ("requested", "ann")
        assert given["snoozedUntil"].endswith("Z")
        values.update(quota=50.0, verify=60.0)
        done = await run("remind", "done", "gateway")
        assert done.code == 0, done.err
        assert done.out.startswith(f"gateway/{day}: done, says ann.")

        shown = (await run("remind", "show", "gateway")).out
        assert "[x] ask: ask for it; needs a ticket such as CASE-[0-9]+; there: CASE-7" in shown
        assert "[x] verify: it is there; needs at least 50; there: 60" in shown
        assert "bob has taken it on" in shown
        other = await run("remind", "show", "gatway")
        assert f"no reminder `gatway` is open; open: gateway/{day}" in other.err

        tried = await run("remind", "test", "gateway", str(tmp_path / "source"))
        assert tried.code == 1
        assert tried.out.splitlines() == [
            f"{name} took the message. Look whether it arrived." for name in ("ann", "bob")
        ]
        assert "oncall did not take the message: there is no channel" in tried.err
    assert len(told.causes) == 1


def test_an_end_is_so_long_from_now_or_a_time():
    assert end_of("2d", 100.0) == 172_900.0
    assert end_of("1970-01-01T03:00:00Z", 100.0) == 10_800.0
    with pytest.raises(typer.BadParameter, match="a duration"):
        end_of("soon", 0.0)
