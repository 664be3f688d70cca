"""Is what a rollback is said to do what it then does, and does saying so change nothing?"""

from dataclasses import replace

import pytest

from guardrail.decide.bits import members
from guardrail.decide.transition import decide
from guardrail.decide.way_back import in_words, way_back
from guardrail.model.operation import Commanded
from guardrail.twins import Script, Turn, Work, drive

from builders import course, say, signed

FAIL = Turn(40.0, "margin", "fail")


def at(until, *, plan=None, gates=(), people=(), outcome="changed"):
    script = Script(lambda *_: Work(0.0, 0.0, 5.0, outcome), tuple(gates), tuple(people))
    return drive(plan or course(2, 4), script, until=until, name="op").state


def ask(state, now=60.0, *, scope="all", churn=False, by="ann"):
    said = Commanded(now, "rollback", by, scope=scope, accept_churn=churn, verified=churn)
    return way_back(state, said)


def test_it_names_the_hosts_that_then_go_back():
    state = at(60.0)
    way = ask(state)
    assert state == at(60.0), "asking changes nothing"
    obeyed = decide(state, Commanded(60.0, "rollback", "ann")).state
    assert list(members(int(way.hosts, 16))) == list(members(obeyed.take_back))
    assert way.count == state.changed.bit_count() + len(state.in_flight)


def test_a_wave_is_the_last_one_and_says_that_it_holds_then():
    state = at(60.0)
    assert state.wave == 1
    way = ask(state, scope="wave")
    assert int(way.hosts, 16) & 0b11 == 0
    assert "of the last wave" in in_words(way)[0]
    assert "then it holds until --scope all" in in_words(way)[0]


def test_a_failing_safety_gate_is_named_as_what_it_waits_for():
    way = ask(at(60.0, gates=[FAIL]))
    assert [hold.name for hold in way.holds] == ["gate:margin"]
    words = " ".join(in_words(way))
    assert "margin (fail now)" in words
    assert "held on gate:margin" in words


def test_with_two_who_accept_churn_no_gate_binds_and_limits_do():
    state = at(60.0, gates=[FAIL])
    one = decide(state, signed(60.0, "rollback", "ann", accept_churn=True)).state
    way = ask(one, 61.0, churn=True, by="bob")
    assert [gate.binds for gate in way.gates] == [False]
    assert way.holds == ()
    assert way.away == one.course.caps.unavailable
    assert "gates that do not stand in its way: margin" in " ".join(in_words(way))


@pytest.mark.parametrize("people", [[], [say(2, "abort", reason="x")]])
def test_what_cannot_be_asked_says_why(people):
    plan = replace(course(2, 4), rollback_when="never")
    state = at(3.0, plan=plan, people=people)
    way = ask(state, 4.0)
    assert way.refused
    assert (way.hosts, way.count) == ("0", 0)
    assert in_words(way) == (f"no rollback now: {way.refused}",)
