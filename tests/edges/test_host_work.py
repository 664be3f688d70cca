"""What becomes of one host, with the real runner on this machine and over SSH?"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest
from hands import Hands, no, until, yes

from guardrail.decide.steps import asks_whether, steps_for
from guardrail.edges.probes import Probes
from guardrail.errors import Refused, Unanswered
from guardrail.model.change import Change, Command, ConsulCatalogCheck, RunProbe
from guardrail.model.fleet import Host
from guardrail.model.operation import Direction
from guardrail.ports import BadCredentials, CatalogEntry, Permit, StepRequest, Token, Unreachable
from guardrail_workflows import host_work
from guardrail_workflows.host_work import HostJob, HostResult, change_host

pytestmark = pytest.mark.real


def entry(version: str | None = "2", **changes: object) -> CatalogEntry:
    return replace(CatalogEntry("h", "", version, True, ("memcached",)), **changes)  # type: ignore[arg-type]


class TwinCatalog:
    """Says what it is told to say; `after` counts from the first look at the changed host."""

    def __init__(self, before: CatalogEntry | None, *after: object) -> None:
        self.answers: list[object] = [before, *after]

    async def entry(self, node: str) -> CatalogEntry | None:
        answer = self.answers[0]
        if len(self.answers) > 1:
            self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert answer is None or isinstance(answer, CatalogEntry)
        return answer


@dataclass
class World:
    """One host: its "agent" is two files, which say what is installed and what runs."""

    hands: Hands
    probes: Probes
    catalog: TwinCatalog | None = None
    permit: Permit = yes
    beats: list[str] = field(default_factory=list)

    def write(self, name: str, version: str) -> Command:
        path = str(self.hands.folder / name)
        return ("sh", "-c", 'echo "v$1" >"$2"; echo "$1" >>"$2.log"', "write", version, path)

    def set(self, installed: str, running: str) -> None:
        (self.hands.folder / "installed").write_text(f"v{installed}\n")
        (self.hands.folder / "running").write_text(f"v{running}\n")

    def read(self, name: str) -> RunProbe:
        return RunProbe(("cat", str(self.hands.folder / name)), r"v(\S+)")

    def change(self, **changes: object) -> Change:
        given: dict[str, object] = {
            "name": "agent",
            "agent": self.hands.host.name,
            "driver": "exec",
            "installed": self.read("installed"),
            "running": self.read("running"),
            "prepare": (),
            "apply": (self.write("installed", "{to}"), self.write("running", "{to}")),
            "undo": None,
            "verify_catalog": None,
            "timeout": 20.0,
        }
        return Change(**(given | changes))  # type: ignore[arg-type]

    def job(self, change: Change | None = None, **changes: object) -> HostJob:
        job = HostJob(
            operation="op",
            host=self.hands.host,
            change=change or self.change(),
            direction="forward",
            old="1",
            new="2",
            token=Token(0, 1, 1),
        )
        return replace(job, **changes)  # type: ignore[arg-type]

    async def work(self, job: HostJob | None = None) -> HostResult:
        return await change_host(
            job or self.job(),
            self.hands.driver,
            self.probes,
            catalog=self.catalog,
            permit=self.permit,
            heartbeat=self.beats.append,
        )


@pytest.fixture
async def world(hands: Hands) -> AsyncIterator[World]:
    probes = Probes(hands.driver)
    found = World(hands, probes)
    found.set("1", "1")
    yield found
    await probes.close()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verification without a catalog check gives up after 1 s here, not after 30."""
    monkeypatch.setattr(host_work, "VERIFY_WITHIN", 1.0)
    monkeypatch.setattr(host_work, "LOOK_EVERY", 0.05)


# ---------------------------------------------------------------- changed


