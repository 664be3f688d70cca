"""Which moments of an operation are told, and how each message ends."""

from dataclasses import replace
from itertools import pairwise

import pytest

from guardrail.decide.notice_moments import LASTS, NOTHING, mark, tidings
from guardrail.decide.notices import due, hear, saying_now, taken
from guardrail.model.board import Board
from guardrail.model.operation import State
from guardrail.model.plan import Caps
from guardrail.twins import Drive, Script, Turn, Work, drive

from builders import approval, course, gate, say


def told(state: State, at: float = 0.0) -> list[tuple[str, str, float]]:
    """What stands: what it is like, its kind, and how long it has to."""
    standing = tidings(state, "r", 1, at).standing
    return [(one.like, one.kind, one.patience) for one in standing]


def said(run: Drive) -> list[tuple[float, str]]:
    """The messages of a whole operation, as the notices' workflow would say them."""
    board, known, found = Board(), NOTHING, []

    def say_due(now: float) -> None:
        nonlocal board
        while (due_now := due(board, now)).sayings:
            for saying in due_now.sayings:
                found.append((now, saying.message.subject))
                board = taken(saying_now(board, saying, now), saying)

    for number, moment in enumerate(run.moments):
        at = moment.event.at
        while (wake := due(board, 0.0).wake_at) is not None and 0.0 < wake <= at:
            before = len(found)
            say_due(wake)
            if len(found) == before:
                break
        if (now := mark(moment.state)) != known:
            known = now
            board = hear(board, tidings(moment.state, "r", number, at), at)
    say_due(run.now + LASTS + 60.0)
    return found


def test_nothing_to_tell_while_all_goes_well_and_then_the_end():
    run = drive(course(1, 3), Script())
    assert run.state.phase == "completed"
    assert {mark(moment.state) for moment in run.moments[:-1]} == {NOTHING}
    assert told(run.state) == [("end:completed", "finish", 0.0)]
    assert [subject for _, subject in said(run)] == ["guardrail: twin has completed"]


def test_a_gate_that_fails_is_told_at_once_and_evidence_that_is_missing_only_if_it_lasts():
    bad = drive(course(1, 3), Script(gates=(Turn(40.0, "margin", "fail"),)), until=100.0)
    assert told(bad.state) == [("hold:gate:margin", "hold", 0.0)]
    gone = Turn(40.0, "margin", "inconclusive", "no_data")
    dark = drive(course(1, 3), Script(gates=(gone,)), until=100.0)
    assert told(dark.state) == [("hold:evidence:margin", "hold", LASTS)]


def test_an_approval_that_is_wanted_is_a_message_of_its_own_kind():
    run = drive(course(1, 3, approvals=(approval(),)), Script(), until=100.0)
    assert told(run.state) == [("hold:approval:start", "approval", 0.0)]
    (one,) = tidings(run.state, "r", 1, 0.0).standing
    assert one.what == "waits for approval at start"
    assert one.lines[-1].startswith("guardrail rollout approve twin")


def test_a_person_s_pause_is_told_with_who_and_why():
    pause = say(20, "pause", reason="lunch")
    run = drive(course(1, 3), Script(people=(pause,)), until=100.0)
    (one,) = tidings(run.state, "r", 1, 0.0).standing
    assert (one.like, one.patience) == ("hold:operator:bob", 0.0)
    assert "lunch" in " ".join(one.lines)
    assert one.lines[-1] == "guardrail rollout resume twin"


@pytest.mark.parametrize("verdict", ["fail", "inconclusive"])
def test_each_message_ends_with_the_state_what_happens_and_one_command(verdict):
    kind = "no_data" if verdict == "inconclusive" else None
    turn = Turn(40.0, "margin", verdict, kind)
    run = drive(course(1, 3), Script(gates=(turn,)), until=100.0)
    for one in tidings(run.state, "r", 1, 0.0).standing:
        state, unless, command = one.lines[-3:]
        assert state.startswith("twin: held on ")
        assert unless.startswith("If nobody acts ")
        assert command.startswith("guardrail ")


def test_every_failed_host_is_not_news_of_its_own():
    hosts = dict.fromkeys(range(40), "failed")
    caps = Caps(40, 40, 3, 0)
    run = drive(course(40, caps=caps), Script(work=lambda b, _: Work(outcome=hosts[b.index])),
                until=60.0)  # fmt: skip
    assert run.state.failed.bit_count() == 40
    marks = [mark(moment.state) for moment in run.moments]
    changes = sum(a != b for a, b in pairwise(marks))
    assert changes <= 8


def test_a_password_in_a_reason_is_not_told():
    pause = say(20, "pause", reason="see https://ann:hunter2@wiki/page")
    run = drive(course(1, 3), Script(people=(pause,)), until=100.0)
    (one,) = tidings(run.state, "r", 1, 0.0).standing
    assert "hunter2" not in " ".join(one.lines)


def test_a_shadow_is_said_to_be_one_and_never_together_with_others():
    plan = replace(course(1, 3), shadow=True)
    run = drive(plan, Script(gates=(Turn(40.0, "margin", "fail"),)), until=100.0)
    (one,) = tidings(run.state, "r", 1, 0.0).standing
    assert (one.like, one.what) == (
        "shadow:hold:gate:margin",
        "is held on gate:margin (shadow)",
    )


# ---------------------------------------------------------------- case 5 of what peers got wrong


def test_when_the_network_splits_and_every_revert_fails_there_is_one_rollback_a_hold_and_a_page():
    """nomad#3525: reverting failed, and was begun again and again. Here unreachable is unknown, not
    failed; there is one rollback, which holds, and a person is told of both, once."""

    def work(begin, _now):
        back = begin.direction == "back"
        return Work(outcome="unknown", reason="no answer") if back else Work()

    health = gate("boots", kind="health")
    script = Script(work=work, gates=(Turn(45.0, "boots", "fail"),))
    caps = Caps(2, 2, 3, 0)
    run = drive(course(2, 12, caps=caps, gates=(health,), when="auto"), script, until=40_000.0)
    turns = [(a.state.direction, b.state.direction) for a, b in pairwise(run.moments)]
    assert turns.count(("forward", "back")) == 1
    assert turns.count(("back", "forward")) == 0
    assert run.state.direction == "back"
    assert not run.state.finished
    assert run.state.unknown
    assert not run.state.failed
    assert any(hold.name.startswith("host:") for hold in run.state.holds)
    asked = [(begin.index, begin.direction) for moment in run.moments for begin in moment.asked]
    reverts = [index for index, direction in asked if direction == "back"]
    assert len(reverts) == len(set(reverts)), "a host was reverted twice"
    subjects = [subject for _, subject in said(run)]
    assert subjects.count("guardrail: twin is going back") == 1
    assert sum("is held on host:" in each and "(still)" not in each for each in subjects) == 1
