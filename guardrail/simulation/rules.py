"""Which rules does an operation obey, and what exactly is broken when it does not?

The rules of design.md §4, each under its name, looking at every moment once: what was known
before, what happened, what was known after, and what was asked. A `Referee` keeps the record and
shows each moment to every rule; the first rule that is broken ends it with `Broken`.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from guardrail.decide.bits import members
from guardrail.decide.commands import refusal
from guardrail.decide.explain import advice, explain, first_hold, sentence
from guardrail.model.freeze import Freeze
from guardrail.model.operation import (
    BeginHost,
    Commanded,
    Direction,
    Event,
    FreezesSeen,
    HostsRead,
    PolicyMerged,
    ReadAgain,
    State,
)
from guardrail.model.plan import Caps, Course, Merged, Wave
from guardrail.simulation.freezing import AGE
from guardrail.simulation.record import Record
from guardrail.simulation.service import CATALOG, CHURN, DOWN, TINY
from guardrail.twins import Begun, Moment, host_name

LATE = 1.3 + 1e-9
"""Seconds: a permit of 0.3 s, and a host's own second between ready and go (design.md §5)."""
BAKE_EXACT = 0.01
SLOWED = 2


class Broken(Exception):
    """A rule does not hold: which one, and what was seen."""

    def __init__(self, rule: str, what: str, at: float = 0.0) -> None:
        self.rule, self.what, self.at = rule, what, at
        super().__init__(f"{rule} at {at:g} s: {what}")


@dataclass(slots=True)
class Seen:
    """One moment as the rules see it: `before` is None at the first."""

    before: State | None
    moment: Moment
    record: Record

    @property
    def state(self) -> State:
        return self.moment.state

    @property
    def event(self) -> Event:
        return self.moment.event

    @property
    def asked(self) -> tuple[BeginHost, ...]:
        return self.moment.asked


class Rule:
    """One rule; `observe` sees each moment, `begun` each host that begins, `end` the end."""

    name = ""

    def __init__(self, course: Course) -> None:
        self.course = course

    def observe(self, seen: Seen) -> None:
        """One moment more."""

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        """A host has begun: its script got "go"."""

    def end(self, state: State, record: Record) -> None:
        """Nothing more will happen."""

    def check(self, holds: object, what: str, *about: object) -> None:
        """Broken, unless it holds."""
        if not holds:
            told = " ".join([what, *(str(each) for each in about)])
            raise Broken(self.name, told)


# ---------------------------------------------------------------- 1


class NoStartUnderHold(Rule):
    """Nothing is asked under a hold, nothing begins later than 1.3 s after one; holds stand when
    they must, are looked at in time, and end by what they say."""

    name = "no_start_under_hold"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.held_since: float | None = None
        self.turned_at: float | None = None

    def observe(self, seen: Seen) -> None:
        record, state = seen.record, seen.state
        holding = [h.name for h in state.holds if record.holds_back(h.name)]
        self.check(not (seen.asked and holding), "asked to begin under", holding)
        self.check(not (seen.asked and record.draining), "asked to begin while draining")
        if not holding:
            self.held_since = None
        elif self.held_since is None:
            self.held_since = seen.event.at
        if state.phase == "running":
            self._stand(seen)
        if seen.before is not None and seen.before.holds is not state.holds:
            self._end_rightly(seen, seen.before)

    def _stand(self, seen: Seen) -> None:
        record = seen.record
        self.check(record.missed is None, "nobody looked when time was up at", record.missed)
        missing = record.must_hold() - {hold.name for hold in seen.state.holds}
        self.check(not missing, "not held:", sorted(missing))
        silent = record.silent()
        if silent:
            about = {index for hold in seen.state.holds for index in hold.hosts}
            self.check(silent <= about, "silent and not held:", silent - about)

    def _end_rightly(self, seen: Seen, before: State) -> None:
        now = {hold.name for hold in seen.state.holds}
        for hold in before.holds:
            if hold.name not in now:
                right = ended(hold.name, seen.event, seen.record) or _said_by(hold.name, now)
                self.check(right, "ended without a reason:", hold.name)

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        since = self.held_since
        late = since is not None and begun.at > since + LATE
        self.check(not late, f"host {begun.index} began at {begun.at:g}, held since {since}")


def _said_by(name: str, now: set[str]) -> bool:
    """Whether another hold says the same now: no room is not told beside what took it."""
    return name == "limit:unavailable" and "limit:failures" in now


def ended(name: str, event: Event, record: Record) -> bool:
    """Whether that hold may end with that event."""
    kind, _, about = name.partition(":")
    if name in (CATALOG, CHURN, DOWN):
        return record.books.may_end(name, record.ours())
    if name in ("limit:unavailable", "limit:coldCapacity") and event.kind == "fleet_seen":
        return True  # hosts that were down serve again, slots have a warm server
    said = event if isinstance(event, Commanded) else None
    verb = said.verb if said else ""
    if kind == "operator" and said:
        over = said.over == about and bool(said.reason)
        return verb == "resume" and (said.by == about or over)
    if kind in ("gate", "evidence"):
        return _evidence_ended(kind, about, verb, record)
    return ENDED_BY.get(kind, _by_nothing)(event.kind, verb, bool(record.turned))


