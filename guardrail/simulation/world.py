"""What happens when a story is told? Hosts, a worker, a server, gates and people, and no clock.

The engine is the real one (`decide`, `judge`, `carry`); everything else is made up and dies, stops
or lies as the story says. An attempt at a host's work lives in a worker: when the worker dies it is
lost, and the next one begins later, elsewhere; when the worker only stops, the old one comes back
as a zombie, and the host's marker tells them apart.
"""

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from random import Random
from typing import Any

from pydantic import TypeAdapter

from guardrail.decide import bits, carry
from guardrail.decide.commands import refusal
from guardrail.decide.judge import Track, differs, judge
from guardrail.decide.transition import decide, may_begin
from guardrail.decide.windows import open_for
from guardrail.model.gate import Bound, Gate, Judgement, Reading
from guardrail.model.messages import Carried
from guardrail.model.operation import (
    Action,
    BeginHost,
    Commanded,
    Direction,
    Drained,
    Event,
    FreezesSeen,
    GateJudged,
    HostAnswered,
    HostFound,
    HostsRead,
    JournalSaid,
    MergePolicies,
    Observe,
    Outcome,
    PlanObserved,
    PolicyMerged,
    ReadAgain,
    Started,
    State,
    Ticked,
    Watch,
    WatchAgain,
    WatcherLost,
)
from guardrail.model.plan import Merged
from guardrail.simulation import freezing, service
from guardrail.simulation.freezing import Places, refuses
from guardrail.simulation.policing import merged_at
from guardrail.simulation.ringing import ring_of
from guardrail.simulation.rule import Broken
from guardrail.simulation.rules import Referee
from guardrail.simulation.service import Service
from guardrail.simulation.story import (
    Behaviour,
    Noise,
    Planned,
    Said,
    Signal,
    Story,
    Trouble,
    key_of,
)
from guardrail.twins import MERGE_AGAIN, Begun, Markers, Moment, Turn, host_name, judgement

SILENCE = 5.0
ANEW = 6.0
"""Seconds: a worker that is silent for so long is lost, and its work begins anew a second later."""
PATIENCE = 10.0
GO_WITHIN = 1.0
OLDEST_PERMIT = 1.0
"""Seconds: more than any permit of a story is old (see `Behaviour.stale`)."""
UNTIL = 40_000.0
HELP_EVERY = 150.0
READ_EVERY = 5.0
READ_TAKES = 2.0
ALL = 100
SPOILED = ("blocked", "credentials", "gone")
"""Outcomes before the point of no return: nothing begins."""


@dataclass(slots=True)
class Attempt:
    """One try at one host's work, in one worker."""

    begin: BeginHost
    number: int
    way: Behaviour
    lost: bool = False
    zombie: bool = False
    later: float = 0.0
    begun: bool = False


@dataclass(slots=True)
class Watching:
    """A gate watch: what was told of each gate, and whether its watcher lives."""

    turn: int = 0
    alive: bool = False
    reports: bool = False
    tracks: dict[str, Track] = field(default_factory=dict)
    told: dict[str, Judgement | None] = field(default_factory=dict)


@dataclass(slots=True)
class Running:
    """An operation of the world and all that belongs to it."""

    number: int
    planned: Planned
    state: State
    referee: Referee
    wake_at: float | None = None
    away_until: float = 0.0
    inbox: list[Callable[[float], Event]] = field(default_factory=list)
    wants_new_run: bool = False
    asked: Counter[int] = field(default_factory=Counter)
    attempts: dict[int, Attempt] = field(default_factory=dict)
    markers: Markers = field(default_factory=Markers)
    effects: dict[tuple[int, int], tuple[float, Outcome]] = field(default_factory=dict)
    versions: dict[int, str] = field(default_factory=dict)
    watching: Watching = field(default_factory=Watching)
    put_back: dict[int, float] = field(default_factory=dict)
    read_at: dict[int, float] = field(default_factory=dict)
    known_at: list[float] = field(default_factory=list)
    known: list[State] = field(default_factory=list)
    service: Service = field(default_factory=Service)
    places: Places = field(default_factory=Places)


