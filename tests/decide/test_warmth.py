"""A host that is back counts as far as it is cold, where its gate says how warm it is."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_builders import gate
from told import Told

from guardrail.decide import coldness
from guardrail.decide.carry import pack, unpack
from guardrail.decide.coldness import warm_share
from guardrail.model.budget import Budget, ColdLimit, WarmRule
from guardrail.model.common import Origin
from guardrail.model.gate import Bound, Judgement, Reading
from guardrail.model.operation import HostWarming
from guardrail.model.plan import Caps
from guardrail.simulation.world import through_json

from builders import course

ORIGIN = Origin("policy cache", "cache.yaml", 9)
T0 = 1000.0
HOSTS = 8
ALL = ((0, HOSTS),)


class Warming(Told):
    """So many may be cold at once, and a gate shows when one is warm."""

    def __init__(self, most=2):
        made = course(HOSTS, caps=Caps(9, 9, 3, 3))
        budget = Budget(
            cold=(ColdLimit(most, ALL, ORIGIN),), warm=(WarmRule("warm", 900.0, ALL, ORIGIN),)
        )
        super().__init__(replace(made, budget=budget), T0)
        self.judged(T0 + 1)

    def warms(self, at, index, percent, turn=None):
        turn = self.state.flight(index).turn if turn is None else turn
        return self(HostWarming(at, index, turn, percent))

    @property
    def used(self):
        return coldness.used(self.state, self.state.course.budget.cold[0])


def test_two_that_are_half_warm_leave_room_for_a_third():
    told = Warming()
    told.warms(T0 + 5, 0, 50)
    assert (told.used, told.asked) == (1.5, [0, 1])
    told.warms(T0 + 6, 1, 50)
    assert (told.used, told.asked) == (2.0, [0, 1, 2])


def test_one_may_be_cold_and_a_little_of_it_leaves_no_room():
    told = Warming(1)
    told.warms(T0 + 5, 0, 90)
    assert told.asked == [0]


def test_one_that_is_colder_than_before_takes_its_room_back():
    told = Warming()
    told.warms(T0 + 5, 0, 90).warms(T0 + 6, 0, 0).warms(T0 + 7, 1, 90)
    assert told.asked == [0, 1]


def test_no_more_than_nine_tenths_of_a_host_are_warm_before_its_gate_has_passed():
    told = Warming()
    told.warms(T0 + 5, 0, 900)
    assert told.used == 1.1


def test_it_is_not_believed_of_another_turn_or_of_who_is_not_in_flight():
    told = Warming()
    told.warms(T0 + 5, 0, 90, turn=77)
    told(HostWarming(T0 + 6, 5, 1, 90))
    assert told.used == 2.0


@pytest.mark.parametrize("outcome", ["failed", "unknown"])
def test_who_has_answered_badly_is_cold_whatever_it_said(outcome):
    told = Warming()
    told.warms(T0 + 5, 0, 90).answer(T0 + 6, 0, outcome)
    assert told.used == 2.0


def test_it_is_carried():
    told = Warming()
    told.warms(T0 + 5, 0, 30)
    again = unpack(through_json(pack(told.state)), told.state.course)
    assert again.warmth == ((0, 30),)


@given(
    most=st.integers(1, 4),
    steps=st.lists(
        st.tuples(st.integers(0, HOSTS - 1), st.sampled_from([0, 30, 50, 90, None]), st.booleans()),
        max_size=30,
    ),
)
def test_limits_hold_by_how_cold_hosts_are(most, steps):
    """At each begin all that are cold, each as far as it is so, are within the limit."""
    told, warm = Warming(most), {}
    cold = set(told.asked)
    for number, (index, percent, wrong) in enumerate(steps):
        at, before = T0 + 2 + number, len(told.asked)
        flight = told.state.flight(index)
        if flight is None:
            continue
        if percent is None:
            told.answer(at, index)
            cold.discard(index)
            warm.pop(index, None)
        else:
            told.warms(at, index, percent, flight.turn - wrong)
            warm |= {} if wrong else {index: percent}
        new = told.asked[before:]
        cold |= set(new)
        if new:
            assert sum(100 - warm.get(one, 0) for one in cold) <= 100 * most
            assert not set(new) & warm.keys()


# ---------------------------------------------------------------- how warm is it?


def judged(value, verdict="fail"):
    kind = "no_data" if verdict == "inconclusive" else None
    return Judgement("warm", verdict, kind, (), (Reading(value, kind, T0),))


def warm(above=None, below=None):
    return replace(gate("warm"), bound=Bound(above=above, below=below))


@pytest.mark.parametrize(
    ("above", "value", "percent"),
    [
        (0.8, 0.0, 0),
        (0.8, 0.4, 50),
        (0.8, 0.47, 50),  # rounded down to tens
        (0.8, 0.79, 90),
        (0.8, 0.95, 90),  # good, and not often enough in a row
        (0.8, -1.0, 0),
        (0.8, math.nan, 0),
        (0.8, None, 0),
        (300.0, 290.0, 0),  # a number of what? nobody knows
        (0.0, 0.5, 0),
    ],
)
def test_a_share_over_what_it_must_be(above, value, percent):
    assert warm_share(warm(above), judged(value)) == percent


def test_what_is_no_share_or_no_evidence_is_whole():
    assert warm_share(warm(below=0.5), judged(0.4)) == 0
    assert warm_share(warm(0.8), judged(0.7, "inconclusive")) == 0
    assert warm_share(warm(0.8), None) == 0
    assert warm_share(warm(0.8), judged(0.9, "pass")) == 100
