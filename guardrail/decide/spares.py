"""Does the tier's ring have spares enough for what is planned?

A node that leaves the catalog loses its slot to a spare. Without one the slot has nobody, and its
keys are asked of the database until the node is back. So there must be at least as many spares as
nodes that this plan may have out of the catalog at once, and as many as policies ask for:

    limits.spares: 2     at least two spares of the ring before the first host
"""

from guardrail.decide.found import Found, counted
from guardrail.decide.terms import BUILT_IN, Resolved, Stated
from guardrail.model.fleet import ConsulInventory, Fleet
from guardrail.model.plan import Limit, Plan

UNCOUNTED = "name the ring's key there (`inventory: {consul: {ring: KEY}}`)"


def needed(plan: Plan, care: Resolved, away: int) -> Stated[int]:
    """How many spares there must be. away: hosts that the plan may have away at once."""
    leaving = sum(end - begin for begin, end in plan.budget.leaving)
    least = min(away, leaving)
    if care.spares is not None and care.spares.value >= least:
        return care.spares
    return Stated(least, "as many as may leave the catalog at once", BUILT_IN)


def rows(plan: Plan, care: Resolved, away: int) -> tuple[Limit, ...]:
    """How many spares are asked for, for people to read; none where there is no ring."""
    if plan.budget.ring is None:
        return ()
    asked = needed(plan, care, away)
    return (Limit("spares", asked.written, float(asked.value), "nodes", asked.origin),)


def refusals(plan: Plan, fleet: Fleet, care: Resolved, away: int) -> list[str]:
    """Too few spares, or nobody to count them."""
    ring = plan.budget.ring
    if ring is None:
        if care.spares is None:
            return []
        where = isinstance(fleet.inventory, ConsulInventory)
        helps = UNCOUNTED if where else "find its hosts in Consul, and " + UNCOUNTED
        return [
            (
                f"{care.spares.value} spares are asked for ({care.spares.origin}), and nobody can "
                f"count them: fleet {fleet.name} names no ring; {helps}"
            )
        ]
    asked = needed(plan, care, away)
    if ring.spares >= asked.value:
        return []
    return [
        (
            f"the ring of fleet {fleet.name} has {ring.slots} slots and {ring.spares} spares, and "
            f"at least {asked.value} must be there before the first host ({asked.written}, "
            f"{asked.origin}): bring spares back, or have fewer hosts away at once (unavailable)"
        )
    ]


def warnings(plan: Plan, found: Found) -> list[str]:
    """What the ring is like, and slots that have nobody already."""
    ring = plan.budget.ring
    if ring is None or found.ring is None:
        return []
    said = []
    if ring.empty:
        said.append(
            f"{ring.empty} of {ring.slots} slots of the ring have no node; they count as cold"
        )
    names = {host.name for host in found.hosts}
    if others := [node for node in found.ring.serving if node not in names]:
        said.append(
            f"the ring has {counted(len(others))} that fleet {plan.fleet} does not: they count as "
            "cold once they have taken a slot, until every warm-up gate or a bake shows otherwise"
        )
    return said
