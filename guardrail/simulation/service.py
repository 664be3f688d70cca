"""What does the catalog show while a story is told, and what must an operation make of it?

`Service` is the catalog of a made-up fleet: nodes leave it and come back, hosts fall, and it is
silent for a while. `Books` is what the record knows of it, counted anew from the events alone.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from guardrail.decide import bits
from guardrail.model.budget import Budget, ChurnLimit, ColdLimit, Departure, Fallen, WarmRule
from guardrail.model.common import Origin
from guardrail.model.operation import FleetSeen, HostAnswered, HostWarming
from guardrail.model.plan import Course
from guardrail.simulation import ringing
from guardrail.simulation.ringing import Ring, RingBooks, sized
from guardrail.twins import host_name

ORIGIN = Origin("a made-up policy", "", 0)
AWAY = 5.0
"""Seconds for which a node is out of the catalog when its agent restarts."""
TIMES = 6
"""How often a host leaves by itself at a version that churns."""
TOLD_AGAIN = 3.0
SETTLES = 2.0
HOUR, LATELY = 3600.0, 1800.0
NEAR = 0.01
TINY = 1e-9
NOT_RESTARTED = ("not_begun", "blocked", "credentials", "gone")
CATALOG, CHURN, DOWN = "evidence:catalog", "limit:churn", "limit:down"


# ---------------------------------------------------------------- from a seed


def followed(dice: Random, course: Course) -> Course:
    """Some courses with a catalog, and limits on what may leave it; some with a limit on cold."""
    cold, warm = _cold(Random(dice.random()), course.hosts)
    course = replace(course, budget=Budget(cold=cold, warm=warm))
    if dice.random() < 0.5:
        return course
    hosts = course.hosts
    limits = [
        ChurnLimit(dice.choice((1, 2, 3)), dice.choice((10.0, 20.0, 60.0, 200.0)), ORIGIN)
        for _ in range(dice.choice((0, 1, 1, 2)))
    ]
    leaving = dice.choice((((0, hosts),), ((0, hosts),), ((0, hosts // 2),), ()))
    critical = dice.choice(((), (), ((0, hosts),), ((hosts // 2, hosts),)))
    budget = Budget(
        follow=True,
        grace=10.0,
        good_for=20.0,
        churn=tuple(limits),
        leaving=tuple((begin, end) for begin, end in leaving if begin < end),
        critical=tuple((begin, end) for begin, end in critical if begin < end),
        falls=dice.choice((0, 2, 3)),
        cold=cold,
        warm=warm,
    )
    ring = sized(Random(dice.random()), hosts) if cold else None
    return replace(course, budget=replace(budget, ring=ring))


def _cold(dice: Random, hosts: int) -> tuple[tuple[ColdLimit, ...], tuple[WarmRule, ...]]:
    spans = (((0, hosts),), ((0, (hosts + 1) // 2),))
    cold = tuple(
        ColdLimit(dice.choice((1, 2, 3)), dice.choice(spans), ORIGIN)
        for _ in range(dice.choice((0, 0, 1, 2)))
    )
    if dice.random() < 0.5:
        return cold, ()
    return cold, (WarmRule("warm", 60.0, dice.choice(spans), ORIGIN),)


def churning(dice: Random, course: Course) -> tuple[Course, float]:
    """Some larger fleets get a version whose hosts leave by themselves, each after so many seconds
    (0: they stay), and a budget that lasts until that is seen."""
    if not course.budget.follow or course.hosts < 9 or dice.random() < 0.4:
        return course, 0.0
    budget = replace(course.budget, churn=(ChurnLimit(dice.choice((5, 7)), 200.0, ORIGIN),))
    return replace(course, budget=budget), dice.choice((8.0, 20.0))


def happenings(dice: Random, course: Course, horizon: float) -> Iterable[tuple[str, float, float]]:
    """What happens to the catalog by itself: kind, when, for how long."""
    if not course.budget.follow:
        return
    if any(course.down) and dice.random() < 0.7:
        yield "a host is back", round(dice.random() * horizon / 2, 1), dice.choice((5.0, 500.0))
    for _ in range(dice.choice((0, 0, 1, 2, 5))):
        kind = dice.choice((*("a node leaves",) * 3, "a host falls", "the catalog is silent"))
        length = AWAY if kind == "a node leaves" else dice.choice((3.0, 15.0, 60.0))
        yield kind, round(dice.random() * horizon, 1), length


# ---------------------------------------------------------------- the catalog


@dataclass(slots=True)
class Service:
    """The catalog, as one operation's watch sees it. `down` are plan indexes."""

    out: dict[int, float] = field(default_factory=dict)
    restless: set[int] = field(default_factory=set)
    times: Counter[int] = field(default_factory=Counter)
    fallen: dict[int, float] = field(default_factory=dict)
    silent_until: float = -1.0
    untold: list[Departure] = field(default_factory=list)
    known: int = 0
    index: int = 1
    ring: Ring | None = None
    back: dict[int, int] = field(default_factory=dict)
    """Of each domain, how many of those that were down serve again."""

    def down(self, now: float) -> int:
        """The set of the plan's hosts that do not serve now."""
        late = {i for part in (self.out, self.fallen) for i, until in part.items() if until > now}
        return sum(1 << index for index in late)

    def still(self, course: Course) -> tuple[int, ...] | None:
        """Of each domain, how many are down since before the operation."""
        if not any(course.down):
            return None
        return tuple(count - self.back.get(d, 0) for d, count in enumerate(course.down))


