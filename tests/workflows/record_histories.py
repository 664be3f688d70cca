"""Which operations must every later build be able to carry on? One recorded history a scenario.

    .venv/bin/python tests/workflows/record_histories.py [SCENARIO …]

runs each scenario with the real workflow on a real Temporal server, with made-up hands and eyes,
and writes `histories/SCENARIO.json` (`-run-1`, `-run-2` where it was continued as new), with the
build that recorded it. `test_replay.py` replays them. Record again only for a deliberate change
of what is decided (CONTRIBUTING.md, Releasing).
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

if __name__ == "__main__":  # run as a file; pytest has these on its path
    sys.path.insert(0, str(Path(__file__).parents[1]))

import temporalio
from leasing_world import Leasing, begin, needing
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle, WorkflowHistory
from test_rollout import course
from test_windows_workflow import course as closing

from guardrail.cli.release import build_id
from guardrail.edges.deployment import make_current
from guardrail.edges.leases import Desk
from guardrail.edges.temporal import Operations
from guardrail.model import messages
from guardrail.model.board import TELL, Tidings
from guardrail.model.common import Origin
from guardrail.model.lease import Break
from guardrail.model.messages import Planned, PlanRequest, WatchTask
from guardrail.model.operation import HostFound
from guardrail.model.plan import ApprovalPoint, Caps
from guardrail.twins import as_planned
from guardrail_workflows.worker import make_worker

from engine import ALL, Running, World, real_server, stands, start

HISTORIES = Path(__file__).parent / "histories"
RUNS = 2
"""Runs kept of an operation that was continued as new: the first, and the one it goes on in."""


@dataclass
class Losing(World):
    """A world whose first watcher is lost halfway."""

    @activity.defn(name=messages.WATCH_GATES)
    async def watch(self, task: WatchTask) -> None:
        async with asyncio.timeout(None if self.watches else 0.5):
            await World.watch(self, task)


@dataclass
class Telling(World):
    """A world whose worker has channels."""

    told: list[Tidings] = field(default_factory=list)

    @activity.defn(name=messages.PLAN_OPERATION)
    async def plan(self, request: PlanRequest) -> Planned:
        return replace(await World.plan(self, request), notices=True)

    @activity.defn(name=TELL)
    async def tell(self, tidings: Tidings) -> None:
        self.told.append(tidings)

    @property
    def activities(self):
        return [*World.activities.fget(self), self.tell]


# ---------------------------------------------------------------- the scenarios
# Where a person comes in, the next host stands until the person has been there (`up_to`).


@asynccontextmanager
async def operation(client: Client, scenario: str, world: World, **fields):
    """A versioned worker, and the scenario's operation on it."""
    build = build_id()
    async with make_worker(client, world.activities, build):
        await make_current(Operations(client, "the recorder's server"), build)
        yield Running(world, await start(client, scenario, **fields), scenario)


async def ends(op: Running, phase: str, **counts: int) -> None:
    """The operation reaches this end, or the recording is worth nothing."""
    end = await client_handle(op).result()
    assert end.phase == phase, end.sentence
    for name, count in counts.items():
        assert getattr(end, name) == count, end.sentence


def client_handle(op: Running) -> WorkflowHandle:
    """The operation's handle, whatever run it is in."""
    return op.world.client.get_workflow_handle(op.handle.id, result_type=messages.Status)


def holds(name: str):
    """Whether a hold of that name stands and nothing is in flight."""
    return lambda status: not status.in_flight and stands(name)(status)


async def completes(client: Client, name: str) -> None:
    async with operation(client, name, World(course(1, 4, 9), client)) as op:
        await ends(op, "completed", changed=9)


async def gate_fails(client: Client, name: str) -> None:
    world = World(course(1, 6), client, up_to=2)
    async with operation(client, name, world) as op:
        await op.until(lambda s: s.changed == 2)
        world.verdicts["margin"] = "fail"
        await op.until(stands("gate:margin"))
        world.up_to = ALL
        await op.until(holds("gate:margin"))
        world.verdicts["margin"] = "pass"
        await op.until(lambda s: s.gates[0].judgement.verdict == "pass")
        await op.say("resume", ident="1")
        await ends(op, "completed", changed=6)


