"""What does a YAML file say, and at which line and column does it say it?

Text goes in, plain data comes out (dict, list, str, int, float, bool), together with the place of
every key and value. The words are YAML 1.2's: `yes` and `on` are text, there are no tags, no merge
keys and no dates. Anchors and aliases work, within bounds.

    documents, faults = read(b"a: {b: 1}", "x.yaml")
    documents[0].data                        # {"a": {"b": 1}}
    documents[0].spot(("a", "b")).line       # 1
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from guardrail.errors import Fault

MOST_BYTES = 2_000_000
MOST_VALUES = 200_000
MOST_DEPTH = 32

Path = tuple[str | int, ...]
Data = dict[str, "Data"] | list["Data"] | str | int | float | bool | None

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_OTHER_BASE = re.compile(r"[-+]?0[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NULLS = ("", "~", "null", "Null", "NULL")
_SAID = "said already"
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


@dataclass(frozen=True, slots=True)
class Spot:
    """Where something stands, counted from 1, and how a scalar is written there."""

    line: int
    column: int
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """One document: its data, where its keys and values stand, and which are spoiled already.

    A spoiled path has a fault of its own; nothing more should be said about it.
    """

    file: str
    data: Data
    keys: dict[Path, Spot]
    values: dict[Path, Spot]
    spoiled: frozenset[Path] = frozenset()

    def spot(self, path: Path) -> Spot:
        """Where the value at a path stands, or the nearest thing around it."""
        while path not in self.values:
            path = path[:-1]
        return self.values[path]

    def key(self, path: Path) -> Spot:
        """Where the key at a path stands; for an element of a list, the element."""
        return self.keys.get(path) or self.spot(path)


@dataclass(frozen=True, slots=True)
class _Leaf:
    spot: Spot
    value: Data
    wrong: str = ""
    size: int = 1
    depth: int = 0


@dataclass(frozen=True, slots=True)
class _Branch:
    spot: Spot
    table: bool
    keys: tuple[_Leaf, ...]
    items: "tuple[_Node, ...]"
    size: int
    depth: int


_Node = _Leaf | _Branch


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come yet."""

    spot: Spot
    table: bool
    anchor: str | None
    keys: list[_Leaf] = field(default_factory=list)
    items: list[_Node] = field(default_factory=list)

    @property
    def wants_key(self) -> bool:
        return self.table and len(self.keys) == len(self.items)


class _Stop(Exception):
    """The rest of the file cannot be read."""

    def __init__(self, spot: Spot, message: str) -> None:
        self.spot = spot
        self.message = message


def read(content: bytes, file: str) -> tuple[tuple[Placed, ...], tuple[Fault, ...]]:
    """The documents of a file, and what is wrong with it as YAML; raises nothing.

    After a fault in the syntax the documents before it are still returned.
    """
    composer = _Composer(file)
    try:
        composer.run(_decode(content))
    except _Stop as stop:
        composer.say(stop.spot, stop.message)
    documents = tuple(composer.placed(root) for root in composer.roots)
    if not documents and not composer.faults:
        composer.say(Spot(1, 1), "the file is empty: it must hold at least one document")
    return documents, tuple(composer.faults)


def _decode(content: bytes) -> str:
    if len(content) > MOST_BYTES:
        size = f"{len(content):,} bytes, at most {MOST_BYTES:,}"
        raise _Stop(Spot(1, 1), f"the file is too large to be a document of ours: {size}")
    if b"\0" in content:
        raise _Stop(Spot(1, 1), "this is a binary file; a YAML file is needed")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig")
        raise _Stop(_end_of(before), "the file is not UTF-8; save it as UTF-8") from error
    if bad := _UNPRINTABLE.search(text):
        message = f"the control character U+{ord(bad.group()):04X} is not allowed; remove it"
        raise _Stop(_end_of(text[: bad.start()]), message)
    return text


def _end_of(before: str) -> Spot:
    return Spot(before.count("\n") + 1, len(before) - before.rfind("\n"))


