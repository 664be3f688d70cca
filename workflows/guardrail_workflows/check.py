"""How is a checklist gone through by its schedule, and who hears of it?

One activity asks everything and says what is to be told; here that is delivered and recorded. The
result is what the next run is given, so it knows whether passing is news.
"""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy, VersioningBehavior
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from guardrail.decide import check_words
    from guardrail.decide.checking import unread
    from guardrail.model import check, journal
    from guardrail.model.check import CheckTask, Found, Gone, GoTask
    from guardrail.model.checklist import Report
    from guardrail.model.journal import Entry, EntryId
    from guardrail.model.notice import Answer
    from guardrail_workflows.delivering import (
        delivered,
        nobody,
        recorded,
        recorded_message,
    )

ASKED_WITHIN = timedelta(minutes=2)
"""A worker that is lost in the middle costs so much, and then another one asks."""
RECORDED_WITHIN = timedelta(minutes=30)
"""A journal that cannot be written for longer lacks it: while a run lasts, the schedule leaves the
list's next times out."""


@workflow.defn(name=check.CHECK)
class CheckWorkflow:
    """A checklist, once."""

    @workflow.run
    async def run(self, task: CheckTask) -> Gone:
        """Ask, tell, record."""
        last = workflow.get_last_completion_result(Gone)
        owed = last is not None and last.owed
        found = await self._gone_through(GoTask(task, owed))
        workflow.set_current_details(check_words.sentence(found.report))
        answers = await delivered(found.message) if found.message is not None else ()
        await asyncio.gather(_recorded(found.report), _recorded_message(found, answers))
        return Gone(found.report, found.report.verdict != "pass" or nobody(answers))

    async def _gone_through(self, task: GoTask) -> Found:
        """A worker that cannot do it is no pass either."""
        try:
            found: Found = await workflow.execute_activity(
                check.GO_THROUGH,
                task,
                result_type=Found,
                start_to_close_timeout=ASKED_WITHIN,
                retry_policy=RetryPolicy(maximum_attempts=3),
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.error("a checklist was not gone through: %s", error.cause or error)
            why = f"the worker could not go through it: {error.cause or error}"
            report = unread(task.check.checklist, workflow.time(), why)
            return Found(report, check_words.message(task.check, report, owed=task.owed))
        return found


async def _recorded_message(found: Found, answers: tuple[Answer, ...] | None) -> None:
    if found.message is not None:
        run = workflow.info().run_id
        await recorded_message(
            journal.NOTICES, run, 1, found.message, answers, within=RECORDED_WITHIN
        )


async def _recorded(report: Report) -> None:
    """Temporal forgets a result within days; the journal does not."""
    ident, record = EntryId(workflow.info().run_id, 0, 0), check_words.report_record(report)
    entry = Entry(journal.CHECKS, ident, report.at, record)
    await recorded([entry], f"the report of {report.checklist}", RECORDED_WITHIN)


@workflow.defn(name=check.CHECK, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class UpgradedCheckWorkflow(CheckWorkflow):
    """The same for workers with a build: see leases.UpgradedLeasesWorkflow."""

    @workflow.run
    async def run(self, task: CheckTask) -> Gone:
        """See CheckWorkflow."""
        return await super().run(task)
