"""Which limits hold just now: the plan's, or what an override puts in the place of one of them?

Every limit of an operation is read here (`caps_now`), so an override is in force everywhere or
nowhere. It needs no clock: `decide` ends overrides that are over before it looks at anything else
(decide/overriding.py), so those in a state are in force as of what happened last.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from guardrail.model.operation import State
from guardrail.model.override import Override
from guardrail.model.plan import Caps, Limit

POINT = "override:"
"""How the point begins at which owners agree to an override."""
LONGEST = 24 * 3600.0
"""Seconds: what is needed for longer is a change of the policy."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A limit that can be overridden: its field in `Caps`, its unit, its least value, and whether
    a larger number is looser."""

    field: str
    unit: str
    least: float = 1.0
    larger: bool = True
    to: Callable[[float], Any] = int


KNOBS: dict[str, Knob] = {
    "unavailable": Knob("unavailable", "hosts"),
    "unavailablePerDomain": Knob("unavailable_per_domain", "hosts"),
    "domainsAtOnce": Knob("domains_at_once", "domains"),
    "failures": Knob("failures", "hosts"),
    "failures.consecutive": Knob("failures_consecutive", "hosts"),
    "pace.between": Knob("pace", "seconds", 0.0, larger=False, to=float),
}
"""By the names that plans show. Waves are cut before the start; what evidence must be, how long it
must be good, and who must agree are no limits, and nothing overrides them."""


def caps_now(state: State) -> Caps:
    """The limits that hold: the plan's, with each override in force put in."""
    if not state.overrides:
        return state.course.caps
    changed: dict[str, Any] = {
        KNOBS[each.limit].field: KNOBS[each.limit].to(each.value)
        for each in state.overrides
        if each.in_force
    }
    if "failures" in changed:  # whoever borrows hosts that fail may use them in any wave
        changed["failures_share"] = None
    return dataclasses.replace(state.course.caps, **changed)


def planned(state: State, limit: str) -> float | None:
    """What the plan allows; None where it has no such limit."""
    value = getattr(state.course.caps, KNOBS[limit].field)
    return None if value is None else float(value)


def looser(limit: str, value: float, than: float) -> bool:
    """Whether a value allows more."""
    return value > than if KNOBS[limit].larger else value < than


def limit_of(state: State, name: str) -> Limit | None:
    """The limit as the plan has it, with what each policy says about it."""
    return next((limit for limit in state.course.limits if limit.name == name), None)


def wants(state: State, limit: str, value: float) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(policy, owners) of each policy that names owners and allows less than the value."""
    said = limit_of(state, limit)
    words = said.words if said is not None else ()
    found = {w.policy: w.owners for w in words if w.owners and looser(limit, value, w.value)}
    return tuple(sorted(found.items()))


def point_of(override: Override) -> str:
    """Where its owners agree: the point has all that they agree to."""
    return f"{POINT}{override.limit}={override.value:.10g}@{clock(override.until)}"


def pending(state: State, point: str) -> Override | None:
    """The override that waits for consent at this point."""
    waiting = (each for each in state.overrides if not each.in_force)
    return next((each for each in waiting if point_of(each) == point), None)


def waiting_points(state: State) -> tuple[str, ...]:
    """Where consent to an override is waited for."""
    return tuple(point_of(each) for each in state.overrides if not each.in_force)


def next_end(state: State) -> float | None:
    """When the first of them ends; None: there is none."""
    return min([each.until for each in state.overrides]) if state.overrides else None


# ---------------------------------------------------------------- in words


def clock(at: float) -> str:
    """A time in UTC, in whole seconds: `2026-11-30T05:00:00Z`. Empty where it is none."""
    try:
        when = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")


def in_words(each: Override) -> str:
    """`unavailable 3 instead of 1 until 2026-11-30T05:00:00Z, by bob: two racks to go`."""
    unsure = "" if each.verified else " (unverified)"
    return f"{change_of(each)} until {clock(each.until)}, by {each.by}{unsure}: {each.reason}"


def change_of(each: Override) -> str:
    """`unavailable 3 instead of 1`."""
    return f"{each.limit} {each.value:.10g} instead of {each.planned:.10g}"


def stands(each: Override) -> str:
    """Whether it is in force, or whom it waits for."""
    if each.in_force:
        agreed = f"; {', '.join(each.agreed)} agreed" if each.agreed else ""
        return f"in force{agreed}"
    owners = [f"one of {', '.join(names)} (policy {policy})" for policy, names in each.wants]
    return f"not in force: waits for {' and '.join(owners)}"


def lines(state: State) -> tuple[str, ...]:
    """All of them, for people, with the command that a waiting one waits for."""
    told: list[str] = []
    for each in state.overrides:
        told += [f"override of {in_words(each)}", f"  {stands(each)}"]
        if not each.in_force:
            told.append(f"  guardrail rollout approve {state.name} {consent_words(each)}")
    return tuple(told)


def consent_words(each: Override) -> str:
    """How its owners agree."""
    return f"--point {point_of(each)} --sign KEYFILE"
