"""What do the workflow's words do in the world?

Each activity gathers what it needs, lets an edge do it, and answers with a record.

Only names, versions and digests come in. Documents come from this worker's own source folder, the
plan from the plan store; a change whose digest is not the plan's is not run.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from guardrail.contracting import kept, since
from guardrail.decide import shadow
from guardrail.decide.adding import with_added
from guardrail.decide.again import merged_again
from guardrail.decide.bits import members
from guardrail.decide.freezes import concerned, reading
from guardrail.decide.plan import course_of
from guardrail.edges.compose import Edges, edges_of
from guardrail.edges.consul import ConsulHosts
from guardrail.edges.consul_listing import listings_of
from guardrail.edges.freezes import Commands, Freezes, Place
from guardrail.edges.gate_reader import GateReader
from guardrail.edges.lease_lock import desk_of
from guardrail.edges.leases import Desk, keep
from guardrail.edges.own_servers import own_servers
from guardrail.errors import GuardrailError, InvalidFile, Refused, Unanswered
from guardrail.files import Documents, load
from guardrail.files.planfile import known_host, load_head, load_host, load_plan, store_plan
from guardrail.model import messages
from guardrail.model.budget import WarmRule
from guardrail.model.change import Change
from guardrail.model.fleet import ConsulInventory, Host
from guardrail.model.freeze import Concerned
from guardrail.model.gate import Gate, Judgement
from guardrail.model.journal import Entry, Head
from guardrail.model.lease import Answer, Done, Lease, Wanted
from guardrail.model.messages import (
    Arrivals,
    FleetTold,
    FreezesTold,
    HostAnswer,
    HostTask,
    Judged,
    LeaderTask,
    Leased,
    Led,
    MayBegin,
    MergeTask,
    Observed,
    ObserveTask,
    Planned,
    PlanRequest,
    RereadAnswer,
    RereadTask,
    Warming,
    WatchTask,
)
from guardrail.model.plan import Course, GateRule, Merged, Plan, PlannedHost
from guardrail.planning import plan_rollout, recalled, remembered
from guardrail.ports import Journal, PlanStore, Token
from guardrail_workflows import orphans
from guardrail_workflows.arrivals import arrived
from guardrail_workflows.fleet_watch import FleetWatch
from guardrail_workflows.frozen import Asked, FreezeWatch
from guardrail_workflows.host_reread import Reading
from guardrail_workflows.host_work import HostJob, HostResult, change_host
from guardrail_workflows.identity import Identity
from guardrail_workflows.notifying import Notifying
from guardrail_workflows.permits import Permits
from guardrail_workflows.ring_watch import RingWatch
from guardrail_workflows.shadow_work import shadow_host
from guardrail_workflows.warming import Warmth, cold_still, until_warm, warmth
from guardrail_workflows.watching import watch

T = TypeVar("T")

QUERY_LIMIT = 0.5
"""Seconds for asking an operation whether a host may begin. A later answer would be too old to
begin with, and all hosts of the operation would wait for it: now and then one takes seconds (seen
at a busy operation; why is not known)."""
STORE_PATIENCE = 20.0
STORE_AGAIN = 1.0
"""Seconds that work on a host waits for a plan store that is silent, and between two tries."""
LINGER = 10.0
"""Seconds that the edges of a plan stay open after its last host: one host at a time would open
them anew for each, and read all documents again."""
WHOLES = 8
"""Plans of which is remembered what takes all of their hosts: one of 100,000 takes a second to
read, and every new run asks for it, and every new watch."""
FIRST_BEAT = 1.0
"""Seconds before the first heartbeat of a host: most of those that are quick never need one."""


@dataclass(slots=True)
class Activities:
    """The activities of one worker. `source`: its folder of documents. signers: its file of allowed
    signers; None: the one in that folder. places: where freezes are set besides by command. locks:
    where leases are locks, too (`Settings.lease_locks`)."""

    client: Client
    source: Path
    store: PlanStore
    journal: Journal
    signers: Path | None = None
    places: Sequence[Place] = ()
    locks: tuple[str, Path | None] = ("", None)
    desk: Desk = field(init=False)
    permits: Permits = field(init=False)
    freezes: Freezes = field(init=False)
    notifying: Notifying = field(init=False)
    _open: dict[str, "_Opened"] = field(default_factory=dict)
    _wholes: dict[str, "_Whole"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.permits = Permits(self._ask)
        self.desk = desk_of(self.client, "", *self.locks)
        self.freezes = Freezes((Commands(self.client), *self.places))
        self.notifying = Notifying.of(self.client, self.source)

    @property
    def all(self) -> Sequence[Callable[..., Awaitable[Any]]]:
        """What a worker registers."""
        return (
            self.plan_operation,
            self.load_course,
            self.change_host,
            self.shadow_host,
            self.reread_hosts,
            self.find_arrivals,
            self.observe_plan,
            self.see_leader,
            self.watch_gates,
            self.keep_lease,
            self.end_lease,
            self.record,
            self.merge_policies,
            *Identity.of(self.source, self.signers, self.store).all,
            *self.notifying.all,
        )

    # ------------------------------------------------------------ planning

    @activity.defn(name=messages.PLAN_OPERATION)
    async def plan_operation(self, request: PlanRequest) -> Planned:
        """Look at the fleet, make the plan with this worker's documents, and store it."""
        try:
            plan = await self._with_freezes(await self._plan(request))
            digest = await asyncio.to_thread(store_plan, self.store, plan)
            await asyncio.to_thread(remembered, self.store, request.fleet, plan)
            told = await self.notifying.are_there()
        except (Refused, InvalidFile) as error:
            reasons = error.reasons if isinstance(error, Refused) else tuple(map(str, error.faults))
            return Planned("", None, reasons, ())
        except Unanswered as error:
            raise ApplicationError(str(error), type="Unanswered") from error
        course = course_of(plan, digest)
        return Planned(digest, course, plan.refusals, plan.warnings, time.time(), told)

    async def _plan(self, request: PlanRequest) -> Plan:
        documents = await self.documents()
        named = request.rollout.change.name
        change = next((change for change in documents.changes if change.name == named), None)
        before = await asyncio.to_thread(recalled, self.store, request.fleet)
        temporal = self.client.service_client.config.target_host
        async with edges_of(request.fleet, change) as edges:
            plan = await plan_rollout(
                request,
                documents,
                edges.inventory,
                edges.probing,
                edges.restarts,
                metrics_of=edges.metrics_of,
                leaders=edges.leaders,
                now=activity.info().started_time.timestamp(),
                guards=await own_servers(temporal, request.fleet, documents.sources),
                before=before,
                progress=activity.heartbeat,
            )
        policies = with_added(documents.policies, request.policies)
        return await asyncio.to_thread(kept, self.store, request, plan, policies)

    async def _with_freezes(self, plan: Plan) -> Plan:
        """A plan that is made while something is frozen says so; its operation then holds."""
        told = reading(await self.freezes.now(), concerned(plan), time.time())
        return replace(plan, warnings=(*plan.warnings, *told))

    async def documents(self) -> Documents:
        """The documents of the source folder, as they are now."""
        return await asyncio.to_thread(load, [self.source])

    @activity.defn(name=messages.LOAD_COURSE)
    async def load_course(self, digest: str) -> Course:
        """The course of a stored plan."""
        return (await self._whole(digest)).course

    async def _whole(self, digest: str) -> "_Whole":
        if digest not in self._wholes:
            plan = await asyncio.to_thread(load_plan, self.store, digest)
            names = tuple(host.name for host in plan.hosts)
            self._wholes[digest] = _Whole(course_of(plan, digest), names, concerned(plan))
            while len(self._wholes) > WHOLES:
                del self._wholes[next(iter(self._wholes))]
        return self._wholes[digest]

    @activity.defn(name=messages.MERGE_POLICIES)
    async def merge_policies(self, task: MergeTask) -> Merged:
        """What the policies of this worker's source, and the caller's, say now about a plan."""
        try:
            plan = await asyncio.to_thread(load_plan, self.store, task.plan)
            documents = await self.documents()
            return merged_again(
                plan,
                task.rollout,
                with_added(documents.policies, task.policies),
                documents.gates,
                change=documents.change(plan.change.name),
                now=time.time(),
            )
        except GuardrailError as error:
            raise ApplicationError(str(error), type=type(error).__name__) from error

    @activity.defn(name=messages.RECORD)
    async def record(self, entries: list[Entry]) -> Head:
        """Write entries of one operation to the journal; those that are there are passed by."""
        return await asyncio.to_thread(self.journal.append, entries)

    # ------------------------------------------------------------ one host

    @activity.defn(name=messages.CHANGE_HOST)
    async def change_host(self, task: HostTask) -> HostAnswer:
        """Change one host, or say why not. Everything that can go wrong is an answer."""
        said = await self._warm(task, await self._change(task))
        return replace(said, at=time.time())

    async def _warm(self, task: HostTask, said: HostAnswer) -> HostAnswer:
        """Wait until a changed host is warm, where the plan asks for that."""
        if said.outcome != "changed":
            return said
        try:
            async with self._hands(task.plan) as (plan, _, edges):
                rules = task.warm or plan.budget.warm_rules(task.index, task.turn)
                why = await self._cold_still(task, said.name, rules, edges, plan) if rules else ""
                if rules and shadow.FACT in said.facts:
                    said = replace(said, facts=(*said.facts, shadow.WARM))
        except (Refused, InvalidFile, Unanswered) as error:
            why = f"whether it is warm cannot be told: {error}"
        return replace(said, outcome="unknown", reason=f"{said.reason}; {why}") if why else said

    async def _cold_still(
        self, task: HostTask, name: str, rules: Sequence[WarmRule], edges: Edges, plan: Plan
    ) -> str:
        documents = await self.documents()

        async def serves() -> bool:
            try:
                ring = await ConsulHosts().ring(plan.where)
            except (Refused, Unanswered):
                return True  # nobody knows: it goes on showing that it is warm
            return ring is None or name in ring.serving

        handle = self.client.get_workflow_handle(messages.workflow_id(task.operation))

        async def tell(percent: int) -> None:
            told = Warming(task.index, task.turn, time.time(), percent)
            await handle.signal(messages.WARMING, told)

        return await cold_still(
            [_warmth(rule, name, documents, edges) for rule in rules],
            beats(),
            serves if plan.budget.ring else None,
            tell if plan.budget.cold else None,
            0 if activity.info().attempt == 1 else None,
        )

    @activity.defn(name=messages.SHADOW_HOST)
    async def shadow_host(self, task: HostTask) -> HostAnswer:
        """The same without changing anything, whatever the plan says."""
        said = await self._warm(task, await self._change(task, in_shadow=True))
        return replace(said, at=time.time())

    async def _change(self, task: HostTask, *, in_shadow: bool = False) -> HostAnswer:
        try:
            host = await self.planned_host(task)
        except (Refused, Unanswered) as error:
            return _not_read(task, f"host number {task.index}", f"its plan: {error}")
        self.permits.ahead(task.operation)  # it is here when the host is ready, 30 to 100 ms on
        try:
            async with self._hands(task.plan) as (plan, change, edges):
                _reach_next(task, edges)
                asked = Asked(task, plan, host, self.permits, self.freezes, edges.leaders)
                job = job_of(task, host, plan, change)
                work = _in_shadow if in_shadow or plan.shadow else _in_earnest
                result = await work(job, edges, asked, plan)
                return asked.told(answer_of(task, host, result))
        except (Refused, Unanswered) as error:
            return _not_read(task, host.name, str(error))

    async def planned_host(self, task: HostTask) -> PlannedHost:
        """The host as it was planned, where the store may be silent for a while."""
        known = known_host(task.plan, task.index)
        if known is not None:
            return known
        return await _patiently(lambda: load_host(self.store, task.plan, task.index))

    @activity.defn(name=messages.REREAD_HOSTS)
    async def reread_hosts(self, task: RereadTask) -> RereadAnswer:
        """Read changed hosts again, and name those that are not as they should be."""
        try:
            hosts = await _patiently(lambda: self._planned_hosts(task))
            async with self._hands(task.plan) as (plan, change, edges):
                reading = Reading(change, plan.change.new, edges.probing)
                found = await reading.of(hosts, activity.heartbeat)
        except (Refused, Unanswered) as error:
            raise ApplicationError(str(error), type=type(error).__name__) from error
        return RereadAnswer(found.read, found.wrong, found.more, time.time())

    @activity.defn(name=messages.FIND_ARRIVALS)
    async def find_arrivals(self, digest: str) -> Arrivals:
        """The hosts that the inventory has now, and this plan does not."""
        try:
            plan = await _patiently(lambda: load_plan(self.store, digest))
            async with edges_of(plan.where, None) as edges:
                found = await arrived(plan, edges.inventory)
        except (Refused, Unanswered) as error:
            raise ApplicationError(str(error), type=type(error).__name__) from error
        return replace(found, at=time.time())

    @activity.defn(name=messages.OBSERVE_PLAN)
    async def observe_plan(self, task: ObserveTask) -> Observed:
        """Plan anew, without doing anything, and say what has moved since the plan was made."""
        try:
            then = await _patiently(lambda: load_plan(self.store, task.plan))
            now = await self._plan(replace(task.request, contract=""))
        except (Refused, Unanswered, InvalidFile) as error:
            raise ApplicationError(str(error), type=type(error).__name__) from error
        return Observed(since(task.request, then, now, int(task.done, 16)), time.time())

    @activity.defn(name=messages.SEE_LEADER)
    async def see_leader(self, task: LeaderTask) -> Led:
        """Look who leads the servers of a plan, and whether they are well."""
        try:
            whole = await self._whole(task.plan)
            async with self._hands(task.plan) as (plan, _, edges):
                led = await edges.leaders.leading(plan.where)
        except (Refused, Unanswered) as error:
            raise ApplicationError(str(error), type=type(error).__name__) from error
        index = whole.names.index(led.host) if led.host in whole.names else -1
        return Led(index, led.host, led.unwell, time.time())

    def _planned_hosts(self, task: RereadTask) -> list[tuple[int, Host]]:
        indexes = members(int(task.hosts, 16))
        return [(index, host_of(load_host(self.store, task.plan, index))) for index in indexes]

    async def _ask(self, operation: str) -> MayBegin:
        # One that was terminated still answers what it was asked last; nothing may begin for it.
        handle = self.client.get_workflow_handle(messages.workflow_id(operation))
        open_only = QueryRejectCondition.NOT_OPEN
        question = handle.query(
            messages.MAY_BEGIN, result_type=MayBegin, reject_condition=open_only
        )
        answer: MayBegin = await asyncio.wait_for(question, QUERY_LIMIT)
        return answer

    @asynccontextmanager
    async def _hands(self, digest: str) -> AsyncIterator[tuple[Plan, Change, Edges]]:
        """The edges of a plan, shared by its hosts and closed a while after the last of them."""
        opened = self._open.get(digest)
        if opened is None:
            opened = self._open[digest] = _Opened(self, digest)
        opened.users += 1
        try:
            yield await opened.ready()
        finally:
            opened.users -= 1
            opened.idle_since = time.monotonic()
            if opened.failed:  # the next host tries again
                self._forget(digest, opened)
            if opened.closing is None:
                opened.closing = asyncio.create_task(self._close_idle(digest, opened))

    def _forget(self, digest: str, opened: "_Opened") -> None:
        if self._open.get(digest) is opened:
            del self._open[digest]

    async def _close_idle(self, digest: str, opened: "_Opened") -> None:
        """Close them once nobody has used them for a while, or nobody can; also when cancelled."""
        try:
            left = opened.seconds_left()
            while left > 0:
                await asyncio.sleep(left)
                left = opened.seconds_left()
        finally:
            self._forget(digest, opened)
            await opened.close()

    # ------------------------------------------------------------ the gates

    @activity.defn(name=messages.WATCH_GATES)
    async def watch_gates(self, task: WatchTask) -> None:
        """Watch the plan's gates until cancelled, and signal each change of a verdict."""
        handle = self.client.get_workflow_handle(messages.workflow_id(task.operation))
        plan = await asyncio.to_thread(load_head, self.store, task.plan)
        documents = await self.documents()
        hosts = plan.waves[-1].end

        async def expected() -> int:
            """How many targets there must be: those of the plan that are not in flight."""
            return hosts - len((await self.permits.answer(task.operation)).turns)

        async def report(judgement: Judgement) -> None:
            await handle.signal(messages.JUDGED, Judged(task.turn, judgement, time.time()))

        async with edges_of(plan.where, None) as edges:
            rules = task.rules or plan.gates
            readers = [_reader(rule, documents, edges, expected) for rule in rules]
            async with asyncio.TaskGroup() as group:
                group.create_task(watch(readers, report, activity.heartbeat))
                group.create_task(self._follow(task, plan, handle, edges))
                group.create_task(self._look_for_freezes(task, handle))

    async def _look_for_freezes(self, task: WatchTask, handle: WorkflowHandle[Any, Any]) -> None:
        """Read whether something is frozen, beside the gates."""
        whole = await self._whole(task.plan)

        async def tell(told: FreezesTold) -> None:
            await handle.signal(messages.FREEZES_SEEN, told)

        await FreezeWatch(task, whole.whom, self.freezes, tell).run()

    async def _follow(
        self, task: WatchTask, plan: Plan, handle: WorkflowHandle[Any, Any], edges: Edges
    ) -> None:
        """Follow the fleet's catalog beside the gates, where its inventory has one."""
        source = plan.where.inventory
        if not plan.budget.follow or not isinstance(source, ConsulInventory):
            return
        whole = await self._whole(task.plan)

        async def tell(told: FleetTold) -> None:
            await handle.signal(messages.FLEET_SEEN, told)

        async def shows(node: str) -> None:
            index = whole.names.index(node) if node in whole.names else None
            rules = rules_for(index, task.warm or plan.budget.warm)
            await self._until_warm(node, rules, edges)

        was_down = {
            host.name: plan.domains.index(host.failure_domain)
            for host in plan.excluded
            if host.down
        }
        names = {name: index for index, name in enumerate(whole.names)}
        ring = RingWatch(names, shows, task.ring) if plan.budget.ring else None
        async with listings_of(source) as listings:
            watch = FleetWatch(
                task,
                whole.names,
                listings,
                tell,
                was_down=was_down,
                domains=len(plan.domains),
                ring=ring,
            )
            await watch.run()

    async def _until_warm(self, node: str, rules: Sequence[WarmRule], edges: Edges) -> None:
        """Wait until a node that took a slot is warm; for ever where only a bake says so."""
        if not rules:
            await asyncio.Event().wait()
        since, documents = time.time(), await self.documents()
        await until_warm([_warmth(rule, node, documents, edges) for rule in rules], since)

    # ------------------------------------------------------------ leases

    @activity.defn(name=messages.KEEP_LEASE)
    async def keep_lease(self, wanted: Wanted) -> None:
        """Ask for a lease and keep it until cancelled; signal what the table says of it."""
        handle = self.client.get_workflow_handle(messages.workflow_id(wanted.holder.operation))

        async def report(answer: Answer) -> None:
            try:
                await handle.signal(messages.LEASED, Leased(wanted.turn, answer, time.time()))
            except RPCError as error:
                raise Unanswered("the operation", wanted.holder.operation, str(error)) from error

        await keep(self.desk, wanted, report, activity.heartbeat, self._behind)

    async def _behind(self, lease: Lease) -> str:
        """What may be behind an orphaned lease; empty: its operation has ended, its hosts serve."""
        operation = lease.holder.operation
        handle = self.client.get_workflow_handle(messages.workflow_id(operation))
        try:
            if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
                return f"{operation} goes on"
            async with self._hands(lease.holder.plan) as (plan, change, edges):
                if why := orphans.steps_may_run(lease, plan):
                    return why
                about = f"{orphans.hosts_of(lease, plan):x}"
                task = RereadTask(operation, lease.holder.plan, 0, about)
                hosts = await asyncio.to_thread(self._planned_hosts, task)
                just_hosts = [host for _, host in hosts]
                return await orphans.not_serving(just_hosts, plan, change, edges.probing)
        except (RPCError, Refused, Unanswered) as error:
            return str(error)

    @activity.defn(name=messages.END_LEASE)
    async def end_lease(self, done: Done) -> None:
        """Give back what an operation asked for up to that turn."""
        await self.desk.give_back(done)