async def test_a_host_is_changed_and_verified(world: World) -> None:
    result = await world.work()
    assert (result.outcome, world.hands.lines("running")) == ("changed", ["v2"])
    facts = dict(result.facts)
    assert (facts["installed_before"], facts["running"], facts["exit_status"]) == ("1", "2", "0")
    assert world.beats[:4] == ["look", "prepare", "apply", "verify"]


async def test_a_host_at_the_version_is_only_verified(world: World) -> None:
    world.set("2", "2")
    world.permit = no
    result = await world.work()
    assert (result.outcome, dict(result.facts)["skipped"]) == ("changed", "at the version already")
    assert world.hands.lines("running.log") == []


async def test_going_back_brings_the_old_version(world: World) -> None:
    world.set("2", "2")
    result = await world.work(world.job(direction="back"))
    assert (result.outcome, world.hands.lines("running")) == ("changed", ["v1"])


async def test_a_second_attempt_after_a_lost_worker_changes_nothing_twice(world: World) -> None:
    assert (await world.work()).outcome == "changed"
    again = await world.work(world.job(token=Token(0, 1, 2)))
    assert again.outcome == "changed"
    assert world.hands.lines("running.log") == ["2"]


async def test_an_operation_whose_name_was_used_before_does_its_own_work(world: World) -> None:
    """Its turns begin anew, and what the former one of that name left is none of its work."""
    assert (await world.work(world.job(token=Token(0, 9, 1), run="the first"))).outcome == "changed"
    world.set("1", "1")
    again = await world.work(world.job(run="the second"))
    assert (again.outcome, world.hands.lines("running")) == ("changed", ["v2"])
    assert world.hands.lines("running.log") == ["2", "2"]


async def test_a_second_attempt_waits_for_steps_that_still_run(world: World) -> None:
    """The versions are right before the steps are over: only the host knows that they run."""
    mark = world.hands.adding("last", "sleep 1", 'echo end >>"$0"')
    change = world.change(apply=(*world.change().apply, mark))
    first = asyncio.create_task(world.work(world.job(change)))
    await until(lambda: world.hands.lines("last"))
    first.cancel()
    again = await world.work(world.job(change, token=Token(0, 1, 2)))
    assert again.outcome == "changed"
    assert world.hands.lines("last") == ["ran", "end"]


async def test_a_connection_lost_in_the_steps_is_asked_again(world: World) -> None:
    slow = world.hands.adding("slow", "sleep 1")
    job = world.job(world.change(apply=(slow, *world.change().apply)))
    working = asyncio.create_task(world.work(job))
    await until(lambda: world.hands.lines("slow"))
    world.hands.cut()
    result = await working
    assert (result.outcome, world.hands.lines("running.log")) == ("changed", ["2"])
    assert "ask again" in world.beats


async def test_heartbeats_go_on_while_steps_run(world: World) -> None:
    job = world.job(world.change(apply=(("sleep", "2.5"), *world.change().apply)))
    assert (await world.work(job)).outcome == "changed"
    assert world.beats.count("apply") >= 3


# ---------------------------------------------------------------- asked again while steps run


async def given_up(world: World, change: Change, direction: Direction = "forward") -> None:
    """The steps of turn 1 run on the host, and nobody waits for them any more."""
    working = asyncio.create_task(world.work(world.job(change, direction=direction)))
    await until(lambda: world.hands.lines("slow"))
    working.cancel()


async def test_a_retry_looks_again_after_it_has_waited_for_the_old_steps(world: World) -> None:
    change = world.change(apply=(world.hands.adding("slow", "sleep 1"), *world.change().apply))
    await given_up(world, change)
    result = await world.work(world.job(change, token=Token(0, 2, 1)))
    assert (result.outcome, dict(result.facts)["skipped"]) == ("changed", "at the version already")
    assert world.hands.lines("slow") == ["ran"]
    assert world.hands.lines("running.log") == ["2"]
    assert "look again" in world.beats