@dataclass(slots=True)
class World:
    """A story on its way; `events` counts what was decided. `lines` is None, or the story told."""

    story: Story
    only: Collection[str] | None = None
    lines: list[str] | None = None
    now: float = 0.0
    events: int = 0
    running: list[Running] = field(default_factory=list)
    ways: dict[tuple[int, int, int], Behaviour] = field(default_factory=dict)
    noise: dict[tuple[int, str], tuple[Noise, Random]] = field(default_factory=dict)
    signals: dict[tuple[int, str], list[Signal]] = field(default_factory=dict)
    cut_off: list[Trouble] = field(default_factory=list)
    due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    order: int = 0

    # ------------------------------------------------------------ from the first to the last moment

    def run(self) -> None:
        """Tell the whole story; raises Broken when a rule does not hold."""
        self._set_up()
        while self.due and self.due[0][0] <= UNTIL:
            at, _, act = heapq.heappop(self.due)
            self.now = max(self.now, at)
            act()
        for running in self.running:
            running.referee.end()
            _truth(running)

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Have something happen at that time."""
        self.order += 1
        heapq.heappush(self.due, (when, self.order, act))

    def _set_up(self) -> None:
        for number, planned in enumerate(self.story.operations):
            referee = Referee(planned.course, only=self.only)
            state = State(planned.course, planned.name, asked_by=planned.asked_by)
            running = Running(number, planned, state, referee)
            referee.record.places = running.places
            running.service.ring = ring_of(planned.course, self.story.seed)
            self.running.append(running)
        for part in self.story.parts:
            self._set_up_part(part)
        for running in self.running:
            for rule in running.planned.course.gates:
                self.signals.setdefault((running.number, rule.name), []).sort(key=lambda s: s.at)
                self.at(self.story.calm, partial(self._signal, running, rule.name))
            start = running.planned.starts
            self.at(start, partial(self._tell, running, Started))
            self.at(self.story.calm + 1.0, partial(self._help, running))

    def _set_up_part(self, part: Any) -> None:
        running = self.running[part.operation]
        if isinstance(part, Behaviour):
            self.ways[part.operation, part.index, part.nth] = part
        elif isinstance(part, Noise):
            self.noise[part.operation, part.gate] = (part, Random(part.seed))
        elif isinstance(part, Signal):
            self.signals.setdefault((part.operation, part.gate), []).append(part)
            self.at(part.at, partial(self._signal, running, part.gate))
        elif isinstance(part, Said):
            self.at(part.at, partial(self._say, running, part.command))
        else:
            self.at(part.at, partial(TROUBLES[part.kind], self, running, part))

    # ------------------------------------------------------------ events in, actions out

    def _tell(self, running: Running, event: Callable[[float], Event]) -> None:
        """Have the engine learn of something, as soon as its server is there."""
        if running.state.finished:
            return
        if self.now < running.away_until or running.inbox:
            running.inbox.append(event)
            if len(running.inbox) == 1:
                self.at(running.away_until, partial(self._back_again, running))
            return
        self._happen(running, event(self.now))

    def _back_again(self, running: Running) -> None:
        """The server is there again: what waited for it arrives, in the order it was sent."""
        if self.now < running.away_until:
            self.at(running.away_until, partial(self._back_again, running))
            return
        waited, running.inbox = running.inbox, []
        for event in waited:
            self._tell(running, event)

    def _happen(self, running: Running, event: Event) -> None:
        before = running.state
        decision = decide(before, event)
        running.state = state = decision.state
        running.wants_new_run = running.wants_new_run or event.kind == "drained"
        self.events += 1
        moment = _moment(event, state, decision.actions)
        if self.lines is not None and state != before:
            self._note(running, moment)
        running.referee.observe(moment)
        self._remember(running, state)
        for action in decision.actions:
            if isinstance(action, BeginHost):
                self._ask(running, action)
            elif isinstance(action, Watch):
                self._watch(running, action.turn)
            elif isinstance(action, Observe):
                self.at(self.now + READ_TAKES, partial(self._look, running, action))
            elif isinstance(action, ReadAgain):
                self.at(self.now + READ_TAKES, partial(self._read_again, running, action))
            elif isinstance(action, MergePolicies):
                self.at(self.now + READ_TAKES, partial(self._merge, running, action.turn))
        self._wake(running, decision.wake_at)
        if running.wants_new_run and not state.in_flight and not state.finished:
            self._new_run(running)

    def _remember(self, running: Running, state: State) -> None:
        """What is known from now on, for permits that are a little old; what is older goes."""
        while len(running.known_at) > 1 and running.known_at[1] < self.now - OLDEST_PERMIT:
            del running.known_at[0], running.known[0]
        running.known_at.append(self.now)
        running.known.append(state)

    def _merge(self, running: Running, turn: int) -> None:
        """Tell what the policies say now; where they cannot be read, try again later."""
        if running.state.finished or turn != running.state.merge_turn:
            return
        said = merged_at(running.planned.policies, running.planned.course, self.now)
        self._tell(running, partial(_policy_merged, turn, said))
        if said is None:
            self.at(self.now + MERGE_AGAIN, partial(self._merge, running, turn))

    def _wake(self, running: Running, at: float | None) -> None:
        running.wake_at = at
        if at is not None:
            self.at(max(at, running.away_until), partial(self._woken, running, at))

    def _woken(self, running: Running, at: float) -> None:
        if running.wake_at == at and not running.state.finished:
            self._tell(running, Ticked)

    def _new_run(self, running: Running) -> None:
        """The workflow continues as new: only what is packed survives, and only as JSON."""
        running.wants_new_run = False
        before = running.state
        running.state = carry.unpack(through_json(carry.pack(before)), before.course)
        if running.state != before:
            raise Broken("carried_whole", f"{running.planned.name} lost something", self.now)
        self._happen(running, WatchAgain(self.now))

    # ------------------------------------------------------------ work on one host

    def _ask(self, running: Running, begin: BeginHost) -> None:
        running.asked[begin.index] += 1
        place = (running.number, begin.index, running.asked[begin.index])
        way = self.ways.get(place) if self.now < self.story.calm else None
        self._attempt(running, begin, 1, way or Behaviour(*place))

    def _attempt(self, running: Running, begin: BeginHost, number: int, way: Behaviour) -> None:
        """Look first: it may be there already, or an earlier attempt of this turn has begun."""
        attempt = Attempt(begin, number, way)
        running.attempts[begin.turn] = attempt
        effect = running.effects.get((begin.index, begin.turn))
        met = way.second if number > 1 and way.second else way.outcome
        if self._unreachable(running, begin.index):
            self._answer(running, attempt, "unknown", PATIENCE)
        elif effect is not None:
            self._answer(running, attempt, effect[1], max(0.5, effect[0] - self.now))
        elif met in SPOILED or met == "not_begun":
            self._answer(running, attempt, met, min(way.takes, 40.0))
        elif running.versions.get(begin.index, "old") == _target(begin.direction):
            self._answer(running, attempt, way.outcome, 1.0)
        else:
            self.at(self.now + way.ready, partial(self._ready, running, attempt))

    def _ready(self, running: Running, attempt: Attempt) -> None:
        """The host stands ready and asks last: a permit, at most 0.3 s old."""
        if self._stopped(attempt, partial(self._ready, running, attempt)):
            return
        if self.now < running.away_until:
            self._no_answer_to_a_permit(running, attempt)
            return
        begin, way = attempt.begin, attempt.way
        if not running.markers.claim(begin.index, (begin.turn, attempt.number)):
            return  # a later attempt was here: this one is a zombie, and nobody hears it
        if not self._permit(running, begin, way.stale) or way.go > GO_WITHIN:
            self._answer(running, attempt, "not_begun", 0.0)
        else:
            self.at(self.now + way.go, partial(self._go, running, attempt, self.now))

    def _no_answer_to_a_permit(self, running: Running, attempt: Attempt) -> None:
        """Nobody answers: it asks again for a while."""
        if running.away_until - self.now > PATIENCE:
            self._answer(running, attempt, "not_begun", PATIENCE)
        else:
            self.at(running.away_until, partial(self._ready, running, attempt))

    def _permit(self, running: Running, begin: BeginHost, stale: float) -> bool:
        ice = refuses(running.places, self.now, begin.direction)
        if ice and running.planned.course.freezes:
            self._tell(running, lambda at: FreezesSeen(at, 0, ice))
            return False
        seen = bisect_right(running.known_at, self.now - stale) - 1
        asked = may_begin(running.known[max(seen, 0)], begin.turn)
        return asked and open_for(running.planned.course, self.now, begin.direction)

    def _go(self, running: Running, attempt: Attempt, ready_at: float) -> None:
        """ "Go" arrives, or comes too late by the host's own clock; then the steps run, once."""
        if self._stopped(attempt, partial(self._go, running, attempt, ready_at)):
            return
        begin, way = attempt.begin, attempt.way
        late = self.now - ready_at > GO_WITHIN + 1e-9
        if late or self._unreachable(running, begin.index):
            self._answer(running, attempt, "not_begun" if late else "unknown", PATIENCE)
            return
        if not running.markers.begin(begin.index, (begin.turn, attempt.number)):
            return
        if way.outcome == "not_begun":
            self._answer(running, attempt, "not_begun", 0.0)
            return
        limit = running.planned.course.host_timeout
        hangs = way.takes > limit
        outcome: Outcome = "unknown" if hangs else way.outcome
        takes = min(way.takes, limit)
        running.effects[begin.index, begin.turn] = (self.now + takes, outcome)
        running.versions[begin.index] = _version_after(begin.direction, outcome)
        begun = Begun(self.now, begin.index, begin.turn)
        if self.lines is not None:
            self._line(running, f"host {begin.index} begins (turn {begin.turn})")
        running.referee.begun(begun)
        service.restarts(self, running, begin.index)
        if running.versions[begin.index] == "new":
            service.keeps_leaving(self, running, begin.index)
        service.warms(self, running, begin.index, begin.turn, takes)
        self._answer(running, attempt, outcome, takes)

    def _stopped(self, attempt: Attempt, again: Callable[[], None]) -> bool:
        """Whether its worker is dead, or stopped: then the same step comes later."""
        if attempt.lost:
            return True
        if attempt.later > self.now:
            self.at(attempt.later, again)
            return True
        return False

    def _answer(self, running: Running, attempt: Attempt, outcome: Outcome, after: float) -> None:
        self.at(self.now + after, partial(self._answered, running, attempt, outcome))

    def _answered(self, running: Running, attempt: Attempt, outcome: Outcome) -> None:
        """The attempt ends; the server hears the last attempt of a turn, once."""
        if self._stopped(attempt, partial(self._answered, running, attempt, outcome)):
            return
        begin = attempt.begin
        if running.attempts.get(begin.turn) is not attempt:
            return
        if self._unreachable(running, begin.index) and outcome in ("changed", "failed"):
            outcome = "unknown"
        del running.attempts[begin.turn]
        name = host_name(begin.index)
        said = partial(_host_answered, begin, outcome, name)
        self._tell(running, said)
        if attempt.way.echo is not None:
            self.at(self.now + attempt.way.echo, partial(self._tell, running, said))

    def _unreachable(self, running: Running, index: int) -> bool:
        host = running.planned.first_host + index
        return any(t.host == host and t.at <= self.now < t.at + t.length for t in self.cut_off)

    # ------------------------------------------------------------ hosts that are read again

    def _read_again(self, running: Running, read: ReadAgain) -> None:
        """What the changed hosts are now; a host that is cut off says nothing."""
        hosts = tuple(bits.members(read.hosts))
        found = [self._found(running, index) for index in hosts]
        wrong = tuple(one for one in found if one is not None)
        silent = {one.index for one in wrong if not one.answered}
        read_now = dict.fromkeys(set(hosts) - silent, self.now)

        def heard(at: float) -> Event:
            running.read_at |= read_now  # what nobody hears is not known
            return HostsRead(at, read.turn, len(hosts), wrong)

        self._tell(running, heard)

    def _look(self, running: Running, look: Observe) -> None:
        """The plan is compared with the world: nothing, something, or nobody could look."""
        chance = Random(f"{self.story.seed}/{look.turn}").random()
        calm = self.now >= self.story.calm
        reasons = ("1 host went",) if chance < 0.3 and not calm else ()
        problem = "the inventory is silent" if chance > 0.8 and not calm else ""
        self._tell(running, partial(_plan_observed, look.turn, reasons, problem))

    def _found(self, running: Running, index: int) -> HostFound | None:
        if self._unreachable(running, index):
            return HostFound(index, host_name(index), "does not answer", answered=False)
        version = running.versions.get(index, "old")
        if version == "new":
            return None
        away = version == "broken"
        return HostFound(index, host_name(index), f"at {version}, not at new", away=away)

    def _put_back(self, running: Running, trouble: Trouble) -> None:
        """Somebody brings a changed host back to the former version by hand."""
        index = trouble.host - running.planned.first_host
        if running.versions.get(index) == "new":
            running.versions[index] = "old"
            running.put_back[index] = self.now

    # ------------------------------------------------------------ gates

    def _watch(self, running: Running, turn: int) -> None:
        running.watching = watching = Watching(turn, alive=True)
        for rule in running.planned.course.gates:
            if (running.number, rule.name) in self.noise and self.now < self.story.calm:
                watching.tracks[rule.name] = Track()
                first = partial(self._read, running, watching, rule.name)
            else:
                first = partial(self._report, running, watching, rule.name)
            self.at(self.now + running.planned.first_report, first)
        service.watch(self, running, watching)
        freezing.watch(self, running, watching)

    def _report(self, running: Running, watching: Watching, gate: str) -> None:
        if watching.alive:
            watching.reports = True
            told = judgement(self._signal_now(running, gate))
            self._tell(running, partial(_gate_judged, watching.turn, told))

    def _signal_now(self, running: Running, gate: str) -> Turn:
        rule = next(rule for rule in running.planned.course.gates if rule.name == gate)
        if self.now >= self.story.calm:
            sick = running.planned.sick and rule.gate_class == "health"
            return Turn(self.now, gate, "fail" if sick else "pass")
        past = [s for s in self.signals[running.number, gate] if s.at <= self.now]
        last = past[-1] if past else None
        return Turn(self.now, gate, last.verdict if last else "pass", last.kind if last else None)

    def _signal(self, running: Running, gate: str) -> None:
        """A verdict changes: the watch reports it, if it has begun to report."""
        if running.watching.reports and gate not in running.watching.tracks:
            self._report(running, running.watching, gate)

    def _read(self, running: Running, watching: Watching, gate: str) -> None:
        """A noisy gate is read and judged; only a change of verdict is told."""
        if not watching.alive or watching is not running.watching or running.state.finished:
            return
        if self.now >= self.story.calm:
            del watching.tracks[gate]
            self._report(running, watching, gate)
            return
        noise, dice = self.noise[running.number, gate]
        reading = _reading(noise, dice, self.now)
        track, judged = judge(_gate(gate), watching.tracks[gate], reading)
        watching.tracks[gate] = track
        _row_is_right(track, judged, self.now)
        if judged is not None and differs(judged, watching.told.get(gate)):
            watching.told[gate] = judged
            self._tell(running, partial(_gate_judged, watching.turn, judged))
        self.at(self.now + READ_EVERY, partial(self._read, running, watching, gate))

    # ------------------------------------------------------------ people

    def _say(self, running: Running, command: Commanded) -> None:
        if running.state.phase != "planned":
            self._tell(running, partial(_commanded, command))

    def _help(self, running: Running) -> None:
        """Everything is well, and people come by until it ends."""
        if running.state.finished:
            return
        for by in ("bob", "cid", "dee"):
            said = Commanded(self.now, "approve", by, point="start", verified=True, key=key_of(by))
            self._ask_for(running, said)
        self._ask_for(running, Commanded(self.now, "retry", "bob"))
        for by in ("ann", "bob", "cid"):
            self._ask_for(running, Commanded(self.now, "resume", by))
        self._ask_for(running, Commanded(self.now, "resume", "dan", "seen", over="plan"))
        self._help_to_end(running)
        self.at(self.now + HELP_EVERY, partial(self._help, running))

    def _ask_for(self, running: Running, command: Commanded) -> None:
        """What would be refused is not said: it must not wake an engine that sleeps too long."""
        if refusal(running.state, command) is None:
            self._say(running, command)

    def _help_to_end(self, running: Running) -> None:
        """What nobody wants forward is taken back; where the policy forbids that, ended."""
        back = running.state.direction == "back"
        if back or running.planned.sick:
            self._ask_for(running, Commanded(self.now, "rollback", "dan"))
        stuck = running.planned.sick and not back and self.now > self.story.calm + 3000.0
        if stuck and any(hold.name.startswith("gate:") for hold in running.state.holds):
            self._say(running, Commanded(self.now, "abort", "dan", "the new version is sick"))

    # ------------------------------------------------------------ troubles

    def _worker_dies(self, running: Running, trouble: Trouble) -> None:
        for attempt in tuple(running.attempts.values()):
            attempt.lost = True
            self._again(running, attempt)
        self._watcher_falls_silent(running, trouble)

    def _worker_stops(self, running: Running, trouble: Trouble) -> None:
        """Stopped for longer than the silence it is lost, and comes back as a zombie."""
        for attempt in tuple(running.attempts.values()):
            attempt.later = self.now + trouble.length
            if trouble.length > SILENCE:
                self._again(running, attempt)
        if trouble.length > SILENCE:
            self._watcher_falls_silent(running, trouble)

    def _again(self, running: Running, attempt: Attempt) -> None:
        begin, number = attempt.begin, attempt.number + 1
        later = partial(self._next_attempt, running, attempt, begin, number)
        self.at(self.now + ANEW, later)

    def _next_attempt(self, running: Running, old: Attempt, begin: BeginHost, number: int) -> None:
        if running.attempts.get(begin.turn) is old and not running.state.finished:
            self._attempt(running, begin, number, old.way)

    def _watcher_falls_silent(self, running: Running, trouble: Trouble) -> None:
        watching = running.watching
        if watching.turn == 0 or not watching.alive:
            return
        watching.alive = False
        lost = partial(_watcher_lost, watching.turn, trouble.kind)
        self.at(self.now + SILENCE, partial(self._tell, running, lost))
        for rule in running.planned.course.gates:  # what it had to say arrives long after
            told = judgement(Turn(self.now, rule.name, "pass"))
            late = partial(_gate_judged, watching.turn, told)
            self.at(self.now + 2 * SILENCE, partial(self._tell, running, late))

    def _server_is_away(self, running: Running, trouble: Trouble) -> None:
        until = self.now + trouble.length
        for other in self.running:
            other.away_until = max(other.away_until, until)
            other.referee.record.excused = other.away_until
        del running

    def _continues(self, running: Running, trouble: Trouble) -> None:
        if running.state.phase != "running":
            return
        if trouble.kind == "it is drained":
            self._tell(running, Drained)
            return
        running.wants_new_run = True
        if not running.state.in_flight and self.now >= running.away_until:
            self._new_run(running)

    def _journal_fails(self, running: Running, trouble: Trouble) -> None:
        self._tell(running, partial(_journal_said, "the disk is full"))
        again = partial(self._tell, running, partial(_journal_said, ""))
        self.at(self.now + trouble.length, again)

    def _cut_off(self, running: Running, trouble: Trouble) -> None:
        self.cut_off.append(trouble)
        del running

    # ------------------------------------------------------------ in words

    def _line(self, running: Running, text: str) -> None:
        assert self.lines is not None  # noqa: S101
        self.lines.append(f"  {self.now:8.1f} s  {running.planned.name}: {text}")

    def _note(self, running: Running, moment: Moment) -> None:
        state = moment.state
        held = ", ".join(hold.name for hold in state.holds)
        words = [_event_in_words(moment.event)]
        words += [f"held on {held}"] if held else []
        words += [
            f"asks {act.index} to go {act.direction} (turn {act.turn})" for act in moment.asked
        ]
        words += [state.phase] if state.finished else []
        self._line(running, "; ".join([*words, f"{state.direction}, {state.step}"]))


