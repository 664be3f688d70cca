"""What is wrong with a document, said to the person who wrote it?

pydantic finds the faults; here each gets its line and column, what was found, and what is allowed.
"""

import difflib
import re
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from guardrail.errors import Fault
from guardrail.files.tree import Path, Placed, Spot
from guardrail.files.values import LATER, Format, shown

_NEEDED = {
    "string_type": "a text is needed",
    "int_type": "a whole number is needed",
    "int_from_float": "a whole number is needed",
    "float_type": "a number is needed",
    "bool_type": "`true` or `false` is needed",
    "list_type": "a list is needed, such as [a, b]",
    "dict_type": "a mapping is needed, such as {key: value}",
    "model_type": "a mapping is needed, such as {key: value}",
    "model_attributes_type": "a mapping is needed, such as {key: value}",
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


def faults_of(error: ValidationError, root: type[Format], placed: Placed) -> tuple[Fault, ...]:
    """Every fault that pydantic found in a document; spoiled paths have been spoken of already."""
    found: list[Fault] = []
    for details in error.errors(include_url=False):
        for path, spot, message in _explain(details, root, placed):
            if not any(path[: n + 1] in placed.spoiled for n in range(len(path))):
                found.append(Fault(placed.file, spot.line, spot.column, message))
    return tuple(dict.fromkeys(found))


def _explain(
    details: ErrorDetails, root: type[Format], placed: Placed
) -> Iterator[tuple[Path, Spot, str]]:
    path, kind = details["loc"], details["type"]
    if kind == "extra_forbidden":
        yield path, placed.key(path), _unknown_key(path, root)
    elif kind == "missing":
        spot = placed.key(path[:-1]) if path[:-1] else placed.spot(())
        yield path, spot, _missing(path, root)
    elif kind == "wrong_key":
        for below, message in details["ctx"]["faults"]:
            yield (*path, *below), placed.key((*path, *below)), message
    elif kind == "wrong":
        for below, message in details["ctx"]["faults"]:
            yield (*path, *below), placed.spot((*path, *below)), message
    else:
        spot = placed.spot(path)
        yield path, spot, _value(details, spot)


def _unknown_key(path: Path, root: type[Format]) -> str:
    key = str(path[-1])
    piece = _piece(root, path[:-1])
    if piece is not None and key in piece.later:
        return f"`{key}` {LATER}"
    return f"unknown key `{key}`{_where(path[:-1])}; {choice(key, _keys(piece))}"


def _missing(path: Path, root: type[Format]) -> str:
    needed = [
        str(field.alias)
        for field in (_piece(root, path[:-1]) or Format).model_fields.values()
        if field.is_required()
    ]
    listed = ", ".join(f"`{name}`" for name in needed)
    return f"the key `{path[-1]}` is missing{_where(path[:-1])}; needed: {listed}"


def _value(details: ErrorDetails, spot: Spot) -> str:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", context["expected"])
        return f"{_found(value, spot)} is not known here; {choice(str(value), words)}"
    if kind in _NEEDED:
        hint = _quotes(value, spot) if kind == "string_type" else ""
        return f"{_NEEDED[kind]}, found {_found(value, spot)}{hint}"
    if kind in _BOUNDS:
        words_for_bound, key = _BOUNDS[kind]
        return f"{words_for_bound} {context[key]} is needed, found {_found(value, spot)}"
    if kind in ("too_short", "too_long"):
        few = f"at least {context['min_length']}" if kind == "too_short" else ""
        bound = few or f"at most {context['max_length']}"
        return f"{bound} is needed in this list, found {len(value)}"
    return f"{details['msg']}, found {_found(value, spot)}"


def _found(value: object, spot: Spot) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool) and spot.text is not None:
        return f"the number {spot.text}"
    return shown(value)


def _quotes(value: object, spot: Spot) -> str:
    if isinstance(value, list | dict) or spot.text is None:
        return ""
    return f'; put it in quotes: "{spot.text}"'


def choice(word: str, allowed: list[str]) -> str:
    """The allowed words, and the one most likely meant."""
    listed = f"allowed: {', '.join(f'`{name}`' for name in allowed)}" if allowed else "none allowed"
    near = difflib.get_close_matches(word.lower(), [name.lower() for name in allowed], n=1)
    meant = next((name for name in allowed if near and name.lower() == near[0]), None)
    return f"{listed}; did you mean `{meant}`?" if meant else listed


def _where(path: Path) -> str:
    names = ".".join(str(step) for step in path)
    return f" in `{names}`" if names else ""


def _keys(piece: type[Format] | None) -> list[str]:
    known = [str(field.alias) for field in piece.model_fields.values()] if piece else []
    return [key for key in known if piece is None or key not in piece.later]


def _piece(root: type[Format], path: Path) -> type[Format] | None:
    """The format that describes the mapping at a path."""
    current: Any = root
    for step in path:
        current = _step(_bare(current), step)
    bare = _bare(current)
    return bare if isinstance(bare, type) and issubclass(bare, Format) else None


def _step(current: Any, step: str | int) -> Any:
    if isinstance(current, type) and issubclass(current, BaseModel):
        aliases = {field.alias: field.annotation for field in current.model_fields.values()}
        return aliases.get(str(step))
    return next(iter(get_args(current)), None)


def _bare(annotation: Any) -> Any:
    """Without Annotated and without `| None`."""
    while get_origin(annotation) in (Annotated, Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not types.NoneType)
    return annotation
