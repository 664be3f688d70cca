"""Which values can a query have, and how are its series put together?

`shape("sum(rate(a[5s]))")` answers `Shape(low=0, high=inf, over="sum", …)`. What cannot be told is
taken for possible: a range is never narrower than what the query can answer.
"""

import math
from collections.abc import Callable
from typing import Any

import promql_parser as promql

from guardrail.edges.promql import children, in_seconds
from guardrail.model.advice import Shape

Range = tuple[float, float]

ANY: Range = (-math.inf, math.inf)
COUNTED: Range = (0.0, math.inf)
TRUTH: Range = (0.0, 1.0)

NOT_NEGATIVE = {
    "rate", "irate", "increase", "changes", "resets", "count_over_time", "stddev_over_time",
    "stdvar_over_time", "abs", "exp", "sqrt", "time", "timestamp", "histogram_count",
}  # fmt: skip
TRUE_OR_NOT = {"absent", "absent_over_time", "present_over_time"}
AS_INSIDE = {
    "avg_over_time", "min_over_time", "max_over_time", "last_over_time", "sort", "sort_desc",
    "label_replace", "label_join", "scalar", "vector", "quantile_over_time",
}  # fmt: skip
PICKS = {"min", "max", "avg", "topk", "bottomk", "quantile", "limitk", "limit_ratio"}
COMPARES = {"==", "!=", "<", "<=", ">", ">="}


def shape(query: str) -> Shape:
    """What can be told of a query without asking. Raises ValueError for what is not PromQL."""
    tree = promql.parse(query)
    low, high = _range(tree)
    return Shape(
        low=low,
        high=high,
        over=_over(tree),
        ratio=_is_ratio(tree),
        filled=_is_filled(tree),
        selects=tuple(_metrics(tree)),
        windows=tuple(_windows(tree)),
        presence_always=_always_there(tree),
    )


# ---------------------------------------------------------------- the range of values


def _range(node: Any) -> Range:  # noqa: PLR0911 - one line a kind of expression
    if isinstance(node, promql.NumberLiteral):
        return node.val, node.val
    if isinstance(node, promql.ParenExpr):
        return _range(node.expr)
    if isinstance(node, promql.UnaryExpr):
        low, high = _range(node.expr)
        return -high, -low
    if isinstance(node, promql.VectorSelector):
        return TRUTH if node.name == "up" else ANY
    if isinstance(node, promql.MatrixSelector):
        return _range(node.vector_selector)
    if isinstance(node, promql.SubqueryExpr):
        return _range(node.expr)
    if isinstance(node, promql.AggregateExpr):
        return _aggregated(str(node.op), _range(node.expr))
    if isinstance(node, promql.Call):
        return _called(node.func.name, node.args)
    return _combined(node) if isinstance(node, promql.BinaryExpr) else ANY


def _aggregated(operator: str, inside: Range) -> Range:
    if operator in ("count", "stddev", "stdvar"):
        return COUNTED
    if operator == "group":
        return 1.0, 1.0
    if operator in PICKS:
        return inside
    return COUNTED if operator == "sum" and inside[0] >= 0 else ANY


def _called(name: str, arguments: Any) -> Range:
    if name in TRUE_OR_NOT:
        return TRUTH
    inside = _range(arguments[0]) if arguments else ANY
    if name in ("clamp_max", "clamp_min", "clamp"):
        return _clamped(name, inside, [_range(a) for a in list(arguments)[1:]])
    if name in AS_INSIDE:
        return inside if name != "quantile_over_time" else _range(arguments[1])
    if name == "sum_over_time" and inside[0] >= 0:
        return COUNTED
    return COUNTED if name in NOT_NEGATIVE else ANY


def _clamped(name: str, inside: Range, bounds: list[Range]) -> Range:
    low, high = inside
    if name in ("clamp_min", "clamp"):
        low, high = max(low, bounds[0][0]), max(high, bounds[0][1])
    if name in ("clamp_max", "clamp"):
        low, high = min(low, bounds[-1][0]), min(high, bounds[-1][1])
    return low, high


def _combined(node: Any) -> Range:
    operator, left, right = str(node.op), _range(node.lhs), _range(node.rhs)
    if operator in COMPARES:
        truth = node.modifier is not None and node.modifier.return_bool
        return TRUTH if truth else _filtered(operator, left, right)
    if operator in ("and", "unless"):
        return left
    if operator == "or":
        return min(left[0], right[0]), max(left[1], right[1])
    work = ARITHMETIC.get(operator)
    low, high = work(left, right) if work else ANY
    return ANY if math.isnan(low) or math.isnan(high) else (low, high)


