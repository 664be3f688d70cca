"""What became stricter applies at once, what became looser never, and no policies: no start."""

from dataclasses import replace

import pytest
from decide.plan_builders import CHANGE, amount, gate, hosts, plan, policies, policy, request
from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide import carry
from guardrail.decide.again import merged_again
from guardrail.decide.explain import sentence
from guardrail.decide.plan import course_of
from guardrail.decide.stricter import FIELDS
from guardrail.decide.tighten import CAPS, POLICY, tightened
from guardrail.decide.transition import decide
from guardrail.decide.waves import cut_again
from guardrail.errors import Refused
from guardrail.model.budget import ChurnLimit, ColdLimit
from guardrail.model.common import Origin
from guardrail.model.gate import Age
from guardrail.model.operation import PolicyMerged
from guardrail.model.plan import Caps, Limit, Merged, Wave
from guardrail.model.policy import Approvals, Churn, Match, Recover
from guardrail.twins import Script, Turn, Work, as_planned, drive

from builders import approval, course, say, waves
from builders import gate as rule
from small import hosts as hosts_answer

LOOSE = Caps(4, 4, 3, 5, None, 0.0)
ORIGIN = Origin("policy new", "new.yaml", 7)


def asking(*ends, **fields):
    return replace(course(*ends, **fields), merges=True)


def said(plan, now=0.0, **fields):
    return replace(as_planned(plan, now), **fields)


def policy_notes(run):
    return [note.text for note in run.state.story if note.text.startswith("policy: ")]


# ---------------------------------------------------------------- one course under two words


def test_each_stricter_limit_applies_and_each_looser_one_does_not():
    old = asking(8, caps=Caps(4, 2, 3, 1, None, 5.0))
    stricter = Caps(2, 3, 1, 5, 2, 9.0)
    limits = (Limit("unavailable", "2", 2.0, "hosts", ORIGIN),)
    made, notes = tightened(old, said(old, caps=stricter, limits=limits, bake_for=99.0), 0)
    assert made.caps == Caps(2, 2, 1, 1, 2, 9.0)
    assert (made.bake_for, made.tightened) == (99.0, 1)
    assert notes[0] == "unavailable is now 2, was 4 (policy new (new.yaml:7))"
    assert "failures.consecutive is now 2, was no limit" in notes


def test_nothing_stricter_is_the_same_course():
    old = asking(4, 8, caps=LOOSE)
    assert tightened(old, said(old), 0) == (old, ())
    looser = said(old, caps=Caps(9, 9, 9, 9), bake_for=1.0, rollback_when="auto", wave=100)
    assert tightened(old, looser, 0) == (old, ())


def test_that_the_leader_comes_last_is_taken_and_never_dropped():
    old = asking(4)
    made, notes = tightened(old, said(old, leader_last=True), 0)
    assert (made.leader_last, notes) == (True, ("leaderLast is now True, was False",))
    assert tightened(made, said(old), 0) == (made, ())


def test_where_nobody_can_say_who_leads_that_is_a_refusal():
    made = plan(hosts(3), policies=(policy("p"),))
    late = (policy("servers", leader_last=True),)
    with pytest.raises(Refused, match="nobody can say who leads"):
        merged_again(made, request().rollout, late, (gate(),), change=CHANGE, now=1.0)


def test_a_new_gate_and_a_stricter_one_are_taken_and_none_is_dropped():
    old = asking(4, gates=[rule("a", by="evidence", grace=10.0), rule("b")])
    young = replace(rule("a", by="person", grace=5.0), max_ages=(Age(scrapes=3),))
    made, notes = tightened(old, said(old, gates=(young, rule("c"))), 0)
    assert [gate.name for gate in made.gates] == ["a", "b", "c"]
    assert (made.gates[0].recover_by, made.gates[0].grace) == ("person", 5.0)
    assert made.gates[0].max_ages == (Age(scrapes=3),)
    assert notes[0] == "gate a is judged more strictly"
    assert notes[1] == "gate c is now required (policy test (test.yaml:1))"


