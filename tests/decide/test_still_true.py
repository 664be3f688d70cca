"""Changed hosts are read again at each stage's end, and nothing goes on without them (rule 11)."""

from dataclasses import replace

import pytest

from guardrail.decide import still_true
from guardrail.decide.explain import explain
from guardrail.model.operation import HostFound, HostsRead, WatchAgain
from guardrail.twins import Script, drive

from builders import course, say
from small import begins, drive_on, go, hosts


def found(index, *, answered=True, away=False):
    """A host that is at the former version, or silent, or at it and not running."""
    what = "at 1, not at 2" if answered else "does not answer"
    return HostFound(index, f"host-{index:03d}", what, answered, away)


def once(*wrong):
    """What is found the first time that each of these hosts is read; the next time all is well."""
    left = {one.index: one for one in wrong}
    return lambda index, _now: left.pop(index, None)


def reads(run):
    """(when, how many hosts) of each reading that was asked for."""
    asked = [(moment.event.at, read) for moment in run.moments for read in moment.reads]
    return [(at, read.hosts.bit_count()) for at, read in asked]


def test_all_are_read_at_each_stage_and_before_the_end():
    run = go(course(1, 3, reread=100))
    # host 0 answers at 6, its bake ends at 36; hosts 1, 2 at 42 and 47, their bake at 77
    assert reads(run) == [(36.0, 1), (77.0, 3)]
    assert begins(run)[1] == (37.0, 1)  # the reading takes a second
    assert run.state.phase == "completed"
    assert run.state.finished_at == 78.0
    assert "3 changed hosts read again: all as they should be" in run.state.story[-2].text


def test_waves_of_one_stage_are_read_once():
    plan = course(1, 3)
    one = replace(plan, waves=tuple(replace(wave, stage="100%") for wave in plan.waves), reread=100)
    assert [count for _, count in reads(go(one))] == [3]


def test_nothing_is_read_where_the_course_says_so():
    assert reads(go(course(1, 3, reread=0))) == []


@pytest.mark.parametrize(
    ("changed", "share", "read"), [(3, 10, 3), (20, 10, 5), (80, 10, 8), (81, 10, 9), (81, 100, 81)]
)  # fmt: skip
def test_a_tenth_and_at_least_five_are_read(changed, share, read):
    state = replace(go(course(changed), until=0.0).state, changed=(1 << changed) - 1)
    state = replace(state, course=replace(state.course, reread=share))
    assert still_true.sample(state).bit_count() == read


def test_the_sample_is_drawn_by_the_plan_and_the_wave():
    state = replace(go(course(200), until=0.0).state, changed=(1 << 200) - 1)
    state = replace(state, course=replace(state.course, reread=10))
    again = still_true.sample(replace(state))
    assert still_true.sample(state) == again
    assert still_true.sample(replace(state, wave=1)) != again
    other = replace(state, course=replace(state.course, plan="sha256:y"))
    assert still_true.sample(other) != again


def reverted(*wrong, people=(), until=10_000.0, **fields):
    script = Script(hosts(), people=people, reread=once(*wrong))
    return drive(course(1, 3, reread=100, **fields), script, until=until)


def test_a_host_put_back_by_hand_holds_and_is_named():
    run = reverted(found(0), until=500.0)
    held = run.state.hold("reverted")
    assert held.reasons == ("host-000 is at 1, not at 2",)
    assert held.hosts == (0,)
    assert "a person" in held.clears
    assert not run.state.changed
    assert begins(run) == [(1.0, 0)]
    text = explain(run.state)
    assert text[-1] == "guardrail rollout retry twin"


def test_a_retry_changes_it_again_with_a_turn_of_its_own_and_bakes():
    run = reverted(found(0), people=(say(100, "retry"),))
    assert begins(run)[:3] == [(1.0, 0), (130.0, 0), (166.0, 1)]
    assert run.state.phase == "completed"
    assert run.state.changed.bit_count() == 3
    assert run.state.turn == 4


def test_a_skip_leaves_it_out_by_name():
    run = reverted(found(0), people=(say(100, "skip"),))
    assert run.state.phase == "completed"
    assert "left out: host-000" in run.state.finish_reasons[0]


def test_a_rollback_takes_it_back_too():
    run = reverted(found(0), people=(say(100, "rollback"),))
    assert run.state.phase == "rolled_back"
    assert run.state.reverted == 1
    assert begins(run, "back")


