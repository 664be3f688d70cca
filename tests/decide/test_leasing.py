"""An operation and its lease: asked for before a wave, kept while hosts are away, cold or baking.

Hosts answer 5 s after they were asked, a bake takes 30 s, waves are of the hosts named; whoever
waits asks every 5 s.
"""

import dataclasses

import pytest

from guardrail.decide import leases
from guardrail.decide.explain import advice
from guardrail.decide.transition import decide, may_begin
from guardrail.model.lease import Break, Grant, Need, Share
from guardrail.model.operation import (
    KeepLease,
    LeaseTold,
    Started,
    State,
    WatchAgain,
)
from guardrail.model.plan import Caps
from guardrail.twins import Drive, Script, TwinLeases, side_by_side

from builders import course, say
from small import begins, held, hosts, span

ONE = Share(1, 1, 1)


def needing(*ends, exclusive=True, unavailable=1, per_domain=None, role="memcached"):
    """A course of hosts that all have one role."""
    caps = Caps(unavailable, per_domain or unavailable, 3, 0)
    need = Need(role, exclusive, f"{(1 << ends[-1]) - 1:x}")
    return dataclasses.replace(course(*ends, caps=caps), leases=(need,))


def side(*plans, people=(), works=None, urgent=(), starts=(), until=3000.0):
    """Operations a, b, … on one table; each starts 3 s after the one before, if nothing is said."""
    table = TwinLeases()
    drives = []
    for n, plan in enumerate(plans):
        name = "abc"[n]
        said = tuple(each for who, each in people if who == name)
        script = Script((works or {}).get(name, hosts()), (), said, (), 1.0)
        run = Drive(State(plan, name), script, leases=table, urgent=name in urgent)
        run.now = starts[n] if starts else 3.0 * n
        run.schedule()
        run.happen(Started(run.now))
        drives.append(run)
    side_by_side(drives, until)
    return table, drives


def told(run, word, at=0.0, **more):
    return LeaseTold(at, run.state.lease_turn, word, **more)


# ---------------------------------------------------------------- alone


def test_a_lease_is_asked_for_each_wave_kept_to_the_end_of_its_bake_and_given_back():
    table, (run,) = side(needing(1, 3))
    assert run.state.phase == "completed"
    assert table.table.leases == ()
    turns = [m.state.lease_turn for m in run.moments]
    assert turns[-1] == 4  # asked and given back, twice
    first = next(m for m in run.moments if m.state.lease is not None)
    assert (first.asked, first.state.changed) != ((), 1)
    while_begun = [m.state.lease for m in run.moments if m.state.in_flight]
    assert None not in while_begun


def test_nothing_begins_before_the_lease_is_there_and_nothing_is_asked_without_evidence():
    plan = needing(2)
    state = decide(State(plan, "a"), Started(0.0)).state
    assert state.lease_turn == 0
    _, (run,) = side(plan)
    asked = next(m for m in run.moments if m.state.lease_turn == 1)
    assert asked.event.kind == "gate_judged"
    assert (asked.asked, may_begin(asked.state)) == ((), False)


def test_a_wave_needs_the_roles_of_its_own_hosts():
    plan = dataclasses.replace(
        needing(2, 4), leases=(Need("db", False, "3"), Need("web", False, "f"))
    )
    _, (run,) = side(plan)
    assert run.state.phase == "completed"
    asked = {m.state.wave: m.state.lease_ask.roles for m in run.moments if m.state.lease_ask}
    assert asked == {0: ("db", "web"), 1: ("web",)}


# ---------------------------------------------------------------- two on one role


def test_the_second_waits_names_the_holder_and_bakes_when_it_has_it():
    _, (one, two) = side(needing(2), needing(2))
    assert (one.state.phase, two.state.phase) == ("completed", "completed")
    since, until = span(two, "lease")
    hold = next(m.state.hold("lease") for m in two.moments if m.state.hold("lease"))
    assert "memcached is held by a (ann: a drive) since 00:00:01Z, until" in hold.reasons[0]
    assert hold.clears == "the lease regained, then a bake"
    # the first: 2 hosts of 5 s from t=1, a bake of 30 s; the second asks every 5 s
    assert (round(since), round(until)) == (4, 44)
    assert begins(two)[0][0] == until
    assert not set(away_times(one)) & set(away_times(two))


