"""Whose consent counts: what a policy says of it, and what becomes of it in an operation."""

from dataclasses import replace

import pytest
from plan_builders import hosts

from guardrail.decide.commands import refusal
from guardrail.decide.explain import advice
from guardrail.decide.merge import resolve, terms_of
from guardrail.decide.people import consents, needs_signature
from guardrail.decide.signing import statement
from guardrail.decide.transition import decide
from guardrail.errors import InvalidFile, Refused
from guardrail.files import parse
from guardrail.model.policy import Approvals, Match, Policy
from guardrail.twins import Script, Turn, drive

from builders import approval, course, say, signed
from small import begins, go, held, span

# ---------------------------------------------------------------- policies


def policy(name, approvals):
    return Policy(name, Match(), approvals=approvals)


@pytest.mark.parametrize(
    ("asked", "verified"),
    [
        ([Approvals(("start",), 1)], False),
        ([Approvals(("start",), 2)], True),
        ([Approvals(("start",), 1, verified=True)], True),
        ([Approvals(("start",), 1), Approvals(("10%",), 1, verified=True)], True),
        ([Approvals(("start",), 3), Approvals(("10%",), 1)], True),
    ],
)
def test_people_are_verified_where_any_policy_says_so_or_wants_two(asked, verified):
    said = [policy(f"p{n}", each) for n, each in enumerate(asked)]
    for these in (said, said[::-1]):
        assert resolve(terms_of(these, "f", "consul", hosts(3))).verified is verified


POLICY = """
apiVersion: guardrail/v1
kind: Policy
metadata: {name: p}
spec:
  match: {}
  approvals: {at: [start], %s}
"""


@pytest.mark.parametrize(
    ("written", "verified"),
    [("count: 1", False), ("count: 2", True), ("verified: true", True), ("verified: false", False)],
)
def test_a_file_says_whether(written, verified):
    (found,) = parse(POLICY % written, "p.yaml").policies
    assert found.approvals.verified is verified


def test_two_people_whom_nobody_vouches_for_are_refused_with_the_line():
    with pytest.raises(InvalidFile) as wrong:
        parse(POLICY % "count: 2, verified: false", "p.yaml")
    assert "p.yaml:7:" in str(wrong.value)
    assert "never make two people" in str(wrong.value)


# ---------------------------------------------------------------- operations


def test_two_names_from_the_environment_are_nobody():
    plan = course(1, approvals=[approval(count=2)])
    run = go(plan, people=[say(2, "approve", "bob", point="start"),
                           say(3, "approve", "cid", point="start")], until=500.0)  # fmt: skip
    assert span(run, "approval:start") == (0.0, None)
    assert begins(run) == []
    assert consents(run.state, plan.approvals[0]) == ()
    assert "--sign KEYFILE" in advice(run.state)[-1]


def test_one_key_is_one_person():
    plan = course(1, approvals=[approval(count=2)])
    state = drive(plan, Script(people=(signed(2, "approve", point="start"),)), until=3.0).state
    twice = replace(signed(3, "approve", "robert", point="start"), key="SHA256:bob")
    assert refusal(state, twice) == "this key has approved start already, as bob"
    assert refusal(state, signed(3, "approve", "cid", point="start")) is None


def test_who_asked_is_known_by_every_name():
    plan = course(1, approvals=[approval(count=2)])
    state = drive(plan, Script(), until=3.0).state
    alias = signed(3, "approve", "ann@example.com", point="start", groups=("ann",))
    assert "wants somebody else" in refusal(state, alias)


def test_one_other_person_need_not_sign_unless_the_policy_says_so():
    assert not needs_signature(approval())
    assert needs_signature(replace(approval(), verified=True))
    plan = course(1, approvals=[replace(approval(), verified=True)])
    state = drive(plan, Script(), until=3.0).state
    assert "nobody vouches for the name bob" in refusal(state, say(3, "approve", point="start"))
    assert refusal(state, signed(3, "approve", point="start")) is None


def test_a_late_approval_over_a_failing_gate_starts_nothing():
    people = [signed(50, "approve", by, point="start") for by in ("bob", "cid")]
    plan = course(2, approvals=[approval(count=2)])
    run = go(plan, people=people, gates=[Turn(20.0, "margin", "fail")], until=900.0)
    assert held(run, 900.0) == ["gate:margin"]
    assert begins(run) == []


def test_another_lifts_a_pause_only_over_its_owner_who_is_told():
    state = drive(course(3), Script(people=(say(2, "pause"),)), until=3.0).state
    assert "operator:bob ends by bob (resume)" in refusal(state, say(3, "resume", "cid"))
    assert "needs --reason" in refusal(state, say(3, "resume", "cid", over="bob"))
    after = decide(state, say(3, "resume", "cid", over="bob", reason="he sleeps")).state
    assert after.holds == ()
    told = [note.text for note in after.story]
    assert "bob, who is told: cid lifts your hold, he sleeps" in told


# ---------------------------------------------------------------- what is signed


def test_the_statement_is_these_lines():
    text = statement("consul-1.8.8", "sha256:9f", say(1, "approve", point="start"))
    assert text == (
        "guardrail statement 1\nverb: approve\noperation: consul-1.8.8\nplan: sha256:9f\n"
        "point: start\n"
    )
    asked = say(1, "override", limit="unavailable", value=3.0, until=62.0, reason="two racks")
    assert statement("op", "p", asked).splitlines()[4:] == [
        *("limit: unavailable", "value: 3", "until: 1970-01-01T00:01:02Z", "reason: two racks")
    ]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("sha256:a8", say(1, "approve", point="start")),
        ("sha256:9f", say(1, "approve", point="10%")),
        ("sha256:9f", say(1, "rollback")),
        ("sha256:9f", say(1, "rollback", accept_churn=True)),
        ("sha256:9f", say(1, "rollback", scope="wave")),
        ("sha256:9f", say(1, "override", limit="failures", value=2.0, until=9.0, reason="x")),
        ("sha256:9f", say(1, "override", limit="failures", value=3.0, until=9.0, reason="x")),
        ("sha256:9f", say(1, "override", limit="failures", value=2.0, until=10.0, reason="x")),
    ],
)
def test_other_words_or_another_plan_need_another_signature(plan, said):
    seen = statement("op", "sha256:9f", say(1, "approve", point="start"))
    assert statement("op", plan, said) != seen
    assert statement("other", plan, said) != statement("op", plan, said)


@pytest.mark.parametrize(
    "said",
    [
        say(1, "approve", point="start\nplan: sha256:other"),
        say(1, "approve"),
        say(1, "pause"),
        say(1, "override", limit="unavailable", value=3.0, until=62.0, reason="a\nb"),
        say(1, "override", limit="unavailable", value=3.0, until=float("nan"), reason="a"),
    ],
)
def test_what_could_be_read_in_two_ways_is_not_signed(said):
    with pytest.raises(Refused):
        statement("op", "sha256:9f", said)
