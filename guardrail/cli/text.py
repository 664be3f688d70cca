"""How does a line of text get onto any screen: narrow or wide, with or without colour or Unicode?

A `Line` is a row of `Span`s, text with a meaning (`good`, `bad`, ...). Lines are wrapped here,
by terminal cells, so that what is shown never depends on who shows it: `plain` makes strings of
them, `to_rich` makes what rich prints in colour. Text that came from elsewhere (a host's output,
a name) is made harmless first: no control codes and no invisible characters reach a terminal.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Literal

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

Meaning = Literal["", "good", "bad", "warn", "busy", "quiet", "strong"]

STYLES: dict[Meaning, str] = {
    "": "",
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "busy": "cyan",
    "quiet": "dim",
    "strong": "bold",
}
"""Colours of the terminal's own palette; each meaning is in the words or the symbol as well."""

LEAST_WIDTH = 20
"""Narrower screens are treated as this wide."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """The signs that are used, each one cell wide. `trend` goes from low to high."""

    changed: str
    in_flight: str
    waiting: str
    failed: str
    unknown: str
    set_aside: str
    back: str
    passes: str
    fails: str
    full: str
    empty: str
    trend: str
    gap: str
    dot: str
    arrow: str


UNICODE = Symbols("●", "◐", "·", "✖", "?", "–", "○", "✓", "✖", "█", "░", "▁▂▃▄▅▆▇█", "╌", "·", "→")
ASCII = Symbols("#", ">", ".", "X", "?", "-", "o", "+", "X", "#", "-", "_.-~=+*#", " ", "|", "->")


@dataclass(frozen=True, slots=True)
class Look:
    """What the screen can show. height None: as long as it takes. zone None: the local one.

    encoding: that of the terminal or pipe; what it cannot show is written as `\\u2026`.
    """

    width: int = 80
    height: int | None = None
    encoding: str = "utf-8"
    zone: tzinfo | None = None
    symbols: Symbols = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", max(self.width, LEAST_WIDTH))
        shown = all(_can_show(sign, self.encoding) for sign in ("●◐○✖–✓█░▁▂▃▄▅▆▇╌→·"))
        object.__setattr__(self, "symbols", UNICODE if shown else ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text and what it means."""

    text: str
    meaning: Meaning = ""


Line = tuple[Span, ...]


def line(*parts: "str | Span") -> Line:
    """A line of words and spans."""
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


def length(row: Line) -> int:
    """The line's width in terminal cells."""
    return sum(cell_len(span.text) for span in row)


# ---------------------------------------------------------------- text from elsewhere


def clean(text: str, look: Look) -> str:
    """The text on one line, without control codes, and in characters the screen can show."""
    flat = " ".join(text.split())
    return "".join(_harmless(letter, look.encoding) for letter in flat)


def _harmless(letter: str, encoding: str) -> str:
    hidden = unicodedata.category(letter).startswith("C") or _selects_a_variant(letter)
    if hidden or not _can_show(letter, encoding):
        return letter.encode("unicode_escape").decode()
    return letter


def _selects_a_variant(letter: str) -> bool:
    """Variation selectors change the width of the letter before them."""
    return "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef"


