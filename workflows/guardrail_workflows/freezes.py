"""Who has the freezes that were set by command? One workflow in a namespace, which only carries
what is said; what becomes of them is decided in `guardrail.decide.freezes`.
"""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import VersioningBehavior
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from guardrail.decide import freezes
    from guardrail.decide.record import freeze_records
    from guardrail.model import freeze, messages
    from guardrail.model.freeze import Freeze, FreezesInput, Frozen, Lift
    from guardrail.model.journal import FREEZES, Entry, EntryId, Head, Record
    from guardrail_workflows.clock import Clock


@workflow.defn(name=freeze.FREEZES)
class FreezesWorkflow:
    """The freezes set by command, for as long as there is a namespace."""

    @workflow.init
    def __init__(self, given: FreezesInput) -> None:
        self.run_events = given.run_events
        self.clock = Clock(given.at or workflow.info().start_time.timestamp())
        self.frozen = given.frozen
        self.said = given.said
        self.asked = 0
        self.journals = False
        self.recording: set[asyncio.Task[None]] = set()

    @workflow.run
    async def run(self, _: FreezesInput) -> None:
        """Answer until the history is long; then go on with the same freezes."""
        await workflow.wait_condition(self._is_long)
        at, frozen = self.clock.now, self.frozen
        workflow.continue_as_new(FreezesInput(at, frozen, self.run_events, self.said))

    def _is_long(self) -> bool:
        long = workflow.info().get_current_history_length() >= self.run_events
        return long and not self.recording and workflow.all_handlers_finished()

    def _becomes(self, frozen: Frozen) -> Frozen:
        """They are so from now on; it is recorded."""
        for record in freeze_records(self.frozen, frozen) if self._is_journaled() else ():
            self.said += 1
            task = asyncio.create_task(self._record(record, self.said, self.clock.now))
            self.recording.add(task)
            task.add_done_callback(self.recording.discard)
        self.frozen = frozen
        return frozen

    def _is_journaled(self) -> bool:
        """Whether what is said now is recorded: a run goes on under later builds, and what an
        earlier one answered without recording it must be replayed so. What is asked has another
        name each time, since the answer to one is for good."""
        self.asked += 1
        self.journals = self.journals or workflow.patched(f"journal-{self.asked}")
        return self.journals

    async def _record(self, record: Record, number: int, at: float) -> None:
        """Tried for as long as it takes."""
        run = f"freezes/{workflow.info().first_execution_run_id}"
        await workflow.execute_activity(
            messages.RECORD,
            [Entry(FREEZES, EntryId(run, number, 0), at, record)],
            result_type=Head,
            start_to_close_timeout=timedelta(seconds=10),
            summary=f"{record.kind} is recorded",
        )

    def _now(self) -> float:
        return max(self.clock.now, workflow.time())

    @workflow.update(name=freeze.FREEZE_ON)
    def set_on(self, said: Freeze) -> Frozen:
        """A person sets one; its time is the server's."""
        now = self.clock.hears(workflow.time(), workflow.time())
        return self._becomes(freezes.on(self.frozen, said, now))

    @set_on.validator
    def _may_be_set(self, said: Freeze) -> None:
        why = freezes.refuse_on(self.frozen, said, self._now())
        if why is not None:
            raise ApplicationError(why, type="Refused")

    @workflow.update(name=freeze.FREEZE_OFF)
    def set_off(self, said: Lift) -> Frozen:
        """A person lifts one; who, and why, is remembered for a while."""
        now = self.clock.hears(workflow.time(), workflow.time())
        return self._becomes(freezes.off(self.frozen, said, now))

    @set_off.validator
    def _may_be_lifted(self, said: Lift) -> None:
        why = freezes.refuse_off(self.frozen, said, self._now())
        if why is not None:
            raise ApplicationError(why, type="Refused")

    @workflow.query(name=freeze.FROZEN)
    def read(self) -> Frozen:
        """All that are set, and those that were lifted lately."""
        return self.frozen


@workflow.defn(name=freeze.FREEZES, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class UpgradedFreezesWorkflow(FreezesWorkflow):
    """The same for workers with a build: see leases.UpgradedLeasesWorkflow."""

    @workflow.init
    def __init__(self, given: FreezesInput) -> None:
        super().__init__(given)

    @workflow.run
    async def run(self, given: FreezesInput) -> None:
        """See FreezesWorkflow."""
        await super().run(given)