def beats() -> Callable[[str], None]:
    """Heartbeats of a host's activity, from its second second on."""
    first = time.monotonic() + FIRST_BEAT

    def beat(phase: str) -> None:
        if time.monotonic() >= first:
            activity.heartbeat(phase)

    return beat


async def _patiently(read: Callable[[], T]) -> T:
    """What is read from the plan store, tried again while that does not answer.

    Raises Unanswered once that has lasted too long: for work that an earlier attempt may have
    begun, not before most of its own time is over.
    """
    info = activity.info()
    patience = STORE_PATIENCE
    if info.attempt > 1 and info.start_to_close_timeout is not None:
        patience = max(patience, info.start_to_close_timeout.total_seconds() - STORE_PATIENCE)
    give_up = time.monotonic() + patience
    while True:
        try:
            return await asyncio.to_thread(read)
        except Unanswered:
            if time.monotonic() >= give_up:
                raise
        activity.heartbeat("plan")
        await asyncio.sleep(STORE_AGAIN)


def _reach_next(task: HostTask, edges: Edges) -> None:
    """Connect to the next host of the plan's order while this one is worked on: where one goes
    after the other, logging in is half of the time that a quick host takes."""
    step = 1 if task.direction == "forward" else -1
    following = known_host(task.plan, task.index + step)
    if following is not None:
        edges.driver.ahead(host_of(following))


