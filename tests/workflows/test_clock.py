"""The time of an operation comes from what is in history."""

from guardrail_workflows.clock import SKEW, Clock


def test_a_report_is_believed_whatever_a_stalled_workers_time_says():
    live, replay = Clock(1000.0), Clock(1000.0)
    assert live.hears(1006.5, server=1000.0) == replay.hears(1006.5, server=1006.6) == 1006.5


def test_a_clock_that_is_far_off_is_not_believed():
    clock = Clock(1000.0)
    assert clock.hears(1001.0 + 3600, server=1001.0) == 1001.0
    assert clock.hears(1001.0 - SKEW - 1, server=1002.0) == 1002.0


def test_time_never_runs_backwards():
    clock = Clock(1000.0)
    assert clock.hears(999.0, server=1001.0) == 1000.0
    assert clock.reaches(990.0) == 1000.0
    assert clock.reaches(1010.0) == 1010.0
