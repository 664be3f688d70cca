"""`guardrail rollout` and `guardrail stop`, as typed, on a real workflow and server."""

import asyncio
import contextlib
import json
import re
import signal

import pytest
from cli_engine import FILES, ORIGIN, Pretended, connected, line, name, temporal_server, working
from temporalio.exceptions import ApplicationError

from guardrail.model.plan import ApprovalPoint

pytestmark = pytest.mark.temporal


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with temporal_server(tmp_path_factory.mktemp("temporal")) as server:
        yield server


LONG = 120.0
"""Seconds that a host works on where a command has to come before it is done, however slow."""


class Desk:
    """A command line, a worker, and rollout files."""

    def __init__(self, folder, address):
        self.folder, self.address = folder, address
        self.hosts = Pretended(f"file://{folder / 'plans'}")
        self.run = line(folder, address)

    def file(self, rollout):
        path = self.folder / f"{rollout}.yaml"
        path.write_text(FILES.replace("NAME", rollout))
        return str(path)

    async def start(self, rollout, *more):
        ended = await self.run("rollout", "start", self.file(rollout), *more)
        assert ended.code == 0, ended.err
        return ended

    async def status(self, operation):
        ended = await self.run("rollout", "status", operation, "--json")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    async def until(self, operation, true, seconds=20.0):
        """Wait for a state, with a limit."""
        operations = await connected(self.address)
        loop = asyncio.get_running_loop()
        limit = loop.time() + seconds
        while not true(status := await operations.status(operation)):
            assert loop.time() < limit, f"not within {seconds} s: {status.sentence}"
            await asyncio.sleep(0.1)
        return status

    async def let_go_once_held(self, operation, command):
        """What a command says, while hosts work on until it has had its effect."""
        said = asyncio.ensure_future(command)
        await self.until(operation, lambda status: status.holds, 60.0)
        self.hosts.seconds = 0.2
        return await said


@pytest.fixture
async def desk(tmp_path, address):
    desk = Desk(tmp_path, address)
    async with working(address, desk.hosts):
        yield desk
        await leave_nothing_open(address)


async def leave_nothing_open(address):
    operations = await connected(address)
    for known in await operations.all(ended=0):
        with contextlib.suppress(Exception):
            await operations.client.get_workflow_handle(f"rollout/{known.operation}").terminate()


# ---------------------------------------------------------------- from start to end


async def test_start_pause_resume_to_the_end(desk):
    desk.hosts.seconds = LONG
    started = await desk.start("all")
    assert started.out.startswith("all has begun: 4 hosts in 2 waves (1, 100%)\nplan sha256:")
    assert "guardrail rollout watch all" in started.out

    pausing = desk.run("rollout", "pause", "all", "--reason", "looking", "--wait")
    paused = await desk.let_go_once_held("all", pausing)
    told = asyncio.get_running_loop().time()
    assert paused.code == 0, paused.err
    assert re.search(
        r"^all: nothing new is asked to begin; at most \d in flight$", paused.out, re.M
    )
    assert "No host of all begins any more." in paused.out
    assert "all: held on operator:ann" in paused.out
    assert "Nothing is in flight" in paused.out

    bob = await desk.run("rollout", "resume", "all", "--by", "bob")
    assert bob.code == 1
    assert "resume refused" in bob.err
    assert "all: held on operator:ann" in bob.err
    assert [at for _, _, at in desk.hosts.begun if at > told] == []

    over = ("--by", "bob", "--over", "ann", "--reason", "seen with ann")
    assert (await desk.run("rollout", "resume", "all", *over)).code == 0
    watched = await desk.run("rollout", "watch", "all")
    assert watched.code == 0, watched.err
    assert "completed: 4 of 4 hosts changed" in watched.out
    late = await desk.run("rollout", "pause", "all")
    assert late.code == 1
    assert "all has ended" in late.err