def watch(world: Any, running: Any, watching: Any) -> None:
    """A watch begins: it tells of the catalog when it tells of the gates."""
    if running.state.course.budget.follow:
        running.service.known = running.state.down_now
        ringing.watched(world, running, lambda: _tell_now(world, running))
        world.at(world.now + running.planned.first_report, partial(tell, world, running, watching))


def tell(world: Any, running: Any, watching: Any, *, again: bool = True) -> None:
    """The present state, if this watch lives; hosts that are down are told once more."""
    course, service = running.state.course, running.service
    if not course.budget.follow or not watching.alive or watching is not running.watching:
        return
    turn = watching.turn
    if world.now < service.silent_until:
        world._tell(running, lambda at: FleetSeen(at, turn, "it is silent"))
        return
    service.index += 1
    down, left, index = service.down(world.now), tuple(service.untold), service.index
    new = bits.members(down & ~service.known)
    fallen = tuple([Fallen(world.now, i, host_name(i), "not in the catalog") for i in new])
    service.untold, service.known = [], down
    still, ring = service.still(course), service.ring.report() if service.ring else None
    world._tell(
        running,
        lambda at: FleetSeen(at, turn, "", index, left, f"{down:x}", fallen, still, ring),
    )
    if down and again:
        world.at(world.now + TOLD_AGAIN, partial(tell, world, running, watching, again=False))


def restarts(world: Any, running: Any, index: int) -> None:
    """A host's agent restarts: its node leaves and comes back, or stays registered."""
    spans = running.state.course.budget.leaving
    if any(begin <= index < end for begin, end in spans):
        leaves(world, running, index, AWAY)


def keeps_leaving(world: Any, running: Any, index: int) -> None:
    """A host at a version that churns leaves again and again, as long as it is there."""
    every = running.planned.churns
    again = running.service.times[index] < TIMES and index not in running.service.restless
    if every and again:
        running.service.restless.add(index)
        world.at(
            world.now + every * (1 + index / 16), partial(_leaves_again, world, running, index)
        )


def _leaves_again(world: Any, running: Any, index: int) -> None:
    running.service.restless.discard(index)
    there = running.versions.get(index) == "new"
    if not there or running.state.finished or world.now > world.story.calm:
        return
    running.service.times[index] += 1
    leaves(world, running, index, AWAY)
    keeps_leaving(world, running, index)


def warms(world: Any, running: Any, index: int, turn: int, takes: float) -> None:
    """A host that must show to be warm is so by and by, and now and then less than before."""
    if not running.state.course.budget.warm_rules(index, turn):
        return
    dice = Random(f"{world.story.seed}/{turn}/{index}/warmth")
    for part in sorted(dice.random() for _ in range(dice.choice((0, 1, 3)))):
        percent, other = dice.choice((0, 30, 50, 90)), turn - dice.choice((0, 0, 1))
        said = partial(_warming, index, other, percent)
        world.at(world.now + part * takes, partial(world._tell, running, said))


def _warming(index: int, turn: int, percent: int, at: float) -> HostWarming:
    return HostWarming(at, index, turn, percent)


def leaves(world: Any, running: Any, index: int, length: float) -> None:
    """A node leaves the catalog for a while."""
    service = running.service
    service.untold.append(Departure(world.now, host_name(index), index))
    service.out[index] = max(world.now + length, service.out.get(index, 0.0))
    ringing.left(world, running, index, service.out[index], lambda: _tell_now(world, running))
    _now_and_later(world, running, length)


def _tell_now(world: Any, running: Any) -> None:
    tell(world, running, running.watching, again=False)


