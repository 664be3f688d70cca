"""Whoever leads the servers comes after all others, also when leadership moves meanwhile."""

from dataclasses import replace

import plan_builders as pb
from hypothesis import given, settings
from hypothesis import strategies as st

from guardrail.decide.bits import members
from guardrail.decide.explain import explain
from guardrail.decide.leading import FRESH
from guardrail.model.fleet import Leading
from guardrail.model.operation import LeaderSeen, WatchAgain
from guardrail.twins import Script, drive

from builders import course, courses, people, say, works
from small import begins, drive_on, hosts

WANTED = pb.policy("servers", leader_last=True, required_gates=("margin",))


def servers(leads, *ends, until=20_000.0, said=(), **fields):
    """Servers of which one leads: leads(seconds) is that one, or why it is not known."""

    def seen(now):
        who = leads(now)
        return (-1, who) if isinstance(who, str) else (who, "")

    script = Script(hosts(fields.pop("outcomes", ())), people=said, leads=seen)
    plan = replace(course(*(ends or (1, 2, 3)), **fields), leader_last=True)
    return drive(plan, script, until=until)


def order(run, direction=None):
    return [index for _, index in begins(run, direction)]


def at(*steps):
    """Who leads from each time on: at((0, 2), (30, 1))."""
    return lambda now: [who for when, who in steps if when <= now][-1]


# ---------------------------------------------------------------- the plan


def plan_of(leading, **fields):
    return pb.plan(pb.hosts(5), 1, "100%", policies=(WANTED,), leading=leading, **fields)


def test_the_plan_puts_the_leader_last_and_in_a_wave_of_its_own():
    made = plan_of(Leading("cache-001"))
    assert [host.name[-1] for host in made.hosts] == ["2", "3", "4", "5", "1"]
    assert (made.waves[-1].begin, made.waves[-1].end) == (4, 5)
    assert (made.leader_last, made.leader, made.refusals) == (True, "cache-001", ())


def test_after_the_guard_s_own_servers_and_never_as_a_canary():
    made = plan_of(
        Leading("cache-002"),
        guards=frozenset(("cache-001", "cache-002")),
        order=pb.Order(canaries=("role",)),
    )
    assert [host.name[-1] for host in made.hosts] == ["3", "4", "5", "1", "2"]


def test_a_leader_that_is_not_known_refuses_the_plan():
    (reason,) = plan_of("Consul at http://x did not answer: nothing came within 5 s").refusals
    assert reason.startswith("the leader must come last, and who leads cannot be told: Consul at")


def test_one_that_is_elsewhere_and_servers_that_are_not_well_are_told():
    made = plan_of(Leading("other", "autopilot calls its servers not healthy: s2"))
    assert made.refusals == ()
    assert "no host begins until all servers are well" in made.warnings[-2]
    assert "other leads and is not in fleet" in made.warnings[-1]


def test_without_the_word_nobody_is_asked():
    made = pb.plan(pb.hosts(3), 1, "100%", policies=(pb.policy("p"),))
    assert (made.leader_last, made.leader) == (False, "")
    assert not any("leads" in reason for reason in made.refusals)


# ---------------------------------------------------------------- going forward


def test_leadership_that_stays_changes_nothing_of_the_order():
    run = servers(lambda _: 2)
    assert order(run) == [0, 1, 2]
    assert run.state.phase == "completed"


def test_one_that_leads_by_now_is_put_off_to_the_end_with_a_bake_before_it():
    run = servers(at((0, 2), (20, 1)))
    assert order(run) == [0, 2, 1]
    assert run.state.phase == "completed"
    _, second, third = (when for when, _ in begins(run))
    assert third - second > 35.0  # 5 s of work and a whole bake
    told = [note.text for note in run.state.story]
    assert "host-001 leads now: it begins after the 1 that are still to come" in told


def test_leadership_that_moves_on_puts_off_again():
    run = servers(at((0, 0), (20, 2), (80, 0)), 1, 2, 3, 4)
    assert order(run) == [1, 3, 2, 0]
    assert run.state.phase == "completed"


def test_within_one_wave_hosts_begin_one_by_one():
    caps = replace(course(3).caps, unavailable=3, unavailable_per_domain=3)
    run = servers(lambda _: 0, 3, caps=caps)
    assert order(run) == [1, 2, 0]
    assert all(len(moment.state.in_flight) <= 1 for moment in run.moments)


def test_a_leader_that_is_not_of_the_plan_keeps_nobody():
    assert order(servers(lambda _: -1)) == [0, 1, 2]


