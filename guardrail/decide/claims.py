"""Which leases must an operation have, and how much of each?

One for each role that hosts of the wave have; hosts that nobody knows a role of share one named
after their fleet. A role is exclusive where a cache-critical policy covers hosts of it. Of any
other role a wave asks for as much as its own limits let it use, and brings the limit that all
operations together have to keep: hosts that are down count in it as they do in the plan.

    a wave of 12 web hosts in 3 domains, unavailable 4, one a domain, all domains; 1 host is down:
        asks for 3 hosts, 1 a domain, 3 domains; beside others the same is the limit of all
"""

from collections import Counter
from collections.abc import Sequence

from guardrail.decide.bits import members
from guardrail.decide.merge import matches
from guardrail.decide.overrides import caps_now
from guardrail.model.fleet import Host
from guardrail.model.lease import Claim, Need, Share
from guardrail.model.operation import State
from guardrail.model.policy import Policy

# ---------------------------------------------------------------- for a plan


def roles_of(host: Host, fleet: str) -> tuple[str, ...]:
    """The names that leases on a host go by."""
    return tuple(sorted(host.roles)) or (f"fleet:{fleet}",)


def critical_roles(
    policies: Sequence[Policy], fleet: str, agent: str, hosts: Sequence[Host]
) -> frozenset[str]:
    """The roles that cache-critical policies are about. `hosts`: all of the fleet."""
    found: set[str] = set()
    for policy in policies:
        if not policy.cache_critical:
            continue
        for host in hosts:
            if matches(policy, fleet, agent, host):
                about = set(policy.match.roles) & set(host.roles)
                found |= about or set(roles_of(host, fleet))
    return frozenset(found)


def needs_of(ordered: Sequence[Host], fleet: str, critical: frozenset[str]) -> tuple[Need, ...]:
    """The roles of a plan's hosts, in plan order, by name."""
    found: dict[str, int] = {}
    for index, host in enumerate(ordered):
        for role in roles_of(host, fleet):
            found[role] = found.get(role, 0) | 1 << index
    return tuple(Need(role, role in critical, f"{found[role]:x}") for role in sorted(found))


# ---------------------------------------------------------------- for a wave


def claims_of(state: State, hosts: int) -> tuple[Claim, ...]:
    """What must be had to have these hosts (a set over plan indexes) away, as limits are now."""
    limit, most = limit_beside_others(state), own_limit(state)
    claims = []
    for need in state.course.leases:
        mine = int(need.hosts, 16) & hosts
        if mine:
            ask = _usable(state, mine).least(most)
            claims.append(Claim(need.role, need.exclusive, ask, limit))
    return tuple(claims)


def own_limit(state: State) -> Share:
    """What the operation's own limits leave it beside hosts that are down; at least one host."""
    caps, down = caps_now(state), sum(state.course.down)
    hosts = max(1, caps.unavailable - down)
    return Share(hosts, caps.unavailable_per_domain, caps.domains_at_once)


def limit_beside_others(state: State) -> Share:
    """The limits that all operations keep together, without what hosts that are down have taken.

    A domain that is used up by hosts that are down is closed anyway; of the others the one with
    the most of them counts.
    """
    caps, down = caps_now(state), state.course.down
    most = max((n for n in down if n < caps.unavailable_per_domain), default=0)
    return Share(
        caps.unavailable - sum(down), caps.unavailable_per_domain - most, caps.domains_at_once
    )


def _usable(state: State, hosts: int) -> Share:
    """As much as these hosts could use if there were no limits."""
    domains = Counter(state.course.domains[index] for index in members(hosts))
    return Share(hosts.bit_count(), max(domains.values()), len(domains))
