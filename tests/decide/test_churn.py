"""Departures from the catalog: counted whoever causes them, and held when they are used up."""

from dataclasses import replace

import pytest
from told import Told

from guardrail.decide import catalog, catalog_holds, limits
from guardrail.decide.bits import bit
from guardrail.decide.carry import pack, unpack
from guardrail.decide.commands import refusal
from guardrail.decide.explain import advice
from guardrail.decide.transition import decide, may_begin
from guardrail.model.budget import Budget, ChurnLimit, Departure
from guardrail.model.common import Origin
from guardrail.model.operation import (
    Commanded,
    FleetSeen,
    Started,
    State,
    Ticked,
    WatchAgain,
    WatcherLost,
)
from guardrail.model.plan import Caps
from guardrail.simulation.world import through_json

from builders import course

ORIGIN = Origin("policy cache", "cache.yaml", 9)
SIX = ChurnLimit(6, 600.0, ORIGIN)
T0 = 1_700_000_000.0


def budget(*limits, leaving=((0, 12),), grace=10.0, good_for=20.0):
    return Budget(follow=True, grace=grace, good_for=good_for, churn=limits, leaving=leaving)


class Counting(Told):
    """With a budget of departures, and a catalog that is followed."""

    def __init__(self, told=(SIX,), *, hosts=12, bake=30.0, leaving=((0, 12),), start=True):
        plan = course(hosts, caps=Caps(9, 9, 3, 0), bake=bake)
        plan = replace(plan, budget=budget(*told, leaving=leaving))
        super().__init__(plan, T0)
        if start:
            self.judged(T0 + 1)
            self.seen(T0 + 1)

    def seen(self, at, *left, problem="", index=7):
        gone = tuple(Departure(at, name, number) for number, name in left)
        return self(FleetSeen(at, self.state.watch_turn, problem, index, gone))


def others(count, first=-1):
    return [(-1, f"other-{n}") for n in range(count)]


# ---------------------------------------------------------------- the budget


def test_nothing_begins_before_the_catalog_was_told():
    told = Counting(start=False)
    told.judged(T0 + 1)
    assert told.asked == []
    told.seen(T0 + 2)
    assert told.asked


def test_no_more_hosts_are_asked_than_may_leave():
    told = Counting()
    assert told.asked == [0, 1, 2, 3, 4, 5]
    assert told.holds == []
    assert may_begin(told.state), "those that were asked may begin: nothing has left yet"


def test_what_others_took_is_not_there_for_us():
    told = Counting(start=False)
    told.seen(T0 + 1, *others(4))
    told.judged(T0 + 1)
    assert told.asked == [0, 1]


def test_hosts_that_stay_registered_need_no_budget():
    told = Counting(leaving=((0, 3),), start=False)
    told.seen(T0 + 1, *others(4))
    told.judged(T0 + 1)
    assert told.asked == [0, 1, 3, 4, 5, 6, 7, 8, 9]


def test_a_departure_that_was_expected_is_one_not_two():
    told = Counting()
    told.seen(T0 + 3, (0, "host-000"), (1, "host-001"))
    assert len(catalog.within(told.state, SIX, told.now)) == 6
    assert len(catalog.seen_within(told.state, SIX, told.now)) == 2


def test_the_same_departure_told_twice_is_one():
    told = Counting(start=False)
    told.seen(T0 + 1, *others(2))
    told(FleetSeen(T0 + 2, told.state.watch_turn, left=(Departure(T0 + 1, "other-0"),)))
    assert len(catalog.seen_within(told.state, SIX, told.now)) == 2


def test_of_two_that_are_expected_of_one_host_the_newer_one_has_left():
    told = Counting()
    told.answer(T0 + 2, 0, "unknown")
    told(Commanded(T0 + 3, "retry", "bob"))
    told.tick_until(T0 + 40)
    turns = [one.turn for one in told.state.catalog.departures if one.index == 0]
    assert len(turns) == 1, "six may leave: the retried one waits until there is room"
    told.tick_until(T0 + 700)
    told.seen(T0 + 701, (0, "host-000"))
    (left,) = [one for one in told.state.catalog.departures if one.seen]
    assert left.turn == max(one.turn for one in told.state.catalog.departures if one.index == 0)


def test_a_host_that_leaves_twice_has_left_twice():
    told = Counting()
    told.seen(T0 + 3, (0, "host-000"))
    told.seen(T0 + 4, (0, "host-000"))
    assert len(catalog.seen_within(told.state, SIX, told.now)) == 2


