"""Why may a plan not start, and what should a person know before it does?

All reasons at once, each with what it is about by name and with what a person may do.
"""

from collections import Counter
from collections.abc import Sequence

from guardrail.decide.budget import refuse_names, refuse_uncounted, refuse_unread
from guardrail.decide.found import (
    Found,
    Seen,
    counted,
    down_by_domain,
    gates_asked,
    named,
)
from guardrail.decide.terms import Resolved
from guardrail.decide.waves import START, label
from guardrail.model.fleet import UNKNOWN_DOMAIN
from guardrail.model.messages import PlanRequest
from guardrail.model.plan import Plan

LEAVE_SECONDS = 5.0
"""How long a Consul client that leaves on SIGTERM is out of the catalog: measured, 5.2 s."""


def refusals(plan: Plan, request: PlanRequest, found: Found, care: Resolved) -> tuple[str, ...]:
    """Every reason against starting; none: it may start."""
    return (
        *found.refusals,
        *_refuse_change(plan, request, found),
        *_refuse_hosts(plan, found),
        *_refuse_versions(plan, found),
        *_refuse_no_new(plan, found),
        *_refuse_no_way_back(plan, found),
        *_refuse_down(plan, found, care),
        *refuse_uncounted(request.fleet, care),
        *refuse_unread(request.fleet, found.hosts, found),
        *refuse_names(plan),
        *_refuse_gates(plan, request, found, care),
        *_refuse_stages(plan, request, care),
    )


def _refuse_change(plan: Plan, request: PlanRequest, found: Found) -> list[str]:
    name, asked = plan.change.name, request.rollout.change.digest
    if found.change is None:
        there = ", ".join(sorted(found.changes)) or "none"
        return [f"change {name} is not in the worker's source; changes there: {there}"]
    if asked and asked != found.change.digest:
        return [
            (
                f"change {name} was asked for as {asked}, and the worker's source has "
                f"{found.change.digest}; only what is in the source runs"
            )
        ]
    return []


def _refuse_hosts(plan: Plan, found: Found) -> list[str]:
    if plan.hosts:
        return []
    if not found.hosts:
        return [f"fleet {plan.fleet} has no hosts; check its inventory"]
    down = sum(down_by_domain(plan.excluded).values())
    there = len(plan.excluded) - down
    return [f"no host to change: {there} already at {plan.change.new}, {down} down"]


def _refuse_versions(plan: Plan, found: Found) -> list[str]:
    """Hosts that cannot be looked at, or are at neither of the two versions."""
    if found.change is None:
        return []
    reasons: list[str] = []
    at = [(host.name, found.at(host.name)) for host in plan.hosts]
    silent = [f"{name} ({seen.trouble})" for name, seen in at if seen.trouble]
    if silent:
        reasons.append(
            f"{counted(len(silent))} cannot be looked at: {named(silent)}; "
            "mend the way to them, or take them out of the fleet"
        )
    known = (plan.change.old, plan.change.new)
    odd = [
        f"{name} ({_versions(seen)})"
        for name, seen in at
        if not seen.trouble and not {seen.installed, seen.running} <= set(known)
    ]
    if odd:
        reasons.append(
            f"change {plan.change.name} goes from {known[0]} to {known[1]}, and something else "
            f"is on {counted(len(odd))}: {named(odd)}; mend the rollout file or those hosts"
        )
    return reasons


def _versions(seen: Seen) -> str:
    installed, running = (
        "a version that cannot be told" if version is None else version
        for version in (seen.installed, seen.running)
    )
    return running if installed == running else f"runs {running}, installed is {installed}"


def _refuse_no_new(plan: Plan, found: Found) -> list[str]:
    lacking = [(host.name, found.at(host.name).no_new) for host in plan.hosts]
    if not any(said for _, said in lacking):
        return []
    return [
        (
            f"{plan.change.new} cannot be brought to {_without(lacking)}; put it where change "
            f"{plan.change.name} fetches from"
        )
    ]


def _refuse_no_way_back(plan: Plan, found: Found) -> list[str]:
    """Where the way back must be there before the first host: nobody will be asked in between,
    or others depend on these hosts."""
    lacking = _no_way_back(plan, found)
    if not lacking or not _needs_a_way_back(plan):
        return []
    why = (
        "the policy goes back by itself (rollback.when: auto)"
        if plan.rollback_when == "auto"
        else "these hosts are cache-critical"
    )
    return [
        (
            f"no way back: {plan.change.old} cannot be brought to {_without(lacking)}; it must be "
            f"there, since {why}: put it back where change {plan.change.name} fetches from"
        )
    ]


def _needs_a_way_back(plan: Plan) -> bool:
    return plan.cache_critical or plan.rollback_when == "auto"


def _no_way_back(plan: Plan, found: Found) -> list[tuple[str, str]]:
    """The hosts that the former version cannot be brought to, with what they said."""
    said = [(host.name, found.at(host.name).no_old) for host in plan.hosts]
    return [(name, words) for name, words in said if words]


def _without(lacking: Sequence[tuple[str, str]]) -> str:
    """How many hosts, which, and what the first of them said: it is the same on most."""
    names = [name for name, said in lacking if said]
    first, said = next((name, said) for name, said in lacking if said)
    return f"{counted(len(names))}: {named(names)} ({first}: {said})"


