"""A worker for reminders with made-up hands: what is sent is noted, queries answer as told."""

import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from guardrail.edges.converter import CONVERTER
from guardrail.model import board, messages, remind
from guardrail.model.board import Delivered
from guardrail.model.journal import Entry, Head
from guardrail.model.notice import Failed, Message, Sent
from guardrail.model.remind import BeginTask, Begun, ReadAnswer, ReadTask
from guardrail.model.reminder import ReadBack
from guardrail_workflows.reminder import RemindersWorkflow, ReminderWorkflow
from guardrail_workflows.reminding import Reminders


@dataclass
class Told:
    """What the made-up activities share. values: by reminder, then by name of what is read.

    broken: nothing can be read, whatever is tried. outage: from when to when nothing can be done
    (a test server does not skip the time in which there is no worker at all).
    """

    values: dict[str, dict[str, float]] = field(default_factory=dict)
    refusing: set[str] = field(default_factory=set)
    sent: dict[str, list[tuple[float, tuple[str, ...]]]] = field(default_factory=dict)
    causes: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    looks: list[BeginTask] = field(default_factory=list)
    broken: bool = False
    outage: tuple[float, float] = (0.0, 0.0)

    @activity.defn(name=remind.TELL_TIME)
    async def tell_time(self) -> float:
        return self._up()

    def _up(self) -> float:
        """The time; in the outage nothing is done, and tried again after it."""
        at = activity.info().started_time.timestamp()
        if self.outage[0] <= at < self.outage[1]:
            after = timedelta(seconds=self.outage[1] - at)
            raise ApplicationError("an outage", next_retry_delay=after)
        return at

    @activity.defn(name=board.DELIVER)
    async def deliver(self, message: Message) -> Delivered:
        at = self._up()
        self.causes.append(message.cause)
        self.sent.setdefault(message.about, []).append((at, message.to))
        if set(message.to) <= self.refusing:
            return Delivered(tuple(Failed(name, at, "refused") for name in message.to))
        return Delivered(tuple(Sent(name, at) for name in message.to))

    @activity.defn(name=remind.READ_REMINDER)
    async def read(self, task: ReadTask) -> ReadAnswer:
        at = self._up()
        if self.broken:
            raise OSError("as the test says")
        found = self.values.get(task.reminder, {})
        names = ("quota", "verify")
        return ReadAnswer(
            task.turn, tuple(ReadBack(n, found.get(n), at, "no data") for n in names), at
        )

    @activity.defn(name=remind.BEGIN_REMINDERS)
    async def begin(self, task: BeginTask) -> Begun:
        self.looks.append(task)
        return Begun()

    @activity.defn(name=messages.RECORD)
    async def record(self, entries: list[Entry]) -> Head:
        self.entries += entries
        return Head(1, "h")

    def worker(self, client: Client, real: Reminders | None = None) -> Worker:
        """real: whose activities look for what is near and read queries, other than made up."""
        found = [self.tell_time, self.read, self.begin] if real is None else real.all
        return Worker(
            client,
            task_queue=messages.TASK_QUEUE,
            workflows=[ReminderWorkflow, RemindersWorkflow],
            activities=[self.deliver, self.record, *found],
            workflow_runner=UnsandboxedWorkflowRunner(),
        )


@asynccontextmanager
async def skipping_server():
    """A test server whose time passes as soon as nobody has anything to do."""
    beside = Path(sys.executable).parent / "temporal-test-server"
    env = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=str(beside), data_converter=CONVERTER
    )
    async with env:
        yield env