async def test_a_retry_looks_again_where_the_old_steps_end_while_it_prepares(world: World) -> None:
    """There is nothing to wait for then, and what it saw is old all the same."""
    apply = (world.hands.adding("slow", "sleep 1"), *world.change().apply)
    await given_up(world, world.change(apply=apply))
    status = world.hands.run_folder("op", "forward", 1) / "status"
    ended = ("sh", "-c", 'until [ -e "$0" ]; do sleep 0.05; done', str(status))
    change = world.change(prepare=(ended,), apply=apply)
    result = await world.work(world.job(change, token=Token(0, 2, 1)))
    assert result.outcome == "changed"
    assert world.hands.lines("running.log") == ["2"]


async def test_a_retry_waits_for_the_end_of_old_steps_that_are_there_already(world: World) -> None:
    """The version is right, and the steps go on: it is not done before they are."""
    slow = world.hands.adding("slow", "sleep 1", 'echo end >>"$0"')
    change = world.change(apply=(*world.change().apply, slow))
    await given_up(world, change)
    result = await world.work(world.job(change, token=Token(0, 2, 1)))
    assert result.outcome == "changed"
    assert world.hands.lines("slow") == ["ran", "end"]
    assert world.hands.lines("running.log") == ["2"]


async def test_a_host_whose_old_steps_run_still_is_not_taken_for_being_back(world: World) -> None:
    """Asked to go back before the way forward has changed anything: it will."""
    change = world.change(apply=(world.hands.adding("slow", "sleep 1"), *world.change().apply))
    await given_up(world, change)
    result = await world.work(world.job(change, direction="back", token=Token(0, 2, 1)))
    assert (result.outcome, world.hands.lines("running")) == ("changed", ["v1"])
    assert world.hands.lines("running.log") == ["2", "1"]


async def test_a_retry_does_what_the_old_steps_did_not(world: World) -> None:
    """They have ended badly: the host is looked at once more, and then changed."""
    bad = world.change(apply=(world.hands.adding("slow", "sleep 1", "exit 4"),))
    await given_up(world, bad)
    result = await world.work(world.job(token=Token(0, 2, 1)))
    assert (result.outcome, world.hands.lines("running.log")) == ("changed", ["2"])
    third = await world.work(world.job(token=Token(0, 3, 1)))
    assert (third.outcome, world.hands.lines("running.log")) == ("changed", ["2"])


async def test_old_steps_that_never_end_are_waited_for_and_then_told(world: World) -> None:
    """It is at the version: whether it stays there is not known while steps run."""
    change = world.change(apply=(*world.change().apply, world.hands.adding("slow", "sleep 5")))
    await given_up(world, change)
    result = await world.work(world.job(replace(change, timeout=2.0), token=Token(0, 2, 1)))
    assert result.outcome in ("blocked", "unknown")
    assert world.hands.lines("running.log") == ["2"]


# ---------------------------------------------------------------- not changed


async def test_a_step_that_fails_is_failed_with_what_it_said(world: World) -> None:
    bad = ("sh", "-c", "echo unknown key in agent.hcl >&2; exit 4")
    result = await world.work(world.job(world.change(apply=(bad, *world.change().apply))))
    assert result.outcome == "failed"
    assert "status 4: unknown key in agent.hcl" in result.reason
    assert world.hands.lines("running.log") == []


async def test_a_version_that_does_not_come_is_failed(world: World) -> None:
    job = world.job(world.change(apply=(world.write("installed", "{to}"),)))
    result = await world.work(job)
    assert (result.outcome, result.reason) == ("failed", "1 is running, not 2")


async def test_an_agent_that_does_not_come_back_is_failed(world: World) -> None:
    gone = ("rm", str(world.hands.folder / "running"))
    result = await world.work(world.job(world.change(apply=(*world.change().apply, gone))))
    assert (result.outcome, result.reason) == ("failed", "no known version is running, not 2")


async def test_without_a_permit_it_is_not_begun(world: World) -> None:
    world.permit = no
    result = await world.work()
    assert (result.outcome, world.hands.lines("running.log")) == ("not_begun", [])


