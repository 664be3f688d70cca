"""How does an entry become a line of the journal, and is that line still what was written?

A line is one JSON object with its keys always in this order, and ends with a newline:

    {"format":1,"sequence":12,"run":"…","event":7,"part":0,"operation":"consul-1.8.8",
     "at":"2026-11-29T23:15:04.250000Z","kind":"hold","record":{…},
     "previous":"<sha256 of line 11>","hash":"<sha256 of this line up to here>"}

`previous` is taken of the whole line before (without its newline; 64 zeros for the first), so no
line can be changed, taken out, put in or moved without the next one telling. What is cut off at
the end is told by a head that was kept elsewhere. The chain shows what was done by accident or by
hand to one file; who can write all of it can make another chain, which again only a head tells.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from guardrail.errors import Refused
from guardrail.model.journal import (
    EMPTY,
    RECORDS,
    Broken,
    Checked,
    Entry,
    EntryId,
    Head,
    Line,
    Record,
    Wrong,
)

FORMAT = 1
"""The version of the lines' format that is written; every one up to it is read."""

_KINDS: dict[str, type[Record]] = {
    str(next(f.default for f in fields(kind) if f.name == "kind")): kind for kind in RECORDS
}
_START = re.compile(
    rb'\{"format":(\d{1,9}),"sequence":(\d{1,18}),"run":"((?:[^"\\]|\\.)*)",'
    rb'"event":(\d{1,18}),"part":(\d{1,9}),'
)
_END = re.compile(rb',"previous":"([0-9a-f]{64})","hash":"([0-9a-f]{64})"\}$')
_HASH = len(',"hash":""}') + 64


# ---------------------------------------------------------------- writing


@dataclass(frozen=True, slots=True)
class Tip:
    """Where the next line goes: the head, the digest of its whole line, the highest ids seen."""

    head: Head = EMPTY
    previous: str = EMPTY.hash
    highest: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def may_have(self, wanted: EntryId) -> bool:
        """Whether this entry may be there already; False is certain."""
        return (wanted.event, wanted.part) <= self.highest.get(wanted.run, (-1, -1))


def operation_of(entries: Sequence[Entry]) -> str:
    """The one operation that all entries are of. Raises Refused when there are none or more."""
    names = sorted({entry.operation for entry in entries})
    if len(names) != 1:
        raise Refused(f"entries of exactly one operation can be appended, not of {names}")
    return names[0]


def new_among(
    entries: Sequence[Entry], tip: Tip, find: Callable[[Collection[EntryId]], Mapping[EntryId, str]]
) -> list[Entry]:
    """The entries that are not in the journal yet, in their order, each once.

    `find` gives the content of those ids that are there (see `contents`); it is asked only for
    ids that may be. Raises Refused when an id is there with other content.
    """
    asked = {entry.id for entry in entries if tip.may_have(entry.id)}
    known = dict(find(asked)) if asked else {}
    new = []
    for entry in entries:
        content = content_of(entry)
        if entry.id not in known:
            known[entry.id] = content
            new.append(entry)
        elif known[entry.id] != content:
            raise Refused(_differs(entry, known[entry.id], content))
    return new


def _differs(entry: Entry, there: str, content: str) -> str:
    return (
        f"the journal of {entry.operation} has {entry.id} already, and it says something else: "
        f"{there} is recorded, {content} was to be. Nothing was written. Two workers of different "
        "builds, or a journal of another operation of that name, may be the cause; see: guardrail "
        f"journal show {entry.operation}"
    )


def extend(tip: Tip, entries: Sequence[Entry]) -> tuple[bytes, Tip]:
    """The lines of these entries, with their newlines, and the tip after them."""
    head, previous, highest = tip.head, tip.previous, dict(tip.highest)
    lines = []
    for entry in entries:
        line = line_of(entry, head.sequence + 1, previous)
        head = Head(head.sequence + 1, line[-66:-2].decode())
        previous = _digest(line)
        last = (entry.id.event, entry.id.part)
        highest[entry.id.run] = max(last, highest.get(entry.id.run, last))
        lines.append(line + b"\n")
    return b"".join(lines), Tip(head, previous, highest)


def line_of(entry: Entry, sequence: int, previous: str) -> bytes:
    """The line of an entry, without its newline. Raises Refused for a time that is none."""
    start = {
        "format": FORMAT,
        "sequence": sequence,
        "run": entry.id.run,
        "event": entry.id.event,
        "part": entry.id.part,
        "operation": entry.operation,
    }
    body = f'{_json(start)[:-1]},{content_of(entry)},"previous":"{previous}"'.encode()
    return body + f',"hash":"{_digest(body)}"}}'.encode()


