"""Which values can a query have, and how are its series put together?"""

import math

import pytest

from guardrail.edges.promql_shape import shape

INF = math.inf


@pytest.mark.parametrize(
    ("query", "low", "high"),
    [
        ("x", -INF, INF),
        ("up", 0, 1),
        ("-up", -1, 0),
        ("rate(x[5s])", 0, INF),
        ("sum(rate(x[5s])) by (a)", 0, INF),
        ("sum(x)", -INF, INF),
        ("sum(up)", 0, INF),
        ("count(x)", 0, INF),
        ("max(up)", 0, 1),
        ("quantile(0.9, up)", 0, 1),
        ("max_over_time(up[5m])", 0, 1),
        ("x > bool 5", 0, 1),
        ("x > 5", 5, INF),
        ("x < 5", -INF, 5),
        ("x == 5", 5, 5),
        ("x > y", -INF, INF),
        ("1 - up", 0, 1),
        ("1 - rate(x[5s])", -INF, 1),
        ("100 * up", 0, 100),
        ("up * -2", -2, 0),
        ("rate(x[5s]) / rate(y[5s])", 0, INF),
        ("up / 2", 0, 0.5),
        ("x / y", -INF, INF),
        ("clamp_max(rate(x[5s]), 1)", 0, 1),
        ("clamp(x, 0, 7)", 0, 7),
        ("clamp_min(x, 3)", 3, INF),
        ("absent(x)", 0, 1),
        ("x or vector(0)", -INF, INF),
        ("up or vector(2)", 0, 2),
        ("up unless y", 0, 1),
        ("delta(x[5m])", -INF, INF),
        ("histogram_quantile(0.9, sum by (le) (rate(b[5m])))", -INF, INF),
    ],
)
def test_the_range_of_values(query: str, low: float, high: float) -> None:
    found = shape(query)
    assert (found.low, found.high) == (low, high)


@pytest.mark.parametrize(
    ("query", "over", "ratio"),
    [
        ("sum(rate(shard_queries[5s]))", "sum", False),
        ("sum(x) / 64", "sum", False),
        ("(sum without () (x))", "sum", False),
        ("sum by (shard) (x)", "", False),
        ("max(sum by (shard) (x))", "", False),
        ("avg(load)", "avg", False),
        ("sum(a) / sum(b)", "sum/sum", True),
        ("100 * (sum(a) / sum(b))", "sum/sum", True),
        ("max(a / b)", "", True),
        ("max(x)", "", False),
    ],
)
def test_what_makes_one_value_of_all_series(query: str, over: str, ratio: bool) -> None:
    found = shape(query)
    assert (found.over, found.ratio) == (over, ratio)


def test_numbers_that_stand_in_for_missing_data_are_found_anywhere() -> None:
    assert shape("sum(x) or vector(0)").filled
    assert shape("sum(rate(x[5s])) / (sum(y) or on() vector(1))").filled
    assert not shape("sum(x) or sum(y)").filled


def test_a_query_that_always_has_an_answer_is_no_presence() -> None:
    for query in ("vector(1)", "1 + time()", "absent(x)", "x or vector(1)", "(vector(0))"):
        assert shape(query).presence_always, query
    for query in ("x", "sum(rate(x[5s])) > 1", "count(up)", "x + vector(1)"):
        assert not shape(query).presence_always, query


def test_what_is_read_and_how_far_back() -> None:
    found = shape('sum by (shard) (rate(q_total{job="db"}[1m])) / max_over_time(c[5m:1m])')
    assert set(found.selects) == {"q_total", "job=db", "c", "shard"}
    assert sorted(found.windows) == [60.0, 300.0]
