"""No host begins in a freeze, or where windows are closed."""

from guardrail.model.freeze import Freeze
from guardrail.model.operation import (
    Direction,
    FreezesSeen,
    State,
)
from guardrail.model.plan import Course
from guardrail.simulation.freezing import AGE
from guardrail.simulation.record import Record
from guardrail.simulation.rule import LATE, Rule, Seen
from guardrail.twins import Begun


class FreezesHold(Rule):
    """No host begins later than 2.3 s after a freeze that binds it was set, and the hold stands
    from when it is told until it is over."""

    name = "freezes_hold"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.told: tuple[Freeze, ...] = ()

    @classmethod
    def concerns(cls, course: Course) -> bool:
        return course.freezes

    def observe(self, seen: Seen) -> None:
        event, state = seen.event, seen.state
        if isinstance(event, FreezesSeen) and seen.before is not None:
            current = event.turn == seen.before.watch_turn
            self.told = event.freezes if current else self.told
        if not self.told:
            return
        over = [one for one in self.told if one.until is not None and event.at >= one.until]
        forward = seen.record.direction == "forward"
        bind = [one for one in self.told if one not in over and (forward or one.binds_back)]
        standing = state.hold("freeze") is not None
        if bind and state.phase == "running":
            self.check(standing, "not held though frozen:", [one.name for one in bind])
        self.check(not (seen.asked and bind), "asked to begin while it is frozen")

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        if begun.index not in record.open:
            return
        forward = record.open[begun.index][1] == "forward"
        ice = [one for one in record.places.ice if one.stands(begun.at, after=AGE + LATE)]
        names = [one.told.name for one in ice if forward or one.told.binds_back]
        self.check(not names, f"host {begun.index} began at {begun.at:g}, frozen by", names)


class WindowsHold(Rule):
    """No host is asked or begins unless it can be changed and baked before it closes, the hold
    stands while hosts wait for that, and a stage that must cover a peak has seen a whole one."""

    name = "windows_hold"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.quiet_since: float | None = None

    @classmethod
    def concerns(cls, course: Course) -> bool:
        return course.calendar is not None

    def observe(self, seen: Seen) -> None:
        record, now = seen.record, seen.event.at
        closed = self.closed(now, record.direction)
        self.check(not (seen.asked and closed), "asked to begin though", closed)
        standing = seen.state.hold("window") is not None
        if closed and seen.state.phase == "running" and record.direction == "forward":
            self.check(standing or not record.waits(), "not held though", closed)
        if standing and seen.before is not None:
            calendar = self.course.calendar
            nothing = record.direction == "back" and not (calendar and calendar.binds_back)
            self.check(not nothing, "holds going back, and is only to be told")
        self._peak(seen)
        if seen.holding or record.open or seen.asked:
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
            if one.closes_at > done:
                break  # they are in order of begin
            binds = direction == "forward" or calendar.rules[one.by].binds_back
            if binds and at < one.opens_at:
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
