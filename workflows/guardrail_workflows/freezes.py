"""Who has the freezes that were set by command? One workflow in a namespace, which only carries
what is said; what becomes of them is decided in `guardrail.decide.freezes`.
"""

from temporalio import workflow
from temporalio.common import VersioningBehavior
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from guardrail.decide import freezes
    from guardrail.model import freeze
    from guardrail.model.freeze import Freeze, FreezesInput, Frozen, Lift
    from guardrail_workflows.clock import Clock


@workflow.defn(name=freeze.FREEZES)
class FreezesWorkflow:
    """The freezes set by command, for as long as there is a namespace."""

    @workflow.init
    def __init__(self, given: FreezesInput) -> None:
        self.run_events = given.run_events
        self.clock = Clock(given.at or workflow.info().start_time.timestamp())
        self.frozen = given.frozen

    @workflow.run
    async def run(self, _: FreezesInput) -> None:
        """Answer until the history is long; then go on with the same freezes."""
        await workflow.wait_condition(self._is_long)
        at, frozen = self.clock.now, self.frozen
        workflow.continue_as_new(FreezesInput(at, frozen, self.run_events))

    def _is_long(self) -> bool:
        long = workflow.info().get_current_history_length() >= self.run_events
        return long and workflow.all_handlers_finished()

    def _now(self) -> float:
        return max(self.clock.now, workflow.time())

    @workflow.update(name=freeze.FREEZE_ON)
    def set_on(self, said: Freeze) -> Frozen:
        """A person sets one; its time is the server's."""
        now = self.clock.hears(workflow.time(), workflow.time())
        self.frozen = freezes.on(self.frozen, said, now)
        return self.frozen

    @set_on.validator
    def _may_be_set(self, said: Freeze) -> None:
        why = freezes.refuse_on(self.frozen, said, self._now())
        if why is not None:
            raise ApplicationError(why, type="Refused")

    @workflow.update(name=freeze.FREEZE_OFF)
    def set_off(self, said: Lift) -> Frozen:
        """A person lifts one; who, and why, is remembered for a while."""
        now = self.clock.hears(workflow.time(), workflow.time())
        self.frozen = freezes.off(self.frozen, said, now)
        return self.frozen

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
