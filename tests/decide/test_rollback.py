"""Going back, step by step, with times that an operator can check by hand (small.py).

Every drive is also shown to all rules of design.md §4.
"""

import pytest

from guardrail.decide import limits
from guardrail.decide.commands import refusal
from guardrail.decide.explain import advice, explain
from guardrail.decide.transition import decide
from guardrail.model.operation import Drained, HostAnswered, WatcherLost
from guardrail.model.plan import Caps
from guardrail.twins import Turn

import checks
from builders import course, gate, say, signed
from small import begins, drive_on, go, held, hosts, span

TWO = (gate("margin"), gate("health", kind="health"))
WIDE = Caps(2, 2, 3, 5)


def tried(plan, **fields):
    """A drive that obeys every rule."""
    run = go(plan, **fields)
    checks.watched(run)
    return run


def back(run):
    return begins(run, "back")


def on(run, *events, until=9000.0):
    drive_on(run, *events, until=until)
    checks.watched(run)
    return run


# ---------------------------------------------------------------- when it turns


def test_auto_by_failed_hosts():
    """Host 2 fails at 46; good for 20 s; newest first; a bake; the older wave."""
    run = tried(course(1, 3, when="auto"), work=hosts({(2, 1): "failed"}))
    assert begins(run, "forward") == [(1.0, 0), (36.0, 1), (41.0, 2)]
    assert checks.turns_back(run) == [(46.0, "back")]
    assert back(run) == [(66.0, 2), (71.0, 1), (106.0, 0)]
    assert (run.state.phase, run.state.finished_at) == ("rolled_back", 141.0)
    assert run.state.finish_reasons == ("3 hosts are back at the former version",)


def test_auto_by_a_health_gate_after_two_waves():
    """The health gate fails for good: it turns the operation round, and never blocks going back."""
    plan = course(1, 2, 4, when="auto", gates=TWO)
    run = tried(plan, gates=[Turn(50.0, "health", "fail")])
    assert begins(run, "forward") == [(1.0, 0), (36.0, 1)]
    assert checks.turns_back(run) == [(50.0, "back")]
    assert back(run) == [(70.0, 1), (105.0, 0)]
    assert run.state.phase == "rolled_back"
    assert run.state.hold("gate:health")


def test_auto_never_turns_because_of_a_safety_gate_or_missing_evidence():
    fails = [Turn(37.0, "margin", "fail"), Turn(38.0, "health", "inconclusive")]
    run = tried(course(1, 3, when="auto", gates=TWO), gates=fails, until=5000.0)
    assert checks.turns_back(run) == []
    assert held(run, 5000.0) == ["evidence:health", "gate:margin"]


def test_ask_waits_and_says_what_it_would_do():
    run = tried(course(1, 3), work=hosts({(2, 1): "failed"}), until=900.0)
    assert held(run, 900.0) == ["limit:failures"]
    assert any("a rollback" in line for line in explain(run.state))
    gates = tried(course(1, 3, gates=TWO), gates=[Turn(40.0, "health", "fail")], until=900.0)
    assert advice(gates.state)[-1] == "guardrail rollout rollback twin"
    again = on(run, say(900, "rollback"))
    assert back(again) == [(920.0, 2), (925.0, 1), (960.0, 0)]
    assert again.state.phase == "rolled_back"


def test_never_says_no_and_says_what_to_do():
    run = tried(course(1, 3, when="never"), work=hosts({(2, 1): "failed"}), until=900.0)
    why = refusal(run.state, say(900, "rollback"))
    assert why == "the policy says rollback.when: never; abort it, and plan a rollout to go back"
    assert decide(run.state, say(900, "rollback")).state == run.state


def test_nothing_to_take_back_before_the_first_host():
    run = go(course(2), until=0.5)
    assert refusal(run.state, say(0.5, "rollback")) == "no host was changed: nothing to take back"


# ---------------------------------------------------------------- wave, then all


