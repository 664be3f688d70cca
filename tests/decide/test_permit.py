"""Who gets a permit: hosts whose turn is in flight, and nobody whose turn is over."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from guardrail.decide.permit import for_turn, permit
from guardrail.decide.transition import decide
from guardrail.model.operation import Flight, HostAnswered, Started, State
from guardrail.twins import drive

from builders import course, say, stories

VALID = 0.3


def changing(*turns, newest):
    """An operation that changes hosts: those of these turns are in flight."""
    state = decide(State(course(9), "op"), Started(0.0)).state
    flights = tuple(Flight(turn, turn, 0.0) for turn in turns)
    return replace(state, step="changing", in_flight=flights, turn=newest)


@pytest.mark.parametrize(
    ("turn", "allowed"), [(3, True), (5, True), (1, False), (4, False), (6, True)]
)
def test_a_turn_in_flight_or_newer_than_the_answer_may_begin(turn, allowed):
    answer = for_turn(permit(changing(3, 5, newest=5)), turn)
    assert answer.allowed is allowed
    assert ("not in flight any more" in answer.reason) is not allowed


def test_an_operation_that_is_held_lets_nobody_begin_and_says_why():
    held = decide(changing(3, newest=3), say(1, "pause")).state
    answer = for_turn(permit(held, "held on operator:bob"), 3)
    assert (answer.allowed, answer.reason) == (False, "held on operator:bob")


def test_another_operation_of_the_same_name_is_not_asked_for_its_hosts():
    answer = permit(changing(3, newest=3), run="second")
    assert for_turn(answer, 3, "second").allowed
    assert "another operation" in for_turn(answer, 7, "first").reason


def test_a_turn_is_over_once_it_is_answered():
    state = changing(1, 2, newest=2)
    assert for_turn(permit(state), 1).allowed
    state = decide(state, HostAnswered(1.0, 1, 1, "unknown", "host-001")).state
    assert not for_turn(replace(permit(state), allowed=True), 1).allowed


@settings(max_examples=60)
@given(stories())
def test_no_turn_gets_a_permit_that_is_not_in_flight(story):
    """Asked at any moment, with an answer of any age that is still good: it was in flight then or
    within that age; and no host in flight is told that it is not."""
    moments = drive(*story, until=3000.0).moments
    flying = [{flight.turn for flight in moment.state.in_flight} for moment in moments]
    for now, moment in enumerate(moments):
        first = now
        while first and moments[first - 1].event.at > moment.event.at - VALID:
            first -= 1
        lately = set().union(*flying[first : now + 1])
        for made in range(first, now + 1):
            answer = replace(permit(moments[made].state), allowed=True)
            turns = range(1, moment.state.turn + 1)
            allowed = {turn for turn in turns if for_turn(answer, turn).allowed}
            assert flying[now] <= allowed <= lately