async def test_a_prepare_that_fails_is_blocked(world: World) -> None:
    repository = ("sh", "-c", "echo 404 no such package; exit 1")
    result = await world.work(world.job(world.change(prepare=(("true",), repository))))
    assert result.outcome == "blocked"
    assert "404 no such package" in result.reason
    assert world.hands.lines("running.log") == []


async def test_a_prepare_that_fails_is_undone_and_that_is_said(world: World) -> None:
    """All of it is undone, also the part that came after the step that failed."""
    undo = (world.hands.adding("undone"), world.hands.adding("undone"))
    change = world.change(prepare=(("sh", "-c", "echo disk full; exit 7"),), unprepare=undo)
    result = await world.work(world.job(change))
    assert result.outcome == "blocked"
    assert result.reason.endswith("status 7: disk full; nothing was begun; prepare undone")
    assert dict(result.facts)["unprepared"] == "yes"
    assert world.hands.lines("undone") == ["ran", "ran"]
    assert "unprepare" in world.beats
    assert world.hands.lines("running.log") == []


async def test_what_cannot_be_undone_is_said_and_the_rest_is_undone(world: World) -> None:
    bad = ("sh", "-c", "echo in use; exit 3")
    undo = (bad, world.hands.adding("undone"))
    result = await world.work(world.job(world.change(prepare=(("false",),), unprepare=undo)))
    assert result.outcome == "blocked"
    assert "; prepare could not be undone: 'sh -c echo in use; exit 3' ended" in result.reason
    assert dict(result.facts)["unprepared"].endswith("status 3: in use")
    assert world.hands.lines("undone") == ["ran"]


async def test_an_unprepare_that_hangs_leaves_the_outcome_as_it_is(world: World) -> None:
    change = world.change(prepare=(("false",),), unprepare=(("sleep", "60"),), timeout=2.0)
    result = await world.work(world.job(change))
    assert result.outcome == "blocked"
    assert "; prepare could not be undone: it did not end in time" in result.reason


async def test_a_host_that_refuses_to_begin_undoes_its_prepare(world: World) -> None:
    prepared, undone = world.hands.adding("prepared"), world.hands.adding("undone")
    change = world.change(prepare=(prepared,), unprepare=(undone,))
    place = world.hands.state / "runs" / "hindered"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("a file where the runner's folder must be\n")
    result = await world.work(world.job(change, operation="hindered"))
    assert (result.outcome, world.hands.lines("prepared")) == ("blocked", ["ran"])
    assert result.reason.endswith("nothing was begun; prepare undone")
    assert world.hands.lines("undone") == ["ran"]


@pytest.mark.parametrize("direction", ["forward", "back"])
async def test_what_is_not_blocked_is_not_unprepared(world: World, direction: Direction) -> None:
    """Without a permit it will be asked again; and the former version is never thrown away."""
    undone = world.hands.adding("undone")
    blocked = direction == "back"
    prepare = (("false",),) if blocked else (("true",),)
    world.set("2", "2") if blocked else None
    world.permit = no
    change = world.change(prepare=prepare, unprepare=(undone,))
    result = await world.work(world.job(change, direction=direction))
    assert result.outcome == ("blocked" if blocked else "not_begun")
    assert world.hands.lines("undone") == []


async def test_a_version_that_nobody_spoke_of_is_blocked(world: World) -> None:
    world.set("1", "7")
    result = await world.work()
    assert (result.outcome, world.hands.lines("running.log")) == ("blocked", [])
    assert "7 is running, neither 1 nor 2" in result.reason


async def test_steps_past_the_time_limit_are_unknown(world: World) -> None:
    job = world.job(world.change(apply=(world.hands.adding("slow", "sleep 4"),), timeout=2.0))
    result = await world.work(job)
    assert result.outcome == "unknown"
    assert world.hands.lines("slow") == ["ran"]


