"""Which words travel between the command line, the workflow and its workers?

The library addresses workflows by these names; records are plain and frozen, so that they go
through JSON both ways. Times are seconds since the epoch.
"""

from dataclasses import dataclass

from guardrail.model.budget import Departure, Fallen, RingSeen, WarmRule
from guardrail.model.fleet import Fleet
from guardrail.model.freeze import Freeze
from guardrail.model.gate import Judgement
from guardrail.model.lease import Answer
from guardrail.model.operation import (
    Direction,
    Hold,
    HostFound,
    Note,
    Outcome,
    Phase,
    Scope,
    State,
    Step,
    Verb,
)
from guardrail.model.override import Override
from guardrail.model.plan import Course, GateRule, Wave
from guardrail.model.policy import Policy, RollbackWhen
from guardrail.model.rollout import Rollout

TASK_QUEUE = "guardrail"

DEPLOYMENT = "guardrail"
"""What Temporal calls all builds of the worker together."""

ROLLOUT = "Rollout"
"""The workflow type of a rollout."""

SHADOW = "ShadowRollout"
"""The workflow type of a rollout that changes nothing."""

UPDATE = "say"
"""The one update: a person's command (`Say`), answered by `Said`."""

JUDGED = "judged"
"""The watcher's signal: `Judged`."""
LEASED = "leased"
"""The signal of who keeps a lease: `Leased`."""

FLEET_SEEN = "fleet_seen"
"""The watcher's other signal: `FleetTold`."""

WARMING = "warming"
"""The signal of a host that is back and not warm yet: `Warming`."""

FREEZES_SEEN = "freezes_seen"
"""Its third: `FreezesTold`."""

STATUS = "status"
EXPLAIN = "explain"
MAY_BEGIN = "may_begin"
"""Queries: `Status`, lines of text, `MayBegin`."""

PLAN_OPERATION = "plan_operation"
LOAD_COURSE = "load_course"
CHANGE_HOST = "change_host"
SHADOW_HOST = "shadow_host"
WATCH_GATES = "watch_gates"
KEEP_LEASE = "keep_lease"
END_LEASE = "end_lease"
RECORD = "record"
MERGE_POLICIES = "merge_policies"
CHECK_SIGNATURE = "check_signature"
WHO_ASKS = "who_asks"
REREAD_HOSTS = "reread_hosts"
FIND_ARRIVALS = "find_arrivals"
OBSERVE_PLAN = "observe_plan"
SEE_LEADER = "see_leader"
"""Activities."""

MEMO_SUMMARY = "summary"
MEMO_AS_OF = "as_of"
"""The memo keys of the last state in words and of its time (seconds since the epoch), for when no
worker answers."""

WAY_BACK = "way_back"
"""A query, too: a `Say` with the verb rollback, answered by `WayBack`; nothing is changed."""


def workflow_id(operation: str) -> str:
    """The workflow's id of an operation."""
    return f"rollout/{operation}"


# ---------------------------------------------------------------- start


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a person asks for. The worker adds its own policies, changes and gates.

    verified: whether `requester` comes from an authenticated connection. contract: the digest of a
    plan file in the plan store, which has to be kept to; empty: there is none. policies: what the
    caller adds to those of the worker's source; nothing of the source can be left out by them.
    """

    operation: str
    rollout: Rollout
    fleet: Fleet
    requester: str
    verified: bool = False
    shadow: bool = False
    """Everything but the change: nothing is done to any host."""
    contract: str = ""
    policies: tuple[Policy, ...] = ()


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request, and a signature by whoever asks, over decide/signing.py's start_statement. It is
    beside the request, which plan files have in them."""

    request: PlanRequest
    signature: str


@dataclass(frozen=True, slots=True)
class Planned:
    """What the worker made of it; with refusals nothing is started."""

    digest: str
    course: Course | None
    refusals: tuple[str, ...]
    warnings: tuple[str, ...]
    at: float = 0.0
    notices: bool = False
    """Whether the worker has channels by which people are told (model/board.py)."""


# ---------------------------------------------------------------- host work and watching


@dataclass(frozen=True, slots=True)
class HostTask:
    """One host to change: names, versions and digests, never command lines.

    run: Temporal's name for the first run of this operation's workflow; a name may be used again.
    lease: the token of the lease that it is begun on; 0: none is needed. warm: what it must show
    once it is back, where policies have become stricter since the plan; empty: what the plan says.
    follower: it may not begin while it leads the others.
    """

    operation: str
    plan: str
    index: int
    turn: int
    direction: Direction
    run: str = ""
    lease: int = 0
    warm: tuple[WarmRule, ...] = ()
    follower: bool = False


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """What became of it, and when. `facts` are the versions seen and the like, for the record.
    freezes: those that kept it from beginning, as its worker has read them."""

    index: int
    turn: int
    outcome: Outcome
    name: str
    reason: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    at: float = 0.0
    freezes: tuple[Freeze, ...] = ()


