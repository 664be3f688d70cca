"""What is wrong with documents though every word of them is allowed, and what is looked at?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from guardrail.model.change import Change
from guardrail.model.checklist import Checklist
from guardrail.model.fleet import Fleet
from guardrail.model.gate import Gate, Source
from guardrail.model.notice import Channel
from guardrail.model.policy import Policy
from guardrail.model.reminder import Reminder

Severity = Literal["error", "warning"]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that is wrong: at which path of the document, as the file spells it, what, and
    what to do. kind and name are the document's."""

    path: Path
    rule: str
    what: str
    do: str
    severity: Severity = "error"
    kind: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """What can be told of a query without asking (edges/promql_shape.py).

    low, high: no value is outside. over: `sum`, `avg` or `sum/sum` when that makes one value of
    all series. filled: a number stands in where there is no data. presence_always: it has an
    answer also while nothing is measured. windows: seconds that it looks back.
    """

    low: float = -math.inf
    high: float = math.inf
    over: str = ""
    ratio: bool = False
    filled: bool = False
    selects: tuple[str, ...] = ()
    windows: tuple[float, ...] = ()
    presence_always: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """The documents, and what is known of their queries.

    shapes, zero_shapes: of the query and of `zeroWhen`, by gate. scrapes: seconds between samples,
    by gate, where that is known. now: seconds since the epoch.
    """

    policies: tuple[Policy, ...] = ()
    gates: tuple[Gate, ...] = ()
    changes: tuple[Change, ...] = ()
    fleets: tuple[Fleet, ...] = ()
    sources: tuple[Source, ...] = ()
    channels: tuple[Channel, ...] = ()
    reminders: tuple[Reminder, ...] = ()
    checklists: tuple[Checklist, ...] = ()
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    zero_shapes: Mapping[str, Shape] = field(default_factory=dict)
    scrapes: Mapping[str, float] = field(default_factory=dict)
    now: float = 0.0

    def gate(self, name: str) -> Gate | None:
        """The gate of that name, if it is here."""
        return next((gate for gate in self.gates if gate.name == name), None)