TROUBLES: dict[str, Callable[[World, Running, Trouble], None]] = {
    "the worker dies": World._worker_dies,
    "the worker stops and comes back": World._worker_stops,
    "the server is away": World._server_is_away,
    "the watcher falls silent": World._watcher_falls_silent,
    "it continues as new": World._continues,
    "it is drained": World._continues,
    "a host cannot be reached": World._cut_off,
    "the journal cannot be written": World._journal_fails,
    "a node leaves": service.trouble,
    "a host falls": service.trouble,
    "a host is back": service.trouble,
    "the catalog is silent": service.trouble,
    "it is frozen": freezing.freeze,
    "it is frozen going forward": freezing.freeze,
    "a host is put back by hand": World._put_back,
}


# ---------------------------------------------------------------- small things


@lru_cache(maxsize=1)
def _wire() -> TypeAdapter[Carried]:
    return TypeAdapter(Carried)


def through_json(carried: Carried) -> Carried:
    """What is left of it after a way through JSON, as between two runs of a workflow."""
    return _wire().validate_json(_wire().dump_json(carried))


def _moment(event: Event, state: State, actions: tuple[Action, ...]) -> Moment:
    """The event, what is known after it, and what of the actions the rules look at."""
    if not actions:
        return Moment(event, state, ())
    asked = tuple([act for act in actions if act.kind == "begin_host"])
    reads = tuple([act for act in actions if act.kind == "read_again"])
    looks = tuple([act for act in actions if act.kind == "observe"])
    return Moment(event, state, asked, reads, looks)