def test_a_wave_then_all():
    """The last wave goes back and holds; from there only all, or an abort."""
    run = tried(course(1, 3), people=[say(42, "rollback", scope="wave")], until=900.0)
    assert back(run) == [(66.0, 2), (71.0, 1)]
    assert held(run, 900.0) == ["rollback:wave"]
    assert advice(run.state)[-1] == "guardrail rollout rollback twin --scope all"
    assert "nothing here is yours" in str(refusal(run.state, say(900, "resume")))
    assert "one rollback" in str(refusal(run.state, say(900, "rollback", scope="wave")))
    again = on(run, say(900, "rollback"))
    assert back(again)[2:] == [(930.0, 0)]
    assert again.state.phase == "rolled_back"


def test_a_wave_then_abort():
    run = tried(course(1, 3), people=[say(42, "rollback", scope="wave")], until=900.0)
    done = on(run, say(900, "abort"))
    assert done.state.phase == "aborted"
    assert "1 host is not" in done.state.finish_reasons[1]


def test_there_is_one_rollback_an_operation():
    run = tried(course(1, 3), people=[say(42, "rollback")], until=68.0)
    assert "one rollback an operation" in str(refusal(run.state, say(68, "rollback")))


# ---------------------------------------------------------------- hosts in flight


def test_hosts_in_flight_forward_go_back_too():
    """Asked at 1, turned at 3, answered at 6: then good for 20 s, then it goes back."""
    run = tried(course(4, caps=WIDE), people=[say(3, "rollback")])
    assert begins(run, "forward") == [(1.0, 0), (1.0, 1)]
    assert back(run) == [(26.0, 1), (26.0, 0)]
    assert run.state.phase == "rolled_back"


def test_a_late_answer_after_the_way_back_changes_nothing():
    run = tried(course(1, 3), people=[say(42, "rollback")], until=75.0)
    late = decide(run.state, HostAnswered(75.0, 2, 3, "failed", "host-002")).state
    assert (late.take_back, late.reverted, late.failed) == (0b011, 0b100, 0)


def test_a_host_in_flight_that_did_not_begin_is_left_alone():
    run = tried(course(2), people=[say(3, "rollback")], work=hosts({(0, 1): "not_begun"}))
    assert back(run) == []
    assert (run.state.phase, run.state.reverted) == ("rolled_back", 0)


# ---------------------------------------------------------------- limits


def test_a_host_that_failed_keeps_its_place_while_others_go_back():
    """Hosts 0 (failed) and 3: with two away at most, one other goes at a time, until 0 is back."""
    plan = course(4, caps=WIDE)
    run = tried(plan, work=hosts({(0, 1): "failed"}), people=[say(12, "rollback")])
    assert begins(run, "forward") == [(1.0, 0), (1.0, 1), (6.0, 2), (11.0, 3)]
    assert back(run) == [(36.0, 3), (36.0, 0), (41.0, 2), (41.0, 1)]
    state = next(m.state for m in run.moments if m.event.at == 36.0)
    assert limits.away(state) == 2


def test_hosts_that_failed_may_go_back_when_they_use_up_the_limit():
    """One away at most, and it failed: bringing that very host back takes nothing more away."""
    run = tried(course(3, when="auto"), work=hosts({(1, 1): "failed"}))
    assert back(run) == [(31.0, 1), (36.0, 0)]
    assert run.state.phase == "rolled_back"


def test_the_pace_is_kept_going_back():
    plan = course(3, caps=Caps(3, 3, 3, 0, pace=7.0))
    run = tried(plan, people=[say(30, "rollback")])
    assert back(run) == [(50.0, 2), (57.0, 1), (64.0, 0)]


# ---------------------------------------------------------------- safety gates


def test_a_safety_gate_fails_on_the_way_back():
    """It holds and does not turn; good for 20 s and a bake, and it goes on by itself, slower."""
    fails = [Turn(68.0, "margin", "fail"), Turn(200.0, "margin", "pass")]
    run = tried(course(1, 4, caps=WIDE), people=[say(42, "rollback")], gates=fails)
    assert back(run)[:2] == [(66.0, 3), (66.0, 2)]
    assert span(run, "gate:margin") == (68.0, 220.0)
    assert checks.turns_back(run) == [(42.0, "back")]
    assert back(run)[2:] == [(250.0, 1), (285.0, 0)]
    assert run.state.phase == "rolled_back"


