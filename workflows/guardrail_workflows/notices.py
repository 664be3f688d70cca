"""Who keeps what was said to whom, over all operations? One workflow in a namespace.

It hears what stands in operations, and waits. What is due is decided in `guardrail.decide.notices`,
and asked for in a local activity, whose answer is in history: so this carries on under any later
build. A message that no channel took is due again after a while; nobody waits here for anybody.
"""

import asyncio
from datetime import timedelta
from itertools import count

from temporalio import workflow
from temporalio.common import RetryPolicy, VersioningBehavior
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from guardrail.decide import notices
    from guardrail.decide.record import notice_record
    from guardrail.model import board, journal, messages
    from guardrail.model.board import Delivered, Due, DueTask, NoticesInput, Saying, Tidings
    from guardrail.model.journal import Entry, EntryId, Head
    from guardrail.model.notice import Answer, Sent

SETTLE = 1.0
"""Seconds between two looks at what is due: a storm is looked at once a second."""
DELIVERED_WITHIN = timedelta(minutes=20)
SILENT = timedelta(seconds=15)
"""Without a heartbeat for so long, the worker that delivers is lost."""
RECORDED_WITHIN = timedelta(hours=6)
"""A journal that cannot be written for longer lacks the message; the next one goes on."""
JOURNALS = 20
"""Operations that have a message about them in their own journal; of more it is in `_notices`."""


@workflow.defn(name=board.NOTICES)
class NoticesWorkflow:
    """The notices of all operations, for as long as there is a namespace."""

    @workflow.init
    def __init__(self, given: NoticesInput) -> None:
        self.run_events = given.run_events
        self.board = given.board
        self.number = given.number
        self.news = True
        self.tasks: set[asyncio.Task[None]] = set()

    @workflow.run
    async def run(self, _: NoticesInput) -> None:
        """Say what is due until the history is long; then go on with the same board."""
        while not self._may_continue():
            wake_at = await self._look()
            await workflow.sleep(SETTLE)
            await self._wait(wake_at)
        workflow.continue_as_new(NoticesInput(self.board, self.number, self.run_events))

    def _may_continue(self) -> bool:
        return self._is_long() and not self.tasks and workflow.all_handlers_finished()

    def _is_long(self) -> bool:
        return workflow.info().get_current_history_length() >= self.run_events

    async def _look(self) -> float | None:
        """Begin to say what is due; when to look again."""
        self.news = False
        now = workflow.time()
        self.board = notices.forget(self.board, now)
        due: Due = await workflow.execute_local_activity(
            board.DUE,
            DueTask(self.board, now),
            result_type=Due,
            start_to_close_timeout=timedelta(seconds=5),
        )
        for saying in due.sayings:
            self.board = notices.saying_now(self.board, saying, now)
            self.number += 1
            task = asyncio.create_task(self._say(saying, self.number))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return due.wake_at

    async def _wait(self, wake_at: float | None) -> None:
        """Until something is heard, or due."""
        wait = None if wake_at is None else timedelta(seconds=max(0.001, wake_at - workflow.time()))
        try:
            await workflow.wait_condition(lambda: self.news or self._may_continue(), timeout=wait)
        except TimeoutError:
            return

    async def _say(self, saying: Saying, number: int) -> None:
        """Have it delivered, and keep what became of it."""
        delivered = await self._delivered(saying)
        now = workflow.time()
        if delivered is None or _nobody(delivered.answers):
            self.board = notices.not_taken(self.board, saying, now)
        else:
            self.board = notices.taken(self.board, saying)
        self.news = True
        await self._record(saying, number, delivered.answers if delivered is not None else ())

    async def _delivered(self, saying: Saying) -> Delivered | None:
        """None: it could not be tried, since the worker's channels cannot be read."""
        try:
            answer: Delivered = await workflow.execute_activity(
                board.DELIVER,
                saying.message,
                result_type=Delivered,
                start_to_close_timeout=DELIVERED_WITHIN,
                heartbeat_timeout=SILENT,
                retry_policy=RetryPolicy(maximum_attempts=3),
                summary=saying.like,
            )
        except FailureError as error:
            workflow.logger.error("a message could not be delivered: %s", error.cause or error)
            return None
        return answer

    async def _record(self, saying: Saying, number: int, answers: tuple[Answer, ...]) -> None:
        """In the journals of the operations that it is about."""
        few = len(saying.operations) <= JOURNALS
        for name in saying.operations if few and answers else ():
            await self._record_in(name, saying, number, answers)
        if answers and not few:
            await self._record_in(journal.NOTICES, saying, number, answers)

    async def _record_in(
        self, name: str, saying: Saying, number: int, answers: tuple[Answer, ...]
    ) -> None:
        run, parts = f"notices/{workflow.info().first_execution_run_id}", count()
        about = len(saying.operations)
        entries = [
            Entry(
                name,
                EntryId(run, number, next(parts)),
                answer.at,
                notice_record(saying.message, answer, about),
            )
            for answer in answers
        ]
        try:
            await workflow.execute_activity(
                messages.RECORD,
                entries,
                result_type=Head,
                start_to_close_timeout=timedelta(seconds=10),
                schedule_to_close_timeout=RECORDED_WITHIN,
                summary=f"a message about {name}",
            )
        except FailureError as error:
            workflow.logger.error("a message is not in the journal: %s", error.cause or error)

    # ------------------------------------------------------------ what is said, and asked

    @workflow.signal(name=board.HEAR)
    def hear(self, tidings: Tidings) -> None:
        """What stands in an operation now."""
        self.board = notices.hear(self.board, tidings, workflow.time())
        self.news = True

    @workflow.query(name=board.BOARD)
    def read(self) -> board.Board:
        """What stands, and what of it was said."""
        return self.board


def _nobody(answers: tuple[Answer, ...]) -> bool:
    """Whether it was wanted, and nobody took it."""
    return bool(answers) and not any(isinstance(answer, Sent) for answer in answers)


@workflow.defn(name=board.NOTICES, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class UpgradedNoticesWorkflow(NoticesWorkflow):
    """The same for workers with a build: see leases.UpgradedLeasesWorkflow."""

    @workflow.init
    def __init__(self, given: NoticesInput) -> None:
        super().__init__(given)

    @workflow.run
    async def run(self, given: NoticesInput) -> None:
        """See NoticesWorkflow."""
        await super().run(given)
