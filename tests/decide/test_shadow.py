"""What a shadow's course is, what it says of itself, and when it would have held."""

from dataclasses import replace

from plan_builders import hosts as some_hosts
from plan_builders import plan as planned_as

from guardrail.decide import shadow
from guardrail.decide.chain import check
from guardrail.decide.explain import explain, status
from guardrail.decide.plan import course_of
from guardrail.decide.record import entries
from guardrail.decide.transition import decide
from guardrail.model.lease import Need
from guardrail.model.operation import Started, State
from guardrail.twins import Turn, TwinJournal

from builders import approval, course, gate
from small import begins, go


def real(*ends, **fields):
    leased = (Need("memcached", True, "7"),)
    return replace(
        course(*ends or (3,), **fields),
        leases=leased,
        reread=100,
        merges=True,
        observe_after=3600.0,
    )


def test_it_takes_no_lease_asks_nobody_and_reads_nothing_again():
    made = shadow.as_shadow(real(approvals=(approval(),), gates=(gate(by="person"),)))
    assert (made.shadow, made.leases, made.approvals) == (True, (), ())
    assert made.passed == (approval(),)
    assert (made.reread, made.observe_after, made.merges) == (0, 0.0, False)
    assert [rule.recover_by for rule in made.gates] == ["evidence"]


def test_hosts_waves_limits_and_times_are_those_of_the_real_one():
    plain = course(1, 3)
    made = shadow.as_shadow(plain)
    assert begins(go(made)) == begins(go(plain)) == [(1.0, 0), (36.0, 1), (41.0, 2)]


def test_the_plan_carries_the_word_into_the_course():
    plan = planned_as(some_hosts(3))
    assert not course_of(plan, "sha256:x").shadow
    assert course_of(replace(plan, shadow=True), "sha256:x").shadow


def test_it_says_what_it_is_wherever_its_state_is_told():
    run = go(shadow.as_shadow(course(2)))
    told = status(run.state, 100.0)
    assert told.shadow
    assert told.sentence == ("shadow, nothing is changed: completed: 2 of 2 hosts would be changed")
    assert "shadow, nothing is changed" in explain(run.state)[0]


def recorded(run, facts=(shadow.FACT,)):
    """The journal of a drive, as its events were decided once more."""
    journal, state = TwinJournal(), State(run.state.course, "twin")
    for number, moment in enumerate(run.moments):
        decision = decide(state, moment.event)
        told = facts if isinstance(moment.event, Started) else ()
        journal.append(entries(state, moment.event, decision, number=number, facts=told))
        state = decision.state
    return check(journal.read("twin"), "twin").lines


def test_its_report_says_when_and_why_it_would_have_held():
    bad = (Turn(7.0, "margin", "fail"), Turn(20.0, "margin", "pass"))
    run = go(shadow.as_shadow(course(3)), gates=bad)
    found = shadow.report("twin", recorded(run))
    assert (found.shadow, found.phase, found.started_at) == (True, "completed", 0.0)
    assert found.finished_at == run.state.finished_at
    (held,) = found.held
    assert (held.name, held.since, held.finished_at) == ("gate:margin", 7.0, 40.0)
    assert held.reasons == ("margin: fail",)
    assert held.cleared == "evidence good for 20 s; on at half the pace"


def test_what_holds_at_the_end_ends_with_it_and_what_goes_on_is_open():
    run = go(shadow.as_shadow(course(3)), gates=(Turn(7.0, "margin", "fail"),), until=500.0)
    (held,) = shadow.report("twin", recorded(run)).held
    assert held.finished_at is None
    plain = shadow.report("twin", recorded(go(course(1)), facts=()))
    assert (plain.shadow, plain.held, plain.phase) == (False, (), "completed")


def test_its_report_says_which_approvals_it_went_past_and_when():
    points = [approval(), replace(approval("3", wave=1, count=2), verified=True)]
    run = go(shadow.as_shadow(course(1, 3, approvals=points)))
    assert begins(run) == begins(go(course(1, 3)))
    lines = recorded(run)
    later = next(line.at for line in lines if line.kind == "wave" and line.fields["number"] == 2)
    assert shadow.report("twin", lines).passed == (
        shadow.Passed(0.0, "start", 1, "policy test (test.yaml:1)"),
        shadow.Passed(later, "3", 3, "policy test (test.yaml:1)"),
    )
    assert later > 0
    assert shadow.report("twin", recorded(go(course(1)), facts=())).passed == ()


def test_its_report_counts_the_hosts_that_would_have_been_cold():
    lines = recorded(go(shadow.as_shadow(course(2))))
    assert shadow.report("twin", lines).warm == 0
    warm = [
        replace(line, record=replace(line.record, facts=(shadow.FACT, shadow.WARM)))
        if line.kind == "answered"
        else line
        for line in lines
    ]
    assert shadow.report("twin", warm).warm == 2