def _target(direction: Direction) -> str:
    return "new" if direction == "forward" else "old"


def _version_after(direction: Direction, outcome: Outcome) -> str:
    return "broken" if outcome == "failed" else _target(direction)


def _host_answered(begin: BeginHost, outcome: Outcome, name: str, at: float) -> Event:
    return HostAnswered(at, begin.index, begin.turn, outcome, name, "as the story says")


def _plan_observed(turn: int, reasons: tuple[str, ...], problem: str, at: float) -> Event:
    return PlanObserved(at, turn, reasons, problem)


def _gate_judged(turn: int, told: Judgement, at: float) -> Event:
    return GateJudged(at, turn, told)


def _policy_merged(turn: int, said: Merged | None, at: float) -> Event:
    return PolicyMerged(at, turn, said, "" if said else "base.yaml:3:1: unknown key")


def _journal_said(problem: str, at: float) -> Event:
    return JournalSaid(at, problem)


def _watcher_lost(turn: int, reason: str, at: float) -> Event:
    return WatcherLost(at, turn, reason)


def _commanded(command: Commanded, at: float) -> Event:
    return command if command.at == at else replace(command, at=at)


@lru_cache(maxsize=8)
def _gate(name: str) -> Gate:
    return Gate(name, name, "safety", "q", Bound(below=0.7), READ_EVERY, 2, 3)


