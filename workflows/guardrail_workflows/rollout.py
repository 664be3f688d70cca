"""How does an operation live on Temporal? It carries events to `decide`, actions to activities, and
waits; it decides nothing itself.

One workflow an operation. Everything that happens goes through `_happen`, which is synchronous:
handlers return at once, and nothing is ever half decided. Host activities run straight from here;
one long-lived activity watches the gates.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from guardrail.decide import carry, explain, leading, ring, shadow
    from guardrail.decide.commands import answer, refusal
    from guardrail.decide.notice_moments import NOTHING
    from guardrail.decide.permit import permit
    from guardrail.decide.signing import refuse_unchecked, vouched
    from guardrail.decide.transition import decide
    from guardrail.decide.way_back import way_back
    from guardrail.model import messages
    from guardrail.model.identity import Signer
    from guardrail.model.journal import Pairs
    from guardrail.model.messages import (
        FleetTold,
        FreezesTold,
        HostAnswer,
        HostTask,
        Judged,
        Leased,
        MayBegin,
        MergeTask,
        Planned,
        RolloutInput,
        Said,
        Say,
        Status,
        Warming,
        WatchTask,
        WayBack,
    )
    from guardrail.model.operation import (
        Action,
        BeginHost,
        Commanded,
        Drained,
        EndLease,
        Event,
        FleetSeen,
        FreezesSeen,
        GateJudged,
        HostAnswered,
        HostWarming,
        JournalSaid,
        KeepLease,
        LeaseTold,
        MergePolicies,
        Observe,
        PolicyMerged,
        ReadAgain,
        SeeLeader,
        Started,
        State,
        Ticked,
        Watch,
        WatchAgain,
        WatcherLost,
    )
    from guardrail.model.plan import Course, Merged
    from guardrail_workflows.clock import Clock
    from guardrail_workflows.keeping import Keeper
    from guardrail_workflows.read_again import look_again, read_again, root, see_leader
    from guardrail_workflows.recorder import Recorder
    from guardrail_workflows.signed import signer_of, who_asks
    from guardrail_workflows.telling import Teller

PHASE = SearchAttributeKey.for_keyword("GuardrailPhase")
HELD = SearchAttributeKey.for_bool("GuardrailHeld")

DRAIN_FROM, DRAIN_LATEST = 1.25, 15
"""Times `run_events` (2,500 and 30,000 of 2,000) between which a run without a quiet moment is made
to have one: nothing more is asked to begin until the next run. A worker that takes over from a
killed one replays the run first, 0.15 to 0.25 ms an event on two cores, while whoever said `pause`
waits. The server's limit is 51,200 events."""
DRAIN_EVENTS = 25
"""Events for each place in flight before that, seven hosts: a drain leaves places empty for half of
a host's time on average, which is then 7 % of what the hosts take."""
DRAIN_BYTES = 8_000_000
"""Bytes of history from which the same is done: what hosts and the journal say is kept in it. The
server warns at 10 MB, and ends a run at 50 MB."""
MERGE_PATIENCE = timedelta(seconds=60)
MERGE_AGAIN = 10.0
"""How long the policies may take to be read, and seconds until they are asked for again."""
REMEMBERED = 100
"""How many answered commands are remembered, so that saying one twice does nothing twice."""

LOST_WORKER_ONLY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=1.0,
    non_retryable_error_types=["Refused", "Exception"],
)
"""Host activities answer everything themselves; what Temporal repeats is a lost worker's."""