def _not_read(task: HostTask, name: str, why: str) -> HostAnswer:
    """The answer where the host could not even be asked.

    What an earlier attempt did is then not known, and it may be at work still: it is `unknown`
    and keeps its place among those away. Called `blocked`, it was asked again with a new turn
    and changed twice, with others beside it that the limits had no room for (tried).
    """
    if activity.info().attempt > 1:
        lost = f"{why}; an earlier attempt may have begun"
        return HostAnswer(task.index, task.turn, "unknown", name, lost)
    return HostAnswer(task.index, task.turn, "blocked", name, f"{why}; nothing was begun")


async def _in_earnest(job: HostJob, edges: Edges, asked: Asked, _: Plan) -> HostResult:
    return await change_host(
        job,
        edges.driver,
        edges.probing,
        catalog=edges.catalog,
        permit=asked,
        heartbeat=beats(),
    )


async def _in_shadow(job: HostJob, edges: Edges, asked: Asked, plan: Plan) -> HostResult:
    return await shadow_host(
        job,
        edges.probing,
        catalog=edges.catalog,
        permit=asked,
        heartbeat=beats(),
        seconds=plan.host_expected,
    )


def answer_of(task: HostTask, host: PlannedHost, result: HostResult) -> HostAnswer:
    """What became of a host's work, as its operation hears it."""
    return HostAnswer(task.index, task.turn, result.outcome, host.name, result.reason, result.facts)


