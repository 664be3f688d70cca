"""What is really there, before anything is planned? Ask the world, and make the plan of it.

The worker calls this with its own source of documents and with ports; the command line calls it
for `plan`. It asks in this order:

    source      the change, by name: what is not in the worker's source is not run; its policies,
                and those that the caller adds
    inventory   all hosts of the fleet
    hosts       at most `at_once` together: installed and running version, what a restart does,
                and whether the old and the new version can be brought there (the way back)
    gates       how far apart the samples are, and whether there is any evidence now

What the answers mean is decided in `decide/plan.py`. A host that does not answer is a refusal in
the plan, which names it; an inventory or a Prometheus that does not answer is an error, since
there is no plan without it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from guardrail.decide.adding import refuse_added, with_added
from guardrail.decide.found import Found, Seen, Watching
from guardrail.decide.inventory import gone, key_of, known_fleet, own_hosts, own_words, told
from guardrail.decide.merge import matches
from guardrail.decide.plan import SECONDS_PER_HOST, make_plan
from guardrail.errors import Refused, Unanswered
from guardrail.model.change import Change, ChangeRef, ConsulAgentProbe
from guardrail.model.fleet import Fleet, Host, KnownFleet, Leading
from guardrail.model.gate import Gate, Reading, Source
from guardrail.model.messages import PlanRequest
from guardrail.model.plan import Plan
from guardrail.model.policy import Policy
from guardrail.ports import (
    BadCredentials,
    FleetMemory,
    Inventory,
    Leaders,
    Metrics,
    PlanStore,
    Probing,
    Restarts,
    Rings,
    Unreachable,
)

AT_ONCE = 32
"""Hosts that are looked at together."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Progress = Callable[[int, int], None]
"""Told how many hosts have been looked at, and how many there are."""

MetricsOf = Callable[[Source], Metrics]
"""The metrics of a source."""


class SourceDocuments(Protocol):
    """The documents of the worker's source that a plan needs (`files.Documents` is one)."""

    @property
    def policies(self) -> tuple[Policy, ...]: ...
    @property
    def changes(self) -> tuple[Change, ...]: ...
    @property
    def gates(self) -> tuple[Gate, ...]: ...
    @property
    def sources(self) -> tuple[Source, ...]: ...


async def plan_rollout(
    request: PlanRequest,
    documents: SourceDocuments,
    inventory: Inventory,
    probing: Probing,
    restarts: Restarts,
    *,
    metrics_of: MetricsOf,
    now: float,
    guards: frozenset[str] = frozenset(),
    before: KnownFleet | None = None,
    leaders: Leaders | None = None,
    at_once: int = AT_ONCE,
    progress: Progress | None = None,
    seconds_per_host: float = SECONDS_PER_HOST,
) -> Plan:
    """The plan of a rollout; its refusals say why it may not start.

    now: seconds since the epoch. guards: names or addresses of the hosts that this program stands
    on. before: the fleet's hosts when a rollout on it was planned last, if that is known.
    leaders: asked where a policy that covers a host wants the leader last; None: nobody can be.
    Raises Refused (the inventory's answer is not whole) and Unanswered (no inventory, no
    Prometheus).
    """
    name = request.rollout.change.name
    change = next((change for change in documents.changes if change.name == name), None)
    hosts = await inventory.hosts(request.fleet)
    ring = await inventory.ring(request.fleet) if isinstance(inventory, Rings) else None
    seen: dict[str, Seen] = {}
    if change is not None:
        look = Look(change, request.rollout.change, probing, restarts)
        up = [host for host in hosts if not host.down]
        answers = await each(look.at, up, at_once=at_once, progress=progress)
        seen = {host.name: answer for host, answer in zip(up, answers, strict=True)}
    policies = with_added(documents.policies, request.policies)
    wanted = gates_wanted(request, policies, documents.gates)
    gates = await look_at_gates(wanted, documents.sources, metrics_of)
    own = own_hosts(hosts, guards)
    tolerated = request.rollout.tolerate.hosts
    found = Found(
        hosts=hosts,
        seen=seen,
        change=change,
        changes=tuple(change.name for change in documents.changes),
        policies=policies,
        added=frozenset(one.name for one in policies[len(documents.policies) :]),
        gates=documents.gates,
        watching=gates.watching,
        leading=await who_leads(request.fleet, hosts, change, policies, leaders),
        refusals=(
            *refuse_added(documents.policies, request.policies),
            *gates.refusals,
            *(gone(before, hosts, tolerated) if before else ()),
        ),
        warnings=(
            *gates.warnings,
            *(told(before, hosts, tolerated) if before else ()),
            *own_words(own),
        ),
        ring=ring,
    )
    return make_plan(request, found, now=now, guards=own, seconds_per_host=seconds_per_host)