def test_churn_limits_come_on_top():
    old = asking(4)
    six = ChurnLimit(6, 600.0, ORIGIN)
    made, _ = tightened(old, said(old, churn=(six,)), 0)
    assert made.budget.churn == (six,)
    again, notes = tightened(made, said(old, churn=(ChurnLimit(9, 60.0, ORIGIN),)), 0)
    assert (again, notes) == (made, ())
    cold = ColdLimit(3, ((0, 4),), ORIGIN)
    warmer, notes = tightened(made, said(old, cold=(cold,)), 0)
    assert (warmer.budget.cold, len(notes)) == ((cold,), 1)
    looser = said(old, cold=(replace(cold, most=4),))
    assert tightened(warmer, looser, 0) == (warmer, ())


def test_waves_that_have_not_begun_are_cut_and_their_points_come_along():
    old = asking(2, 6, 12, approvals=(approval("50%", wave=2),))
    made, notes = tightened(old, said(old, wave=3), 1)
    assert [(w.begin, w.end) for w in made.waves] == [(0, 2), (2, 5), (5, 6), (6, 9), (9, 12)]
    assert made.approvals[0].wave == 3
    assert notes == ("waves are now of at most 3 hosts",)


def test_an_approval_ahead_is_asked_for_and_one_that_is_passed_is_not():
    old = asking(2, 6, 12, approvals=(approval("25%", wave=1),))
    found = said(
        old, approvals=((0, approval("start")), (2, approval("25%", count=2)), (6, approval("50%")))
    )
    made, notes = tightened(old, found, 1)
    assert [(p.point, p.wave, p.count) for p in made.approvals] == [("25%", 1, 2), ("50%", 2, 1)]
    assert len(notes) == 2


@given(st.integers(1, 30), st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True),
       st.integers(0, 4), st.integers(1, 9))  # fmt: skip
def test_cutting_again_keeps_every_host_in_its_place(hosts, ends, first, most):
    planned = waves(*sorted(ends))
    again = cut_again(planned, most, first)
    assert again[: min(first, len(planned))] == planned[:first]
    assert [w.begin for w in again] == [0, *(w.end for w in again[:-1])]
    assert again[-1].end == planned[-1].end
    assert {w.begin for w in planned} <= {w.begin for w in again}
    assert all(w.end - w.begin <= most for w in again[first:])
    assert all(isinstance(w, Wave) and w.begin < w.end for w in again)


some_caps = st.builds(
    Caps, st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), st.integers(0, 5),
    st.none() | st.integers(0, 3), st.sampled_from([0.0, 5.0, 30.0]),
    st.none() | st.sampled_from([0.01, 0.025, 0.5]),
)  # fmt: skip


@given(some_caps, st.lists(some_caps, min_size=1, max_size=4), st.randoms())
def test_whatever_policies_say_in_whatever_order_nothing_gets_looser(caps, later, random):
    first = asking(4, 8, caps=caps)
    made = first
    for each in later:
        made, _ = tightened(made, said(first, caps=each), 0)
    for term, field in CAPS.items():
        rank, kept = FIELDS[term].rank, getattr(made.caps, field)
        for word in (getattr(one, field) for one in (caps, *later)):
            assert word is None or rank(kept) <= rank(word)
    shuffled = list(later)
    random.shuffle(shuffled)
    other = first
    for each in shuffled:
        other, _ = tightened(other, said(first, caps=each), 0)
    assert other.caps == made.caps


# ---------------------------------------------------------------- while it runs


def test_policies_are_merged_before_each_wave_and_after_each_hold_and_not_at_the_end():
    plan = asking(1, 4, 9, caps=LOOSE)
    run = drive(plan, Script(people=(say(72, "pause"), say(80, "resume"))), until=4000.0)
    assert run.state.phase == "completed"
    times = [m.event.at for m in run.moments if m.event.kind == "policy_merged"]
    assert len(times) == 4
    calm = drive(plan, Script(), until=4000.0)
    assert sum(m.event.kind == "policy_merged" for m in calm.moments) == 3


