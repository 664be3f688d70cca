"""Does an operation keep to its windows, and does it say so?

Hosts answer 5 s after they were asked (at the latest after 60 s), a bake takes 30 s, so 90 s must
be open when a host begins; verdicts come at t=1.
"""

from dataclasses import replace

import pytest
from decide.test_calendar import LA, at, window

from guardrail.decide.calendar import expand
from guardrail.decide.explain import advice, explain, sentence, status
from guardrail.decide.tighten import tightened
from guardrail.decide.transition import decide
from guardrail.decide.windows import open_for
from guardrail.model.calendar import Calendar, Closed, ClosedBy, Shut, Windows
from guardrail.model.common import Origin
from guardrail.model.operation import Started, State, Ticked
from guardrail.model.plan import Caps
from guardrail.twins import Turn, as_planned

from builders import course, gate, say
from small import begins, go, held, hosts, span

ORIGIN = Origin("policy cache", "policies/cache.yaml", 30)
NIGHT = ClosedBy("daily peak", "05:30-10:00", "UTC", ORIGIN)


def shut_at(*closed, until=100_000.0, by=NIGHT):
    """A calendar that is closed from, to (seconds), ..."""
    times = tuple(Closed(float(b), float(e), 0) for b, e in closed)
    shut = tuple(Shut(one.closes_at, one.opens_at) for one in times)
    return Calendar(until, (by,), times, shut, shut if by.binds_back else ())


def plan(calendar, *ends, **fields):
    fields = {"caps": Caps(1, 1, 3, 0), "bake": 30.0} | fields
    return replace(course(*ends or (3,), **fields), calendar=calendar, host_timeout=60.0)


# ---------------------------------------------------------------- when hosts begin


def test_without_windows_nothing_waits():
    assert begins(go(plan(None))) == [(1.0, 0), (6.0, 1), (11.0, 2)]


def test_a_closed_time_at_the_start_holds_the_first_host_and_needs_no_bake():
    run = go(plan(shut_at((-100, 200))))
    assert span(run, "window") == (0.0, 200.0)
    assert begins(run) == [(200.0, 0), (205.0, 1), (210.0, 2)]
    assert run.state.phase == "completed"


def test_a_window_that_closes_mid_wave_lets_hosts_in_flight_finish_and_reopening_bakes_first():
    """Closed from 99 s on: a host must begin before 9 s. Host 1 is in flight, host 2 waits."""
    run = go(plan(shut_at((99, 500))))
    assert begins(run) == [(1.0, 0), (6.0, 1), (530.0, 2)]
    assert span(run, "window") == (9.0, 500.0)
    assert held(run, 8.9) == []
    answered = [m for m in run.moments if m.event.kind == "host_answered"]
    assert [m.event.at for m in answered] == [6.0, 11.0, 535.0]
    assert run.state.phase == "completed"
    assert run.state.finished_at == 565.0


def test_a_host_begins_only_if_it_is_baked_before_the_next_closed_time():
    """90 s are needed: 91 s are enough, 90 s are not."""
    assert begins(go(plan(shut_at((92, 500)), 1)))[0] == (1.0, 0)
    assert begins(go(plan(shut_at((91, 500)), 1)))[0] == (500.0, 0)


def test_an_open_time_too_short_for_a_bake_and_a_host_is_passed_by():
    """After the first host a bake comes first: 30 + 60 + 30 s must be open."""
    run = go(plan(shut_at((99, 500), (620, 700), (821, 900)), 3))
    assert [at for at, _ in begins(run)] == [1.0, 6.0, 730.0]
    first = next(m.state.hold("window") for m in run.moments if m.state.hold("window"))
    assert "open at 1970-01-01 00:11 UTC (UTC)" in first.clears


def test_the_bake_after_a_wave_goes_on_while_it_is_closed_and_the_next_wave_waits():
    run = go(plan(shut_at((97, 500)), 1, 2))
    assert begins(run) == [(1.0, 0), (530.0, 1)]
    assert span(run, "window") == (36.0, 500.0)


def test_the_last_bake_ends_in_a_closed_time_and_with_it_the_operation():
    run = go(
        plan(shut_at((92, 500)), 1),
        work=hosts(takes=59.0),
        gates=[Turn(65.0, "margin", "inconclusive"), Turn(70.0, "margin", "pass")],
    )
    assert run.state.phase == "completed"
    assert 92.0 < run.state.finished_at == 95.0
    assert not any(m.state.hold("window") for m in run.moments)


def test_it_opens_only_once_every_gate_passes():
    run = go(
        plan(shut_at((-100, 200)), 1),
        gates=[Turn(190.0, "margin", "inconclusive"), Turn(205.0, "margin", "pass")],
    )
    assert held(run, 204.0) == ["evidence:margin", "window"]
    (hold,) = [h for h in states(run, 204.0).holds if h.name == "window"]
    assert hold.reasons == ("it is open again, and not every gate passes",)
    assert span(run, "window") == (0.0, 205.0)
    assert run.state.phase == "completed"


def states(run, at):
    return [moment.state for moment in run.moments if moment.event.at <= at][-1]


