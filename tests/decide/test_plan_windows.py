"""Does a plan say when it waits for its windows, and refuse what can never fit them?"""

from dataclasses import replace

import pytest
from decide.plan_builders import CHANGE, found, gate, hosts, policy, request
from decide.test_calendar import LA, at, window

from guardrail.cli.plan_view import plan_rows
from guardrail.cli.text import Look, plain
from guardrail.decide.plan import course_of, make_plan
from guardrail.decide.windows import host_seconds
from guardrail.files.planfile import load_plan, store_plan
from guardrail.model.calendar import Windows
from guardrail.model.common import Origin
from guardrail.model.policy import WarmUp
from guardrail.twins import TwinStore

MONDAY_NOON = "2026-11-30 12:00"
PEAK = window("05:30-10:00", "mon tue wed thu fri", settle=1800.0, reason="daily peak")
PLACES = (
    ("windows", Origin("policy cache-critical", "cache-critical.yaml", 28)),
    ("windows.deny.0", Origin("policy cache-critical", "cache-critical.yaml", 30)),
    ("windows.allow", Origin("policy cache-critical", "cache-critical.yaml", 33)),
)


def plan_at(since, *entries, allow=(), count=4, bake=600.0, timeout=300.0, covers=False, **fields):
    known = Windows(LA, entries, tuple(allow), covers_peak=covers, **fields)
    care = replace(policy("cache-critical", windows=known, bake_for=bake), origins=PLACES)
    change = replace(CHANGE, timeout=timeout)
    return make_plan(
        request("25%", "100%"),
        found(hosts(count), policies=[care], change=change),
        now=at(LA, since),
    )


def text(plan, width=200):
    return "\n".join(plain(plan_rows(plan, Look(width=width))))


# ---------------------------------------------------------------- when it is done


def test_a_plan_without_windows_has_no_calendar():
    plan = make_plan(request(), found(hosts(4), policies=[policy()]), now=1.0)
    assert (plan.calendar, plan.seconds_closed) == (None, 0.0)
    assert course_of(plan, "sha256:x").calendar is None


def test_a_plan_that_fits_before_it_closes_waits_for_nothing():
    """Two waves of 1 and 3 hosts, 10 s each, and two bakes of 10 minutes."""
    plan = plan_at(MONDAY_NOON, PEAK)
    assert plan.refusals == plan.warnings == ()
    assert (plan.seconds_expected, plan.seconds_closed) == (40 + 1200, 0.0)
    assert course_of(plan, "sha256:x").calendar == plan.calendar


def test_closed_time_counts_and_the_first_host_that_waits_is_told():
    """At 04:44 one host may begin; the others at 10:10, after a bake."""
    plan = plan_at("2026-11-30 04:44", PEAK)
    ends = at(LA, "2026-11-30 10:10") + 3 * 10 + 600
    assert plan.created_at + plan.seconds_expected == ends
    assert plan.seconds_closed == ends - plan.created_at - 1240
    assert plan.warnings == ()
    later = plan_at("2026-11-30 07:00", PEAK)
    assert later.refusals == ()
    assert later.warnings == (
        (
            "no host begins now: closed until 2026-11-30 10:00 UTC-08:00 (America/Los_Angeles): "
            "daily peak, mon-fri 05:30-10:00 America/Los_Angeles and 30 min before (policy "
            "cache-critical (cache-critical.yaml:30)); the windows open at 2026-11-30 10:00 "
            "UTC-08:00 (America/Los_Angeles)"
        ),
    )


def test_nothing_is_begun_in_the_daily_peak_nor_while_it_is_settled_for():
    peak = replace(PEAK, peak=True)
    for since, refused in (("04:59", 0), ("05:00", 1), ("07:00", 1), ("10:00", 0)):
        plan = plan_at(f"2026-11-30 {since}", peak, covers=True)
        assert len(plan.refusals) == refused, since
    (why,) = plan_at("2026-11-30 07:00", peak, covers=True).refusals
    assert why.startswith(
        "nobody begins in the daily peak: closed until 2026-11-30 10:00 UTC-08:00"
    )
    assert why.endswith("(America/Los_Angeles); start it after that")
    assert plan_at("2026-11-30 07:00", peak, covers=True).warnings == ()


def test_a_bake_that_covers_a_peak_takes_until_the_next_one():
    plan = plan_at(MONDAY_NOON, replace(PEAK, peak=True), covers=True)
    done = at(LA, "2026-12-01 10:00") + 30 + 600
    assert plan.created_at + plan.seconds_expected == done


