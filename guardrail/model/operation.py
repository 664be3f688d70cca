"""What is known of a running operation, what can happen to it, and what can it ask for?

`State` is all that `decide` knows; an `Event` is all that changes it; an `Action` is all it
does. Times are seconds since the epoch, given by whoever carries the events. Sets of hosts are
whole numbers used as bit sets over the plan's indexes (100,000 hosts take 12 kB).
"""

from dataclasses import dataclass
from typing import Literal

from guardrail.model.budget import UNTOLD, Catalog, Departure, Fallen, RingSeen
from guardrail.model.freeze import UNTOLD as UNREAD
from guardrail.model.freeze import Freeze
from guardrail.model.freeze import Known as KnownFreezes
from guardrail.model.gate import Judgement
from guardrail.model.identity import NOBODY, Signer
from guardrail.model.lease import Ask, Grant, Word
from guardrail.model.override import Override
from guardrail.model.plan import Course, Merged

Phase = Literal["planned", "running", "completed", "rolled_back", "aborted"]
Direction = Literal["forward", "back"]
Step = Literal["changing", "baking"]
Scope = Literal["wave", "all"]
Outcome = Literal["changed", "failed", "unknown", "not_begun", "blocked", "credentials", "gone"]
Known = Outcome | Literal["reverted", "silent"]
"""The last that is known of a host: its answer, or what a later look has found."""

FINAL: tuple[Phase, ...] = ("completed", "rolled_back", "aborted")


# ---------------------------------------------------------------- what is known


@dataclass(frozen=True, slots=True)
class Hold:
    """A recorded reason why nothing new may start.

    clears: who or what ends it, in words. by: the person who raised it, if a person did.
    hosts: the plan indexes it is about.
    """

    name: str
    since: float
    reasons: tuple[str, ...]
    clears: str
    by: str = ""
    hosts: tuple[int, ...] = ()
    judgement: Judgement | None = None


@dataclass(frozen=True, slots=True)
class Flight:
    """A host that was asked to change and has not answered; `turn` ties the answer to it."""

    index: int
    turn: int
    asked_at: float
    direction: Direction = "forward"


@dataclass(frozen=True, slots=True)
class Exceptional:
    """A host that did not simply change, or did not stay so: what is known and why, by name."""

    index: int
    name: str
    outcome: Known
    reason: str
    at: float
    tries: int = 1


@dataclass(frozen=True, slots=True)
class Watched:
    """The last that is known of one gate.

    judgement None: not judged yet in this watch (never taken for a pass). since: when this
    verdict was first reported, or, before the first one, when the watch began.
    """

    gate: str
    since: float
    judgement: Judgement | None = None


@dataclass(frozen=True, slots=True)
class Approved:
    """One person's consent to pass one point. verified: a signature vouches for the name, made
    with that key."""

    point: str
    by: str
    at: float
    verified: bool = False
    key: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the operation's story."""

    at: float
    text: str