async def gate_recovers(client: Client, name: str) -> None:
    """By evidence alone, where the policy says so: at half the pace from then on."""
    world = World(course(1, 6, by="evidence"), client, up_to=2)
    async with operation(client, name, world) as op:
        await op.until(lambda s: s.changed == 2)
        world.verdicts["margin"] = "fail"
        await op.until(stands("gate:margin"))
        world.up_to = ALL
        await op.until(holds("gate:margin"))
        world.verdicts["margin"] = "pass"
        await ends(op, "completed", changed=6)


async def evidence_lost(client: Client, name: str) -> None:
    world = World(course(1, 6), client, up_to=2)
    async with operation(client, name, world) as op:
        await op.until(lambda s: s.changed == 2)
        world.verdicts["margin"] = "inconclusive"
        await op.until(stands("evidence:margin"))
        world.up_to = ALL
        await op.until(holds("evidence:margin"))
        world.verdicts["margin"] = "pass"
        await ends(op, "completed", changed=6)


async def watcher_lost(client: Client, name: str) -> None:
    world = Losing(course(1, 4), client, takes=0.6)
    async with operation(client, name, world) as op:
        await ends(op, "completed", changed=4)
    assert len(world.watches) == 2


async def paused(client: Client, name: str) -> None:
    world = World(course(1, 6), client, up_to=2)
    async with operation(client, name, world) as op:
        await op.until(lambda s: s.changed == 2)
        await op.say("pause", reason="lunch", ident="1")
        world.up_to = ALL
        await op.until(holds("operator:bob"))
        await op.say("pause", reason="lunch", ident="1")
        await op.say("resume", ident="2")
        await ends(op, "completed", changed=6)


async def approved(client: Client, name: str) -> None:
    point = ApprovalPoint("start", 0, 2, True, Origin("policy test", "test.yaml", 1))
    async with operation(client, name, World(course(2, approvals=(point,)), client)) as op:
        await op.until(holds("approval:start"))
        await op.say("approve", sign="cid", point="start", ident="1")
        await op.say("approve", sign="dee", point="start", ident="2")
        await op.say("approve", sign="eve", point="start", ident="3")
        await ends(op, "completed", changed=2)


async def overridden(client: Client, name: str) -> None:
    """A limit is exceeded for a while; one that was asked for and taken back has no history."""
    world = World(course(1, 6, unavailable=1), client, up_to=1)
    async with operation(client, name, world) as op:
        await op.until(lambda s: s.changed == 1)
        until = float(int(time.time()) + 3)
        said = {"limit": "unavailable", "value": 2.0, "until": until, "reason": "late"}
        await op.say("override", ident="1", **said)
        await op.until(lambda s: not s.overrides)
        world.up_to = ALL
        await ends(op, "completed", changed=6)


async def unknown_retried(client: Client, name: str) -> None:
    world = World(course(1, 3), client, outcomes={"host-001": ["unknown"]})
    async with operation(client, name, world) as op:
        await op.until(holds("host:host-001"))
        await op.say("retry", hosts=("host-001",), ident="1")
        await ends(op, "completed", changed=3)


async def failed_skipped(client: Client, name: str) -> None:
    world = World(course(1, 4), client, outcomes={"host-002": ["failed"]})
    async with operation(client, name, world) as op:
        await op.until(lambda s: s.holds and s.failed and not s.in_flight)
        await op.say("skip", hosts=("host-002",), ident="1")
        await ends(op, "completed", changed=3, set_aside=1)


async def aborted(client: Client, name: str) -> None:
    world = World(course(1, 6), client, up_to=2)
    async with operation(client, name, world) as op:
        await op.until(lambda s: s.changed == 2 and s.in_flight)
        await op.say("abort", reason="wrong version", ident="1")
        world.up_to = ALL
        await ends(op, "aborted")


async def rolled_back_by_policy(client: Client, name: str) -> None:
    plan = replace(course(1, 3, 6, unavailable=1), rollback_when="auto")
    world = World(plan, client, outcomes={"host-002": ["failed"]})
    async with operation(client, name, world) as op:
        await ends(op, "rolled_back", changed=0, reverted=3)


async def rolled_back_by_a_person(client: Client, name: str) -> None:
    world = World(course(2, 4, unavailable=1), client, up_to=3)
    async with operation(client, name, world) as op:
        await op.until(lambda s: s.changed == 3)
        await op.say("rollback", scope="wave", reason="odd", ident="1")
        world.up_to = ALL
        await op.until(holds("rollback:wave"))
        await op.say("rollback", scope="all", ident="2")
        await ends(op, "rolled_back", changed=0)