def _reading(noise: Noise, dice: Random, now: float) -> Reading:
    """One reading: missing, an old sample or not a number, bad, or good."""
    chance = dice.random()
    if chance < noise.gaps:
        return Reading(None, "no_data", now)
    if chance < noise.gaps + noise.lies:
        old = Reading(0.1, None, now, now - 500.0)
        return dice.choice((Reading(float("nan"), None, now, now), old))
    value = 0.9 if dice.random() < noise.bad else 0.1
    return Reading(value, None, now, now - 1.0)


PASS_AFTER, FAIL_AFTER = 3, 2


def _row_is_right(track: Track, judged: Judgement | None, now: float) -> None:
    """A pass has three good samples in a row behind it, a fresh one last; a fail has two bad."""
    if judged is None:
        return
    good = [reading.value is not None and reading.value < 0.7 for reading in track.readings]
    newest = track.readings[-1]
    if judged.verdict == "pass" and newest.kind is not None:
        raise Broken("inconclusive_never_advances", f"{newest.kind} passes gate {judged.gate}", now)
    if judged.verdict == "pass" and sum(good) < PASS_AFTER:
        raise Broken("inconclusive_never_advances", f"{sum(good)} good readings pass", now)
    times = {reading.sampled_at for reading in track.readings if reading.kind is None}
    if judged.verdict == "pass" and len(times) < PASS_AFTER:
        raise Broken("inconclusive_never_advances", "one sample passes again and again", now)