# ---------------------------------------------------------------- what can never fit


def test_a_host_that_takes_longer_than_any_open_time_is_refused_with_the_arithmetic():
    plan = plan_at(MONDAY_NOON, window("10:12-10:00"))
    (why,) = plan.refusals
    assert why == (
        "a host takes up to 5 min + bake 10 min = 15 min; the longest open time in 60 d under "
        "policy cache-critical (cache-critical.yaml:30) is 12 min; widen the windows, or bake for "
        "less"
    )
    assert "It would be refused" in text(plan)


def test_the_bake_that_comes_first_after_opening_counts():
    """20 minutes: enough for one host and its bake, not for a bake, a host and its bake."""
    plan = plan_at(MONDAY_NOON, window("10:20-10:00"))
    (why,) = plan.refusals
    assert "15 min, and once it opens again a bake comes first: 25 min; the longest open" in why
    assert plan_at(MONDAY_NOON, window("10:26-10:00")).refusals == ()
    assert plan_at("2026-12-01 10:00", window("10:26-10:00"), count=1).refusals == ()


def test_windows_that_never_open_are_refused():
    (why,) = plan_at(MONDAY_NOON, window("00:00-24:00")).refusals
    assert "under policy cache-critical (cache-critical.yaml:30) it is never open in 60 d" in why
    gone = window("21:00-05:00", dates=[("2026-01-01", "2026-01-02")])
    (why,) = plan_at(MONDAY_NOON, allow=[gone]).refusals
    assert "(cache-critical.yaml:33) it is never open" in why


def test_a_plan_longer_than_its_calendar_is_refused():
    """A night is long enough for one host of 100 and its bake, and there are 60 nights."""
    tight = window("10:27-10:00")
    (why,) = plan_at(MONDAY_NOON, tight, count=1000).refusals
    assert "1000 hosts cannot be changed in 60 d (a host takes" in why
    gone = window("05:30-10:00", dates=[("2026-12-01", "2026-12-02")], peak=True)
    assert plan_at(MONDAY_NOON, gone, covers=True).refusals == ()
    past = window("05:30-10:00", dates=[("2026-01-01", "2026-01-02")], peak=True)
    (why,) = plan_at(MONDAY_NOON, past, covers=True).refusals
    assert "with a daily peak before each stage" in why


def test_the_warm_up_of_a_host_counts_in_the_plan_and_in_the_course():
    """5 min of change, 10 min until it is warm and a bake of 10 min; 24 min are open."""
    known = Windows(LA, (window("10:24-10:00"),))
    warm = WarmUp("warm", 600.0)
    care = replace(policy("cache-critical", windows=known, bake_for=600.0), warm_up=warm)
    gates = [gate("margin"), replace(gate("warm"), query='hits{instance="{host}"}')]
    what = found(hosts(1), policies=[care], change=replace(CHANGE, timeout=300.0))
    plan = make_plan(request("100%"), replace(what, gates=tuple(gates)), now=at(LA, MONDAY_NOON))
    (why,) = [reason for reason in plan.refusals if "open time" in reason]
    assert why.startswith("a host takes up to 5 min + warm-up 10 min + bake 10 min = 25 min; the")
    course = course_of(plan, "sha256:x")
    assert host_seconds(course) == host_seconds(plan) == 25 * 60


# ---------------------------------------------------------------- stored, and shown


def test_a_plan_with_windows_comes_back_as_it_was():
    plan, store = plan_at(MONDAY_NOON, PEAK, rollback="same"), TwinStore()
    assert load_plan(store, store_plan(store, plan)) == plan


def test_what_is_shown_of_windows():
    shown = text(plan_at("2026-11-30 04:44", PEAK, rollback="same"))
    (row,) = [line for line in shown.splitlines() if "daily peak" in line]
    for word in (
        "mon-fri 05:30-10:00 America/Los_Angeles and 30 min before",
        "closes at 2026-11-30 05:00 UTC-08:00",
        "going back too",
        "policy cache-critical (cache-critical.yaml:30)",
    ):
        assert word in row
    assert "known up to 2027-01-29 12:44 UTC" in shown
    assert "of it waiting)" in shown
    now = text(plan_at("2026-11-30 07:00", PEAK))
    assert "closed until 2026-11-30 10:00 UTC-08:00" in now


@pytest.mark.parametrize("width", [20, 40, 80])
def test_windows_fit_any_screen(width):
    for line in text(plan_at(MONDAY_NOON, PEAK), width).splitlines():
        assert len(line) <= width