def test_beyond_the_end_of_the_calendar_it_holds_and_says_so():
    run = go(plan(shut_at(until=100.0), 4))
    assert [at for at, _ in begins(run)] == [1.0, 6.0]
    hold = run.state.hold("window")
    assert "known up to 1970-01-01 00:01 UTC" in hold.reasons[0]
    assert hold.clears.startswith("a person: abort, and plan again")
    assert advice(run.state)[-1] == "guardrail rollout abort twin"
    assert not run.state.finished


def test_a_window_and_a_person_hold_each_for_itself():
    run = go(plan(shut_at((-100, 200)), 1), people=[say(50, "pause"), say(300, "resume")])
    assert held(run, 100.0) == ["operator:bob", "window"]
    assert held(run, 250.0) == ["operator:bob"]
    assert begins(run) == [(300.0, 0)]


def test_a_resume_does_not_open_a_window():
    run = go(plan(shut_at((-100, 200)), 1), people=[say(50, "resume")])
    assert begins(run) == [(200.0, 0)]


# ---------------------------------------------------------------- going back


def test_going_back_is_told_of_a_window_and_not_held_by_it():
    run = go(plan(shut_at((97, 500)), 1, 2), people=[say(50, "rollback")])
    back = begins(run, "back")
    assert len(back) == 1
    assert back[0][0] < 97.0
    run = go(plan(shut_at((97, 500)), 1, 2), people=[say(110, "rollback")])
    assert [at for at, _ in begins(run, "back")] == [130.0]
    assert held(run, 110.0) == []
    told = [
        line.text for line in run.state.story if line.text.startswith("goes back though closed")
    ]
    assert told == [
        (
            "goes back though closed until 1970-01-01 00:08 UTC (UTC): daily peak, 05:30-10:00 UTC "
            "(policy cache (policies/cache.yaml:30))"
        )
    ]
    cleared = [line.text for line in run.state.story if "hold window cleared" in line.text]
    assert cleared == [
        "hold window cleared: going back is only told of windows (windows.rollback: warn)"
    ]


def test_going_back_keeps_to_a_window_that_says_so():
    same = replace(NIGHT, binds_back=True)
    run = go(plan(shut_at((97, 500), by=same), 1, 2), people=[say(110, "rollback")])
    assert begins(run, "back") == [(520.0, 0)]
    assert held(run, 111.0) == ["window"]
    assert run.state.phase == "rolled_back"


@pytest.mark.parametrize(
    ("direction", "binds_back", "at_once"),
    [
        ("forward", False, False),
        ("forward", True, False),
        ("back", False, True),
        ("back", True, False),
    ],
)
def test_a_permit_asks_the_calendar_at_the_moment_itself(direction, binds_back, at_once):
    """90 s are needed before 500 s; asked of a worker, who may know it before the operation."""
    known = plan(shut_at((500, 600), by=replace(NIGHT, binds_back=binds_back)))
    assert open_for(known, 409.0, direction)
    assert open_for(known, 410.0, direction) is at_once
    assert open_for(known, 599.0, direction) is at_once
    assert open_for(known, 600.0, direction)
    assert open_for(plan(None), 410.0, direction)


# ---------------------------------------------------------------- a daily peak

PEAK = replace(NIGHT, peak=True)


def test_the_next_stage_waits_for_a_whole_peak_with_good_evidence():
    """Peaks at 300 to 400 s and 1000 to 1100 s; the first wave is done at 6 s."""
    run = go(plan(shut_at((300, 400), (1000, 1100), by=PEAK), 1, 2))
    assert begins(run) == [(1.0, 0), (400.0, 1)]
    assert run.state.phase == "completed"
    assert run.state.finished_at == 435.0  # after the last stage no further peak is asked for


def test_a_peak_that_had_begun_before_does_not_count():
    run = go(
        plan(shut_at((97, 400), (1000, 1100), by=PEAK), 1, 2),
        work=hosts(takes=59.0),
        gates=[Turn(60.0, "margin", "inconclusive"), Turn(98.0, "margin", "pass")],
    )
    assert begins(run)[1] == (1100.0, 1)


@pytest.mark.parametrize(("missing", "second"), [(9.0, 400.0), (12.0, 1100.0)])
def test_a_peak_without_evidence_for_longer_than_its_grace_does_not_count(missing, second):
    """The hold for missing evidence comes after 10 s, and sends it back to baking."""
    gap = [Turn(350.0, "margin", "inconclusive"), Turn(350.0 + missing, "margin", "pass")]
    run = go(plan(shut_at((300, 400), (1000, 1100), by=PEAK), 1, 2), gates=gap)
    assert begins(run)[1] == (second, 1)


def test_gaps_add_up_to_the_grace():
    gaps = [
        turn
        for t in (310.0, 330.0)
        for turn in (Turn(t, "margin", "inconclusive"), Turn(t + 6.0, "margin", "pass"))
    ]
    run = go(plan(shut_at((300, 400), (1000, 1100), by=PEAK), 1, 2), gates=gaps)
    assert begins(run)[1] == (1100.0, 1)


