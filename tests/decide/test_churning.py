"""A version whose hosts keep leaving the catalog is left before the system has recovered."""

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from told import Told

from guardrail.decide import churning
from guardrail.decide.carry import pack, unpack
from guardrail.decide.explain import can_go_back
from guardrail.decide.way_back import if_asked, in_words
from guardrail.model.budget import Budget, ChurnLimit, Departure
from guardrail.model.common import Origin
from guardrail.model.operation import Commanded, Drained, FleetSeen, State, WatchAgain
from guardrail.model.plan import Caps

from builders import course

T0 = 1_700_000_000.0
CHURN = ChurnLimit(8, 600.0, Origin("policy cache", "cache.yaml", 9))


class Rollout(Told):
    """The first wave of two dozen hosts is at the new version; then the margin fails."""

    def __init__(self, changed=4, hosts=24, *, churn=(CHURN,), pace=0.0, rollback_when="ask"):
        plan = course(changed, hosts, caps=Caps(9, 9, 3, 0, pace=pace), bake=30.0)
        spans = ((0, hosts),)
        budget = Budget(follow=True, grace=10.0, good_for=20.0, churn=churn, leaving=spans)
        super().__init__(replace(plan, budget=budget, rollback_when=rollback_when), T0)
        self.judged(T0 + 1)
        self.seen(T0 + 1)
        for index in range(changed):
            self.tick_until(T0 + 3 + pace * index)
            self.seen(self.now, index)
            self.answer(self.now, index)
        self.end = self.now
        self.judged(self.end + 1, "fail")

    def seen(self, at, *left, problem=""):
        gone = tuple(Departure(at, f"host-{number:03d}", number) for number in left)
        return self(FleetSeen(at, self.state.watch_turn, problem, 7, gone))

    def back(self, at, scope="all"):
        return self(Commanded(at, "rollback", "ann", scope=scope))

    def begun_back(self, at):
        """The hosts asked to go back until then, which all answer at once."""
        before, self.begins = len(self.asked), []
        while self.wake is not None and self.wake <= at:
            self.tick_until(self.wake)
            self.begins += [flight.asked_at for flight in self.state.in_flight]
            for flight in list(self.state.in_flight):
                self.answer(self.now, flight.index)
        return self.asked[before:]


def sick(**fields):
    """Three of the four changed hosts have left by themselves, and none of the others."""
    told = Rollout(**fields)
    for place, index in enumerate((0, 1, 3)):
        told.seen(told.end + 7 + place, index)
    return told


# ---------------------------------------------------------------- when


def test_a_version_that_keeps_its_hosts_leaving_is_left_before_recovery():
    told = sick().back(T0 + 20)
    assert told.state.back_gap == pytest.approx(60.0), "three are cold within a minute: now two"
    assert told.begun_back(T0 + 600) == [3, 2, 1, 0]
    assert told.state.hold("gate:margin"), "it never recovered"


def test_without_departures_it_waits_until_the_system_has_recovered():
    told = Rollout().back(T0 + 20)
    assert told.state.back_gap is None
    assert told.begun_back(T0 + 600) == []


@pytest.mark.parametrize("left", [(0, 1, 5), (0, 0, 0, 0), (0, 1), (5, 6, 7), (0, 1, 2, 8, 9, 10)])
def test_departures_that_chance_explains_are_not_the_version(left):
    told = Rollout()
    for place, index in enumerate(left):
        told.seen(T0 + 10 + place, index)
    assert told.back(T0 + 20).state.back_gap is None


def test_our_own_restarts_are_not_the_version():
    told = Rollout()
    told.seen(T0 + 4.9, 0, 1, 2)  # within two seconds of the last answer
    assert told.back(T0 + 20).state.back_gap is None


def test_with_all_hosts_changed_there_is_nobody_to_compare_with():
    told = sick()
    assert churning.is_the_version(told.state)
    assert not churning.is_the_version(replace(told.state, changed=(1 << 24) - 1))


def test_departures_that_come_while_it_waits_count():
    told = Rollout().back(T0 + 20)
    told.seen(T0 + 30, 0, 1, 2)
    assert told.state.back_gap is not None


def test_departures_of_long_ago_leave_nothing_cold():
    told = sick().back(T0 + 200)
    assert told.state.back_gap is None, "going back would make more hosts cold than are now"