@dataclass(frozen=True, slots=True)
class RereadTask:
    """Changed hosts to be read again, a window of the plan; nothing is changed by it.

    hosts: a hex number over plan indexes, as `Status.changed_hosts`.
    """

    operation: str
    plan: str
    turn: int
    hosts: str


@dataclass(frozen=True, slots=True)
class ObserveTask:
    """The world to be compared with a plan. done: hosts of which nothing is compared, since this
    operation has had to do with them; a hex number over plan indexes."""

    request: PlanRequest
    plan: str
    turn: int
    done: str = "0"


@dataclass(frozen=True, slots=True)
class Observed:
    """What has moved since the plan was made, in words; and when somebody looked."""

    reasons: tuple[str, ...] = ()
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class LeaderTask:
    """The servers of a plan, of which somebody is to say who leads them."""

    plan: str
    turn: int


@dataclass(frozen=True, slots=True)
class Led:
    """Who leads them (a plan index, -1: none of the plan's), what is not well, and when."""

    index: int
    name: str
    problem: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Hosts of the inventory that a plan does not have: some by name, and how many others."""

    names: tuple[str, ...] = ()
    others: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class RereadAnswer:
    """What was found, see `operation.HostsRead`; at most so many wrong ones that it is small."""

    read: int
    wrong: tuple[HostFound, ...] = ()
    more: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class WatchTask:
    """Watch the gates of this plan; report with this turn. rules: what policies say of them now,
    where that is stricter than the plan; none: the plan's."""

    operation: str
    plan: str
    turn: int
    rules: tuple[GateRule, ...] = ()
    index: int = 0
    down: str = "0"
    """What was seen of the fleet's catalog last: its number, and the hosts that were not serving,
    as a hex number."""
    ring: RingSeen | None = None
    """Who served the ring's slots then, and who of them had not shown to be warm (`taken`)."""
    warm: tuple[WarmRule, ...] = ()
    """What those that take a slot must show, where policies have become stricter since the plan;
    none: what the plan says."""


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Merge the policies of the worker's source again, and those that the caller has added, for
    this plan; answered by `Merged`."""

    operation: str
    plan: str
    rollout: Rollout
    policies: tuple[Policy, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """A watcher's report, and when it was made."""

    turn: int
    judgement: Judgement
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Leased:
    """The table's word on the ask of that turn, and when it was heard."""

    turn: int
    answer: Answer
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class FleetTold:
    """What the watcher has seen in the catalog, see `operation.FleetSeen`."""

    turn: int
    at: float
    problem: str = ""
    index: int = 0
    left: tuple[Departure, ...] = ()
    down: str = "0"
    fallen: tuple[Fallen, ...] = ()
    still: tuple[int, ...] | None = None
    ring: RingSeen | None = None


@dataclass(frozen=True, slots=True)
class Warming:
    """How warm a host is, see `operation.HostWarming`."""

    index: int
    turn: int
    at: float
    percent: int


@dataclass(frozen=True, slots=True)
class FreezesTold:
    """The freezes that concern an operation, see `operation.FreezesSeen`."""

    turn: int
    at: float
    freezes: tuple[Freeze, ...] = ()


@dataclass(frozen=True, slots=True)
class MayBegin:
    """The permit: valid for 0.3 s from the moment the question was sent (decide/permit.py).

    turns: those in flight, asked and not answered; newest: the last one that was given; run: as
    `HostTask.run`, of the operation that answers.
    """

    allowed: bool
    reason: str = ""
    turns: tuple[int, ...] = ()
    newest: int = 0
    run: str = ""


# ---------------------------------------------------------------- what people say and hear


@dataclass(frozen=True, slots=True)
class Say:
    """A person's command, see `operation.Commanded`. `id` makes saying it twice harmless.

    at: when it was said. Like the time of every report it is taken for the operation's time if it
    is within a minute of the server's; 0 says that nobody looked at a clock. signature: over
    decide/signing.py's statement of this command; with it `by` is whose key it is.
    """

    id: str
    verb: Verb
    by: str
    reason: str = ""
    point: str = ""
    hosts: tuple[str, ...] = ()
    over: str = ""
    scope: Scope = "all"
    accept_churn: bool = False
    at: float = 0.0
    limit: str = ""
    value: float = 0.0
    until: float = 0.0
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """The answer to a command."""

    text: str
    in_flight: int
    holds: tuple[str, ...]


