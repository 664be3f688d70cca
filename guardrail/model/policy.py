"""Which hosts does a policy cover, and how careful must an operation be there?"""

from dataclasses import dataclass, field
from typing import Literal

from guardrail.model.calendar import Windows
from guardrail.model.common import Amount, Origin
from guardrail.model.gate import Age

RecoverBy = Literal["person", "evidence"]
RollbackWhen = Literal["never", "ask", "auto"]


@dataclass(frozen=True, slots=True)
class Match:
    """A host matches when every list that is not empty has a word of the host's.

    An empty match covers every host.
    """

    roles: tuple[str, ...] = ()
    fleets: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    agents: tuple[str, ...] = ()
    failure_domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failures:
    """How many hosts may fail before an operation holds: `hosts`, `consecutive`, or `share`."""

    hosts: int | None = None
    share: Amount | None = None
    consecutive: int | None = None


@dataclass(frozen=True, slots=True)
class Churn:
    """At most so many catalog departures within any `per` seconds, whoever causes them."""

    departures: int
    per: float

    def implies(self, other: "Churn") -> bool:
        """Whether whoever keeps this one keeps the other: no more departures in no less time."""
        return self.departures <= other.departures and self.per >= other.per

    def __str__(self) -> str:
        return f"{self.departures} per {self.per:g} s"


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The gate that a returned host must pass, within so many seconds, before it counts again."""

    gate: str
    within: float

    def __str__(self) -> str:
        return f"{self.gate} within {self.within:g} s"


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """The limits a policy states; None where it is silent. `pace_between` is in seconds.

    cold_capacity: hosts of the tier (those that the policy matches) restarted and not yet warm,
    weighted by how cold they are. spares: of the tier's ring, that must be there before the start.
    """

    unavailable: Amount | None = None
    unavailable_per_domain: Amount | None = None
    domains_at_once: int | None = None
    failures: Failures | None = None
    wave: Amount | None = None
    pace_between: float | None = None
    cold_capacity: Amount | None = None
    churn: Churn | None = None
    spares: int | None = None


@dataclass(frozen=True, slots=True)
class Approvals:
    """Who must agree at which points: `start`, or a stage as the rollout file writes it.

    verified: only people count whom a signature vouches for; two or more people always are.
    """

    at: tuple[str, ...]
    count: int = 1
    not_requester: bool = True
    verified: bool = False


@dataclass(frozen=True, slots=True)
class Recover:
    """How a hold of a gate ends: by a person, or by evidence good for `good_for` seconds."""

    by: RecoverBy | None = None
    good_for: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyEvidence:
    """How old evidence may be, and for how long (seconds) it may be missing before a hold."""

    max_age: Age | None = None
    grace: float | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """The document `Policy`. `origins` has the place of each value by its dotted path in `spec`,
    e.g. ("limits.unavailable", Origin(...))."""

    name: str
    match: Match
    owners: tuple[str, ...] = ()
    cache_critical: bool = False
    limits: PolicyLimits = field(default_factory=PolicyLimits)
    required_gates: tuple[str, ...] = ()
    evidence: PolicyEvidence = field(default_factory=PolicyEvidence)
    bake_for: float | None = None
    approvals: Approvals | None = None
    recover: Recover = field(default_factory=Recover)
    rollback_when: RollbackWhen | None = None
    windows: Windows | None = None
    warm_up: WarmUp | None = None
    leader_last: bool = False
    origins: tuple[tuple[str, Origin], ...] = ()
    file: str = ""
    digest: str = ""
    description: str = ""

    def origin(self, path: str) -> Origin:
        """Where the value at `path` was written, or the document as a whole."""
        return dict(self.origins).get(path, Origin(f"policy {self.name}", self.file, 1))
