"""How much of each cache-critical tier may one wave add, and where is it cut because of that?

A tier is a role that a cache-critical policy is about. A share of the fleet says nothing about it:
10 % of a fleet of 300 hosts can be all 30 of its caches. So no wave adds more than `limits.wave` of
any tier, counted over the tier's own hosts; the order of the plan is kept, and a wave ends where
the share of one tier is used up.

Worked example: c is a cache, w is not, four caches in all, no wave above 50 % of them:

    order    w c c w c w c w     one wave by its stages
    waves    w c c w │ c w c w   the third cache begins another
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from guardrail.decide.bits import bit, members, span
from guardrail.decide.claims import critical_roles
from guardrail.decide.merge import matches, where
from guardrail.model.common import Origin
from guardrail.model.fleet import Host
from guardrail.model.plan import Limit, TierWave, Wave
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
    return cut_where_full(waves, members_of(tiers, ordered))


def members_of(tiers: Sequence[Tier], ordered: Sequence[Host]) -> tuple[TierWave, ...]:
    """What one wave may add of each tier, with the tier's hosts by plan index."""
    return tuple(
        TierWave(
            tier.role,
            tier.most,
            f"{sum(bit(i) for i, host in enumerate(ordered) if belongs(host, tier.role)):x}",
            tier.origin,
        )
        for tier in tiers
    )


def cut_where_full(waves: Sequence[Wave], tiers: Sequence[TierWave]) -> tuple[Wave, ...]:
    """The waves, each ended where it has as many hosts of a tier as one wave may add."""
    full = [(int(tier.hosts, 16), tier.most) for tier in tiers]
    cut: list[Wave] = []
    for wave in waves:
        mine = span(wave.begin, wave.end)
        over = [(list(members(hosts & mine)), most) for hosts, most in full]
        begin = wave.begin
        while begin < wave.end:
            end = min(
                (_full_at(places, most, begin, wave.end) for places, most in over), default=wave.end
            )
            cut.append(Wave(wave.stage, begin, end))
            begin = end
    return tuple(cut)


def overfull(waves: Sequence[Wave], tier: TierWave) -> bool:
    """Whether any of these waves has more hosts of the tier than one wave may add."""
    hosts = int(tier.hosts, 16)
    return any((hosts & span(wave.begin, wave.end)).bit_count() > tier.most for wave in waves)


def _full_at(places: Sequence[int], most: int, begin: int, end: int) -> int:
    """The first of these places, counted from `begin`, that is one too many; `end`: none is."""
    number = bisect_left(places, begin) + most
    return places[number] if number < len(places) else end


def belongs(host: Host, role: str) -> bool:
    """Whether a host counts to a tier; one with no known role counts to each of them."""
    return not host.roles or role in host.roles


def rows(tiers: Sequence[Tier]) -> tuple[Limit, ...]:
    """What one wave may add of each tier, for people to read."""
    return tuple(
        Limit(f"wave of {tier.role}", tier.written, float(tier.most), "hosts", tier.origin)
        for tier in tiers
    )
