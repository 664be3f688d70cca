"""What does a plan allow of catalog departures and cold hosts, and can anybody count them?

Departures are counted where the fleet's inventory is Consul: the catalog is followed there, whether
or not a policy limits churn, since a host that is gone counts against other limits too. A limit on
churn for a fleet that no catalog lists refuses the plan: what nobody counts is not kept.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from guardrail.decide.found import Found
from guardrail.decide.merge import matches, where
from guardrail.decide.terms import Resolved
from guardrail.model.budget import NO_BUDGET, Budget, ChurnLimit, ColdLimit, Stretches, WarmRule
from guardrail.model.fleet import ConsulInventory, Fleet, Host
from guardrail.model.plan import Limit, Plan
from guardrail.model.policy import Policy

HOURS_UP = 720.0
"""Hours after which one host goes down by itself, on average: 30 days. The catalog has no history,
so that is taken where design.md speaks of the fleet's last week; a fleet that is worse than that
holds more often, and a person goes on."""
RARE = 0.001
PLACE = "{host}"
MOST_FALLS = 10_000


def budget_of(care: Resolved, fleet: Fleet, hosts: Sequence[Host], found: Found) -> Budget:
    """The budget. hosts: those of the plan, in its order."""
    cold, warm = cold_limits(fleet.name, hosts, found), warm_rules(fleet.name, hosts, found)
    if not isinstance(fleet.inventory, ConsulInventory):
        return replace(NO_BUDGET, cold=cold, warm=warm)
    ring = found.ring.size if found.ring else None
    return Budget(
        follow=True,
        grace=care.grace.value,
        good_for=care.recover_for.value,
        churn=tuple(
            ChurnLimit(one.value.departures, one.value.per, one.origin) for one in care.churn
        ),
        leaving=stretches([leaves(host, found) for host in hosts]),
        critical=stretches([critical(host, fleet.name, found) for host in hosts]),
        falls=more_than_chance(len(hosts) / HOURS_UP),
        cold=cold,
        warm=warm,
        ring=ring,
    )


def covers(policy: Policy, fleet: str, found: Found) -> Callable[[Host], bool]:
    """Whether a policy covers a host of this plan."""
    agent = found.change.agent if found.change else ""
    return lambda host: matches(policy, fleet, agent, host)


def cold_limits(fleet: str, hosts: Sequence[Host], found: Found) -> tuple[ColdLimit, ...]:
    """How many hosts of each policy's own may be cold: a share is of all that it covers, and in a
    ring of no more than its slots, since spares are no capacity."""
    limits: list[ColdLimit] = []
    slots = len(found.ring.slots) if found.ring else len(found.hosts)
    for policy in found.policies:
        amount, mine = policy.limits.cold_capacity, covers(policy, fleet, found)
        tier = sum(map(mine, found.hosts))
        if amount is not None and tier:
            most = amount.of(min(tier, slots) if amount.percent else len(found.hosts))
            span = stretches([mine(host) for host in hosts])
            limits.append(ColdLimit(most, span, where(policy, "limits.coldCapacity")))
    return tuple(limits)


def warm_rules(fleet: str, hosts: Sequence[Host], found: Found) -> tuple[WarmRule, ...]:
    """What hosts must show once they are back, by policy."""
    digests = {gate.name: gate.digest for gate in found.gates}
    return tuple(
        WarmRule(
            policy.warm_up.gate,
            policy.warm_up.within,
            stretches([mine(host) for host in hosts]),
            where(policy, "warmUp"),
            digests.get(policy.warm_up.gate, ""),
        )
        for policy in found.policies
        if policy.warm_up is not None
        and any(map(mine := covers(policy, fleet, found), found.hosts))
    )


def critical(host: Host, fleet: str, found: Found) -> bool:
    """Whether a cache-critical policy covers this host."""
    policies = (policy for policy in found.policies if policy.cache_critical)
    return any(covers(policy, fleet, found)(host) for policy in policies)


def more_than_chance(expected: float, rare: float = RARE) -> int:
    """The smallest count that a Poisson process of this rate reaches with less than this chance.

    0.04 an hour (30 hosts): 2; 4.2 an hour (3,000 hosts): 13.
    """
    chance, reached, count = math.exp(-expected), 1.0, 0
    while reached >= rare and count < MOST_FALLS:
        reached -= chance
        count += 1
        chance *= expected / count
    return count


def leaves(host: Host, found: Found) -> bool:
    """Whether this change takes the host's node out of the catalog, or may."""
    keeps = found.change is not None and found.change.keeps_registered
    return not keeps and found.at(host.name).leaves in ("yes", "unknown")


