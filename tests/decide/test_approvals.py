"""Whose consent counts: what a policy says of it, and what becomes of it in an operation."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_builders import hosts

from guardrail.decide.commands import refusal
from guardrail.decide.explain import advice
from guardrail.decide.merge import resolve, terms_of
from guardrail.decide.people import consents, needs_signature, wanted
from guardrail.decide.signing import start_statement, statement
from guardrail.decide.transition import decide
from guardrail.errors import InvalidFile, Refused
from guardrail.files import parse
from guardrail.model.identity import Signer
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


ANN = Signer("ann", ("storage-oncall", "ann@example.com"), "SHA256:ann")


def test_whoever_signed_the_start_is_known_by_name_and_by_key():
    plan = course(1, approvals=[approval(count=2)])
    state = drive(plan, Script(asked_by=ANN), until=3.0).state
    for other in (
        replace(signed(3, "approve", "anna", point="start"), key="SHA256:ann"),
        signed(3, "approve", "ann@example.com", point="start"),
        signed(3, "approve", "ann.lee", point="start", groups=("ann",)),
    ):
        assert "wants somebody else" in refusal(state, other), other
    colleague = signed(3, "approve", "bob", point="start", groups=("storage-oncall",))
    assert refusal(state, colleague) is None, "they may speak for the same team"


def test_where_nobody_vouches_for_who_asked_one_more_has_to_sign():
    plan = course(1, approvals=[approval(count=2)])
    people = [signed(2 + n, "approve", by, point="start") for n, by in enumerate(("bob", "cid"))]
    alone = drive(plan, Script(people=tuple(people)), until=500.0)
    assert [hold.name for hold in alone.state.holds] == ["approval:start"]
    (hold,) = alone.state.holds
    assert hold.reasons[0].startswith("2 of 3 approvals for start")
    assert "nobody vouches for ann who asked" in hold.reasons[1]
    assert "rollout start PLAN --sign KEYFILE" in hold.reasons[1]
    assert hold.clears.startswith("1 more people, not the requester")
    more = (*people, signed(9, "approve", "dee", point="start"))
    assert drive(plan, Script(people=more)).state.phase == "completed"
    known = drive(plan, Script(people=tuple(people), asked_by=ANN))
    assert known.state.phase == "completed"


def test_where_the_requester_may_agree_or_names_do_it_does_not_matter_who_asked():
    own = replace(approval(count=2), not_requester=False)
    for point, most in ((own, 2), (approval(), 1), (replace(approval(), verified=True), 2)):
        assert wanted(drive(course(1, approvals=[point]), Script(), until=2.0).state, point) == most


KEYS = st.sampled_from(["k1", "k2", "k3", "k4"])
NAMES = st.sampled_from(["ann", "bob", "cid", "dee", "eve"])


@given(
    said=st.lists(st.tuples(NAMES, KEYS, st.booleans()), max_size=8),
    asked=st.one_of(st.none(), KEYS),
    count=st.integers(1, 3),
)
def test_so_many_others_than_who_asked_have_signed_whoever_that_is(said, asked, count):
    """Whatever names and keys are used, and whichever key is really the requester's."""
    signer = Signer("ann", (), asked) if asked else Signer()
    point = replace(approval(count=count), verified=True)
    people = [
        (signed if vouched else say)(2 + n, "approve", by, point="start")
        for n, (by, key, vouched) in enumerate(said)
    ]
    people = [
        replace(each, key=key) if each.verified else each
        for each, (_, key, _) in zip(people, said, strict=True)
    ]
    plan = course(1, approvals=[point], bake=0.0)
    run = drive(plan, Script(people=tuple(people), asked_by=signer), until=60.0)
    keys = {each.key for each in run.state.approved if each.verified}
    might_be = [asked] if asked else ["k1", "k2", "k3", "k4", "none of these"]
    others = min(len(keys - {mine}) for mine in might_be)
    if run.begun:
        assert others >= count
    assert run.begun or not others > count


def test_one_other_person_need_not_sign_unless_the_policy_says_so():
    assert not needs_signature(approval())
    assert needs_signature(replace(approval(), verified=True))
    plan = course(1, approvals=[replace(approval(), verified=True)])
    state = drive(plan, Script(), until=3.0).state
    assert "nobody vouches for the name bob" in refusal(state, say(3, "approve", point="start"))
    assert refusal(state, signed(3, "approve", point="start")) is None


def test_a_late_approval_over_a_failing_gate_starts_nothing():
    people = [signed(50, "approve", by, point="start") for by in ("bob", "cid", "dee")]
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


def test_the_statement_of_a_start_is_these_lines():
    assert start_statement("consul-1.8.8", "sha256:9f", shadow=False) == (
        "guardrail statement 1\nverb: start\noperation: consul-1.8.8\nplan: sha256:9f\nshadow: no\n"
    )
    real = start_statement("op", "sha256:9f", shadow=False)
    assert start_statement("op", "sha256:9f", shadow=True) != real
    assert start_statement("op", "sha256:9e", shadow=False) != real
    with pytest.raises(Refused):
        start_statement("op\nplan: x", "sha256:9f", shadow=False)


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