def test_a_safety_gate_fails_before_the_first_host_goes_back():
    fails = [Turn(50.0, "margin", "fail"), Turn(200.0, "margin", "pass")]
    run = tried(course(1, 3), people=[say(42, "rollback")], gates=fails)
    assert back(run)[0] == (240.0, 2)


def test_recovered_is_good_for_so_long_without_a_break():
    gap = [Turn(60.0, "margin", "inconclusive"), Turn(65.0, "margin", "pass")]
    run = tried(course(1, 3), people=[say(42, "rollback")], gates=gap)
    assert back(run)[0] == (85.0, 2)


@pytest.mark.parametrize("said", [[("bob", 60)], [("bob", 60), ("bob", 70)]])
def test_one_person_does_not_break_the_glass(said):
    fails = [Turn(40.0, "margin", "fail")]
    people = [signed(at, "rollback", by, accept_churn=True) for by, at in said]
    run = tried(course(1, 3), people=people, gates=fails, until=5000.0)
    assert back(run) == []
    assert run.state.direction == "back"


def test_two_people_break_the_glass_and_limits_still_hold():
    fails = [Turn(40.0, "margin", "fail")]
    said = {"accept_churn": True}
    people = [signed(60, "rollback", **said), signed(90, "rollback", "cid", **said)]
    run = tried(course(1, 3), people=people, gates=fails)
    assert back(run) == [(110.0, 1), (145.0, 0)]
    assert run.state.phase == "rolled_back"


def test_names_that_nobody_vouches_for_do_not_break_the_glass():
    fails = [Turn(40.0, "margin", "fail")]
    people = [
        say(50, "rollback"),
        signed(60, "rollback", accept_churn=True),
        *(say(at, "rollback", by, accept_churn=True) for at, by in ((70, "cid"), (80, "dan"))),
    ]
    run = tried(course(1, 3), people=people, gates=fails, until=5000.0)
    assert run.state.churn_accepted == ("bob",)
    assert back(run) == []
    why = refusal(run.state, say(5000, "rollback", "cid", accept_churn=True))
    assert "nobody vouches for the name cid" in why


# ---------------------------------------------------------------- hosts that do not go back


def failing_back(outcome, **fields):
    """Three hosts changed; host 2 does not go back."""
    work = hosts({(2, 2): outcome, (2, 3): "changed"})
    return tried(course(1, 3, **fields), work=work, people=[say(50, "rollback")], until=900.0)


@pytest.mark.parametrize(
    ("outcome", "hold"),
    [("failed", "limit:failures"), ("unknown", "host:host-002"), ("credentials", "host:host-002")],
)
def test_a_host_that_does_not_go_back_holds_until_a_person_says(outcome, hold):
    run = failing_back(outcome)
    assert held(run, 900.0) == [hold]
    assert back(run) == [(70.0, 2)]
    again = on(run, say(900, "retry"))
    assert back(again)[1:] == [(930.0, 2), (935.0, 1), (970.0, 0)]
    assert again.state.phase == "rolled_back"


def test_a_host_that_is_skipped_going_back_is_said():
    run = on(failing_back("failed"), say(900, "skip"))
    assert back(run)[1:] == [(930.0, 1), (965.0, 0)]
    assert run.state.finish_reasons == (
        "2 hosts are back at the former version; 1 host is not: host-002",
    )


def test_all_after_a_wave_does_not_try_a_failed_host_again():
    run = tried(course(1, 3), work=hosts({(2, 2): "failed"}),
                people=[say(50, "rollback", scope="wave")], until=900.0)  # fmt: skip
    again = on(run, say(900, "rollback"), until=2000.0)
    assert back(again) == [(70.0, 2)]
    assert held(again, 2000.0) == ["limit:failures"]


def test_abort_while_going_back_ends_when_the_hosts_in_flight_have_answered():
    people = [say(50, "rollback"), say(72, "abort", reason="enough")]
    run = tried(course(1, 3), people=people)
    assert (run.state.phase, run.state.finished_at) == ("aborted", 75.0)
    assert back(run) == [(70.0, 2)]