@workflow.defn(name=messages.ROLLOUT)
class RolloutWorkflow:
    """A rollout from its plan to its end."""

    @workflow.init
    def __init__(self, given: RolloutInput) -> None:
        self.request = given.request
        self.run_events = given.run_events
        self.signature = given.signature
        self.state = State(_unplanned(given), given.request.operation)
        self.loading = given.carried is not None
        self.answered = list(given.carried.answered) if given.carried is not None else []
        self.wake_at: float | None = None
        self.watcher: asyncio.Task[None] | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self.told = ""
        self.broken: BaseException | None = None
        self.recorder = Recorder(self._journal_said, self._waits_for_journal)
        self.keeper = Keeper(
            given.request, self._task, self._happen, self._lease_turn, lambda: self.clock.now
        )
        known = NOTHING if given.carried is None else None
        self.teller = Teller(given.notices, self._as_it_is, known)
        self.clock = Clock(workflow.info().start_time.timestamp())
        self.watcher_died = False

    @workflow.run
    async def run(self, given: RolloutInput) -> Status:
        """Plan (or go on with what was carried), then carry events until the end."""
        if given.carried is None:
            await self._plan()
        else:
            await self._go_on(given)
        waker = self._task(self._wake())
        self._task(self.recorder.run())
        if self.teller.on:
            self._task(self.teller.run())
        await workflow.wait_condition(lambda: self._is_over() or self._may_continue())
        if self.broken is not None:
            raise self.broken
        waker.cancel()
        if not self.state.finished:
            self._continue_as_new()
        return await self._end()

    # ------------------------------------------------------------ beginning, going on, ending

    async def _plan(self) -> None:
        signer = await who_asks(self.request, self.signature)
        self.request = replace(self.request, requester=signer.name or self.request.requester)
        planned: Planned = await workflow.execute_activity(
            messages.PLAN_OPERATION,
            self.request,
            result_type=Planned,
            start_to_close_timeout=timedelta(minutes=15),
            heartbeat_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_attempts=3),
        )
        if planned.course is None or planned.refusals:
            raise ApplicationError(
                "the plan is refused", *planned.refusals, type="Refused", non_retryable=True
            )
        if planned.course.shadow != self.request.shadow:  # a worker that does not know the word
            why = "the worker that planned it does not know of shadows: run one of this build"
            raise ApplicationError(why, type="Refused", non_retryable=True)
        self.state = State(planned.course, self.request.operation, asked_by=signer)
        change = self.request.rollout.change
        facts: Pairs = (("change", change.name), ("from", change.old), ("to", change.new))
        facts = (*facts, *vouched(signer))
        facts = (*facts, *((shadow.FACT,) if self.request.shadow else ()))
        self.teller.on = planned.notices
        self._happen(Started(self._heard(planned.at)), facts)

    async def _go_on(self, given: RolloutInput) -> None:
        assert given.carried is not None  # noqa: S101 - run() has just looked
        course: Course = await workflow.execute_activity(
            messages.LOAD_COURSE,
            given.carried.digest,
            result_type=Course,
            start_to_close_timeout=timedelta(seconds=30),
        )
        self.state = carry.unpack(given.carried, course)
        self.loading = False
        self.recorder.number = given.carried.events
        self.clock.reaches(given.carried.at)
        self._happen(WatchAgain(self.clock.now))

    def _is_over(self) -> bool:
        return self.state.finished or self.broken is not None

    def _events(self) -> int:
        return workflow.info().get_current_history_length()

    def _is_too_long(self) -> bool:
        """Whether this run must be made to have a quiet moment."""
        going = not self.state.finished and not self.state.draining
        size = workflow.info().get_current_history_size()
        return going and (self._events() >= self._drain_events() or size >= DRAIN_BYTES)

    def _drain_events(self) -> float:
        """The more hosts are in flight, the more a drain costs, and the later it comes."""
        worth = DRAIN_EVENTS * self.state.course.caps.unavailable
        return min(max(worth, DRAIN_FROM * self.run_events), DRAIN_LATEST * self.run_events)

    def _waits_for_journal(self) -> bool:
        """Whether nothing goes on before the last entries are in the journal."""
        return self.state.finished or (self.state.draining and not self.state.in_flight)

    def _may_continue(self) -> bool:
        """A long history, and a quiet moment: nothing in flight and nobody being answered."""
        long = self._events() >= self.run_events or self.state.draining
        quiet = not (self.state.in_flight or self.recorder.waiting or self.keeper.giving)
        return long and quiet and workflow.all_handlers_finished()

    def _continue_as_new(self) -> None:
        carried = carry.pack(self.state, tuple(self.answered), self.recorder.number, self.clock.now)
        again = RolloutInput(self.request, carried, self.run_events, notices=self.teller.on)
        workflow.continue_as_new(again)

    async def _end(self) -> Status:
        if self.watcher is not None:
            self.watcher.cancel()
        await workflow.wait_condition(workflow.all_handlers_finished)
        await self.keeper.settle()
        if not await self.teller.settle():
            workflow.logger.error("nobody could be told of the end")
        lost = await self.recorder.settle()
        if lost:
            workflow.logger.error("%d entries could not be recorded in the journal", lost)
        return explain.status(self.state, self.clock.now)

    # ------------------------------------------------------------ events in, actions out

    def _happen(self, event: Event, facts: Pairs = ()) -> None:
        decision = decide(self.state, event)
        self.recorder.note(self.state, event, decision, facts)
        self.state, self.wake_at = decision.state, decision.wake_at
        self.teller.note(self.state)
        for action in decision.actions:
            self._do(action)
        self._tell()
        if self._is_too_long():
            self._happen(Drained(self.clock.now))

    def _do(self, action: Action) -> None:
        if isinstance(action, BeginHost):
            self._task(self._change(action))
        elif isinstance(action, Observe):
            self._task(self._look_again(action))
        elif isinstance(action, SeeLeader):
            self._task(self._see_leader(action))
        elif isinstance(action, ReadAgain):
            self._task(self._read_again(action))
        elif isinstance(action, Watch):
            if self.watcher is not None:
                self.watcher.cancel()
            self.watcher = self._task(self._watch(action.turn))
        elif isinstance(action, KeepLease | EndLease):
            self.keeper.do(action, self.state.course.plan)
        elif isinstance(action, MergePolicies):
            self._task(self._merge(action.turn))

    def _lease_turn(self) -> int | None:
        return None if self.state.finished else self.state.lease_turn

    async def _look_again(self, action: Observe) -> None:
        """Have the plan compared with the world, and say what has moved."""
        at, found = await look_again(self.state, self.request, action)
        self._happen(replace(found, at=self._heard(at)))

    async def _see_leader(self, action: SeeLeader) -> None:
        """Have somebody look who leads the servers, and say what was seen."""
        at, seen = await see_leader(self.state, action)
        self._happen(replace(seen, at=self._heard(at)))

    async def _read_again(self, action: ReadAgain) -> None:
        """Have changed hosts read again, and say what was found."""
        at, found = await read_again(self.state, action)
        self._happen(replace(found, at=self._heard(at)))

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that is kept alive until it is done."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        """A task that breaks must not break in silence: the run itself then fails."""
        self.tasks.discard(task)
        if not task.cancelled() and self.broken is None:
            self.broken = task.exception()

    def _as_it_is(self) -> tuple[State, int, float]:
        return self.state, self.recorder.number, self.clock.now

    def _journal_said(self, problem: str) -> None:
        self._happen(JournalSaid(self.clock.now, problem))

    def _heard(self, said: float) -> float:
        """The time of a report that says when it was made (0: it does not say)."""
        server = workflow.time()
        return self.clock.hears(said or server, server)

    async def _wake(self) -> None:
        """Say that time has passed, whenever `decide` has asked to be told."""
        while not self.state.finished:
            at = self.wake_at
            # From the time of the last event, not of the server: a replay must set a timer, too.
            wait = None if at is None else timedelta(seconds=max(0.001, at - self.clock.now))
            try:
                await workflow.wait_condition(lambda at=at: self.wake_at != at, timeout=wait)  # type: ignore[misc]
            except TimeoutError:
                self._happen(Ticked(self.clock.reaches(at or self.clock.now)))

    async def _change(self, begin: BeginHost) -> None:
        """Have one host changed. Whatever goes wrong with the asking, it is unknown."""
        course, task = self.state.course, self._host_task(begin)
        try:
            said: HostAnswer = await workflow.execute_activity(
                messages.SHADOW_HOST if course.shadow else messages.CHANGE_HOST,
                task,
                result_type=HostAnswer,
                start_to_close_timeout=timedelta(seconds=course.host_timeout + 30),
                heartbeat_timeout=timedelta(seconds=5),
                retry_policy=LOST_WORKER_ONLY,
                summary=f"host {begin.index}, turn {begin.turn}",
            )
        except ActivityError as error:
            name = f"host number {begin.index}"
            said = HostAnswer(begin.index, begin.turn, "unknown", name, _cause(error))
        at = self._heard(said.at) if said.at else self.clock.now
        if said.freezes:
            self._happen(FreezesSeen(at, 0, said.freezes))
        answered = HostAnswered(at, said.index, said.turn, said.outcome, said.name, said.reason)
        self._happen(answered, said.facts)

    def _host_task(self, begin: BeginHost) -> HostTask:
        """What a worker must know to change this host now."""
        course, lease = self.state.course, self.state.lease
        warm = course.budget.warm_rules(begin.index, begin.turn) if course.tightened else ()
        return HostTask(
            self.state.name,
            course.plan,
            begin.index,
            begin.turn,
            begin.direction,
            workflow.info().first_execution_run_id,
            lease.token if lease is not None else 0,
            tuple(replace(rule, hosts=()) for rule in warm),
            not leading.may_lead(self.state, begin.index),
        )

    async def _merge(self, turn: int) -> None:
        """Have the policies merged again; whatever goes wrong is told, and tried again."""
        request = self.request
        plan = self.state.course.plan
        task = MergeTask(self.state.name, plan, request.rollout, request.policies)
        while not self.state.finished and turn == self.state.merge_turn:
            try:
                merged: Merged = await workflow.execute_activity(
                    messages.MERGE_POLICIES,
                    task,
                    result_type=Merged,
                    schedule_to_close_timeout=MERGE_PATIENCE,
                    retry_policy=RetryPolicy(maximum_attempts=1),
                    summary=f"policies, turn {turn}",
                )
            except ActivityError as error:
                self._happen(PolicyMerged(self.clock.now, turn, problem=_cause(error)))
                await workflow.sleep(MERGE_AGAIN)
            else:
                self._happen(PolicyMerged(self._heard(merged.at), turn, merged))
                return

    async def _watch(self, turn: int) -> None:
        """Watch the gates until the watcher is lost, which is an event of its own."""
        state, course = self.state, self.state.course
        index, down = state.catalog.index, f"{state.down_now:x}"
        rules = course.gates if course.tightened else ()
        warm = course.budget.warm if course.tightened else ()
        known = ring.known(state)
        task = WatchTask(state.name, course.plan, turn, rules, index, down, known, warm)
        if self.watcher_died:
            await workflow.sleep(1)  # one that ends at once would be started again without end
        self.watcher_died = False
        try:
            await workflow.execute_activity(
                messages.WATCH_GATES,
                task,
                start_to_close_timeout=timedelta(days=30),
                heartbeat_timeout=timedelta(seconds=self.state.course.watch_silence),
                retry_policy=RetryPolicy(maximum_attempts=1),
                summary=f"gates, turn {turn}",
            )
            reason = "it ended by itself"
        except ActivityError as error:
            reason = _cause(error)
        if self.state.finished or turn != self.state.watch_turn:
            return  # ended by the end, or by a newer watch
        self.watcher_died = True
        self._happen(WatcherLost(self.clock.now, turn, reason))

    # ------------------------------------------------------------ what is shown outside

    def _tell(self) -> None:
        """Keep the state in words where it can be read without a worker."""
        text = self._summary()
        if text == self.told:
            return
        self.told = text
        workflow.set_current_details("\n".join(explain.explain(self.state)))
        workflow.upsert_memo({messages.MEMO_SUMMARY: text, messages.MEMO_AS_OF: self.clock.now})
        workflow.upsert_search_attributes(
            [PHASE.value_set(self.state.phase), HELD.value_set(bool(self.state.holds))]
        )

    def _summary(self) -> str:
        """Phase, wave, holds and ends: what changes rarely enough to be kept in the memo."""
        state = self.state
        if state.finished:
            return explain.sentence(state)
        wave = f"wave {state.wave + 1} of {len(state.course.waves)}"
        if state.direction == "back":
            wave = f"going back, {wave}"
        holds = [f"{hold.name}: {'; '.join(hold.reasons)}" for hold in state.holds]
        phase = f"{shadow.in_front(state.course)}{state.phase}"
        return f"{phase}, {wave}" + (f"; held on {' | '.join(holds)}" if holds else "")

    @workflow.query(name=messages.STATUS)
    def status(self) -> Status:
        """The operation as a record."""
        return explain.status(self.state, workflow.time())

    @workflow.query(name=messages.EXPLAIN)
    def explained(self) -> list[str]:
        """The operation in lines of text."""
        return list(explain.explain(self.state))

    @workflow.query(name=messages.WAY_BACK)
    def would_go_back(self, say: Say) -> WayBack:
        """What a rollback would do now; nothing is changed."""
        return way_back(self.state, self._command(say, self.clock.now, Signer(say.by)))

    @workflow.query(name=messages.MAY_BEGIN)
    def may_begin(self) -> MayBegin:
        """Which of the hosts that were asked to begin may do so."""
        names = ", ".join(hold.name for hold in self.state.holds)
        running = self.state.phase == "running"
        doing = explain.doing(self.state) if running else self.state.phase
        reason = f"held on {names}" if names else doing
        return permit(self.state, reason, workflow.info().first_execution_run_id)

    # ------------------------------------------------------------ what comes from outside

    @workflow.signal(name=messages.JUDGED)
    def judged(self, report: Judged) -> None:
        """A watcher's report."""
        self._happen(GateJudged(self._heard(report.at), report.turn, report.judgement))

    @workflow.signal(name=messages.LEASED)
    def leased(self, told: Leased) -> None:
        """The word of who keeps this operation's lease."""
        said, at = told.answer, self._heard(told.at)
        self._happen(LeaseTold(at, told.turn, said.word, said.reasons, said.grant, said.anew))

    @workflow.signal(name=messages.FLEET_SEEN)
    def fleet_seen(self, told: FleetTold) -> None:
        """A watcher's report on the fleet's catalog."""
        at = self._heard(told.at)
        left = tuple(replace(one, at=min(one.at, at)) for one in told.left)
        what = (told.problem, told.index, left, told.down, told.fallen, told.still, told.ring)
        self._happen(FleetSeen(at, told.turn, *what))

    @workflow.signal(name=messages.WARMING)
    def warming(self, told: Warming) -> None:
        """How warm a host is that is back."""
        self._happen(HostWarming(self._heard(told.at), told.index, told.turn, told.percent))

    @workflow.signal(name=messages.FREEZES_SEEN)
    def freezes_seen(self, told: FreezesTold) -> None:
        """A watcher's report on freezes."""
        self._happen(FreezesSeen(self._heard(told.at), told.turn, told.freezes))

    @workflow.update(name=messages.UPDATE)
    async def say(self, say: Say) -> Said:
        """A person's command. Said twice with one id, it is obeyed once and answered twice.

        Between two runs it waits for the course, for a moment: a pause must not be refused.
        """
        if self.loading:
            await workflow.wait_condition(lambda: not self.loading)
            self._may_be_said(say)
        signer = Signer()
        if say.signature:
            signer = await signer_of(say, self.state.name, self.state.course.plan)
            self._refuse(say, signer)
        known = dict(self.answered).get(say.id)
        if known is not None:
            return known
        command = self._command(say, self._heard(say.at), signer)
        self._happen(command)
        holds = tuple(hold.name for hold in self.state.holds)
        said = Said(answer(self.state, command), len(self.state.in_flight), holds)
        self.answered = [*self.answered, (say.id, said)][-REMEMBERED:]
        return said

    @say.validator
    def _may_be_said(self, say: Say) -> None:
        """Refuse before anything is recorded."""
        if self.loading or say.id in dict(self.answered):
            return
        if self.state.phase == "planned":
            raise ApplicationError("it is still being planned; say it again then", type="Refused")
        if say.signature:  # who says it is known once it has been checked
            over = self.state.finished
            why = refuse_unchecked(say.verb, say.signature, finished=over)
            if why is not None:
                raise ApplicationError(why, type="Refused")
            return
        self._refuse(say, Signer())

    def _refuse(self, say: Say, signer: Signer) -> None:
        why = refusal(self.state, self._command(say, self.clock.now, signer))
        if why is not None and say.id not in dict(self.answered):
            raise ApplicationError(why, type="Refused")

    def _command(self, say: Say, at: float, signer: Signer) -> Commanded:
        return Commanded(
            at,
            say.verb,
            signer.name or say.by,
            say.reason,
            say.point,
            say.hosts,
            say.over,
            say.scope,
            say.accept_churn,
            verified=bool(signer.name),
            key=signer.key,
            groups=signer.groups,
            limit=say.limit,
            value=say.value,
            until=say.until,
        )


def _unplanned(given: RolloutInput) -> Course:
    """The course of an operation whose plan is not there yet: nothing may begin on it."""
    return replace(carry.LEFT_BEHIND, requester=given.request.requester)


def _cause(error: ActivityError) -> str:
    """What ended an activity, in words."""
    cause = root(error)
    return f"{type(cause).__name__}: {cause}"
