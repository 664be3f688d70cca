"""What exactly will be done, in which order, and within which limits? Fixed before the first host.

A `Plan` is for people and for the record; a `Course` is the part of it that `decide` needs, with
hosts as plan indexes (0 is the first host that will be begun).
"""

from dataclasses import dataclass
from typing import Literal

from guardrail.model.budget import NO_BUDGET, Budget, ChurnLimit, ColdLimit, WarmRule
from guardrail.model.calendar import Calendar
from guardrail.model.change import ChangeRef
from guardrail.model.common import Origin
from guardrail.model.fleet import Fleet
from guardrail.model.gate import Age, GateClass
from guardrail.model.lease import Need
from guardrail.model.policy import RecoverBy, RollbackWhen

Unit = Literal["hosts", "domains", "seconds", "scrapes", "people", "nodes", "percent"]


@dataclass(frozen=True, slots=True)
class Word:
    """What one policy says about a limit, resolved as the limit is, and whom that policy names."""

    policy: str
    value: float
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit as it was written, resolved to a number, and where it came from.

    `value` is in what `unit` says; all but seconds and scrapes are whole numbers. words: what
    every policy that covers a host says about it, the strictest first; none for a default.
    """

    name: str
    written: str
    value: float
    unit: Unit
    origin: Origin
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedHost:
    """One host of the plan. `restart` says in words what restarting its agent will do."""

    name: str
    address: str
    failure_domain: str
    roles: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    version_seen: str | None = None
    restart: str = ""
    policies: tuple[str, ...] = ()
    inventory: str = ""


@dataclass(frozen=True, slots=True)
class Excluded:
    """A host that the plan leaves out, and why; `down` ones count against the limits."""

    name: str
    failure_domain: str
    reason: str
    down: bool
    roles: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Wave:
    """Hosts `begin` (included) to `end` (excluded) of the plan bring the fleet to `stage`."""

    stage: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class TierWave:
    """How many hosts of a cache-critical tier one wave may add. hosts: the tier's own, a set of
    plan indexes as a hex number."""

    role: str
    most: int
    hosts: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class GateRule:
    """A gate as the engine needs it.

    grace: seconds that evidence may be missing before a hold. good_for: seconds that it must be
    good again. first_within: seconds from a watcher's start to its first verdict, at the latest.
    max_ages: how old evidence may be by policy; every one holds, besides the gate's own.
    silence: seconds without a sign of life after which its watcher is lost. digest: of the gate's
    document, so that a gate that was changed since is not taken for this one.
    """

    name: str
    gate_class: GateClass
    grace: float
    recover_by: RecoverBy
    good_for: float
    first_within: float
    required_by: Origin
    query: str = ""
    bound: str = ""
    max_ages: tuple[Age, ...] = ()
    silence: float = 5.0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalPoint:
    """`count` distinct people must agree before wave number `wave` (from 0) begins. verified: only
    people count whom a signature vouches for; it always does where `count` is 2 or more."""

    point: str
    wave: int
    count: int
    not_requester: bool
    origin: Origin
    verified: bool = False


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits `decide` keeps at every begin; hosts away and down are counted together.

    A failure limit is the number that is still allowed; None is no limit. pace is in seconds
    between two begins. failures_share: the part (0 to 1) of the hosts that are tried by the end of
    the present wave, rounded down (none of fewer than 50 at 0.02), beside the number in all.
    """

    unavailable: int
    unavailable_per_domain: int
    domains_at_once: int
    failures: int
    failures_consecutive: int | None = None
    pace: float = 0.0
    failures_share: float | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """All that `decide` needs to know of a plan, with names replaced by numbers.

    domains[i] is the failure domain (a number) of host i; down[d] counts the hosts of domain d
    that were down before the operation. host_timeout: seconds for one host's change. calendar:
    when no host begins; None: there are no windows.
    """

    plan: str
    requester: str
    waves: tuple[Wave, ...]
    domains: tuple[int, ...]
    down: tuple[int, ...]
    caps: Caps
    gates: tuple[GateRule, ...]
    approvals: tuple[ApprovalPoint, ...]
    bake_for: float
    host_timeout: float = 600.0
    rollback_when: RollbackWhen = "ask"
    calendar: Calendar | None = None
    limits: tuple[Limit, ...] = ()
    """The limits that can be overridden, with what each policy says about them."""
    leases: tuple[Need, ...] = ()
    """The roles that its waves must have leases on; empty: no wave needs any."""
    budget: Budget = NO_BUDGET
    merges: bool = False
    """Whether policies are merged again before each wave and after each hold."""
    tightened: int = 0
    """How often something has become stricter since the plan was made."""
    reread: int = 0
    """Percent of the changed hosts that are read again at each stage's end; 0: none is."""
    observe_after: float = 0.0
    """Seconds of a hold after which the plan is compared with the world again; 0: it never is."""
    freezes: bool = False
    """Whether it waits for freezes to be read, and for their ends."""
    shadow: bool = False
    """Whether nothing is changed (decide/shadow.py)."""
    passed: tuple[ApprovalPoint, ...] = ()
    """Where a shadow goes on without the approvals that its rollout would wait for."""
    leader_last: bool = False
    """Whether hosts begin one by one, and who leads after all others (decide/leading.py)."""

    @property
    def watch_silence(self) -> float:
        """Seconds without a sign of life after which the watcher is lost: the slowest gate's."""
        return max((gate.silence for gate in self.gates), default=5.0)

    @property
    def hosts(self) -> int:
        """How many hosts the plan changes."""
        return len(self.domains)