def _truth(running: Running) -> None:
    """What the hosts themselves say, against what the operation believes of them at its end."""
    state, name = running.state, running.planned.name
    for index, version in running.versions.items():
        changed, back = state.changed >> index & 1, state.reverted >> index & 1
        if changed and state.direction == "forward" and version != "new":
            _may_be_believed(running, index, version)
        if back and version != "old":
            raise Broken("one_change_per_host", f"{name}: host {index} is {version}, not back")
        left = (
            state.phase == "rolled_back" and version != "old" and not state.set_aside >> index & 1
        )
        if left:
            raise Broken("progress", f"{name}: host {index} is {version} after the rollback")


def _may_be_believed(running: Running, index: int, version: str) -> None:
    """Taken for changed, and it is not: only where it was put back since it was read last."""
    name, since = running.planned.name, running.put_back.get(index)
    if since is None:
        raise Broken("one_change_per_host", f"{name}: host {index} is {version}, not changed")
    if running.read_at.get(index, -1.0) > since:
        raise Broken("still_true", f"{name}: host {index} was read at {version}, and is believed")
    whole = running.planned.course.reread == ALL and running.state.phase == "completed"
    if whole and index not in running.read_at:
        raise Broken("still_true", f"{name}: host {index} was put back, and never read again")


def _event_in_words(event: Event) -> str:
    if isinstance(event, HostAnswered):
        return f"host {event.index} answers {event.outcome} (turn {event.turn})"
    if isinstance(event, GateJudged):
        return f"gate {event.judgement.gate}: {event.judgement.verdict} (watch {event.turn})"
    if isinstance(event, Commanded):
        return f"{event.by} says {event.verb}"
    return event.kind.replace("_", " ")
