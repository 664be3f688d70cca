"""After a long hold the plan is compared with the world before the next host begins."""

from dataclasses import replace

import plan_builders as pb
import pytest

from guardrail.contracting import since
from guardrail.decide.commands import refusal
from guardrail.decide.explain import explain
from guardrail.decide.found import Seen
from guardrail.model.operation import PlanObserved, WatchAgain
from guardrail.twins import Script, drive

from builders import course, say
from small import begins, drive_on, hosts

PAUSE = (say(20, "pause"), say(4000, "resume"))
WENT = ("1 host went: host-009",)


def paused(*moved, people=PAUSE, until=20_000.0, after=3600.0):
    """A rollout that is paused during its first bake; what has moved, each time somebody looks."""
    left = list(moved)
    script = Script(hosts(), people=people, moved=lambda _now: left.pop(0) if left else ((), ""))
    return drive(replace(course(1, 3), observe_after=after), script, until=until)


def looks(run):
    return [moment.event.at for moment in run.moments for _ in moment.looks]


def test_a_long_hold_is_followed_by_a_look_and_then_hosts_begin():
    run = paused()
    assert looks(run) == [4030.0]  # resumed, and baked
    assert begins(run)[1] == (4031.0, 1)
    assert run.state.phase == "completed"


@pytest.mark.parametrize("resumed", [100, 3600])
def test_a_short_hold_is_not(resumed):
    run = paused(people=(say(20, "pause"), say(resumed, "resume")))
    assert looks(run) == []
    assert run.state.phase == "completed"


def test_never_where_the_course_says_so():
    assert looks(paused(after=0.0)) == []


def test_what_has_moved_holds_with_reasons_and_a_person_accepts_it_by_name():
    run = paused((WENT, ""), until=9000.0)
    held = run.state.hold("plan")
    assert held.reasons == ("since the plan was made: 1 host went: host-009",)
    assert "resume --over plan" in held.clears
    assert "plan" in explain(run.state)[0]
    assert len(begins(run)) == 1
    assert refusal(run.state, say(9000, "resume")) is not None
    assert "needs --reason" in refusal(run.state, say(9000, "resume", over="plan"))
    run = drive_on(run, say(9000, "resume", over="plan", reason="it was scrapped"), until=20_000.0)
    assert begins(run)[1] == (9030.0, 1)
    assert run.state.phase == "completed"
    assert len(looks(run)) == 1


def test_nobody_who_could_look_is_asked_again():
    run = paused(((), "the inventory is silent"))
    assert looks(run)[:2] == [4030.0, 4061.0]
    assert "the inventory is silent" in "; ".join(note.text for note in run.state.story)
    assert run.state.phase == "completed"


def test_that_cannot_be_accepted_by_a_person():
    run = paused(*[((), "silent")] * 5, until=4050.0)
    assert refusal(run.state, say(4050, "resume", over="plan", reason="go")) is not None


def test_an_answer_of_another_turn_changes_nothing_and_a_new_run_asks_anew():
    run = paused(until=4030.5)
    run = drive_on(run, PlanObserved(4030.6, 7, WENT), until=4030.7)
    assert run.state.hold("plan") is None
    run = drive_on(run, WatchAgain(4030.7), until=20_000.0)
    assert run.state.observe_turn == 2
    assert run.state.phase == "completed"


def test_going_back_nothing_is_compared():
    run = paused(people=(say(20, "pause"), say(4000, "rollback"), say(4001, "resume")))
    assert run.state.phase == "rolled_back"
    assert looks(run) == []


# ---------------------------------------------------------------- what is compared


def test_hosts_of_this_operation_are_not_compared_and_others_are():
    then = pb.plan(pb.hosts(4))
    seen = {"cache-001": Seen(pb.NEW, pb.NEW), "cache-002": Seen(pb.NEW, pb.NEW)}
    now = pb.plan(pb.hosts(4), seen=seen)
    assert since(pb.request(), then, now, 0b11) == ()
    (reason,) = since(pb.request(), then, now, 0b01)
    assert "cache-002" in reason


def test_policies_are_compared_by_digest():
    then = pb.plan(pb.hosts(2), policies=(pb.policy("p"),))
    now = replace(then, policies=(("p", "sha256:other"),))
    assert since(pb.request(), then, now, 0) == (
        "policy p is not the one that the plan was made with",
    )