def content_of(entry: Entry) -> str:
    """What an entry says, apart from where it stands: the same for the same entry, always.

    Raises Refused for a time or a number that JSON has no word for.
    """
    record = {
        f.name: getattr(entry.record, f.name) for f in fields(entry.record) if f.name != "kind"
    }
    content = {"at": _rfc3339(entry.at), "kind": entry.record.kind, "record": record}
    try:
        return _json(content)[1:-1]
    except ValueError:
        raise Refused(f"{entry.record} has a number in it that is none") from None


def _json(value: object) -> str:
    """Compact, in ASCII (so that no letter can break a line), and never with NaN in it."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _rfc3339(at: float) -> str:
    try:
        when = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        raise Refused(f"{at!r} is no time that can be recorded") from None
    return when.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ---------------------------------------------------------------- going on after what is there


def follow(tip: Tip, lines: Iterable[bytes]) -> Tip:
    """The tip after lines that are there already (without newlines).

    Only the last one is looked at closely, since that is what the next line stands on. Raises
    Refused when it is not whole: nothing may be chained to what was changed.
    """
    highest, last = dict(tip.highest), None
    for line in lines:
        last = line
        if start := _START.match(line):
            run, event, part = start[3].decode(), int(start[4]), int(start[5])
            run = json.loads(f'"{run}"') if "\\" in run else run
            highest[run] = max((event, part), highest.get(run, (-1, -1)))
    if last is None:
        return tip
    try:
        found = read_line(last)
    except ValueError as wrong:
        raise Refused(
            f"the journal's last line {wrong}; nothing is appended to it. Find out who changed it "
            "(guardrail journal verify), keep a copy, and put a sound one in its place"
        ) from None
    return Tip(Head(found.sequence, found.hash), _digest(last), highest)


def contents(lines: Iterable[bytes], wanted: Collection[EntryId]) -> dict[EntryId, str]:
    """What the lines with these ids say."""
    found = {}
    for line in lines:
        if (start := _START.match(line)) and (number := int(start[4])) >= 0:
            name = json.loads(b'"' + start[3] + b'"')
            id_ = EntryId(name, number, int(start[5]))
            if id_ in wanted:
                found[id_] = _content_in(line)
    return found


def _content_in(line: bytes) -> str:
    """The part of a line that `content_of` made."""
    end = _END.search(line)
    at = line.find(b',"at":"')
    return line[at + 1 : end.start() if end else len(line)].decode("utf-8", "replace")


# ---------------------------------------------------------------- reading


def read_line(line: bytes) -> Line:
    """A line (without its newline) that is whole in itself. Raises ValueError with why not."""
    end = _END.search(line)
    if end is None or not _START.match(line):
        raise ValueError("is not a line of a journal")
    if _digest(line[:-_HASH]) != end[2].decode():
        raise ValueError("does not have the hash that it says")
    try:
        said = json.loads(line)
    except ValueError:
        raise ValueError("has a hash that is right, and is not JSON") from None
    if said["format"] > FORMAT:
        raise NewerFormat(f"has format {said['format']}: a newer guardrail can read it")
    try:
        return Line(
            sequence=said["sequence"],
            id=EntryId(said["run"], said["event"], said["part"]),
            operation=said["operation"],
            at=datetime.fromisoformat(said["at"]).timestamp(),
            kind=said["kind"],
            fields=said["record"],
            record=record_of(said["kind"], said["record"]),
            hash=said["hash"],
        )
    except (KeyError, TypeError, ValueError) as fault:
        raise ValueError(f"has a hash that is right, and lacks what it needs ({fault})") from None


class NewerFormat(ValueError):
    """A line of a format that is newer than this program."""


def record_of(kind: str, said: Mapping[str, Any]) -> Record | None:
    """The record that was written; None when only a newer guardrail knows it."""
    known = _KINDS.get(kind)
    try:
        return known(**{name: _tuples(value) for name, value in said.items()}) if known else None
    except TypeError:
        return None


def _tuples(value: object) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# ---------------------------------------------------------------- verifying


def check(data: bytes, operation: str = "", head: Head | None = None) -> Checked:
    """The sound lines of a journal, and the first broken one with what is wrong about it.

    operation: the one the journal is said to be of; empty: any. head: what its end is known to
    have been at some time; a journal that does not have it any more was cut off.
    """
    rows = data.split(b"\n")
    tail = rows.pop()
    sound: list[Line] = []
    seen: set[EntryId] = set()
    previous = EMPTY.hash
    for row in rows:
        line = _next_line(rows, len(sound), previous, operation)
        if isinstance(line, Line) and line.id in seen:
            line = Broken(len(sound) + 1, "inserted", f"{line.id} is recorded further up already")
        if isinstance(line, Broken):
            return Checked(_head(sound), tuple(sound), line)
        sound.append(line)
        seen.add(line.id)
        previous = _digest(row)
    broken = _torn(tail, len(rows)) or _cut_off(sound, head)
    return Checked(_head(sound), tuple(sound), broken)


def _head(sound: list[Line]) -> Head:
    return Head(sound[-1].sequence, sound[-1].hash) if sound else EMPTY


def _torn(tail: bytes, lines: int) -> Broken | None:
    if not tail:
        return None
    why = (
        f"its {len(tail)} bytes do not end in a newline: its writer was killed, or has not "
        "finished yet; it was never answered for, and the next entry that is recorded mends it"
    )
    return Broken(lines + 1, "torn", why)


def _cut_off(sound: list[Line], head: Head | None) -> Broken | None:
    """Whether lines are missing at the end, or all of it is another chain."""
    if head is None or head.sequence == 0:
        return None
    if len(sound) < head.sequence:
        missing = _span(len(sound) + 1, head.sequence)
        return Broken(len(sound) + 1, "removed", f"{missing} that the head speaks of")
    if sound[head.sequence - 1].hash != head.hash:
        return Broken(
            head.sequence, "changed", f"its hash is not that of the head, {head.hash[:12]}…"
        )
    return None


def _span(first: int, last: int) -> str:
    """`entry 4 is missing`, `entries 4 to 7 are missing`."""
    if first == last:
        return f"entry {first} is missing"
    return f"entries {first} to {last} are missing"


def _next_line(rows: list[bytes], at: int, previous: str, operation: str) -> Line | Broken:
    """Row `at`, or what is wrong with it; the rows before it are sound."""
    number = at + 1
    try:
        line = read_line(rows[at])
    except NewerFormat as newer:
        return Broken(number, "unknown", f"it {newer}")
    except ValueError as why:
        return _unreadable(rows, at, previous, f"it {why}")
    if line.sequence != number:
        return Broken(number, *_out_of_order(rows, at, line, number))
    if _previous_of(rows[at]) != previous:
        return Broken(number, *_unchained(rows, at, previous))
    if operation and line.operation != operation:
        return Broken(number, "changed", f"it is of operation {line.operation}, not {operation}")
    return line


def _unreadable(rows: list[bytes], at: int, previous: str, why: str) -> Broken:
    """A strange row: put in, when the line that belongs here is the next one; else changed."""
    if at + 1 < len(rows) and _is_next(rows[at + 1], at + 1, previous):
        return Broken(at + 1, "inserted", f"{why}, and entry {at + 1} follows it")
    return Broken(at + 1, "changed", why)


def _is_next(row: bytes, sequence: int, previous: str) -> bool:
    return _sequence_of(row) == sequence and _previous_of(row) == previous


def _sequence_of(row: bytes) -> int:
    start = _START.match(row)
    return int(start[2]) if start else 0


def _previous_of(row: bytes) -> str:
    end = _END.search(row)
    return end[1].decode() if end else ""


def _out_of_order(rows: list[bytes], at: int, line: Line, expected: int) -> tuple[Wrong, str]:
    others = [_sequence_of(row) for row in rows[at + 1 :]]
    if line.sequence < expected:
        where = f"entry {line.sequence} stands further up as well"
        return "inserted", f"it says it is entry {line.sequence}, and {where}"
    if line.sequence in others:
        return "inserted", f"it says it is entry {line.sequence}, which stands further down as well"
    if expected in others:
        return "reordered", f"entry {line.sequence} stands before entry {expected}"
    return "removed", f"{_span(expected, line.sequence - 1)} before it"


def _unchained(rows: list[bytes], at: int, previous: str) -> tuple[Wrong, str]:
    """The sequence is right and the chain is not: another line, or another one before it."""
    if any(_is_next(row, at + 1, previous) for row in rows[at + 1 :]):
        return "inserted", f"another entry {at + 1}, which belongs here, follows it"
    return "changed", "it does not follow from the line before: one of the two was put in its place"