async def test_pause_tells_what_became_of_each_host_in_flight(desk):
    desk.hosts.seconds, desk.hosts.outcomes = LONG, {0: "failed"}
    await desk.start("became")
    paused = await desk.let_go_once_held("became", desk.run("rollout", "pause", "became", "--wait"))
    assert paused.code == 0, paused.err
    assert "Nothing is in flight. What was:\n  cache-001: failed, pretended\n" in paused.out


async def test_no_host_begins_after_is_said_only_after_the_time(desk):
    desk.hosts.seconds = LONG
    await desk.start("still")
    process = await desk.run.start("rollout", "pause", "still")
    loop = asyncio.get_running_loop()
    answered = said = 0.0
    async for text in process.stdout:
        if b"nothing new is asked" in text:
            answered = loop.time()
        if b"begins any more" in text:
            said = loop.time()
    await process.communicate()
    assert said - answered >= 1.2, "1.3 s on its own clock, less what the pipe may take"


# ---------------------------------------------------------------- names


async def test_a_name_is_used_once(desk):
    desk.hosts.seconds = LONG
    await desk.start("once")
    again = await desk.run("rollout", "start", desk.file("once"))
    assert again.code == 1
    assert "the operation once runs already" in again.err
    assert (await desk.run("rollout", "abort", "once", "--reason", "test")).code == 0
    desk.hosts.seconds = 0.2
    await desk.until("once", lambda status: status.phase == "aborted")
    named = await desk.run("rollout", "start", desk.file("once"), "--name", "once")
    assert named.code == 1
    assert "there was an operation once already" in named.err
    suffixed = await desk.start("once", "--no-wait")
    assert re.match(r"once-\d{8}-\d{6} is started", suffixed.out)


async def test_an_unknown_operation_names_those_there_are(desk):
    desk.hosts.seconds = LONG
    await desk.start("known-one")
    for verb in ("status", "pause", "explain", "watch"):
        ended = await desk.run("rollout", verb, "unknown")
        assert ended.code == 1, verb
        assert "there is no operation 'unknown'; open: known-one" in ended.err


async def test_the_name_may_be_left_out_while_one_is_open(desk):
    none = await desk.run("rollout", "explain")
    assert none.code == 1
    assert "no operation is open" in none.err
    desk.hosts.seconds = LONG
    await desk.start("first")
    assert (await desk.run("rollout", "explain")).out.startswith("first: ")
    await desk.start("second")
    two = await desk.run("rollout", "explain")
    assert two.code == 1
    assert "2 operations are open, name one: second, first" in two.err


async def test_list_shows_full_names_and_states(desk):
    desk.hosts.seconds = LONG
    long = "a-name-that-is-longer-than-any-column-of-a-table-would-be-here"
    await desk.start(long)
    await desk.run("rollout", "pause", long)
    listed = await desk.run("rollout", "list")
    assert re.search(rf"^{long}  held  fleet cache  since .+\+00:00$", listed.out, re.M)
    rows = json.loads((await desk.run("rollout", "list", "--json")).out)
    assert [(row["operation"], row["held"]) for row in rows if row["open"]] == [(long, True)]


# ---------------------------------------------------------------- plans, approvals, hosts


