"""What do the worker's policies say while an operation runs? Made up: now and then something else.

Stricter and looser limits come, and times in which the policies cannot be read. From the calm on
they can be, and say what they said last.
"""

from dataclasses import replace
from random import Random

from guardrail.model.plan import Caps, Course, Merged

SHARE = 0.35
"""The share of operations whose policies are merged again."""
Edits = tuple[tuple[float, Caps | None], ...]
"""From a time on: the limits that policies state; None: they cannot be read."""


def edited(dice: Random, course: Course, calm: float) -> tuple[Course, Edits]:
    """The course, and how its policies change. Dice of their own: all else stays as it is."""
    if dice.random() >= SHARE:
        return course, ()
    times = sorted(dice.uniform(0.0, calm - 50.0) for _ in range(dice.choice((0, 1, 2, 3))))
    found: list[tuple[float, Caps | None]] = [(0.0, course.caps)]
    found += [(round(at, 1), None if dice.random() < 0.3 else _other(dice, course)) for at in times]
    last = next(said for _, said in reversed(found) if said is not None)
    return replace(course, merges=True), (*found, (calm, last))


def _other(dice: Random, course: Course) -> Caps:
    """Other limits, that still leave room for one host beside those that are down."""
    least = max(course.down, default=0) + 1
    return replace(
        course.caps,
        unavailable=max(sum(course.down) + 1, dice.randint(1, 5)),
        unavailable_per_domain=max(least, dice.randint(1, 5)),
        domains_at_once=dice.randint(1, 3),
        pace=dice.choice((0.0, 7.0, 11.0)),
    )


def merged_at(edits: Edits, course: Course, now: float) -> Merged | None:
    """What the policies say now; None: they cannot be read."""
    caps = [said for at, said in edits if at <= now][-1]
    if caps is None:
        return None
    return Merged(now, caps, course.bake_for, course.rollback_when, gates=course.gates)