def _refuse_down(plan: Plan, found: Found, care: Resolved) -> list[str]:
    """Hosts that are down leave no room for a single one that is away."""
    by_domain, limit = down_by_domain(plan.excluded), care.unavailable
    down = [host.name for host in plan.excluded if host.down]
    helps = (
        f"bring them back, take them out of fleet {plan.fleet}, or ask the owners of the policy "
        "for an override of this limit"
    )
    reasons: list[str] = []
    if down and len(down) >= limit.value:
        how = "exceeds" if len(down) > limit.value else "uses up"
        reasons.append(
            f"{len(down)} of {counted(len(found.hosts))} are down, and that alone {how} the limit "
            f"of {limit.value} away or down (unavailable: {limit.written}, {limit.origin}): "
            f"{named(down)}; {helps}"
        )
    per, touched = care.unavailable_per_domain, {host.failure_domain for host in plan.hosts}
    full = [domain for domain in sorted(touched) if by_domain[domain] >= per.value]
    if full:
        there = [h.name for h in plan.excluded if h.down and h.failure_domain in full]
        reasons.append(
            "hosts that are down leave no room for another in failure domains "
            f"{named([domain or 'unknown' for domain in full])}: at most {per.value} away or down "
            f"in each (unavailablePerDomain: {per.written}, {per.origin}): {named(there)}; {helps}"
        )
    return reasons


def _refuse_gates(plan: Plan, request: PlanRequest, found: Found, care: Resolved) -> list[str]:
    there = {gate.name for gate in found.gates}
    listed = ", ".join(sorted(there)) or "none"
    asked = gates_asked(care, request.rollout.gates, plan.rollout)
    missing = [
        f"gate {name}, required by {origin}, is not in the worker's source; gates there: {listed}"
        for name, origin in asked
        if name not in there
    ]
    if asked:
        return missing
    return [
        (
            "no gate decides: name gates in the rollout file (`gates`), or require them in a "
            f"policy that covers the fleet; gates in the worker's source: {listed}"
        )
    ]


def _refuse_stages(plan: Plan, request: PlanRequest, care: Resolved) -> list[str]:
    """An approval that would never be asked for, or hosts that no stage reaches."""
    points = (START, *(str(stage) for stage in request.rollout.stages))
    reasons = [
        f"an approval is asked for at {stated.value} ({stated.origin}), and the rollout has no "
        f"such stage; allowed: {', '.join(points)}; add the stage to the rollout"
        for stated in care.approval_points
        if label(stated.value) not in points
    ]
    reached = plan.waves[-1].end if plan.waves else 0
    if reached < len(plan.hosts):
        reasons.append(
            f"the stages end at {reached} of {counted(len(plan.hosts))}; the last must be 100%"
        )
    return reasons


# ---------------------------------------------------------------- what a person should know


def warnings(plan: Plan, found: Found) -> tuple[str, ...]:
    """What does not stand against starting, and should be known before."""
    return (
        *found.warnings,
        *_warn_way_back(plan, found),
        *_warn_restart(plan, found),
        *_warn_hosts(plan, found),
    )


def _warn_way_back(plan: Plan, found: Found) -> list[str]:
    """That there is none, where that does not refuse; or that nobody can ask whether there is."""
    old, lacking = plan.change.old, _no_way_back(plan, found)
    if lacking and not _needs_a_way_back(plan):
        return [
            (
                f"no way back: {old} cannot be brought to {_without(lacking)}; a rollback would "
                "be blocked there and hold, with those hosts at the new version"
            )
        ]
    change = found.change
    if change is not None and change.obtainable is None and _needs_a_way_back(plan):
        return [
            (
                f"nobody knows whether there is a way back: change {change.name} has no "
                f"`obtainable`, so no host was asked whether {old} can still be brought to it"
            )
        ]
    return []


def _warn_restart(plan: Plan, found: Found) -> list[str]:
    keeps = found.change is not None and found.change.keeps_registered
    if not plan.cache_critical or keeps:
        return []
    said = Counter(found.at(host.name).leaves for host in plan.hosts)
    gone = said["yes"] + said["unknown"]
    if not gone:
        return []
    unsure = f" (of {said['unknown']} that is not certain)" if said["unknown"] else ""
    nodes = "cache node" if gone == 1 else "cache nodes"
    return [
        f"this change will deregister {gone} {nodes} for about {LEAVE_SECONDS:g} s each{unsure}"
    ]


def _warn_hosts(plan: Plan, found: Found) -> list[str]:
    said: list[str] = []
    down = [host.name for host in plan.excluded if host.down]
    if down:
        said.append(
            f"{counted(len(down))} down, left out and counted against the limits: {named(down)}"
        )
    unknown = [host.name for host in plan.hosts if not host.roles]
    if unknown:
        said.append(
            f"{counted(len(unknown))} with no known role, so every policy on roles covers them: "
            f"{named(unknown)}"
        )
    homeless = [host.name for host in plan.hosts if host.failure_domain == UNKNOWN_DOMAIN]
    if homeless:
        said.append(
            f"{counted(len(homeless))} that do not say their failure domain, taken together as one "
            f"({UNKNOWN_DOMAIN}): {named(homeless)}"
        )
    if found.hosts and not plan.policies:
        said.append(f"no policy covers any host of fleet {plan.fleet}; the built-in limits apply")
    return said