def test_a_host_that_does_not_run_counts_as_away():
    run = reverted(found(0, away=True), people=(say(90, "retry"),), until=95.0)
    assert run.state.astray == 1
    assert drive_on(run).state.phase == "completed"


def test_silent_hosts_are_read_once_more_and_nothing_goes_on_meanwhile():
    run = reverted(found(0, answered=False))
    held = [m for m in run.moments if m.state.hold("reread")]
    assert held[0].state.hold("reread").reasons == ("host-000 does not answer",)
    assert reads(run)[:2] == [(36.0, 1), (67.0, 1)]  # read at 37, and 30 s later
    assert begins(run)[1] == (98.0, 1)  # answered at 68, and a bake
    assert run.state.phase == "completed"


def test_a_reading_that_broke_holds_and_is_made_again():
    run = go(course(1, 3, reread=100), until=36.5)
    run = drive_on(run, HostsRead(36.6, 1, 0, problem="no store"), until=60.0)
    assert "no store" in run.state.hold("reread").reasons[0]
    assert drive_on(run).state.phase == "completed"


def test_an_answer_of_another_turn_changes_nothing():
    run = go(course(1, 3, reread=100), until=36.5)
    before = run.state
    late = drive_on(run, HostsRead(36.6, 7, 1, (found(0),)), until=36.7)
    assert late.state.changed == before.changed
    assert not late.state.holds


def test_a_new_run_reads_anew():
    run = go(course(1, 3, reread=100), until=36.5)
    run = drive_on(run, WatchAgain(36.6), until=36.7)
    assert run.state.rereading == 0
    assert drive_on(run).state.phase == "completed"
    assert run.state.reread_turn == 3  # one was lost


def test_a_pause_makes_the_reading_old():
    run = go(course(1, 3, reread=100), people=(say(36.5, "pause"), say(200, "resume")))
    assert [at for at, _ in reads(run)] == [36.0, 230.0, 271.0]


def test_more_than_can_be_named_is_read_again_as_a_whole():
    run = go(course(1, 3, reread=100), until=36.5)
    run = drive_on(run, HostsRead(36.6, 1, 200, (found(0),), more=3), until=36.7)
    assert {hold.name for hold in run.state.holds} == {"reread", "reverted"}
    assert "3 more" in run.state.hold("reread").reasons[0]


def test_it_is_said_which_hosts_are_read():
    assert (
        still_true.share_in_words(still_true.share_of(cache_critical=True)) == "all changed hosts"
    )
    some = still_true.share_in_words(still_true.share_of(cache_critical=False))
    assert some.startswith("10% of the changed hosts, at least 5")
    assert still_true.share_in_words(0) == ""


def test_the_sentence_says_that_hosts_are_read():
    run = go(course(1, 3, reread=100), until=36.5)
    assert "reading changed hosts again" in explain(run.state)[0]


# ---------------------------------------------------------------- hosts that came since


def with_arrivals(*names, **fields):
    script = Script(hosts(), arrived=names)
    return drive(course(1, 3, reread=100, **fields), script, until=10_000.0)


def test_hosts_that_came_since_are_left_out_by_name():
    run = with_arrivals("host-007", "host-008")
    assert run.state.finish_reasons == (
        (
            "3 of 3 hosts changed; 2 hosts came since the plan was made and are left out: "
            "host-007, host-008"
        ),
    )


def test_they_are_looked_for_with_the_last_reading_only():
    run = with_arrivals()
    asked = [read.arrivals for moment in run.moments for read in moment.reads]
    assert asked == [False, True]
    assert run.state.finish_reasons == ("3 of 3 hosts changed",)


def test_they_are_looked_for_where_no_host_was_changed_too():
    script = Script(hosts({(0, 1): "gone"}), arrived=("new",))
    run = drive(course(1, reread=100), script)
    assert "1 host came since the plan was made and is left out: new" in run.state.finish_reasons[0]


def test_more_than_are_named_are_counted():
    run = go(course(1, reread=100), until=36.5)
    run = drive_on(run, HostsRead(36.6, 1, 1, arrived=("a", "b"), others=7))
    assert run.state.finish_reasons[0].endswith("9 hosts came since the plan was made and are left "
                                                "out: a, b and 7 more")  # fmt: skip