def test_a_host_that_was_not_begun_gives_its_place_back():
    told = Counting()
    told.answer(T0 + 2, 0, "not_begun")
    assert told.asked == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("outcome", ["changed", "failed", "unknown"])
def test_a_host_that_may_have_left_keeps_its_place(outcome):
    told = Counting()
    told.answer(T0 + 2, 0, outcome)
    assert len(catalog.within(told.state, SIX, told.now)) == 6
    assert told.asked == [0, 1, 2, 3, 4, 5]


def test_a_host_that_stands_ready_for_long_keeps_its_place_until_it_has_left():
    """Asked long ago, it may leave at any moment: two of them must not leave with two new ones."""
    told = Counting((ChurnLimit(2, 60.0, ORIGIN),))
    assert told.asked == [0, 1]
    told.tick_until(T0 + 300)
    assert told.asked == [0, 1]
    told.seen(T0 + 301, (0, "host-000"))
    told.answer(T0 + 310, 0).answer(T0 + 320, 1)
    told.tick_until(T0 + 379)
    assert told.asked == [0, 1, 2], "host 0 left a minute ago, and host 1 before it answered"
    told.tick_until(T0 + 381)
    assert told.asked == [0, 1, 2, 3]


def test_departures_of_an_ended_watch_count_and_its_silence_does_not():
    told = Counting()
    old = told.state.watch_turn
    told(WatcherLost(T0 + 2, old, "gone"))
    gone = tuple(Departure(T0 + 1.5, name) for _, name in others(2))
    told(FleetSeen(T0 + 3, old, left=gone))
    assert len(catalog.seen_within(told.state, SIX, told.now)) == 2
    assert not catalog.is_good(told.state)


# ---------------------------------------------------------------- the hold


def test_a_budget_that_others_use_up_holds_with_their_names_and_times():
    told = Counting((ChurnLimit(2, 600.0, ORIGIN),), leaving=())
    told.seen(T0 + 5, (-1, "other-0"), (3, "host-003"))
    hold = told.state.hold("limit:churn")
    assert hold.reasons == (
        (
            "2 nodes left the catalog within 600 s, 2 may (policy cache (cache.yaml:9)): other-0 "
            "at 22:13:25Z, host-003 at 22:13:25Z"
        ),
    )
    assert not may_begin(told.state)


def test_the_hold_ends_when_there_is_room_and_then_a_bake_comes_first():
    told = Counting((ChurnLimit(2, 600.0, ORIGIN),), leaving=())
    for index in told.asked[:]:
        told.answer(T0 + 3, index)
    began = len(told.asked)
    told.seen(T0 + 5, *others(1))
    told.seen(T0 + 9, (-1, "late"))
    assert told.holds == ["limit:churn"]
    for index in told.asked[began:]:
        told.answer(T0 + 10, index)
    told.tick_until(T0 + 604.9)
    assert told.holds == ["limit:churn"]
    told.tick_until(T0 + 605.1)
    assert told.holds == []
    assert (told.state.step, told.state.phase) == ("baking", "running")
    before = len(told.asked)
    told.tick_until(T0 + 605 + 29.9)
    assert len(told.asked) == before
    told.tick_until(T0 + 605 + 30.1)
    assert len(told.asked) == 12 or told.state.finished


def test_our_own_restarts_use_the_budget_up_too_and_it_goes_on_by_itself():
    told = Counting((ChurnLimit(2, 100.0, ORIGIN),), hosts=4, bake=5.0)
    assert told.asked == [0, 1]
    told.seen(T0 + 2, (0, "host-000"), (1, "host-001"))
    assert told.holds == ["limit:churn"]
    told.answer(T0 + 6, 0).answer(T0 + 6, 1)
    told.tick_until(T0 + 101)
    assert told.asked == [0, 1]
    told.tick_until(T0 + 110)
    assert told.asked == [0, 1, 2, 3]


def test_a_limit_that_comes_later_counts_who_left_before():
    told = Counting(())
    told.seen(T0 + 5, *others(2))
    budget_ = replace(told.state.course.budget, churn=(ChurnLimit(2, 60.0, ORIGIN),))
    told.state = replace(told.state, course=replace(told.state.course, budget=budget_))
    told(Ticked(T0 + 10))
    assert told.holds == ["limit:churn"]


