"""What exactly will be done to which hosts, and why may it not start?

`make_plan` puts together what a person asks for, what the worker's source says and what was
found on the hosts. It always answers with a plan: a reason against starting is a refusal in it,
so that a person sees the hosts, the limits and *all* reasons at once.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from guardrail.decide import canaries, leading, observing, spares
from guardrail.decide.adding import in_all
from guardrail.decide.budget import budget_of, churn_rows, in_slots, slow_turns
from guardrail.decide.calendar import expand
from guardrail.decide.claims import critical_roles, needs_of
from guardrail.decide.forecast import Pace, Work, closed_now, ends_at, in_peak, never_fits
from guardrail.decide.found import Found, Seen, Watching, down_by_domain, gates_asked
from guardrail.decide.merge import each_said, matches, resolve
from guardrail.decide.objections import LEAVE_SECONDS, refusals, warnings
from guardrail.decide.overrides import KNOBS
from guardrail.decide.shadow import as_shadow
from guardrail.decide.still_true import share_of
from guardrail.decide.stricter import FIELDS
from guardrail.decide.terms import Resolved, Stated, Terms
from guardrail.decide.tiers import cut_by_tiers, tiers_of
from guardrail.decide.tiers import rows as tier_rows
from guardrail.decide.waves import START, begins_at, cut, in_order, label
from guardrail.model.change import Change, ChangeRef
from guardrail.model.common import Origin
from guardrail.model.fleet import Fleet, Host, HostList
from guardrail.model.gate import Gate
from guardrail.model.messages import PlanRequest
from guardrail.model.plan import (
    ApprovalPoint,
    Caps,
    Course,
    Excluded,
    GateRule,
    Limit,
    Plan,
    PlannedHost,
    Unit,
    Wave,
    Word,
)
from guardrail.model.policy import Policy
from guardrail.model.rollout import Rollout

SECONDS_PER_HOST = 10.0
"""What one host is taken to need, where nothing better is known."""

UNKNOWN_SCRAPE = 15.0
"""Seconds between samples where that could not be measured: Prometheus's usual setting."""


def make_plan(
    request: PlanRequest,
    found: Found,
    *,
    now: float,
    guards: frozenset[str] = frozenset(),
    seconds_per_host: float = SECONDS_PER_HOST,
) -> Plan:
    """The plan. `now`: seconds since the epoch. guards: names of this program's own servers."""
    rollout, fleet = request.rollout, request.fleet
    agent = found.change.agent if found.change else ""
    said = each_said(found.policies, fleet.name, agent, found.hosts)
    care = resolve(in_all(said, found.added))
    hosts, excluded = split(found, rollout.change)
    versions = {host.name: found.at(host.name).running for host in hosts}
    leader = leading.named(found) if care.leader_last else ""
    ordered = in_order(hosts, rollout.order, versions, guards, leader)
    alone = sum(1 for host in ordered if host.name in guards or host.name == leader)
    most = care.wave.value if care.wave else None
    waves = cut(rollout.stages, len(ordered), most=most, alone=alone)
    tiers = tiers_of(found.policies, fleet.name, agent, found.hosts)
    waves = cut_by_tiers(waves, ordered, tiers)
    plan = Plan(
        rollout=rollout.name,
        fleet=fleet.name,
        change=replace(rollout.change, digest=found.change.digest if found.change else ""),
        requester=request.requester,
        shadow=request.shadow,
        host_expected=seconds_per_host,
        created_at=now,
        hosts=tuple(planned(host, found, fleet.name, agent) for host in ordered),
        waves=waves,
        domains=domains_of(ordered, excluded),
        excluded=excluded,
        caps=caps_of(care),
        limits=(*limits_of(care, said), *tier_rows(tiers)),
        gates=gate_rules(care, found, rollout.gates, rollout.name),
        approvals=approvals_of(care, rollout, waves, len(ordered)),
        bake_for=care.bake.value,
        budget=budget_of(care, fleet, ordered, found),
        policies=care.policies,
        seconds_expected=0.0,
        where=without_hosts(fleet),
        host_timeout=found.change.timeout if found.change else 0.0,
        description=rollout.description,
        ticket=rollout.ticket,
        cache_critical=care.cache_critical,
        leases=needs_of(
            ordered, fleet.name, critical_roles(found.policies, fleet.name, agent, found.hosts)
        ),
        rollback_when=care.rollback_when.value,
        calendar=expand((stated.value for stated in care.windows), now),
        canaries=canaries.covered(ordered, waves, rollout.order, versions),
        leader_last=care.leader_last,
        leader=leader,
    )
    away = most_away(plan)
    plan = replace(plan, limits=(*in_slots(plan), *spares.rows(plan, care, away)))
    open_seconds, ends = seconds_expected(plan, seconds_per_host), done_at(plan, seconds_per_host)
    seconds = open_seconds if ends is None else ends - now
    return replace(
        plan,
        seconds_expected=seconds,
        seconds_closed=max(0.0, seconds - open_seconds),
        refusals=(
            *refusals(plan, request, found, care),
            *spares.refusals(plan, fleet, care, away),
            *leading.refusals(plan, found),
            *never_fits(plan, ends),
            *in_peak(plan),
        ),
        warnings=(
            *warnings(plan, found),
            *spares.warnings(plan, found),
            *canaries.warnings(plan.canaries),
            *leading.warnings(plan, found),
            *closed_now(plan, ends),
        ),
    )


