"""No more hosts are away, leave the catalog or are cold than may, in either direction."""

from collections import Counter

from guardrail.model.operation import (
    Direction,
    State,
)
from guardrail.model.plan import Caps, Course
from guardrail.simulation.record import Record
from guardrail.simulation.rule import BAKE_EXACT, LATE, SLOWED, Rule, Seen, late_answer
from guardrail.simulation.rules_policies import tightest
from guardrail.simulation.service import TINY
from guardrail.twins import Begun


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

    def asks(self, seen: Seen) -> None:
        for _ in seen.asked:
            if seen.record.direction == self.direction:
                self._paced(seen)
            self.last = seen.event.at
        if seen.record.direction == self.direction:
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
    if len(counts.keys() - {mine}) >= caps.domains_at_once:
        return f"hosts of {len(counts)} domains are away"
    return ""


class ChurnHolds(Rule):
    """No host that will leave the catalog is asked, and none leaves it, beyond what may leave."""

    name = "limits_hold"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.left: list[float] = []

    def asks(self, seen: Seen) -> None:
        books, turns = seen.record.books, {turn for turn, _ in seen.record.open.values()}
        self.check(books.good, "asked while nobody knows who left the catalog")
        asked = [act for act in seen.asked if self.leaves(act.index)]
        for limit in self.course.budget.churn if asked else ():
            count = books.count(limit, turns) + len(asked)
            self.check(count <= limit.departures, f"{count} may leave, not {limit}")

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


def _turns(seen: Seen) -> bool:
    """Whether another wave is only where the turn round has led: no bake has ended."""
    turned = seen.before is not None and seen.before.direction != seen.state.direction
    return turned or late_answer(seen)


class ColdHolds(Rule):
    """No host is asked beside as many cold ones, or cold slots of a ring, as there may be."""

    name = "limits_hold"

    def observe(self, seen: Seen) -> None:
        record, before, state = seen.record, seen.before, seen.state
        moved = before is not None and before.wave != state.wave and not _turns(seen)
        ended = before is not None and before.step == "baking"
        if ended and (seen.asked or state.step == "changing" or moved):
            self._baked(record)
        if not self.course.bake_for and not record.open and (moved or self._had_to(seen)):
            self._baked(record)

    def asks(self, seen: Seen) -> None:
        record = seen.record
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


class RollbackObeysLimits(LimitsHold):
    """Going back meets every limit and every safety gate, newest first, after the system has
    recovered; it takes back hosts that may have changed, and no others."""

    name = "rollback_obeys_limits"
    direction: Direction = "back"

    def observe(self, seen: Seen) -> None:
        if seen.state.phase == "rolled_back":
            self.check(seen.record.scope == "all", "ended after one wave: it has to hold there")

    def asks(self, seen: Seen) -> None:
        super().asks(seen)
        if seen.record.direction == "back":
            self.check(seen.passing, "went back though a safety gate does not pass")
            if not seen.record.gone_back:
                self._recovered(seen.record)
            self._newest_first(seen)

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