def test_who_waits_is_told_that_it_goes_on_by_itself_and_where_to_look():
    _, (_, two) = side(needing(2), needing(2), until=10.0)
    assert advice(two.state) == (
        "If nobody acts it goes on by itself: the lease regained, then a bake.",
        "guardrail lease list",
    )


def test_whose_lease_was_broken_is_told_to_resume():
    run = running()
    run.happen(told(run, "broken", 3.0, reasons=("broken by cid",)))
    assert advice(run.state)[1] == "guardrail rollout resume a"


def away_times(run):
    """The whole seconds at which hosts were away or cold."""
    seconds = []
    pairs = zip(run.moments, [*run.moments[1:], None], strict=True)
    for moment, after in pairs:
        state = moment.state
        if state.in_flight or (state.turn > state.baked_turn and not state.finished):
            end = after.event.at if after else moment.event.at
            seconds += range(int(moment.event.at * 100), int(end * 100))
    return seconds


def test_between_two_waves_whoever_waits_has_its_turn():
    _, (one, two) = side(needing(1, 2), needing(1, 2))
    assert (one.state.phase, two.state.phase) == ("completed", "completed")
    order = sorted([(at, "a") for at, _ in begins(one)] + [(at, "b") for at, _ in begins(two)])
    assert [name for _, name in order] == ["a", "b", "a", "b"]


def test_what_is_shared_is_shared_and_the_sum_stays_within_the_limit():
    shared = {"role": "web", "exclusive": False, "unavailable": 4, "per_domain": 4}
    first, second = needing(1, 9, **shared), needing(9, **shared)
    _, runs = side(first, second, works={"b": hosts(takes=500.0)}, until=60.0)
    assert runs[1].state.lease.share == Share(3, 3, 2)
    assert len(runs[1].state.in_flight) == 3
    side_by_side(runs, 5000.0)
    assert [run.state.phase for run in runs] == ["completed", "completed"]


# ---------------------------------------------------------------- yielding


def test_an_urgent_one_makes_the_first_yield_and_it_bakes_when_it_has_it_again():
    slow = hosts(takes=20.0)
    _, (one, urgent) = side(
        needing(4), needing(1), urgent="b", works={"a": slow}, starts=(0.0, 30.0)
    )
    assert (one.state.phase, urgent.state.phase) == ("completed", "completed")
    since, until = span(one, "yield")
    hold = next(m.state.hold("yield") for m in one.moments if m.state.hold("yield"))
    assert hold.reasons == ("b is urgent (ann: a drive) and waits for memcached",)
    settled = next(at for at, _ in begins(one) if at > 20) + 20.0
    assert since < settled
    first = begins(urgent)[0][0]
    assert settled <= first <= settled + 6  # it asks every 5 s
    after = [at for at, _ in begins(one) if at >= until]
    assert after[0] - until == pytest.approx(30.0, abs=0.1)
    assert not set(range(int(first), int(urgent.moments[-1].event.at))) & {
        int(at) for at, _ in begins(one)
    }


def test_a_normal_one_does_not_make_another_yield():
    _, (one, two) = side(needing(3), needing(1))
    assert not any(m.state.hold("yield") for m in one.moments)
    assert two.state.phase == "completed"


# ---------------------------------------------------------------- holds, and what they give back


def test_held_by_a_person_with_hosts_cold_it_is_given_back_only_after_a_bakes_time():
    people = (("a", say(8, "pause")), ("a", say(300, "resume")))
    _, (one, two) = side(needing(3), needing(1), people=people)
    # both hosts begun have answered at 11; warm 30 s later
    assert [round(at) for at, _ in begins(one)][:2] == [1, 6]
    assert 41 <= begins(two)[0][0] <= 46
    assert "operator:bob" in held(one, 200)
    assert (one.state.phase, two.state.phase) == ("completed", "completed")
    assert [at for at, _ in begins(one)][2] >= 330