def course_of(plan: Plan, digest: str) -> Course:
    """The part of a plan that `decide` needs. `digest`: that of the plan as it was stored."""
    number = {name: i for i, name in enumerate(plan.domains)}
    down = down_by_domain(plan.excluded)
    course = Course(
        plan=digest,
        requester=plan.requester,
        waves=plan.waves,
        domains=tuple(number[host.failure_domain] for host in plan.hosts),
        down=tuple(down[name] for name in plan.domains),
        caps=plan.caps,
        gates=plan.gates,
        approvals=plan.approvals,
        bake_for=plan.bake_for,
        budget=plan.budget,
        host_timeout=plan.host_timeout + plan.budget.warm_within,
        calendar=plan.calendar,
        leases=plan.leases,
        rollback_when=plan.rollback_when,
        limits=tuple(limit for limit in plan.limits if limit.name in KNOBS),
        reread=share_of(cache_critical=plan.cache_critical),
        observe_after=observing.LONG,
        freezes=True,
        merges=True,
        leader_last=plan.leader_last,
    )
    return as_shadow(course) if plan.shadow else course


def without_hosts(fleet: Fleet) -> Fleet:
    """The fleet's document without the hosts it lists: the plan has them already."""
    listed = isinstance(fleet.inventory, HostList)
    return replace(fleet, inventory=HostList(())) if listed else fleet


# ---------------------------------------------------------------- hosts


def split(found: Found, change: ChangeRef) -> tuple[tuple[Host, ...], tuple[Excluded, ...]]:
    """The hosts to change, and the ones left out: down, or at the new version already."""
    hosts: list[Host] = []
    excluded: list[Excluded] = []
    for host in found.hosts:
        seen = found.at(host.name)
        if host.down:
            why = f"down: {host.down_reason}" if host.down_reason else "down"
            excluded.append(left_out(host, why))
        elif not seen.trouble and seen.installed == seen.running == change.new:
            excluded.append(left_out(host, f"already at {change.new}"))
        else:
            hosts.append(host)
    return tuple(hosts), tuple(excluded)


def left_out(host: Host, why: str) -> Excluded:
    """A host that the plan leaves out; policies still cover it."""
    return Excluded(host.name, host.failure_domain, why, host.down, host.roles, host.labels)


def planned(host: Host, found: Found, fleet: str, agent: str) -> PlannedHost:
    """A host as the plan shows it."""
    seen = found.at(host.name)
    return PlannedHost(
        name=host.name,
        address=host.address,
        failure_domain=host.failure_domain,
        roles=host.roles,
        labels=host.labels,
        version_seen=seen.running,
        restart=restart_in_words(host, seen, found.change),
        policies=tuple(p.name for p in found.policies if matches(p, fleet, agent, host)),
        inventory=host.inventory,
    )


