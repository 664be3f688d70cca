"""What do policies say, before and after all that is missing has a default?

`Terms` is what has been said, each value with the place where it was written; `Resolved` is how
careful an operation has to be. They are made and merged in decide/merge.py.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from guardrail.model.calendar import Windows
from guardrail.model.common import Origin
from guardrail.model.gate import Age
from guardrail.model.policy import Churn, RecoverBy, RollbackWhen, WarmUp

T = TypeVar("T")

BUILT_IN = Origin("built-in default", "", 0)


@dataclass(frozen=True, slots=True)
class Stated(Generic[T]):
    """A value, how it was written, and where."""

    value: T
    written: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Scope:
    """What percentages are taken of: hosts in the fleet, hosts that the policy matches, and the
    matching hosts of the failure domain that has the fewest of them."""

    fleet: int
    matched: int
    smallest_domain: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What policies say; None where they are silent.

    Limits are in hosts (domains_at_once in domains), times in seconds. A failure limit is the
    number that is still allowed, a share is in per cent. Both maximum ages hold when both are
    there, and so does every churn limit: 6 in 10 minutes and 20 in an hour are two limits. owners:
    (policy, its owners).
    """

    unavailable: Stated[int] | None = None
    unavailable_per_domain: Stated[int] | None = None
    domains_at_once: Stated[int] | None = None
    failures: Stated[int] | None = None
    failures_share: Stated[float] | None = None
    failures_consecutive: Stated[int] | None = None
    wave: Stated[int] | None = None
    cold_capacity: Stated[int] | None = None
    spares: Stated[int] | None = None
    pace: Stated[float] | None = None
    bake: Stated[float] | None = None
    grace: Stated[float] | None = None
    max_age_seconds: Stated[float] | None = None
    max_age_scrapes: Stated[float] | None = None
    recover_by: Stated[RecoverBy] | None = None
    recover_for: Stated[float] | None = None
    rollback_when: Stated[RollbackWhen] | None = None
    approval_count: Stated[int] | None = None
    not_requester: Stated[bool] | None = None
    verified: Stated[bool] | None = None
    cache_critical: Stated[bool] | None = None
    leader_last: Stated[bool] | None = None
    approval_points: tuple[Stated[str], ...] = ()
    gates: tuple[Stated[str], ...] = ()
    churn: tuple[Stated[Churn], ...] = ()
    warm_up: tuple[Stated[WarmUp], ...] = ()
    windows: tuple[Stated[Windows], ...] = ()
    policies: tuple[tuple[str, str], ...] = ()
    owners: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    """How careful the operation has to be: `Terms` with a default where nobody has said."""

    unavailable: Stated[int]
    unavailable_per_domain: Stated[int]
    domains_at_once: Stated[int]
    failures: Stated[int]
    failures_share: Stated[float] | None
    failures_consecutive: Stated[int] | None
    wave: Stated[int] | None
    cold_capacity: Stated[int] | None
    spares: Stated[int] | None
    pace: Stated[float]
    bake: Stated[float]
    grace: Stated[float]
    max_age_seconds: Stated[float] | None
    max_age_scrapes: Stated[float] | None
    recover_by: Stated[RecoverBy]
    recover_for: Stated[float]
    rollback_when: Stated[RollbackWhen]
    approval_count: Stated[int]
    not_requester: bool
    verified: bool
    cache_critical: bool
    leader_last: bool
    approval_points: tuple[Stated[str], ...]
    gates: tuple[Stated[str], ...]
    churn: tuple[Stated[Churn], ...]
    warm_up: tuple[Stated[WarmUp], ...]
    windows: tuple[Stated[Windows], ...]
    policies: tuple[tuple[str, str], ...]
    owners: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def max_ages(self) -> tuple[Age, ...]:
        """The oldest that evidence may be; every one of them holds."""
        seconds, scrapes = self.max_age_seconds, self.max_age_scrapes
        by_clock = (Age(seconds=seconds.value),) if seconds else ()
        by_scrapes = (Age(scrapes=scrapes.value),) if scrapes else ()
        return by_clock + by_scrapes
