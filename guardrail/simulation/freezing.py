"""When is something frozen while a story is told, and who knows of it when?

A freeze is set at one time; the watch tells of it seconds later if it lives, and a worker's
last look knows of it after one. It ends by its own time, or somebody lifts it and the watch tells.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Literal

from guardrail.model.freeze import Freeze
from guardrail.model.operation import Direction, FreezesSeen
from guardrail.model.plan import Course

EVERY = 5.0
"""Seconds until the watch has looked again: it is slow here, so that a worker's own look counts."""
AGE = 1.0
"""How old a worker's last look may be."""

IceKind = Literal["it is frozen", "it is frozen going forward"]


def may_be_frozen(dice: Random, course: Course) -> Course:
    """Some courses know of freezes."""
    return replace(course, freezes=dice.random() < 0.5)


def happenings(dice: Random, course: Course, horizon: float) -> Iterable[tuple[str, float, float]]:
    """When it is frozen, and for how long: kind, when, length."""
    if not course.freezes:
        return
    for _ in range(dice.choice((0, 0, 1, 1, 3))):
        kind = dice.choice(("it is frozen", "it is frozen", "it is frozen going forward"))
        yield kind, round(dice.random() * horizon, 1), dice.choice((3.0, 15.0, 60.0))


@dataclass(frozen=True, slots=True)
class Ice:
    """A freeze as it really was; `told`: as it is told, which may not say its end."""

    since: float
    until: float
    told: Freeze

    def stands(self, now: float, after: float = 0.0) -> bool:
        """Whether it stands, and has for so long."""
        return self.since + after <= now < self.until


@dataclass(slots=True)
class Places:
    """All that was ever frozen for one operation."""

    ice: list[Ice] = field(default_factory=list)

    def standing(self, now: float) -> tuple[Freeze, ...]:
        """What the watch reads now."""
        return tuple(one.told for one in self.ice if one.stands(now))


def freeze(world: Any, running: Any, part: Any) -> None:
    """Somebody sets a freeze."""
    places, until = running.places, world.now + part.length
    both = part.kind == "it is frozen"
    says_so = int(part.at * 10) % 2 == 0
    name = f"ice-{len(places.ice) + 1}"
    told = Freeze(name, "made up", "cid", world.now, until if says_so else None, binds_back=both)
    places.ice.append(Ice(world.now, until, told))
    for at in (world.now, until):
        world.at(at + EVERY, lambda: tell(world, running, running.watching))


def watch(world: Any, running: Any, watching: Any) -> None:
    """A watch begins: it tells of freezes when it tells of the gates."""
    if running.state.course.freezes:
        world.at(world.now + running.planned.first_report, partial(tell, world, running, watching))


def tell(world: Any, running: Any, watching: Any) -> None:
    """What stands now, if this watch lives."""
    if not running.state.course.freezes or not watching.alive or watching is not running.watching:
        return
    turn, standing = watching.turn, running.places.standing(world.now)
    world._tell(running, lambda at: FreezesSeen(at, turn, standing))


def refuses(places: Places, now: float, direction: Direction) -> tuple[Freeze, ...]:
    """What a worker's last look finds; it may not know yet what was set within a second."""
    found = [one.told for one in places.ice if one.stands(now, after=AGE)]
    return tuple(one for one in found if direction == "forward" or one.binds_back)