def test_a_pause_holds_going_back_too():
    run = tried(course(1, 3), people=[say(50, "rollback"), say(71, "pause"), say(300, "resume")])
    assert back(run) == [(70.0, 2), (330.0, 1), (365.0, 0)]


def test_a_host_that_was_to_be_tried_again_goes_back_too():
    """It failed, a person said retry, and before it was asked again another said rollback."""
    run = tried(course(2), work=hosts({(0, 1): "failed"}),
                people=[say(10, "retry"), say(11, "rollback")])  # fmt: skip
    assert back(run) == [(31.0, 0)]


def test_a_host_that_refused_us_and_was_never_changed_stays_out_of_it():
    """Its hold was about going forward; a retry does not bring it back to where it is."""
    plan = course(3, caps=Caps(1, 1, 3, 1))
    run = tried(plan, work=hosts({(1, 1): "credentials"}), people=[say(50, "rollback")])
    assert back(run) == [(70.0, 0)]
    assert run.state.phase == "rolled_back"


def test_a_failure_of_an_older_wave_is_none_on_the_way_back():
    plan = course(2, 4, caps=WIDE)
    run = tried(plan, work=hosts({(0, 1): "failed"}),
                people=[say(50, "rollback", scope="wave")], until=900.0)  # fmt: skip
    assert held(run, 900.0) == ["rollback:wave"]
    assert back(run) == [(70.0, 3), (75.0, 2)]


def test_tries_forward_do_not_count_on_the_way_back():
    work = hosts({(0, 2): "blocked", (0, 3): "blocked"})
    run = tried(course(1, 2), work=work, people=[say(50, "rollback")])
    assert run.state.phase == "rolled_back"
    blocked = hosts({(0, 1): "failed", (0, 2): "blocked", (0, 3): "blocked", (0, 4): "blocked"})
    people = [say(10, "retry"), say(70, "rollback")]
    again = tried(course(2, caps=WIDE), work=blocked, people=people, until=5000.0)
    assert again.state.phase == "rolled_back"


# ---------------------------------------------------------------- peers


def test_the_network_splits_and_every_revert_is_unknown():
    """peers case 5, nomad#3525: one attempt, then a hold; unreachable is unknown, not failed."""
    cut = {(i, 2): "unknown" for i in range(3)}
    run = tried(course(3, when="auto", gates=TWO), work=hosts(cut),
                gates=[Turn(12.0, "health", "fail")], until=50_000.0)  # fmt: skip
    assert back(run) == [(36.0, 2)]
    assert (run.state.failed, run.state.unknown) == (0, 0b100)
    assert checks.turns_back(run) == [(12.0, "back")]
    assert run.state.hold("host:host-002")
    assert not run.state.finished


def test_a_gate_fails_while_a_wave_waits_for_more_rollback():
    """peers case 4 on the way back: the gate's hold joins; a late command starts nothing."""
    fails = [Turn(200.0, "margin", "fail"), Turn(400.0, "margin", "pass")]
    people = [say(42, "rollback", scope="wave"), say(300, "rollback")]
    run = tried(course(1, 3), people=people, gates=fails)
    assert held(run, 200.0) == ["gate:margin", "rollback:wave"]
    assert held(run, 300.0) == ["gate:margin"]
    assert back(run)[2:] == [(450.0, 0)]


# ---------------------------------------------------------------- the carrier


def test_a_lost_watcher_does_not_end_a_drain():
    run = go(course(4), until=2.0)
    drained = decide(run.state, Drained(2.0)).state
    lost = decide(drained, WatcherLost(3.0, drained.watch_turn, "silent")).state
    assert lost.draining


def test_nobody_is_sent_to_roll_back_what_is_being_aborted():
    people = [say(40, "abort")]
    run = go(course(1, 3, gates=TWO), people=people, gates=[Turn(40.5, "health", "fail")],
             until=40.9)  # fmt: skip
    assert "rollback" not in advice(run.state)[-1]