def comes_back(world: Any, running: Any, length: float) -> None:
    """A host that was down before the operation serves again, for a while."""
    service, down = running.service, running.state.course.down
    domain = next(d for d, count in enumerate(down) if count)

    def serve(more: int) -> None:
        service.back[domain] = more
        _tell_now(world, running)

    serve(1)
    world.at(world.now + length, lambda: serve(0))


def falls(world: Any, running: Any, index: int, length: float) -> None:
    """A host has a critical check for a while."""
    running.service.fallen[index] = world.now + length
    _now_and_later(world, running, length)


def is_silent(world: Any, running: Any, length: float) -> None:
    """The catalog does not answer for a while."""
    running.service.silent_until = world.now + length
    _now_and_later(world, running, length)


def _now_and_later(world: Any, running: Any, length: float) -> None:
    tell(world, running, running.watching)
    world.at(world.now + length, lambda: tell(world, running, running.watching))


def trouble(world: Any, running: Any, part: Any) -> None:
    """One of the happenings; `part.host` counts from the fleet's first host."""
    index = (part.host - running.planned.first_host) % running.state.course.hosts
    if part.kind == "the catalog is silent":
        is_silent(world, running, part.length)
    elif part.kind == "a host is back":
        comes_back(world, running, part.length)
    elif part.kind == "a host falls":
        falls(world, running, index, part.length)
    else:
        leaves(world, running, index, part.length)


# ---------------------------------------------------------------- the books


@dataclass(slots=True)
class Left:
    """A departure: expected of a turn, or seen."""

    at: float
    index: int
    turn: int
    seen: bool
    host: str = ""

    @property
    def by_itself(self) -> bool:
        """Whether it is a host of the plan that nobody of ours asked."""
        return self.seen and not self.turn and self.index >= 0