def stretches(which: Sequence[bool]) -> tuple[tuple[int, int], ...]:
    """The stretches (begin, end) of true ones: True, True, False, True is (0, 2), (3, 4)."""
    found: list[tuple[int, int]] = []
    for yes, group in groupby(enumerate(which), key=lambda item: item[1]):
        places = [index for index, _ in group]
        if yes:
            found.append((places[0], places[-1] + 1))
    return tuple(found)


def churn_rows(care: Resolved) -> tuple[Limit, ...]:
    """Every limit on churn, for people to read."""
    return tuple(
        Limit("churn", one.written, float(one.value.departures), "nodes", one.origin)
        for one in care.churn
    )


def in_slots(plan: Plan) -> tuple[Limit, ...]:
    """The plan's limits, those on what may be cold in slots where there is a ring."""
    ring, cold = plan.budget.ring, [limit.most for limit in plan.budget.cold]
    if ring is None or not cold:
        return plan.limits
    most = float(min(cold))
    return tuple(
        replace(limit, value=most, unit="nodes") if limit.name == "coldCapacity" else limit
        for limit in plan.limits
    )


def refuse_unread(fleet: Fleet, hosts: Sequence[Host], found: Found) -> list[str]:
    """Warm-up gates that are not there, or do not ask about one host."""
    known = {gate.name: gate for gate in found.gates}
    listed = ", ".join(sorted(known)) or "none"
    reasons = []
    for rule in warm_rules(fleet.name, hosts, found):
        if rule.gate not in known:
            reasons.append(
                f"gate {rule.gate}, which hosts must pass once they are back ({rule.origin}), is "
                f"not in the worker's source; gates there: {listed}"
            )
        elif PLACE not in known[rule.gate].query:
            reasons.append(
                f"gate {rule.gate} says when a host is warm ({rule.origin}), and its query does "
                f"not name the host: write {PLACE} where its name belongs"
            )
    return reasons


def refuse_uncounted(fleet: Fleet, care: Resolved) -> list[str]:
    """Limits on churn where no catalog shows who leaves."""
    if isinstance(fleet.inventory, ConsulInventory):
        return []
    return [
        f"churn is limited to {one.written} ({one.origin}), and nobody can count it: fleet "
        f"{fleet.name} is not found in Consul; find its hosts there (`inventory: {{consul: …}}`), "
        "or ask the owners of the policy to leave these hosts out"
        for one in care.churn
    ]


def slow_turns(
    budget: Budget, begin: int, end: int, per_host: float, bake: float
) -> tuple[tuple[int, float], ...]:
    """In how many turns, and how many seconds apart, hosts `begin` to `end` go because of what may
    leave the catalog or be cold. A budget of departures that is used up is a hold, and a bake."""
    found: list[tuple[int, float]] = []
    for churn in budget.churn:
        leaving = _overlap(budget.leaving, begin, end)
        found.append((math.ceil(leaving / churn.departures), churn.per + bake))
    for cold in budget.cold:
        mine = _overlap(cold.hosts, begin, end)
        found.append((math.ceil(mine / cold.most), per_host if budget.warm else per_host + bake))
    return tuple((turns, step) for turns, step in found if turns)


def _overlap(spans: Stretches, begin: int, end: int) -> int:
    """How many hosts of these stretches are between the two."""
    return sum(max(0, min(last, end) - max(first, begin)) for first, last in spans)


def refuse_names(plan: Plan) -> list[str]:
    """A gate whose holds would be taken for the catalog's own."""
    taken = plan.budget.follow and any(rule.name == "catalog" for rule in plan.gates)
    return ["a gate named `catalog` cannot be told from the catalog itself: rename it"] * taken