async def continued(client: Client, name: str) -> None:
    """Several runs; the first carries a command that was answered to the second."""
    world = World(course(1, 3, 5, 8, 12), client, up_to=1)
    async with operation(client, name, world, run_events=60) as op:
        await op.until(lambda s: s.changed == 1)
        await op.say("pause", reason="lunch", ident="1")
        world.up_to = ALL
        await op.say("resume", ident="2")
        await ends(op, "completed", changed=12)


async def drained(client: Client, name: str) -> None:
    """A run without a quiet moment is made to have one."""
    world = World(course(40, unavailable=3, bake=0.0), client, takes=0.05)
    async with operation(client, name, world, run_events=16) as op:
        await ends(op, "completed", changed=40)


async def put_back_by_hand(client: Client, name: str) -> None:
    """Changed hosts are read again; one was put back, and a person has it changed once more."""
    wrong = HostFound(0, "host-000", "at 1, and was brought to 2")
    world = World(replace(course(1, 3), reread=100), client, reread=[(wrong,)])
    async with operation(client, name, world) as op:
        await op.until(holds("reverted"))
        await op.say("retry", hosts=("host-000",), ident="1")
        await ends(op, "completed", changed=3)


async def window(client: Client, name: str) -> None:
    """A window closes in the middle of a wave, and opens again."""
    world = World(closing(time.time(), 8), client, takes=1.3)
    async with operation(client, name, world) as op:
        await op.until(holds("window"))
        await ends(op, "completed", changed=8)


async def tightened(client: Client, name: str) -> None:
    """Policies cannot be read for a while, and are stricter once they can."""
    plan = replace(course(2, 4, unavailable=2), merges=True)
    world = World(plan, client, takes=0.1, policies="policies/base.yaml:3:1: unknown key `x`")
    async with operation(client, name, world) as op:
        await op.until(holds("policy"))
        world.policies = replace(as_planned(plan, 1.0), caps=Caps(1, 1, 3, 0), wave=1)
        await ends(op, "completed", changed=4)


async def plan_moved(client: Client, name: str) -> None:
    """After a long hold something has moved, and a person accepts it by name."""
    plan = replace(course(1, 3), observe_after=0.5)
    world = World(plan, client, up_to=1, moved=[("1 host went: host-009",)])
    async with operation(client, name, world) as op:
        await op.until(lambda s: s.changed == 1)
        await op.say("pause", reason="lunch", ident="1")
        world.up_to = ALL
        long = time.monotonic() + 0.7
        await op.until(lambda _: time.monotonic() > long)
        await op.say("resume", ident="2")
        await op.until(holds("plan"))
        await op.say("resume", over="plan", reason="it was scrapped", ident="3")
        await ends(op, "completed", changed=3)


async def refused(client: Client, name: str) -> None:
    world = World(course(3), client, refusals=("no host may go: all is down",))
    async with operation(client, name, world) as op:
        try:
            await op.handle.result()
        except WorkflowFailureError as failure:
            assert failure.cause.type == "Refused"  # noqa: PT017 - this is no test
        else:
            raise AssertionError("a refused plan was started")


@asynccontextmanager
async def leasing(client: Client, scenario: str, *others: str):
    """A versioned worker, and the scenario's operation and others to start on one role."""
    build = build_id()
    world = Leasing(course(1), client, up_to=3)
    world.courses = {scenario: needing(2, 5), **dict.fromkeys(others, needing(1))}
    async with make_worker(client, world.activities, build):
        await make_current(Operations(client, "the recorder's server"), build)
        yield world, await begin(world, scenario)


async def lease_yielded(client: Client, name: str) -> None:
    """Somebody urgent takes its lease; it goes on after a bake when it has it again."""
    async with leasing(client, name, "urgent") as (world, op):
        await op.until(lambda s: s.changed == 3)
        urgent = await begin(world, "urgent", priority="urgent")
        await op.until(stands("yield"))
        world.up_to = ALL
        await op.until(holds("yield"))
        assert (await urgent.handle.result()).phase == "completed"
        await ends(op, "completed", changed=5)


async def lease_broken(client: Client, name: str) -> None:
    """A person breaks its lease, and another one resumes it."""
    async with leasing(client, name) as (world, op):
        await op.until(lambda s: s.changed == 3)
        await Desk(client).break_lease(Break("memcached", "cid", "mine now"))
        await op.until(stands("lease"))
        world.up_to = ALL
        await op.until(holds("lease"))
        async with asyncio.timeout(20):
            while (await Desk(client).table()).leases:  # noqa: ASYNC110 - it is elsewhere
                await asyncio.sleep(0.1)
        await op.say("resume", ident="1")
        await ends(op, "completed", changed=5)


