"""What has happened to an operation, told from its events and from nothing else?

It knows design.md §4 in its own words: which answers count, which commands are taken, when the
operation turns round, which hosts are away and which are to go back. The rules compare the engine
with it, so a fault in the engine's own book-keeping does not hide itself.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from guardrail.model.budget import WarmRule
from guardrail.model.gate import Verdict
from guardrail.model.operation import (
    Commanded,
    Direction,
    FleetSeen,
    GateJudged,
    HostAnswered,
    HostFound,
    HostsRead,
    HostWarming,
    Known,
    Outcome,
    PlanObserved,
)
from guardrail.model.plan import Caps, Course, GateRule, Wave
from guardrail.simulation.exceeding import Exceeding
from guardrail.simulation.freezing import Places
from guardrail.simulation.service import CATALOG, Books
from guardrail.twins import Moment

EXACT = 1e-6
BLOCKED_TRIES = 3
REST = {"not_begun": 1.0, "blocked": 20.0, "credentials": 1.0}
"""Seconds that a host is left alone after such an answer."""
TWO_PEOPLE = 2
TOUCHING = ("changed", "failed", "unknown")
"""Answers after which a host may be at the new version."""


@dataclass(slots=True)
class Record:
    """The books of one operation. Hosts are plan indexes; times are seconds."""

    course: Course
    name_of: Any
    at: float = 0.0
    running: bool = False
    aborting: bool = False
    direction: Direction = "forward"
    scope: str = "all"
    verdicts: dict[str, tuple[Verdict | None, float]] = field(default_factory=dict)
    gate_holds: set[str] = field(default_factory=set)
    slowed: bool = False
    watch_turn: int = 0
    draining: bool = False
    unwritten: bool = False
    open: dict[int, tuple[int, Direction]] = field(default_factory=dict)
    stuck: dict[int, Known] = field(default_factory=dict)
    astray: set[int] = field(default_factory=set)
    touched: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    back: set[int] = field(default_factory=set)
    aside: set[int] = field(default_factory=set)
    to_take: set[int] = field(default_factory=set)
    tries: Counter[int] = field(default_factory=Counter)
    rest: dict[int, float] = field(default_factory=dict)
    row: int = 0
    paused: set[str] = field(default_factory=set)
    consents: dict[str, set[str]] = field(default_factory=dict)
    vouched: dict[str, set[str]] = field(default_factory=dict)
    vouched_start: bool = False
    exceeding: Exceeding = field(init=False)
    acceptors: set[str] = field(default_factory=set)
    retried: list[int] = field(default_factory=list)
    turned: str = ""
    turned_at: float | None = None
    gone_back: bool = False
    answered_at: float | None = None
    bad_version: bool = False  # it is left before the system has recovered
    back_gap: float = 0.0
    wave: int = 0
    waves: tuple[Wave, ...] = ()  # as policies have left them, see PoliciesTighten
    missed: float | None = None
    reading: int = 0
    unread: bool = False
    looking: int = 0
    moved: bool = False
    unlooked: bool = False
    excused: float = 0.0
    books: Books = field(init=False)
    places: Places = field(default_factory=Places)

    def __post_init__(self) -> None:
        self.verdicts = {rule.name: (None, 0.0) for rule in self.course.gates}
        self.books = Books(self.course, self.course.budget.warm)
        self.waves = self.course.waves
        self.exceeding = Exceeding(self.course)

    # ------------------------------------------------------------ one moment more

    def observe(self, moment: Moment) -> None:
        """Take in what happened; what was asked in answer to it comes last."""
        event = moment.event
        due = self.next_due()
        late = due is not None and max(due, self.excused) < event.at - EXACT
        self.missed = due if late else None
        self.at, self.retried, self.turned = event.at, [], ""
        self.vouched_start = self.exceeding.vouched_start = bool(moment.state.asked_by.key)
        self.exceeding.goes_on(event.at)
        self.books.at = event.at
        self._learn(event)
        if self.direction == "back":
            self._leaves_a_bad_version()
        if moment.state.course.budget.warm is not self.books.warm:
            self._must_show(moment.state.course.budget.warm)
        self.exceeding.sees(self.books.before)
        if self.exceeding.over:
            self.exceeding.settle(self.away(), bool(self.open))
        if self.gate_holds:
            self._gate_holds_end()
        self._turn_by_policy()
        self.wave, self.waves = moment.state.wave, moment.state.course.waves

    def asks(self, moment: Moment) -> None:
        """Take in what was asked for in this moment (after the rules have looked at it)."""
        for act in moment.asked:
            self.open[act.index] = (act.turn, self.direction)
            self.books.asks(act.index, act.turn, self.at)
            self.gone_back = self.gone_back or self.direction == "back"
        for read in moment.reads:
            self.reading = read.turn
        for look in moment.looks:
            self.looking = look.turn

    def _must_show(self, warm: tuple[WarmRule, ...]) -> None:
        """What hosts must show; another watch reads that of those that take a slot of a ring."""
        anew = self.course.budget.ring is not None and warm != self.books.warm
        self.books.warm = warm
        if anew and self.running:
            self._watch_again(self.at)

    def _learn(self, event: Any) -> None:
        learn = LEARN.get(event.kind)
        if learn is not None:
            learn(self, event)

    def _on_host_answered(self, event: HostAnswered) -> None:
        if self.open.get(event.index, (0, ""))[0] == event.turn:
            self.answered_at = event.at
            self._answered(event)

    def _on_gate_judged(self, event: GateJudged) -> None:
        if event.turn == self.watch_turn:
            self._judged(event)

    def _on_host_warming(self, event: HostWarming) -> None:
        if self.open.get(event.index, (0, ""))[0] == event.turn:
            self.books.warming(event)

    def _on_fleet_seen(self, event: FleetSeen) -> None:
        self.books.sees(event, self.watch_turn, self.ours())

    def _on_started(self, event: Any) -> None:
        if not self.running:
            self.running = True
            self._watch_again(event.at)

    def _on_plan_observed(self, event: PlanObserved) -> None:
        """What the world turns out to be counts once, and while it goes forward."""
        if event.turn == self.looking and self.direction == "forward":
            self.looking = 0
            self.unlooked = bool(event.problem)
            self.moved = bool(event.reasons) and not event.problem

    def _on_hosts_read(self, event: HostsRead) -> None:
        """What changed hosts turn out to be counts once, and while it goes forward."""
        if event.turn != self.reading or self.direction == "back":
            return
        self.reading = 0
        self.unread = bool(event.problem or event.more)
        self.stuck = {i: known for i, known in self.stuck.items() if known != "silent"}
        for found in event.wrong:
            if found.index in self.done - self.aside:
                self._found(found)

    def _found(self, found: HostFound) -> None:
        if not found.answered and not self.unread:
            self.stuck[found.index] = "silent"
        if not found.answered:
            return
        self.done.discard(found.index)
        self.stuck[found.index] = "reverted"
        if found.away:
            self.astray.add(found.index)

    def _on_watch_again(self, event: Any) -> None:
        self.reading = self.looking = 0
        self.draining = False
        self._watch_again(event.at)

    def _on_watcher_lost(self, event: Any) -> None:
        if event.turn == self.watch_turn:
            self._watch_again(event.at)

    def _on_drained(self, _: Any) -> None:
        self.draining = True

    def _on_journal_said(self, event: Any) -> None:
        self.unwritten = bool(event.problem)

    # ------------------------------------------------------------ evidence

    def _judged(self, event: GateJudged) -> None:
        gate, verdict = event.judgement.gate, event.judgement.verdict
        old, since = self.verdicts[gate]
        self.verdicts[gate] = (verdict, since if verdict == old else event.at)
        if verdict == "fail" and self.running:
            self.gate_holds.add(gate)

    def _watch_again(self, at: float) -> None:
        self.watch_turn += 1
        self.books.anew(at)
        self.verdicts = dict.fromkeys(self.verdicts, (None, at))

    def _gate_holds_end(self) -> None:
        for rule in self.course.gates:
            if rule.name not in self.gate_holds or not self.running:
                continue
            by_itself = rule.recover_by == "evidence" or self.direction == "back"
            if by_itself and self.good_for(rule) >= rule.good_for - 1e-9:
                self.gate_holds.discard(rule.name)
                self.slowed = True

    def good_for(self, rule: GateRule) -> float:
        """Seconds that this gate has passed without a break; -1 when it does not pass."""
        verdict, since = self.verdicts[rule.name]
        return self.at - since if verdict == "pass" else -1.0

    def binds(self, rule: GateRule) -> bool:
        """Whether this gate may stand in the way now."""
        if self.direction == "forward":
            return True
        before_recovery = self.bad_version or len(self.acceptors) >= TWO_PEOPLE
        return rule.gate_class == "safety" and not before_recovery

    def binding_gates_pass(self) -> bool:
        """Whether each gate that may stand in the way passes."""
        for rule in self.course.gates:
            if self.verdicts[rule.name][0] != "pass" and self.binds(rule):
                return False
        return self.books.good

    def holds_back(self, name: str) -> bool:
        """Whether a hold of that name stands in the way of the present direction."""
        if self.direction == "forward":
            return True
        kind, _, about = name.partition(":")
        if kind in ("gate", "evidence") and name != CATALOG:
            return any(self.binds(rule) for rule in self.course.gates if rule.name == about)
        return kind not in ("approval", "policy")

    def missing(self) -> list[tuple[str, float]]:
        """When missing evidence must be held, by gate."""
        found: list[tuple[str, float]] = []
        if self.books.silent_since is not None:
            found.append(("catalog", self.books.silent_since + self.course.budget.grace))
        for rule in self.course.gates:
            verdict, since = self.verdicts[rule.name]
            if verdict is None:
                found.append((rule.name, since + rule.first_within))
            elif verdict == "inconclusive":
                found.append((rule.name, since + rule.grace))
        return found

    def next_due(self) -> float | None:
        """The next time at which time alone must raise a hold; None: there is none."""
        if not self.running:
            return None
        return min([at for _, at in self.missing() if at > self.at], default=None)

    # ------------------------------------------------------------ hosts

    def _answered(self, event: HostAnswered) -> None:
        index, outcome = event.index, event.outcome
        _, asked = self.open.pop(index)
        self.books.answers(event, self.lost())
        if outcome == "gone":
            self._leave(index)
        elif asked == "forward" and self.direction == "back":
            self._late(index, outcome)
        else:
            self._in_time(index, outcome)

    def _late(self, index: int, outcome: Outcome) -> None:
        """Asked to go forward, answered after the turn: it goes back too, if it was changed."""
        if outcome in TOUCHING:
            self.touched.add(index)
        if outcome in ("failed", "unknown"):
            self.astray.add(index)
        if outcome == "changed":
            self.astray.discard(index)
        if index in self.touched:
            self.to_take.add(index)

    def _in_time(self, index: int, outcome: Outcome) -> None:
        if outcome in REST:
            self.rest[index] = self.at + REST[outcome]
        if outcome != "not_begun":
            self.tries[index] = self.tries[index] + 1 if outcome == "blocked" else 0
        given_up = outcome == "blocked" and self.tries[index] == BLOCKED_TRIES
        if outcome in ("failed", "unknown", "credentials") or given_up:
            self.stuck[index] = outcome
        self.row += outcome == "failed" or given_up
        if outcome in ("failed", "unknown"):
            self.astray.discard(index)
            self.touched.add(index)
        if outcome == "changed":
            self._came(index)

    def _came(self, index: int) -> None:
        self.astray.discard(index)
        if self.direction == "back":
            self.touched.discard(index)
            self.to_take.discard(index)
            self.back.add(index)
            if self.bad_version:
                self.books.forgets(index)
            return
        self.done.add(index)
        self.touched.add(index)
        self.row *= self.too_many_failures()  # a row that holds is ended by a person

    def _leave(self, index: int) -> None:
        self.aside.add(index)
        self.astray.discard(index)
        self.to_take.discard(index)
        self.tries[index] = 0

    def away(self) -> set[int]:
        """The hosts that are, or may be, not serving because of this operation."""
        return self.open.keys() | self.lost()

    def lost(self) -> set[int]:
        """Hosts that answered badly, and have not answered well since."""
        if not self.stuck:
            return set(self.astray)
        kept = {i for i, outcome in self.stuck.items() if outcome in ("failed", "unknown")}
        return kept | self.astray

    def ours(self) -> set[int]:
        """Hosts that are not down by themselves: away, or given up by a person."""
        return self.away() | self.aside

    def silent(self) -> set[int]:
        """Hosts that must be named by a hold."""
        if not self.stuck:
            return set()
        return {i for i, outcome in self.stuck.items() if outcome in ("unknown", "credentials")}

    def caps(self) -> Caps:
        """The limits that hold now: the plan's, with overrides until their expiry."""
        return self.exceeding.caps(self.at)

    def failures(self) -> int:
        """Hosts whose failure counts in the present direction."""
        if not self.stuck:
            return 0
        back = self.direction == "back"
        bad = (i for i, outcome in self.stuck.items() if outcome in ("failed", "blocked"))
        return sum(not back or i in self.to_take for i in bad)

    def too_many_failures(self) -> bool:
        """Whether failures must hold."""
        if not self.stuck and not self.row:
            return False  # nothing has failed, and no limit is below that
        if self.direction == "back":
            return self.failures() > 0
        caps = self.exceeding.caps(self.at)
        most = caps.failures_consecutive
        many = self.failures() > min(caps.failures, self.share_of(caps))
        return many or (most is not None and self.row > most)

    def share_of(self, caps: Caps) -> int:
        """How many hosts may fail in the waves so far, by their share."""
        reached, share = self.waves[self.wave].end, caps.failures_share
        return reached if share is None else int(reached * share + 1e-9)

    def must_not_be_asked(self) -> set[int]:
        """Hosts that were tried in this direction, and that nobody has said to try again."""
        kept = {i for i, outcome in self.stuck.items() if outcome in ("failed", "unknown")}
        there = self.done if self.direction == "forward" else self.back
        return there | self.open.keys() | kept | (self.aside - self.to_take)

    def waits(self) -> set[int]:
        """Hosts of this wave that nobody has asked yet, going forward."""
        wave = self.waves[self.wave]
        known = self.done | self.aside | self.open.keys() | self.stuck.keys()
        return set(range(wave.begin, wave.end)) - known

    # ------------------------------------------------------------ a version that churns

    def _leaves_a_bad_version(self) -> None:
        """Asked to go back, with no host asked yet, nothing in flight, and the version to blame."""
        waits = not self.gone_back and not self.open
        if waits and not self.bad_version and self.answered_at is not None:
            left = self.books.by_itself(self.answered_at + 2.0)
            cold = {one.index for one in left if one.at > self.at - self._cold_for()}
            cold &= self.touched
            if len(cold) >= 3 and self._is_no_chance({one.index for one in left}):
                self.bad_version, self.back_gap = True, self._cold_for() / (len(cold) - 2)
        self.books.excused = self.touched if self.bad_version else set()

    def _is_no_chance(self, left: set[int]) -> bool:
        """One in a hundred: hosts leave one after another, whichever they are; so many of them, or
        more, are at the new version."""
        new, old = len(self.touched), self.course.hosts - len(self.touched)
        chances = {(0, 0): Fraction(1)}
        for _ in left:
            later: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
            for (ours, others), chance in chances.items():
                rest = new + old - ours - others
                later[ours + 1, others] += chance * (new - ours) / rest
                later[ours, others + 1] += chance * (old - others) / rest
            chances = later
        ours = len(left & self.touched)
        return sum(chance for (n, _), chance in chances.items() if n >= ours) <= Fraction(1, 100)

    def _cold_for(self) -> float:
        rules = [rule for rule in self.course.gates if rule.gate_class == "safety"]
        return max([60.0, self.course.bake_for, *(rule.good_for for rule in rules)])

    # ------------------------------------------------------------ turning round

    def would_go_back(self) -> set[int]:
        """All hosts that are, or may become, other than they were."""
        return (
            self.touched | {i for i, (_, to) in self.open.items() if to == "forward"}
        ) - self.aside

    def last_wave_of(self, hosts: set[int]) -> set[int]:
        """Those of the hosts that are in the last wave that has any."""
        if not hosts:
            return hosts
        newest = max(hosts)
        begin = next(w.begin for w in self.waves if w.begin <= newest < w.end)
        return {i for i in hosts if i >= begin}

    def _turn_by_policy(self) -> None:
        may = self.course.rollback_when == "auto" and self.direction == "forward"
        if not may or not self.running or self.aborting or not self.would_go_back():
            return
        health = {rule.name for rule in self.course.gates if rule.gate_class == "health"}
        if self.too_many_failures() or health & self.gate_holds:
            self._turn("all", "policy")

    def _turn(self, scope: str, why: str) -> None:
        hosts = self.would_go_back() | self.to_take
        hosts = hosts if scope == "all" else self.last_wave_of(hosts)
        flying = {i for i, (_, to) in self.open.items() if to == "forward"}
        fresh = hosts - self.to_take
        if self.direction == "forward":
            self.turned_at, self.direction = self.at, "back"
            self.reading, self.unread = 0, False
            self.looking, self.moved, self.unlooked = 0, False, False
            self.aside |= {i for i, o in self.stuck.items() if o == "blocked"} - hosts
            over = ("blocked", "credentials", "reverted", "silent")
            forget = {i for i, o in self.stuck.items() if o in over}
            for index in forget:
                del self.stuck[index]
        self.astray |= {i for i in fresh if self.stuck.get(i) in ("failed", "unknown")}
        for index in fresh:
            self.stuck.pop(index, None)
        self.scope, self.turned, self.row = scope, why, 0
        self.to_take |= hosts - flying
        self.tries.clear()

    # ------------------------------------------------------------ people

    def _said(self, event: Commanded) -> None:
        if event.verb == "pause" and not self.aborting:
            self.paused.add(event.by)
        elif event.verb == "resume":
            self._resumed(event)
        elif event.verb == "approve":
            self.consents.setdefault(event.point, set()).add(event.by)
            if event.verified:
                self.vouched.setdefault(event.point, set()).add(event.by)
            self.exceeding.agreed(event)
        elif event.verb == "override" and not self.aborting:
            self.exceeding.asked(event)
        elif event.verb in ("retry", "skip"):
            self._dealt_with(event)
        elif event.verb == "abort":
            self.aborting = True
        elif event.verb == "rollback" and (event.verified or not event.accept_churn):
            self._asked_back(event)

    def _resumed(self, event: Commanded) -> None:
        if event.over == "plan" and event.reason and self.moved:
            self.moved = False
            return
        if event.over and not (event.reason and event.over in self.paused):
            return
        self.books.resumed(self.ours())
        self.paused -= {event.by, event.over}
        self.gate_holds -= {gate for gate, (v, _) in self.verdicts.items() if v == "pass"}

    def _dealt_with(self, event: Commanded) -> None:
        names = {self.name_of(index): index for index in self.waits_for_a_person()}
        if not names or set(event.hosts) - set(names):
            return  # refused: nobody is stuck, or somebody named is not
        for index in [names[name] for name in dict.fromkeys(event.hosts or names)]:
            outcome = self.stuck.pop(index)
            self.tries[index] = self.row = 0
            if event.verb == "skip":
                self._leave(index)
            elif outcome in ("failed", "unknown", "reverted", "silent"):
                self.retried.append(index)
                self.done.discard(index)
                self.astray |= {index} if outcome in ("failed", "unknown") else set()

    def waits_for_a_person(self) -> set[int]:
        """Hosts that a person may retry or skip."""
        return set(self.stuck)

    def _asked_back(self, event: Commanded) -> None:
        if self.aborting or self.course.rollback_when == "never":
            return
        if self.direction == "forward" and not self.would_go_back():
            return
        if event.accept_churn:
            self.acceptors.add(event.by)  # with a signature: see _said
        more = self.direction == "back" and self.scope == "wave" and event.scope == "all"
        if self.direction == "forward" or more:
            self._turn(event.scope, f"asked by {event.by}")

    # ------------------------------------------------------------ what must hold

    def must_hold(self) -> set[str]:
        """The names of the holds that must stand now, but for those of silent hosts."""
        names = {f"evidence:{gate}" for gate, at in self.missing() if self.at >= at}
        names.update([f"operator:{by}" for by in self.paused])
        names.update([f"gate:{gate}" for gate in self.gate_holds])
        if self.too_many_failures():
            names.add("limit:failures")
        if self.aborting:
            names.add("abort")
        if self.unwritten:
            names.add("journal")
        if self.course.budget.follow or self.course.budget.churn:
            # Whose they are is asked only of hosts that are down.
            names |= self.books.must_hold(self.ours() if self.books.down else set())
        if self.exceeding.over:
            names.add("override")
        if self.unread or (self.stuck and "silent" in self.stuck.values()):
            names.add("reread")
        if self.stuck and "reverted" in self.stuck.values():
            names.add("reverted")
        if self.moved or self.unlooked:
            names.add("plan")
        if self.direction == "forward" and self.course.approvals:
            names |= self._wanted_approvals()
        return names

    def _wanted_approvals(self) -> set[str]:
        names = set()
        for point in self.course.approvals:
            signed = point.verified or point.count > 1
            given = (self.vouched if signed else self.consents).get(point.point, set())
            given = given - ({self.course.requester} if point.not_requester else set())
            anybody = signed and point.not_requester and not self.vouched_start
            if self.wave >= point.wave and len(given) < point.count + anybody:
                names.add(f"approval:{point.point}")
        return names


LEARN: dict[str, Callable[[Record, Any], None]] = {
    "started": Record._on_started,
    "host_answered": Record._on_host_answered,
    "host_warming": Record._on_host_warming,
    "gate_judged": Record._on_gate_judged,
    "watcher_lost": Record._on_watcher_lost,
    "watch_again": Record._on_watch_again,
    "fleet_seen": Record._on_fleet_seen,
    "drained": Record._on_drained,
    "journal_said": Record._on_journal_said,
    "hosts_read": Record._on_hosts_read,
    "plan_observed": Record._on_plan_observed,
    "commanded": Record._said,
}
"""What each kind of event tells; the others tell the record nothing."""