async def test_a_killed_runner_is_unknown(world: World) -> None:
    job = world.job(world.change(apply=(world.hands.adding("slow", "exec sleep 60"),)))
    working = asyncio.create_task(world.work(job))
    await until(lambda: world.hands.lines("slow"))
    begun = (world.hands.run_folder("op", "forward", 1) / "begun").read_text().split()
    os.kill(int(begun[3]), signal.SIGKILL)
    result = await working
    assert result.outcome == "unknown"
    assert "ended without a status" in result.reason
    os.kill(int(result.reason.split()[-1]), signal.SIGKILL)


async def test_a_stale_attempt_is_unknown_and_changes_nothing(world: World) -> None:
    await world.work(world.job(token=Token(0, 5, 1)))
    world.set("1", "1")
    result = await world.work(world.job(token=Token(0, 4, 1)))
    assert result.outcome == "unknown"
    assert "a newer attempt" in result.reason
    assert world.hands.lines("running") == ["v1"]


# ---------------------------------------------------------------- silence and refusal


@dataclass
class Faulty:
    """The driver, but a chosen call raises."""

    inner: Hands
    run_raises: Exception | None = None
    apply_raises: Exception | None = None
    after_go: bool = False

    async def run(self, host: Host, command: Command, *, limit: float) -> tuple[int, str]:
        if self.run_raises:
            raise self.run_raises
        return await self.inner.driver.run(host, command, limit=limit)

    async def apply(self, host: Host, request: StepRequest, permit: Permit) -> object:
        if self.after_go:
            await permit()
        assert self.apply_raises
        raise self.apply_raises


GONE = Unreachable("h does not answer")


@pytest.mark.parametrize(
    ("raises", "entry_now", "outcome"),
    [
        (GONE, entry("1"), "unknown"),
        (GONE, None, "gone"),
        (GONE, Unanswered("Consul", "x", "y"), "unknown"),
        (BadCredentials("not who it should be"), entry("1"), "credentials"),
        (Refused("no known_hosts file"), entry("1"), "credentials"),
    ],
)
async def test_a_host_that_cannot_be_looked_at(
    world: World, raises: Exception, entry_now: CatalogEntry | Exception | None, outcome: str
) -> None:
    faulty = Faulty(world.hands, run_raises=raises)
    world.catalog = TwinCatalog(entry_now)  # type: ignore[arg-type]
    change = world.change(verify_catalog=ConsulCatalogCheck(5))
    result = await change_host(
        world.job(change),
        faulty,  # type: ignore[arg-type]
        Probes(faulty),  # type: ignore[arg-type]
        catalog=world.catalog,
        permit=yes,
        heartbeat=world.beats.append,
    )
    assert result.outcome == outcome
    assert "nothing was begun" in result.reason


@pytest.mark.parametrize(("after_go", "words"), [(False, "nothing was begun"), (True, "may have")])
async def test_silence_says_whether_anything_may_have_begun(
    world: World, after_go: bool, words: str
) -> None:
    faulty = Faulty(world.hands, apply_raises=GONE, after_go=after_go)
    result = await change_host(
        world.job(world.change(timeout=3.0)),
        faulty,  # type: ignore[arg-type]
        world.probes,
        catalog=None,
        permit=yes,
        heartbeat=world.beats.append,
    )
    assert result.outcome == "unknown"
    assert words in result.reason


async def test_a_later_attempt_never_says_that_nothing_was_begun(world: World) -> None:
    """What an earlier attempt did cannot be known from a host that is silent."""
    faulty = Faulty(world.hands, run_raises=GONE)
    result = await change_host(
        world.job(token=Token(0, 1, 2)),
        faulty,  # type: ignore[arg-type]
        Probes(faulty),  # type: ignore[arg-type]
        catalog=None,
        permit=yes,
        heartbeat=world.beats.append,
    )
    assert (result.outcome, "may have begun" in result.reason) == ("unknown", True)


