"""What a person is told: the state, what happens if nobody acts, and one command."""

import pytest

from guardrail.decide.explain import advice, explain, first_hold, sentence, status
from guardrail.model.operation import State
from guardrail.model.plan import Caps
from guardrail.twins import Script, Turn, Work, drive

from builders import approval, course, say


def at(until, *, plan=None, outcome="changed", gates=(), people=()):
    script = Script(lambda *_: Work(0.0, 0.0, 5.0, outcome), tuple(gates), tuple(people))
    return drive(plan or course(2), script, until=until, name="op").state


FAIL, BACK = Turn(3.0, "margin", "fail"), Turn(50.0, "margin", "pass")


SETTLING = (
    "settling in wave 1 of 1 (to 2): waiting for the hosts in flight; "
    "0 of 2 hosts changed, 1 in flight"
)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State(course(2), "op"), "planned; nothing has begun"),
        (at(2.0), "changing hosts in wave 1 of 1 (to 2); 0 of 2 hosts changed, 1 in flight"),
        (at(20.0), "baking wave 1 of 1 (to 2): 0 of 30 s good; 2 of 2 hosts changed, 0 in flight"),
        (at(4.0, gates=[FAIL]), "held on gate:margin; 0 of 2 hosts changed, 1 in flight"),
        (at(3.0, people=[say(2, "pause"), say(3, "resume")]),
         SETTLING),
        (at(1e4), "completed: 2 of 2 hosts changed"),
    ],
)  # fmt: skip
def test_the_state_in_one_sentence(state, words):
    assert sentence(state) == words


@pytest.mark.parametrize(
    ("state", "words", "command"),
    [
        (at(2.0), "If nobody acts it goes on by itself.", "watch op"),
        (at(9.0, people=[say(2, "pause")]), "It ends by: bob (resume)", "resume op"),
        (at(9.0, outcome="failed"), "It ends by: a person: retry or skip", "retry op"),
        (at(9.0, outcome="unknown"), "It ends by: a person: retry or skip", "retry op"),
        (at(9.0, plan=course(2, approvals=[approval()])), "not the requester",
         "approve op --point start"),
        (at(9.0, gates=[FAIL]), "once the gate passes", "explain op"),
        (at(60.0, gates=[FAIL, BACK]), "once the gate passes", "resume op"),
        (at(30.0, gates=[Turn(3.0, "margin", "inconclusive")]),
         "it stays as it is until: evidence back and good for 20 s", "explain op"),
        (at(4.0, people=[say(2, "abort")]), "ends by itself", "explain op"),
    ],
)  # fmt: skip
def test_what_if_nobody_acts_and_the_one_command(state, words, command):
    said = advice(state)
    assert words in said[0]
    assert said[-1] == f"guardrail rollout {command}"


def test_hosts_that_are_down_leave_nothing_to_retry():
    full = course(2, caps=Caps(1, 1, 3, 0), down=(1, 0, 0))
    state = at(9.0, plan=full)
    hold = state.hold("limit:unavailable")
    assert hold.reasons == ("0 hosts unknown or failed and 1 down use up the limit of 1 host away",)
    assert "abort, and plan again" in hold.clears
    assert advice(state)[-1] == "guardrail rollout abort op"


def test_a_full_domain_is_named_as_the_limit():
    full = course(2, caps=Caps(4, 1, 3, 0), down=(1, 1, 0), domains=[0, 1])
    (reason,) = at(9.0, plan=full).hold("limit:unavailable").reasons
    assert reason.startswith("0 hosts unknown or failed and 2 down use up the limit of 1 host ")
    assert reason.endswith("away in each of 3 domains")


def test_hosts_come_before_gates_before_people():
    everything = at(9.0, outcome="unknown", gates=[FAIL], people=[say(2, "pause")])
    assert [hold.name for hold in everything.holds] == [
        "gate:margin",
        "host:host-000",
        "operator:bob",
    ]
    assert first_hold(everything).name == "host:host-000"
    assert first_hold(at(2.0)) is None


def test_explain_has_holds_hosts_gates_and_readings():
    lines = explain(at(9.0, outcome="unknown", gates=[FAIL]))
    for line in (
        "  gate:margin: margin: fail",
        "  host-000: unknown, as the script says",
        "  gate margin: fail: margin: fail",
    ):
        assert line in lines


def test_the_status_is_as_of_now():
    run = at(20.0, plan=course(1, 2))
    record = status(run, 26.0)
    assert (record.changed, record.in_flight, record.as_of) == (1, (), 26.0)
    assert (record.baked, record.bake_needed) == (20.0, 30.0)
    assert sum(domain.total for domain in record.domains) == 2
    assert record.changed_hosts == "1"


def test_the_status_of_a_host_is_what_was_made_of_it():
    unknown = at(9.0, outcome="unknown")
    assert [x.outcome for x in status(unknown, 9.0).exceptional] == ["unknown"]
    skipped = at(20.0, outcome="unknown", people=[say(10, "skip")])
    assert [x.outcome for x in status(skipped, 20.0).exceptional] == ["set aside"]
