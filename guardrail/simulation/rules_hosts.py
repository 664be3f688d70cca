"""Each host is changed once, by the answer to what was asked, stays so, and none is forgotten."""

import re
from collections import Counter
from typing import ClassVar

from guardrail.decide.bits import members
from guardrail.decide.explain import explain
from guardrail.model.operation import (
    Direction,
    HostsRead,
    ReadAgain,
    State,
)
from guardrail.model.plan import Course
from guardrail.simulation.record import Record
from guardrail.simulation.rule import BAKE_EXACT, LATE, Rule, Seen
from guardrail.twins import Begun


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
        if seen.record.retried:
            self.allowed.update(seen.record.retried)

    def asks(self, seen: Seen) -> None:
        again = seen.record.must_not_be_asked()
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


class NoLoop(Rule):
    """At most one turn round, for a reason that counts, and never back again."""

    name = "no_loop"
    ENDS: ClassVar[dict[str, Direction]] = {"completed": "forward", "rolled_back": "back"}

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.turns = 0

    def observe(self, seen: Seen) -> None:
        record, state, before = seen.record, seen.state, seen.before
        if before is not None and before.direction != state.direction:
            self.turns += 1
            self.check(state.direction == "back", "turned forward again")
            self.check(self.turns == 1, "turned round twice")
        if state.direction != record.direction:
            self.broken(f"goes {state.direction}, and should go {record.direction}")
        for act in seen.asked:
            self.check(act.direction == record.direction, f"host {act.index} goes {act.direction}")
        if self.ENDS.get(state.phase, record.direction) != record.direction:
            self.broken(f"{state.phase} while going {record.direction}")

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        flight = record.open.get(begun.index)
        turned = record.turned_at
        late = turned is not None and begun.at > turned + LATE
        wrong = late and flight is not None and flight[1] == "forward"
        self.check(not wrong, f"host {begun.index} began to go forward after the turn")


class Progress(Rule):
    """With good evidence, answering hosts and people, it ends; and then no host is forgotten.
    Nobody has to ask for what evidence ends: hosts that were silent are read once more in time."""

    name = "progress"
    AGAIN = 30.0 + BAKE_EXACT
    """Seconds."""

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.reading = 0
        self.read_at = 0.0

    def observe(self, seen: Seen) -> None:
        event = seen.event
        heard = event.kind == "hosts_read" and event.turn == self.reading
        if heard or event.kind == "watch_again":
            self.reading, self.read_at = 0, event.at
        for read in seen.moment.reads:
            self.reading = read.turn
        waits = not self.reading and event.at - self.read_at > self.AGAIN
        if waits and seen.state.hold("reread") is not None and seen.record.direction == "forward":
            self.broken("silent hosts were not read once more", f"since {self.read_at:g} s")

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
        self.true = self.true and not seen.holding and not seen.asked

    def _plan(self, seen: Seen) -> None:
        """After a long hold no host is asked before the plan was compared with the world."""
        record, event, since = seen.record, seen.event, self.held_since
        long = since is not None and event.at - since >= self.course.observe_after
        self.outdated = self.outdated or long
        looked = event.kind == "plan_observed" and not (event.reasons or event.problem)
        said = event.kind == "commanded" and event.verb == "resume" and event.over == "plan"
        if looked or (said and not record.moved):
            self.outdated = False
        if seen.asked and self.outdated and record.direction == "forward":
            self.broken("asked after a long hold, and nobody had looked at the plan again")
        begun = seen.state.phase != "planned"  # before that the plan has just been made
        held = begun and bool(seen.holding)
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