# ---------------------------------------------------------------- the catalog, as servers see it


@pytest.mark.parametrize(
    ("after", "outcome", "words"),
    [
        ([entry()], "changed", ""),
        ([entry("1"), None, entry(alive=False), entry()], "changed", ""),
        ([Unanswered("Consul", "x", "y"), entry()], "changed", ""),
        ([entry("1")], "failed", "the servers see version 1, not 2"),
        ([entry(alive=False)], "failed", "do not see the agent alive"),
        ([entry(services=())], "failed", "lacks memcached"),
        ([entry(failing=("tcp",))], "failed", "critical since: tcp"),
        ([entry(failing=("old",))], "changed", ""),
        ([None], "failed", "does not have the node"),
        ([Unanswered("Consul", "x", "y")], "unknown", "did not answer"),
    ],
)
async def test_the_servers_must_agree(
    world: World, after: list[object], outcome: str, words: str
) -> None:
    world.catalog = TwinCatalog(entry("1", failing=("old",)), *after)
    change = world.change(verify_catalog=ConsulCatalogCheck(0.7))
    result = await world.work(world.job(change))
    assert result.outcome == outcome
    assert words in result.reason


async def test_one_good_look_is_not_enough(world: World) -> None:
    world.catalog = TwinCatalog(entry("1"), entry(), entry(alive=False))
    result = await world.work(world.job(world.change(verify_catalog=ConsulCatalogCheck(0.5))))
    assert result.outcome == "failed"


async def test_a_silent_catalog_before_the_change_is_blocked(world: World) -> None:
    world.catalog = TwinCatalog(Unanswered("Consul", "x", "y"))  # type: ignore[arg-type]
    result = await world.work(world.job(world.change(verify_catalog=ConsulCatalogCheck(5))))
    assert (result.outcome, world.hands.lines("running.log")) == ("blocked", [])


async def test_a_check_in_a_catalog_that_is_not_there_is_unknown(world: World) -> None:
    result = await world.work(world.job(world.change(verify_catalog=ConsulCatalogCheck(5))))
    assert result.outcome == "unknown"


# ---------------------------------------------------------------- which commands


def test_commands_of_both_directions() -> None:
    words = ("x", "{from}>{to}={version}@{host}")
    change = Change("c", "a", "exec", RunProbe(("x",), "(x)"), RunProbe(("x",), "(x)"), (words,),
                    (words,), None, None, 1.0, unprepare=(words,), obtainable=words)  # fmt: skip
    forward = steps_for(change, "forward", "1", "2", "h")
    assert forward.apply == forward.prepare == forward.unprepare == (("x", "1>2=2@h"),)
    back = steps_for(change, "back", "1", "2", "h")
    assert back.apply == back.prepare == (("x", "2>1=1@h"),)
    assert back.unprepare == ()
    own = steps_for(replace(change, undo=(words,)), "back", "1", "2", "h")
    assert (own.prepare, own.apply) == ((), (("x", "1>2=1@h"),))


def test_either_version_can_be_asked_for() -> None:
    change = Change("c", "a", "exec", RunProbe(("x",), "(x)"), RunProbe(("x",), "(x)"), (),
                    (("x",),), None, None, 1.0)  # fmt: skip
    assert asks_whether(change, "1", "h") is None
    asked = replace(change, obtainable=("can", "{version}@{host}"))
    assert asks_whether(asked, "1", "h") == ("can", "1@h")


@pytest.mark.parametrize("value", ["{to}", "$(x)", "a b", "{", "{{host}}", "\\1"])
def test_what_is_filled_in_is_not_read_again(value: str) -> None:
    change = Change("c", "a", "exec", RunProbe(("x",), "(x)"), RunProbe(("x",), "(x)"), (),
                    (("run", "{host}", "{other}"),), None, None, 1.0)  # fmt: skip
    assert steps_for(change, "forward", "1", "2", value).apply == (("run", value, "{other}"),)
