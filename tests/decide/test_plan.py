"""What exactly will be done, in which order, and why may it not start?"""

from dataclasses import replace

import pytest
from decide.plan_builders import (
    CHANGE,
    NEW,
    OLD,
    amount,
    fleets,
    found,
    gate,
    hosts,
    percent,
    plan,
    policies,
    policy,
    request,
)
from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide.found import Seen, Watching, named
from guardrail.decide.plan import course_of, first_within, make_plan
from guardrail.decide.transition import decide
from guardrail.model.gate import Age
from guardrail.model.operation import Started, State
from guardrail.model.plan import Wave
from guardrail.model.policy import Approvals, Match, PolicyEvidence
from guardrail.model.rollout import Order
from guardrail.twins import Script, drive

ROOMY = policy(
    "roomy",
    limits={"unavailable": amount(3), "unavailable_per_domain": amount(3), "domains_at_once": 3},
)


def names(made):
    return [host.name for host in made.hosts]


def ends(made):
    return [(wave.stage, wave.begin, wave.end) for wave in made.waves]


# ---------------------------------------------------------------- order


def test_one_failure_domain_is_finished_before_the_next():
    made = plan(hosts(6, domains="ba"))
    assert [h.failure_domain for h in made.hosts] == ["a"] * 3 + ["b"] * 3
    assert names(made)[:3] == ["cache-002", "cache-004", "cache-006"]


def test_by_name_failure_domains_do_not_matter():
    made = plan(hosts(4, domains="ba"), order=Order("name"))
    assert names(made) == ["cache-001", "cache-002", "cache-003", "cache-004"]


def test_the_first_host_of_each_combination_of_facts_comes_before_all_others():
    fleet = (*hosts(3), *hosts(3, roles=("web",), prefix="web"))
    old_os = replace(fleet[2], labels=(("os", "debian11"),))
    fleet = (*fleet[:2], old_os, *fleet[3:])
    made = plan(fleet, order=Order("name", ("role", "os")))
    assert names(made)[:3] == ["cache-001", "cache-003", "web-001"]
    assert names(made)[3:] == ["cache-002", "web-002", "web-003"]


def test_a_canary_of_each_version_that_runs():
    fleet = hosts(4)
    seen = {"cache-003": Seen(NEW, OLD), "cache-004": Seen(OLD, NEW)}
    made = plan(fleet, order=Order("name", ("version",)), seen=seen)
    assert names(made) == ["cache-001", "cache-004", "cache-002", "cache-003"]


def test_the_guards_own_servers_come_last_one_at_a_time_and_are_no_canaries():
    made = plan(
        hosts(5),
        "50%",
        "100%",
        order=Order("name", ("role",)),
        guards=frozenset({"cache-001", "cache-002", "not-here"}),
    )
    assert names(made) == ["cache-003", "cache-004", "cache-005", "cache-001", "cache-002"]
    assert ends(made) == [("50%", 0, 2), ("100%", 2, 3), ("100%", 3, 4), ("100%", 4, 5)]


# ---------------------------------------------------------------- who is left out


def test_hosts_at_the_new_version_are_left_out_and_count_against_nothing():
    made = plan(hosts(4), seen={"cache-002": Seen(NEW, NEW)})
    assert names(made) == ["cache-001", "cache-003", "cache-004"]
    assert [(e.name, e.reason, e.down) for e in made.excluded] == [
        ("cache-002", "already at 1.8.8", False)
    ]
    assert not made.refusals
    assert sum(course_of(made, "d").down) == 0


def test_a_host_that_has_the_new_version_installed_and_runs_the_old_one_is_changed():
    made = plan(hosts(2), seen={"cache-001": Seen(NEW, OLD), "cache-002": Seen(OLD, NEW)})
    assert names(made) == ["cache-001", "cache-002"]
    assert not made.refusals


def test_hosts_that_are_down_are_left_out_and_counted_by_domain():
    made = plan(hosts(9, domains="abc", down=2), policies=[ROOMY])
    assert [(e.name, e.reason) for e in made.excluded] == [
        ("cache-001", "down: serfHealth critical"),
        ("cache-002", "down: serfHealth critical"),
    ]
    assert course_of(made, "d").down == (1, 1, 0)
    assert not made.refusals
    assert "2 hosts down, left out" in made.warnings[0]


# ---------------------------------------------------------------- waves