def test_no_host_begins_before_the_policies_are_known():
    run = drive(
        asking(3), Script(policies=((0.0, "policies/base.yaml:3:1: unknown key"),)), until=300.0
    )
    assert not run.begun
    hold = run.state.hold(POLICY)
    assert hold.reasons == ("policies/base.yaml:3:1: unknown key",)
    assert "held on policy" in sentence(run.state)


def test_once_they_can_be_read_again_it_goes_on_by_itself_with_a_bake_first():
    plan = asking(2, 4, caps=LOOSE)
    script = Script(policies=((0.0, as_planned(plan, 0.0)), (10.0, "no such folder"),
                              (200.0, as_planned(plan, 0.0))))  # fmt: skip
    run = drive(plan, script, until=4000.0)
    assert run.state.phase == "completed"
    second = [begun.at for begun in run.begun if begun.index >= 2]
    assert min(second) >= 200.0 + plan.bake_for - 10.0
    assert any("hold policy cleared" in note.text for note in run.state.story)


def test_what_became_stricter_between_two_waves_holds_from_the_next_host_on():
    plan = asking(2, 10, caps=LOOSE)
    one = said(plan, caps=Caps(1, 1, 1, 0))
    run = drive(plan, Script(policies=((0.0, as_planned(plan, 0.0)), (10.0, one))), until=4000.0)
    assert run.state.phase == "completed"
    flights = [len(m.state.in_flight) for m in run.moments if m.state.wave == 0]
    assert max(flights) == 2
    assert max(len(m.state.in_flight) for m in run.moments if m.state.wave == 1) == 1
    assert policy_notes(run)[0].startswith("policy: unavailable is now 1, was 4")


def test_a_smaller_wave_cuts_also_the_first_one_before_its_first_host():
    plan = asking(6, caps=LOOSE)
    run = drive(plan, Script(policies=((0.0, said(plan, wave=2)),)), until=4000.0)
    assert [(w.begin, w.end) for w in run.state.course.waves] == [(0, 2), (2, 4), (4, 6)]
    assert run.state.phase == "completed"
    assert run.state.changed.bit_count() == 6


def test_a_wave_of_which_hosts_are_only_set_aside_is_cut_too_and_asks_none_of_them_again():
    plan = asking(4)
    gone = hosts_answer({(0, 1): "gone", (1, 1): "gone"})
    fails = (Turn(9.0, "margin", "fail"), Turn(100.0, "margin", "pass"))
    script = Script(work=gone, gates=fails, people=(say(130, "resume"),),
                    policies=((20.0, said(plan, wave=1)),))  # fmt: skip
    run = drive(plan, script, until=2000.0)
    assert [(wave.begin, wave.end) for wave in run.state.course.waves] == [
        *((0, 1), (1, 2), (2, 3), (3, 4))
    ]
    asked = [begin.index for moment in run.moments for begin in moment.asked]
    assert sorted(asked) == [0, 1, 2, 3], "once each"
    assert run.state.phase == "completed"


def test_a_new_required_gate_is_watched_and_binds():
    plan = asking(2, 6, caps=LOOSE)
    found = said(plan, gates=(*plan.gates, rule("users")))
    script = Script(policies=((0.0, as_planned(plan, 0.0)), (10.0, found)),
                    gates=(Turn(12.0, "users", "fail"),))  # fmt: skip
    run = drive(plan, script, until=600.0)
    assert run.state.hold("gate:users")
    assert not [begun for begun in run.begun if begun.index >= 2]
    assert run.state.watch_turn == 2


def test_going_back_does_not_wait_for_policies_that_cannot_be_read():
    plan = asking(2, 4, caps=LOOSE)
    script = Script(policies=((0.0, as_planned(plan, 0.0)), (30.0, "gone")),
                    people=(say(45, "rollback"),))  # fmt: skip
    run = drive(plan, script, until=4000.0)
    assert run.state.phase == "rolled_back"


