"""What a query reads, and how a host's name gets into it without becoming part of it."""

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardrail.edges.promql import BadQuery, Selector, fill, quote, read_plan, unfilled
from guardrail.errors import Refused


@pytest.mark.parametrize(
    ("query", "selectors"),
    [
        ("a", [Selector("a{}")]),
        ("a + a", [Selector("a{}")]),
        ("rate(a[5m])", [Selector("a{}", reach=300)]),
        ("rate(a[5m]) / b", [Selector("a{}", reach=300), Selector("b{}")]),
        ("a offset 1m", [Selector("a{}", offset=60)]),
        ("a + a @ 9.5", [Selector("a{}"), Selector("a{}", pinned=9.5)]),
        ("a @ end()", [Selector("a{}")]),
        ("max_over_time(rate(a[1m])[10m:30s])", [Selector("a{}", reach=660)]),
        ("max_over_time(a[10m:30s] offset 1h)", [Selector("a{}", reach=600, offset=3600)]),
        ("max_over_time((a offset 1m)[10m:] offset 1h)", [Selector("a{}", 600, 3660)]),
        ("b + max_over_time(a[1m:] @ 7)", [Selector("b{}"), Selector("a{}", 60, 0, 7.0)]),
        ("topk(scalar(k), a)", [Selector("k{}"), Selector("a{}")]),
        ("-(a) # b", [Selector("a{}")]),
        ('{__name__=~"a|b"}', [Selector('{__name__=~"a|b"}')]),
        (r'a{x="q\"\\", y!~"z"}', [Selector(r'a{x="q\"\\",y!~"z"}')]),
    ],
)
def test_selectors_of(query: str, selectors: list[Selector]) -> None:
    assert list(read_plan(query).selectors) == selectors


@pytest.mark.parametrize(
    ("query", "scalar"),
    [("a", False), ("scalar(a)", True), ("-(scalar(a) + 1)", True), ("scalar(a) + a", False)],
)
def test_which_queries_answer_a_bare_number(query: str, scalar: bool) -> None:
    assert read_plan(query).scalar is scalar


@pytest.mark.parametrize("query", ["a{", "", "1", "a[5m]", '"a"', "a @ 3", 'a{x="1" or y="2"}'])
def test_what_cannot_be_judged_is_refused(query: str) -> None:
    with pytest.raises(BadQuery):
        read_plan(query)


@given(st.text(max_size=20))
def test_a_selectors_text_reads_back_as_the_same_selector(value: str) -> None:
    query = f"a{{x={quote(value)}}}"
    [selector] = read_plan(query).selectors
    parsed = promql_parser.parse(selector.text)
    assert [(m.name, m.value) for m in parsed.matchers.matchers] == [("x", value)]


@pytest.mark.parametrize(
    ("query", "filled"),
    [
        ('a{n="{host}"}', r'a{n="w\"e.b\\1"}'),
        ("a{n='{host}'}", "a{n='w\"e.b\\\\1'}"),
        ("a{n=`{host}`}", 'a{n=`w"e.b\\1`}'),
        ('a{n=~"{host}:.*"}', r'a{n=~"w\"e\\.b\\\\1:.*"}'),
        ('a{n!~ "{host}"} / b{m="{host}"}', r'a{n!~ "w\"e\\.b\\\\1"} / b{m="w\"e.b\\1"}'),
        ("a # about {host}", "a # about {host}"),
    ],
)
def test_filling_escapes_for_where_the_value_stands(query: str, filled: str) -> None:
    assert fill(query, {"host": 'w"e.b\\1'}) == filled
    if "#" not in query:
        assert unfilled(query) == "{host}"
        assert unfilled(filled) is None


@pytest.mark.parametrize(
    ("query", "words"),
    [("a{n={host}}", "outside a string"), ("a{n=`{host}`}", "back-quotes")],
)
def test_what_cannot_be_escaped_is_refused(query: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        fill(query, {"host": "`} or b"})


def test_a_placeholder_without_a_value_is_refused() -> None:
    with pytest.raises(Refused, match="has no value"):
        fill('a{n="{host}"}', {})


@given(st.text(max_size=20), st.sampled_from(['"', "'"]))
def test_no_host_name_can_become_a_part_of_the_query(host: str, mark: str) -> None:
    filled = fill(f"a{{n={mark}{{host}}{mark}}} > 1", {"host": host})
    parsed = promql_parser.parse(filled)
    assert isinstance(parsed, promql_parser.BinaryExpr)
    assert [(m.name, m.value) for m in parsed.lhs.matchers.matchers] == [("n", host)]
