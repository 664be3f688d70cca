"""Does an operation hold while a freeze stands, whoever set it, and say so?

Hosts answer 5 s after they were asked, a bake takes 30 s; verdicts and freezes are told at t=1.
"""

from dataclasses import replace

import plan_builders as planning
import pytest

from guardrail.decide import freezes
from guardrail.decide.explain import advice, explain
from guardrail.decide.freezes import about, concerned, differs, reading, words
from guardrail.decide.transition import decide
from guardrail.model.freeze import Concerned, Freeze, Frozen, Lift, Seen
from guardrail.model.operation import FreezesSeen, HostAnswered, Started, State
from guardrail.model.plan import Caps
from guardrail.twins import Script, Turn, drive

from builders import course, say
from small import begins, held, hosts, span

ICE = Freeze("ice", "the site is slow", "ann", 50.0, place="command")


def plan(*ends, **fields):
    fields = {"caps": Caps(1, 1, 3, 0), "bake": 30.0} | fields
    return replace(course(*ends or (3,), **fields), freezes=True)


def go(course_, *told, work=None, gates=(), people=(), lost=()):
    script = Script(work or hosts(), tuple(gates), tuple(people), tuple(lost), 1.0)
    return drive(course_, replace(script, freezes=told), until=10_000.0)


# ---------------------------------------------------------------- the hold


def test_without_a_freeze_nothing_waits():
    assert begins(go(plan())) == [(1.0, 0), (6.0, 1), (11.0, 2)]


def test_a_freeze_at_the_start_holds_the_first_host_until_it_is_lifted():
    run = go(plan(), (0.0, (ICE,)), (200.0, ()))
    assert span(run, "freeze") == (0.0, 200.0)
    assert begins(run) == [(200.0, 0), (205.0, 1), (210.0, 2)]
    assert run.state.phase == "completed"


def test_hosts_in_flight_finish_and_after_the_end_it_bakes_first():
    run = go(plan(), (7.0, (ICE,)), (100.0, ()))
    assert begins(run) == [(1.0, 0), (6.0, 1), (130.0, 2)]
    assert span(run, "freeze") == (7.0, 100.0)
    answered = [m.event.at for m in run.moments if isinstance(m.event, HostAnswered)]
    assert answered == [6.0, 11.0, 135.0]


def test_its_own_end_ends_it_without_a_word_from_the_watch():
    run = go(plan(), (7.0, (replace(ICE, until=60.0),)))
    assert span(run, "freeze") == (7.0, 60.0)
    assert begins(run)[-1] == (90.0, 2)


def test_one_that_a_file_announces_begins_by_itself():
    ahead = Freeze("file", "holidays", "", 8.0, 60.0, place="file:/etc/freeze")
    run = go(plan(), (1.0, (ahead,)))
    assert span(run, "freeze") == (8.0, 60.0)


def test_it_ends_only_once_every_gate_passes():
    bad = (Turn(90.0, "margin", "inconclusive"), Turn(105.0, "margin", "pass"))
    run = go(plan(), (7.0, (ICE,)), (95.0, ()), gates=bad)
    assert span(run, "freeze") == (7.0, 105.0)
    state = [m.state for m in run.moments if m.event.at <= 100.0][-1]
    assert state.hold("freeze").reasons == ("the freeze is over, and not every gate passes",)


def test_nothing_begins_before_freezes_were_read():
    state = decide(State(plan(), "op"), Started(0.0)).state
    assert not freezes.are_known(state)
    ungated = replace(plan(), gates=())
    run = drive(ungated, Script(hosts(), first_report=None), until=500.0)
    assert begins(run) == []
    assert begins(drive(ungated, Script(hosts()), until=500.0))


def test_a_lost_watch_ends_no_freeze():
    run = go(plan(), (7.0, (ICE,)), (100.0, ()), lost=(50.0,))
    assert "freeze" in held(run, 50.0)
    assert span(run, "freeze")[1] >= 100.0


def test_what_an_earlier_watch_tells_changes_nothing():
    run = go(plan(), (7.0, (ICE,)))
    late = decide(run.state, FreezesSeen(500.0, run.state.watch_turn - 1, ())).state
    assert late.hold("freeze") is not None


# ---------------------------------------------------------------- told by another worker


def test_a_worker_that_refuses_holds_for_half_a_minute_and_is_asked_again():
    file = Freeze("file", "", "", 0.0, place="file:/etc/freeze")
    state = go(plan(), (7.0, (ICE,))).state
    state = decide(state, FreezesSeen(500.0, 0, (file,))).state
    state = decide(state, FreezesSeen(510.0, state.watch_turn, ())).state
    assert state.hold("freeze").reasons[0] == (
        "frozen since 1970-01-01 00:00:00Z: no reason given (file:/etc/freeze)"
    )
    decision = decide(state, FreezesSeen(511.0, state.watch_turn, ()))
    assert decision.wake_at == 530.0
    after = decide(decision.state, FreezesSeen(530.0, state.watch_turn, ())).state
    assert after.hold("freeze") is None
    assert after.frozen.elsewhere  # remembered until the next one is told
    assert decide(after, FreezesSeen(531.0, 0, (file,))).state.hold("freeze")


