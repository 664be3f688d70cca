"""A smaller wave of a tier and a stricter warm-up apply to the rest of an operation that runs."""

from dataclasses import replace

import pytest
from decide.plan_builders import (
    CHANGE,
    amount,
    fleets,
    gate,
    hosts,
    plan,
    policies,
    policy,
    request,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from guardrail.decide.again import merged_again
from guardrail.decide.plan import course_of
from guardrail.decide.tighten import tightened
from guardrail.decide.transition import decide
from guardrail.errors import Refused
from guardrail.model.budget import ColdLimit, WarmRule
from guardrail.model.common import Origin
from guardrail.model.operation import PolicyMerged
from guardrail.model.plan import Caps, TierWave
from guardrail.model.policy import Match, WarmUp
from guardrail.twins import Script, Work, as_planned, drive

from builders import course, waves

LOOSE = Caps(4, 4, 3, 5, None, 0.0)
ORIGIN = Origin("policy cache", "cache.yaml", 8)
CACHE = Match(roles=("memcached",))
PER_HOST = 'hits{instance="{host}"}'


def asking(*ends, **fields):
    return replace(course(*ends, **({"caps": LOOSE} | fields)), merges=True)


def said(plan, **fields):
    return replace(as_planned(plan, 0.0), **fields)


def tier(most, *indexes, role="memcached"):
    return TierWave(role, most, f"{sum(1 << i for i in indexes):x}", ORIGIN)


def warm(within=60.0, gate="cache-warm", hosts=((0, 8),), digest="sha256:w"):
    return WarmRule(gate, within, hosts, ORIGIN, digest)


def ends(course):
    return [wave.end for wave in course.waves]


# ---------------------------------------------------------------- waves of a tier


@pytest.mark.parametrize(
    ("tiers", "first", "cut"),
    [
        ((tier(1, 4, 5, 6, 7),), 1, [4, 5, 6, 7, 8]),
        ((tier(2, 4, 5, 6, 7),), 1, [4, 6, 8]),
        ((tier(9, 4, 5, 6, 7),), 1, [4, 8]),  # looser
        ((tier(1, 0, 1, 2, 3),), 1, [4, 8]),  # only the wave that has begun has more
        ((tier(1, 0, 1, 2, 3),), 0, [1, 2, 3, 4, 8]),
        ((tier(2, 4, 5, 6), tier(1, 5, 7, role="web")), 1, [4, 6, 8]),
        ((), 0, [4, 8]),
    ],
)
def test_where_waves_that_have_not_begun_are_cut(tiers, first, cut):
    old = asking(4, 8)
    made, notes = tightened(old, said(old, tiers=tiers), first)
    assert ends(made) == cut
    assert bool(notes) == (cut != [4, 8])


def test_it_says_which_policy_made_the_waves_smaller():
    old = asking(8)
    _, notes = tightened(old, said(old, tiers=(tier(1, 1, 2),)), 0)
    assert notes == ("waves now have at most 1 host of memcached (policy cache (cache.yaml:8))",)


some_tiers = st.lists(
    st.builds(
        lambda most, indexes, role: tier(most, *indexes, role=role),
        st.integers(1, 4),
        st.sets(st.integers(0, 29)),
        st.sampled_from(["memcached", "web"]),
    ),
    max_size=3,
).map(tuple)
some_waves = st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True).map(sorted)


def in_tier(tier, wave):
    return sum(int(tier.hosts, 16) >> index & 1 for index in range(wave.begin, wave.end))


@given(some_waves, st.integers(0, 4), st.none() | st.integers(1, 9), some_tiers)
def test_no_host_is_lost_or_named_twice_by_cutting_again(points, first, wave, tiers):
    old = replace(asking(points[-1]), waves=waves(*points))
    made, _ = tightened(old, said(old, wave=wave, tiers=tiers), first)
    named = [index for each in made.waves for index in range(each.begin, each.end)]
    assert named == list(range(points[-1]))
    assert made.waves[: min(first, len(old.waves))] == old.waves[:first]


@given(some_waves, st.integers(0, 4), st.lists(some_tiers, min_size=1, max_size=3))
def test_smaller_applies_at_once_and_larger_never(points, first, later):
    old = replace(asking(points[-1]), waves=waves(*points))
    made = old
    for tiers in later:
        before = made
        made, _ = tightened(made, said(old, tiers=tiers), first)
        assert set(ends(before)) <= set(ends(made)), "no wave becomes larger"
    for one in (one for tiers in later for one in tiers):
        assert all(in_tier(one, wave) <= one.most for wave in made.waves[first:])
    for tiers in later:  # what was said before changes nothing more, whatever came after it
        assert tightened(made, said(old, tiers=tiers), first)[0].waves == made.waves


