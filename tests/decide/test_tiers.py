"""How a plan's waves are cut by what they add of each cache-critical tier."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_builders import amount, fleets, hosts, plan, policies, policy

from guardrail.decide.tiers import Tier, belongs, cut_by_tiers, tiers_of
from guardrail.model.common import Origin
from guardrail.model.fleet import Host
from guardrail.model.plan import Wave
from guardrail.model.policy import Match

ORIGIN = Origin("policy cache", "cache.yaml", 8)


def in_order(word, roles=None):
    """Hosts in this order: "wccw" is a web host, two caches and a web host."""
    known = {"c": ("memcached",), "w": ("web",), "b": ("memcached", "web"), "?": ()}
    return tuple(Host("list", f"h{i}", "", "a", roles=known[x]) for i, x in enumerate(word))


def tier(most, role="memcached"):
    return Tier(role, 9, most, "", ORIGIN)


def cut(word, *tiers, stages=None):
    """Where waves end: "wccw|cwcw"."""
    waves = stages or (Wave("100%", 0, len(word)),)
    found = cut_by_tiers(waves, in_order(word), tiers)
    return "|".join(word[wave.begin : wave.end] for wave in found)


@pytest.mark.parametrize(
    ("order", "tiers", "waves"),
    [
        ("wccwcwcw", (tier(2),), "wccw|cwcw"),
        ("wwwwcccc", (tier(1),), "wwwwc|c|c|c"),
        ("ccccwwww", (tier(4),), "ccccwwww"),
        ("cwcw", (tier(1), tier(1, "web")), "cw|cw"),
        ("cbwb", (tier(2), tier(2, "web")), "cbw|b"),  # b is of both tiers
        ("c?wc", (tier(1),), "c|?w|c"),  # what nobody knows may be a cache
        ("wwww", (tier(1),), "wwww"),
        ("", (tier(1),), ""),
    ],
)
def test_where_waves_are_cut(order, tiers, waves):
    stages = None if order else ()
    assert cut(order, *tiers, stages=stages) == waves


def test_stages_stay_and_their_waves_keep_the_name():
    stages = (Wave("1", 0, 1), Wave("50%", 1, 4), Wave("100%", 4, 8))
    found = cut_by_tiers(stages, in_order("cccccccc"), (tier(2),))
    ends = [(wave.stage, wave.end) for wave in found]
    assert ends == [("1", 1), ("50%", 3), ("50%", 4), ("100%", 6), ("100%", 8)]


CACHE = Match(roles=("memcached",))


def mixed(caches, webs):
    """Caches come first in plan order, as their names do."""
    return hosts(caches) + hosts(webs, roles=("web",), prefix="web")


def test_a_share_of_the_fleet_is_no_share_of_the_tier():
    """25 % of 120 hosts are all 30 caches: the incident's plan, and what the policy makes of it."""
    careful = policy(match=CACHE, cache_critical=True, limits={"wave": amount("10%")})
    # Without composition only the fleet's own word counts, and it is of 120 hosts.
    fleet_wide = policy("base", limits={"wave": amount("25%")})
    made = plan(mixed(30, 90), "25%", "50%", "100%", policies=(careful, fleet_wide))
    for wave in made.waves:
        caches = [h for h in made.hosts[wave.begin : wave.end] if "memcached" in h.roles]
        assert len(caches) <= 3
    (row,) = [limit for limit in made.limits if limit.name == "wave of memcached"]
    assert (row.written, row.value, row.unit) == ("10%", 3.0, "hosts")


def test_a_wave_limit_over_the_fleet_is_kept_for_each_tier_too():
    critical = policy(match=CACHE, cache_critical=True)
    base = policy("base", limits={"wave": amount("25%")})
    made = plan(mixed(8, 92), "100%", policies=(critical, base))
    assert [(wave.begin, wave.end) for wave in made.waves[:4]] == [(0, 2), (2, 4), (4, 6), (6, 25)]
    assert {limit.name: limit.value for limit in made.limits}["wave of memcached"] == 2


def test_no_tier_no_cut():
    base = policy("base", limits={"wave": amount("25%")})
    made = plan(mixed(8, 92), "100%", policies=(base,))
    assert [wave.end for wave in made.waves] == [25, 50, 75, 100]
    assert not [limit for limit in made.limits if limit.name.startswith("wave of")]


ROUNDED = {
    3: {24: 1, 25: 1, 33: 1, 34: 1, 49: 1, 50: 1, 99: 2, 100: 3},
    4: {24: 1, 25: 1, 33: 1, 34: 1, 49: 1, 50: 2, 99: 3, 100: 4},
    10: {24: 2, 25: 2, 33: 3, 34: 3, 49: 4, 50: 5, 99: 9, 100: 10},
}


@pytest.mark.parametrize("count", ROUNDED)
@pytest.mark.parametrize("written", [24, 25, 33, 34, 49, 50, 99, 100])
def test_shares_of_a_tier_are_rounded_once_and_shown(count, written):
    """ansible#32255, kruise#926: never 0, never all unless 100 %."""
    careful = policy(match=CACHE, cache_critical=True, limits={"wave": amount(f"{written}%")})
    made = plan(mixed(count, 20), "100%", policies=(careful,))
    (row,) = [limit for limit in made.limits if limit.name == "wave of memcached"]
    assert (row.written, row.value) == (f"{written}%", ROUNDED[count][written])
    most = max(
        sum("memcached" in host.roles for host in made.hosts[wave.begin : wave.end])
        for wave in made.waves
    )
    assert most == ROUNDED[count][written]


@given(fleets(), st.lists(policies(), max_size=4), st.sampled_from([("100%",), (1, "50%", "100%")]))
def test_no_wave_adds_more_of_a_tier_than_it_may_and_no_host_is_lost(fleet, said, stages):
    made = plan(fleet, *stages, policies=said)
    ends = [wave.end for wave in made.waves]
    assert [wave.begin for wave in made.waves] == [0, *ends[:-1]][: len(ends)]
    assert all(wave.begin < wave.end for wave in made.waves)
    assert not made.hosts or ends[-1] == len(made.hosts)
    for one in tiers_of(said, "cache", "consul", fleet):
        assert 1 <= one.most <= one.hosts
        for wave in made.waves:
            added = sum(belongs(h, one.role) for h in made.hosts[wave.begin : wave.end])
            assert added <= one.most