def test_held_with_nothing_begun_it_is_given_back_at_once():
    people = (("a", say(0, "pause")), ("a", say(300, "resume")))
    _, (one, two) = side(needing(3), needing(1), people=people)
    assert begins(two)[0][0] < 5
    assert begins(one)[0][0] >= 300


def test_held_while_it_waits_it_waits_no_more():
    people = (("b", say(10, "pause")), ("b", say(20, "resume")))
    _, (_, two) = side(needing(3), needing(1), people=people)
    assert held(two, 15) == ["operator:bob"]
    assert two.state.phase == "completed"


def test_an_unknown_host_keeps_the_lease_until_a_person_deals_with_it():
    work = hosts({(0, 1): "unknown"})
    people = (("a", say(400, "skip")),)
    _, (_, two) = side(needing(2), needing(1), works={"a": work}, people=people)
    assert begins(two)[0][0] > 430


def test_an_urgent_one_waits_for_a_host_that_is_unknown():
    work = hosts({(0, 1): "unknown"})
    people = (("a", say(400, "skip")),)
    _, (one, two) = side(needing(2), needing(1), urgent="b", works={"a": work}, people=people)
    assert set(held(one, 300)) == {"host:host-000", "yield"}
    assert 400 < begins(two)[0][0] < 410
    assert one.state.phase == "completed"


# ---------------------------------------------------------------- lost, broken


def running(plan=None):
    """A drive with its first host in flight and its lease granted."""
    _, (run,) = side(plan or needing(3), until=2.0)
    assert run.state.in_flight
    return run


def test_a_keeper_that_falls_silent_holds_and_another_one_asks_for_the_same():
    run = running()
    decision = decide(run.state, told(run, "lost", 3.0, reasons=("silent",)))
    state = decision.state
    assert state.hold("lease").reasons == ("silent",)
    [keep] = [a for a in decision.actions if isinstance(a, KeepLease)]
    assert keep.ask.keep
    assert keep.token == run.state.lease.token
    assert not may_begin(state)
    back = LeaseTold(4.0, keep.turn, "granted", grant=run.state.lease)
    after = decide(state, back).state
    assert after.hold("lease") is None
    assert after.step == "baking"


def test_a_lease_that_was_lost_meanwhile_is_a_reason_to_bake():
    run = running()
    run.happen(WatchAgain(3.0))
    grant = Grant(99, ONE, ("memcached",))
    state = decide(run.state, told(run, "granted", 4.0, grant=grant, anew=True)).state
    assert (state.step, state.lease) == ("baking", grant)
    quiet = decide(run.state, told(run, "granted", 4.0, grant=grant)).state
    assert quiet.step == "changing"


def test_a_new_run_is_not_sure_of_its_lease_until_its_keeper_says_so():
    run = running()
    decision = decide(run.state, WatchAgain(3.0))
    assert not may_begin(decision.state)
    [keep] = [a for a in decision.actions if isinstance(a, KeepLease)]
    assert keep.ask.keep


def test_a_word_on_an_earlier_ask_changes_nothing():
    run = running()
    late = LeaseTold(3.0, run.state.lease_turn - 1, "lost")
    after = decide(run.state, late).state
    assert dataclasses.replace(after, calm_since=run.state.calm_since) == run.state


def test_a_broken_lease_holds_until_a_person_resumes_and_is_given_back_when_settled():
    run = running()
    said = Break("memcached", "cid", "mine now")
    run.leases.table = leases.broken(run.leases.table, said, 2.5)
    run.run(8.0)
    assert run.state.hold("lease").reasons == (
        "the lease on memcached was broken by cid: mine now",
    )
    assert run.state.lease_broken
    assert not run.state.in_flight
    assert run.leases.table.leases == ()
    before = run.now
    run.run(500.0)
    assert not [at for at, _ in begins(run) if at > before]
    run.now = 500.0
    run.happen(say(500, "resume"))
    run.run(3000.0)
    assert run.state.phase == "completed"
    assert begins(run)[1][0] >= 530