@dataclass(slots=True)
class Books:
    """What is known of the catalog, from the events of one operation."""

    course: Course
    warm: tuple[WarmRule, ...] = ()  # with those that came later, see PoliciesTighten
    at: float = 0.0
    told: bool = False
    silent_since: float | None = None
    good_since: float | None = None
    left: list[Left] = field(default_factory=list)
    down: set[int] = field(default_factory=set)
    without: set[int] = field(default_factory=set)
    fell: list[tuple[float, int]] = field(default_factory=list)
    answered_at: dict[int, float] = field(default_factory=dict)
    cold: set[int] = field(default_factory=set)
    excused: set[int] = field(default_factory=set)  # at a version that churns, which is being left
    warmth: dict[int, int] = field(default_factory=dict)
    still: tuple[int, ...] | None = None
    ring: RingBooks = field(init=False)

    def __post_init__(self) -> None:
        self.ring = RingBooks(self.course)

    @property
    def good(self) -> bool:
        """Whether the catalog answers, or nobody asks it."""
        answers = self.told and self.silent_since is None and self.ring.good
        return not self.course.budget.follow or answers

    @property
    def before(self) -> tuple[int, ...]:
        """Of each domain, how many are down since before the operation."""
        return self.course.down if self.still is None else self.still

    # ------------------------------------------------------------ what happens

    def anew(self, at: float) -> None:
        """A new watch."""
        if self.course.budget.follow:
            self.told, self.good_since, self.still = False, None, None
            self.ring.told = False
            self.silent_since = at if self.silent_since is None else self.silent_since

    def sees(self, event: FleetSeen, watch_turn: int, ours: set[int]) -> None:
        """A report. ours: hosts away because of us, or given up."""
        for one in event.left:
            self._leaves(one)
        if event.turn != watch_turn:
            return
        if event.problem:
            self.silent_since = event.at if self.silent_since is None else self.silent_since
            self.good_since = self.still = None
            return
        self.still = event.still
        self.ring.sees(event)
        self.told, self.silent_since = True, None
        self.good_since = event.at if self.good_since is None else self.good_since
        shown = set(bits.members(int(event.down, 16)))
        fresh = {i for i, at in self.answered_at.items() if event.at <= at + SETTLES}
        self.down = shown - fresh
        self.without &= self.down
        new = self.down - ours
        self.fell += [(one.at, one.index) for one in event.fallen if one.index in new]

    def _leaves(self, one: Departure) -> None:
        if any(known.seen and (known.host, known.at) == (one.host, one.at) for known in self.left):
            return  # told twice
        for known in reversed(self.left):
            if not known.seen and known.index == one.index:
                known.at, known.seen, known.host = one.at, True, one.host
                return
        self.left.append(Left(one.at, one.index, 0, seen=True, host=one.host))

    def asks(self, index: int, turn: int, at: float) -> None:
        """A host is asked: it may leave from now on, and is cold."""
        self.cold.add(index)
        self.warmth.pop(index, None)
        if any(begin <= index < end for begin, end in self.course.budget.leaving):
            self.left.append(Left(at, index, turn, seen=False))

    def answers(self, event: HostAnswered, lost: set[int]) -> None:
        """A host that was not restarted has not left, and is as cold as it was."""
        self.warmth.pop(event.index, None)
        shows = any(rule.binds(event.index, event.turn) for rule in self.warm)
        warm = event.outcome == "changed" and shows
        if warm or (event.outcome in NOT_RESTARTED and event.index not in lost):
            self.cold.discard(event.index)
        if event.outcome == "changed":
            self.answered_at[event.index] = event.at
            self.down.discard(event.index)
        for one in [one for one in self.left if not one.seen and one.turn == event.turn]:
            one.at = event.at
            if event.outcome in NOT_RESTARTED:
                self.left.remove(one)

    def warming(self, event: HostWarming) -> None:
        """A host that is back and in flight says how warm it is."""
        self.warmth[event.index] = event.percent

    def resumed(self, ours: set[int]) -> None:
        """A person goes on without those that are down, if they hold it."""
        if self.alarming(ours):
            self.without |= self.down - ours
            self.fell = []

    # ------------------------------------------------------------ what follows

    def count(self, limit: ChurnLimit, open_turns: set[int], *, seen: bool = False) -> int:
        """How many departures count against a limit now."""
        since = self.at - limit.per + NEAR
        recent = [one for one in self.left if one.at > since or one.turn in open_turns]
        return sum(
            one.at > since or not one.seen
            for one in recent
            if (one.seen or not seen) and not (one.by_itself and one.index in self.excused)
        )

    def by_itself(self, since: float) -> list[Left]:
        """The plan's hosts that left unasked after that, with those of five minutes before the
        newest one."""
        mine = [one for one in self.left if one.by_itself]
        newest = max((one.at for one in mine), default=0.0)
        return [one for one in mine if one.at > max(since, newest - 300.0)]

    def forgets(self, index: int) -> None:
        """A host has left the version behind that made it leave."""
        self.left = [one for one in self.left if not (one.by_itself and one.index == index)]

    def has_budget(self, index: int, open_: dict[int, Any], asked: set[int]) -> bool:
        """Whether a host may leave the catalog and be cold now. asked: others, in this moment."""
        budget, turns = self.course.budget, {turn for turn, _ in open_.values()}
        leaving = {i for begin, end in budget.leaving for i in range(begin, end)}
        if index in leaving:
            more = len(asked & leaving)
            if any(self.count(one, turns) + more >= one.departures for one in budget.churn):
                return False
        cold = self.cold | asked
        spans = [(one.most, {i for b, e in one.hosts for i in range(b, e)}) for one in budget.cold]
        ring = self.ring
        full = any(
            index in hosts and ring.count(cold, hosts, self.warmth) + 1 > most + TINY
            for most, hosts in spans
        )
        return not ring.taking(index, cold) or not full

    def alarming(self, ours: set[int]) -> bool:
        """Whether hosts that are down must hold."""
        own, falls = self.excused, self.course.budget.falls
        recent = [at for at, i in self.fell if at > self.at - HOUR + NEAR and i not in own]
        if falls and len(recent) >= falls:
            return True
        down = self.down - ours - self.without - own
        return bool(down) and not down.isdisjoint(self._hot())

    def _hot(self) -> set[int]:
        """Hosts that hold at once when they are down."""
        hot = {i for begin, end in self.course.budget.critical for i in range(begin, end)}
        # Changed between half an hour and an hour ago it may hold, too.
        return hot | {i for i, at in self.answered_at.items() if self.at < at + LATELY}

    def must_hold(self, ours: set[int]) -> set[str]:
        """The holds that must stand."""
        names = set()
        budget = self.course.budget
        if any(self.count(one, set(), seen=True) >= one.departures for one in budget.churn):
            names.add(CHURN)
        if budget.follow and self.alarming(ours):
            names.add(DOWN)
        return names

    def may_end(self, name: str, ours: set[int]) -> bool:
        """Whether a hold of the catalog may end now."""
        if name == CATALOG:
            good = self.good_since
            return good is not None and self.at - good >= self.course.budget.good_for - NEAR
        return name not in self.must_hold(ours)