async def who_leads(
    fleet: Fleet,
    hosts: Sequence[Host],
    change: Change | None,
    policies: Sequence[Policy],
    leaders: Leaders | None,
) -> Leading | str:
    """Who leads the servers of a fleet, where a policy asks for that; or why it is not known."""
    agent = change.agent if change is not None else ""
    wanting = [policy for policy in policies if policy.leader_last]
    asked = any(matches(policy, fleet.name, agent, host) for policy in wanting for host in hosts)
    if leaders is None or not asked:
        return "nobody was asked"
    try:
        return await leaders.leading(fleet)
    except (Refused, Unanswered) as error:
        return str(error)


def recalled(store: PlanStore, fleet: Fleet) -> KnownFleet | None:
    """The fleet's hosts when a rollout on it was planned last, where that is kept."""
    key = key_of(fleet)
    return store.recall(key) if key and isinstance(store, FleetMemory) else None


def remembered(store: PlanStore, fleet: Fleet, plan: Plan) -> None:
    """Keep the fleet's hosts for next time; a plan that is refused is no time."""
    key = key_of(fleet)
    if key and not plan.refusals and isinstance(store, FleetMemory):
        store.remember(key, known_fleet(plan))


# ---------------------------------------------------------------- hosts


@dataclass(frozen=True, slots=True)
class Look:
    """How one host is looked at; nothing is changed by it."""

    change: Change
    asked: ChangeRef
    probing: Probing
    restarts: Restarts

    async def at(self, host: Host) -> Seen:
        """What is on a host, or why that cannot be seen."""
        try:
            installed = await self.probing.installed(host, self.change)
            running = await self.probing.running(host, self.change)
            if installed == running == self.asked.new:  # it is there already, and left alone
                return Seen(installed, running)
            return Seen(
                installed,
                running,
                leaves=await self.leaves(host),
                no_old=await self.lacks(host, self.asked.old),
                no_new=await self.lacks(host, self.asked.new),
            )
        except Unreachable as error:
            return Seen(trouble=_words(error, "does not answer"))
        except BadCredentials as error:
            return Seen(trouble=_words(error, "refuses our credentials"))

    async def lacks(self, host: Host, version: str) -> str:
        """What is said against bringing this version to the host; empty: nothing."""
        said = await self.probing.obtainable(host, self.change, version)
        return "" if said is None else said or "it did not say why"

    async def leaves(self, host: Host) -> Literal["", "yes", "no", "unknown"]:
        """What a restart does to the catalog: a question for Consul agents only."""
        if self.change.agent != "consul" and not isinstance(self.change.running, ConsulAgentProbe):
            return ""
        try:
            effect = await self.restarts.restart_effect(host)
        except (Unreachable, BadCredentials):
            return "unknown"  # the versions were read: this alone is a warning, not a refusal
        return "unknown" if effect.leaves is None else ("yes" if effect.leaves else "no")


def _words(error: Exception, otherwise: str) -> str:
    return " ".join(str(error).split()) or otherwise