async def test_a_refused_plan_is_1_with_every_reason(desk):
    desk.hosts.refusals = ("host cache-001 is not at 1.8.7", "no way back")
    ended = await desk.run("rollout", "start", desk.file("refused"))
    assert ended.code == 1
    assert "refused was refused; nothing was begun:" in ended.err
    for reason in desk.hosts.refusals:
        assert f"  {reason}\n" in ended.err
    assert "Mend what is named" in ended.err
    later = await desk.run("rollout", "status", "refused")
    assert later.code == 1
    assert "no way back" in later.err
    assert "refused  not begun" in (await desk.run("rollout", "list")).out


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (
            ApplicationError("the plan store at s3://x did not answer: gone", type="Unanswered"),
            "the plan store at s3://x did not answer: gone",
        ),
        (RuntimeError("no such column"), "no such column"),
    ],
)
async def test_what_could_not_be_planned_is_3_and_was_not_refused(desk, fault, why):
    """A service was silent, or planning broke: nobody judged what was asked for."""
    desk.hosts.fault = fault
    operation = f"silent-{type(fault).__name__}".lower()
    ended = await desk.run("rollout", "start", desk.file(operation))
    assert ended.code == 3, ended.err
    assert f"{operation} could not be planned; nothing was begun:\n  {why}\n" in ended.err
    assert "refused" not in ended.err
    later = await desk.run("rollout", "status", operation)
    assert later.code == 3
    assert f"could not be planned; nothing was begun:\n  {why}\n" in later.err
    assert f"{operation}  not begun" in (await desk.run("rollout", "list")).out


async def test_approvals(desk):
    desk.hosts.approvals = (ApprovalPoint("start", 0, 1, True, ORIGIN),)
    started = await desk.start("approve-me")
    assert "guardrail rollout approve approve-me --point start" in started.out
    wrong = await desk.run("rollout", "approve", "approve-me", "--point", "50%", "--by", "bob")
    assert wrong.code == 1
    assert "points of this plan: start" in wrong.err
    own = await desk.run("rollout", "approve", "approve-me", "--point", "start")
    assert own.code == 1
    good = await desk.run("rollout", "approve", "approve-me", "--point", "start", "--by", "bob")
    assert good.code == 0, good.err
    await desk.until("approve-me", lambda status: status.phase == "completed")


async def test_retry_skip_and_abort(desk):
    desk.hosts.outcomes = {0: "failed", 1: "failed"}
    await desk.start("hosts")
    await desk.until("hosts", lambda status: status.failed == 1)
    held = await desk.run("rollout", "watch", "hosts")
    assert held.code == 1, "held on what only a person clears, not on a terminal"
    strange = await desk.run("rollout", "retry", "hosts", "cache-999")
    assert strange.code == 1
    assert "cache-999: not waiting for a person. Hosts that are: cache-001" in strange.err
    desk.hosts.outcomes = {1: "failed"}
    # The only open operation need not be named.
    assert (await desk.run("rollout", "retry", "cache-001")).code == 0
    await desk.until("hosts", lambda status: status.changed == 1 and status.failed == 1)
    nobody = await desk.run("rollout", "skip", "hosts", "--reason", "x")
    assert nobody.code == 1
    assert "name the hosts to skip" in nobody.err
    desk.hosts.seconds = LONG
    skipped = await desk.run("rollout", "skip", "hosts", "cache-002", "--reason", "dead disk")
    assert skipped.code == 0, skipped.err
    await desk.until("hosts", lambda status: len(status.in_flight) == 1)
    aborted = await desk.run("rollout", "abort", "hosts", "--reason", "enough")
    assert aborted.code == 0, aborted.err
    desk.hosts.seconds = 0.2
    assert "Done, and left as they are: 1: cache-001\n" in aborted.out
    assert "In flight, and finishing: 1: cache-003\n" in aborted.out
    status = await desk.until("hosts", lambda status: status.phase == "aborted")
    assert status.set_aside == 1


# ---------------------------------------------------------------- the way back


