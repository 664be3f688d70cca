"""How much of each cache-critical tier may one wave add, and where is it cut because of that?

A tier is a role that a cache-critical policy is about. A share of the fleet says nothing about it:
10 % of a fleet of 300 hosts can be all 30 of its caches. So no wave adds more than `limits.wave` of
any tier, counted over the tier's own hosts; the order of the plan is kept, and a wave ends where
the share of one tier is used up.

Worked example: c is a cache, w is not, four caches in all, no wave above 50 % of them:

    order    w c c w c w c w     one wave by its stages
    waves    w c c w │ c w c w   the third cache begins another
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from guardrail.decide.claims import critical_roles
from guardrail.decide.merge import matches, where
from guardrail.model.common import Origin
from guardrail.model.fleet import Host
from guardrail.model.plan import Limit, Wave
from guardrail.model.policy import Policy


@dataclass(frozen=True, slots=True)
class Tier:
    """A role, how many hosts of the fleet have it, and how many of them one wave may add."""

    role: str
    hosts: int
    most: int
    written: str
    origin: Origin


def tiers_of(
    policies: Sequence[Policy], fleet: str, agent: str, hosts: Sequence[Host]
) -> tuple[Tier, ...]:
    """The cache-critical tiers for which any policy limits waves; the strictest word on each.

    hosts: all of the fleet. A policy speaks of a tier if it covers any host of it.
    """
    found: list[Tier] = []
    for role in sorted(critical_roles(policies, fleet, agent, hosts)):
        members = [host for host in hosts if belongs(host, role)]
        said = [
            Tier(role, len(members), wave.of(len(members)), str(wave), where(policy, "limits.wave"))
            for policy in policies
            if (wave := policy.limits.wave) is not None
            and any(matches(policy, fleet, agent, host) for host in members)
        ]
        found += sorted(said, key=lambda tier: (tier.most, str(tier.origin), tier.written))[:1]
    return tuple(found)


def cut_by_tiers(
    waves: Sequence[Wave], ordered: Sequence[Host], tiers: Sequence[Tier]
) -> tuple[Wave, ...]:
    """The waves, none with more hosts of a tier than it may add. ordered: the plan's hosts."""
    most = {tier.role: tier.most for tier in tiers}
    cut: list[Wave] = []
    for wave in waves:
        begin, taken = wave.begin, Counter[str]()
        for index in range(wave.begin, wave.end):
            of = [role for role in most if belongs(ordered[index], role)]
            if any(taken[role] >= most[role] for role in of):
                cut.append(Wave(wave.stage, begin, index))
                begin, taken = index, Counter()
            taken.update(of)
        cut.append(Wave(wave.stage, begin, wave.end))
    return tuple(cut)


def belongs(host: Host, role: str) -> bool:
    """Whether a host counts to a tier; one with no known role counts to each of them."""
    return not host.roles or role in host.roles


def rows(tiers: Sequence[Tier]) -> tuple[Limit, ...]:
    """What one wave may add of each tier, for people to read."""
    return tuple(
        Limit(f"wave of {tier.role}", tier.written, float(tier.most), "hosts", tier.origin)
        for tier in tiers
    )