@pytest.mark.parametrize(
    ("count", "stages", "most", "waves"),
    [
        (30, (1, "25%", "100%"), None, [("1", 0, 1), ("25%", 1, 7), ("100%", 7, 30)]),
        (10, (1, 5, "100%"), None, [("1", 0, 1), ("5", 1, 5), ("100%", 5, 10)]),
        (3, (1, "25%", "50%", "100%"), None, [("1", 0, 1), ("100%", 1, 3)]),
        (1, ("25%", "100%"), None, [("25%", 0, 1)]),
        (10, ("100%",), 4, [("100%", 0, 4), ("100%", 4, 8), ("100%", 8, 10)]),
        (10, ("50%", "100%"), 3, [("50%", 0, 3), ("50%", 3, 5), ("100%", 5, 8), ("100%", 8, 10)]),
        (2, (5, "100%"), None, [("5", 0, 2)]),
    ],
)
def test_stages_become_waves_of_at_most_so_many_hosts_and_none_is_empty(count, stages, most, waves):
    p = policy("waves", limits={"wave": amount(most)} if most else {})
    assert ends(plan(hosts(count), *stages, policies=[p])) == waves


@pytest.mark.parametrize("written", [24, 25, 33, 34, 49, 50, 99, 100])
@pytest.mark.parametrize("count", [3, 4, 10])
def test_a_stage_and_a_limit_in_per_cent_are_shown_resolved_never_0_and_never_all(written, count):
    p = policy("share", limits={"unavailable": percent(written), "wave": amount(count)})
    stages = (f"{written}%",) if written == 100 else (f"{written}%", "100%")
    made = plan(hosts(count), *stages, policies=[p])
    expected = max(1, written * count // 100)
    assert made.waves[0] == Wave(f"{written}%", 0, expected)
    shown = next(limit for limit in made.limits if limit.name == "unavailable")
    assert (shown.written, shown.value, shown.unit) == (f"{written}%", expected, "hosts")
    assert made.caps.unavailable == expected
    assert (expected == count) is (written == 100)


# ---------------------------------------------------------------- limits, gates, approvals


def test_limits_are_shown_as_written_resolved_and_where_from():
    p = policy("cache", limits={"unavailable": amount("10%"), "pace_between": 30.0}, bake_for=60.0)
    shown = {limit.name: limit for limit in plan(hosts(30), policies=[p]).limits}
    assert (shown["unavailable"].value, str(shown["unavailable"].origin)) == (
        3.0,
        "policy cache (cache.yaml:10)",
    )
    assert (shown["pace.between"].written, shown["pace.between"].value) == ("30 s", 30.0)
    assert str(shown["unavailablePerDomain"].origin) == "built-in default"
    assert shown["bake.for"].unit == "seconds"
    assert "wave" not in shown
    assert "approvals.count" not in shown


def test_gates_of_policies_and_of_the_rollout_are_all_there_with_who_asks_for_them():
    p = policy(
        "cache",
        required_gates=("hit-ratio", "margin"),
        evidence=PolicyEvidence(Age(scrapes=2.0), 7.0),
    )
    made = plan(hosts(2), policies=[p], gates=("hit-ratio", "margin", "health"), asks=("health",))
    assert [(rule.name, str(rule.required_by)) for rule in made.gates] == [
        ("hit-ratio", "policy cache (cache.yaml:12)"),
        ("margin", "policy cache (cache.yaml:12)"),
        ("health", "rollout consul-1.8.8"),
    ]
    rule = made.gates[0]
    assert (rule.grace, rule.max_ages, rule.bound) == (7.0, (Age(scrapes=2.0),), "below 0.7")


def test_a_first_verdict_needs_enough_distinct_samples():
    assert first_within(gate(), Watching(1.0, 2.0)) == 4 * 2.0 + 2.0
    assert first_within(gate(), Watching(15.0, 2.0)) == 4 * 15.0 + 2.0
    assert first_within(gate(), Watching(None, 2.0)) == first_within(gate(), Watching(15.0, 2.0))


@pytest.mark.parametrize(
    ("point", "wave"), [("start", 0), ("1", 0), ("25%", 1), ("50%", 2), ("100%", 4), ("all", 4)]
)
def test_an_approval_comes_before_the_first_wave_of_its_stage(point, wave):
    p = policy(limits={"wave": amount(2)}, approvals=Approvals((point,), 2))
    made = plan(hosts(10), 1, "25%", "50%", "100%", policies=[p])
    assert [w.stage for w in made.waves] == ["1", "25%", "50%", "50%", "100%", "100%", "100%"]
    (approval,) = made.approvals
    assert (approval.wave, approval.count, approval.not_requester) == (wave, 2, True)
    assert approval.point == ("100%" if point == "all" else point)


def test_an_approval_at_a_stage_without_a_wave_comes_before_the_wave_that_reaches_it():
    p = policy(approvals=Approvals(("25%",)))
    made = plan(hosts(3), 1, "25%", "100%", policies=[p])
    assert ends(made) == [("1", 0, 1), ("100%", 1, 3)]
    assert [point.wave for point in made.approvals] == [0]


def test_an_approval_at_a_stage_that_the_rollout_lacks_is_refused_with_the_allowed_words():
    p = policy(approvals=Approvals(("start", "10%")))
    (reason,) = plan(hosts(4), 1, "25%", "100%", policies=[p]).refusals
    assert "at 10% (policy cache (cache.yaml:13))" in reason
    assert "allowed: start, 1, 25%, 100%" in reason


# ---------------------------------------------------------------- refusals


def test_20_of_288_hosts_down_exceed_5_per_cent_and_the_plan_names_them_and_what_helps():
    p = policy(limits={"unavailable": amount("5%"), "unavailable_per_domain": amount("50%")})
    made = plan(hosts(288, domains="abc", down=20), policies=[p])
    (reason,) = made.refusals
    assert "20 of 288 hosts are down, and that alone exceeds the limit of 14" in reason
    assert "unavailable: 5%, policy cache (cache.yaml:10)" in reason
    assert all(f"cache-{i:03d}" in reason for i in range(1, 21))
    assert "cache-021" not in reason
    assert "take them out of fleet cache" in reason
    assert "override" in reason
    assert len(made.hosts) == 268


@pytest.mark.parametrize(("down", "refused"), [(13, False), (14, True), (15, True)])
def test_down_hosts_at_the_limit_leave_no_room_either(down, refused):
    p = policy(limits={"unavailable": amount("5%"), "unavailable_per_domain": amount("50%")})
    made = plan(hosts(288, domains="abc", down=down), policies=[p])
    assert bool(made.refusals) is refused


def test_a_failure_domain_that_is_full_of_down_hosts_is_refused_by_name():
    p = policy(limits={"unavailable": amount(5), "unavailable_per_domain": amount(1)})
    (reason,) = plan(hosts(9, domains="abc", down=2), policies=[p]).refusals
    assert "in failure domains a, b: at most 1" in reason
    assert "cache-001, cache-002" in reason


def test_a_domain_with_nothing_to_change_needs_no_room():
    fleet = (*hosts(1, domains="z", down=1, prefix="z"), *hosts(3))
    p = policy(limits={"unavailable": amount(2), "unavailable_per_domain": amount(1)})
    assert plan(fleet, policies=[p]).refusals == ()


def test_no_hosts_at_all_and_no_host_to_change_are_refused():
    assert "fleet cache has no hosts" in plan(()).refusals[0]
    done = {host.name: Seen(NEW, NEW) for host in hosts(3)}
    assert plan(hosts(3), seen=done).refusals == ("no host to change: 3 already at 1.8.8, 0 down",)


def test_no_gate_is_refused():
    (reason,) = plan(hosts(3), asks=()).refusals
    assert reason.startswith("no gate decides")
    assert "in the worker's source: margin" in reason


def test_a_gate_that_is_asked_for_and_not_there_is_refused_by_name():
    p = policy(required_gates=("boot-success",))
    made = plan(hosts(3), policies=[p], asks=("margin", "mispelt"))
    where = "is not in the worker's source; gates there: margin"
    assert made.refusals == (
        f"gate boot-success, required by policy cache (cache.yaml:12), {where}",
        f"gate mispelt, required by rollout consul-1.8.8, {where}",
    )


def test_hosts_at_another_version_are_listed_with_it():
    seen = {
        "cache-002": Seen("1.8.6", "1.8.6"),
        "cache-003": Seen(OLD, None),
        "cache-004": Seen("1.9.0", OLD),
    }
    (reason,) = plan(hosts(5), seen=seen).refusals
    assert "goes from 1.8.7 to 1.8.8, and something else is on 3 hosts" in reason
    assert "cache-002 (1.8.6)" in reason
    assert "cache-003 (runs a version that cannot be told, installed is 1.8.7)" in reason
    assert "cache-004 (runs 1.8.7, installed is 1.9.0)" in reason


def test_hosts_that_cannot_be_reached_are_named_with_the_reason():
    (reason,) = plan(hosts(3), seen={"cache-002": Seen(trouble="no route")}).refusals
    assert reason.startswith("1 host cannot be looked at: cache-002 (no route)")


def test_a_host_that_nobody_looked_at_is_refused():
    made = make_plan(request(), replace(found(hosts(2)), seen={}), now=0.0)
    assert "cache-001 (was not looked at), cache-002" in made.refusals[0]


def test_a_change_that_the_source_does_not_have_is_refused():
    made = plan(hosts(3), change=None, changes=("node-exporter",))
    assert made.refusals == (
        "change consul-agent is not in the worker's source; changes there: node-exporter",
    )


def test_a_change_that_differs_from_the_source_is_refused():
    asked = request(digest="sha256:mine")
    (reason,) = make_plan(asked, found(hosts(3)), now=0.0).refusals
    assert "sha256:mine" in reason
    assert "sha256:change" in reason


def test_stages_that_do_not_reach_every_host_are_refused():
    (reason,) = plan(hosts(4), 1, "50%").refusals
    assert reason == "the stages end at 2 of 4 hosts; the last must be 100%"


def test_all_reasons_come_at_once():
    made = plan(hosts(3, down=1), asks=(), seen={"cache-002": Seen(trouble="no route")})
    assert len(made.refusals) == 4  # unreachable, down, down in its domain, no gate


def test_many_names_are_cut_and_counted():
    assert named([str(i) for i in range(50)]).endswith("48, 49")
    assert named([str(i) for i in range(53)]).endswith("49 and 3 more")


# ---------------------------------------------------------------- the way back

CRITICAL = policy("critical", cache_critical=True)
GONE = {"cache-002": Seen(OLD, OLD, no_old="404")}
AUTO = policy("auto", rollback_when="auto")


@pytest.mark.parametrize(
    ("policies", "refused"),
    [([], ""), ([CRITICAL], "cache-critical"), ([AUTO], "rollback.when: auto")],
)
def test_no_way_back_is_a_refusal_where_one_must_be_there(policies, refused):
    made = plan(hosts(3), policies=policies, seen=GONE)
    said = " ".join(made.refusals if refused else made.warnings)
    assert f"no way back: {OLD} cannot be brought to 1 host: cache-002 (cache-002: 404)" in said
    assert refused in said
    assert bool(made.refusals) == bool(refused)
    if not refused:
        assert "a rollback would be blocked there and hold" in said


def test_a_new_version_that_cannot_be_had_is_refused():
    made = plan(hosts(2), seen={"cache-001": Seen(OLD, OLD, no_new="404")})
    (refusal,) = made.refusals
    assert refusal == (
        f"{NEW} cannot be brought to 1 host: cache-001 (cache-001: 404); put it where change "
        "consul-agent fetches from"
    )


@pytest.mark.parametrize("policies", [[CRITICAL], [AUTO]])
def test_a_way_back_that_cannot_be_asked_for_is_said(policies):
    mute = replace(CHANGE, obtainable=None)
    assert "has no `obtainable`" in plan(hosts(1), policies=policies, change=mute).warnings[0]
    assert "way back" not in " ".join(plan(hosts(1), change=mute).warnings)


# ---------------------------------------------------------------- restarts

LEAVES = {f"cache-{i:03d}": Seen(OLD, OLD, leaves="yes") for i in range(1, 4)}


def test_what_a_restart_does_to_the_catalog_is_said_for_each_host_and_in_sum():
    seen = LEAVES | {"cache-003": Seen(OLD, OLD, leaves="no")}
    made = plan(hosts(3), policies=[CRITICAL], seen=seen)
    assert [host.restart for host in made.hosts][1:] == [
        "SIGTERM deregisters cache-002 (memcached) for about 5 s: leave_on_terminate is not false",
        "stays registered: leave_on_terminate is false",
    ]
    assert made.warnings == ("this change will deregister 2 cache nodes for about 5 s each",)
    assert made.cache_critical


def test_an_agent_that_does_not_say_is_taken_for_one_that_leaves():
    made = plan(hosts(1), policies=[CRITICAL], seen={"cache-001": Seen(OLD, OLD, leaves="unknown")})
    assert made.hosts[0].restart.startswith("may deregister cache-001 (memcached)")
    assert made.warnings[0].endswith("1 cache node for about 5 s each (of 1 that is not certain)")


def test_a_change_that_keeps_the_node_registered_warns_of_nothing():
    keeps = replace(CHANGE, keeps_registered=True)
    made = plan(hosts(3), policies=[CRITICAL], seen=LEAVES, change=keeps)
    assert made.warnings == ()
    assert made.hosts[0].restart.startswith("stays registered: change consul-agent says")


def test_hosts_without_a_known_role_and_fleets_without_a_policy_are_warned_of():
    made = plan(hosts(2, roles=()), policies=[policy("web", match=Match(roles=("web",)))])
    assert made.hosts[0].policies == ("web",)
    assert "2 hosts with no known role" in made.warnings[0]
    assert "no policy covers any host" in plan(hosts(2)).warnings[0]


def test_hosts_that_do_not_say_their_failure_domain_are_warned_of():
    made = plan(hosts(2, domains=["unknown"]), policies=[CRITICAL])
    assert any("do not say their failure domain" in warning for warning in made.warnings)


# ---------------------------------------------------------------- time


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        ({}, 2 * 60 + 10 * 10),  # one at a time
        ({"unavailable": amount(5), "unavailable_per_domain": amount(5)}, 2 * 60 + 10 + 10),
        # five may be away, two of each of one domain
        ({"unavailable": amount(5), "unavailable_per_domain": amount(2)}, 2 * 60 + 30 + 30),
        ({"pace_between": 30.0}, 2 * 60 + 2 * (4 * 30 + 10)),
    ],
)
def test_the_expected_time_is_work_or_pace_and_a_bake_for_each_wave(limits, seconds):
    p = policy("pace", limits=limits, bake_for=60.0)
    made = plan(hosts(10), "50%", "100%", policies=[p])
    assert made.seconds_expected == pytest.approx(seconds)