@dataclass(frozen=True)
class State:
    """Everything that is known of an operation (see the fields' comments for the sets).

    Without slots: an event makes several states from the one before, and copying a dictionary of
    seventy fields takes a tenth of the time of copying them one by one (decide/evolve.py).
    """

    course: Course
    name: str
    phase: Phase = "planned"
    direction: Direction = "forward"
    step: Step = "baking"
    wave: int = 0
    turn: int = 0
    watch_turn: int = 0
    in_flight: tuple[Flight, ...] = ()
    waiting: int = 0  # hosts of the wave that are still to be begun
    changed: int = 0  # answered: at the new version
    failed: int = 0  # answered, and wrong; away until a person retries or skips
    unknown: int = 0  # silent; away until a person retries, skips or aborts
    blocked: int = 0  # refused before the point of no return, too often; not away
    set_aside: int = 0  # skipped by a person, or gone: not touched any more
    tried: int = 0  # answered changed, failed or unknown, and not back since
    astray: int = 0  # failed or unknown, and about to be asked again: still away
    take_back: int = 0  # going back: still to be brought to the former version
    reverted: int = 0  # going back: answered, at the former version again
    scope: Scope = "all"  # going back: all changed hosts, or those of the last wave
    turned_at_turn: int = 0  # going back: the last turn given before
    back_gap: float | None = None  # back before recovery: seconds between two begins
    churn_accepted: tuple[str, ...] = ()  # break-glass: who accepts churn in a sick system
    consecutive_failures: int = 0
    exceptional: tuple[Exceptional, ...] = ()
    resting: tuple[tuple[int, float], ...] = ()  # (host, until when it is not asked again)
    holds: tuple[Hold, ...] = ()  # sorted by name, at most one a name
    watched: tuple[Watched, ...] = ()  # in the course's order of gates
    approved: tuple[Approved, ...] = ()
    overrides: tuple[Override, ...] = ()  # sorted by limit, at most one a limit
    baked: float = 0.0  # seconds of good evidence in this bake
    baking_since: float | None = None  # when the present stretch of good evidence began
    covering_since: float | None = None  # since when this bake may have covered a peak
    covering_baked: float = 0.0  # `baked` at that time
    draining: bool = False  # nothing is asked to begin until the carrier's next run
    slowed: bool = False  # a gate recovered by evidence alone: half the pace from then on
    lease: Grant | None = None  # what it has, of the roles of `lease_ask`
    lease_ask: Ask | None = None  # what it asked for last, or keeps; None: nothing
    lease_turn: int = 0  # the number of the last ask, or of what was given back
    lease_sure: bool = False  # that ask was granted, and its keeper lives
    lease_broken: bool = False  # by a person; nothing is asked for until one resumes
    baked_turn: int = 0  # the last turn that a bake has come after
    calm_since: float | None = None  # with a lease: nothing away and evidence good, since then
    merge_turn: int = 0  # of the last question for the policies
    merge_pending: bool = False  # they have been asked for, and not told
    policies_fresh: bool = False  # they have been merged since the last hold and the last wave
    serving: int = 0  # has a slot of the ring, as was told last
    fresh: int = 0  # of these: took it, and has not shown since that it is warm
    cold: int = 0  # asked, and not known to be warm since (where the plan limits that)
    warmth: tuple[tuple[int, int], ...] = ()  # of cold ones in flight: (host, percent that is warm)
    down_now: int = 0  # not serving, as the catalog was told last; whoever caused it
    down_accepted: int = 0  # of these: a person goes on without them
    lately: int = 0  # changed within the last half hour, and with the next one the last hour
    lately_before: int = 0
    catalog: Catalog = UNTOLD  # what the watch has told of the fleet's catalog
    frozen: KnownFreezes = UNREAD  # what is known of freezes
    rereading: int = 0  # the turn with which changed hosts are read again now; 0: they are not
    reread_turn: int = 0  # the last turn that was given for that
    reread_at: float | None = None  # when hosts that were silent then are read once more
    true_wave: int = -1  # at this wave's end they were all as they should be, with no hold since
    arrived: tuple[str, ...] = ()  # hosts that the inventory has and the plan does not, by name
    arrived_more: int = 0  # those of them that are not kept by name
    held_since: float | None = None  # since when something holds without a break
    outdated: bool = False  # it was held for long: the plan is looked at again before a host begins
    observing: int = 0  # the turn with which that is done just now; 0: it is not
    observe_turn: int = 0  # the last turn that was given for that
    observe_at: float | None = None  # when it is tried again
    put_off: int = 0  # led when their turn came: they begin after all others
    leader: int = -1  # the host that leads, as seen last; -1: none of the plan's
    leader_name: str = ""
    leader_at: float | None = None  # when that was seen; None: not since the last begin
    leader_turn: int = 0  # the last turn that was given for a look at who leads
    leader_looking: bool = False  # somebody looks just now
    leader_again: float | None = None  # when it is tried again, where that could not be told
    last_begin_at: float | None = None
    answered_at: float | None = None  # when a host answered last
    started_at: float | None = None
    finished_at: float | None = None
    finish_reasons: tuple[str, ...] = ()
    story: tuple[Note, ...] = ()
    asked_by: Signer = NOBODY  # who signed the start

    def hold(self, name: str) -> Hold | None:
        """The hold of that name, or None."""
        for hold in self.holds:  # asked some twenty times an event: no generator
            if hold.name == name:
                return hold
        return None

    def flight(self, index: int) -> Flight | None:
        """The flight of that host, or None."""
        return next((flight for flight in self.in_flight if flight.index == index), None)

    @property
    def flying(self) -> int:
        """The set of hosts in flight."""
        hosts = 0
        for flight in self.in_flight:
            hosts |= 1 << flight.index
        return hosts

    @property
    def finished(self) -> bool:
        """Whether the operation has reached an end."""
        return self.phase in FINAL