def job_of(task: HostTask, host: PlannedHost, plan: Plan, change: Change) -> HostJob:
    """The work on one host. The token: of its lease, then the turn, then Temporal's attempt."""
    return HostJob(
        operation=task.operation,
        host=host_of(host),
        change=change,
        direction=task.direction,
        old=plan.change.old,
        new=plan.change.new,
        token=Token(task.lease, task.turn, activity.info().attempt),
        run=task.run,
    )


def host_of(planned: PlannedHost) -> Host:
    """A planned host as the edges know it."""
    return Host(
        planned.inventory,
        planned.name,
        planned.address,
        planned.failure_domain,
        planned.roles,
        planned.labels,
    )


def as_strict(gate: Gate, rule: GateRule) -> Gate:
    """The gate with evidence as fresh as it wants itself, and as every policy wants."""
    age = gate.evidence.max_age
    for other in rule.max_ages:
        age = age.and_also(other)
    return replace(gate, evidence=replace(gate.evidence, max_age=age))


def _reader(
    rule: GateRule,
    documents: Documents,
    edges: Edges,
    expected: Callable[[], Awaitable[int]],
) -> GateReader:
    """The reader of one gate, as strict about evidence as the plan is."""
    gate = documents.gate(rule.name)
    if rule.digest != gate.digest:
        raise Refused(f"gate {gate.name} was changed after the plan was made; make a new plan")
    source = documents.source(gate.source)
    return GateReader(
        as_strict(gate, rule), edges.metrics_of(source), source.timeout, expected, source.address
    )


