"""What is different where a rollout runs as a shadow, and when would it have held?

A shadow runs the whole rollout and changes nothing: hosts, waves, limits, windows, freezes, gates
and times are those of the real one. What is different is what would have no meaning, or would wait
for people about a change that nobody makes:

    leases       none is taken: no role's limits are spent, and real rollouts go on beside it
    gates        a hold ends once the evidence is good again, never by a person
    approvals    are not asked for; its report says where and when they would be
    warm-up      is read of each host as it is: nothing was restarted, so the time in which a host
                 is cold is not waited for; a gate that does not pass holds as in earnest
    re-reading   changed hosts are not read again, policies are not merged again, and the plan is
                 not compared with the world again

`held` finds in a journal when an operation held, and why.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from guardrail.model.journal import (
    Ended,
    GonePast,
    HoldCleared,
    HoldRaised,
    HostTold,
    Line,
    PlanFixed,
)
from guardrail.model.plan import Course

FACT = ("shadow", "yes")
"""What the journal has of a shadow's plan, and of each host's answer."""


WARM = ("warmUp", "read as it is, nothing was restarted")
"""What the answer of a host has that would have had to become warm."""


def as_shadow(course: Course) -> Course:
    """The course of a rollout that changes nothing."""
    gates = tuple(dataclasses.replace(rule, recover_by="evidence") for rule in course.gates)
    quiet = dataclasses.replace(course, leases=(), approvals=(), reread=0, observe_after=0.0)
    quiet = dataclasses.replace(quiet, passed=course.approvals)
    return dataclasses.replace(quiet, shadow=True, gates=gates, merges=False)


def in_front(course: Course) -> str:
    """What is said before anything else of an operation that is a shadow."""
    return "shadow, nothing is changed: " if course.shadow else ""


def changed(course: Course) -> str:
    """What is said of hosts that were changed, or would have been."""
    return "would be changed" if course.shadow else "changed"


# ---------------------------------------------------------------- when it held


@dataclass(frozen=True, slots=True)
class Held:
    """One hold: from when to when (seconds since the epoch; None: it stands), why, and what ended
    it."""

    name: str
    since: float
    finished_at: float | None
    reasons: tuple[str, ...]
    cleared: str = ""


@dataclass(frozen=True, slots=True)
class Passed:
    """An approval that a shadow went past at that time; so many people would have had to agree."""

    at: float
    point: str
    people: int
    origin: str


@dataclass(frozen=True, slots=True)
class Report:
    """When an operation held, first one first. phase: empty while it runs. passed, warm: of a
    shadow, the approvals it went past, and how many hosts would have had to become warm."""

    operation: str
    shadow: bool
    started_at: float | None
    finished_at: float | None
    phase: str
    outcome: tuple[str, ...]
    held: tuple[Held, ...]
    passed: tuple[Passed, ...] = ()
    warm: int = 0


def report(operation: str, lines: Iterable[Line]) -> Report:
    """What a journal says of the last operation of that name."""
    found = Report(operation, False, None, None, "", (), ())
    for line in lines:
        record = line.record
        if isinstance(record, PlanFixed):
            shadow = FACT in record.facts
            found = Report(operation, shadow, line.at, None, "", (), ())
        elif isinstance(record, HoldRaised):
            found = dataclasses.replace(found, held=_raised(found.held, record, line.at))
        elif isinstance(record, GonePast):
            passed = Passed(line.at, record.point, record.people, record.origin)
            found = dataclasses.replace(found, passed=(*found.passed, passed))
        elif isinstance(record, HostTold):
            found = dataclasses.replace(found, warm=found.warm + (WARM in record.facts))
        elif isinstance(record, HoldCleared):
            found = dataclasses.replace(found, held=_cleared(found.held, record, line.at))
        elif isinstance(record, Ended):
            held = tuple(_at_the_end(one, line.at) for one in found.held)
            found = dataclasses.replace(
                found, finished_at=line.at, phase=record.phase, outcome=record.reasons, held=held
            )
    return found


def _raised(held: tuple[Held, ...], record: HoldRaised, at: float) -> tuple[Held, ...]:
    """A new hold, or another reason of one that stands."""
    for place, one in enumerate(held):
        if one.name == record.name and one.finished_at is None:
            reasons = tuple(dict.fromkeys((*one.reasons, *record.reasons)))
            more = dataclasses.replace(one, reasons=reasons)
            return (*held[:place], more, *held[place + 1 :])
    return (*held, Held(record.name, at, None, record.reasons))


def _cleared(held: tuple[Held, ...], record: HoldCleared, at: float) -> tuple[Held, ...]:
    return tuple(
        dataclasses.replace(one, finished_at=at, cleared=record.why)
        if one.name == record.name and one.finished_at is None
        else one
        for one in held
    )


def _at_the_end(one: Held, at: float) -> Held:
    return one if one.finished_at is not None else dataclasses.replace(one, finished_at=at)
