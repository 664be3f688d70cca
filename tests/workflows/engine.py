"""An engine for tests: the real workflow on a Temporal test server, with made-up hands and eyes.

Hosts answer as `World.outcomes` says (by name, one outcome a try), gates judge as
`World.verdicts` says. A test that comes in between says after how many hosts of each operation
(`World.up_to`): the next stand in flight and begin nothing, so it is in time on any machine.
"""

import asyncio
import time
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from guardrail.decide.signing import statement
from guardrail.model import messages
from guardrail.model.budget import WarmRule
from guardrail.model.change import ChangeRef
from guardrail.model.common import Amount
from guardrail.model.fleet import Fleet, HostList
from guardrail.model.identity import Signed, Signer
from guardrail.model.journal import Entry, Head
from guardrail.model.messages import (
    Arrivals,
    HostAnswer,
    HostTask,
    Judged,
    LeaderTask,
    Led,
    MayBegin,
    MergeTask,
    Observed,
    ObserveTask,
    Planned,
    PlanRequest,
    RereadAnswer,
    RereadTask,
    RolloutInput,
    Said,
    Say,
    Status,
    WatchTask,
)
from guardrail.model.operation import HostFound
from guardrail.model.plan import Course, Merged
from guardrail.model.policy import Policy
from guardrail.model.rollout import Rollout
from guardrail.twins import Turn, TwinJournal, as_planned, judgement
from guardrail_workflows.worker import make_worker


@activity.defn(name=messages.CHECK_SIGNATURE)
async def check_signature(signed: Signed) -> Signer:
    """A made-up signature is a name and the text; real ones are in tests/edges."""
    name, _, text = signed.signature.partition("\n")
    if text != signed.text:
        return Signer(problem="not over this text")
    return Signer(name, (), f"SHA256:{name}")


ALL = 1_000_000  # hosts: more than any test has
LONGEST = 180.0  # seconds; an operation that takes longer hangs, and its test fails


@dataclass
class World:
    """What the made-up activities share. `begun` has (name, turn, attempt) of each beginning."""

    course: Course
    client: Client
    takes: float = 0.0
    up_to: int = ALL
    outcomes: dict[str, list[str]] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    refusals: tuple[str, ...] = ()
    begun: list[tuple[str, int, int]] = field(default_factory=list)
    warmed: dict[str, tuple[WarmRule, ...]] = field(default_factory=dict)
    watches: list[int] = field(default_factory=list)
    hang: asyncio.Event | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    journal: TwinJournal = field(default_factory=TwinJournal)
    unwritable: str = ""
    policies: Merged | str | None = None
    merges: int = 0
    added: list[tuple[Policy, ...]] = field(default_factory=list)
    reread: list[tuple[HostFound, ...]] = field(default_factory=list)
    readings: list[RereadTask] = field(default_factory=list)
    arrivals: tuple[str, ...] = ()
    moved: list[tuple[str, ...]] = field(default_factory=list)
    leads: list[int | str] = field(default_factory=list)
    tasks: list[HostTask] = field(default_factory=list)

    @activity.defn(name=messages.PLAN_OPERATION)
    async def plan(self, request: PlanRequest) -> Planned:
        course = replace(self.course, requester=request.requester)
        return Planned("sha256:x", None if self.refusals else course, self.refusals, ())

    @activity.defn(name=messages.RECORD)
    async def record(self, entries: list[Entry]) -> Head:
        if self.unwritable:
            raise ApplicationError(self.unwritable, type="Unanswered")
        return self.journal.append(entries)

    @activity.defn(name=messages.MERGE_POLICIES)
    async def merge(self, task: MergeTask) -> Merged:
        self.merges += 1
        self.added.append(task.policies)
        if isinstance(self.policies, str):
            raise ApplicationError(self.policies, type="InvalidFile")
        return self.policies or as_planned(self.course, time.time())

    @activity.defn(name=messages.LOAD_COURSE)
    async def load(self, digest: str) -> Course:
        return self.course

    @activity.defn(name=messages.CHANGE_HOST)
    async def change(self, task: HostTask) -> HostAnswer:
        self.tasks.append(task)
        number = sum(each.operation == task.operation for each in self.tasks)
        name = f"host-{task.index:03d}"
        while number > self.up_to:
            activity.heartbeat()
            await asyncio.sleep(0.02)
        handle = self.client.get_workflow_handle(messages.workflow_id(task.operation))
        may = await handle.query(messages.MAY_BEGIN, result_type=MayBegin)
        if not may.allowed:
            return HostAnswer(task.index, task.turn, "not_begun", name, may.reason)
        self.begun.append((name, task.turn, activity.info().attempt))
        self.warmed[name] = task.warm
        if self.hang is not None:
            while not self.hang.is_set():
                activity.heartbeat()
                await asyncio.sleep(0.05)
        await asyncio.sleep(self.takes)
        queue = self.outcomes.get(name, [])
        outcome = queue.pop(0) if queue else "changed"
        return HostAnswer(task.index, task.turn, outcome, name, "as the test says")

    @activity.defn(name=messages.REREAD_HOSTS)
    async def read_again(self, task: RereadTask) -> RereadAnswer:
        self.readings.append(task)
        wrong = self.reread.pop(0) if self.reread else ()
        return RereadAnswer(int(task.hosts, 16).bit_count(), wrong, at=time.time())

    @activity.defn(name=messages.OBSERVE_PLAN)
    async def observe_plan(self, task: ObserveTask) -> Observed:
        return Observed(self.moved.pop(0) if self.moved else (), time.time())

    @activity.defn(name=messages.SEE_LEADER)
    async def see_leader(self, task: LeaderTask) -> Led:
        """The next of those told; the last one stays."""
        who = self.leads.pop(0) if len(self.leads) > 1 else self.leads[0]
        if isinstance(who, str):
            raise ApplicationError(who, type="Unanswered", non_retryable=True)
        return Led(who, f"host-{who:03d}", "", time.time())

    @activity.defn(name=messages.FIND_ARRIVALS)
    async def find_arrivals(self, digest: str) -> Arrivals:
        return Arrivals(self.arrivals, at=time.time())

    @activity.defn(name=messages.WATCH_GATES)
    async def watch(self, task: WatchTask) -> None:
        self.watches.append(task.turn)
        handle = self.client.get_workflow_handle(messages.workflow_id(task.operation))
        told: dict[str, str] = {}
        while True:
            for rule in self.course.gates:
                verdict = self.verdicts.get(rule.name, "pass")
                if told.get(rule.name) != verdict and verdict != "silent":
                    told[rule.name] = verdict
                    turn = Turn(time.time(), rule.name, verdict)
                    await handle.signal(messages.JUDGED, Judged(task.turn, judgement(turn)))
            activity.heartbeat()
            await asyncio.sleep(0.02)

    @property
    def activities(self):
        mine = [check_signature, self.plan, self.load, self.change, self.watch]
        return [
            *mine,
            self.record,
            self.read_again,
            self.find_arrivals,
            self.observe_plan,
            self.see_leader,
            self.merge,
        ]


