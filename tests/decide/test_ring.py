"""A tier that is a ring: what is cold are slots without a warm server, whoever serves them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_builders import OLD, amount, found, gate, hosts, percent, policy, request
from told import Told

from guardrail.decide import coldness, ring
from guardrail.decide.bits import bit, members
from guardrail.decide.carry import pack, unpack
from guardrail.decide.found import Seen
from guardrail.decide.plan import course_of, make_plan
from guardrail.model.budget import (
    Budget,
    ColdLimit,
    Departure,
    RingListed,
    RingSeen,
    RingSize,
    WarmRule,
)
from guardrail.model.common import Origin
from guardrail.model.fleet import ConsulInventory, Fleet
from guardrail.model.operation import FleetSeen, WatchAgain
from guardrail.model.plan import Caps
from guardrail.model.policy import WarmUp
from guardrail.simulation.world import through_json

from builders import course

ORIGIN = Origin("policy cache", "cache.yaml", 9)
T0 = 1_700_000_000.0
HOSTS = 8
ALL = ((0, HOSTS),)
SLOTS = 6
RING_FLEET = Fleet("cache", ConsulInventory("http://127.0.0.1:8500", "memcached", ring="ring"))


def hexed(*which):
    return f"{sum(bit(index) for index in which):x}"


class Turning(Told):
    """Eight hosts, of which the first six serve the slots of a ring."""

    def __init__(self, most=1, *, gate=True, bake=30.0, failures=2):
        made = course(HOSTS, caps=Caps(9, 9, 3, failures), bake=bake)
        rules = (WarmRule("warm", 60.0, ALL, ORIGIN),) if gate else ()
        cold = (ColdLimit(most, ALL, ORIGIN),)
        budget = Budget(follow=True, cold=cold, warm=rules, ring=RingSize(SLOTS, HOSTS - SLOTS))
        super().__init__(replace(made, budget=budget), T0)
        self.judged(T0 + 1)
        self.serving, self.empty, self.others = set(range(SLOTS)), 0, ()
        self.sees(T0 + 1)

    def sees(self, at, *, taken=(), warm=(), left=(), **more):
        """The watch tells of the ring as it is."""
        known = RingSeen(
            serving=hexed(*self.serving),
            others=self.others,
            empty=self.empty,
            spares=0,
            taken=hexed(*taken),
            warm=hexed(*warm),
            **more,
        )
        gone = tuple(Departure(at, f"host-{index:03d}", index) for index in left)
        return self(FleetSeen(at, self.state.watch_turn, index=7, left=gone, ring=known))

    def replaces(self, at, old, new):
        """A node leaves, and another takes its slot."""
        self.serving = (self.serving - {old}) | {new}
        return self.sees(at, taken=(new,), left=(old,))

    @property
    def fresh(self):
        return list(members(self.state.fresh))


def test_nothing_begins_before_the_ring_was_told():
    told = Turning()
    assert told.asked == [0, 6, 7], "one of the slots, and the spares"
    silent = Told(told.state.course, T0)
    silent.judged(T0 + 1)
    silent(FleetSeen(T0 + 1, silent.state.watch_turn, index=7))
    assert silent.asked == []


def test_a_host_without_a_slot_takes_nothing_up():
    told = Turning(1)
    assert told.asked == [0, 6, 7]
    assert coldness.used(told.state, told.state.course.budget.cold[0]) == 1


def test_a_restart_costs_the_slot_that_the_host_had_until_the_spare_is_warm():
    told = Turning(1)
    told.answer(T0 + 2, 6).answer(T0 + 2, 7)
    told.replaces(T0 + 3, 0, 6)
    assert told.fresh == [6]
    told.answer(T0 + 8, 0)
    assert told.asked == [0, 6, 7], "the slot has a cold server"
    assert told.holds == []
    told.sees(T0 + 20, warm=(6,))
    assert told.asked == [0, 6, 7, 1]


def test_a_dead_node_replaced_by_a_warmed_spare_uses_nothing_up():
    told = Turning(1)
    for index in (6, 7):
        told.answer(T0 + 2, index)
    told.replaces(T0 + 3, 5, 6)  # it died; nobody asked it
    assert coldness.used(told.state, told.state.course.budget.cold[0]) == 2
    told.sees(T0 + 6, warm=(6,))
    assert coldness.used(told.state, told.state.course.budget.cold[0]) == 1, "that is host 0"
    told.answer(T0 + 7, 0)
    assert told.asked == [0, 6, 7, 5, 1], "host 5 has no slot any more"


def test_a_failed_host_that_lost_its_slot_leaves_room_for_the_next():
    told = Turning(1)
    told.replaces(T0 + 3, 0, 6)
    told.answer(T0 + 8, 0, "failed").answer(T0 + 8, 6).answer(T0 + 8, 7)
    assert told.asked == [0, 6, 7]
    told.sees(T0 + 9, warm=(6,))
    assert told.asked == [0, 6, 7, 1]


def test_a_host_that_keeps_its_slot_counts_until_it_has_answered():
    told = Turning(1)
    told.sees(T0 + 5)
    assert told.asked == [0, 6, 7]
    told.answer(T0 + 9, 0)
    assert told.asked == [0, 6, 7, 1]


def test_slots_that_nobody_serves_count_and_hold_while_nothing_helps():
    told = Turning(1)
    for index in (0, 6, 7):
        told.answer(T0 + 2, index)
    told.answer(T0 + 3, 1)
    assert told.asked[-1] == 2
    told.serving, told.empty = set(range(5)), 1
    told.sees(T0 + 4)
    told.answer(T0 + 5, 2)
    assert told.asked[-1] == 5, "it has no slot any more"
    told.answer(T0 + 6, 5)
    assert told.holds == ["limit:coldCapacity"]
    (why,) = told.state.hold("limit:coldCapacity").reasons
    assert why.startswith("1 ring slot")
    assert "no warm server: 1 served by nobody, 1 may be (policy cache (cache.yaml:9))" in why
    told.serving, told.empty = set(range(6)), 0
    told.sees(T0 + 10, taken=(5,), warm=(5,))
    assert told.holds == []


def test_a_server_that_is_not_warm_in_time_is_a_hold():
    told = Turning(1)
    for index in (0, 6, 7):
        told.answer(T0 + 2, index)
    told.replaces(T0 + 3, 1, 6)
    told.answer(T0 + 8, 1)
    told.tick_until(T0 + 62)
    assert told.holds == []
    told.tick_until(T0 + 64)
    assert told.holds == ["limit:coldCapacity"]
    assert "taken by a server that is not known to be warm" in told.state.holds[0].reasons[0]
    told.sees(T0 + 90, warm=(6,))
    assert told.holds == []


def test_what_stands_because_of_a_ring_stands_until_somebody_tells_of_it_again():
    told = Turning(1)
    for index in (0, 6, 7):
        told.answer(T0 + 2, index)
    told.replaces(T0 + 3, 1, 6)
    told.answer(T0 + 8, 1)
    told.tick_until(T0 + 64)
    told(WatchAgain(T0 + 65))
    assert "limit:coldCapacity" in told.holds, "a new watch knows nothing of the ring"
    told.sees(T0 + 66)
    assert "limit:coldCapacity" in told.holds


def test_without_a_gate_a_bake_warms_who_serves():
    told = Turning(1, gate=False)
    for index in (6, 7):
        told.answer(T0 + 2, index)
    told.replaces(T0 + 3, 0, 6)
    told.answer(T0 + 8, 0)
    assert told.state.step == "baking"
    assert told.asked == [0, 6, 7]
    told.tick_until(T0 + 40)
    assert told.asked == [0, 6, 7, 1]
    assert told.fresh == []


def test_two_gates_about_the_same_hosts_say_nothing_of_others():
    rules = tuple(WarmRule("warm", within, ((0, 3),), ORIGIN) for within in (30.0, 60.0))
    state = Turning().state
    budget = replace(state.course.budget, warm=rules)
    state = replace(state, course=replace(state.course, budget=budget))
    assert list(members(ring.by_gate(state))) == [0, 1, 2]


def test_nodes_of_no_plan_count_once_they_have_taken_a_slot():
    told = Turning(2)
    told.serving, told.others = set(range(1, 6)), ("other",)
    told.sees(T0 + 3, taken_others=("other",))
    assert told.state.catalog.ring.fresh == ("other",)
    for index in (0, 6, 7):
        told.answer(T0 + 4, index)
    assert told.asked == [0, 1, 6, 7], "the other node's slot and host 1's"
    told.sees(T0 + 9, warm_others=("other",))
    assert told.state.catalog.ring.fresh == ()
    assert told.asked == [0, 1, 6, 7, 2]


def test_the_ring_is_carried_and_a_new_watch_knows_it():
    told = Turning(1)
    told.replaces(T0 + 3, 0, 6)
    again = unpack(through_json(pack(told.state)), told.state.course)
    assert (again.serving, again.fresh) == (told.state.serving, bit(6))
    assert ring.known(again) == RingSeen(serving=hexed(1, 2, 3, 4, 5, 6), taken=hexed(6))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["restart", "dies", "warm", "answers", "time"]), st.integers(0, HOSTS - 1)
    ),
    max_size=30,
)


class World:
    """A ring with its spares, and what is truly cold in it."""

    def __init__(self, told):
        self.told, self.now = told, T0 + 2
        self.slots, self.spares = list(range(SLOTS)), list(range(SLOTS, HOSTS))
        self.cold = set()
        """Slots whose server is empty, by number."""

    def leaves(self, index):
        taken = ()
        if index in self.spares:
            self.spares.remove(index)
        if index in self.slots:
            place = self.slots.index(index)
            self.slots[place] = spare = self.spares.pop(0) if self.spares else None
            self.cold.add(place)
            taken = () if spare is None else (spare,)
        self.spares.append(index)  # it is back at once
        if None in self.slots:
            place = self.slots.index(None)
            self.slots[place] = self.spares.pop(0)
            taken = (*taken, self.slots[place])
        self.tell(taken=taken, left=(index,))

    def warm(self, index):
        if index in self.slots and self.slots.index(index) in self.cold:
            self.cold.discard(self.slots.index(index))
            self.tell(warm=(index,))

    def tell(self, **what):
        self.now += 1
        self.told.serving = set(self.slots)
        self.told.sees(self.now, **what)

    def step(self, what, index):
        self.now += 1
        flight = self.told.state.flight(index)
        if (what == "restart" and flight is not None) or what == "dies":
            self.leaves(index)
        elif what == "warm":
            self.warm(index)
        elif what == "answers" and flight is not None:
            self.told.answer(self.now, index)
        else:
            self.told.tick_until(self.now)


@given(most=st.integers(1, 3), steps=STEPS)
def test_ring_slots_hold(most, steps):
    """No host that has a slot is asked beside as many slots without a warm server as there may be,
    and every slot that is cold is counted, whoever made it so."""
    told = Turning(most)
    world = World(told)
    for what, index in steps:
        before = len(told.asked)
        serving, cold = set(world.slots), len(world.cold)
        world.step(what, index)
        state = told.state
        if state.finished:
            break
        counted = coldness.used(state, state.course.budget.cold[0])
        assert counted >= len(world.cold), "a cold slot was not counted"
        fresh = [i for i in told.asked[before:] if i in set(world.slots) & serving]
        fresh = [i for i in fresh if world.slots.index(i) not in world.cold]
        if fresh:
            assert len(world.cold | {world.slots.index(i) for i in fresh}) <= most, cold


@given(steps=STEPS)
def test_who_is_warm_and_serves_uses_nothing_up(steps):
    """Once every slot has a warm server, only hosts that are asked take anything up."""
    told = Turning(1)
    world = World(told)
    for what, index in steps:
        world.step(what, index)
    for index in range(HOSTS):
        world.warm(index)
    asked_for = replace(told.state, cold=0)
    assert ring.cold(asked_for, (1 << HOSTS) - 1) == 0


# ---------------------------------------------------------------- in the plan


def ring_plan(care, *, slots=24, spares=6, **more):
    listed = RingListed(
        tuple(f"host-{i:03d}" for i in range(slots)),
        tuple(f"host-{i:03d}" for i in range(slots, slots + spares)),
    )
    there = hosts(slots + spares)
    leave = {host.name: Seen(OLD, OLD, leaves="yes") for host in there}
    made = replace(found(there, policies=(care,), seen=leave), ring=listed)
    asked = replace(request("100%", **more), fleet=RING_FLEET)
    return make_plan(asked, made, now=T0)


def row(made, name):
    return next(one for one in made.limits if one.name == name)


def test_a_share_of_what_may_be_cold_is_of_the_slots():
    made = ring_plan(policy(limits={"cold_capacity": percent(10)}), slots=30, spares=20)
    assert [limit.most for limit in made.budget.cold] == [3]
    assert (row(made, "coldCapacity").value, row(made, "coldCapacity").unit) == (3.0, "nodes")
    assert made.budget.ring == RingSize(30, 20)
    assert course_of(made, "x").budget.ring == RingSize(30, 20)


@pytest.mark.parametrize(("spares", "away", "few"), [(2, 2, False), (1, 2, True), (0, 1, True)])
def test_as_many_spares_as_nodes_that_may_leave_at_once(spares, away, few):
    caps = {"unavailable": amount(away), "unavailable_per_domain": amount(9), "domains_at_once": 9}
    made = ring_plan(policy(limits=caps), spares=spares)
    assert row(made, "spares").value == away
    said = [why for why in made.refusals if "spares" in why]
    assert bool(said) == few
    if few:
        assert said[0].startswith(
            f"the ring of fleet cache has 24 slots and {spares} spares, and at least {away} must"
        )


def test_a_policy_may_ask_for_more_spares_and_is_named():
    made = ring_plan(policy(limits={"spares": 7}))
    (why,) = [why for why in made.refusals if "spares" in why]
    assert "at least 7 must be there" in why
    assert "policy base" in why or "policy" in why
    assert not [w for w in ring_plan(policy(limits={"spares": 6})).refusals if "spares" in w]


def test_spares_that_nobody_can_count_are_a_refusal():
    care = policy(limits={"spares": 1})
    made = make_plan(request("100%"), found(hosts(30), policies=(care,)), now=T0)
    (why,) = [why for why in made.refusals if "spares" in why]
    assert "names no ring" in why


def test_a_gate_warms_and_is_read_for_the_ring():
    warm = replace(gate("cache-warm"), query='memcached_warm{instance="{host}"}')
    assert "{host}" in warm.query
    made = ring_plan(policy(warm_up=WarmUp("margin", 900.0), limits={"cold_capacity": amount(1)}))
    assert made.budget.warm[0].within == 900.0
