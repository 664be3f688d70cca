"""Small operations step by step, with times that an operator can check by hand (small.py)."""

from dataclasses import replace

import pytest

from guardrail.decide import limits
from guardrail.decide.transition import decide, may_begin
from guardrail.model.identity import Signer
from guardrail.model.operation import (
    GateJudged,
    HostAnswered,
    Started,
    State,
    Ticked,
    WatchAgain,
)
from guardrail.model.plan import Caps
from guardrail.twins import Script, Turn, Work, drive, judgement

from builders import approval, course, gate, say, signed
from small import begins, drive_on, go, held, hosts, span

# ---------------------------------------------------------------- the plain case


def test_three_waves_one_host_at_a_time():
    run = go(course(1, 3, 4))
    assert begins(run) == [(1.0, 0), (36.0, 1), (41.0, 2), (76.0, 3)]
    assert (run.state.phase, run.state.finished_at) == ("completed", 111.0)
    assert run.state.finish_reasons == ("4 of 4 hosts changed",)


def test_two_hosts_away_at_a_time():
    run = go(course(4, caps=Caps(2, 2, 3, 0)))
    assert begins(run) == [(1.0, 0), (1.0, 1), (6.0, 2), (6.0, 3)]
    assert run.state.finished_at == 41.0


def test_the_pace_is_kept_between_begins():
    run = go(course(3, caps=Caps(3, 3, 3, 0, pace=7.0)))
    assert begins(run) == [(1.0, 0), (8.0, 1), (15.0, 2)]


@pytest.mark.parametrize("work", [hosts(), hosts(takes=1.0)])
def test_without_a_bake_it_goes_on_by_itself(work):
    run = go(course(1, 2, 3, bake=0.0), work=work)
    assert run.state.phase == "completed"
    assert run.state.changed == 0b111


def test_nothing_begins_before_the_first_verdict():
    run = go(course(2), first=None, until=14.0)
    assert (begins(run), held(run, 14.0)) == ([], [])
    assert held(go(course(2), first=None, until=15.0), 15.0) == ["evidence:margin"]


def test_started_twice_is_started_once():
    run = go(course(2), until=8.0)
    again = decide(run.state, Started(8.0))
    assert (again.state, again.actions) == (run.state, ())


def test_a_finished_operation_never_changes():
    done = go(course(1)).state
    for event in (Ticked(1e4), WatchAgain(1e4), say(1e4, "pause"), Started(1e4)):
        assert decide(done, event).state is done
        assert decide(done, event).actions == ()


# ---------------------------------------------------------------- gates


def test_a_gate_fails_in_the_middle_of_a_wave():
    """What is in flight finishes; nothing begins; a person resumes; then a whole bake."""
    fails = [Turn(3.0, "margin", "fail"), Turn(50.0, "margin", "pass")]
    run = go(course(3), gates=fails, people=[say(40, "resume"), say(60, "resume")])
    assert span(run, "gate:margin") == (3.0, 60.0)
    assert begins(run) == [(1.0, 0), (90.0, 1), (95.0, 2)]
    assert run.state.phase == "completed"
    six = next(m.state for m in run.moments if m.event.at == 6.0)
    assert (six.changed, six.in_flight) == (0b1, ())


def test_a_gate_that_recovers_by_evidence_goes_on_at_half_the_pace():
    plan = course(6, gates=[gate(by="evidence")], caps=Caps(4, 4, 3, 0))
    run = go(plan, gates=[Turn(2.0, "margin", "fail"), Turn(9.0, "margin", "pass")])
    assert span(run, "gate:margin") == (2.0, 29.0)
    assert begins(run) == [(1.0, 0), (1.0, 1), (1.0, 2), (1.0, 3), (59.0, 4), (59.0, 5)]
    assert limits.most_away(run.state) == 2


def test_half_the_pace_is_twice_the_gap():
    plan = course(3, gates=[gate(by="evidence")], caps=Caps(4, 4, 3, 0, pace=7.0))
    run = go(plan, gates=[Turn(2.0, "margin", "fail"), Turn(9.0, "margin", "pass")])
    assert begins(run) == [(1.0, 0), (59.0, 1), (73.0, 2)]