@dataclass(frozen=True, slots=True)
class Merged:
    """What the worker's policies say later on about the hosts of a plan.

    at: when they were read, in seconds since the epoch. wave: most hosts of one wave; tiers: most
    of each cache-critical tier. approvals: (index of the first host of the wave that it comes
    before, the point). churn, cold, warm: as a budget has them. limits: as a plan has them, for
    where each comes from. calendar: what windows close.
    """

    at: float
    caps: Caps
    bake_for: float
    rollback_when: RollbackWhen
    wave: int | None = None
    gates: tuple[GateRule, ...] = ()
    approvals: tuple[tuple[int, ApprovalPoint], ...] = ()
    churn: tuple[ChurnLimit, ...] = ()
    cold: tuple[ColdLimit, ...] = ()
    limits: tuple[Limit, ...] = ()
    policies: tuple[tuple[str, str], ...] = ()
    calendar: Calendar | None = None
    tiers: tuple[TierWave, ...] = ()
    warm: tuple[WarmRule, ...] = ()
    leader_last: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """Hosts that are alike in what canaries are picked by, and how many there are."""

    facts: tuple[str, ...]
    hosts: int


@dataclass(frozen=True, slots=True)
class Canaries:
    """What the first stage tries. kinds: how many there are; missing: those it has none of."""

    facts: tuple[str, ...]
    stage: str
    kinds: int
    missing: tuple[Kind, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole plan. `digest` is that of its stored form (see edges/store).

    leader: the host that led the others, where it has to come last (leader_last).
    refusals: why it may not start (empty when it may); warnings: what a person should know.
    created_at: seconds since the epoch. seconds_expected: what it will take when nothing but its
    windows holds; seconds_closed: of these, the ones in which it waits for them.
    where: the fleet's document without listed hosts. host_timeout: seconds for one host's change.
    """

    rollout: str
    fleet: str
    change: ChangeRef
    requester: str
    created_at: float
    hosts: tuple[PlannedHost, ...]
    waves: tuple[Wave, ...]
    domains: tuple[str, ...]
    excluded: tuple[Excluded, ...]
    caps: Caps
    limits: tuple[Limit, ...]
    gates: tuple[GateRule, ...]
    approvals: tuple[ApprovalPoint, ...]
    bake_for: float
    policies: tuple[tuple[str, str], ...]
    seconds_expected: float
    where: Fleet
    host_timeout: float
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    description: str = ""
    ticket: str = ""
    cache_critical: bool = False
    leases: tuple[Need, ...] = ()
    rollback_when: RollbackWhen = "ask"
    calendar: Calendar | None = None
    seconds_closed: float = 0.0
    shadow: bool = False
    """Whether it is to run as a shadow: everything but the change."""
    host_expected: float = 10.0
    """Seconds that one host is expected to take."""
    leader_last: bool = False
    leader: str = ""
    canaries: Canaries | None = None
    budget: Budget = NO_BUDGET
