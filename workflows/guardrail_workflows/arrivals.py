"""Which hosts does the inventory have by now that a plan does not? None is missed in silence.

A fleet that lists its hosts in its own file has what it had: there nothing can arrive.
"""

from guardrail.model.fleet import HostList
from guardrail.model.messages import Arrivals
from guardrail.model.plan import Plan
from guardrail.ports import Inventory

MOST_NAMED = 100


async def arrived(plan: Plan, inventory: Inventory) -> Arrivals:
    """The hosts that came. Raises Refused (a filtered answer is none), Unanswered."""
    if isinstance(plan.where.inventory, HostList):
        return Arrivals()
    known = {host.name for host in plan.hosts} | {host.name for host in plan.excluded}
    now = await inventory.hosts(plan.where)
    names = sorted({host.name for host in now} - known)
    return Arrivals(tuple(names[:MOST_NAMED]), len(names[MOST_NAMED:]))