async def test_a_rollback_is_shown_beforehand_and_then_done(desk):
    desk.hosts.outcomes = {2: "failed"}
    await desk.start("back")
    await desk.until("back", lambda status: status.failed == 1)
    takes = "takes 3 hosts back to the former version, newest first"
    assert takes in (await desk.run("rollout", "explain", "back")).out
    shown = await desk.run("rollout", "rollback", "back", "--dry-run")
    assert shown.code == 0, shown.err
    for words in (
        f"A rollback of back {takes}.\n",
        "  at most 1 host away or down at once, 1 in a failure domain, in 1 domain at once\n",
        "  waits for 1 s with every safety gate passing: margin (passes for ",
        "In this order: cache-003, cache-002, cache-001\n",
        "Nothing was changed. To do it: guardrail rollout rollback back\n",
    ):
        assert words in shown.out
    way = json.loads((await desk.run("rollout", "rollback", "back", "--dry-run", "--json")).out)
    assert (way["count"], way["hosts"], way["scope"]) == (3, "7", "all")
    assert len(desk.hosts.begun) == 3
    assert (await desk.status("back"))["direction"] == "forward"

    desk.hosts.outcomes, desk.hosts.seconds = {}, LONG
    asked = await desk.run("rollout", "rollback", "back", "--reason", "bad")
    assert asked.code == 0, asked.err
    assert "back: going back: 3 hosts, newest first" in asked.out
    watched = await desk.run.start("rollout", "watch", "back")
    seen = await asyncio.wait_for(watched.stdout.readuntil(b"goes back: cache-003"), 60)
    desk.hosts.seconds = 0.2
    rest, _ = await asyncio.wait_for(watched.communicate(), 60)
    assert watched.returncode == 1
    assert b"rolled_back: 3 hosts are back at the former version" in seen + rest
    assert [index for _, index, _ in desk.hosts.begun][3:] == [2, 1, 0]
    summed = (await desk.run("rollout", "summary", "back")).out
    assert "0 of 4 changed, 3 back at the former version, 1 not changed" in summed
    assert "## Hosts back at the former version\n\ncache-001, cache-002, cache-003\n" in summed
    late = await desk.run("rollout", "rollback", "back", "--dry-run")
    assert late.code == 1
    assert "rollback refused: the operation is rolled_back already" in late.err


async def test_a_wave_is_taken_back_and_then_all(desk):
    desk.hosts.outcomes = {3: "failed"}
    await desk.start("waves")
    await desk.until("waves", lambda status: status.failed == 1)
    desk.hosts.outcomes = {}
    shown = await desk.run("rollout", "rollback", "waves", "--scope", "wave", "--dry-run")
    assert "takes 3 hosts of the last wave back to the former version" in shown.out
    assert "then it holds until --scope all, or abort" in shown.out
    assert "In this order: cache-004, cache-003, cache-002\n" in shown.out
    assert "guardrail rollout rollback waves --scope wave\n" in shown.out
    assert (await desk.run("rollout", "rollback", "waves", "--scope", "wave")).code == 0
    held = await desk.run("rollout", "watch", "waves")
    assert held.code == 1
    assert "guardrail rollout rollback waves --scope all" in held.out
    twice = await desk.run("rollout", "rollback", "waves", "--scope", "wave")
    assert twice.code == 1
    assert "there is one rollback an operation" in twice.err
    rest = await desk.run("rollout", "rollback", "waves", "--dry-run")
    assert "In this order: cache-001\n" in rest.out
    assert (await desk.run("rollout", "rollback", "waves", "--scope", "all")).code == 0
    ended = await desk.until("waves", lambda status: status.phase == "rolled_back")
    assert (ended.changed, ended.reverted) == (0, 4)


async def test_where_nothing_was_changed_there_is_nothing_to_take_back(desk):
    desk.hosts.approvals = (ApprovalPoint("start", 0, 1, True, ORIGIN),)
    await desk.start("new")
    for more in ((), ("--dry-run",)):
        ended = await desk.run("rollout", "rollback", "new", *more)
        assert ended.code == 1
        assert "rollback refused: no host was changed: nothing to take back" in ended.err


async def test_reasons_are_asked_for(desk):
    for words in (("abort", "x"), ("skip", "x", "cache-001")):
        ended = await desk.run("rollout", *words)
        assert ended.code == 2
        assert "--reason" in ended.err


# ---------------------------------------------------------------- without a worker, without a plan


