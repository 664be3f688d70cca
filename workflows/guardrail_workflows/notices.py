"""Who keeps what was said to whom, over all operations? One workflow in a namespace.

It hears what stands in operations, and waits. What is due is decided in `guardrail.decide.notices`,
and asked for in a local activity, whose answer is in history: so this carries on under any later
build. A message that no channel took is due again after a while; nobody waits here for anybody.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from temporalio import workflow
from temporalio.common import VersioningBehavior

with workflow.unsafe.imports_passed_through():
    from guardrail.decide import notices
    from guardrail.model import board, journal
    from guardrail.model.board import Due, DueTask, NoticesInput, Saying, Tidings
    from guardrail.model.notice import Answer
    from guardrail_workflows.delivering import delivered, nobody, recorded_message

SETTLE = 1.0
"""Seconds between two looks at what is due: a storm is looked at once a second."""
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
        answers = await delivered(saying.message, saying.like)
        now = workflow.time()
        if nobody(answers):
            self.board = notices.not_taken(self.board, saying, now)
        else:
            self.board = notices.taken(self.board, saying)
        self.news = True
        await self._record(saying, number, answers)

    async def _record(self, saying: Saying, number: int, answers: Sequence[Answer] | None) -> None:
        """In the journals of the operations that it is about."""
        about = len(saying.operations)
        run = f"notices/{workflow.info().first_execution_run_id}"
        for name in saying.operations if about <= JOURNALS else (journal.NOTICES,):
            await recorded_message(name, run, number, saying.message, answers, about=about)

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