def test_two_limits_hold_both():
    quick, slow = ChurnLimit(2, 10.0, ORIGIN), ChurnLimit(3, 600.0, ORIGIN)
    told = Counting((quick, slow))
    assert told.asked == [0, 1]
    told.answer(T0 + 2, 0).answer(T0 + 2, 1)
    told.tick_until(T0 + 13)
    assert told.asked == [0, 1, 2]


def test_going_back_is_within_the_budget_too():
    told = Counting((ChurnLimit(2, 600.0, ORIGIN),))
    told.answer(T0 + 2, 0).answer(T0 + 2, 1)
    told.seen(T0 + 3, (0, "host-000"), (1, "host-001"))
    told(Commanded(T0 + 4, "rollback", "bob"))
    assert told.holds == ["limit:churn"], "turning round gives nothing back"
    told.tick_until(T0 + 590)
    assert told.asked == [0, 1]
    told.tick_until(T0 + 800)
    assert told.asked == [0, 1, 1, 0]


def test_it_is_said_that_it_goes_on_by_itself_and_nothing_refused_is_advised():
    told = Counting((ChurnLimit(1, 600.0, ORIGIN),), leaving=())
    told.seen(T0 + 5, *others(1))
    said = advice(told.state)
    assert "by itself" in said[0]
    assert said[1] == "guardrail rollout explain x"
    assert refusal(told.state, Commanded(T0 + 6, "resume", "bob")) is not None


# ---------------------------------------------------------------- silence


def test_a_silent_catalog_stops_at_once_and_holds_after_its_grace():
    told = Counting((ChurnLimit(2, 5.0, ORIGIN),))
    before = told.asked[:]
    told.seen(T0 + 2, problem="Consul at x: connection refused")
    told.answer(T0 + 3, 0)
    told.tick_until(T0 + 11.9)
    assert told.asked == before, "nobody knows who left"
    assert told.holds == []
    told.tick_until(T0 + 12.1)
    assert told.holds == ["evidence:catalog"]
    assert told.state.hold("evidence:catalog").reasons == ("Consul at x: connection refused",)


def test_a_catalog_that_answers_again_must_do_so_for_a_while():
    told = Counting()
    told.seen(T0 + 2, problem="silent")
    told.tick_until(T0 + 20)
    told.seen(T0 + 30)
    told.tick_until(T0 + 49)
    assert told.holds == ["evidence:catalog"]
    told.tick_until(T0 + 51)
    assert told.holds == []


def test_a_watch_that_never_tells_of_the_catalog_holds():
    told = Counting(start=False)
    told.judged(T0 + 1)
    told.tick_until(T0 + 11)
    assert told.holds == ["evidence:catalog"]


def test_no_catalog_is_needed_where_none_is_followed():
    plan = course(3, caps=Caps(9, 9, 3, 0))
    state = decide(State(plan, "x"), Started(T0)).state
    assert catalog.is_good(state)
    assert catalog_holds.moments(state, T0) == []


# ---------------------------------------------------------------- from one run to the next


def test_departures_are_carried_and_the_catalog_is_looked_at_anew():
    told = Counting()
    told.seen(T0 + 3, (0, "host-000"), *others(3), index=99)
    carried = through_json(pack(told.state))
    again = unpack(carried, told.state.course)
    assert again.catalog == told.state.catalog
    told.state = again
    told(WatchAgain(T0 + 4))
    assert not catalog.is_good(told.state)
    assert told.state.catalog.index == 99
    assert len(catalog.seen_within(told.state, SIX, told.now)) == 4


def test_what_is_remembered_is_bounded():
    told = Counting()
    for n in range(50):
        told.seen(T0 + 2 + n / 100, *[(-1, f"n{n}-{k}") for k in range(20)])
    assert len(told.state.catalog.departures) <= 2 * 6 + catalog.KEPT
    assert told.holds == ["limit:churn"]
    told.tick_until(T0 + 700)
    assert told.state.hold("limit:churn") is None


def test_a_host_that_may_not_leave_is_passed_by_for_one_that_stays():
    state = State(
        replace(course(4, caps=Caps(9, 9, 3, 0)), budget=budget(SIX, leaving=((0, 2), (3, 4)))),
        "x",
        waiting=0b1111,
    )
    gone = tuple(Departure(T0, f"n{n}") for n in range(6))
    state = replace(state, catalog=replace(state.catalog, departures=gone))
    assert limits.next_host(state, T0 + 1) == 2
    assert limits.rested(state, T0 + 1) == bit(2)
    assert limits.rested(state, T0 + 601) == 0b1111