# ---------------------------------------------------------------- what holds for any plan

stage_lists = st.lists(st.integers(1, 99), max_size=4).map(
    lambda shares: [*(f"{share}%" for share in sorted(set(shares))), "100%"]
)


@given(fleets(), st.lists(policies(), max_size=3), stage_lists, st.sets(st.integers(0, 24)))
def test_every_host_is_planned_once_or_left_out_and_waves_cover_the_plan(
    fleet, known, stages, guards
):
    own = frozenset(f"h-{i:02d}" for i in guards)
    made = plan(fleet, *stages, policies=known, guards=own)
    assert sorted([*names(made), *(e.name for e in made.excluded)]) == [h.name for h in fleet]
    assert {e.name for e in made.excluded} == {h.name for h in fleet if h.down}
    edges = [0, *(wave.end for wave in made.waves)]
    assert [wave.begin for wave in made.waves] == edges[:-1]
    assert all(wave.begin < wave.end for wave in made.waves)
    assert edges[-1] == len(made.hosts)
    order = [f"{stage}" for stage in stages]
    labels = [order.index(wave.stage) for wave in made.waves]
    assert labels == sorted(labels)


@given(fleets(), st.lists(policies(), max_size=3), stage_lists)
def test_no_wave_is_larger_than_its_limit_or_passes_its_stage(fleet, known, stages):
    made = plan(fleet, *stages, policies=known)
    most = next((limit.value for limit in made.limits if limit.name == "wave"), len(fleet))
    for wave in made.waves:
        assert wave.end - wave.begin <= most
        assert wave.end <= amount(wave.stage).of(len(made.hosts))


@given(fleets(), st.lists(policies(), max_size=3), stage_lists)
def test_the_course_says_the_same_as_the_plan_and_decide_can_follow_it(fleet, known, stages):
    made = plan(fleet, *stages, policies=known)
    course = course_of(made, "sha256:p")
    assert [made.domains[d] for d in course.domains] == [h.failure_domain for h in made.hosts]
    assert sum(course.down) == sum(1 for host in fleet if host.down)
    assert len(course.down) == len(made.domains)
    assert all(0 <= point.wave < max(1, len(course.waves)) for point in course.approvals)
    if made.hosts:
        decide(State(course, "op"), Started(0.0))


@given(fleets(least=2), st.lists(policies(), max_size=2))
def test_a_plan_that_is_not_refused_can_be_carried_out(fleet, known):
    calm = [replace(p, approvals=None, required_gates=(), bake_for=1.0) for p in known]
    made = plan(fleet, 1, "50%", "100%", policies=calm)
    if not made.refusals:
        course = replace(course_of(made, "sha256:p"), approvals=())  # where no policy covers a host
        run = drive(course, Script())
        assert run.state.phase == "completed"
        assert run.state.changed.bit_count() == len(made.hosts)
