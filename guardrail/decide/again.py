"""What do the policies say now about the hosts of a plan that was made earlier?

The hosts are those that the plan has: what changed is the policies. So everything here is merged as
it was when the plan was made (decide/plan.py), and decide/tighten.py compares.
"""

from collections.abc import Sequence

from guardrail.decide.budget import cold_limits, refuse_unread, warm_rules
from guardrail.decide.calendar import expand
from guardrail.decide.found import Found, gates_asked
from guardrail.decide.merge import each_said, resolve, together
from guardrail.decide.plan import approvals_of, caps_of, gate_rules, limits_of
from guardrail.decide.tiers import members_of, tiers_of
from guardrail.errors import Refused
from guardrail.model.budget import ChurnLimit
from guardrail.model.change import Change
from guardrail.model.fleet import ConsulInventory, Host
from guardrail.model.gate import Gate
from guardrail.model.plan import Merged, Plan
from guardrail.model.policy import Policy
from guardrail.model.rollout import Rollout


def merged_again(
    plan: Plan,
    rollout: Rollout,
    policies: tuple[Policy, ...],
    gates: tuple[Gate, ...],
    *,
    change: Change,
    now: float,
) -> Merged:
    """What these policies say about the plan's hosts. change: the plan's.

    Raises Refused when a gate that they require is not there or does not name the host that it
    shall show warm, or churn that they limit is not counted: nothing could judge it.
    """
    hosts = hosts_of(plan)
    said = each_said(policies, plan.fleet, change.agent, hosts)
    care = resolve(together(words for _, words in said))
    missing(gates_asked(care, rollout.gates, rollout.name), gates)
    if care.churn and not plan.budget.follow:
        raise Refused(f"churn is limited ({care.churn[0].origin}), and nobody counts it here")
    if care.leader_last and not isinstance(plan.where.inventory, ConsulInventory):
        raise Refused("the leader must come last, and nobody can say who leads: no Consul is known")
    found = Found(hosts, {}, change, policies=policies, gates=gates)
    mine = hosts[: len(plan.hosts)]
    if unread := refuse_unread(plan.where, mine, found):
        raise Refused("; ".join(unread))
    points = approvals_of(care, rollout, plan.waves, len(plan.hosts))
    return Merged(
        at=now,
        caps=caps_of(care),
        bake_for=care.bake.value,
        rollback_when=care.rollback_when.value,
        wave=care.wave.value if care.wave else None,
        gates=gate_rules(care, found, rollout.gates, rollout.name),
        approvals=tuple((plan.waves[point.wave].begin, point) for point in points),
        churn=tuple(ChurnLimit(s.value.departures, s.value.per, s.origin) for s in care.churn),
        cold=cold_limits(plan.fleet, mine, found),
        warm=warm_rules(plan.fleet, mine, found),
        tiers=members_of(tiers_of(policies, plan.fleet, change.agent, hosts), mine),
        limits=limits_of(care, said),
        policies=care.policies,
        calendar=expand((stated.value for stated in care.windows), now),
        leader_last=care.leader_last,
    )


def missing(asked: Sequence[tuple[str, object]], gates: Sequence[Gate]) -> None:
    """Raises Refused, with all of them, when gates that are asked for are not there."""
    there = {gate.name for gate in gates}
    lacking = [f"{name}, required by {origin}" for name, origin in asked if name not in there]
    if lacking:
        raise Refused(f"gates are not in the worker's source: {'; '.join(lacking)}")


def hosts_of(plan: Plan) -> tuple[Host, ...]:
    """The fleet as the plan has it: the hosts to change, and those that were left out."""
    planned = (
        Host(h.inventory, h.name, h.address, h.failure_domain, h.roles, h.labels)
        for h in plan.hosts
    )
    out = (
        Host("", h.name, "", h.failure_domain, h.roles, h.labels, down=h.down)
        for h in plan.excluded
    )
    return (*planned, *out)