def test_approval_at_a_stage_while_gates_fail():
    """peers case 4, flagger#1801: the gate's hold joins; a late approval starts nothing."""
    plan = course(1, 2, approvals=[approval("1", 1)])
    fails = [Turn(40.0, "margin", "fail"), Turn(60.0, "margin", "pass")]
    run = go(plan, gates=fails, people=[say(50, "approve", point="1")], until=900.0)
    assert held(run, 36.0) == ["approval:1"]
    assert held(run, 40.0) == ["approval:1", "gate:margin"]
    assert held(run, 50.0) == ["gate:margin"]
    assert begins(run) == [(1.0, 0)]
    assert not run.state.finished
    late = decide(run.state, say(900, "resume"))
    assert late.actions == ()
    assert late.wake_at == 930.0


def test_inconclusive_with_a_timed_bake_behind_it():
    """peers case 2, argo#3850: the timer running out does nothing."""
    run = go(course(1, 2), gates=[Turn(20.0, "margin", "inconclusive")], until=5000.0)
    assert span(run, "evidence:margin") == (30.0, None)
    assert begins(run) == [(1.0, 0)]
    later = decide(run.state, Ticked(5000.0))
    assert (later.actions, later.state.wave, later.wake_at) == ((), 0, None)


def test_an_approval_wants_distinct_people_who_did_not_ask():
    plan = course(1, approvals=[approval(count=2)])
    said = [("ann", 2), ("bob", 3), ("bob", 4), ("cid", 5)]
    people = [signed(at, "approve", by, point="start") for by, at in said]
    signer = Signer("ann", (), "SHA256:ann")
    run = drive(plan, Script(people=tuple(people), asked_by=signer))
    assert span(run, "approval:start") == (0.0, 5.0)
    assert begins(run) == [(5.0, 0)]


# ---------------------------------------------------------------- evidence


def test_evidence_missing_for_less_than_grace_only_waits():
    gone = [Turn(3.0, "margin", "inconclusive"), Turn(12.0, "margin", "pass")]
    run = go(course(2), gates=gone)
    assert all(not moment.state.holds for moment in run.moments)
    assert begins(run) == [(1.0, 0), (12.0, 1)]


def test_evidence_missing_for_longer_than_grace_holds_until_it_is_good_again():
    gone = [Turn(3.0, "margin", "inconclusive"), Turn(15.0, "margin", "pass")]
    run = go(course(2), gates=gone)
    assert span(run, "evidence:margin") == (13.0, 35.0)
    assert begins(run) == [(1.0, 0), (65.0, 1)]


def test_a_bake_counts_good_evidence_only():
    """26 s good, 4 s missing (less than grace), 4 s good: the bake of 30 s ends at t=40."""
    gone = [Turn(32.0, "margin", "inconclusive"), Turn(36.0, "margin", "pass")]
    assert begins(go(course(1, 2), gates=gone)) == [(1.0, 0), (40.0, 1)]


def test_the_watcher_is_lost():
    run = go(course(2), lost=[3.0])
    assert span(run, "evidence:margin") == (3.0, 24.0)
    assert run.state.watch_turn == 2
    assert begins(run) == [(1.0, 0), (54.0, 1)]
    lost = next(m.state.hold("evidence:margin") for m in run.moments if m.event.at == 3.0)
    assert lost.reasons == ("the watcher fell silent: as the script says",)


def test_a_new_run_starts_with_stale_evidence():
    run = go(course(2), until=7.0)
    assert len(begins(run)) == 2
    again = decide(run.state, WatchAgain(8.0))
    assert [watched.judgement for watched in again.state.watched] == [None]
    late = GateJudged(9.0, run.state.watch_turn, judgement(Turn(9.0, "margin", "pass")))
    assert decide(again.state, late).state.watched == again.state.watched
    assert decide(again.state, Ticked(23.0)).state.hold("evidence:margin")


# ---------------------------------------------------------------- hosts