def restart_in_words(host: Host, seen: Seen, change: Change | None) -> str:
    """What restarting the agent does to the catalog; empty where that is no question."""
    what = f"{host.name} ({', '.join(host.roles) or 'no known role'})"
    if not seen.leaves:
        return ""
    if seen.leaves == "no":
        return "stays registered: leave_on_terminate is false"
    if change is not None and change.keeps_registered:
        return f"stays registered: change {change.name} says that it keeps the node registered"
    if seen.leaves == "unknown":
        return f"may deregister {what}: leave_on_terminate could not be read from its agent"
    return (
        f"SIGTERM deregisters {what} for about {LEAVE_SECONDS:g} s: leave_on_terminate is not false"
    )


def domains_of(hosts: Iterable[Host], excluded: Iterable[Excluded]) -> tuple[str, ...]:
    """The failure domains of the hosts to change and of those that are down, sorted."""
    down = {host.failure_domain for host in excluded if host.down}
    return tuple(sorted({host.failure_domain for host in hosts} | down))


# ---------------------------------------------------------------- limits


def caps_of(care: Resolved) -> Caps:
    """The limits as `decide` keeps them."""
    consecutive = care.failures_consecutive
    return Caps(
        unavailable=care.unavailable.value,
        unavailable_per_domain=care.unavailable_per_domain.value,
        domains_at_once=care.domains_at_once.value,
        failures=care.failures.value,
        failures_consecutive=consecutive.value if consecutive else None,
        pace=care.pace.value,
        failures_share=care.failures_share.value / 100 if care.failures_share else None,
    )


ROWS: tuple[tuple[str, Unit], ...] = (
    ("unavailable", "hosts"),
    ("unavailable_per_domain", "hosts"),
    ("domains_at_once", "domains"),
    ("failures", "hosts"),
    ("failures_share", "percent"),
    ("failures_consecutive", "hosts"),
    ("wave", "hosts"),
    ("cold_capacity", "hosts"),
    ("pace", "seconds"),
    ("bake", "seconds"),
    ("grace", "seconds"),
    ("max_age_seconds", "seconds"),
    ("max_age_scrapes", "scrapes"),
    ("recover_for", "seconds"),
    ("approval_count", "people"),
)
"""The numbers that a plan shows as limits, in this order."""


def limits_of(care: Resolved, said: Sequence[tuple[Policy, Terms]] = ()) -> tuple[Limit, ...]:
    """Every limit as written, resolved, and where from, for people to read.

    said: what each policy that covers a host says, so that a limit knows whom to ask.
    """
    found: list[Limit] = []
    for name, unit in ROWS:
        stated: Stated[int] | Stated[float] | None = getattr(care, name)
        if stated is not None and (name != "approval_count" or care.approval_points):
            number, words = float(stated.value), words_on(name, said)
            found.append(Limit(title(name), stated.written, number, unit, stated.origin, words))
    return (*found, *churn_rows(care))


def title(field: str) -> str:
    """A field's short name: `unavailable`, `failures`, `pace.between`, `evidence.maxAge`."""
    path = FIELDS[field].path.partition(",")[0]
    return path.removeprefix("limits.").removesuffix(".hosts")


def words_on(field: str, said: Sequence[tuple[Policy, Terms]]) -> tuple[Word, ...]:
    """What each policy says about a field, the strictest first."""
    rank = FIELDS[field].rank
    words = [
        Word(policy.name, float(stated.value), policy.owners)
        for policy, terms in said
        if (stated := getattr(terms, field)) is not None
    ]
    return tuple(sorted(words, key=lambda word: (rank(word.value), word.policy)))


def most_away(plan: Plan) -> int:
    """How many hosts can ever be away at once, by all limits and what is down already."""
    caps, down = plan.caps, sum(down_by_domain(plan.excluded).values())
    return max(1, min(caps.unavailable - down, caps.unavailable_per_domain * caps.domains_at_once))


