"""Who may exceed a limit, for how long, and what happens when time is up (times by hand)."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardrail.decide import overrides
from guardrail.decide.commands import answer, obey, refusal
from guardrail.decide.explain import explain, status
from guardrail.decide.limits import most_away, next_begin_at
from guardrail.decide.overrides import caps_now
from guardrail.decide.record import entries
from guardrail.decide.transition import decide
from guardrail.model.common import Origin
from guardrail.model.identity import Signer
from guardrail.model.operation import Ticked
from guardrail.model.plan import Caps, Limit, Word
from guardrail.twins import Script, Work, drive

import checks
from builders import approval, course, say, signed, stories
from small import begins, drive_on, go, held, hosts, span

CAPS = Caps(1, 1, 1, 0, failures_consecutive=3, pace=10.0)
ORIGIN = Origin("policy cache-critical", "cache.yaml", 9)


def owned(plan, limit="unavailable", *words):
    said = words or (Word("cache-critical", 1.0, ("storage-oncall", "dee")),)
    return replace(plan, limits=(Limit(limit, "1", 1.0, "hosts", ORIGIN, said),))


def over(at, limit="unavailable", value=3.0, *, until=None, by="bob", reason="late", **more):
    until = float(int(at) + 60) if until is None else until
    return say(at, "override", by, limit=limit, value=value, until=until, reason=reason, **more)


def running(plan=None, until=2.0, **script):
    return drive(plan or course(6, caps=CAPS), Script(**script), until=until).state


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (over(2, limit="wave"), "waves are cut before the start"),
        (over(2, limit="grace"), "grace cannot be overridden"),
        (over(2, limit=""), "Limits that can: unavailable, unavailablePerDomain"),
        (over(2, reason=" "), "needs --reason"),
        (over(2, value=1.0), "unavailable is 1 already"),
        (over(2, value=0.0), "from 1 on"),
        (over(2, value=2.5), "unavailable is in hosts, from 1 on; not 2.5"),
        (over(2, value=float("nan")), "unavailable is in hosts"),
        (over(2, "pace.between", 20.0), "an override allows more, never less"),
        (over(2, "pace.between", -1.0), "pace.between is in seconds, from 0 on"),
        (over(2, until=2.0), "over already"),
        (over(2, until=float("nan")), "over already (no time)"),
        (over(2, until=float("inf")), "24 h at the most"),
        (over(2, until=2.0 + 86_500.0), "24 h at the most"),
        (over(2, until=30.5), "to a whole second"),
    ],
)
def test_refused(said, words):
    state = running()
    why = refusal(state, said)
    assert why is not None
    assert words in why
    assert obey(state, said) == state


def test_a_limit_that_the_plan_has_not_cannot_be_exceeded():
    state = running(course(6, caps=replace(CAPS, failures_consecutive=None)))
    why = refusal(state, over(2, "failures.consecutive", 2.0))
    assert why == "this plan has no limit failures.consecutive: there is nothing to override"


def test_less_than_the_plan_allows_is_no_override():
    state = running(course(6, caps=replace(CAPS, unavailable=4)))
    assert "allows unavailable 4; an override allows more" in refusal(state, over(2))


def test_who_asked_for_it_overrides_nothing_where_somebody_else_must_agree():
    plan = course(6, caps=CAPS, approvals=(approval(),))
    state = running(plan)
    assert "somebody else has to override" in refusal(state, over(2, by="ann"))
    alias = over(2, by="ann@example.com", verified=True, groups=("ann",))
    assert "somebody else has to override" in refusal(state, alias)
    assert refusal(state, over(2)) is None
    assert refusal(running(), over(2, by="ann")) is None


def test_where_two_must_agree_a_name_from_the_environment_overrides_nothing():
    plan = course(6, caps=CAPS, approvals=(approval(count=2),))
    state = replace(running(plan), asked_by=Signer("ann", (), "SHA256:ann"))
    assert "nobody vouches for the name bob" in refusal(state, over(2))
    assert refusal(state, over(2, verified=True)) is None
    own = over(2, by="anna", verified=True, key="SHA256:ann")
    assert "anna asked for this operation" in refusal(state, own)


def test_where_two_others_must_agree_nobody_overrides_what_nobody_vouches_for():
    state = running(course(6, caps=CAPS, approvals=(approval(count=2),)))
    why = refusal(state, over(2, verified=True, key="SHA256:bob"))
    assert "nobody vouches for ann who asked" in why
    assert "rollout start PLAN --sign" in why


# ---------------------------------------------------------------- what it allows


def test_who_borrows_failures_may_use_them_in_any_wave():
    state = running(course(6, caps=replace(CAPS, failures_share=0.02)))
    assert caps_now(decide(state, over(2, "failures", 2.0)).state).failures_share is None
    assert caps_now(decide(state, over(2, "unavailable", 2.0)).state).failures_share == 0.02


@pytest.mark.parametrize(
    ("limit", "value", "caps"),
    [
        ("unavailable", 3.0, Caps(3, 1, 1, 0, 3, 10.0)),
        ("unavailablePerDomain", 2.0, Caps(1, 2, 1, 0, 3, 10.0)),
        ("domainsAtOnce", 2.0, Caps(1, 1, 2, 0, 3, 10.0)),
        ("failures", 2.0, Caps(1, 1, 1, 2, 3, 10.0)),
        ("failures.consecutive", 5.0, Caps(1, 1, 1, 0, 5, 10.0)),
        ("pace.between", 2.5, Caps(1, 1, 1, 0, 3, 2.5)),
    ],
)
def test_one_limit_and_no_other(limit, value, caps):
    state = decide(running(), over(2, limit, value)).state
    assert caps_now(state) == caps
    assert state.course.caps == CAPS
    assert type(caps_now(state).unavailable) is int


def test_two_of_them_and_the_newer_of_one_limit():
    state = running()
    for said in (over(2), over(3, "pace.between", 0.0), over(4, value=2.0, until=9.0)):
        state = decide(state, said).state
    assert [(each.limit, each.value) for each in state.overrides] == [
        ("pace.between", 0.0),
        ("unavailable", 2.0),
    ]
    assert most_away(state) == 2
    assert next_begin_at(state) is None
    later = decide(state, Ticked(9.0)).state
    assert most_away(later) == 1


def test_it_is_in_force_up_to_its_end_and_no_longer():
    """Hosts take 5 s, one at a time: 0 at t=1; with 3 allowed from 2 to 8: 1, 2 at 2, 3 at 6."""
    wide = Caps(1, 3, 3, 0)
    run = go(course(9, caps=wide), people=[over(2, until=8.0)], work=hosts(takes=5.0))
    assert begins(run)[:6] == [(1.0, 0), (2.0, 1), (2.0, 2), (6.0, 3), (7.0, 4), (7.0, 5)]
    assert 8.0 in [moment.event.at for moment in run.moments], "it is looked at its end"
    assert held(run, 8.0) == ["override"]
    assert span(run, "override") == (8.0, 12.0)
    assert begins(run)[6] == (42.0, 6), "then what is in flight settled, and a bake of 30 s"
    assert run.state.phase == "completed"


def test_nothing_is_held_when_no_more_are_away_than_the_plan_allows():
    run = go(course(4, caps=Caps(1, 1, 3, 0)), people=[over(2, "unavailablePerDomain", until=3.0)])
    assert not any(moment.state.hold("override") for moment in run.moments)


def test_hosts_that_have_not_begun_when_it_ends_do_not_begin():
    """Three asked at t=2 are ready at 12; the override is over at 8."""

    def slow(begin, now):
        return Work(ready=10.0, go=0.1, takes=5.0, outcome="changed")

    plan = course(4, caps=Caps(1, 3, 3, 0))
    run = drive(plan, Script(work=slow, people=(over(2, until=8.0),), first_report=1.0), until=13.0)
    assert begins(run) == [(1.0, 0), (2.0, 1), (2.0, 2)]
    assert [begun.index for begun in run.begun if begun.at > 8.0] == []


def test_its_own_value_takes_it_back_at_once():
    state = decide(running(), over(2)).state
    back = over(5, value=1.0, until=0.0)
    after = decide(state, back).state
    assert after.overrides == ()
    assert answer(after, back) == "unavailable is what the plan says again"
    assert "taken back by bob" in after.story[-1].text


def test_more_failures_are_borne_while_it_lasts():
    plan = course(1, 4, caps=Caps(2, 2, 3, 0))
    work = hosts({(1, 1): "failed"})
    run = go(plan, work=work, until=100.0)
    assert held(run, 100.0) == ["limit:failures"]
    borne = drive_on(run, over(100, "failures", 1.0, until=115.0), until=110.0)
    assert held(borne, 100.0) == []
    after = drive_on(borne, until=9000.0)
    assert held(after, 115.0) == ["limit:failures"], "and holds again when it is over"


# ---------------------------------------------------------------- owners


def test_owners_of_a_stricter_policy_have_to_agree_by_key():
    state = decide(running(owned(course(6, caps=CAPS))), over(2)).state
    (asked,) = state.overrides
    assert not asked.in_force
    assert caps_now(state) == CAPS
    point = overrides.point_of(asked)
    assert point == "override:unavailable=3@1970-01-01T00:01:02Z"
    assert f"--point {point}" in " ".join(explain(state))
    assert "nobody vouches" in refusal(state, say(3, "approve", "dee", point=point))
    assert "is not one it waits for" in refusal(state, signed(3, "approve", "cid", point=point))
    assert "another owner" in refusal(
        state, signed(3, "approve", "ann", point=point, groups=("storage-oncall",))
    )
    agrees = signed(3, "approve", "cid", point=point, groups=("storage-oncall",))
    assert refusal(state, agrees) is None
    after = decide(state, agrees).state
    assert caps_now(after).unavailable == 3
    assert answer(after, agrees) == "unavailable 3 instead of 1: in force; cid agreed"


def test_an_owner_who_signs_has_agreed():
    plan = owned(course(6, caps=CAPS))
    state = running(plan)
    assert decide(state, over(2, by="dee", verified=True)).state.overrides[0].in_force
    assert not decide(state, over(2, by="dee")).state.overrides[0].in_force
    mine = decide(running(replace(plan, requester="dee")), over(2, by="dee", verified=True)).state
    assert not mine.overrides[0].in_force, "whoever asked for the operation does not count"


def test_only_the_owners_of_policies_that_allow_less_are_asked():
    words = (Word("a", 1.0, ("dee",)), Word("b", 2.0, ("eve",)), Word("c", 5.0, ("fay",)),
             Word("d", 1.0))  # fmt: skip
    state = running(owned(course(6, caps=CAPS), "unavailable", *words))
    asked = decide(state, over(2, value=3.0)).state.overrides[0]
    assert asked.wants == (("a", ("dee",)), ("b", ("eve",)))
    less = decide(state, over(2, value=2.0)).state.overrides[0]
    assert less.wants == (("a", ("dee",)),)
    one = decide(
        decide(state, over(2, value=3.0)).state,
        signed(3, "approve", "dee", point=overrides.point_of(asked)),
    ).state
    assert one.overrides[0].wants == (("b", ("eve",)),)
    assert caps_now(one) == CAPS


def test_consent_is_to_one_value_until_one_time():
    state = decide(running(owned(course(6, caps=CAPS))), over(2)).state
    point = overrides.point_of(state.overrides[0])
    anew = decide(state, over(4, value=6.0)).state
    why = refusal(anew, signed(5, "approve", "dee", point=point))
    assert "no approval is asked for at" in why
    assert overrides.point_of(anew.overrides[0]) in why


def test_one_that_nobody_agreed_to_ends_too():
    state = decide(running(owned(course(6, caps=CAPS))), over(2)).state
    after = decide(state, Ticked(62.0)).state
    assert after.overrides == ()
    assert "it was never in force" in " ".join(note.text for note in after.story)


# ---------------------------------------------------------------- shown, and the rule


def test_it_is_shown_while_it_lasts():
    state = decide(running(), over(2)).state
    words = " ".join(explain(state))
    assert (
        "unavailable 3 instead of 1 until 1970-01-01T00:01:02Z, by bob (unverified): late" in words
    )
    assert status(state, 3.0).overrides == state.overrides
    after = decide(state, Ticked(62.0)).state
    assert "override" not in " ".join(explain(after))


@settings(max_examples=60)
@given(stories(), st.data())
def test_rule_overrides_only_until_their_expiry(story, data):
    """limits_hold over stories in which people exceed every limit that can be exceeded."""
    plan, script = story
    limits = st.sampled_from(list(overrides.KNOBS))
    times, values = st.integers(1, 300), st.sampled_from([0.0, 2.0, 3.0, 6.0])
    lasts = st.sampled_from([3, 10, 40, 200])
    asked = data.draw(st.lists(st.tuples(times, limits, values, lasts), max_size=6))
    said = tuple(
        over(at, limit, value, until=float(at + length), verified=True)
        for at, limit, value, length in asked
    )
    people = tuple(sorted((*script.people, *said), key=lambda each: each.at))
    run = drive(plan, replace(script, people=people), until=3000.0)
    checks.watched(run, "limits_hold")
    checks.watched(run)


def test_it_is_recorded_with_who_vouches_for_whom():
    state = running()
    said = over(2, verified=True, key="SHA256:bob", groups=("oncall", "dee"))
    (first, *_) = entries(state, said, decide(state, said), number=1)
    assert dict(first.record.options) == {
        "verified": "True",
        "key": "SHA256:bob",
        "groups": "oncall, dee",
        "limit": "unavailable",
        "value": "3",
        "until": "1970-01-01T00:01:02Z",
    }
