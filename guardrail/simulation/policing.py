"""What do the worker's policies say while an operation runs? Made up: now and then something else.

Stricter and looser limits come, waves smaller in all and of a tier, warm-ups, and times in which
the policies cannot be read. From the calm on they can be, and say what they said last.
"""

from dataclasses import dataclass, replace
from random import Random

from guardrail.model.budget import WarmRule
from guardrail.model.common import Origin
from guardrail.model.plan import Caps, Course, Merged, TierWave

SHARE = 0.35
"""The share of operations whose policies are merged again."""
ORIGIN = Origin("a made-up policy", "", 0)


@dataclass(frozen=True, slots=True)
class Words:
    """What policies say. wave: most hosts of one; tiers: of each tier."""

    caps: Caps
    wave: int | None = None
    tiers: tuple[TierWave, ...] = ()
    warm: tuple[WarmRule, ...] = ()


Edits = tuple[tuple[float, Words | None], ...]
"""From a time on: what policies say; None: they cannot be read."""


def edited(dice: Random, course: Course, calm: float) -> tuple[Course, Edits]:
    """The course, and how its policies change. Dice of their own: all else stays as it is."""
    if dice.random() >= SHARE:
        return course, ()
    times = sorted(dice.uniform(0.0, calm - 50.0) for _ in range(dice.choice((0, 1, 2, 3))))
    planned = Words(course.caps, warm=course.budget.warm)
    found: list[tuple[float, Words | None]] = [(0.0, planned)]
    found += [(round(at, 1), None if dice.random() < 0.3 else _other(dice, course)) for at in times]
    last = next(said for _, said in reversed(found) if said is not None)
    return replace(course, merges=True), (*found, (calm, last))


def _other(dice: Random, course: Course) -> Words:
    """Other limits, that still leave room for one host beside those that are down."""
    least = max(course.down, default=0) + 1
    caps = replace(
        course.caps,
        unavailable=max(sum(course.down) + 1, dice.randint(1, 5)),
        unavailable_per_domain=max(least, dice.randint(1, 5)),
        domains_at_once=dice.randint(1, 3),
        pace=dice.choice((0.0, 7.0, 11.0)),
    )
    own = Random(dice.random())
    wave = own.choice((None, None, 1, 2, 5))
    tiers = tuple(_tier(own, course, name) for name in ("cache", "web")[: own.choice((0, 1, 2))])
    spans = (((0, course.hosts),), ((0, (course.hosts + 1) // 2),))
    warm = tuple(
        WarmRule(
            own.choice(("warm", "warmer")), own.choice((30.0, 60.0)), own.choice(spans), ORIGIN
        )
        for _ in range(own.choice((0, 1, 1)))
    )
    return Words(caps, wave, tiers, warm)


def _tier(dice: Random, course: Course, role: str) -> TierWave:
    """Some of the hosts, and how many of them one wave may add."""
    hosts = sum(1 << index for index in range(course.hosts) if dice.random() < 0.6)
    return TierWave(role, dice.choice((1, 2)), f"{hosts:x}", ORIGIN)


def merged_at(edits: Edits, course: Course, now: float) -> Merged | None:
    """What the policies say now; None: they cannot be read."""
    said = [words for at, words in edits if at <= now][-1]
    if said is None:
        return None
    return Merged(
        now,
        said.caps,
        course.bake_for,
        course.rollback_when,
        wave=said.wave,
        gates=course.gates,
        tiers=said.tiers,
        warm=said.warm,
    )
