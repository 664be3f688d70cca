"""How are reminders begun, found, asked and spoken to, and what starts them every day?

Each reminder of the worker's source has a Temporal Schedule in its own time zone. Every day at noon
(an hour that no clock leaves out) it looks which moments are near; a moment has one workflow, which
is begun once. What an outage has missed, the schedule catches up with.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleCalendarSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleState,
)
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from guardrail.edges.schedules import Schedules, asked, run_id
from guardrail.edges.shared import LIMIT, NotThere, Shared
from guardrail.edges.temporal import TASK
from guardrail.errors import Refused, Unanswered
from guardrail.model import messages
from guardrail.model.remind import (
    AMENDED,
    REMIND_SAY,
    REMINDER,
    REMINDER_STATE,
    REMINDERS,
    SCHEDULE,
    BeginTask,
    Begun,
    ReminderInput,
    Word,
    reminder_id,
)
from guardrail.model.reminder import Reminder, ReminderState, Wanted

T = TypeVar("T")
NOON = 12
NOT_HEARD = "unexpected workflow task failure"
"""What the server says of a word that came while a run ended: the next run has not heard it."""
AGAIN = 0.2
"""Seconds before such a word is said again."""
LISTED = 1.0
"""Seconds within which Temporal lists the next run of a reminder whose last one has ended."""
SAY = 20.0
"""Seconds that a person's word may take: before `done` all queries are read."""
CATCH_UP = timedelta(days=366)
"""Looks that an outage has missed are made up for when the server is back."""


@dataclass(frozen=True, slots=True)
class Reminding:
    """The reminders of one namespace. Every call raises Unanswered."""

    client: Client
    address: str = ""

    # ------------------------------------------------------------ beginning

    async def begin(self, near: Iterable[Wanted]) -> Begun:
        """A workflow for each that has none; those that run hear their document again."""
        open_ones = await self.open()
        begun: list[str] = []
        running: list[str] = []
        ended: list[str] = []
        for wanted in near:
            try:
                await self._begin(wanted)
            except WorkflowAlreadyStartedError:
                ended.append(wanted.id)
                continue
            (running if wanted.id in open_ones else begun).append(wanted.id)
        return Begun(tuple(begun), tuple(running), tuple(ended))

    async def _begin(self, wanted: Wanted) -> None:
        await self._ask(
            self.client.start_workflow(
                REMINDER,
                ReminderInput(wanted),
                id=reminder_id(wanted.id),
                task_queue=messages.TASK_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                start_signal=AMENDED,
                start_signal_args=[wanted],
                task_timeout=TASK,
                static_summary=f"{wanted.reminder.what}, for {wanted.moment.words}",
                rpc_timeout=LIMIT,
            )
        )

    # ------------------------------------------------------------ asking and saying

    async def open(self, reminder: str = "") -> tuple[str, ...]:
        """The ids of all that are open, sorted; of one reminder, or of all."""
        query = f"WorkflowType = '{REMINDER}' AND ExecutionStatus = 'Running'"
        return tuple(sorted(await self._ask(self._found(query, reminder))))

    async def _found(self, query: str, reminder: str) -> list[str]:
        prefix = reminder_id(f"{reminder}/" if reminder else "")
        found = self.client.list_workflows(query, rpc_timeout=LIMIT)
        ids = [each.id async for each in found]
        return [each.removeprefix(reminder_id("")) for each in ids if each.startswith(prefix)]

    async def pick(self, name: str) -> str:
        """The open one that is meant by `transit-gateway` or `transit-gateway/2027`.

        Raises Refused, naming those that are open.
        """
        known, meant = await self._meant(name)
        if not meant:  # one whose run has just ended is not listed for a moment
            await asyncio.sleep(LISTED)
            known, meant = await self._meant(name)
        if len(meant) == 1:
            return meant[0]
        if "/" in name and not meant:
            return name  # one that has ended can still be shown
        if meant:
            raise Refused(f"{len(meant)} of {name} are open, name one: {', '.join(meant)}")
        listed = ", ".join(known) or "none; see what is to come: guardrail remind check PATH"
        raise Refused(f"no reminder `{name}` is open; open: {listed}")

    async def _meant(self, name: str) -> tuple[tuple[str, ...], list[str]]:
        known = await self.open()
        return known, [each for each in known if name in (each, each.rpartition("/")[0])]

    async def state(self, of: str) -> ReminderState:
        """All that is known of one. Raises Refused where there is none."""
        try:
            return await self._shared(of).query(REMINDER_STATE, ReminderState)
        except NotThere:
            raise Refused(f"there is no reminder {of}") from None

    async def say(self, of: str, word: Word) -> ReminderState:
        """A person's word; its state after it. Raises Refused with the reasons."""
        give_up = asyncio.get_running_loop().time() + SAY
        while True:
            try:
                return await self._say(of, word)
            except Unanswered as silent:
                late = asyncio.get_running_loop().time() > give_up
                if NOT_HEARD not in silent.reason or late:
                    raise
            await asyncio.sleep(AGAIN)

    async def _say(self, of: str, word: Word) -> ReminderState:
        try:
            return await self._shared(of).update(
                REMIND_SAY, word, ReminderState, ident=word.id, within=SAY
            )
        except NotThere:
            raise Refused(f"no reminder {of} is open any more") from None

    def _shared(self, of: str) -> Shared:
        return Shared(
            self.client, self.address, REMINDER, reminder_id(of), f"the reminder {of}", ""
        )

    # ------------------------------------------------------------ schedules

    @property
    def schedules(self) -> Schedules:
        """What looks every day."""
        return Schedules(self.client, self.address, SCHEDULE, "reminder", at_once=True)

    async def keep(self, reminders: Iterable[Reminder]) -> tuple[str, ...]:
        """A schedule for each; those that are new or changed look at once. Their names."""
        return await self.schedules.keep({each.name: schedule_of(each) for each in reminders})

    async def _ask(self, call: Awaitable[T]) -> T:
        return await asked(call, self.address)


def schedule_of(reminder: Reminder) -> Schedule:
    """Every day at noon on the reminder's own clock; what was missed is caught up with."""
    noon = ScheduleCalendarSpec(hour=[ScheduleRange(NOON)], comment="every day at noon")
    return Schedule(
        action=ScheduleActionStartWorkflow(
            REMINDERS,
            BeginTask(reminder.name),
            id=run_id("reminders", reminder.name, reminder.digest),
            task_queue=messages.TASK_QUEUE,
            static_summary=f"which moments of {reminder.name} are near",
        ),
        spec=ScheduleSpec(calendars=[noon], time_zone_name=reminder.occasion.timezone),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL, catchup_window=CATCH_UP),
        state=ScheduleState(note=f"{reminder.what}, by {reminder.people.owner}"),
    )
