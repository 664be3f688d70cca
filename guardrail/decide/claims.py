"""Which leases must an operation have for each of its waves?

One for each role that hosts of the wave have; hosts that nobody knows a role of share one named
after their fleet. A role is exclusive where a cache-critical policy covers hosts of it. Of any
other role a wave asks for as much as its own limits let it use, and brings the limit that all
operations together have to keep: hosts that are down count in it as they do in the plan.

    12 web hosts in 3 domains, unavailable 4, one a domain, all domains, 1 host down:
        asks for 4 hosts, 1 a domain, 3 domains; beside others 3 hosts, 1 a domain, 3 domains
"""

from collections import Counter
from collections.abc import Sequence

from guardrail.decide.merge import matches
from guardrail.model.fleet import Host
from guardrail.model.lease import Claim, Share
from guardrail.model.plan import Caps, Wave
from guardrail.model.policy import Policy


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


def claims_of(
    ordered: Sequence[Host],
    waves: Sequence[Wave],
    caps: Caps,
    down: Counter[str],
    *,
    fleet: str,
    critical: frozenset[str],
) -> tuple[tuple[Claim, ...], ...]:
    """What each wave needs. ordered: hosts in plan order. down: hosts down, by failure domain."""
    limit = limit_beside_others(caps, down)
    return tuple(
        tuple(
            Claim(role, role in critical, _usable(caps, hosts), limit)
            for role, hosts in sorted(_by_role(ordered[wave.begin : wave.end], fleet).items())
        )
        for wave in waves
    )


def limit_beside_others(caps: Caps, down: Counter[str]) -> Share:
    """The plan's limits without the places that hosts which are down have taken.

    A domain that is used up by hosts that are down is closed anyway; of the others the one with
    the most of them counts.
    """
    most = max((n for n in down.values() if n < caps.unavailable_per_domain), default=0)
    return Share(
        caps.unavailable - sum(down.values()),
        caps.unavailable_per_domain - most,
        caps.domains_at_once,
    )


def _by_role(hosts: Sequence[Host], fleet: str) -> dict[str, list[Host]]:
    found: dict[str, list[Host]] = {}
    for host in hosts:
        for role in roles_of(host, fleet):
            found.setdefault(role, []).append(host)
    return found


def _usable(caps: Caps, hosts: Sequence[Host]) -> Share:
    """As much as these hosts can use of the limits."""
    domains = Counter(host.failure_domain for host in hosts)
    most = Share(len(hosts), max(domains.values()), len(domains))
    return most.least(Share(caps.unavailable, caps.unavailable_per_domain, caps.domains_at_once))