def test_with_hosts_in_flight_a_broken_lease_cannot_be_resumed_yet():
    run = running()
    run.happen(told(run, "broken", 3.0, reasons=("broken by cid",)))
    run.happen(say(4, "resume"))
    assert run.state.lease_broken
    assert run.state.hold("lease")


def test_an_end_gives_back():
    run = running()
    run.happen(say(3, "abort"))
    run.run(20.0)
    assert run.state.phase == "aborted"
    assert run.leases.table.leases == ()


def test_going_back_needs_the_lease_as_well():
    people = (("a", say(60, "rollback")),)
    table, (one, two) = side(
        needing(1, 6), needing(1), people=people, works={"a": hosts(takes=20.0)}
    )
    assert (one.state.phase, two.state.phase) == ("rolled_back", "completed")
    for moment in one.moments:
        assert moment.state.lease is not None or not moment.state.in_flight
    assert table.table.leases == ()


def test_one_that_turns_round_while_it_waits_keeps_what_its_hosts_in_flight_need():
    """The first wave is of db hosts, the second of web hosts; the keeper is lost in the second."""
    needs = (Need("db", True, "1"), Need("web", True, "6"))
    plan = dataclasses.replace(needing(1, 3), leases=needs)
    _, (run,) = side(plan, works={"a": hosts(takes=20.0)}, until=70.0)
    assert (run.state.wave, [f.index for f in run.state.in_flight]) == (1, [1])
    run.happen(told(run, "lost", 70.0, reasons=("silent",)))
    run.happen(say(71, "rollback"))
    assert run.state.wave == 0
    assert run.state.lease_ask.roles == ("db", "web")
    assert run.state.lease_ask.keep


# ---------------------------------------------------------------- limits that change meanwhile


def exceeding(at, value, until, name="a"):
    """That person has so many hosts away from then on, wherever they are."""
    limits = ("unavailable", "unavailablePerDomain")
    fields = {"value": float(value), "until": float(until), "reason": "late"}
    return tuple((name, say(at, "override", limit=limit, **fields)) for limit in limits)


def shared(*ends, unavailable):
    return needing(*ends, exclusive=False, unavailable=unavailable, role="web")


def limits_in(table):
    return [(x.holder.operation, x.parts[0].share.hosts, x.parts[0].limit.hosts)
            for x in table.table.leases]  # fmt: skip


def test_an_override_reaches_a_lease_that_is_held_at_once_and_so_does_its_end():
    plan = shared(12, unavailable=2)
    for until, now in ((8.0, ("a", 5, 5)), (14.0, ("a", 5, 5)), (20.0, ("a", 2, 2))):
        table, (run,) = side(plan, people=exceeding(7, 5, 13), until=until)
        assert limits_in(table) == [now], until
        assert run.state.lease_sure
    busy = max(len(moment.state.in_flight) for moment in run.moments)
    assert busy == 5
    over = [m for m in run.moments if m.event.at > 13 and m.state.hold("override")]
    assert over, "five were away when two were allowed again"
    assert {m.state.lease.share.hosts for m in over} == {5}, "that is what it has till then"
    assert side(plan, people=exceeding(7, 5, 13))[1][0].state.phase == "completed"


def test_where_no_host_waits_any_more_others_are_told_of_its_limits_too():
    """a has both its hosts away, with 5 allowed for a while; b wants 3 beside them."""
    slow = {"a": hosts(takes=200.0)}
    plans = (shared(2, unavailable=2), shared(3, unavailable=5))
    people = exceeding(10, 5, 60)
    table, (_, b) = side(*plans, people=people, works=slow, starts=(0, 20), until=30.0)
    assert limits_in(table) == [("a", 2, 5), ("b", 3, 5)]
    assert len(b.state.in_flight) > 0
    table, (_, b) = side(*plans, people=people, works=slow, starts=(0, 70), until=80.0)
    assert limits_in(table) == [("a", 2, 2)], "it is over: b waits, as a's policies want"
    assert held(b, 80.0) == ["lease"]
    assert not b.state.in_flight


def test_limits_that_stay_are_asked_for_once():
    _, (run,) = side(shared(6, unavailable=2), until=20.0)
    assert {moment.state.lease_turn for moment in run.moments} == {0, 1}