# ---------------------------------------------------------------- from one run to the next

CARRIED_FORMAT = 1
"""The newest format of `Carried` that this build reads; what it writes."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A run's state as the next run gets it (decide/carry.py).

    The course is left out (it is loaded again by the plan's digest), and sets of hosts are hex
    numbers: JSON has no whole number of 100,000 bits. `answered` has the commands obeyed last
    and their answers, oldest first: a list, since JSON objects come back sorted. format: rises
    when an older build could misread what a newer one carries; a new field with a default that
    says what was meant before needs no new one. events: how many happened so far; at: when the
    last of them did.
    """

    digest: str
    state: State
    sets: tuple[tuple[str, str], ...]
    answered: tuple[tuple[str, Said], ...] = ()
    events: int = 0
    format: int = 1
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class RolloutInput:
    """The workflow's argument: a request, and after the first run what it carried.

    run_events: events of history from which the first quiet moment begins a new run (2,000
    replay in about 0.4 s; the server's limit is 51,200). signature: see `SignedRequest`. notices:
    after the first run, whether people are told.
    """

    request: PlanRequest
    carried: Carried | None = None
    run_events: int = 2_000
    signature: str = ""
    notices: bool = False


# ---------------------------------------------------------------- what is shown


@dataclass(frozen=True, slots=True)
class HostState:
    """A host that is in flight or not simply done."""

    index: int
    name: str
    outcome: str
    reason: str
    since: float


@dataclass(frozen=True, slots=True)
class DomainCount:
    """How many hosts of one failure domain are in which state."""

    domain: int
    total: int
    changed: int
    in_flight: int
    failed: int
    unknown: int
    set_aside: int
    reverted: int = 0


@dataclass(frozen=True, slots=True)
class GateState:
    """A gate as the operation knows it. judgement None: not judged yet."""

    name: str
    bound: str
    since: float
    judgement: Judgement | None


@dataclass(frozen=True, slots=True)
class GateWait:
    """A gate before going back. passing: seconds that it has passed, None: it does not pass.

    verdict: the last one, empty before the first. good_for: seconds that it must pass after it
    has failed. binds: whether it may stand in the way.
    """

    name: str
    verdict: str
    good_for: float
    passing: float | None
    binds: bool


@dataclass(frozen=True, slots=True)
class WayBack:
    """What a rollback would do now. refused: why it cannot be asked for; then the rest is empty.

    hosts: those that would go back, a hex number over plan indexes; the highest goes first.
    settling: hosts in flight whose answers are waited for. away: hosts away or down at once, of
    which `down` are down already; per_domain, domains: as the plan's caps. pace: seconds between
    two begins. bake: seconds that every gate that binds must pass. holds: what stands in the way.
    before_recovery: why it need not wait for the system to recover; empty: it has to.
    """

    operation: str
    plan: str
    scope: Scope
    refused: str = ""
    hosts: str = "0"
    count: int = 0
    settling: int = 0
    away: int = 0
    per_domain: int = 0
    domains: int = 0
    down: int = 0
    pace: float = 0.0
    bake: float = 0.0
    gates: tuple[GateWait, ...] = ()
    holds: tuple[Hold, ...] = ()
    before_recovery: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """An operation in numbers and words. `changed` etc. count hosts."""

    operation: str
    plan: str
    phase: Phase
    direction: Direction
    step: Step
    sentence: str
    requester: str
    wave: int
    waves: tuple[Wave, ...]
    hosts: int
    changed: int
    failed: int
    unknown: int
    set_aside: int
    in_flight: tuple[HostState, ...]
    exceptional: tuple[HostState, ...]
    domains: tuple[DomainCount, ...]
    gates: tuple[GateState, ...]
    holds: tuple[Hold, ...]
    story: tuple[Note, ...]
    baked: float
    bake_needed: float
    as_of: float
    started_at: float | None
    finished_at: float | None
    finish_reasons: tuple[str, ...]
    advice: tuple[str, ...]
    changed_hosts: str = "0"
    """The changed hosts as a hex number over plan indexes."""
    reverted: int = 0
    to_take_back: int = 0
    rollback_when: RollbackWhen = "ask"
    reverted_hosts: str = "0"
    """The hosts back at the former version, as `changed_hosts`."""
    overrides: tuple[Override, ...] = ()
    unnamed: int = 0
    """How many exceptional hosts are counted only: a thousand are kept by name."""
    shadow: bool = False
    """Whether nothing is changed: `changed` counts hosts that would have been."""
    requester_verified: bool = False
    """Whether a signature vouches for the requester."""