@dataclass
class Running:
    """An operation that has been started, and what a person does with it."""

    world: World
    handle: WorkflowHandle
    name: str

    async def say(self, verb, by="bob", *, ident=None, sign="", **fields) -> Said:
        """sign: whose made-up signature is put below it."""
        say = Say(ident or uuid.uuid4().hex, verb, by, **fields)
        if sign:
            text = statement(self.name, self.world.course.plan, say)
            say = replace(say, signature=f"{sign}\n{text}")
        return await self.handle.execute_update(messages.UPDATE, say, result_type=Said)

    async def status(self) -> Status:
        return await self.handle.query(messages.STATUS, result_type=Status)

    async def until(self, condition, limit=20.0) -> Status:
        """The first status for which `condition` is true; fails with the last one seen."""
        give_up = time.monotonic() + limit
        while True:
            status = await self.status()
            if condition(status):
                return status
            assert time.monotonic() < give_up, status.sentence
            await asyncio.sleep(0.02)


def stands(name: str):
    """Whether a hold of that name stands, to be asked of a status."""
    return lambda status: name in [hold.name for hold in status.holds]


@asynccontextmanager
async def real_server():
    """A real Temporal development server: real time, search attributes, updates."""
    import shutil
    import sys
    from pathlib import Path

    from temporalio.common import SearchAttributeKey

    beside = Path(sys.executable).parent / "temporal"
    binary = str(beside) if beside.exists() else shutil.which("temporal")
    keys = [SearchAttributeKey.for_keyword("GuardrailPhase")]
    keys += [SearchAttributeKey.for_keyword("GuardrailOperation")]
    keys += [SearchAttributeKey.for_keyword("GuardrailFleet")]
    held = SearchAttributeKey.for_bool("GuardrailHeld")
    env = await WorkflowEnvironment.start_local(
        dev_server_existing_path=binary,
        data_converter=pydantic_data_converter,
        search_attributes=[*keys, held],
        dev_server_log_level="error",
        dev_server_extra_args=[
            "--dynamic-config-value",
            "history.maximumBufferedEventsBatch=5000",
            "--dynamic-config-value",
            'history.timerProcessorMaxTimeShift="10ms"',
        ],
    )
    async with env:
        yield env


@asynccontextmanager
async def operation(client: Client, world: World, name: str | None = None, **fields):
    """A worker with the made-up activities, and an operation started on it."""
    name = name or f"op-{uuid.uuid4().hex[:8]}"
    async with asyncio.timeout(LONGEST), make_worker(client, world.activities):
        handle = await start(client, name, **fields)
        yield Running(world, handle, name)


async def start(
    client: Client, name: str, requester: str = "ann", run_events=2000, policies=()
) -> WorkflowHandle:
    rollout = Rollout("r", "cache", ChangeRef("c", "1", "2", "d"), (Amount(100, True),))
    fleet = Fleet("cache", HostList(()))
    return await client.start_workflow(
        messages.ROLLOUT,
        RolloutInput(
            PlanRequest(name, rollout, fleet, requester, policies=policies), run_events=run_events
        ),
        id=messages.workflow_id(name),
        task_queue=messages.TASK_QUEUE,
        result_type=Status,
    )
