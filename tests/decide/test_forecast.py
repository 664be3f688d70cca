"""Is a plan done when it is foretold to be done, with closed times in it?"""

from dataclasses import replace

import pytest
from decide.test_windows import NIGHT, PEAK, plan, shut_at
from hypothesis import given, settings
from hypothesis import strategies as st

from guardrail.decide.forecast import Pace, Work, ends_at
from guardrail.model.plan import Caps

from small import go

PACE = Pace(60.0, 30.0)


@pytest.mark.parametrize(
    ("closed", "end"),
    [
        ([], 1 + 15 + 30),
        ([(97, 500)], 530 + 5 + 30),  # a host by 7 s: two of three begin, then a bake
        ([(-10, 200)], 200 + 15 + 30),  # nothing has begun: nothing to bake
        ([(50, 200)], 200 + 15 + 30),
        ([(101, 500), (550, 700)], 730 + 5 + 30),  # too short for a bake and a host
    ],
)
def test_the_end_with_closed_times(closed, end):
    """Three hosts, one after another, 5 s each, from 1 s on; at the longest 60 s; bake 30 s."""
    assert ends_at([Work(3, 5.0, 5.0)], shut_at(*closed), 1.0, PACE) == end


def test_it_does_not_end_where_nothing_is_open_for_long_enough():
    tight = shut_at(*((t, t + 10) for t in range(0, 100_000, 100)), until=100_000.0)
    assert ends_at([Work(1, 5.0, 5.0)], tight, 10.0, PACE) is None
    assert ends_at([Work(1, 5.0, 5.0)], shut_at(until=80.0), 0.0, PACE) is None


def test_a_stage_waits_for_its_peak_and_the_last_does_not():
    made = shut_at((300, 400), (1000, 1100), by=PEAK)
    waves = [Work(1, 5.0, 5.0, covers=True), Work(1, 5.0, 5.0)]
    assert ends_at(waves, made, 1.0, PACE) == 400 + 5 + 30
    assert ends_at([waves[0]] * 3, made, 1.0, PACE) is None


def test_all_at_once_take_one_step():
    assert ends_at([Work(50, 0.0, 5.0)], shut_at((1000, 1100)), 1.0, PACE) == 36.0


closed_times = st.lists(
    st.tuples(st.integers(60, 900), st.integers(10, 400)), max_size=4
).map(lambda pairs: [(sum(map(sum, pairs[:i])) + b, sum(map(sum, pairs[: i + 1])))
                     for i, (b, _) in enumerate(pairs)])  # fmt: skip


@settings(max_examples=150)
@given(
    closed_times,
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.sampled_from([0.0, 7.0, 20.0]),
    st.booleans(),
)
def test_the_engine_ends_when_it_is_foretold(closed, sizes, pace, peak):
    """With hosts that take as long as planned, and gates that pass."""
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    made = shut_at(*closed, by=replace(PEAK if peak else NIGHT))
    caps = Caps(1, 1, 3, 0, pace=pace)
    run = go(plan(made, *ends, caps=caps))
    step = max(5.0, pace)
    waves = [Work(size, step, 5.0, covers=n + 1 < len(sizes)) for n, size in enumerate(sizes)]
    assert ends_at(waves, made, 1.0, PACE) == (
        run.state.finished_at if run.state.finished else None
    )