def test_the_worker_dies_and_the_host_never_returns():
    """peers case 8: exactly one in flight; the slot stays taken until a person decides."""
    run = go(course(3), work=hosts({(0, 1): "unknown"}), until=1000.0)
    assert begins(run) == [(1.0, 0)]
    assert limits.away(run.state) == 1
    assert limits.room(run.state) == 0
    assert held(run, 1000.0) == ["host:host-000"]
    again = drive_on(run, say(1000, "retry"))
    assert begins(again)[:2] == [(1.0, 0), (1030.0, 0)]
    assert again.state.phase == "completed"


def test_a_host_that_never_answers_keeps_its_place():
    run = go(course(3), work=hosts(times={0: None}), until=1000.0)
    assert begins(run) == [(1.0, 0)]
    assert len(run.state.in_flight) == 1


def test_failures_over_their_limit_hold():
    run = go(course(3), work=hosts({(0, 1): "failed"}), until=100.0)
    assert held(run, 6.0) == ["limit:failures"]
    assert begins(run) == [(1.0, 0)]


def test_failures_within_their_limit_do_not():
    plan = course(3, caps=Caps(2, 2, 3, 1))
    run = go(plan, work=hosts({(0, 1): "failed"}))
    assert run.state.phase == "completed"
    assert run.state.finish_reasons == ("2 of 3 hosts changed; left out: host-000",)


def test_a_row_of_failures_waits_for_a_person_even_if_the_next_host_changes():
    caps = Caps(3, 3, 3, 5, failures_consecutive=1)
    work = hosts({(0, 1): "failed", (1, 1): "failed"}, times={2: 9.0})
    run = go(course(4, caps=caps), work=work, people=[say(100, "retry")])
    assert span(run, "limit:failures") == (6.0, 100.0)
    assert begins(run)[3:5] == [(130.0, 0), (130.0, 1)]
    assert run.state.phase == "completed"


def test_a_host_that_is_blocked_three_times_is_set_aside_and_rests_between():
    work = hosts({(0, n): "blocked" for n in (1, 2, 3)})
    run = go(course(2, caps=Caps(1, 1, 3, 1)), work=work)
    assert begins(run)[:4] == [(1.0, 0), (6.0, 1), (26.0, 0), (51.0, 0)]
    assert (run.state.blocked, run.state.changed) == (0b1, 0b10)


def test_a_host_that_is_blocked_twice_and_then_changes_is_as_good_as_new():
    run = go(course(1), work=hosts({(0, 1): "blocked", (0, 2): "blocked"}))
    assert run.state.phase == "completed"
    assert run.state.exceptional == ()


@pytest.mark.parametrize("outcome", ["credentials", "unknown"])
def test_hosts_failing_alike_share_one_hold(outcome):
    work = hosts({(0, 1): outcome, (1, 1): outcome}, times={1: 7.0})
    run = go(course(3, caps=Caps(2, 2, 3, 0)), work=work, until=100.0)
    assert held(run, 100.0) == ["host:host-000"]
    hold = run.state.hold("host:host-000")
    assert (hold.hosts, len(hold.reasons), hold.since) == ((0, 1), 2, 6.0)


def test_hosts_failing_differently_do_not():
    work = hosts({(0, 1): "credentials", (1, 1): "unknown"})
    run = go(course(3, caps=Caps(2, 2, 3, 0)), work=work, until=100.0)
    assert held(run, 100.0) == ["host:host-000", "host:host-001"]


def test_a_shared_hold_is_named_after_a_host_that_it_is_about():
    work = hosts({(0, 1): "unknown", (1, 1): "unknown"})
    run = go(course(3, caps=Caps(2, 2, 3, 0)), work=work, until=100.0)
    after = decide(run.state, say(100, "retry", hosts=("host-000",))).state
    assert [hold.name for hold in after.holds] == ["host:host-001"]
    assert after.holds[0].reasons == ("host-001 is unknown: as the script says",)
    assert after.holds[0].since == 6.0
    other = decide(run.state, say(100, "retry", hosts=("host-001",))).state
    assert [hold.name for hold in other.holds] == ["host:host-000"]