def test_what_the_watch_has_told_ends_when_the_watch_says_so():
    state = go(plan(), (7.0, (ICE,))).state
    state = decide(state, FreezesSeen(500.0, 0, (ICE,))).state
    state = decide(state, FreezesSeen(501.0, state.watch_turn, (ICE,))).state
    assert decide(state, FreezesSeen(502.0, state.watch_turn, ())).state.hold("freeze") is None


def test_an_operation_of_an_earlier_build_knows_nothing_of_freezes():
    old = replace(plan(), freezes=False)
    assert begins(go(old)) == [(1.0, 0), (6.0, 1), (11.0, 2)]


# ---------------------------------------------------------------- going back


def back(freeze):
    return go(plan(6), (7.0, (freeze,)), people=[say(30, "rollback")], gates=())


def test_going_back_waits_for_a_freeze_too():
    run = back(ICE)
    assert begins(run, "back") == []
    assert run.state.hold("freeze").name == "freeze"


def test_unless_who_set_it_has_said_that_it_need_not():
    run = back(replace(ICE, binds_back=False))
    assert run.state.phase == "rolled_back"
    story = [note.text for note in run.state.story]
    assert "hold freeze cleared: going back does not wait for ice" in story


# ---------------------------------------------------------------- in words


def test_it_says_since_when_by_whom_and_why_and_what_to_do():
    run = go(plan(), (7.0, (replace(ICE, until=80_000.0),)))
    lines = explain(run.state)
    assert any(
        "freeze: frozen since 1970-01-01 00:00:50Z by ann until 1970-01-01 22:13:20Z: "
        "the site is slow (command, ice)" in line
        for line in lines
    )
    hold = run.state.hold("freeze")
    assert hold.clears == (
        "its end at 1970-01-01 22:13:20Z (or guardrail freeze off ice), "
        "with every gate passing; then it bakes"
    )
    assert advice(run.state)[-1] == "guardrail freeze status"


def test_whom_it_concerns_is_said():
    told = replace(ICE, roles=("memcached",), fleets=("cache",), reason="", by="")
    assert words(told) == (
        "frozen since 1970-01-01 00:00:50Z: no reason given (command, ice), "
        "for memcached, fleet cache"
    )


def test_a_plan_shows_what_stands_and_what_could_not_be_read():
    whom = Concerned("cache", ("memcached",))
    seen = Seen((ICE, replace(ICE, name="over", until=60.0)), ("url:http://x: silent",))
    told = reading(seen, whom, 70.0)
    assert [line.partition(":")[0] for line in told] == [
        "no host begins now",
        "whether a freeze stands is not known",
    ]


# ---------------------------------------------------------------- whom it concerns


@pytest.mark.parametrize(
    ("roles", "fleets", "whom", "hit"),
    [
        ((), (), Concerned("cache", ("web",)), True),
        (("memcached",), (), Concerned("cache", ("memcached", "web")), True),
        (("memcached",), (), Concerned("cache", ("web",)), False),
        (("memcached",), (), Concerned("cache", ("web",), unknown=True), True),
        ((), ("cache",), Concerned("cache", ("web",)), True),
        ((), ("cache",), Concerned("web", ("web",)), False),
        (("web",), ("cache",), Concerned("cache", ("web",)), True),
        (("web",), ("other",), Concerned("cache", ("web",)), False),
    ],
)
def test_a_freeze_concerns_the_roles_and_fleets_that_it_names(roles, fleets, whom, hit):
    one = replace(ICE, roles=roles, fleets=fleets)
    assert bool(about([one], whom, 100.0)) == hit


def test_why_a_place_cannot_be_read_is_told_once():
    one = Freeze("unreadable", "refused", "", 1.0, place="url:x", unreadable=True)
    assert not differs([one], [replace(one, reason="timed out", since=2.0)])
    assert differs([ICE], [replace(ICE, reason="other")])
    assert differs([], [one])


# ---------------------------------------------------------------- set by command


def test_on_and_off_and_who_lifted_it():
    table = freezes.on(Frozen(), replace(ICE, place="x", since=0.0), 5.0)
    assert table.freezes == (replace(ICE, since=5.0),)
    assert "there is a freeze ice already" in freezes.refuse_on(table, ICE, 6.0)
    assert "there: ice" in freezes.refuse_off(table, Lift("snow", "bob", "over"), 6.0)
    assert "--reason" in freezes.refuse_off(table, Lift("ice", "bob", " "), 6.0)
    after = freezes.off(table, Lift("ice", "bob", "calm again"), 9.0)
    assert after.freezes == ()
    assert [(one.freeze.name, one.by, one.at) for one in after.lifted] == [("ice", "bob", 9.0)]


def test_an_end_in_the_past_and_a_missing_reason_are_refused():
    assert "is past" in freezes.refuse_on(Frozen(), replace(ICE, until=5.0), 5.0)
    assert "--reason" in freezes.refuse_on(Frozen(), replace(ICE, reason=""), 5.0)
    assert freezes.refuse_on(Frozen((replace(ICE, until=4.0),)), ICE, 5.0) is None


def test_the_hosts_without_a_role_make_every_role_concerned():
    fleet = [*planning.hosts(1, roles=("web",)), *planning.hosts(1, roles=(), prefix="other")]
    assert concerned(planning.plan(fleet)) == Concerned("cache", ("web",), unknown=True)
    assert concerned(planning.plan(fleet[:1])) == Concerned("cache", ("web",))
