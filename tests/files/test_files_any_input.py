"""Whatever a file holds: is it loaded, or refused with places, and nothing else?"""

import re
from itertools import chain
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from guardrail.errors import InvalidFile
from guardrail.files import Documents, parse, shipped_policies

SHIPPED = sorted(shipped_policies().rglob("*.yaml"))
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.yaml"))
TEXTS = [path.read_text() for path in chain(SHIPPED, EXAMPLES)]
PIECES = [
    "[",
    "]",
    "{",
    "}",
    ":",
    "- ",
    "\n",
    "\t",
    "&a ",
    "*a",
    "!",
    "!!int ",
    "|",
    ">",
    "'",
    '"',
    "#",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "? ",
    "~",
    "0x1",
    "01",
    ".inf",
    "1e99",
    "<<: ",
    "\x85",
    "\u2028",
    "\ufeff",
    "\0",
    "é",
    "💥",
    "\ud800",
    "@",
    "`",
    "\\",
    "  ",
    "kind: ",
    "spec: ",
    "null",
]


def try_to_parse(content: str | bytes) -> None:
    """Loads, or raises InvalidFile whose every fault has a place inside the text."""
    lines = len(content.splitlines()) + 2
    try:
        assert isinstance(parse(content, "any.yaml"), Documents)
    except InvalidFile as refused:
        faults = refused.faults
    else:
        return
    assert faults
    for fault in faults:
        assert fault.message
        assert 1 <= fault.line <= lines
        assert fault.column >= 1


@given(st.text())
@example("\ud800")
@example("\ufeff\ufeff")
@example("%YAML 9.9\n---\n")
@example("%TAG ! x\n---\n!a b")
@example("- \u2028 [")
@example("a: !<")
@example("'\\U00110000'")
@example('"\\UFFFFFFFF"')
@example("kind: Gate\nkind: Gate")
@example("[[[]]]: 1")
@example("2: 1\n? \n: 3")
def test_any_text(text: str) -> None:
    try_to_parse(text)


@given(st.binary())
@example(b"\xef\xbb\xbf")
@example(b"\xff\xfe\x00")
@example(b"\xef\xbb\xbf\xff")
def test_any_bytes(content: bytes) -> None:
    try_to_parse(content)


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=20).map("".join))
def test_any_text_of_yaml_signs(text: str) -> None:
    try_to_parse(text)


@settings(max_examples=300)
@given(st.data())
def test_sound_documents_with_something_put_in_cut_out_or_doubled(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 30)))
    put_in = data.draw(st.sampled_from(PIECES) | st.text(max_size=5) | st.just(text[begin:end] * 2))
    try_to_parse(text[:begin] + put_in + text[end:])


WORDS = ["~", "x", "''", "1", "-1", "0", "1.5", "true", "25%", "5s", "[]", "{}", "'{to}'"]
KEYS = st.sampled_from(["name", "run", "env", "for", "x"])


def _table(items: dict[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"


def _within(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    lists = st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
    return lists | st.dictionaries(KEYS, inner, max_size=3).map(_table)


VALUES = st.recursive(st.sampled_from(WORDS), _within, max_leaves=5)


@settings(max_examples=300)
@given(text=st.sampled_from(TEXTS), value=VALUES, data=st.data())
def test_sound_documents_with_any_value_in_the_place_of_another(
    text: str, value: str, data: st.DataObject
) -> None:
    """Each value of the wrong type gets a fault, never a traceback out of pydantic."""
    places = [found.span(2) for found in re.finditer(r"(\w+): *([^#\n{}]+?)(?=[,}\n])", text)]
    begin, end = data.draw(st.sampled_from(places))
    try_to_parse(text[:begin] + value + text[end:])