def test_unknown_leadership_holds_with_its_reason_and_ends_with_evidence_and_a_bake():
    run = servers(at((0, 2), (20, "no leader"), (100, 2)))
    _, second, _ = (when for when, _ in begins(run))
    assert second >= 100 + 30  # it bakes first
    assert run.state.phase == "completed"
    stood = servers(at((0, 2), (20, "no leader")), until=90.0)
    assert order(stood) == [0]
    hold = stood.state.hold("leader")
    assert hold.reasons == ("no leader",)
    assert "no leader" in "\n".join(explain(stood.state))


def test_an_old_answer_and_a_lost_carrier_begin_nothing():
    run = servers(lambda _: 2, until=1.05)
    assert run.state.leader_looking
    run = drive_on(run, LeaderSeen(1.06, 7, 2, "x"), until=1.06)
    assert order(run) == []
    run = drive_on(run, WatchAgain(1.07), until=20_000.0)
    assert order(run) == [0, 1, 2]


# ---------------------------------------------------------------- going back


def test_going_back_the_leader_is_last_too():
    run = servers(at((0, 2), (50, 1)), 1, 2, 3, said=(say(80, "rollback"),), when="ask")
    assert run.state.phase == "rolled_back"
    assert order(run, "forward") == [0, 1, 2]
    assert order(run, "back") == [2, 0, 1]


def test_two_people_who_accept_churn_are_not_kept_by_unknown_leadership():
    churn = [
        say(90, "rollback", "ann", accept_churn=True, verified=True),
        say(91, "rollback", "bob", accept_churn=True, verified=True),
    ]
    lost = at((0, 2), (20, "no leader"))
    held = servers(lost, said=(say(90, "rollback", "ann"),), until=3000.0)
    assert order(held, "back") == []
    run = servers(lost, said=tuple(churn), until=3000.0)
    assert run.state.phase == "rolled_back"


# ---------------------------------------------------------------- the rule, by name


@st.composite
def elections(draw):
    """Who leads when: hosts of the plan, others (-1), or nobody knows."""
    times = sorted(draw(st.lists(st.integers(0, 900), max_size=8)))
    who = st.one_of(st.integers(-1, 11), st.just("no leader"))
    return [(0, draw(who)), *((when, draw(who)) for when in times), (1000, draw(st.integers(0, 5)))]


def leader_last(run):
    """A host that leads, as it was seen last, begins only when no other one is still to begin."""
    seen, asked = None, set()
    for moment in run.moments:
        if isinstance(moment.event, LeaderSeen) and moment.event.turn == moment.state.leader_turn:
            seen = moment.event
        for begin in moment.asked:
            state = moment.state
            if state.direction == "back" and len(state.churn_accepted) > 1:
                continue
            assert seen is not None
            assert not seen.problem
            assert moment.event.at - seen.at <= FRESH
            if seen.index == begin.index:
                assert not others(state, begin, asked)
            seen = None
            asked.add((begin.index, begin.direction))


def others(state, begin, asked):
    if begin.direction == "back":
        stuck = state.failed | state.unknown | state.blocked
        return set(members(state.take_back & ~stuck)) - {begin.index}
    left = set(range(state.course.hosts)) - {begin.index} - set(members(state.set_aside))
    return {index for index in left if (index, "forward") not in asked}


@settings(max_examples=150)
@given(st.data(), courses(approvals=False), elections(), st.integers(0, 10**6))
def test_leader_last(data, plan, elected, seed):
    said = data.draw(people(plan.hosts))

    def seen(now):
        who = at(*elected)(now)
        return (-1, who) if isinstance(who, str) else (who if who < plan.hosts else -1, "")

    script = Script(works(seed), people=said, leads=seen)
    run = drive(replace(plan, leader_last=True), script, until=4000.0)
    leader_last(run)


@settings(max_examples=60)
@given(courses(approvals=False), elections())
def test_progress_with_a_leader_that_is_known_in_the_end(plan, elected):
    def seen(now):
        who = at(*elected)(now)
        return (-1, who) if isinstance(who, str) else (who if who < plan.hosts else -1, "")

    plan = replace(plan, leader_last=True, rollback_when="ask")
    run = drive(plan, Script(hosts(), leads=seen), until=50_000.0)
    assert run.state.phase == "completed"
    assert run.state.changed == (1 << plan.hosts) - 1


def test_a_host_that_may_not_begin_after_all_is_looked_at_again_and_put_off():
    """A worker that finds it leading says `not_begun`."""
    run = servers(at((0, 2), (40, 1)), outcomes={(1, 1): "not_begun"})
    assert begins(run)[1][0] < 40
    assert order(run) == [0, 1, 2, 1]
    assert run.state.phase == "completed"
