"""What must be so before the load comes, how is that asked, and what was answered?"""

from dataclasses import dataclass
from typing import Literal

from guardrail.model.gate import Age, Bound, Kind, Verdict
from guardrail.model.occasion import Moment, Occasion

Part = Literal["value", "since", "until"]
"""What one query of an item is about: the item itself, or the begin or end of a lock."""


@dataclass(frozen=True, slots=True)
class Plain:
    """One query with a bound."""

    query: str
    bound: Bound


@dataclass(frozen=True, slots=True)
class Locked:
    """A lock that must hold from `before` seconds before the peak to `tail` seconds after it.

    since, until: queries that answer seconds since the epoch.
    """

    since: str
    until: str
    before: float
    tail: float


@dataclass(frozen=True, slots=True)
class Answers:
    """A second source must answer by itself: what it needs when the first is dark.

    first, second: names of Source documents. query, bound: what the second must answer.
    """

    first: str
    second: str
    query: str
    bound: Bound


@dataclass(frozen=True, slots=True)
class Item:
    """One point of a checklist. asks: the name of a Gate document, or one of the others.

    source: a Source document; None takes the only one there is.
    """

    name: str
    title: str
    asks: str | Plain | Locked | Answers
    max_age: Age
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Checklist:
    """The document `Checklist`: gates on a schedule, with a report.

    cron, timezone: when it is gone through. peak: the load that it is for. tells: channels by name
    that hear when it does not pass; none: those that are told of this kind.
    """

    name: str
    cron: str
    timezone: str
    items: tuple[Item, ...]
    peak: Occasion | None = None
    description: str = ""
    digest: str = ""
    tells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """What one query of an item came to. kind is set exactly when it is inconclusive.

    bound: what the value must be, in words. source: the address that was asked.
    """

    item: str
    title: str
    part: Part
    verdict: Verdict
    kind: Kind | None
    value: float | None
    bound: str
    reasons: tuple[str, ...]
    query: str
    source: str
    taken_at: float


@dataclass(frozen=True, slots=True)
class Report:
    """A checklist that was gone through once: the worst verdict of its items is its own.

    at: when, in seconds since the epoch. peak: what it was for; None: it names none, or none
    comes within a year. problem: why nothing could be asked; without items then.
    """

    checklist: str
    at: float
    verdict: Verdict
    peak: Moment | None
    items: tuple[Checked, ...]
    problem: str = ""