@given(some_waves, some_tiers, st.integers(1, 4))
def test_limits_hold_in_an_operation_whose_waves_are_cut_while_it_runs(points, tiers, most):
    old = replace(asking(points[-1], caps=Caps(most, most, 3, 5)), waves=waves(*points))
    script = Script(policies=((0.0, said(old)), (5.0, said(old, tiers=tiers))))
    run = drive(old, script, until=40_000.0)
    assert run.state.phase == "completed"
    assert sorted(begun.index for begun in run.begun) == list(range(points[-1]))
    assert max(len(m.state.in_flight) for m in run.moments) <= most
    for wave in run.state.course.waves[1:]:
        assert all(in_tier(tier, wave) <= tier.most for tier in tiers)


def test_a_wave_whose_hosts_failed_and_are_tried_again_has_begun():
    plan = asking(2, 4)
    state = drive(plan, Script(), until=5.0).state
    assert state.wave == 0
    both = replace(state, waiting=3, astray=3, in_flight=(), merge_pending=True)
    event = PolicyMerged(6.0, both.merge_turn, said(plan, wave=1))
    assert ends(decide(both, event).state.course)[:2] == [2, 3]


def test_a_wave_one_host_of_which_was_tried_and_skipped_has_begun():
    plan = asking(2, 4)
    state = drive(plan, Script(), until=5.0).state
    skipped = replace(
        state, waiting=0b10, tried=0b1, set_aside=0b1, in_flight=(), merge_pending=True
    )
    told = decide(skipped, PolicyMerged(6.0, skipped.merge_turn, said(plan, wave=1))).state
    assert ends(told.course)[:2] == [2, 3]


def test_what_is_told_in_the_middle_of_a_wave_is_not_news_for_the_next_one():
    state = replace(drive(asking(2, 4), Script(), until=5.0).state, merge_pending=True)
    told = [
        decide(replace(state, step=step), PolicyMerged(6.0, state.merge_turn, said(state.course)))
        for step in ("changing", "baking")
    ]
    assert not told[0].state.policies_fresh, "the next wave asks anew"


def test_a_wave_beside_which_a_host_of_an_earlier_one_is_asked_again_is_cut():
    plan = asking(2, 4)
    state = drive(plan, Script(), until=5.0).state
    later = replace(
        state, wave=1, waiting=0b1110, astray=0b10, tried=0b11, in_flight=(), merge_pending=True
    )
    told = decide(later, PolicyMerged(6.0, later.merge_turn, said(plan, wave=1))).state
    assert ends(told.course) == [2, 3, 4]
    asked = told.waiting | sum(1 << flight.index for flight in told.in_flight)
    assert asked == 0b110, "the earlier host still, and one of the smaller wave"


# ---------------------------------------------------------------- warm-up


def test_each_stricter_warm_up_applies_and_each_looser_one_does_not():
    old = asking(8)
    made, notes = tightened(old, said(old, warm=(warm(60.0),)), 0, turn=3)
    assert notes == (
        "hosts must now be warm by gate cache-warm within 60 s (policy cache (cache.yaml:8))",
    )
    assert made.host_timeout == old.host_timeout + 60
    assert [r.within for r in made.budget.warm_rules(0, 4)] == [60.0]
    assert not made.budget.warm_rules(0, 3), "who was asked before shows what was asked then"
    looser = said(old, warm=(warm(90.0), warm(60.0, hosts=((2, 4),))))
    assert tightened(made, looser, 0, turn=5) == (made, ())
    quick, _ = tightened(made, said(old, warm=(warm(30.0),)), 0, turn=5)
    assert [r.within for r in quick.budget.warm_rules(0, 6)] == [30.0]
    assert [r.within for r in quick.budget.warm_rules(0, 5)] == [60.0]
    more, _ = tightened(quick, said(old, warm=(warm(90.0, gate="users"),)), 0, turn=5)
    assert [r.gate for r in more.budget.warm_rules(0, 6)] == ["cache-warm", "users"]
    assert more.host_timeout == old.host_timeout + 90


def test_a_gate_that_was_changed_since_the_plan_stays_the_one_of_the_plan():
    old = asking(8)
    made, _ = tightened(old, said(old, warm=(warm(60.0),)), 0)
    other = said(old, warm=(warm(30.0, digest="sha256:other"),))
    made, _ = tightened(made, other, 0)
    assert {rule.digest for rule in made.budget.warm_rules(0, 1)} == {"sha256:w"}


some_warm = st.lists(
    st.builds(
        lambda within, gate, begin, length: warm(within, gate, ((begin, begin + length),)),
        st.sampled_from([30.0, 60.0, 90.0]),
        st.sampled_from(["v", "w"]),
        st.integers(0, 5),
        st.integers(1, 5),
    ),
    max_size=3,
).map(tuple)


