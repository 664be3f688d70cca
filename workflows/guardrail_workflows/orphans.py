"""What may still be behind a lease whose holder does not renew it any more?

An operation that has ended begins nothing more, and after its change's time limit none of its steps
run. If then every host of the lease's roles serves one of its two versions, nothing is away, and
nobody has to break the lease. Anything else, and whatever cannot be read, leaves it where it is.
"""

import time
from collections.abc import Sequence

from guardrail.model.change import Change
from guardrail.model.fleet import Host
from guardrail.model.lease import Lease
from guardrail.model.plan import Plan
from guardrail.planning import AT_ONCE, each
from guardrail.ports import BadCredentials, Probing, Unreachable


def steps_may_run(lease: Lease, plan: Plan) -> str:
    """Why steps of its operation may still run on hosts; empty: they are over."""
    left = lease.expires_at + plan.host_timeout - time.time()
    return f"steps may run on its hosts for {left:.0f} s more" if left > 0 else ""


def hosts_of(lease: Lease, plan: Plan) -> int:
    """The hosts (a set over plan indexes) that the lease was about."""
    mine = 0
    for need in plan.leases:
        if need.role in lease.roles:
            mine |= int(need.hosts, 16)
    return mine


async def not_serving(hosts: Sequence[Host], plan: Plan, change: Change, probing: Probing) -> str:
    """Which host does not serve the plan's old or new version, and why; empty: all serve."""
    versions = (plan.change.old, plan.change.new)

    async def look(host: Host) -> str:
        try:
            installed = await probing.installed(host, change)
            running = installed
            if change.running != change.installed:
                running = await probing.running(host, change)
        except (Unreachable, BadCredentials) as error:
            return f"{host.name} was not read: {error}"
        if installed == running and running in versions:
            return ""
        return f"{host.name} runs {running or 'nothing'}, with {installed or '?'} installed"

    answers = await each(look, hosts, at_once=AT_ONCE, progress=lambda _done, _all: None)
    return next((answer for answer in answers if answer), "")
