"""What does a query read, and how is a host's name put into it?

An aggregate has no sample time of its own, so a gate's freshness is that of the selectors its
query is built from (design.md §7). `read_plan("rate(a[5s]) / b offset 1m")` answers

    Reads(selectors=(Selector('a', reach=5), Selector('b', offset=60)), scalar=False)
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import promql_parser as promql

from guardrail.errors import Refused

PLACEHOLDERS = ("host",)
"""What a query may leave open for `fill`, written `{host}` inside a string."""

_OPERATORS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
_PLAIN_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_RE2_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


class BadQuery(ValueError):
    """The query cannot be judged: it is not PromQL, or reads nothing that could be fresh."""


@dataclass(frozen=True, slots=True)
class Selector:
    """One selection of series, and which part of the past the query needs of it.

    `reach` is how many seconds before its evaluation time samples are needed (0: the newest one);
    `offset` shifts that time into the past; `pinned` replaces it (`@`, seconds since the epoch).
    """

    text: str
    reach: float = 0.0
    offset: float = 0.0
    pinned: float | None = None

    @property
    def modifier(self) -> str:
        """What follows the selector, or its range, in PromQL."""
        at = "" if self.pinned is None else f" @ {self.pinned:.3f}"
        return at + (f" offset {round(self.offset * 1000)}ms" if self.offset else "")

    def over(self, seconds: float) -> str:
        """The selector over a range that ends at its own evaluation time."""
        return f"{self.text}[{round(seconds * 1000)}ms]{self.modifier}"

    def __str__(self) -> str:
        return self.text.removesuffix("{}") + self.modifier


@dataclass(frozen=True, slots=True)
class Reads:
    """What a query reads. `scalar`: its answer is a bare number, not a vector."""

    selectors: tuple[Selector, ...]
    scalar: bool


def read_plan(query: str) -> Reads:
    """Parse a query. Raises BadQuery, with the reason in words."""
    try:
        tree = promql.parse(query)
    except ValueError as error:
        raise BadQuery(f"it is not PromQL: {error}") from error
    if isinstance(tree, promql.StringLiteral | promql.MatrixSelector | promql.SubqueryExpr):
        raise BadQuery("its answer is not one number: wrap the range in a function, as rate(…)")
    selectors = tuple(dict.fromkeys(_selectors(tree, _Where())))
    if all(selector.pinned is not None for selector in selectors):
        raise BadQuery("it reads no series of the present, so nothing in it can be fresh")
    return Reads(selectors, _is_scalar(tree))


@dataclass(frozen=True, slots=True)
class _Where:
    """What the expressions around a selector add to it."""

    reach: float = 0.0
    offset: float = 0.0
    pinned: float | None = None

    def within(self, node: Any, reach: float = 0.0) -> "_Where":
        """Inside a node that may carry `offset` and `@`; both act before what is around it."""
        pinned, offset = _instant(node.at), in_seconds(node.offset)
        if pinned is None:
            return _Where(self.reach + reach, self.offset + offset, self.pinned)
        return _Where(self.reach + reach, offset, pinned)


def _selectors(node: Any, where: _Where) -> Iterator[Selector]:
    if isinstance(node, promql.VectorSelector):
        at = where.within(node)
        yield Selector(_text(node), at.reach, at.offset, at.pinned)
    elif isinstance(node, promql.MatrixSelector):
        wider = _Where(where.reach + in_seconds(node.range), where.offset, where.pinned)
        yield from _selectors(node.vector_selector, wider)
    elif isinstance(node, promql.SubqueryExpr):
        yield from _selectors(node.expr, where.within(node, in_seconds(node.range)))
    else:
        for child in children(node):
            yield from _selectors(child, where)


def children(node: Any) -> tuple[Any, ...]:
    """The expressions right below one."""
    if isinstance(node, promql.BinaryExpr):
        return (node.lhs, node.rhs)
    if isinstance(node, promql.AggregateExpr):
        return (node.expr,) if node.param is None else (node.param, node.expr)
    if isinstance(node, promql.Call):
        return tuple(node.args)
    if isinstance(node, promql.ParenExpr | promql.UnaryExpr):
        return (node.expr,)
    return ()


def _is_scalar(node: Any) -> bool:
    if isinstance(node, promql.Call):
        return bool(node.func.return_type == promql.ValueType.Scalar)
    if isinstance(node, promql.NumberLiteral):
        return True
    if isinstance(node, promql.BinaryExpr | promql.ParenExpr | promql.UnaryExpr):
        return all(_is_scalar(child) for child in children(node))
    return False


def _text(node: Any) -> str:
    # Not str(node): promql-parser 0.12 prints label values without escaping them.
    if node.matchers.or_matchers:
        raise BadQuery("`or` between label matchers is not PromQL: write a regular expression")
    name = node.name or ""
    matchers = [
        f"{matcher.name}{_operator(matcher.op)}{quote(matcher.value)}"
        for matcher in node.matchers.matchers
    ]
    if name and not _PLAIN_NAME.fullmatch(name):
        name, matchers = "", [f"__name__={quote(name)}", *matchers]
    return f"{name}{{{','.join(matchers)}}}"


def _operator(operator: Any) -> str:
    return _OPERATORS[str(operator).rpartition(".")[2]]


def in_seconds(delta: Any) -> float:
    """A parsed length of time; none is 0."""
    return 0.0 if delta is None else float(delta.total_seconds())


def _instant(at: Any) -> float | None:
    """`@ start()` and `@ end()` are the evaluation time itself in an instant query."""
    return None if at is None or at.at is None else float(at.at.timestamp())


def quote(value: str) -> str:
    """A PromQL string literal that stands for exactly this text."""
    return f'"{_escaped(value, chr(34))}"'


def unfilled(query: str) -> str | None:
    """The first placeholder that is still open, such as `{host}`."""
    found = _PLACEHOLDER.search(query)
    return found.group() if found else None


def fill(query: str, values: Mapping[str, str]) -> str:
    """Put values where the query says `{host}`, each escaped for the string it stands in.

    `x{node="{host}"}` with web"1 becomes `x{node="web\\"1"}`; after `=~` or `!~` the value is
    also escaped as a regular expression, so that it matches itself only. Raises Refused for a
    placeholder outside a string, or without a value, or that cannot be escaped.
    """
    return "".join(_filled(text, values, mark, regex) for text, mark, regex in _pieces(query))


def _filled(text: str, values: Mapping[str, str], mark: str, regex: bool) -> str:
    def put(found: re.Match[str]) -> str:
        name = found.group(1)
        if not mark:
            raise Refused(f'{{{name}}} stands outside a string: write label="{{{name}}}"')
        if name not in values:
            raise Refused(f"{{{name}}} has no value here: this gate is about one {name}")
        value = values[name]
        return _escaped(_RE2_SPECIAL.sub(r"\\\g<0>", value) if regex else value, mark)

    return text if text.startswith("#") else _PLACEHOLDER.sub(put, text)


def _escaped(value: str, mark: str) -> str:
    """What stands for the value between two such marks (`"`, `'` or a back-quote)."""
    if mark != "`":
        return value.replace("\\", "\\\\").replace(mark, "\\" + mark).replace("\n", "\\n")
    if "`" in value:
        raise Refused(f"{value!r} cannot stand between back-quotes: use double quotes")
    return value


_PIECE = re.compile(
    r"""(?P<op>=~|!~)\s*(?=["'`]) | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | `[^`]*` | \#[^\n]*""",
    re.VERBOSE | re.DOTALL,
)


def _pieces(query: str) -> Iterator[tuple[str, str, bool]]:
    """The query cut into (text, its quote or "", whether a regular expression)."""
    end, regex = 0, False
    for found in _PIECE.finditer(query):
        yield query[end : found.start()], "", False
        text, end = found.group(), found.end()
        yield text, text[0] if text[0] in "\"'`" else "", regex
        regex = found["op"] is not None
    yield query[end:], "", False