@given(st.lists(some_warm, min_size=1, max_size=4))
def test_whatever_policies_say_a_host_shows_the_strictest_word_on_each_gate(later):
    made = old = asking(10)
    for turn, rules in enumerate(later):
        before = made
        made, notes = tightened(made, said(old, warm=rules), 0, turn=turn)
        assert bool(notes) == (made != before)
    for index in range(10):
        words = [rule for rules in later for rule in rules if rule.binds(index, 99)]
        strictest = {gate: min(r.within for r in words if r.gate == gate) for gate in
                     {rule.gate for rule in words}}  # fmt: skip
        shown = made.budget.warm_rules(index, 99)
        assert {rule.gate: rule.within for rule in shown} == strictest
        assert len(shown) == len(strictest), "no gate is asked for twice"
    assert made.host_timeout == old.host_timeout + made.budget.warm_within


def test_a_host_that_is_back_counts_as_cold_until_it_has_shown_what_is_asked_since():
    cold = ColdLimit(2, ((0, 6),), ORIGIN)
    old = asking(2, 6, bake=30.0)
    old = replace(old, budget=replace(old.budget, cold=(cold,)))
    script = Script(
        work=lambda *_: Work(takes=10.0),
        policies=((0.0, said(old)), (5.0, said(old, warm=(warm(60.0),)))),
    )
    run = drive(old, script, until=4000.0)
    assert run.state.phase == "completed"
    unwarmed = drive(old, replace(script, policies=()), until=4000.0)
    assert run.state.finished_at < unwarmed.state.finished_at, "no bake in the middle of a wave"


# ---------------------------------------------------------------- from the documents


def again(made, *said, gates=()):
    found = tuple(replace(gate(name), query=PER_HOST) for name in ("margin", *gates))
    return merged_again(
        made, request(1, "50%", "100%").rollout, said, found, change=CHANGE, now=5.0
    )


def careful(wave, within=None):
    up = WarmUp("cache-warm", within) if within else None
    return policy(match=CACHE, cache_critical=True, limits={"wave": amount(wave)}, warm_up=up)


def test_the_policy_that_is_edited_while_it_runs_cuts_the_tier_as_a_new_plan_would():
    fleet = hosts(30) + hosts(90, roles=("web",), prefix="web")
    critical = policy(match=CACHE, cache_critical=True)
    base, smaller, larger = (
        policy("base", limits={"wave": amount(share)}) for share in ("40%", "20%", "90%")
    )
    made = plan(fleet, "100%", policies=(critical, base))
    planned = course_of(made, "sha256:p")
    later, notes = tightened(planned, again(made, critical, smaller), 0)
    anew = plan(fleet, "100%", policies=(critical, smaller))
    assert ends(planned) == [12, 24, 48, 96, 120]
    assert (ends(anew)[:4], ends(later)[:4]) == ([6, 12, 18, 24], [6, 12, 18, 24])
    assert any("at most 6 hosts of memcached (policy base" in note for note in notes)
    assert tightened(planned, again(made, critical, larger), 0)[0].waves == planned.waves


def test_a_warm_up_that_is_asked_for_while_it_runs_binds_the_tier():
    fleet = hosts(4) + hosts(4, roles=("web",), prefix="web")
    made = plan(fleet, "100%", policies=(careful("50%"),))
    planned = course_of(made, "sha256:p")
    found = again(made, careful("50%", 60.0), gates=("cache-warm",))
    later, _ = tightened(planned, found, 0)
    assert [bool(later.budget.warm_rules(i, 1)) for i in range(8)] == [True] * 4 + [False] * 4


@pytest.mark.parametrize(("gates", "says"), [((), "not in the worker's source"), (("x",), "x")])
def test_a_warm_up_by_a_gate_that_is_not_there_is_a_refusal(gates, says):
    made = plan(hosts(4), policies=[careful("50%")])
    with pytest.raises(Refused, match=says):
        again(made, careful("50%", 60.0), gates=gates)


@settings(max_examples=30)
@given(fleets(least=2), st.lists(policies(), max_size=3), st.lists(policies(), max_size=3))
def test_policies_from_documents_never_make_a_wave_larger_or_a_warm_up_looser(fleet, before, after):
    calm = [
        replace(p, required_gates=(), limits=replace(p.limits, churn=None), windows=None)
        for p in (*before, *after)
    ]
    made = plan(fleet, 1, "50%", "100%", policies=calm[: len(before)], gates=("margin", "v", "w"))
    if not made.hosts:
        return
    planned = course_of(made, "sha256:p")
    found = again(made, *calm[len(before) :], gates=("v", "w"))
    later, _ = tightened(planned, found, 0)
    assert set(ends(planned)) <= set(ends(later))
    for one in found.tiers:
        assert all(in_tier(one, wave) <= one.most for wave in later.waves)
    for index in range(len(made.hosts)):
        old, new = ({r.gate: r.within for r in c.budget.warm_rules(index, 1)}
                    for c in (planned, later))  # fmt: skip
        assert all(new[name] <= within for name, within in old.items())
    same, _ = tightened(planned, again(made, *calm[: len(before)], gates=("v", "w")), 0)
    assert same == planned