async def test_status_without_a_worker_is_the_last_that_was_noted(tmp_path, address):
    desk = Desk(tmp_path, address)
    async with working(address, desk.hosts):
        desk.hosts.seconds = LONG
        await desk.start("alone")
        assert (await desk.run("rollout", "pause", "alone", "--reason", "lunch")).code == 0
    try:
        ended = await desk.run("rollout", "status", "alone")
        assert ended.code == 0
        assert "held on operator:ann: lunch" in ended.out
        assert f"no worker answers behind Temporal at {address}" in ended.out
        assert "If nobody acts nothing new begins until a worker is there." in ended.out
        said = await desk.run("rollout", "resume", "alone")
        assert said.code == 3
        assert "`resume` may still be taken" in said.err
    finally:
        await leave_nothing_open(address)


async def test_status_of_one_that_has_ended_needs_no_worker(tmp_path, address):
    desk = Desk(tmp_path, address)
    async with working(address, desk.hosts):
        await desk.start("over")
        assert (await desk.run("rollout", "watch", "over")).code == 0
    ended = await desk.run("rollout", "watch", "over")
    assert ended.code == 0
    shown = (await desk.run("rollout", "status", "over")).out
    assert "completed: 4 of 4 hosts changed" in " ".join(shown.split())


async def test_without_the_plan_hosts_are_numbers_and_that_is_said(desk):
    desk.hosts.seconds = LONG
    await desk.start("numbers")
    elsewhere = line(desk.folder, desk.address, GUARDRAIL_STORE=f"file://{desk.folder}/none")
    ended = await elsewhere("rollout", "status", "numbers", "--json")
    assert json.loads(ended.out)["inFlight"][0]["name"] == "host #0"
    shown = await elsewhere("rollout", "status", "numbers")
    assert "hosts are shown by number: the plan cannot be read here" in " ".join(shown.out.split())
    assert name(0) in (await desk.run("rollout", "status", "numbers")).out


async def test_a_workflow_ended_from_outside_is_told_as_that(desk):
    desk.hosts.seconds = LONG
    await desk.start("cut")
    await leave_nothing_open(desk.address)
    ended = await desk.run("rollout", "status", "cut")
    assert ended.code == 1
    assert "cut: its workflow was ended in Temporal (terminated) while it was running" in ended.err


# ---------------------------------------------------------------- stop, Ctrl-C


async def test_stop_holds_everything_and_says_what_each_answered(desk):
    desk.hosts.seconds = LONG
    await desk.start("one")
    desk.hosts.planning = 3.0
    await desk.start("two", "--no-wait")
    ended = await desk.run("stop", "--reason", "the site is slow")
    assert ended.code == 0, ended.err
    for operation in ("one", "two"):
        assert f"{operation}: nothing new is asked to begin; at most " in ended.out
        assert f"guardrail rollout resume {operation}" in ended.out
        status = await desk.status(operation)
        assert [hold["name"] for hold in status["holds"]] == ["operator:ann"]
        assert status["holds"][0]["reasons"] == ["the site is slow"]


async def test_ctrl_c_ends_the_watching_only(desk):
    desk.hosts.seconds = LONG
    await desk.start("goes-on")
    process = await desk.run.start("rollout", "watch", "goes-on")
    await asyncio.wait_for(process.stdout.readline(), 20)
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 130
    assert err == b"The operation goes on; come back with: guardrail rollout watch goes-on\n"
    desk.hosts.seconds = 0.2
    await desk.until("goes-on", lambda status: status.phase == "completed")


async def test_json_of_every_answer_is_json(desk):
    desk.hosts.seconds = LONG
    started = await desk.start("as-json", "--json")
    assert json.loads(started.out)["operation"] == "as-json"
    for words in (
        ("explain", "as-json"),
        ("pause", "as-json"),
        ("resume", "as-json"),
        ("abort", "as-json", "--reason", "x"),
    ):
        ended = await desk.run("rollout", *words, "--json")
        assert ended.code == 0, ended.err
        assert json.loads(ended.out)
