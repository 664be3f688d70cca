"""Hosts that were down when the plan was made count while they are down, and no longer."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from told import Told

from guardrail.decide import downs, limits
from guardrail.decide.carry import pack, unpack
from guardrail.model.budget import Budget
from guardrail.model.operation import FleetSeen, WatchAgain
from guardrail.model.plan import Caps
from guardrail.simulation.world import through_json

from builders import course

T0 = 1_700_000_000.0


class Returning(Told):
    """Two of domain 0 and one of domain 1 were down; the catalog tells who still is."""

    def __init__(self, caps=Caps(4, 3, 3, 0), still=(2, 1, 0)):  # noqa: B008
        made = replace(course(9, caps=caps), down=(2, 1, 0), budget=Budget(follow=True))
        super().__init__(made, T0)
        self.judged(T0 + 1)
        self.still(T0 + 1, still)

    def still(self, at, counts, problem=""):
        return self(FleetSeen(at, self.state.watch_turn, problem, index=7, still=counts))


def test_a_host_that_is_back_makes_room():
    told = Returning()
    assert told.asked == [0], "three down and one away are four"
    told.still(T0 + 2, (1, 1, 0))
    assert told.asked == [0, 1]
    told.still(T0 + 3, (0, 0, 0))
    assert told.asked == [0, 1, 2, 3]


def test_a_host_that_is_down_again_counts_again():
    told = Returning(still=(0, 0, 0))
    assert told.asked == [0, 1, 2, 3]
    told.still(T0 + 2, (2, 1, 0))
    told.answer(T0 + 3, 0).answer(T0 + 3, 1).answer(T0 + 3, 2)
    assert told.asked == [0, 1, 2, 3]


def test_it_makes_room_in_its_domain():
    told = Returning(Caps(9, 2, 3, 0))
    assert told.asked == [1, 2, 5]
    told.still(T0 + 2, (1, 1, 0))
    assert told.asked == [1, 2, 5, 0]


def test_nobody_is_taken_for_back_while_the_catalog_is_silent_or_a_watch_is_new():
    told = Returning(still=(0, 0, 0))
    assert downs.total(told.state) == 0
    told.still(T0 + 2, None, "connection refused")
    assert downs.total(told.state) == 3
    told.still(T0 + 3, (0, 0, 0))
    assert downs.total(told.state) == 0
    told(WatchAgain(T0 + 4))
    assert downs.total(told.state) == 3


def test_where_nobody_looks_all_of_them_count():
    told = Returning(still=None)
    assert downs.before(told.state) == (2, 1, 0)


def test_it_is_carried():
    told = Returning(still=(1, 0, 0))
    again = unpack(through_json(pack(told.state)), told.state.course)
    assert downs.before(again) == (1, 0, 0)


@given(
    reports=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.booleans()), min_size=1, max_size=12
    )
)
def test_limits_hold_with_hosts_that_come_back(reports):
    """Whoever was down counts at each begin exactly as the catalog shows it then."""
    told = Returning(still=(2, 1, 0))
    for number, (here, there, answers) in enumerate(reports):
        at, before = T0 + 2 + number, len(told.asked)
        told.still(at, (here, there, 0))
        if answers and told.state.in_flight:
            told.answer(at, told.state.in_flight[0].index)
        if len(told.asked) > before:
            assert limits.away(told.state) + here + there <= 4
        elif told.state.waiting and told.state.step == "changing":
            assert limits.away(told.state) + here + there >= 4 or _domains_are_full(told.state)


def _domains_are_full(state):
    counts = limits.away_by_domain(state)
    domains = {state.course.domains[i] for i in range(9) if state.waiting >> i & 1}
    return not any(limits.domain_has_room(state, counts, domain) for domain in domains)
