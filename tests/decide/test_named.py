"""A thousand names at most, the needed ones; and nothing that hangs on a name that was dropped."""

from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardrail.decide import named
from guardrail.decide.bits import members
from guardrail.decide.explain import explain, status
from guardrail.model.operation import Exceptional, Hold, State
from guardrail.model.plan import Caps
from guardrail.twins import drive

import checks
from builders import course, say, stories
from small import drive_on, go, hosts

HOSTS = 12


def room_for(count):
    return patch.object(named, "MOST_NAMED", count)


def known(index):
    return Exceptional(index, f"host-{index:03d}", "failed", "why", 0.0)


# ---------------------------------------------------------------- the bound itself

sets = st.integers(0, (1 << HOSTS) - 1)


@settings(max_examples=300)
@given(
    st.integers(1, 4),
    st.tuples(sets, sets, sets, sets, sets),
    st.lists(st.integers(0, HOSTS - 1), max_size=20),
)
def test_only_the_one_needed_least_is_dropped_and_none_while_there_is_room(most, drawn, indexes):
    failed, unknown, blocked, aside, held = drawn
    hold = Hold("host:x", 0.0, ("why",), "a person", hosts=tuple(members(held)))
    state = State(course(HOSTS), "op", failed=failed, unknown=unknown, blocked=blocked)
    state = replace(state, set_aside=aside, holds=(hold,))
    for index in indexes:
        before = {each.index for each in state.exceptional} | {index}
        with room_for(most):
            state = named.remember(state, known(index))
        after = {each.index for each in state.exceptional}
        assert after <= before
        assert len(after) == len(state.exceptional) == min(most, len(before))
        ranks = {each: named.rank(state, held | unknown, each) for each in before}
        dropped = before - after
        assert all(ranks[lost] >= max(ranks[kept] for kept in after) for lost in dropped)
        seen = named.named(state)
        assert not seen & named.unnamed(state)
        wanted = failed | unknown | blocked | aside | held
        assert (seen | named.unnamed(state)) & wanted == wanted


@pytest.fixture(autouse=True, scope="module")
def little_room():
    """Two names: what a thousand are for a hundred thousand hosts."""
    with room_for(2):
        yield


# ---------------------------------------------------------------- nothing is lost with a name


@settings(max_examples=60)
@given(stories())
def test_an_operation_reaches_its_end_whatever_is_not_kept_by_name(story):
    checks.progress(*story)


@settings(max_examples=60)
@given(stories())
def test_never_more_names_than_there_is_room_for(story):
    for moment in drive(*story, until=3000.0).moments:
        assert len(moment.state.exceptional) <= named.MOST_NAMED
        assert all(hold.reasons for hold in moment.state.holds)


WIDE = Caps(4, 4, 3, 4)


def four_fall_silent():
    plan = course(6, caps=WIDE, bake=0.0)
    return go(plan, work=hosts({(index, 1): "unknown" for index in range(4)}), until=300.0)


def test_what_is_dropped_is_counted_and_said():
    run = four_fall_silent()
    assert [each.name for each in run.state.exceptional] == ["host-000", "host-001"]
    (hold,) = run.state.holds
    assert (hold.name, hold.hosts) == ("host:host-000", (0, 1, 2, 3))
    shown = status(run.state, 300.0)
    assert (shown.unknown, len(shown.exceptional), shown.unnamed) == (4, 2, 2)
    assert "  and 2 more that are not kept by name" in explain(run.state)


def test_a_retry_without_names_takes_those_along_that_have_none():
    run = drive_on(four_fall_silent(), say(301, "retry"))
    assert (run.state.phase, run.state.changed) == ("completed", 0b111111)


def test_those_with_names_can_be_taken_one_by_one_and_the_hold_stays_for_the_rest():
    run = drive_on(four_fall_silent(), say(301, "retry", hosts=("host-000",)), until=310.0)
    (hold,) = run.state.holds
    assert (hold.name, hold.hosts) == ("host:host-001", (1, 2, 3))
    run = drive_on(run, say(311, "skip", hosts=("host-001",)), until=320.0)
    (hold,) = run.state.holds
    assert (hold.name, hold.hosts, bool(hold.reasons)) == ("host:number 2", (2, 3), True)
    run = drive_on(run, say(321, "retry"))
    assert run.state.phase == "completed"
    assert run.state.finish_reasons == ("5 of 6 hosts changed; left out: host-001",)


def test_hosts_that_are_gone_give_way_to_those_that_wait_for_a_person():
    outcomes = {(0, 1): "gone", (1, 1): "gone", (2, 1): "gone", (3, 1): "failed"}
    run = go(course(6, caps=replace(WIDE, failures=0), bake=0.0), work=hosts(outcomes), until=300.0)
    assert [each.name for each in run.state.exceptional] == ["host-000", "host-003"]
    assert status(run.state, 300.0).unnamed == 2
    run = drive_on(run, say(301, "retry", hosts=("host-003",)))
    ended = "3 of 6 hosts changed; left out: host-000, 2 more that are not kept by name"
    assert run.state.finish_reasons == (ended,)


def test_a_host_that_cannot_be_remembered_is_not_asked_for_ever():
    """All are blocked: two are asked three times, the others once, and then a person is asked."""
    every = {(index, number): "blocked" for index in range(6) for number in range(1, 99)}
    plan = course(6, caps=Caps(6, 6, 3, 6), bake=0.0)
    run = go(plan, work=hosts(every), until=5_000.0)
    assert run.state.blocked == 0b111111
    assert run.state.turn <= 6 * 3