class _Composer:
    """Turns the parser's events into nodes; keeps the bounds that the parser does not."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self.roots: list[_Node] = []
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Node | None] = {}

    def say(self, spot: Spot, message: str) -> None:
        self.faults.append(Fault(self.file, spot.line, spot.column, message))

    def run(self, text: str) -> None:
        """Raises _Stop at the first thing that no reading can go past."""
        try:
            for event in YAML(typ="safe", pure=True).parse(text):
                self._take(event)
        except MarkedYAMLError as error:
            raise _Stop(_mark(error), _syntax(error)) from error
        except _Stop:
            raise
        except Exception as error:
            # The parser is known to trip over some malformed input with errors of other kinds.
            raise _Stop(Spot(1, 1), f"this cannot be read as YAML: {error}") from error

    def _take(self, event: object) -> None:
        if isinstance(event, DocumentEndEvent):
            self._anchors.clear()
        elif isinstance(event, CollectionEndEvent):
            self._close()
        elif isinstance(event, NodeEvent):
            self._node(event)

    def _node(self, event: NodeEvent) -> None:
        spot = Spot(event.start_mark.line + 1, event.start_mark.column + 1)
        if (tag := getattr(event, "tag", None)) is not None:
            self.say(spot, f"tags are not used here: remove `{tag}` (quotes make a text)")
        if isinstance(event, AliasEvent):
            self._put(self._alias(event.anchor, spot), None)
        elif isinstance(event, ScalarEvent):
            self._put(_leaf(event, spot), event.anchor)
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._open(_Open(spot, isinstance(event, MappingStartEvent), event.anchor))

    def _open(self, branch: _Open) -> None:
        if len(self._stack) >= MOST_DEPTH:
            raise _Stop(branch.spot, f"nested deeper than {MOST_DEPTH} levels")
        if branch.anchor:
            self._anchors[branch.anchor] = None
        self._stack.append(branch)

    def _close(self) -> None:
        done = self._stack.pop()
        size = 1 + sum(item.size for item in done.items)
        depth = 1 + max((item.depth for item in done.items), default=0)
        if size > MOST_VALUES:
            raise _Stop(done.spot, f"more than {MOST_VALUES:,} values, aliases counted in full")
        if depth > MOST_DEPTH:
            raise _Stop(done.spot, f"nested deeper than {MOST_DEPTH} levels")
        keys, items = tuple(done.keys), tuple(done.items)
        self._put(_Branch(done.spot, done.table, keys, items, size, depth), done.anchor)

    def _alias(self, anchor: str, spot: Spot) -> _Node:
        if anchor not in self._anchors:
            known = ", ".join(f"&{name}" for name in self._anchors) or "none"
            raise _Stop(spot, f"there is no anchor &{anchor} above; known: {known}")
        node = self._anchors[anchor]
        if node is None:
            raise _Stop(spot, f"*{anchor} stands inside &{anchor} itself")
        return node

    def _put(self, node: _Node, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = node
        if not self._stack:
            if not (isinstance(node, _Leaf) and node.value is None and not node.wrong):
                self.roots.append(node)
            return
        parent = self._stack[-1]
        if parent.wants_key:
            parent.keys.append(self._key(node, parent))
        else:
            parent.items.append(node)

    def _key(self, node: _Node, parent: _Open) -> _Leaf:
        if not isinstance(node, _Leaf):
            self.say(node.spot, "a key must be a single word, not a list or a mapping")
            return _Leaf(node.spot, None, wrong=_SAID)
        name = node.spot.text
        if name == "<<":
            self.say(node.spot, "`<<` is no key of YAML 1.2; write the keys out, or use *alias")
            return _Leaf(node.spot, None, wrong=_SAID)
        for key in parent.keys:
            if key.spot.text == name:
                self.say(node.spot, f"the key `{name}` stands here twice, first {_at(key.spot)}")
        return node

    def placed(self, root: _Node) -> Placed:
        """Flatten a node into data and places; says what is wrong with single values."""
        keys: dict[Path, Spot] = {}
        values: dict[Path, Spot] = {}
        spoiled: set[Path] = set()

        def walk(node: _Node, path: Path) -> Data:
            values[path] = node.spot
            if isinstance(node, _Leaf):
                if node.wrong or node.value is None:
                    spoiled.add(path)
                    self.say(*_wrong(node, keys.get(path)))
                return node.value
            if not node.table:
                return [walk(item, (*path, n)) for n, item in enumerate(node.items)]
            table: dict[str, Data] = {}
            for key, item in zip(node.keys, node.items, strict=True):
                if key.wrong == _SAID:
                    continue
                name = key.spot.text or ""
                keys[(*path, name)] = key.spot
                table[name] = walk(item, (*path, name))
            return table

        data = walk(root, ())
        return Placed(self.file, data, keys, values, frozenset(spoiled))


def _at(spot: Spot) -> str:
    return f"in line {spot.line}"


def _wrong(leaf: _Leaf, key: Spot | None) -> tuple[Spot, str]:
    if leaf.wrong:
        return leaf.spot, leaf.wrong
    if key is None:
        return leaf.spot, "nothing stands here; give a value, or drop the element"
    return key, f"nothing stands after `{key.text}:`; give a value, or drop the key"


def _leaf(event: ScalarEvent, spot: Spot) -> _Leaf:
    text = str(event.value)
    spot = Spot(spot.line, spot.column, text)
    if not event.implicit[0]:
        return _Leaf(spot, text)
    value, wrong = _plain(text)
    return _Leaf(spot, value, wrong)


def _plain(text: str) -> tuple[Data, str]:
    """What an unquoted word means, and why it is refused, if it is."""
    if text in _NULLS:
        return None, ""
    if text in _BOOLS:
        return _BOOLS[text], ""
    if _OTHER_BASE.fullmatch(text):
        return 0, f"`{text}` may be read as octal or hexadecimal; write it in decimal, or in quotes"
    if _NOT_FINITE.fullmatch(text):
        return 0, f"`{text}` is no finite number"
    if _INT.fullmatch(text) or _FLOAT.fullmatch(text):
        return _number(text)
    return text, ""


def _number(text: str) -> tuple[Data, str]:
    if len(text) > 25 or abs(float(text)) >= 1e18:
        return 0, f"the number `{text[:20]}…` is too long"
    return (int(text) if _INT.fullmatch(text) else float(text)), ""


def _mark(error: MarkedYAMLError) -> Spot:
    mark = error.problem_mark or error.context_mark
    return Spot(mark.line + 1, mark.column + 1) if mark else Spot(1, 1)


def _syntax(error: MarkedYAMLError) -> str:
    problem = str(error.problem or error.context or error)
    if "'\\t'" in problem:
        return "a tab stands here; YAML is indented with spaces only"
    problem = problem.replace("<stream end>", "the end of the file")
    opened = error.context_mark
    if opened is None or opened is error.problem_mark or not error.context:
        return f"this is not YAML: {problem}"
    return f"this is not YAML: {problem}, {error.context} that began in line {opened.line + 1}"


def walk_paths(placed: Placed) -> Iterator[tuple[Path, Spot, Literal["key", "value"]]]:
    """Every path below the root in order, with its key's place where it has a key."""
    for path, spot in placed.values.items():
        if path:
            key = placed.keys.get(path)
            yield (path, key, "key") if key else (path, spot, "value")