def rules_for(index: int | None, rules: Sequence[WarmRule]) -> tuple[WarmRule, ...]:
    """What a node that took a slot must show: a host of the plan what policies say of it, any other
    node, of which nobody knows what it is, all of it."""
    if index is None:
        return tuple(rules)
    return tuple(rule for rule in rules if any(b <= index < e for b, e in rule.hosts))


def _warmth(rule: WarmRule, name: str, documents: Documents, edges: Edges) -> Warmth:
    """What the host of this name must show, read as this worker's documents say."""
    gate = documents.gate(rule.gate)
    source = documents.source(gate.source)
    metrics, limit = edges.metrics_of(source), source.timeout
    return warmth(rule, name, gate, metrics, limit=limit, source=source.address)


@dataclass(frozen=True, slots=True)
class _Whole:
    """What is known of a plan once all its hosts were read: small, beside the plan itself."""

    course: Course
    names: tuple[str, ...]
    whom: Concerned


@dataclass(slots=True)
class _Opened:
    """What changing the hosts of one plan needs, opened once for all of them."""

    owner: Activities
    digest: str
    users: int = 0
    idle_since: float = 0.0
    closing: asyncio.Task[None] | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _opening: asyncio.Task[tuple[Plan, Change, Edges]] | None = None

    @property
    def failed(self) -> bool:
        """Whether they could not be opened."""
        opening = self._opening
        if opening is None or not opening.done():
            return False
        return opening.cancelled() or opening.exception() is not None

    def seconds_left(self) -> float:
        """How long they stay open at least; 0 once they may be closed."""
        if self.users:
            return LINGER
        return 0.0 if self.failed else self.idle_since + LINGER - time.monotonic()

    async def ready(self) -> tuple[Plan, Change, Edges]:
        """The plan, its change and the edges. Raises Refused when they do not fit together."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> tuple[Plan, Change, Edges]:
        plan = await asyncio.to_thread(load_head, self.owner.store, self.digest)
        change = (await self.owner.documents()).change(plan.change.name)
        if change.digest != plan.change.digest:
            raise Refused(
                f"change {change.name} is not the one that was planned (it is "
                f"{change.digest[:19]} in this worker's source, {plan.change.digest[:19]} in the "
                "plan): make a new plan"
            )
        return plan, change, await self._stack.enter_async_context(edges_of(plan.where, change))

    async def close(self) -> None:
        """Close the edges, if they were ever opened."""
        if self._opening is not None:
            self._opening.cancel()
        await self._stack.aclose()
