"""How is one reminder for one moment carried on until its occasion is over?

What is said, to whom and when is decided in `guardrail.decide.reminding`; here is a timer until the
next time to look, and a hand for each action. The time comes from an activity, not from
`workflow.time()` (clock.py says why), so a look after an outage knows how late it is.

A reminder outlives many builds of the worker, and a later one may decide otherwise. So each run
ends when it has decided something and done it: the next one has the state, and waits. What a build
that takes over replays is a timer, and no decision.
"""

from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey, VersioningBehavior
from temporalio.exceptions import ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from guardrail.decide import proving, reminding
    from guardrail.decide.reminder_words import sentence
    from guardrail.errors import Refused
    from guardrail.model import journal, remind
    from guardrail.model.notice import Sent
    from guardrail.model.remind import (
        BeginTask,
        Begun,
        ReadAnswer,
        ReadTask,
        ReminderInput,
        Word,
    )
    from guardrail.model.reminder import (
        Acked,
        Amended,
        Ask,
        Decision,
        DoneSaid,
        NotDelivered,
        ReadWanted,
        ReminderEvent,
        ReminderState,
        Said,
        Send,
        Snoozed,
        Tick,
        TicketGiven,
        Wanted,
        WasRead,
    )
    from guardrail_workflows.clock import Clock
    from guardrail_workflows.delivering import SHORT, delivered, recorded_message

READ_WITHIN = timedelta(seconds=60)
SCHEDULED = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")


@workflow.defn(name=remind.REMINDER)
class ReminderWorkflow:
    """One reminder for one moment."""

    @workflow.init
    def __init__(self, given: ReminderInput) -> None:
        start = workflow.info().start_time.timestamp()
        self.clock = Clock(max(start, given.state.at if given.state else 0.0))
        self.todo: list[Send | Ask] = []
        self.decided = False
        if given.state is None:
            self._decided(reminding.begin(given.wanted, self.clock.now))
        else:
            self.state, self.wake = given.state, reminding.wake_at(given.state)
            workflow.set_current_details(sentence(self.state))

    @workflow.run
    async def run(self, _: ReminderInput) -> ReminderState:
        """Until the occasion is over."""
        while self.todo or self.wake is not None:
            while self.todo:
                await self._do(self.todo.pop(0))
            if self.decided and not self.state.over:
                await workflow.wait_condition(workflow.all_handlers_finished)
                if not self.todo:
                    workflow.continue_as_new(ReminderInput(self.state.wanted, self.state))
                continue
            await self._wait()
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self.state

    async def _wait(self) -> None:
        """Until something was heard, or the next time to look has come."""
        if self.wake is None:
            return
        wake = self.wake
        left = timedelta(seconds=max(0.001, wake - workflow.time()))
        try:
            await workflow.wait_condition(
                lambda: self.decided, timeout=left, timeout_summary="to look"
            )
        except TimeoutError:
            at = await self._time()
            self._take(Tick(self.clock.reaches(max(at, wake))))

    async def _time(self) -> float:
        at: float = await workflow.execute_activity(
            remind.TELL_TIME, result_type=float, start_to_close_timeout=SHORT
        )
        return at

    # ------------------------------------------------------------ deciding

    def _take(self, event: ReminderEvent) -> None:
        self._decided(reminding.remind(self.state, event))

    def _decided(self, decision: Decision) -> None:
        self.state, self.wake = decision.state, decision.wake_at
        self.todo += decision.actions
        self.decided = True
        workflow.set_current_details(sentence(self.state))

    # ------------------------------------------------------------ doing

    async def _do(self, action: Send | Ask) -> None:
        if isinstance(action, Ask):
            await self._read(action)
        else:
            await self._send(action)

    async def _read(self, ask: Ask) -> None:
        """What cannot be read is an answer, too, and so is a worker that cannot read."""
        try:
            answer: ReadAnswer = await workflow.execute_activity(
                remind.READ_REMINDER,
                ReadTask(self.state.wanted.reminder.name, ask.turn),
                result_type=ReadAnswer,
                start_to_close_timeout=READ_WITHIN,
                retry_policy=RetryPolicy(maximum_attempts=3),
            )
        except FailureError as error:
            workflow.logger.error("a reminder could not be read: %s", error.cause or error)
            answer = ReadAnswer(ask.turn, (), self.clock.now)
        self._take(WasRead(self.clock.reaches(answer.at), answer.turn, answer.readings))

    async def _send(self, send: Send) -> None:
        answers = await delivered(send.message)
        if not any(isinstance(answer, Sent) for answer in answers or ()):
            failed = [answer for answer in answers or () if not isinstance(answer, Sent)]
            why = "; ".join(f"{answer.channel}: {answer.why}" for answer in failed)
            problem = why or "the worker could not try it"
            self._take(NotDelivered(self.clock.now, send.number, problem))
        run = workflow.info().workflow_id
        await recorded_message(journal.NOTICES, run, send.number, send.message, answers)

    # ------------------------------------------------------------ what is said, and asked

    @workflow.update(name=remind.REMIND_SAY)
    async def say(self, word: Word) -> ReminderState:
        """A person's word. Before `done` is taken all queries are read."""
        if word.verb == "done":
            await self._read_now()
        try:
            self._take(_event(word, self._heard(word)))
        except Refused as error:
            raise ApplicationError(
                "; ".join(error.reasons), *error.reasons, type="Refused"
            ) from None
        return self.state

    @say.validator
    def _may_say(self, word: Word) -> None:
        """`done` is judged after reading; everything else before it is in history."""
        why = None
        if word.verb != "done":
            why = proving.refusal(self.state, _event(word, max(self.clock.now, word.at)))
        elif self.state.over or not word.by.strip():
            why = proving.refusal(self.state, DoneSaid(self.clock.now, word.by))
        if why is not None:
            raise ApplicationError("; ".join(why), *why, type="Refused")

    async def _read_now(self) -> None:
        """The answer is waited for here: a message may be on its way for minutes."""
        before = len(self.todo)
        self._take(ReadWanted(self.clock.now))
        asks = [each for each in self.todo[before:] if isinstance(each, Ask)]
        self.todo[before:] = [each for each in self.todo[before:] if not isinstance(each, Ask)]
        for ask in asks:
            await self._read(ask)

    def _heard(self, word: Word) -> float:
        server = workflow.time()
        return self.clock.hears(word.at or server, server)

    @workflow.signal(name=remind.AMENDED)
    def amended(self, wanted: Wanted) -> None:
        """The document, or the day, as the worker's source has it now."""
        if wanted != self.state.wanted:
            self._take(Amended(self.clock.reaches(workflow.time()), wanted))

    @workflow.query(name=remind.REMINDER_STATE)
    def read(self) -> ReminderState:
        """All that is known of it."""
        return self.state