def _can_show(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


# ---------------------------------------------------------------- wrapping


def wrap(row: Line, width: int, hang: int = 0) -> list[Line]:
    """The line in as many lines as it takes, none wider than `width` cells (at least 20).

    Breaks come at spaces where there are any; lines after the first are indented by `hang`.
    """
    if length(row) <= width:
        return [row]
    hang = min(hang, width // 2)
    rows: list[list[Span]] = [[]]
    used = 0
    for piece in (piece for word in _words(row) for piece in _pieces(word, width - hang)):
        size = length(piece)
        if used + size > width and used:
            rows.append([Span(" " * hang)] if hang else [])
            used = hang
            if _is_space(piece):
                continue
        if used == hang and len(rows) > 1 and _is_space(piece):
            continue
        rows[-1] += piece
        used += size
    return [kept for row in rows if (kept := _trimmed(row))]


def _is_space(piece: Line) -> bool:
    return all(span.text.isspace() for span in piece)


def _words(row: Line) -> list[Line]:
    """Runs of spaces and words; a word may be made of several spans."""
    words: list[Line] = []
    for run in (run for span in row for run in _runs(span)):
        if words and not run.text.isspace() and not _is_space(words[-1]):
            words[-1] = (*words[-1], run)
        else:
            words.append((run,))
    return words


def _runs(span: Span) -> list[Span]:
    return [Span(run, span.meaning) for run in re.findall(r" +|[^ ]+", span.text)]


def _pieces(word: Line, width: int) -> Iterable[Line]:
    """The word; one that is too long for any line is cut where the line is full."""
    piece: Line = ()
    if length(word) <= width:
        yield word
        return
    for letter in (Span(letter, span.meaning) for span in word for letter in span.text):
        if piece and length(piece) + cell_len(letter.text) > width:
            yield piece
            piece = ()
        piece = (*piece, letter)
    yield piece


def _trimmed(row: Sequence[Span]) -> Line:
    kept = list(row)
    while kept and not kept[-1].text.strip():
        kept.pop()
    return tuple(kept)


def spread(left: Line, right: Line, width: int) -> list[Line]:
    """Left part and right part at the two edges, or below each other where they do not fit."""
    room = width - length(left) - length(right)
    if room >= 2:
        return [(*left, Span(" " * room), *right)]
    return [*wrap(left, width, 2), *wrap(right, width, 2)]


def columns(rows: Sequence[Sequence[Span]], width: int, indent: int = 2) -> list[Line] | None:
    """Rows as a table, columns two cells apart; None where a row does not fit the width."""
    if not rows:
        return []
    sizes = [max(cell_len(row[n].text) for row in rows) for n in range(len(rows[0]))]
    if indent + sum(sizes) + 2 * (len(sizes) - 1) > width:
        return None
    return [_padded(row, sizes, indent) for row in rows]


def table(rows: Sequence[Sequence[Span]], width: int, hang: int = 6) -> list[list[Line]]:
    """Each row as its lines: columns as far as they fit, then the other cells, wrapped."""
    fitting = range(len(rows[0]) if rows else 0, 0, -1)
    for kept in fitting:
        heads = columns([row[:kept] for row in rows], width)
        if heads is not None:
            size = max(length(head) for head in heads)
            return [
                wrap(_followed(head, row[kept:], size), width, hang)
                for head, row in zip(heads, rows, strict=True)
            ]
    return [wrap(_followed((), row, 0), width, hang) for row in rows]


def _followed(head: Line, rest: Sequence[Span], size: int) -> Line:
    spans = list(head)
    gap = size - length(head)
    for cell in rest:
        spans += [Span(" " * (gap + 2)), cell] if cell.text else []
        gap = 0
    return _trimmed(spans)


def _padded(row: Sequence[Span], sizes: Sequence[int], indent: int) -> Line:
    spans = [Span(" " * indent)]
    for cell, size in zip(row, sizes, strict=True):
        spans += [cell, Span(" " * (size - cell_len(cell.text) + 2))]
    return _trimmed(spans)


# ---------------------------------------------------------------- output


def plain(rows: Iterable[Line]) -> list[str]:
    """The lines as strings, without any code."""
    return ["".join(span.text for span in row) for row in rows]


def to_rich(rows: Iterable[Line]) -> Group:
    """The lines as rich prints them, one row each, never wrapped again."""
    return Group(*(_text(row) for row in rows))


def _text(row: Line) -> Text:
    text = Text(no_wrap=True, overflow="crop", end="")
    for span in row:
        text.append(span.text, STYLES[span.meaning] or None)
    text.append("\n")
    return text


# ---------------------------------------------------------------- numbers and times


def count(number: int, noun: str) -> str:
    """`1 host`, `1,200 hosts`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def people(number: int) -> str:
    """`1 person`, `2 people`."""
    return "1 person" if number == 1 else f"{number:,} people"


def duration(seconds: float) -> str:
    """`42 s`, `4 min 12 s`, `3 h 05 min`, `2 d 3 h`; `?` for what is no time."""
    if not math.isfinite(seconds):
        return "?"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400:,} d {whole % 86400 // 3600} h"


def roughly(seconds: float) -> str:
    """A guess, no finer than it is good for: `under 1 min`, `3 min`, `2 h 10 min`."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 60:
        return "under 1 min"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 60 else duration(math.ceil(minutes / 10) * 600)


def moment(at: float, zone: tzinfo | None) -> datetime | None:
    """The time in that zone (None: the local one), or None where it is not one."""
    try:
        return datetime.fromtimestamp(at, zone or None).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return None


def clock(at: float, zone: tzinfo | None) -> str:
    """`14:03:10`."""
    when = moment(at, zone)
    return when.strftime("%H:%M:%S") if when else "??:??:??"


def stamp(at: float, zone: tzinfo | None) -> str:
    """`2026-11-29 14:03:10+01:00`: date, time and offset, for lines that are kept."""
    when = moment(at, zone)
    return when.isoformat(" ", "seconds") if when else "????-??-?? ??:??:??"


def offset(at: float, zone: tzinfo | None) -> str:
    """`+01:00`."""
    return stamp(at, zone)[19:] or "+??:??"