def test_what_became_stricter_outlives_the_carriers_run():
    plan = asking(2, 4, 8, caps=LOOSE)
    one = said(plan, caps=Caps(1, 1, 1, 0), wave=1)
    state = drive(plan, Script(policies=((0.0, one),)), until=60.0).state
    assert state.course.tightened
    again = carry.unpack(carry.pack(state), plan)
    assert again == state
    untouched = drive(plan, Script(), until=60.0).state
    assert carry.pack(untouched).state.course == carry.LEFT_BEHIND


def test_an_answer_to_another_question_changes_nothing():
    plan = asking(3, caps=LOOSE)
    run = drive(plan, Script(work=lambda *_: Work(takes=None)), until=20.0)
    late = PolicyMerged(21.0, run.state.merge_turn, said(plan, caps=Caps(1, 1, 1, 0)))
    assert decide(run.state, late).state.course == run.state.course


# ---------------------------------------------------------------- from the documents

TIER = policy("tier", match=Match(roles=("memcached",)), limits={"unavailable": amount("20%")})


def again(made, *policies, gates=("margin",)):
    found = tuple(gate(name) for name in gates)
    return merged_again(made, request().rollout, policies, found, change=CHANGE, now=5.0)


def test_the_same_policies_say_the_same_later_on():
    fleet = hosts(20, domains="abc", down=2)
    made = plan(fleet, 1, "50%", "100%", policies=[TIER])
    planned = course_of(made, "sha256:p")
    assert planned.merges
    assert tightened(planned, again(made, TIER), 0) == (planned, ())


def test_a_policy_that_was_added_is_stricter_by_name_and_one_that_was_removed_loosens_nothing():
    made = plan(hosts(20, domains="abc"), 1, "50%", "100%", policies=[TIER])
    planned = course_of(made, "sha256:p")
    freeze = policy("strict", limits={"unavailable": amount(1)}, recover=Recover("person"),
                    approvals=Approvals(("50%",), 2))  # fmt: skip
    stricter, notes = tightened(planned, again(made, TIER, freeze), 0)
    assert stricter.caps.unavailable == 1
    assert [(p.point, p.count) for p in stricter.approvals] == [("50%", 2)]
    assert "policy strict" in " ".join(notes)
    gone, _ = tightened(planned, again(made), 0)
    assert not looser(planned.caps, gone.caps)


def looser(old, new):
    """The fields of `Caps` that allow more than before."""
    pairs = [(FIELDS[term].rank, getattr(old, f), getattr(new, f)) for term, f in CAPS.items()]
    return [(a, b) for rank, a, b in pairs if a is not None and rank(b) > rank(a)]


def test_a_required_gate_that_is_not_there_is_a_refusal():
    made = plan(hosts(4), policies=[TIER])
    wants = replace(TIER, required_gates=("users",))
    with pytest.raises(Refused, match="users, required by policy tier"):
        again(made, wants)


def test_churn_that_nobody_counts_is_a_refusal():
    made = plan(hosts(4), policies=[TIER])
    limited = replace(TIER, limits=replace(TIER.limits, churn=Churn(6, 600.0)))
    with pytest.raises(Refused, match="nobody counts it"):
        again(made, limited)


@given(st.lists(policies(), max_size=3), st.lists(policies(), max_size=3))
def test_policies_from_documents_never_loosen_a_plan(before, after):
    fleet = hosts(12, domains="abc", down=1)
    calm = [
        replace(p, required_gates=(), limits=replace(p.limits, churn=None), warm_up=None)
        for p in (*before, *after)
    ]
    made = plan(fleet, 1, "50%", "100%", policies=calm[: len(before)])
    planned = course_of(made, "sha256:p")
    later, _ = tightened(planned, again(made, *calm[len(before) :]), 0)
    assert not looser(planned.caps, later.caps)
    assert later.bake_for >= planned.bake_for
    assert {r.name for r in later.gates} >= {r.name for r in planned.gates}
    assert isinstance(again(made), Merged)