def _filtered(operator: str, left: Range, right: Range) -> Range:
    """What a comparison with a constant lets through; without one, all of it."""
    if right[0] != right[1]:
        return left
    if operator in (">", ">="):
        return max(left[0], right[0]), left[1]
    if operator in ("<", "<="):
        return left[0], min(left[1], right[1])
    return right if operator == "==" else left


def _times(left: Range, right: Range) -> Range:
    if left[0] >= 0 and right[0] >= 0:
        return left[0] * right[0], (0.0 if 0 in (left[1], right[1]) else left[1] * right[1])
    if right[0] == right[1] and math.isfinite(right[0]) and right[0] < 0:
        return left[1] * right[0], left[0] * right[0]
    return ANY


def _over_by(left: Range, right: Range) -> Range:
    if left[0] < 0 or right[0] < 0:
        return ANY
    low = left[0] / right[1] if right[1] > 0 else 0.0
    return low, left[1] / right[0] if right[0] > 0 else math.inf


ARITHMETIC: dict[str, Callable[[Range, Range], Range]] = {
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "-": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "*": _times,
    "/": _over_by,
}


# ---------------------------------------------------------------- how series are put together


def _bare(node: Any) -> Any:
    """Without brackets, and without a constant that is added, multiplied or clamped."""
    while True:
        if isinstance(node, promql.ParenExpr):
            node = node.expr
        elif isinstance(node, promql.Call) and node.func.name.startswith("clamp"):
            node = node.args[0]
        elif isinstance(node, promql.BinaryExpr) and _is_number(node.rhs):
            node = node.lhs
        elif isinstance(node, promql.BinaryExpr) and _is_number(node.lhs):
            node = node.rhs
        else:
            return node


def _is_number(node: Any) -> bool:
    while isinstance(node, promql.ParenExpr | promql.UnaryExpr):
        node = node.expr
    return isinstance(node, promql.NumberLiteral)


def _over(node: Any) -> str:
    """What makes one value of all series: `sum`, `avg`, `sum/sum`, or empty for anything else."""
    node = _bare(node)
    if isinstance(node, promql.AggregateExpr):
        grouped = node.modifier is not None and bool(node.modifier.labels)
        return "" if grouped or str(node.op) not in ("sum", "avg") else str(node.op)
    if isinstance(node, promql.BinaryExpr) and str(node.op) == "/":
        return "sum/sum" if _over(node.lhs) == _over(node.rhs) == "sum" else ""
    return ""


def _is_ratio(node: Any) -> bool:
    """Whether it is one thing over another, and not over a number."""
    node = _bare(node)
    while isinstance(node, promql.AggregateExpr):
        node = _bare(node.expr)
    return isinstance(node, promql.BinaryExpr) and str(node.op) == "/"


def _is_filled(node: Any) -> bool:
    """Whether somewhere `or vector(…)` puts a number where there is no data."""
    if isinstance(node, promql.BinaryExpr) and str(node.op) == "or":
        other = node.rhs
        while isinstance(other, promql.ParenExpr):
            other = other.expr
        if isinstance(other, promql.Call) and other.func.name in ("vector", "absent"):
            return True
    return any(_is_filled(child) for child in children(node))


def _always_there(node: Any) -> bool:
    """Whether the query has an answer also while nothing is measured."""
    if isinstance(node, promql.ParenExpr | promql.UnaryExpr):
        return _always_there(node.expr)
    if isinstance(node, promql.Call):
        return node.func.name in ("vector", "time", "absent", "absent_over_time")
    if isinstance(node, promql.BinaryExpr):
        both = (_always_there(node.lhs), _always_there(node.rhs))
        return any(both) if str(node.op) == "or" else all(both)
    return isinstance(node, promql.NumberLiteral)


def _metrics(node: Any) -> list[str]:
    """The metrics and label values that it reads, as words."""
    if isinstance(node, promql.MatrixSelector):
        return _metrics(node.vector_selector)
    if isinstance(node, promql.SubqueryExpr):
        return _metrics(node.expr)
    if isinstance(node, promql.VectorSelector):
        return [node.name or "", *(f"{m.name}={m.value}" for m in node.matchers.matchers)]
    found = [word for child in children(node) for word in _metrics(child)]
    grouped = isinstance(node, promql.AggregateExpr) and node.modifier is not None
    return [*found, *(node.modifier.labels if grouped else ())]


def _windows(node: Any) -> list[float]:
    """The lengths, in seconds, of the ranges that it looks back over."""
    if isinstance(node, promql.MatrixSelector):
        return [in_seconds(node.range)]
    if isinstance(node, promql.SubqueryExpr):
        return [in_seconds(node.range), *_windows(node.expr)]
    return [length for child in children(node) for length in _windows(child)]
