"""How does an operation go in a world that is made up? Twins of every port, and `drive`.

`drive` takes an operation to its end without Temporal: the same `decide`, a clock that is only a
number, and hosts, gates and people that behave as a script says. It is for simulations and for
users' own tests of their plans and policies; it proves nothing about real parts.
"""

import asyncio
import hashlib
import heapq
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from guardrail.decide import chain, leases
from guardrail.decide.bits import members
from guardrail.decide.transition import decide, may_begin
from guardrail.errors import Refused
from guardrail.model.budget import Listing
from guardrail.model.change import Change, Command
from guardrail.model.fleet import Fleet, Host
from guardrail.model.freeze import Freeze
from guardrail.model.gate import Age, Judgement, Kind, Reading, Verdict
from guardrail.model.identity import NOBODY, Signer
from guardrail.model.journal import Entry, Head
from guardrail.model.lease import Answer, Done, Grant, Holder, Priority, Table, Wanted
from guardrail.model.operation import (
    BeginHost,
    Commanded,
    EndLease,
    Event,
    FreezesSeen,
    GateJudged,
    HostAnswered,
    HostFound,
    HostsRead,
    KeepLease,
    LeaderSeen,
    LeaseTold,
    MergePolicies,
    Observe,
    Outcome,
    PlanObserved,
    PolicyMerged,
    ReadAgain,
    SeeLeader,
    Started,
    State,
    Ticked,
    Watch,
    WatcherLost,
)
from guardrail.model.plan import Course, Merged
from guardrail.ports import CatalogEntry, Permit, StepRequest, StepResult, Token, Unreachable

LEASE_EVERY = 5.0
"""Seconds between two questions of who keeps a lease, or waits for one."""
PERMIT_VALID = 0.3
GO_WITHIN = 1.0
"""Seconds: design.md §5, permits."""


# ---------------------------------------------------------------- drive: the script


@dataclass(frozen=True, slots=True)
class Work:
    """How a host behaves when it is asked: seconds until it is ready, begins and answers.

    takes None: it never answers by itself. echoes: the same answer again, so much later.
    stale: how old (seconds) the permit is that it begins with, 0 to 0.3.
    """

    ready: float = 0.1
    go: float = 0.01
    takes: float | None = 5.0
    outcome: Outcome = "changed"
    reason: str = "as the script says"
    echoes: tuple[float, ...] = ()
    stale: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """From `at` on, this gate's verdict is another one."""

    at: float
    gate: str
    verdict: Verdict
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """All that will happen to an operation from outside.

    work: asked for each host and turn. gates: changes of verdict; before its first, a gate
    passes. lost: when the watcher falls silent. first_report: seconds from the beginning of a
    watch to its first report; None: a watch never reports. reread: what is wrong with a changed
    host that is read again; None: nothing. arrived: hosts that the inventory has by then, and the
    plan does not. policies: what the worker's policies say from a time on, or why they cannot be
    read; before, what they said for the plan. moved: what is otherwise than planned when somebody
    looks, or why nobody can. asked_by: who signed the start. leads: the host that leads (-1:
    another), or why that is unknown.
    """

    work: Callable[[BeginHost, float], Work] = lambda _begin, _now: Work()
    gates: tuple[Turn, ...] = ()
    people: tuple[Commanded, ...] = ()
    lost: tuple[float, ...] = ()
    first_report: float | None = 1.0
    policies: tuple[tuple[float, Merged | str], ...] = ()
    reread: Callable[[int, float], HostFound | None] = lambda _index, _now: None
    arrived: tuple[str, ...] = ()
    moved: Callable[[float], tuple[tuple[str, ...], str]] = lambda _now: ((), "")
    freezes: tuple[tuple[float, tuple[Freeze, ...]], ...] = ()
    asked_by: Signer = NOBODY
    leads: Callable[[float], tuple[int, str]] = lambda _now: (-1, "")


@dataclass(frozen=True, slots=True)
class Begun:
    """A host began: its script got "go"."""

    at: float
    index: int
    turn: int


@dataclass(frozen=True, slots=True)
class Moment:
    """An event, and what was known after it."""

    event: Event
    state: State
    asked: tuple[BeginHost, ...]
    reads: tuple[ReadAgain, ...] = ()
    looks: tuple[Observe, ...] = ()


