"""What does a plan allow of catalog departures, and can anybody count them?

Departures are counted where the fleet's inventory is Consul: the catalog is followed there, whether
or not a policy limits churn, since a host that is gone counts against other limits too. A limit on
churn for a fleet that no catalog lists refuses the plan: what nobody counts is not kept.
"""

import math
from collections.abc import Sequence
from itertools import groupby

from guardrail.decide.found import Found
from guardrail.decide.merge import matches
from guardrail.decide.terms import Resolved
from guardrail.model.budget import NO_BUDGET, Budget, ChurnLimit
from guardrail.model.fleet import ConsulInventory, Fleet, Host
from guardrail.model.plan import Limit

HOURS_UP = 720.0
"""Hours after which one host goes down by itself, on average: 30 days. The catalog has no history,
so that is taken where design.md speaks of the fleet's last week; a fleet that is worse than that
holds more often, and a person goes on."""
RARE = 0.001
MOST_FALLS = 10_000


def budget_of(care: Resolved, fleet: Fleet, hosts: Sequence[Host], found: Found) -> Budget:
    """The budget. hosts: those of the plan, in its order."""
    if not isinstance(fleet.inventory, ConsulInventory):
        return NO_BUDGET
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
    )


def critical(host: Host, fleet: str, found: Found) -> bool:
    """Whether a cache-critical policy covers this host."""
    agent = found.change.agent if found.change else ""
    policies = (policy for policy in found.policies if policy.cache_critical)
    return any(matches(policy, fleet, agent, host) for policy in policies)


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
