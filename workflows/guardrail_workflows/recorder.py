"""How does what happens to an operation reach the journal, in order and once, without waiting?

Entries are made of each step and wait here; one activity at a time takes a batch to the journal.
(Not a local activity: that keeps a workflow task open, and a person's `pause` would wait for the
disk.) What is not recorded yet follows from history, so nothing is lost whoever dies; the journal
itself passes by what it has already.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from guardrail.decide.record import entries
    from guardrail.model import messages
    from guardrail.model.journal import Entry, Head, Pairs
    from guardrail.model.operation import Decision, Event, State

BATCH = 500
"""Entries that go to the journal together."""
GATHER = timedelta(milliseconds=200)
"""How long a batch gathers: 5 batches a second, however many hosts answer. Not where it is waited
for: a quiet moment and an end would each take that much longer."""
AGAIN_AFTER = timedelta(seconds=2)
"""Before a journal that could not be written is tried again."""
AT_THE_END = timedelta(seconds=30)
"""How long the end of an operation waits for its last entries."""


@dataclass(slots=True)
class Recorder:
    """What waits for the journal. `number` counts events over all runs of the operation.

    problem: told why the journal cannot be written, and "" once it can be again. urgent: whether
    the operation waits for what is written.
    """

    problem: Callable[[str], None]
    urgent: Callable[[], bool]
    number: int = 0
    waiting: list[Entry] = field(default_factory=list)
    silent: bool = False

    def note(self, before: State, event: Event, decision: Decision, facts: Pairs = ()) -> None:
        """Keep what is worth keeping of one step."""
        run = workflow.info().first_execution_run_id
        step = entries(before, event, decision, number=self.number, run=run, facts=facts)
        self.waiting = [*self.waiting, *step]
        self.number += 1

    async def run(self) -> None:
        """Take batches to the journal, one at a time, for as long as the workflow lives."""
        while True:
            await workflow.wait_condition(lambda: bool(self.waiting))
            with suppress(TimeoutError):
                await workflow.wait_condition(self.urgent, timeout=GATHER)
            batch = self.waiting[:BATCH]
            try:
                await workflow.execute_activity(
                    messages.RECORD,
                    batch,
                    result_type=Head,
                    start_to_close_timeout=timedelta(seconds=10),
                    retry_policy=RetryPolicy(maximum_attempts=2),
                    summary="journal",
                )
            except FailureError as error:
                self._failed(error)
                await workflow.sleep(AGAIN_AFTER)
                continue
            self.waiting = self.waiting[len(batch) :]
            self._worked()

    def _failed(self, error: FailureError) -> None:
        if not self.silent:
            self.silent = True
            self.problem(str(error.cause or error))

    def _worked(self) -> None:
        if self.silent:
            self.silent = False
            self.problem("")

    async def settle(self) -> int:
        """Wait for the last entries, for a while; how many could not be recorded."""
        try:
            await workflow.wait_condition(lambda: not self.waiting, timeout=AT_THE_END)
        except TimeoutError:
            return len(self.waiting)
        return 0