async def told(client: Client, name: str) -> None:
    """People are told of a hold, of its end, and of the operation's."""
    world = Telling(course(1, 6), client, up_to=2)
    async with operation(client, name, world) as op:
        await op.until(lambda s: s.changed == 2)
        world.verdicts["margin"] = "fail"
        await op.until(stands("gate:margin"))
        world.up_to = ALL
        await op.until(holds("gate:margin"))
        await op.until(lambda _: len(world.told) == 1)
        world.verdicts["margin"] = "pass"
        await op.until(lambda s: s.gates[0].judgement.verdict == "pass")
        await op.say("resume", ident="1")
        await ends(op, "completed", changed=6)
    assert len(world.told) > 1
    assert world.told[-1].over


Scenario = Callable[[Client, str], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {
    "completes": completes,
    "gate-fails": gate_fails,
    "gate-recovers": gate_recovers,
    "evidence-lost": evidence_lost,
    "watcher-lost": watcher_lost,
    "paused": paused,
    "approved": approved,
    "overridden": overridden,
    "unknown-retried": unknown_retried,
    "failed-skipped": failed_skipped,
    "aborted": aborted,
    "rolled-back-by-policy": rolled_back_by_policy,
    "rolled-back-by-a-person": rolled_back_by_a_person,
    "continued": continued,
    "drained": drained,
    "lease-yielded": lease_yielded,
    "lease-broken": lease_broken,
    "put-back-by-hand": put_back_by_hand,
    "plan-moved": plan_moved,
    "window": window,
    "tightened": tightened,
    "told": told,
    "refused": refused,
}
CONTINUED = ("continued", "drained")


def files() -> dict[str, Path]:
    """Each recorded history's file by name; those continued as new have one for each kept run."""
    names = []
    for name in SCENARIOS:
        runs = range(1, RUNS + 1) if name in CONTINUED else [0]
        names += [f"{name}-run-{run}" if run else name for run in runs]
    return {name: HISTORIES / f"{name}.json" for name in names}


# ---------------------------------------------------------------- recording


async def runs(client: Client, name: str) -> list[WorkflowHistory]:
    """The histories of an operation's runs, first one first."""
    found, run = [], None
    first = await client.get_workflow_handle(messages.workflow_id(name)).describe()
    run = first.raw_description.workflow_execution_info.first_run_id
    while run:
        handle = client.get_workflow_handle(messages.workflow_id(name), run_id=run)
        history = await handle.fetch_history()
        found.append(history)
        last = history.events[-1]
        run = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return found


def plain(value: object) -> object:
    """Without what tells of the recording machine alone: stack traces, process numbers."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        kept = {key: plain(item) for key, item in value.items() if key != "stackTrace"}
        return {**kept, "identity": "recorder"} if "identity" in kept else kept
    return value


def written(name: str, history: WorkflowHistory) -> str:
    """A history as its file has it: an event a line."""
    head = {"recorded": name, "build": build_id(), "sdk": f"temporalio {temporalio.__version__}"}
    events = [plain(event) for event in history.to_json_dict()["events"]]
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    about = json.dumps({**head, "workflow": history.workflow_id})[:-1]
    return f'{about}, "events": [\n{lines}\n]}}\n'


def read(path: Path) -> WorkflowHistory:
    """A recorded history."""
    content = json.loads(path.read_text())
    return WorkflowHistory.from_json(content["workflow"], {"events": content["events"]})


async def record(names: list[str]) -> None:
    """Run these scenarios and write their histories."""
    HISTORIES.mkdir(exist_ok=True)
    async with real_server() as env:
        for name in names:
            await SCENARIOS[name](env.client, name)
            found = await runs(env.client, name)
            assert (len(found) > 1) == (name in CONTINUED), f"{name}: {len(found)} runs"
            for number, history in enumerate(found[:RUNS], 1):
                file = f"{name}-run-{number}" if name in CONTINUED else name
                text = written(name, history)
                files()[file].write_text(text)
                sys.stderr.write(f"{file}: {len(history.events)} events, {len(text)} bytes\n")


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1:] or list(SCENARIOS)))
