"""Who has the table of leases? One workflow in a namespace, which only carries what is said.

What becomes of the table is decided in `guardrail.decide.leases`. Nothing is timed here: a lease is
orphaned when somebody looks and it is past its time. So the workflow has no commands of its own
but going on as new (and the journal's, after a break), and carries on under any later build.
"""

import asyncio

from temporalio import workflow
from temporalio.common import VersioningBehavior
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from datetime import timedelta

    from guardrail.decide import leases
    from guardrail.model import lease, messages
    from guardrail.model.journal import Entry, EntryId, Head, LeaseBroken
    from guardrail.model.lease import Answer, Break, Broken, Done, LeasesInput, Table, Wanted
    from guardrail_workflows.clock import Clock


@workflow.defn(name=lease.LEASES)
class LeasesWorkflow:
    """The table of leases, for as long as there is a namespace."""

    @workflow.init
    def __init__(self, given: LeasesInput) -> None:
        self.run_events = given.run_events
        started = given.at or workflow.info().start_time.timestamp()
        self.clock = Clock(started)
        self.table = given.table or leases.opened(started, careful=given.careful)
        self.recording: set[asyncio.Task[None]] = set()

    @workflow.run
    async def run(self, _: LeasesInput) -> None:
        """Answer until the history is long; then go on with the same table."""
        await workflow.wait_condition(self._is_long)
        at, table = self.clock.now, self.table
        workflow.continue_as_new(LeasesInput(at=at, table=table, run_events=self.run_events))

    def _is_long(self) -> bool:
        long = workflow.info().get_current_history_length() >= self.run_events
        return long and not self.recording and workflow.all_handlers_finished()

    # ------------------------------------------------------------ what is said

    @workflow.update(name=lease.ASK_LEASE)
    def ask(self, wanted: Wanted) -> Answer:
        """An operation asks for roles, or renews what it has."""
        self.table, answer = leases.ask(self.table, wanted, self._heard(wanted.at))
        return answer

    @ask.validator
    def _may_ask(self, wanted: Wanted) -> None:
        if not wanted.claims or not wanted.holder.operation:
            why = "who asks for a lease says who it is, and on what"
            raise ApplicationError(why, type="Refused")

    @workflow.update(name=lease.GIVE_BACK)
    def give_back(self, done: Done) -> Table:
        """An operation has settled: it gives back what it had, and waits for nothing."""
        self.table = leases.give_back(self.table, done, self._heard(done.at))
        return self.table

    @workflow.update(name=lease.BREAK_LEASE)
    def break_lease(self, said: Break) -> Table:
        """A person breaks the leases on a role; it is recorded in their holders' journals."""
        before = self.table.broken
        self.table = leases.broken(self.table, said, self._heard(said.at))
        for each in self.table.broken:
            if each not in before:
                task = asyncio.create_task(self._record(each))
                self.recording.add(task)
                task.add_done_callback(self.recording.discard)
        return self.table

    @break_lease.validator
    def _may_break(self, said: Break) -> None:
        why = leases.refusal(self.table, said, max(self.clock.now, workflow.time()))
        if why is not None:
            raise ApplicationError(why, type="Refused")

    def _heard(self, said: float) -> float:
        server = workflow.time()
        return self.clock.hears(said or server, server)

    async def _record(self, broken: Broken) -> None:
        """Tried for as long as it takes: the journal of a dead operation has nobody else."""
        record = LeaseBroken(broken.roles, broken.token, broken.by, broken.reason)
        run = f"leases/{workflow.info().first_execution_run_id}"
        entry = Entry(broken.operation, EntryId(run, broken.token, 0), broken.at, record)
        await workflow.execute_activity(
            messages.RECORD,
            [entry],
            result_type=Head,
            start_to_close_timeout=timedelta(seconds=10),
            summary=f"a lease of {broken.operation} was broken",
        )

    # ------------------------------------------------------------ what is asked

    @workflow.query(name=lease.TABLE)
    def read(self) -> Table:
        """All leases, who waits, and what was broken lately."""
        return self.table

    @workflow.query(name=lease.LOOK_LEASE)
    def look(self, wanted: Wanted) -> Answer:
        """What asking now would be answered; nothing is changed."""
        return leases.look(self.table, wanted, max(self.clock.now, wanted.at))


@workflow.defn(name=lease.LEASES, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class UpgradedLeasesWorkflow(LeasesWorkflow):
    """The same for workers with a build: an operation ends on its build, the table outlives them.

    (A class of its own: on a worker without a build, a behaviour fails every task for ever.)
    """

    @workflow.init
    def __init__(self, given: LeasesInput) -> None:
        super().__init__(given)

    @workflow.run
    async def run(self, given: LeasesInput) -> None:
        """See LeasesWorkflow."""
        await super().run(given)