# ---------------------------------------------------------------- what can happen


@dataclass(frozen=True, slots=True)
class Started:
    """The plan is fixed and the operation may begin."""

    at: float
    kind: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class HostAnswered:
    """A host's work ended. `turn` is the one it was asked with."""

    at: float
    index: int
    turn: int
    outcome: Outcome
    name: str
    reason: str = ""
    kind: Literal["host_answered"] = "host_answered"


@dataclass(frozen=True, slots=True)
class HostWarming:
    """How warm a host is that is back and must show it: percent, 0 where nobody can tell. `turn` is
    the one it was asked with."""

    at: float
    index: int
    turn: int
    percent: int
    kind: Literal["host_warming"] = "host_warming"


@dataclass(frozen=True, slots=True)
class GateJudged:
    """A gate's verdict changed; `turn` is the watcher's."""

    at: float
    turn: int
    judgement: Judgement
    kind: Literal["gate_judged"] = "gate_judged"


@dataclass(frozen=True, slots=True)
class WatcherLost:
    """The watcher ended or fell silent."""

    at: float
    turn: int
    reason: str
    kind: Literal["watcher_lost"] = "watcher_lost"


@dataclass(frozen=True, slots=True)
class WatchAgain:
    """The carrier begins a new run: what was known of the gates is stale from here on."""

    at: float
    kind: Literal["watch_again"] = "watch_again"


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed; nothing else happened."""

    at: float
    kind: Literal["ticked"] = "ticked"


@dataclass(frozen=True, slots=True)
class FleetSeen:
    """What the watch of that turn has seen in the fleet's catalog.

    problem: why it does not answer; empty: it does. index: the catalog's number of what it shows.
    left: the nodes that have left since the last report. down: the plan's hosts whose node is not
    listed or has a critical check, as a hex number. fallen: those of them that are so newly.
    still: of each domain, how many of the hosts that were down at the plan are so still; None:
    nobody has looked. ring: of the tier's ring, where there is one.
    """

    at: float
    turn: int
    problem: str = ""
    index: int = 0
    left: tuple[Departure, ...] = ()
    down: str = "0"
    fallen: tuple[Fallen, ...] = ()
    still: tuple[int, ...] | None = None
    ring: RingSeen | None = None
    kind: Literal["fleet_seen"] = "fleet_seen"


@dataclass(frozen=True, slots=True)
class FreezesSeen:
    """The freezes that concern the operation, as the watch of that turn has read all places.

    turn 0: as a worker has read them that kept a host from beginning because of them.
    """

    at: float
    turn: int
    freezes: tuple[Freeze, ...] = ()
    kind: Literal["freezes_seen"] = "freezes_seen"


@dataclass(frozen=True, slots=True)
class Drained:
    """The carrier's run is too long: ask nothing more to begin until the next run."""

    at: float
    kind: Literal["drained"] = "drained"


@dataclass(frozen=True, slots=True)
class LeaseTold:
    """The table's word on the ask of that turn (see `lease.Answer`); lost: its keeper was."""

    at: float
    turn: int
    word: Word
    reasons: tuple[str, ...] = ()
    grant: Grant | None = None
    anew: bool = False
    kind: Literal["lease_told"] = "lease_told"


@dataclass(frozen=True, slots=True)
class JournalSaid:
    """The journal cannot be written, and why; an empty problem: it can again."""

    at: float
    problem: str
    kind: Literal["journal_said"] = "journal_said"


@dataclass(frozen=True, slots=True)
class PolicyMerged:
    """What the policies of the worker's source say now; None: they cannot be read, and why."""

    at: float
    turn: int
    merged: Merged | None = None
    problem: str = ""
    kind: Literal["policy_merged"] = "policy_merged"


@dataclass(frozen=True, slots=True)
class PlanObserved:
    """The world was compared with the plan: what has moved, or why nobody could look."""

    at: float
    turn: int
    reasons: tuple[str, ...] = ()
    problem: str = ""
    kind: Literal["plan_observed"] = "plan_observed"


@dataclass(frozen=True, slots=True)
class HostFound:
    """A changed host that was read again and is not as it should be.

    found: in words that follow its name ("is at 1.8.7, ..."). answered: False, it was silent.
    away: it answered, and its agent does not run.
    """

    index: int
    name: str
    found: str
    answered: bool = True
    away: bool = False