def test_a_failing_gate_in_the_peak_makes_it_wait_for_the_next():
    trouble = [Turn(350.0, "margin", "fail"), Turn(360.0, "margin", "pass")]
    run = go(
        plan(shut_at((300, 400), (1000, 1100), by=PEAK), 1, 2, gates=[gate(by="evidence")]),
        gates=trouble,
    )
    assert begins(run)[1] == (1100.0, 1)


def test_waves_of_one_stage_do_not_wait_for_a_peak():
    two = plan(shut_at((300, 400), by=PEAK), 1, 2, 3)
    waves = tuple(replace(wave, stage="100%") for wave in two.waves[1:])
    run = go(replace(two, waves=(two.waves[0], *waves)))
    assert begins(run) == [(1.0, 0), (400.0, 1), (435.0, 2)]


def test_without_another_peak_it_holds_and_says_so():
    run = go(plan(shut_at((300, 400), by=PEAK), 1, 2, 3))
    assert begins(run) == [(1.0, 0), (400.0, 1)]
    hold = run.state.hold("window")
    assert "no daily peak is left before" in hold.reasons[0]
    assert hold.clears == "a person: abort, and plan again"


def test_a_bake_says_what_it_waits_for():
    run = go(plan(shut_at((300, 400), by=PEAK), 1, 2), until=100.0)
    assert "30 s good, until a daily peak has passed, at 1970-01-01 00:06 UTC (UTC)" in sentence(
        run.state
    )


# ---------------------------------------------------------------- policies that change on the way


def test_a_window_that_a_policy_gets_later_closes_and_one_that_went_still_does():
    with_it, without = plan(shut_at((99, 500))), plan(None)
    now_closed = replace(as_planned(without, 0.0), calendar=with_it.calendar)
    after, notes = tightened(without, now_closed, 0)
    assert after.calendar == with_it.calendar
    assert notes == ("more is closed now (policy cache (policies/cache.yaml:30))",)
    assert tightened(with_it, as_planned(without, 0.0), 0) == (with_it, ())
    assert tightened(with_it, now_closed, 0) == (with_it, ())


# ---------------------------------------------------------------- in words, on clocks of a zone


def real(now, *, host_timeout=300.0, bake=600.0, hosts=3):
    peak = window(
        "05:30-10:00", "mon tue wed thu fri", settle=1800.0, reason="daily peak", origin=ORIGIN
    )
    made = expand([Windows(LA, (peak,))], at(LA, now))
    known = replace(course(hosts, bake=bake), calendar=made, host_timeout=host_timeout)
    return decide(State(known, "op"), Started(at(LA, now)))


def test_a_hold_names_the_reason_the_place_and_when_it_opens_on_the_zones_clocks():
    found = real("2026-11-30 07:00")
    (hold,) = found.state.holds
    assert hold.reasons == (
        (
            "closed until 2026-11-30 10:00 UTC-08:00 (America/Los_Angeles): daily peak, mon-fri "
            "05:30-10:00 America/Los_Angeles and 30 min before "
            "(policy cache (policies/cache.yaml:30))"
        ),
    )
    assert hold.clears == (
        "the windows open at 2026-11-30 10:00 UTC-08:00 (America/Los_Angeles), with every gate "
        "passing; then it bakes"
    )
    assert found.wake_at == at(LA, "2026-11-30 07:00") + 15.0  # the gate's first verdict is due
    assert "held on window" in sentence(found.state)
    assert any("daily peak" in line for line in explain(found.state))
    assert advice(found.state) == (
        f"If nobody acts it goes on by itself: {hold.clears}.",
        "guardrail rollout explain op",
    )
    assert status(found.state, at(LA, "2026-11-30 07:00")).holds == (hold,)


def test_a_host_that_would_not_be_done_in_time_is_told_with_the_arithmetic():
    found = real("2026-11-30 04:46")
    (hold,) = found.state.holds
    assert hold.reasons == (
        (
            "a host takes up to 5 min + bake 10 min = 15 min; it closes at 2026-11-30 05:00 "
            "UTC-08:00: daily peak, mon-fri 05:30-10:00 America/Los_Angeles and 30 min before "
            "(policy cache (policies/cache.yaml:30))"
        ),
    )
    assert real("2026-11-30 04:44").state.holds == ()


def test_the_hold_is_raised_at_the_second_and_looked_at_again_when_it_opens():
    early = real("2026-11-30 04:44")
    edge = at(LA, "2026-11-30 04:45")
    just = decide(early.state, Ticked(edge - 0.5))
    assert just.state.hold("window") is None
    after = decide(early.state, Ticked(edge))
    assert after.state.hold("window").since == edge


def test_reasons_stand_still_while_nothing_changes():
    """Each change of a reason is a line in the journal."""
    run = go(
        plan(shut_at((99, 5000))),
        gates=[Turn(float(t), "margin", "pass") for t in range(20, 4000, 50)],
    )
    reasons = {m.state.hold("window").reasons for m in run.moments if m.state.hold("window")}
    assert len(reasons) == 3  # would not be done; with a bake before it; closed