@given(
    hosts=st.integers(3, 9),
    data=st.data(),
)
def test_the_chance_is_the_share_of_all_picks(hosts, data):
    """Counted by hand: of all ways to pick so many hosts, how many pick so many changed ones."""
    changed = data.draw(st.integers(1, hosts))
    left = data.draw(st.sets(st.integers(0, hosts - 1), min_size=1))
    ours = sum(index < changed for index in left)
    picks = list(combinations(range(hosts), len(left)))
    alike = sum(sum(i < changed for i in pick) >= ours for pick in picks)
    expected = ours >= churning.LEAST and alike / len(picks) <= 1 / churning.ONE_IN
    state = Rollout(2, 12).state
    departures = tuple(Departure(T0 + 10, "", index) for index in sorted(left))
    state = replace(
        state,
        course=replace(state.course, domains=(0,) * hosts),
        changed=(1 << changed) - 1,
        tried=0,
        catalog=replace(state.catalog, departures=departures),
    )
    assert churning.is_the_version(state) == expected


# ---------------------------------------------------------------- then, and still


def test_never_more_cold_than_the_version_makes_them():
    told = Rollout(changed=6)
    told.seen(T0 + 10, 0, 1, 2, 3, 4)
    told.back(T0 + 20)
    told.begun_back(T0 + 2000)
    back = [one.at for one in told.state.story if one.text.startswith("goes back")]
    assert len(back) == 1
    gap = told.state.back_gap
    assert int(churning.COLD_FOR // gap) + 1 < 5


def test_the_versions_own_departures_do_not_use_up_the_budget():
    told = sick(churn=(replace(CHURN, departures=5),))
    assert told.state.hold("limit:churn"), "four of ours and three by themselves"
    told.back(T0 + 20)
    told.seen(T0 + 21, 2)
    told.tick_until(T0 + 22)
    assert told.state.hold("limit:churn") is None


def test_our_own_departures_do():
    told = sick(churn=(replace(CHURN, departures=4),)).back(T0 + 20)
    assert told.begun_back(T0 + 590) == []
    assert told.begun_back(T0 + 2000) == [3, 2, 1, 0], "once those of the first wave are old enough"


def test_a_host_that_is_down_at_the_bad_version_does_not_keep_it_from_going_back():
    told = sick().back(T0 + 20)
    told(FleetSeen(T0 + 21, told.state.watch_turn, "", 8, (), f"{0b1:x}"))
    assert told.state.hold("limit:down") is None
    assert told.begun_back(T0 + 600) == [3, 2, 1, 0]


def test_a_silent_catalog_and_a_pause_still_hold():
    told = sick().back(T0 + 20)
    told(Commanded(T0 + 21, "pause", "bob"))
    assert told.begun_back(T0 + 600) == []
    told = sick().back(T0 + 20)
    told.seen(T0 + 21, problem="no leader")
    assert told.begun_back(T0 + 600) == []


def test_the_policys_pace_holds_where_it_is_slower():
    told = sick(pace=100.0)
    told.back(told.end + 20)
    assert told.state.back_gap == pytest.approx(60.0)
    assert told.begun_back(told.end + 800) == [3, 2, 1, 0]
    assert min(then - at for at, then in pairwise(told.begins)) >= 100.0


def test_a_new_watch_sees_anew_that_it_has_recovered():
    told = Rollout()
    told.judged(T0 + 10)
    told.back(T0 + 20).tick_until(T0 + 35)
    told(Drained(T0 + 70))
    assert told.state.step == "changing", "it had recovered while nobody looked"
    told(WatchAgain(T0 + 71))
    told.judged(T0 + 72)
    told.seen(T0 + 72)
    before = len(told.asked)
    told.tick_until(T0 + 73)
    assert told.asked[before:] == [], "nothing has been good for long in this watch"
    told.tick_until(T0 + 200)
    assert told.asked[before:]


def test_a_safety_gate_still_never_turns_it_by_policy():
    told = sick(rollback_when="auto")
    assert told.state.direction == "forward"


def test_it_is_offered_before_anybody_asks():
    told = sick()
    assert can_go_back(told.state)
    words = " ".join(in_words(if_asked(told.state)))
    assert "before recovery" in words
    assert "3 of 4 changed hosts left the catalog by themselves, and 0 of 20 others" in words
    assert "margin" in words


def test_it_is_carried_over_a_new_run():
    told = sick().back(T0 + 20)
    again = unpack(pack(told.state), told.state.course)
    assert (again.back_gap, again.answered_at) == (told.state.back_gap, told.state.answered_at)
    assert isinstance(again, State)