@dataclass(frozen=True, slots=True)
class HostsRead:
    """Changed hosts were read again; `turn` is the one they were to be read with.

    read: how many. wrong: those that are not as they should be, the ones that answered first.
    more: wrong ones that are not listed. problem: why they could not be read at all. arrived: hosts
    of the inventory that the plan does not have, where that was asked; others: those not listed.
    """

    at: float
    turn: int
    read: int
    wrong: tuple[HostFound, ...] = ()
    more: int = 0
    problem: str = ""
    arrived: tuple[str, ...] = ()
    others: int = 0
    kind: Literal["hosts_read"] = "hosts_read"


@dataclass(frozen=True, slots=True)
class LeaderSeen:
    """Who leads the servers that are changed: a plan index, -1 for one that the plan does not have.

    problem: why that cannot be told, or what is wrong with the servers; empty: nothing.
    """

    at: float
    turn: int
    index: int = -1
    name: str = ""
    problem: str = ""
    kind: Literal["leader_seen"] = "leader_seen"


Verb = Literal["pause", "resume", "approve", "retry", "skip", "abort", "rollback", "override"]


@dataclass(frozen=True, slots=True)
class Commanded:
    """A person said something.

    hosts: names (retry, skip). over: whose hold (resume). scope, accept_churn: of a rollback.
    limit, value, until: of an override. verified: a signature vouches for `by`, made with `key`,
    and for those that this person may speak for (`groups`).
    """

    at: float
    verb: Verb
    by: str
    reason: str = ""
    point: str = ""
    hosts: tuple[str, ...] = ()
    over: str = ""
    scope: Scope = "all"
    accept_churn: bool = False
    verified: bool = False
    key: str = ""
    groups: tuple[str, ...] = ()
    limit: str = ""
    value: float = 0.0
    until: float = 0.0
    kind: Literal["commanded"] = "commanded"


Event = (
    Started
    | HostAnswered
    | HostWarming
    | GateJudged
    | WatcherLost
    | WatchAgain
    | Ticked
    | FleetSeen
    | FreezesSeen
    | Drained
    | JournalSaid
    | LeaseTold
    | PolicyMerged
    | HostsRead
    | PlanObserved
    | LeaderSeen
    | Commanded
)


# ---------------------------------------------------------------- what it asks for


@dataclass(frozen=True, slots=True)
class BeginHost:
    """Change this host; answer with this turn."""

    index: int
    turn: int
    direction: Direction
    kind: Literal["begin_host"] = "begin_host"


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch the gates from now on; report with this turn. Ends any earlier watch."""

    turn: int
    kind: Literal["watch"] = "watch"


@dataclass(frozen=True, slots=True)
class KeepLease:
    """Ask for a lease with this turn and keep it. Ends any earlier keeping. token: of what it has
    already; 0: nothing."""

    turn: int
    ask: Ask
    token: int
    kind: Literal["keep_lease"] = "keep_lease"


@dataclass(frozen=True, slots=True)
class EndLease:
    """Give back all that was asked for before this turn."""

    turn: int
    kind: Literal["end_lease"] = "end_lease"


@dataclass(frozen=True, slots=True)
class MergePolicies:
    """Read the policies of the worker's source, and tell with this turn; again until they can be
    read."""

    turn: int
    kind: Literal["merge_policies"] = "merge_policies"


@dataclass(frozen=True, slots=True)
class Observe:
    """Compare the world with the plan; answer with this turn."""

    turn: int
    kind: Literal["observe"] = "observe"


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Read these changed hosts again (a set of plan indexes); answer with this turn.

    arrivals: look into the inventory, too, for hosts that the plan does not have.
    """

    turn: int
    hosts: int
    arrivals: bool = False
    kind: Literal["read_again"] = "read_again"


@dataclass(frozen=True, slots=True)
class SeeLeader:
    """Look who leads the servers that are changed; answer with this turn."""

    turn: int
    kind: Literal["see_leader"] = "see_leader"


@dataclass(frozen=True, slots=True)
class Finish:
    """The operation has ended: stop watching, tell, and close."""

    phase: Phase
    kind: Literal["finish"] = "finish"


Action = (
    BeginHost
    | Watch
    | KeepLease
    | EndLease
    | MergePolicies
    | ReadAgain
    | Observe
    | SeeLeader
    | Finish
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The new state, what to do now, and when to ask again at the latest (None: no need)."""

    state: State
    actions: tuple[Action, ...] = ()
    wake_at: float | None = None