def _by_nothing(_happened: str, _verb: str, _turned: bool) -> bool:
    return False


ENDED_BY: dict[str, Callable[[str, str, bool], bool]] = {
    "approval": lambda _, verb, turned: verb == "approve" or turned,
    "host": lambda _, verb, turned: verb in ("retry", "skip") or turned,
    "limit": lambda _, verb, turned: verb in ("retry", "skip", "override", "approve") or turned,
    "override": lambda happened, verb, _: (
        happened in ("host_answered", "fleet_seen") or verb == "override"
    ),
    "rollback": lambda _, __, turned: turned,
    "journal": lambda happened, _, __: happened == "journal_said",
    "policy": lambda happened, _, __: happened == "policy_merged",
    "window": lambda *_: True,  # see WindowsHold
    "freeze": lambda *_: True,  # see FreezesHold
    "reverted": lambda _, verb, turned: verb in ("retry", "skip") or turned,
    "plan": lambda happened, verb, turned: (
        happened == "plan_observed" or verb == "resume" or turned
    ),
    "reread": lambda happened, verb, turned: (
        happened == "hosts_read" or verb in ("retry", "skip") or turned
    ),
}
"""Which event, which command, and whether a turn round ends a hold of that kind."""


def _evidence_ended(kind: str, gate: str, verb: str, record: Record) -> bool:
    rule = next(rule for rule in record.course.gates if rule.name == gate)
    good = record.good_for(rule) >= rule.good_for - 1e-9
    if kind == "evidence":
        return good
    asked = verb == "resume" and record.verdicts[gate][0] == "pass"
    return asked or (good and (rule.recover_by == "evidence" or record.direction == "back"))


# ---------------------------------------------------------------- 2


class InconclusiveNeverAdvances(Rule):
    """No host is asked and no wave ends or begins unless every gate that binds passes."""

    name = "inconclusive_never_advances"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.was_good = False

    def observe(self, seen: Seen) -> None:
        record, state, before = seen.record, seen.state, seen.before
        for watched in state.watched:
            told = watched.judgement.verdict if watched.judgement else None
            known = record.verdicts[watched.gate][0]
            self.check(told == known, f"gate {watched.gate} is {known}, taken for {told}")
        if seen.asked or self._moved(seen):
            why = {gate: verdict for gate, (verdict, _) in record.verdicts.items()}
            self.check(record.binding_gates_pass(), "went on with", why)
        if before is not None and not self.was_good and state.step == before.step == "baking":
            self.check(
                state.baked <= before.baked + 1e-9, "a bake counted seconds without evidence"
            )
        held = any(record.holds_back(hold.name) for hold in state.holds)
        flying = record.open or seen.asked
        self.was_good = not held and not flying and record.binding_gates_pass()

    def _moved(self, seen: Seen) -> bool:
        state, before = seen.state, seen.before
        if before is None or seen.record.turned:
            return False
        settled = state.direction == before.direction and not _late_answer(seen)
        return (
            (state.wave != before.wave and settled)
            or (state.step == "changing" and before.step == "baking")
            or state.phase in ("completed", "rolled_back")
        )


def _late_answer(seen: Seen) -> bool:
    """Whether a host asked to go forward has answered after the turn: the wave follows it."""
    back = seen.record.direction == "back" and not seen.record.gone_back
    return back and seen.event.kind == "host_answered"


# ---------------------------------------------------------------- 3


class LimitsHold(Rule):
    """At every begin the limits hold, counted from who was asked and who answered."""

    name = "limits_hold"
    direction: Direction = "forward"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.last: float | None = None
        self.away_before: set[int] = set()

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        """Nor does a host begin under an override that has ended before its permit was given."""
        flight = record.open.get(begun.index)
        mine = flight is not None and flight[1] == self.direction
        if mine and begun.turn not in self.away_before:
            least = record.exceeding.least_down
            why = record.exceeding.exceeded(record.away(), begun.at - LATE, least)
            self.check(not why, f"host {begun.index} began: {why}")

    def observe(self, seen: Seen) -> None:
        for _ in seen.asked:
            if seen.record.direction == self.direction:
                self._paced(seen)
            self.last = seen.event.at
        if seen.asked and seen.record.direction == self.direction:
            self._within(seen)

    def _paced(self, seen: Seen) -> None:
        pace = seen.record.caps().pace * (SLOWED if seen.record.slowed else 1)
        pace = max(pace, seen.record.back_gap)
        quick = self.last is not None and seen.event.at - self.last < pace - 1e-9
        self.check(not quick, f"less than {pace:g} s between two begins")

    def _within(self, seen: Seen) -> None:
        record, caps = seen.record, seen.record.caps()
        gone = set(record.away())
        for act in seen.asked:
            self.allow(record, gone, act.index)
            if act.index in gone:
                self.away_before.add(act.turn)
            gone.add(act.index)
        if self.direction == "forward":
            self.check(record.failures() <= caps.failures, "went on after too many failures")
            share = record.share_of(caps)
            self.check(record.failures() <= share, f"went on after more than {share} failures")
            most = caps.failures_consecutive
            self.check(most is None or record.row <= most, "went on after a row of failures")
        else:
            self.check(not record.failures(), "went on back after a failure")

    def allow(self, record: Record, gone: set[int], index: int) -> None:
        """A host that is away already takes nothing more away."""
        why = "" if index in gone else no_room(self.course, record, gone, index)
        self.check(not why, f"host {index} was asked: {why}")


