"""When would a plan be done, with the times in which it waits for its windows?

The same rules as the engine's (decide/windows.py), walked ahead: a host begins only if it can be
changed and baked before it closes; opening again leads to a bake; the bake after a wave goes on
while it is closed, and covers a daily peak where that is asked for.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from guardrail.decide.calendar import (
    closed_at,
    first_fit,
    fits,
    longest_open,
    next_close,
    peak_seen_at,
    span_words,
)
from guardrail.decide.found import counted
from guardrail.decide.windows import arithmetic, host_seconds, reasons_now
from guardrail.model.calendar import Calendar
from guardrail.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Work:
    """A wave: so many begins, `step` seconds apart; the last one takes `last` seconds.

    covers: whether the bake after it must cover a daily peak, if the calendar has one.
    """

    begins: int
    step: float
    last: float
    covers: bool = False

    @property
    def seconds(self) -> float:
        """How long it takes where nothing is closed, without its bake."""
        return (self.begins - 1) * self.step + self.last


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds that one host takes at the longest, and that a bake takes."""

    host: float
    bake: float


def ends_at(waves: Iterable[Work], calendar: Calendar, begin: float, pace: Pace) -> float | None:
    """When all waves are done and baked, begun at `begin` (seconds since the epoch).

    None: not before the calendar's end.
    """
    at, begun = begin, False
    for work in waves:
        last = _last_begin(work, calendar, at, pace, begun=begun)
        if last is None:
            return None
        done, begun = last + work.last, True
        peak = peak_seen_at(calendar, done) if work.covers and calendar.covers_peak else done
        if peak is None:
            return None
        at = max(done + pace.bake, peak)
    return at


def _last_begin(
    work: Work, calendar: Calendar, at: float, pace: Pace, *, begun: bool
) -> float | None:
    """When the last host of a wave begins. begun: whether any has: then a bake comes first once
    it opens again."""
    left, need = work.begins, pace.host + pace.bake
    while True:
        if not fits(calendar, at, need):
            bake = pace.bake if begun else 0.0
            opens = first_fit(calendar, at, bake + need)
            if opens is None:
                return None
            at = opens + bake
        chances = _chances(next_close(calendar, at) - need - at, work.step)
        if chances >= left:
            return at + (left - 1) * work.step
        at, left, begun = at + chances * work.step, left - int(chances), True


# ---------------------------------------------------------------- in words


WIDEN = "widen the windows, or bake for less"


def never_fits(plan: Plan, ends: float | None) -> tuple[str, ...]:
    """Why the plan can never be done within its windows, with the arithmetic; none: it can be."""
    calendar = plan.calendar
    if calendar is None or ends is not None:
        return ()
    begin, end = longest_open(calendar, plan.created_at)
    need, what = host_seconds(plan), arithmetic(plan)
    known = span_words(calendar.known_until - plan.created_at)
    longest = _longest(calendar, end - begin, known)
    if end - begin <= need:
        return (f"{what}; {longest}; {WIDEN}",)
    if end - begin <= need + plan.bake_for:
        again = f"once it opens again a bake comes first: {span_words(need + plan.bake_for)}"
        return (f"{what}, and {again}; {longest}; {WIDEN}",)
    peak = ", with a daily peak before each stage," if calendar.covers_peak else ""
    hosts = f"{counted(len(plan.hosts))} cannot be changed{peak} in {known}"
    return (f"{hosts} ({what}; {longest}); widen the windows, or make fewer stages",)


def _longest(calendar: Calendar, seconds: float, known: str) -> str:
    """`the longest open time in 60 d under policy cache (cache.yaml:30) is 12 min`."""
    under = f"under {_all_places(calendar)}"
    if not seconds:
        return f"{under} it is never open in {known}"
    return f"the longest open time in {known} {under} is {span_words(seconds)}"


def _all_places(calendar: Calendar) -> str:
    return " and ".join(dict.fromkeys(str(rule.origin) for rule in calendar.rules))


def in_peak(plan: Plan) -> tuple[str, ...]:
    """That this is a daily peak that bakes must cover, in which nothing is begun; none: it is not.

    Any other closed time is only waited for. This one is refused: who starts a rollout at the
    peak has most likely not seen what time it is there, and looks away before it begins by itself.
    """
    calendar = plan.calendar
    if calendar is None:
        return ()
    closed = closed_at(calendar, plan.created_at)
    if not any(calendar.rules[one.by].peak for one in closed):
        return ()
    return (f"nobody begins in the daily peak: {reasons_now(plan)}; start it after that",)


def closed_now(plan: Plan, ends: float | None) -> tuple[str, ...]:
    """That the first host would have to wait, begun now, and until when."""
    found = reasons_now(plan) if ends is not None and not in_peak(plan) else ""
    return (f"no host begins now: {found}",) if found else ()


def _chances(seconds: float, step: float) -> float:
    """How many hosts can begin `step` seconds apart, the first at once, in less than `seconds`."""
    return math.inf if step <= 0 else float(math.ceil(seconds / step))
