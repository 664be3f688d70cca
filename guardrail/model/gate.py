"""What is asked of Prometheus, what came back, and what is thought of it?"""

from dataclasses import dataclass
from typing import Literal

from guardrail.model.common import Secret, Tls

Verdict = Literal["pass", "fail", "inconclusive"]
GateClass = Literal["safety", "health"]

Kind = Literal[
    "no_data",
    "ambiguous",
    "not_finite",
    "stale",
    "targets_missing",
    "warming_up",
    "partial",
    "throttled",
    "unreachable",
    "rejected_query",
]
"""Why a reading is no evidence (design.md §7)."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A value passes when it is inside: `below` and `above` are strict, `within` is closed."""

    below: float | None = None
    above: float | None = None
    within: tuple[float, float] | None = None

    def holds(self, value: float) -> bool:
        """Whether a finite value is on the good side."""
        if self.below is not None:
            return value < self.below
        if self.above is not None:
            return value > self.above
        return self.within is not None and self.within[0] <= value <= self.within[1]

    def __str__(self) -> str:
        if self.below is not None:
            return f"below {self.below:g}"
        if self.above is not None:
            return f"above {self.above:g}"
        low, high = self.within or (0.0, 0.0)
        return f"within [{low:g}, {high:g}]"


@dataclass(frozen=True, slots=True)
class Age:
    """How old a sample may be: seconds, a number of (measured) scrape intervals, or both."""

    seconds: float | None = None
    scrapes: float | None = None

    def limit(self, interval: float | None) -> float | None:
        """Seconds, for samples `interval` seconds apart; None: not known without the interval."""
        if self.scrapes is None:
            return self.seconds
        if interval is None:
            return None
        both = (self.scrapes * interval, self.seconds)
        return min(limit for limit in both if limit is not None)

    def and_also(self, other: "Age") -> "Age":
        """The age that keeps both."""
        pairs = ((self.seconds, other.seconds), (self.scrapes, other.scrapes))
        return Age(*(min((x for x in pair if x is not None), default=None) for pair in pairs))

    def __str__(self) -> str:
        said = {"s": self.seconds, "scrapes": self.scrapes}
        return " and ".join(
            f"{value:g} {unit}" for unit, value in said.items() if value is not None
        )


@dataclass(frozen=True, slots=True)
class Targets:
    """How many targets the query must be built from: `query` counts the ones that are there.

    `at_least` is a ratio 0..1 of the expected number: plan - excluded - in flight.
    """

    query: str
    at_least: float


@dataclass(frozen=True, slots=True)
class GateEvidence:
    """What makes readings of this gate fit to judge by."""

    max_age: Age = Age(scrapes=3)
    targets: Targets | None = None
    zero_when: str | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """The document `Gate`. `every` is in seconds.

    `fail_after` and `pass_after` count consecutive readings with distinct sample times.

    `source` names a Source document; None takes the only one there is. felt_by_users: whether
    users notice what it measures, other than a cause or an early sign of that.
    """

    name: str
    title: str
    gate_class: GateClass
    query: str
    bound: Bound
    every: float
    fail_after: int
    pass_after: int
    evidence: GateEvidence = GateEvidence()
    source: str | None = None
    digest: str = ""
    felt_by_users: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """The document `Source`: one Prometheus (or Thanos, Mimir, VictoriaMetrics).

    `timeout` is the read time-out of one query, in seconds.
    """

    name: str
    address: str
    timeout: float = 2.0
    token: Secret | None = None
    username: str | None = None
    password: Secret | None = None
    headers: tuple[tuple[str, str], ...] = ()
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one query at one time; a reading without a value says why (`kind`).

    `sampled_at` and `taken_at` are seconds since the epoch; the first is the time of the
    oldest sample that the value rests on, and tells distinct samples apart.
    """

    value: float | None
    kind: Kind | None
    taken_at: float
    sampled_at: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with its reasons and the readings it rests on, newest last.

    `kind` is set exactly when the verdict is `inconclusive`.
    """

    gate: str
    verdict: Verdict
    kind: Kind | None
    reasons: tuple[str, ...]
    readings: tuple[Reading, ...]
    query: str = ""
    source: str = ""

    @property
    def value(self) -> float | None:
        """The newest reading's value."""
        return self.readings[-1].value if self.readings else None