def no_room(
    course: Course, record: Record, gone: set[int], index: int, tight: Caps | None = None
) -> str:
    """Which limit forbids that one more host is away; empty: none does.

    tight: limits that hold as well (policies that became stricter; see PoliciesTighten).
    """
    caps, domains = tightest(record.caps(), tight), course.domains
    before = record.books.before
    down, most = sum(before), caps.unavailable
    if record.slowed and most > down:
        most = down + max(1, (most - down) // SLOWED)
    down += len(record.books.down - gone - record.aside)
    if len(gone) + down >= most:
        return f"{len(gone)} away and {down} down, {most} allowed"
    mine = domains[index]
    counts = Counter(domains[i] for i in gone)
    out = before[mine]
    out += sum(domains[i] == mine for i in record.books.down - gone - record.aside)
    if counts[mine] + out >= caps.unavailable_per_domain:
        return f"domain {mine} has {counts[mine]} away and {out} down"
    if mine not in counts and len(counts) >= caps.domains_at_once:
        return f"hosts of {len(counts)} domains are away"
    return ""


def tightest(one: Caps, other: Caps | None) -> Caps:
    """Of each limit on hosts away the smaller one."""
    if other is None:
        return one
    names = PoliciesTighten.SMALLER
    return replace(one, **{name: min(getattr(one, name), getattr(other, name)) for name in names})


class ChurnHolds(Rule):
    """No host that will leave the catalog is asked, and none leaves it, beyond what may leave."""

    name = "limits_hold"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.left: list[float] = []

    def observe(self, seen: Seen) -> None:
        books, turns = seen.record.books, {turn for turn, _ in seen.record.open.values()}
        known = books.good or not seen.asked
        self.check(known, "asked while nobody knows who left the catalog")
        asked = [act for act in seen.asked if self.leaves(act.index)]
        for limit in self.course.budget.churn:
            count = books.count(limit, turns) + len(asked)
            self.check(not asked or count <= limit.departures, f"{count} may leave, not {limit}")

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        if not self.leaves(begun.index):
            return
        self.left.append(begun.at)
        for limit in self.course.budget.churn:
            count = sum(at > begun.at - limit.per + BAKE_EXACT for at in self.left)
            self.check(count <= limit.departures, f"{count} have left, not {limit}")

    def leaves(self, index: int) -> bool:
        """Whether a restart takes this host's node out of the catalog."""
        return any(begin <= index < end for begin, end in self.course.budget.leaving)


class ColdHolds(Rule):
    """No host is asked beside as many cold ones, or cold slots of a ring, as there may be."""

    name = "limits_hold"

    def observe(self, seen: Seen) -> None:
        record, before, state = seen.record, seen.before, seen.state
        moved = before is not None and (before.wave, before.direction) != (
            state.wave, state.direction
        )  # fmt: skip
        ended = before is not None and before.step == "baking"
        if ended and (seen.asked or state.step == "changing" or moved):
            self._baked(record)
        if not self.course.bake_for and not record.open and (moved or self._had_to(seen)):
            self._baked(record)
        ring, known = record.books.ring, record.books.cold
        cold = known | {act.index for act in seen.asked}
        new = {act.index for act in seen.asked if ring.taking(act.index, known)}
        for limit in self.course.budget.cold:
            hosts = {i for begin, end in limit.hosts for i in range(begin, end)}
            count = ring.count(cold, hosts, record.books.warmth)
            self.check(
                not new & hosts or count <= limit.most + TINY, f"{count:g} cold, not {limit.most}"
            )

    def _had_to(self, seen: Seen) -> bool:
        """Whether a bake of no length must have come before the first that is asked."""
        books = seen.record.books
        return bool(seen.asked) and not books.has_budget(seen.asked[0].index, {}, set())

    def _baked(self, record: Record) -> None:
        """A bake is over: what serves is warm."""
        lost = record.lost() | record.open.keys()
        record.books.cold &= lost
        record.books.ring.baked(lost, record.books.warm)


# ---------------------------------------------------------------- 4


class OneChangePerHost(Rule):
    """A host is asked, and begins, once a direction, and once more for each retry by a person."""

    name = "one_change_per_host"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.last_turn = 0
        self.allowed: Counter[int] = Counter()
        self.times: Counter[tuple[int, Direction]] = Counter()
        self.turns: dict[int, tuple[int, Direction]] = {}
        self.began: set[int] = set()

    def observe(self, seen: Seen) -> None:
        self.allowed.update(seen.record.retried)
        again = seen.record.must_not_be_asked() if seen.asked else set()
        for act in seen.asked:
            self.check(act.index not in again, f"host {act.index} was asked again by itself")
            self.check(act.turn > self.last_turn, f"turn {act.turn} was given twice")
            self.last_turn = act.turn
            self.turns[act.turn] = (act.index, act.direction)

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        self.check(begun.turn not in self.began, f"turn {begun.turn} began twice")
        self.began.add(begun.turn)
        asked = self.turns.get(begun.turn)
        self.check(asked and asked[0] == begun.index, f"turn {begun.turn} was not given to it")
        place = (begun.index, asked[1] if asked else "forward")
        self.times[place] += 1
        most = 1 + self.allowed[begun.index]
        self.check(self.times[place] <= most, f"host {begun.index} began {self.times[place]} times")
        now = record.open.get(begun.index, (0, ""))[0]
        self.check(now == begun.turn, f"host {begun.index} began, and nobody waits for its answer")


# ---------------------------------------------------------------- 5


class AnswersMatchTurns(Rule):
    """An answer or a report with another turn than it was asked with changes nothing."""

    name = "answers_match_turns"
    KEPT = ("changed", "failed", "unknown", "blocked", "set_aside", "exceptional", "reverted")

    def observe(self, seen: Seen) -> None:
        event, before, state = seen.event, seen.before, seen.state
        if before is None:
            return
        if event.kind == "host_answered":
            flight = before.flight(event.index)
            if flight is None or flight.turn != event.turn:
                for name in self.KEPT:
                    same = getattr(before, name) == getattr(state, name)
                    self.check(same, f"a late answer of host {event.index} changed", name)
                lost = set(before.in_flight) - set(state.in_flight)
                self.check(not lost, "a late answer ended another flight:", lost)
        if event.kind == "host_warming":
            flight = before.flight(event.index)
            late = flight is None or flight.turn != event.turn
            self.check(not late or before.warmth == state.warmth, "late warmth was believed")
        if event.kind == "hosts_read" and event.turn != before.rereading:
            for name in self.KEPT:
                same = getattr(before, name) == getattr(state, name)
                self.check(same, "a late reading of hosts changed", name)
        if event.kind in ("gate_judged", "watcher_lost"):
            other = event.turn != before.watch_turn
            same = before.watched == state.watched and before.watch_turn == state.watch_turn
            self.check(same or not other, "an ended watch was believed")


# ---------------------------------------------------------------- 6


class ResumeBakesFirst(Rule):
    """After a hold, a wave or a turn round: nothing in flight, then a whole bake, then go on."""

    name = "resume_bakes_first"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.must_bake, self.asked_before = False, False
        self.baked, self.good_since = 0.0, -1.0
        self.changing_until = -1.0

    def observe(self, seen: Seen) -> None:
        record, state, now = seen.record, seen.state, seen.event.at
        if self.good_since >= 0:
            self.baked += now - self.good_since
        held = any(record.holds_back(hold.name) for hold in state.holds)
        moved = seen.before is not None and seen.before.wave != state.wave
        self.must_bake = self.must_bake or held or moved or bool(record.turned)
        quiet = not held and not record.open and record.binding_gates_pass()
        if held or record.turned:
            self.baked = 0.0
        if seen.asked:
            if self.must_bake:
                self._has_baked(record, quiet)
            self.must_bake, self.asked_before, self.baked = False, True, 0.0
        self.good_since = now if quiet and not seen.asked else -1.0
        if state.step == "changing" or (seen.before and seen.before.step == "changing"):
            self.changing_until = now if state.step == "baking" else float("inf")

    def _has_baked(self, record: Record, quiet: bool) -> None:
        self.check(quiet, "went on while hosts were in flight or gates did not pass")
        first = record.direction == "back" and not record.gone_back
        if self.asked_before and not first:
            need = self.course.bake_for
            self.check(self.baked >= need - BAKE_EXACT, f"baked {self.baked:g} of {need:g} s")

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        late = begun.at > self.changing_until + LATE
        self.check(
            not late and self.changing_until >= 0, f"host {begun.index} began before the bake"
        )


# ---------------------------------------------------------------- 7


class RollbackObeysLimits(LimitsHold):
    """Going back meets every limit and every safety gate, newest first, after the system has
    recovered; it takes back hosts that may have changed, and no others."""

    name = "rollback_obeys_limits"
    direction: Direction = "back"

    def observe(self, seen: Seen) -> None:
        super().observe(seen)
        record = seen.record
        if seen.asked and record.direction == "back":
            self.check(record.binding_gates_pass(), "went back though a safety gate does not pass")
            if not record.gone_back:
                self._recovered(record)
            self._newest_first(seen)
        if seen.state.phase == "rolled_back":
            self.check(record.scope == "all", "ended after one wave: it has to hold there")

    def _recovered(self, record: Record) -> None:
        for rule in self.course.gates:
            if record.binds(rule):
                good = record.good_for(rule)
                self.check(good >= rule.good_for - BAKE_EXACT, f"{rule.name}: good for {good:g} s")
        turned = record.turned_at if record.turned_at is not None else record.at
        rules = [rule for rule in self.course.gates if rule.gate_class == "safety"]
        need = max((rule.good_for for rule in rules), default=0.0)
        self.check(record.at - turned >= need - BAKE_EXACT, f"{record.at - turned:g} s to recover")

    def _newest_first(self, seen: Seen) -> None:
        record = seen.record
        waiting, gone = self._waiting(record), set(record.away())
        begin = record.waves[seen.before.wave if seen.before else 0].begin
        for act in seen.asked:
            self.check(act.index in waiting, f"host {act.index} is not one to take back now")
            for newer in sorted(waiting, reverse=True):
                # One that does not serve waits in every wave: only this wave's come before it.
                if newer <= act.index or (act.index in gone and newer < begin):
                    break
                room = not no_room(self.course, record, gone, newer, seen.state.course.caps)
                may = newer in gone or room
                may = may and record.books.has_budget(newer, record.open, gone - record.away())
                self.check(not may, f"host {act.index} before the newer host {newer}")
            waiting.discard(act.index)
            gone.add(act.index)

    def _waiting(self, record: Record) -> set[int]:
        """Hosts of the last wave that has any to take back, and those that do not serve."""
        wave = record.last_wave_of(record.to_take)
        wave = wave | (record.astray & record.to_take)
        rested = {i for i in wave if record.rest.get(i, 0.0) <= record.at}
        return rested - record.open.keys() - record.stuck.keys()


# ---------------------------------------------------------------- 8


class NoLoop(Rule):
    """At most one turn round, for a reason that counts, and never back again."""

    name = "no_loop"
    SETS = ("take_back",)

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.turns = 0

    def observe(self, seen: Seen) -> None:
        record, state, before = seen.record, seen.state, seen.before
        if before is not None and before.direction != state.direction:
            self.turns += 1
            self.check(state.direction == "back", "turned forward again")
            self.check(self.turns == 1, "turned round twice")
        same = state.direction == record.direction
        self.check(same, f"goes {state.direction}, and should go {record.direction}")
        for act in seen.asked:
            self.check(act.direction == record.direction, f"host {act.index} goes {act.direction}")
        ends = {"completed": "forward", "rolled_back": "back"}.get(state.phase, record.direction)
        self.check(ends == record.direction, f"{state.phase} while going {record.direction}")

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        flight = record.open.get(begun.index)
        turned = record.turned_at
        late = turned is not None and begun.at > turned + LATE
        wrong = late and flight is not None and flight[1] == "forward"
        self.check(not wrong, f"host {begun.index} began to go forward after the turn")


# ---------------------------------------------------------------- freezes


class FreezesHold(Rule):
    """No host begins later than 2.3 s after a freeze that binds it was set, and the hold stands
    from when it is told until it is over."""

    name = "freezes_hold"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.told: tuple[Freeze, ...] = ()

    def observe(self, seen: Seen) -> None:
        event, state = seen.event, seen.state
        if isinstance(event, FreezesSeen) and seen.before is not None:
            current = event.turn == seen.before.watch_turn
            self.told = event.freezes if current else self.told
        over = [one for one in self.told if one.until is not None and event.at >= one.until]
        forward = seen.record.direction == "forward"
        bind = [one for one in self.told if one not in over and (forward or one.binds_back)]
        standing = state.hold("freeze") is not None
        if bind and state.phase == "running":
            self.check(standing, "not held though frozen:", [one.name for one in bind])
        self.check(not (seen.asked and bind), "asked to begin while it is frozen")

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        if not self.course.freezes or begun.index not in record.open:
            return
        forward = record.open[begun.index][1] == "forward"
        ice = [one for one in record.places.ice if one.stands(begun.at, after=AGE + LATE)]
        names = [one.told.name for one in ice if forward or one.told.binds_back]
        self.check(not names, f"host {begun.index} began at {begun.at:g}, frozen by", names)


# ---------------------------------------------------------------- windows


class WindowsHold(Rule):
    """No host is asked or begins unless it can be changed and baked before it closes, the hold
    stands while hosts wait for that, and a stage that must cover a peak has seen a whole one."""

    name = "windows_hold"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.quiet_since: float | None = None

    def observe(self, seen: Seen) -> None:
        if self.course.calendar is None:
            return
        record, now = seen.record, seen.event.at
        closed = self.closed(now, record.direction)
        self.check(not (seen.asked and closed), "asked to begin though", closed)
        standing = seen.state.hold("window") is not None
        if closed and seen.state.phase == "running" and record.direction == "forward":
            self.check(standing or not record.waits(), "not held though", closed)
        if standing and seen.before is not None:
            nothing = record.direction == "back" and not self.course.calendar.binds_back
            self.check(not nothing, "holds going back, and is only to be told")
        self._peak(seen)
        held = any(record.holds_back(hold.name) for hold in seen.state.holds)
        if held or record.open or seen.asked:
            self.quiet_since = None
        elif self.quiet_since is None:
            self.quiet_since = now

    def closed(self, at: float, direction: Direction) -> str:
        """Why a host that begins then would not be done in time; empty: it would be."""
        calendar = self.course.calendar
        if calendar is None or (direction == "back" and not calendar.binds_back):
            return ""
        done = at + self.course.host_timeout + self.course.bake_for
        for one in calendar.closed:
            binds = direction == "forward" or calendar.rules[one.by].binds_back
            if binds and one.closes_at <= done and at < one.opens_at:
                return f"closed from {one.closes_at:g} to {one.opens_at:g} s"
        return "" if done < calendar.known_until else "nothing more is known"

    def _peak(self, seen: Seen) -> None:
        """The wave before was the last of its stage: the peak was seen, and nothing held in it."""
        before, state, waves = seen.before, seen.state, seen.record.waves
        if before is None or before.wave == state.wave or seen.record.direction == "back":
            return
        if waves[before.wave].stage == waves[state.wave].stage:
            return
        since = self.quiet_since if self.quiet_since is not None else seen.event.at
        calendar = self.course.calendar
        for by, rule in enumerate(calendar.rules if calendar else ()):
            ended = (
                one.opens_at <= seen.event.at
                for one in (calendar.closed if calendar else ())
                if one.by == by and one.closes_at + rule.settle >= since
            )
            self.check(any(ended) or not rule.peak, "went to the next stage without its peak")

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        _, direction = record.open.get(begun.index, (0, record.direction))
        late = self.closed(begun.at, direction) and self.closed(begun.at - LATE, direction)
        self.check(not late, f"host {begun.index} began though", late)


# ---------------------------------------------------------------- 9


class Progress(Rule):
    """With good evidence, answering hosts and people, it ends; and then no host is forgotten."""

    name = "progress"

    def end(self, state: State, record: Record) -> None:
        stuck = "; ".join(explain(state)) if not state.finished else ""
        self.check(state.finished, "it does not end:", stuck)
        if state.phase == "completed":
            known = record.done | record.aside | record.stuck.keys()
            left = set(range(self.course.hosts)) - known
            self.check(not left, "completed without hosts", left)
        if state.phase == "rolled_back":
            self._all_back(state, record)

    def _all_back(self, state: State, record: Record) -> None:
        left = record.touched - record.aside
        self.check(not left, "rolled back without hosts", left)
        kept = len(record.touched & record.aside)
        text = " ".join(state.finish_reasons)
        said = re.search(r"(\d+) hosts? (?:is|are) not", text)
        told = int(said[1]) if said else 0
        self.check(told == kept, f"{kept} hosts stay changed, and it says:", text)


# ---------------------------------------------------------------- 10


class Explained(Rule):
    """Each hold and each end has reasons, and the command that is advised would be taken."""

    name = "explained"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.last: tuple[Any, ...] = ()

    def observe(self, seen: Seen) -> None:
        state = seen.state
        now = (state.holds, state.phase, state.direction, state.exceptional)
        if now == self.last:
            return
        for hold in state.holds:
            reasons = bool(hold.reasons) and all(reason.strip() for reason in hold.reasons)
            self.check(reasons and hold.clears, "a hold without reasons or end:", hold.name)
            if hold.name.startswith("gate:"):
                readings = hold.judgement.readings if hold.judgement else ()
                self.check(readings, "no readings behind", hold.name)
        said, self.last = self.last, now
        if said and _but_for_reasons(said) == _but_for_reasons(now):
            return
        self._sentence(seen)
        self.check(explain(state), "nothing is explained")
        if not state.finished and any(seen.record.holds_back(h.name) for h in state.holds):
            self._advice_is_taken(state, seen.event.at)
        self.check(state.finish_reasons or not state.finished, "an end without reasons")

    def _sentence(self, seen: Seen) -> None:
        state, text = seen.state, sentence(seen.state)
        if state.finished or state.phase == "planned":
            return
        for hold in state.holds:
            named = hold.name in text or not seen.record.holds_back(hold.name)
            self.check(named, f"{hold.name} is not in the sentence:", text)

    def _advice_is_taken(self, state: State, now: float) -> None:
        """The command that is advised would not be refused, said by somebody it is meant for."""
        if advice(state)[-1] == "guardrail freeze status":
            return
        words = advice(state)[-1].removeprefix("guardrail rollout ").split()
        verb, name, rest = words[0], words[1], words[2:]
        self.check(name == state.name, "advice for another operation:", name)
        if verb == "explain":
            return
        options = dict(zip(rest[::2], rest[1::2], strict=True))
        hold = first_hold(state)
        said = Commanded(
            now,
            verb,  # type: ignore[arg-type]
            hold.by if hold else "",
            verified="--sign" in options,
            point=options.get("--point", ""),
            scope="wave" if options.get("--scope") == "wave" else "all",
        )
        people = [said.by] if said.by else ["eve", "fay", "gus"]
        taken = any(refusal(state, replace(said, by=who)) is None for who in people)
        self.check(taken, "the advice would be refused:", " ".join(words))


def _but_for_reasons(known: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the sentence and the advice are about."""
    holds, *others = known
    return (tuple((hold.name, hold.clears, hold.hosts) for hold in holds), *others)


# ---------------------------------------------------------------- 11


class StillTrue(Rule):
    """No stage begins after another, and nothing completes, before changed hosts were read again
    and found as they should be, with nothing held and no host begun since."""

    name = "still_true"
    LEAST = 5

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.asked: tuple[int, frozenset[int]] = (0, frozenset())
        self.unread: frozenset[int] = frozenset()
        self.true = False
        self.held_since: float | None = None
        self.outdated = False

    def observe(self, seen: Seen) -> None:
        if self.course.observe_after:
            self._plan(seen)
        if not self.course.reread:
            return
        if seen.event.kind == "hosts_read" and seen.event.turn == self.asked[0]:
            self._told(seen.event)
        if self._goes_on(seen) and seen.record.done - seen.record.aside:
            self.check(self.true, "went on without reading changed hosts again")
        for read in seen.moment.reads:
            self._asks(read, seen)
        held = any(seen.record.holds_back(hold.name) for hold in seen.state.holds)
        self.true = self.true and not held and not seen.asked

    def _plan(self, seen: Seen) -> None:
        """After a long hold no host is asked before the plan was compared with the world."""
        record, event, since = seen.record, seen.event, self.held_since
        long = since is not None and event.at - since >= self.course.observe_after
        self.outdated = self.outdated or long
        looked = event.kind == "plan_observed" and not (event.reasons or event.problem)
        said = event.kind == "commanded" and event.verb == "resume" and event.over == "plan"
        if looked or (said and not record.moved):
            self.outdated = False
        forward = record.direction == "forward"
        wrong = seen.asked and self.outdated and forward
        self.check(not wrong, "asked after a long hold, and nobody had looked at the plan again")
        begun = seen.state.phase != "planned"  # before that the plan has just been made
        held = begun and any(record.holds_back(hold.name) for hold in seen.state.holds)
        self.held_since = (event.at if since is None or said else since) if held else None

    def _told(self, event: HostsRead) -> None:
        silent = {found.index for found in event.wrong if not found.answered}
        whole = not (event.more or event.problem)
        self.unread = self.asked[1] & silent if whole else self.asked[1]
        self.true = whole and not event.wrong
        self.asked = (0, frozenset())

    def _asks(self, read: ReadAgain, seen: Seen) -> None:
        hosts = frozenset(members(read.hosts))
        there = seen.record.done - seen.record.aside
        once_more = seen.state.hold("reread") is not None and hosts >= self.unread & there
        share = -(-len(there) * self.course.reread // 100)
        enough = len(hosts) >= min(len(there), max(self.LEAST, share))
        self.check(hosts <= there, "hosts were to be read that are not changed", hosts - there)
        self.check(enough or once_more, f"{len(hosts)} of {len(there)} changed hosts are read")
        self.asked = (read.turn, hosts)

    def _goes_on(self, seen: Seen) -> bool:
        before, state = seen.before, seen.state
        if before is None or state.direction == "back":
            return False
        waves = seen.record.waves
        ends = waves[before.wave].stage != waves[state.wave].stage
        return state.phase == "completed" or (state.wave > before.wave and ends)


class PoliciesTighten(Rule):
    """No host is asked unless the policies were merged since the last hold and the last wave; what
    they say applies where it is stricter, from then on, and never where it is looser."""

    name = "policies_tighten"
    SMALLER = ("unavailable", "unavailable_per_domain", "domains_at_once")

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.told = False
        self.strictest = course.caps
        self.was_changing = False
        self.said: list[Merged] = []

    def observe(self, seen: Seen) -> None:
        if not self.course.merges:
            return
        event, state = seen.event, seen.state
        if event.kind == "policy_merged" and seen.before is not None:
            self._heard(event, seen.before, seen.record.direction)
        self._strict(state.course.caps)
        self._recut(seen)
        self._warmed(seen)
        self.check(not seen.asked or self.told, "asked to begin before the policies were merged")
        before = set(seen.record.away())
        more = {act.index for act in seen.asked} - before  # one that is away takes nothing away
        if more and not state.overrides:
            down = sum(seen.record.books.before)
            gone, most = len(before | more), self.strictest.unavailable - down
            self.check(gone <= max(1, most), f"{gone} hosts away, {most} allowed by now")
        held = any(seen.record.holds_back(hold.name) for hold in state.holds)
        ended = self.was_changing and state.step == "baking"
        self.told = self.told and not held and not ended
        self.was_changing = state.step == "changing"

    def _heard(self, event: PolicyMerged, before: State, direction: Direction) -> None:
        if event.turn != before.merge_turn or not before.merge_pending:
            return
        self.told = event.merged is not None or direction == "back"
        if event.merged is not None:
            self.said.append(event.merged)
            said, kept = event.merged.caps, self.strictest
            least = {name: min(getattr(said, name), getattr(kept, name)) for name in self.SMALLER}
            self.strictest = replace(kept, **least, pace=max(said.pace, kept.pace))

    def _strict(self, caps: Caps) -> None:
        for name in (*self.SMALLER, "pace"):
            now, least = getattr(caps, name), getattr(self.strictest, name)
            self.check(now == least, f"{name} is {now:g}, and the strictest word is {least:g}")

    def _recut(self, seen: Seen) -> None:
        """Waves get smaller only, keep every host in its place, and none that has begun is cut; at
        its first host each is as small as anybody has said."""
        waves, before = seen.state.course.waves, seen.before
        if before is not None and before.course.waves is not waves:
            old = before.course.waves
            ends = [wave.end for wave in waves]
            self.check([w.begin for w in waves] == [0, *ends[:-1]], "a host twice, or none")
            self.check(ends[-1] == old[-1].end, "the last waves are lost")
            self.check({w.end for w in old} <= set(ends), "a wave became larger")
            touched = [wave for wave in old if self._touched(wave, seen.record)]
            self.check(set(touched) <= set(waves), "a wave that has begun was cut")
        if not seen.asked or seen.state.direction == "back":
            return
        wave = waves[seen.state.wave]
        for said in () if self._touched(wave, seen.record) else self.said:
            self._small(said, set(range(wave.begin, wave.end)))

    def _touched(self, wave: Wave, record: Record) -> bool:
        known = record.touched | record.done | record.astray | record.open.keys()
        return not known.isdisjoint(range(wave.begin, wave.end))

    def _small(self, said: Merged, hosts: set[int]) -> None:
        small = said.wave is None or len(hosts) <= said.wave
        self.check(small, f"a wave of {len(hosts)} begins, {said.wave} are allowed")
        for tier in said.tiers:
            mine = hosts & set(members(int(tier.hosts, 16)))
            self.check(len(mine) <= tier.most, f"{len(mine)} of {tier.role}, not {tier.most}")

    def _warmed(self, seen: Seen) -> None:
        """Whatever anybody has said that hosts must show, those asked from then on must show."""
        if seen.before is None or seen.event.kind != "policy_merged":
            return
        rules, turn = seen.state.course.budget.warm, seen.before.turn + 1
        old = seen.before.course.budget.warm
        self.check(set(old) <= set(rules), "what hosts must show was dropped")
        late = [rule for rule in rules if rule not in old and rule.after != turn - 1]
        self.check(not late, "it binds hosts that were asked before, or not the next:", late)
        wanted = [rule for said in self.said for rule in said.warm]
        for index in range(self.course.hosts):
            shown = {r.gate: r for r in seen.state.course.budget.warm_rules(index, turn)}
            for rule in wanted:
                mine = replace(rule, after=0).binds(index, turn)
                strict = rule.gate in shown and shown[rule.gate].within <= rule.within
                self.check(not mine or strict, f"host {index} need not show {rule.gate}")


RULES: tuple[type[Rule], ...] = (
    PoliciesTighten,
    AnswersMatchTurns,
    NoLoop,
    NoStartUnderHold,
    InconclusiveNeverAdvances,
    ColdHolds,
    RollbackObeysLimits,
    LimitsHold,
    ChurnHolds,
    WindowsHold,
    FreezesHold,
    OneChangePerHost,
    ResumeBakesFirst,
    StillTrue,
    Explained,
    Progress,
)
"""All rules, in the order in which they look at a moment: the most particular one speaks first."""


@dataclass(slots=True)
class Referee:
    """The record of one operation, and the rules that watch it.

    only: the names of the rules that watch; None: all of them.
    """

    course: Course
    name_of: Callable[[int], str] = host_name
    only: Collection[str] | None = None
    record: Record = field(init=False)
    rules: tuple[Rule, ...] = field(init=False)
    before: State | None = None

    def __post_init__(self) -> None:
        self.record = Record(self.course, self.name_of)
        chosen = [rule for rule in RULES if self.only is None or rule.name in self.only]
        self.rules = tuple(rule(self.course) for rule in chosen)

    def observe(self, moment: Moment) -> None:
        """One moment more; raises Broken."""
        self.record.observe(moment)
        seen = Seen(self.before, moment, self.record)
        try:
            for rule in self.rules:
                rule.observe(seen)
        except Broken as broken:
            broken.at = moment.event.at
            raise
        self.record.asks(moment)
        self.before = moment.state

    def begun(self, begun: Begun) -> None:
        """A host has begun; raises Broken."""
        assert self.before is not None  # noqa: S101 - nothing begins before the first moment
        try:
            for rule in self.rules:
                rule.begun(begun, self.record, self.before)
        except Broken as broken:
            broken.at = begun.at
            raise

    def end(self) -> None:
        """Nothing more will happen; raises Broken."""
        assert self.before is not None  # noqa: S101
        try:
            for rule in self.rules:
                rule.end(self.before, self.record)
        except Broken as broken:
            broken.at = self.record.at
            raise