@dataclass(slots=True)
class TwinLeases:
    """The table of leases in memory, for all operations that are driven side by side."""

    table: Table = field(default_factory=Table)

    def ask(self, wanted: Wanted, now: float) -> Answer:
        """Ask for a lease, or renew it."""
        self.table, answer = leases.ask(self.table, wanted, now)
        return answer

    def give_back(self, done: Done, now: float) -> None:
        """What was asked for up to that turn is over."""
        self.table = leases.give_back(self.table, done, now)


MERGE_AGAIN = 10.0
"""Seconds until policies that cannot be read are asked for again."""


def as_planned(course: Course, now: float) -> Merged:
    """The policies say what they said when the plan was made."""
    return Merged(now, course.caps, course.bake_for, course.rollback_when, gates=course.gates)


@dataclass(slots=True)
class Drive:
    """An operation on its way through a script; `moments` and `begun` are the record."""

    state: State
    script: Script
    moments: list[Moment] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    now: float = 0.0
    leases: TwinLeases = field(default_factory=TwinLeases)
    urgent: bool = False
    _had: dict[int, Grant] = field(default_factory=dict)
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: int = 0
    _wake_at: float | None = None

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Have something happen so many seconds from now."""
        self._order += 1
        heapq.heappush(self._due, (self.now + seconds, self._order, act))

    def happen(self, event: Event) -> None:
        """Give an event to `decide`, and do what it asks for."""
        decision = decide(self.state, event)
        self.state, self._wake_at = decision.state, decision.wake_at
        asked = tuple(act for act in decision.actions if isinstance(act, BeginHost))
        reads = tuple(act for act in decision.actions if isinstance(act, ReadAgain))
        looks = tuple(act for act in decision.actions if isinstance(act, Observe))
        self.moments.append(Moment(event, self.state, asked, reads, looks))
        for action in decision.actions:
            if isinstance(action, BeginHost):
                self._ask(action)
            elif isinstance(action, Watch):
                self._watch(action.turn)
            elif isinstance(action, Observe):
                self.after(1.0, lambda look=action: self._observe(look))  # type: ignore[misc]
            elif isinstance(action, SeeLeader):
                self.after(0.1, lambda turn=action.turn: self._see_leader(turn))  # type: ignore[misc]
            elif isinstance(action, ReadAgain):
                self.after(1.0, lambda read=action: self._read(read))  # type: ignore[misc]
            elif isinstance(action, KeepLease):
                self._keep(action, None)
            elif isinstance(action, EndLease):
                self.leases.give_back(Done(self.state.name, action.turn), self.now)
            elif isinstance(action, MergePolicies):
                self.after(0.0, lambda turn=action.turn: self._merge(turn))  # type: ignore[misc]

    def run(self, until: float) -> State:
        """Go on until the operation ends, nothing can happen any more, or time is up."""
        while (at := self.next_at()) is not None and at <= until:
            self.step()
        return self.state

    def step(self) -> None:
        """The next thing happens."""
        at = self.next_at()
        if at is None:
            return
        self.now = max(self.now, at)
        if self._due and self._due[0][0] <= at:
            heapq.heappop(self._due)[2]()
        else:
            self.happen(Ticked(self.now))

    def next_at(self) -> float | None:
        """When the next thing happens; None: nothing will, or the operation has ended."""
        if self.state.finished:
            return None
        times = [due[0] for due in self._due[:1]]
        times += [self._wake_at] if self._wake_at is not None else []
        return min(times, default=None)

    # ------------------------------------------------------------ hosts

    def _ask(self, begin: BeginHost) -> None:
        work = self.script.work(begin, self.now)
        self.after(work.ready, lambda: self._ready(begin, work))

    def _ready(self, begin: BeginHost, work: Work) -> None:
        """The host is ready: it begins with a permit that is at most 0.3 s old, or not at all."""
        if not self._allowed(self.now - min(work.stale, PERMIT_VALID)):
            self._answer(begin, "not_begun", "no permit")
        elif work.go > GO_WITHIN:
            self._answer(begin, "not_begun", "go came too late")
        else:
            self.after(work.go, lambda: self._go(begin, work))

    def _allowed(self, asked_at: float) -> bool:
        known = [moment.state for moment in self.moments if moment.event.at <= asked_at]
        return may_begin(known[-1] if known else self.state)

    def _go(self, begin: BeginHost, work: Work) -> None:
        if work.outcome not in ("not_begun", "blocked", "credentials"):
            self.begun.append(Begun(self.now, begin.index, begin.turn))
        if work.takes is None:
            return
        for later in (0.0, *work.echoes):
            answer = lambda: self._answer(begin, work.outcome, work.reason)  # noqa: E731
            self.after(work.takes + later, answer)

    def _answer(self, begin: BeginHost, outcome: Outcome, reason: str) -> None:
        name = host_name(begin.index)
        self.happen(HostAnswered(self.now, begin.index, begin.turn, outcome, name, reason))

    def _observe(self, look: Observe) -> None:
        reasons, problem = self.script.moved(self.now)
        self.happen(PlanObserved(self.now, look.turn, reasons, problem))

    def _see_leader(self, turn: int) -> None:
        index, problem = self.script.leads(self.now)
        name = host_name(index) if index >= 0 else "another"
        self.happen(LeaderSeen(self.now, turn, index, name, problem))

    def _read(self, read: ReadAgain) -> None:
        found = [self.script.reread(index, self.now) for index in members(read.hosts)]
        wrong = tuple(one for one in found if one is not None)
        came = self.script.arrived if read.arrivals else ()
        self.happen(HostsRead(self.now, read.turn, len(found), wrong, arrived=came))

    # ------------------------------------------------------------ leases

    def _keep(self, action: KeepLease, told: Answer | None) -> None:
        """Ask every few seconds, as the keeper of a lease does, and tell what is new."""
        self.after(0.02 if told is None else LEASE_EVERY, lambda: self._ask_lease(action, told))

    def _ask_lease(self, action: KeepLease, told: Answer | None) -> None:
        if action.turn != self.state.lease_turn or self.state.finished:
            return
        priority: Priority = "urgent" if self.urgent else "normal"
        holder = Holder(self.state.name, self.state.course.requester, "a drive", priority)
        ask, had = action.ask, self._had.get(action.turn)
        token = action.token if had is None else had.token
        keep = ask.keep or had is not None
        wanted = Wanted(holder, action.turn, ask.claims, keep, token)
        answer = self.leases.ask(wanted, self.now)
        if answer.grant is not None:
            self._had[action.turn] = answer.grant
        self._keep(action, answer)
        if leases.differs(told, answer):
            word, reasons, grant = answer.word, answer.reasons, answer.grant
            self.happen(LeaseTold(self.now, action.turn, word, reasons, grant, answer.anew))

    # ------------------------------------------------------------ policies

    def _merge(self, turn: int) -> None:
        """Tell what the policies say now; where they cannot be read, try again."""
        if self.state.finished or turn != self.state.merge_turn:
            return
        past = [said for at, said in self.script.policies if at <= self.now]
        said = past[-1] if past else as_planned(self.state.course, self.now)
        if isinstance(said, Merged):
            self.happen(PolicyMerged(self.now, turn, said))
            return
        self.happen(PolicyMerged(self.now, turn, problem=said))
        self.after(MERGE_AGAIN, lambda: self._merge(turn))

    # ------------------------------------------------------------ gates and people

    def _watch(self, turn: int) -> None:
        if self.script.first_report is None:
            return
        for rule in self.state.course.gates:
            report = lambda gate=rule.name: self._report(turn, gate)  # noqa: E731
            self.after(self.script.first_report, report)
        if self.state.course.freezes:
            self.after(self.script.first_report, lambda: self._frozen(turn))

    def _frozen(self, turn: int) -> None:
        past = [freezes for at, freezes in self.script.freezes if at <= self.now]
        self.happen(FreezesSeen(self.now, turn, past[-1] if past else ()))

    def _report(self, turn: int, gate: str) -> None:
        past = [t for t in self.script.gates if t.gate == gate and t.at <= self.now]
        latest = max(past, key=lambda t: t.at, default=Turn(0.0, gate, "pass"))
        self.happen(GateJudged(self.now, turn, judgement(latest)))

    def _turn(self, gate: str) -> None:
        if self.script.first_report is not None:
            self._report(self.state.watch_turn, gate)

    def schedule(self) -> None:
        """Put all that the script knows beforehand into the future."""
        for turn in self.script.gates:
            self.after(turn.at - self.now, lambda gate=turn.gate: self._turn(gate))  # type: ignore[misc]
        for command in self.script.people:
            self.after(command.at - self.now, lambda said=command: self.happen(said))  # type: ignore[misc]
        for at, _ in self.script.freezes:
            self.after(at - self.now, lambda: self._frozen(self.state.watch_turn))
        for at in self.script.lost:
            self.after(at - self.now, self._lose)

    def _lose(self) -> None:
        self.happen(WatcherLost(self.now, self.state.watch_turn, "as the script says"))


def drive(course: Course, script: Script, *, name: str = "twin", until: float = 1e7) -> Drive:
    """Take an operation to its end through a script. Times are seconds from 0."""
    run = Drive(State(course, name, asked_by=script.asked_by), script)
    run.schedule()
    run.happen(Started(0.0))
    run.run(until)
    return run


def side_by_side(drives: Sequence[Drive], until: float) -> None:
    """Take operations that share one table of leases to their ends, on one clock."""
    while True:
        open_ones = [(at, n) for n, run in enumerate(drives) if (at := run.next_at()) is not None]
        if not open_ones or min(open_ones)[0] > until:
            return
        drives[min(open_ones)[1]].step()


def host_name(index: int) -> str:
    """What `drive` calls a host."""
    return f"host-{index:03d}"


def judgement(turn: Turn) -> Judgement:
    """A judgement with readings, as a watcher would report it."""
    missing = turn.verdict == "inconclusive"
    kind: Kind | None = (turn.kind or "no_data") if missing else None
    value = None if missing else {"pass": 0.1, "fail": 0.9}.get(turn.verdict)
    reading = Reading(value, kind, turn.at, None if missing else turn.at)
    reason = f"{turn.gate}: {turn.verdict}" + (f" ({kind})" if kind else "")
    return Judgement(turn.gate, turn.verdict, kind, (reason,), (reading,))


# ---------------------------------------------------------------- twins of the ports


@dataclass(slots=True)
class Markers:
    """What a host remembers of one operation: the highest (turn, attempt) that ever asked, and
    which turns have begun. The real ones are files on the host (edges/runner.sh)."""

    claimed: dict[Hashable, tuple[int, int]] = field(default_factory=dict)
    began: set[tuple[Hashable, int]] = field(default_factory=set)

    def claim(self, host: Hashable, token: tuple[int, int]) -> bool:
        """Whether this attempt may go on; a lower one than was there before may not."""
        if token < self.claimed.get(host, (0, 0)):
            return False
        self.claimed[host] = token
        return True

    def begin(self, host: Hashable, token: tuple[int, int]) -> bool:
        """Whether the steps run now: once a turn, and never after a later attempt has asked."""
        if not self.claim(host, token) or (host, token[0]) in self.began:
            return False
        self.began.add((host, token[0]))
        return True


@dataclass(slots=True)
class TwinListings:
    """A catalog that shows these states, or faults, one after another; then nothing changes any
    more, and `over` is set."""

    answers: list[Listing | Exception]
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def next(self) -> Listing:
        """The next state; raises a fault where there is one."""
        if not self.answers:
            self.over.set()
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass(slots=True)
class TwinInventory:
    """An inventory that is a tuple of hosts; `filtered` refuses as a real one would."""

    known: tuple[Host, ...]
    filtered: bool = False

    async def hosts(self, fleet: Fleet) -> tuple[Host, ...]:
        """All hosts, sorted by name."""
        if self.filtered:
            raise Refused(f"the inventory of fleet {fleet.name} is filtered by ACLs")
        if not self.known:
            raise Refused(f"the inventory of fleet {fleet.name} has no hosts")
        return tuple(sorted(self.known, key=lambda host: host.name))


@dataclass(slots=True)
class TwinHosts:
    """Hosts that run one agent: driver, probes and catalog in one made-up place.

    `versions` has what is installed and running by host name. Steps take effect at once: a step
    whose last word is a version switches to it. Once begun, a turn never runs again. `lost` has
    the versions that no repository has any more.
    """

    versions: dict[str, str]
    silent: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    log: list[tuple[str, Token]] = field(default_factory=list)
    tokens: dict[tuple[str, str, str], tuple[Token, StepResult]] = field(default_factory=dict)

    def _reach(self, host: Host) -> None:
        if host.name in self.silent:
            raise Unreachable(f"{host.name} ({host.address}) does not answer")

    async def run(self, host: Host, command: Command, *, limit: float) -> tuple[int, str]:
        """A probe or a prepare step; always succeeds on a host that answers."""
        self._reach(host)
        return 0, self.versions[host.name]

    async def apply(self, host: Host, request: StepRequest, permit: Permit) -> StepResult:
        """The steps, once a turn; a lower token is refused."""
        self._reach(host)
        place = (host.name, request.operation, request.direction)
        token, result = self.tokens.get(place, (Token(0, 0, 0), StepResult("not_begun")))
        if _order(request.token) < _order(token):
            return StepResult("refused", reason=f"a later attempt {token} was here")
        if (token.lease, token.turn) == (request.token.lease, request.token.turn):
            return result
        if not await permit():
            return StepResult("not_begun", reason="no permit")
        result = self._do(host, request)
        self.tokens[place] = (request.token, result)
        return result

    def _do(self, host: Host, request: StepRequest) -> StepResult:
        self.log.append((host.name, request.token))
        if host.name in self.broken:
            return StepResult("done", 1, "the agent refuses its configuration")
        self.versions[host.name] = request.steps[0][-1]
        return StepResult("done", 0, "")

    async def installed(self, host: Host, change: Change) -> str | None:
        """What is installed."""
        self._reach(host)
        return self.versions[host.name]

    async def running(self, host: Host, change: Change) -> str | None:
        """What runs."""
        self._reach(host)
        return self.versions[host.name]

    async def obtainable(self, host: Host, change: Change, version: str) -> str | None:
        """What is said against bringing the version there."""
        self._reach(host)
        lost = change.obtainable is not None and version in self.lost
        return f"the repository has no {version}" if lost else None

    async def entry(self, node: str) -> CatalogEntry | None:
        """The node as the servers see it."""
        version = self.versions.get(node)
        return None if version is None else CatalogEntry(node, "", version, True, ("memcached",))


def _order(token: Token) -> tuple[int, int, int]:
    return (token.lease, token.turn, token.attempt)


@dataclass(slots=True)
class TwinMetrics:
    """Metrics that answer from a table of readings by query; what is not there is `no_data`."""

    table: dict[str, Reading]

    async def read(self, query: str, max_age: Age | None = None) -> Reading:
        """The reading of the table; scrapes are one second apart."""
        reading = self.table.get(query)
        if reading is None:
            return Reading(None, "no_data", 0.0, None, f"no data for {query}")
        limit = None if max_age is None else max_age.limit(1.0)
        age = await self.age(query)
        if limit is not None and age is not None and age > limit:
            return Reading(None, "stale", reading.taken_at, None, f"{age:g} s old")
        return reading

    async def age(self, query: str) -> float | None:
        """Seconds since the sample."""
        reading = self.table.get(query)
        if reading is None or reading.sampled_at is None:
            return None
        return reading.taken_at - reading.sampled_at

    async def scrape_interval(self, query: str) -> float | None:
        """One second wherever there is data."""
        return 1.0 if query in self.table else None


@dataclass(slots=True)
class TwinStore:
    """A plan store in memory."""

    kept: dict[str, bytes] = field(default_factory=dict)

    def put(self, data: bytes) -> str:
        """Store, and return the digest."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.kept[digest] = data
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes of that digest."""
        if digest not in self.kept:
            raise Refused(f"no plan {digest} is stored")
        return self.kept[digest]


@dataclass(slots=True)
class TwinJournal:
    """A journal in memory."""

    kept: dict[str, bytes] = field(default_factory=dict)

    def append(self, entries: Sequence[Entry]) -> Head:
        """Record what is not there yet."""
        operation = chain.operation_of(entries)
        lines = self.kept.get(operation, b"").splitlines()
        tip = chain.follow(chain.Tip(), lines)
        new = chain.new_among(entries, tip, lambda ids: chain.contents(lines, ids))
        data, after = chain.extend(tip, new)
        self.kept[operation] = self.kept.get(operation, b"") + data
        return after.head

    def read(self, operation: str) -> bytes:
        """All lines of one operation."""
        if operation not in self.kept:
            raise Refused(f"there is no journal of {operation}")
        return self.kept[operation]

    def operations(self) -> tuple[str, ...]:
        """The names of all operations."""
        return tuple(sorted(self.kept))
