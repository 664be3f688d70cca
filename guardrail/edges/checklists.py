"""When is each checklist gone through, and what came of it the last time?

Each checklist of the worker's source has a Temporal Schedule on its own clock. A time that was
missed by more than `CATCH_UP` is left out: what is asked is how things are, and an old reading is
worth nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionResult,
    ScheduleActionStartWorkflow,
    ScheduleCalendarSpec,
    ScheduleDescription,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleState,
    WorkflowExecutionStatus,
    WorkflowHandle,
)

from guardrail.decide.cron import parse
from guardrail.edges.schedules import Schedules, asked, run_id
from guardrail.edges.shared import LIMIT
from guardrail.errors import Refused
from guardrail.model import messages
from guardrail.model.check import CHECK, SCHEDULE, CheckTask, Gone, Standing
from guardrail.model.checklist import Checklist

CATCH_UP = timedelta(hours=1)
FORGOTTEN = "Temporal does not keep it any more"
"""What a result has come to that is older than what the namespace keeps."""


@dataclass(frozen=True, slots=True)
class Checklists:
    """The checklists of one namespace. Every call raises Unanswered."""

    client: Client
    address: str = ""

    @property
    def schedules(self) -> Schedules:
        """What goes through them."""
        return Schedules(self.client, self.address, SCHEDULE, "checklist")

    async def keep(self, checklists: Iterable[Checklist]) -> tuple[str, ...]:
        """A schedule for each; the names of those that are new or changed."""
        return await self.schedules.keep({each.name: schedule_of(each) for each in checklists})

    async def standing(self, name: str) -> Standing:
        """What is known of one. Raises Refused where it has no schedule."""
        known = await self.schedules.of(name)
        state, times = known.schedule.state, known.info.next_action_times
        begun = known.info.recent_actions
        found = Standing(
            name,
            state.paused,
            state.note or "",
            times[0].timestamp() if times else None,
            begun[-1].started_at.timestamp() if begun else None,
        )
        return await self._last(found, known)

    async def _last(self, found: Standing, known: ScheduleDescription) -> Standing:
        """With the newest report; a later time without one is said."""
        problem = ""
        for one in reversed(known.info.recent_actions):
            gone = await self._result(one)
            if isinstance(gone, Gone):
                return replace(found, report=gone.report, problem=problem)
            problem = problem or f"of {one.started_at:%Y-%m-%d %H:%M}Z: {gone}"
            if gone == FORGOTTEN:
                break
        return replace(found, problem=problem)

    async def _result(self, one: ScheduleActionResult) -> Gone | str:
        """What a run came to, or in words why it has come to nothing."""
        action = one.action
        assert isinstance(action, ScheduleActionExecutionStartWorkflow)  # noqa: S101 - no others
        run: WorkflowHandle[Any, Gone] = self.client.get_workflow_handle(
            action.workflow_id, run_id=action.first_execution_run_id, result_type=Gone
        )
        try:
            described = await asked(run.describe(rpc_timeout=LIMIT), self.address, FORGOTTEN)
        except Refused:
            return FORGOTTEN
        if described.status is WorkflowExecutionStatus.COMPLETED:
            return await asked(run.result(rpc_timeout=LIMIT), self.address)
        if described.status is WorkflowExecutionStatus.RUNNING:
            return "it has not ended yet; is there a worker?"
        return f"it was {described.status.name.lower()}" if described.status else "it is lost"


def task_of(checklist: Checklist) -> CheckTask:
    """What its schedule asks for."""
    return CheckTask(checklist.name, checklist.timezone, checklist.tells)


def schedule_of(checklist: Checklist) -> Schedule:
    """Its cron line on its own clock, one at a time; what was missed for long is left out."""
    return Schedule(
        action=ScheduleActionStartWorkflow(
            CHECK,
            task_of(checklist),
            id=run_id("checklists", checklist.name, checklist.digest),
            task_queue=messages.TASK_QUEUE,
            static_summary=f"the checklist {checklist.name}",
        ),
        spec=ScheduleSpec(
            calendars=list(_calendars(checklist.cron)), time_zone_name=checklist.timezone
        ),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=CATCH_UP),
        state=ScheduleState(note=checklist.description or None),
    )


def _calendars(line: str) -> Iterator[ScheduleCalendarSpec]:
    """A cron line as `decide/cron.py` reads it: where both days are given, either is enough, which
    Temporal's own reading does not have."""
    cron = parse(line)
    days, weekdays = _each(cron.days), _each((day + 1) % 7 for day in cron.weekdays)
    every = {
        "minute": _each(cron.minutes),
        "hour": _each(cron.hours),
        "month": _each(cron.months),
    }
    if cron.either:
        yield ScheduleCalendarSpec(**every, day_of_month=days, comment=line)
        yield ScheduleCalendarSpec(**every, day_of_week=weekdays, comment=line)
    else:
        yield ScheduleCalendarSpec(**every, day_of_month=days, day_of_week=weekdays, comment=line)


def _each(numbers: Iterable[int]) -> list[ScheduleRange]:
    return [ScheduleRange(number) for number in sorted(numbers)]