def seconds_expected(plan: Plan, per_host: float) -> float:
    """Seconds that the plan takes when nothing holds it and nothing is closed: work or pace, and a
    bake a wave."""
    return sum(_work(plan, number, per_host).seconds + plan.bake_for for number in _numbers(plan))


def done_at(plan: Plan, per_host: float) -> float | None:
    """When it is done if nothing but its windows holds it; None: not as far as they are known."""
    if plan.calendar is None:
        return plan.created_at + seconds_expected(plan, per_host)
    waves = [_work(plan, number, per_host) for number in _numbers(plan)]
    pace = Pace(plan.host_timeout + plan.budget.warm_within, plan.bake_for)
    return ends_at(waves, plan.calendar, plan.created_at, pace)


def _numbers(plan: Plan) -> range:
    return range(len(plan.waves))


def _work(plan: Plan, number: int, per_host: float) -> Work:
    """The longest of three: turns of `per_host` with as many hosts as may be away, begins one
    `pace` apart and the last host's work, or turns with as many as may leave the catalog or be
    cold."""
    wave, after = plan.waves[number], plan.waves[number + 1 : number + 2]
    covers = any(other.stage != wave.stage for other in after)
    hosts = wave.end - wave.begin
    turns = Work(math.ceil(hosts / most_away(plan)), per_host, per_host, covers)
    paced = Work(hosts, plan.caps.pace, per_host, covers)
    slow = slow_turns(plan.budget, wave.begin, wave.end, per_host, plan.bake_for)
    slower = (Work(count, step, per_host, covers) for count, step in slow)
    return max(turns, paced, *slower, key=lambda work: work.seconds)


# ---------------------------------------------------------------- gates and approvals


def gate_rules(
    care: Resolved, found: Found, also: Sequence[str], rollout: str
) -> tuple[GateRule, ...]:
    """The gates that are asked for and there, as the engine needs them."""
    there = {gate.name: gate for gate in found.gates}
    return tuple(
        _rule(there[name], care, found.watching.get(name, Watching()), origin)
        for name, origin in gates_asked(care, also, rollout)
        if name in there
    )


def _rule(gate: Gate, care: Resolved, watching: Watching, origin: Origin) -> GateRule:
    return GateRule(
        name=gate.name,
        gate_class=gate.gate_class,
        grace=care.grace.value,
        recover_by=care.recover_by.value,
        good_for=care.recover_for.value,
        first_within=first_within(gate, watching),
        required_by=origin,
        query=gate.query,
        bound=str(gate.bound),
        max_ages=care.max_ages,
        silence=silence(gate, watching),
        digest=gate.digest,
    )


def silence(gate: Gate, watching: Watching) -> float:
    """Seconds without a sign of life after which a watcher is lost: max(5, 2 x every + read
    time-out). The read time-out is below it, so that a hang has a name first (design.md §7)."""
    return max(5.0, 2 * gate.every + watching.timeout)


def first_within(gate: Gate, watching: Watching) -> float:
    """Seconds from a watcher's start to the first verdict: enough distinct samples, one more
    since the first may just have been missed, and the time-out of the last read."""
    scrape = UNKNOWN_SCRAPE if watching.scrape is None else watching.scrape
    readings = max(gate.fail_after, gate.pass_after) + 1
    return readings * max(gate.every, scrape) + watching.timeout


def approvals_of(
    care: Resolved, rollout: Rollout, waves: Sequence[Wave], hosts: int
) -> tuple[ApprovalPoint, ...]:
    """The points that the rollout has; the strictest count holds at each of them."""
    points: dict[str, ApprovalPoint] = {}
    for stated in care.approval_points:
        wave = begins_at(stated.value, rollout.stages, waves, hosts)
        point = label(stated.value)
        if wave is not None and point not in points:
            count = care.approval_count.value
            who = (count, care.not_requester, stated.origin, care.verified)
            points[point] = ApprovalPoint(point, wave, *who)
    return tuple(sorted(points.values(), key=lambda point: (point.wave, point.point != START)))
