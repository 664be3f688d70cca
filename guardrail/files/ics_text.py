"""Where does each event of an iCalendar file stand, and is the file whole?

The library reads on after much that is broken, and does not say where it is. So lines are looked at
here first: a file that is cut off, or has a line that is none, is refused with its place.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from icalendar.parser import Contentline

from guardrail.errors import Fault, InvalidFile

MOST_EVENTS = 2_000
MOST_TOLD = 20
"""Faults of one file that are told."""
BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Spot:
    """Where an event begins, and each of its properties; lines from 1."""

    line: int
    of: dict[str, int] = field(default_factory=dict)

    def at(self, name: str) -> int:
        """The line of a property, or of the event where it has none."""
        return self.of.get(name.upper(), self.line)


def scan(text: bytes, place: str) -> tuple[Spot, ...]:
    """Every event's place, in order. Raises InvalidFile for what is no whole iCalendar file."""
    look = _Scan(place)
    for number, line in unfolded(_decoded(text, place)):
        look.line(number, line)
        if len(look.faults) >= MOST_TOLD:
            break
    look.end()
    if look.faults:
        raise InvalidFile(tuple(look.faults))
    return tuple(look.spots)


def _decoded(text: bytes, place: str) -> str:
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text[: error.start].count(b"\n") + 1
        raise InvalidFile((Fault(place, line, 1, "this is not UTF-8"),)) from None


def unfolded(text: str) -> Iterator[tuple[int, str]]:
    """Each line with the number of its first part; blank ones are left out."""
    whole, first = "", 0
    for number, line in enumerate(re.split(r"\r?\n", text), 1):
        if line[:1] in (" ", "\t") and whole:
            whole += line[1:]
            continue
        if whole.strip():
            yield first, whole
        whole, first = line, number
    if whole.strip():
        yield first, whole


@dataclass(slots=True)
class _Scan:
    """Walks through the lines. begun: what has begun and not ended, with its line."""

    place: str
    spots: list[Spot] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    begun: list[tuple[str, int]] = field(default_factory=list)
    whole: int = 0

    def say(self, line: int, what: str) -> None:
        self.faults.append(Fault(self.place, line, 1, what))

    def line(self, number: int, line: str) -> None:
        if "\r" in line:
            self.say(number, "a carriage return in the middle of a line")
            return
        try:
            name, _, value = Contentline(line).parts()  # type: ignore[no-untyped-call]
        except (ValueError, KeyError, IndexError):
            self.say(number, f"`{line[:40]}` is no line of an iCalendar file (NAME:VALUE)")
            return
        word = value.strip().upper()
        if name.upper() == "BEGIN":
            self._begin(word, number)
        elif name.upper() == "END":
            self._end(word, number)
        elif not self.begun:
            self.say(number, "an iCalendar file begins with BEGIN:VCALENDAR")
        elif self.begun[-1][0] == "VEVENT":
            self.spots[-1].of.setdefault(name.upper(), number)

    def _begin(self, word: str, number: int) -> None:
        if not self.begun and word != "VCALENDAR":
            self.say(number, f"an iCalendar file begins with BEGIN:VCALENDAR, found BEGIN:{word}")
        elif word == "VEVENT" and self.begun[-1][0] != "VCALENDAR":
            self.say(number, f"an event inside of a {self.begun[-1][0]} cannot be read")
        self.begun.append((word, number))
        if word == "VEVENT":
            self.spots.append(Spot(number))

    def _end(self, word: str, number: int) -> None:
        if self.begun and self.begun[-1][0] == word:
            self.begun.pop()
            self.whole += not self.begun
            return
        inside = f"{self.begun[-1][0]} of line {self.begun[-1][1]} is open" if self.begun else ""
        self.say(number, f"END:{word} ends nothing" + (f": {inside}" if inside else ""))

    def end(self) -> None:
        """What only the end of the file shows."""
        if self.faults:
            return
        for word, number in self.begun:
            self.say(number, f"BEGIN:{word} has no END: the file is cut off")
        if not self.whole and not self.begun:
            self.say(1, "an iCalendar file begins with BEGIN:VCALENDAR, and there is none here")
        if len(self.spots) > MOST_EVENTS:
            self.say(1, f"at most {MOST_EVENTS:,} events are read, found {len(self.spots):,}")