def _event(word: Word, at: float) -> Said:
    match word.verb:
        case "ack":
            return Acked(at, word.by)
        case "snooze":
            return Snoozed(at, word.by, word.until, word.reason)
        case "ticket":
            return TicketGiven(at, word.by, word.task, word.text)
        case "done":
            return DoneSaid(at, word.by)


@workflow.defn(name=remind.REMINDERS)
class RemindersWorkflow:
    """Begins the reminders that are near; a schedule starts it every day."""

    @workflow.run
    async def run(self, task: BeginTask) -> Begun:
        """As of the time for which it was scheduled: late after an outage, or for a backfill."""
        scheduled: datetime | None = workflow.info().typed_search_attributes.get(SCHEDULED)
        at = task.at or (scheduled or workflow.info().start_time).timestamp()
        found: Begun = await workflow.execute_activity(
            remind.BEGIN_REMINDERS,
            BeginTask(task.reminder, at),
            result_type=Begun,
            start_to_close_timeout=timedelta(minutes=2),
        )
        return found


@workflow.defn(name=remind.REMINDER, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class UpgradedReminderWorkflow(ReminderWorkflow):
    """The same for workers with a build: see leases.UpgradedLeasesWorkflow."""

    @workflow.init
    def __init__(self, given: ReminderInput) -> None:
        super().__init__(given)

    @workflow.run
    async def run(self, given: ReminderInput) -> ReminderState:
        """See ReminderWorkflow."""
        return await super().run(given)


@workflow.defn(name=remind.REMINDERS, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class UpgradedRemindersWorkflow(RemindersWorkflow):
    """The same for workers with a build."""

    @workflow.run
    async def run(self, task: BeginTask) -> Begun:
        """See RemindersWorkflow."""
        return await super().run(task)