async def each(
    ask: Callable[[Item], Awaitable[Answer]],
    items: Sequence[Item],
    *,
    at_once: int,
    progress: Progress | None = None,
) -> list[Answer]:
    """Ask of every item, at most `at_once` together; the answers in the items' order.

    The first error ends the others and is raised as it is.
    """
    answers: dict[int, Answer] = {}
    waiting = iter(enumerate(items))

    async def work() -> None:
        for index, item in waiting:
            answers[index] = await ask(item)
            if progress is not None:
                progress(len(answers), len(items))

    await _together(work() for _ in range(min(at_once, len(items))))
    return [answers[index] for index in range(len(items))]


async def _together(works: Iterable[Awaitable[None]]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# ---------------------------------------------------------------- gates


@dataclass(frozen=True, slots=True)
class GatesSeen:
    """How the gates can be read, by name, and what is wrong with them now."""

    watching: dict[str, Watching]
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def gates_wanted(
    request: PlanRequest, policies: Sequence[Policy], gates: Sequence[Gate]
) -> tuple[Gate, ...]:
    """The gates of the source that the rollout or any policy names.

    A policy that turns out to cover no host costs one query too many, and none too few.
    """
    names = set(request.rollout.gates)
    names.update(name for policy in policies for name in policy.required_gates)
    return tuple(gate for gate in gates if gate.name in names)


async def look_at_gates(
    gates: Sequence[Gate], sources: Sequence[Source], metrics_of: MetricsOf
) -> GatesSeen:
    """Read each gate once, and measure its samples. Raises Unanswered when a source is silent."""
    found = [(gate, source_of(gate, sources)) for gate in gates]
    refusals = tuple(source for _, source in found if isinstance(source, str))
    there = [(gate, source) for gate, source in found if isinstance(source, Source)]
    metrics = {source.name: metrics_of(source) for _, source in there}

    async def look(item: tuple[Gate, Source]) -> tuple[Watching, Reading]:
        gate, source = item
        port = metrics[source.name]
        reading = await port.read(gate.query, gate.evidence.max_age)
        if reading.kind == "unreachable":
            detail = reading.detail.removeprefix(f"{source.address}: ")
            raise Unanswered("Prometheus", source.address, detail or "no answer")
        return Watching(await port.scrape_interval(gate.query), source.timeout), reading

    answers = await each(look, there, at_once=AT_ONCE)
    watching: dict[str, Watching] = {}
    warnings: list[str] = []
    for (gate, source), (watched, reading) in zip(there, answers, strict=True):
        watching[gate.name] = watched
        warnings += _warn(gate, source, reading)
    return GatesSeen(watching, refusals, tuple(warnings))


def source_of(gate: Gate, sources: Sequence[Source]) -> Source | str:
    """Where a gate is read, or why that cannot be told."""
    known = {source.name: source for source in sources}
    listed = ", ".join(sorted(known)) or "none"
    if gate.source is not None:
        missing = (
            f"gate {gate.name} is read from source {gate.source}, which is not in the worker's "
            f"source of documents; sources there: {listed}"
        )
        return known.get(gate.source, missing)
    if len(sources) == 1:
        return sources[0]
    return f"gate {gate.name} names no source, and there is not just one; sources there: {listed}"


def _warn(gate: Gate, source: Source, reading: Reading) -> list[str]:
    """What this one reading says against starting now. One reading is no verdict."""
    if reading.kind == "no_data" and gate.evidence.zero_when is not None:
        return []  # nothing may mean zero here: the watcher asks, and tells
    if reading.kind is not None:
        detail = f": {reading.detail}" if reading.detail else ""
        return [
            (
                f"gate {gate.name} has no evidence now ({reading.kind}{detail}; source "
                f"{source.name}, {source.address}); no host begins until it passes"
            )
        ]
    if reading.value is None or not gate.bound.holds(reading.value):
        shown = "nothing" if reading.value is None else f"{reading.value:g}"
        return [
            f"gate {gate.name} reads {shown} now, not {gate.bound}; no host begins until it passes"
        ]
    return []