def test_a_host_that_is_gone_is_left_out():
    run = go(course(2), work=hosts({(0, 1): "gone"}))
    assert begins(run) == [(1.0, 0), (6.0, 1)]
    assert run.state.finish_reasons == ("1 of 2 hosts changed; left out: host-000",)


def test_retry_is_a_new_turn_and_the_old_answer_changes_nothing():
    run = go(course(2), work=hosts({(0, 1): "unknown"}), people=[say(10, "retry")], until=41.0)
    assert begins(run) == [(1.0, 0), (40.0, 0)]
    old = decide(run.state, HostAnswered(41.0, 0, 1, "failed", "host-000")).state
    assert old == run.state
    new = decide(run.state, HostAnswered(41.0, 0, 2, "changed", "host-000")).state
    assert new.changed == 0b1


def test_skip_frees_the_slot():
    people = [say(10, "skip", hosts=("host-000",))]
    run = go(course(2), work=hosts({(0, 1): "unknown"}), people=people)
    assert begins(run) == [(1.0, 0), (40.0, 1)]
    assert run.state.finish_reasons == ("1 of 2 hosts changed; left out: host-000",)


# ---------------------------------------------------------------- people


def test_pause_by_two_people_needs_both():
    said = [say(2, "pause"), say(3, "pause", "cid"), say(10, "resume"), say(20, "resume", "cid")]
    run = go(course(2), people=said)
    assert held(run, 3.0) == ["operator:bob", "operator:cid"]
    assert held(run, 10.0) == ["operator:cid"]
    assert begins(run) == [(1.0, 0), (50.0, 1)]


def test_resume_over_somebody_needs_a_reason():
    said = [
        say(2, "pause"),
        say(10, "resume", "cid"),
        say(11, "resume", "cid", over="bob"),
        say(20, "resume", "cid", over="bob", reason="he is asleep"),
    ]
    run = go(course(2), people=said)
    assert span(run, "operator:bob") == (2.0, 20.0)


def test_abort_with_hosts_in_flight_ends_when_they_have_answered():
    run = go(course(4), people=[say(3, "abort", reason="wrong version")])
    assert held(run, 3.0) == ["abort"]
    assert begins(run) == [(1.0, 0)]
    assert (run.state.phase, run.state.finished_at) == ("aborted", 6.0)
    assert run.state.finish_reasons == (
        "aborted by bob: wrong version",
        "1 of 4 hosts changed",
    )


def test_a_pause_before_the_start_holds_the_start():
    paused = decide(State(course(2), "x"), say(0, "pause")).state
    started = decide(paused, Started(1.0))
    judged = GateJudged(2.0, 1, judgement(Turn(2.0, "margin", "pass")))
    after = decide(started.state, judged)
    assert [hold.name for hold in after.state.holds] == ["operator:bob"]
    assert after.state.in_flight == ()


def test_an_abort_before_the_start_ends_it_at_the_start():
    aborted = decide(State(course(2), "x"), say(0, "abort")).state
    assert decide(aborted, Started(1.0)).state.phase == "aborted"


def test_a_host_ready_only_after_a_hold_gets_no_permit_before_the_bake():
    """Asked at 1, paused at 2, resumed at 3, ready at 4: it waits for the bake like all others."""
    slow = Script(lambda _begin, now: Work(3.0 if now < 5 else 0.0, 0.0, 5.0), people=PAUSED)
    run = drive(course(2), slow)
    assert begins(run) == [(1.0, 0), (34.0, 0), (39.0, 1)]
    assert [begun.at for begun in run.begun] == [34.0, 39.0]


PAUSED = (say(2, "pause"), say(3, "resume"))


def test_permits_are_for_running_operations_that_change_hosts():
    changing = go(course(3), until=2.0).state
    assert may_begin(changing)
    assert not may_begin(decide(changing, say(2, "pause")).state)
    assert not may_begin(replace(changing, phase="aborted"))
    assert not may_begin(replace(changing, step="baking"))
