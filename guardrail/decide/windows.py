"""May a host begin now, or does it wait until the windows open?

A host begins only if it can be changed and baked before it closes again; who has begun finishes.
What closes is in the plan's calendar, as times: nobody here looks at a clock on a wall.

    hosts wait, and one begun now would not be baked before it closes    hold `window`
    ... and it fits again, and every gate that binds passes              cleared; a bake follows
    nobody waits to begin: a wave bakes                                  no hold; the bake goes on

So the bake after a wave goes on while it is closed, and that is how a bake can cover a daily peak.
Going back keeps to windows that say `rollback: same`; of the others it is only told.
"""

from guardrail.decide.calendar import (
    closed_at,
    closing,
    ended_by,
    first_fit,
    fits,
    known_until,
    local,
    next_close,
    peak_seen_at,
    span_words,
)
from guardrail.decide.evolve import replace
from guardrail.decide.holds import clear_hold, evidence_is_good, note, raise_hold
from guardrail.model.calendar import Calendar, Closed, ClosedBy
from guardrail.model.operation import Direction, Hold, State
from guardrail.model.plan import Course, Plan

WINDOW = "window"
BY_A_PERSON = "a person: abort, and plan again"


def host_seconds(course: Course | Plan) -> float:
    """Seconds that must be open when a host begins: its change and its warm-up at the longest, and
    the bake."""
    warm = 0.0 if isinstance(course, Course) else course.budget.warm_within
    return course.host_timeout + warm + course.bake_for


def change_seconds(course: Course | Plan) -> float:
    """Seconds that one host's change takes at the longest. A course has the warm-up in it."""
    warm = course.budget.warm_within if isinstance(course, Course) else 0.0
    return course.host_timeout - warm


def open_for(course: Course | Plan, at: float, direction: Direction) -> bool:
    """Whether a host may begin at `at`, as far as windows go: asked with every permit, since an
    operation may not have heard yet that it is closed."""
    calendar = course.calendar
    if calendar is None or (direction == "back" and not calendar.binds_back):
        return True
    return fits(calendar, at, host_seconds(course), back=direction == "back")


def refresh(state: State, now: float, left: float, bake: float) -> State:
    """Raise the hold while no host may begin, and clear it once one may.

    left: seconds of this bake that are still missing before a host may begin. bake: those that a
    bake from the start needs.
    """
    calendar = state.course.calendar
    if calendar is None:
        return state
    state = _tell_back(state, calendar, now)
    why = _why(state, calendar, now, left)
    if why:
        return raise_hold(state, Hold(WINDOW, now, why, _ends(state, calendar, now, bake)))
    if state.hold(WINDOW) is None:
        return state
    if _binds(state, calendar) and state.waiting and not evidence_is_good(state):
        waits = "it is open again, and not every gate passes"
        return raise_hold(state, Hold(WINDOW, now, (waits,), "every gate passing; then it bakes"))
    return clear_hold(state, WINDOW, now, _cleared(state, calendar))


def reasons_now(plan: Plan) -> str:
    """Why the first host of a plan could not begin when it was made, and when it can; empty: it
    can at once."""
    calendar, now, need = plan.calendar, plan.created_at, host_seconds(plan)
    if calendar is None or fits(calendar, now, need):
        return ""
    why = _closed(calendar, now, back=False) or (_too_late(plan, now, 0.0, back=False),)
    return f"{'; '.join(why)}; {_opening(plan, now, need, back=False)}"


def _binds(state: State, calendar: Calendar) -> bool:
    """Whether windows stand in the way of the present direction."""
    return state.direction == "forward" or calendar.binds_back


def _back(state: State) -> bool:
    return state.direction == "back"


def _cleared(state: State, calendar: Calendar) -> str:
    if not _binds(state, calendar):
        return "going back is only told of windows (windows.rollback: warn)"
    return "it is open again" if state.waiting else "no host waits to begin"


# ---------------------------------------------------------------- why


def _why(state: State, calendar: Calendar, now: float, left: float) -> tuple[str, ...]:
    """Why no host may begin; empty: windows do not stand in the way."""
    if _no_peak(state, calendar):
        return (f"no daily peak is left before {_end(calendar)}, where its calendar ends",)
    if not state.waiting or not _binds(state, calendar):
        return ()
    need, back = host_seconds(state.course), _back(state)
    if fits(calendar, now, left + need, back=back):
        return ()
    shut = _closed(calendar, now, back=back)
    return shut or (_too_late(state.course, now, left, back=back),)


def _closed(calendar: Calendar, now: float, *, back: bool) -> tuple[str, ...]:
    """All that closes it at this moment; none: it is open, though perhaps not for long enough."""
    if now >= known_until(calendar, back=back):
        return (f"the windows are known up to {_end(calendar)}; what is not known is closed",)
    shut = closed_at(calendar, now, back=back)
    return tuple(f"closed until {opens(calendar, one)}: {by(calendar, one)}" for one in shut)


def _too_late(course: Course | Plan, now: float, left: float, *, back: bool) -> str:
    """The arithmetic of a host that would not be done in time."""
    calendar = course.calendar
    assert calendar is not None  # noqa: S101 - nothing is too late without one
    closes = next_close(calendar, now, back=back)
    what = arithmetic(course, left)
    next_one = closing(calendar, closes, back=back)
    if next_one is None:
        return f"{what}; the windows are known up to {_end(calendar)} only"
    at = local(closes, next_one.close_offset)
    return f"{what}; it closes at {at}: {by(calendar, next_one)}"


def arithmetic(course: Course | Plan, before: float = 0.0) -> str:
    """`a host takes 5 min + bake 10 min = 15 min`; before: seconds of a bake that come first."""
    first = f"bake {span_words(before)}, then " if before >= 1 else ""
    warm, bake = course.budget.warm_within, span_words(course.bake_for)
    parts = [span_words(change_seconds(course)), f"warm-up {span_words(warm)}" if warm else ""]
    sum_of = " + ".join(part for part in (*parts, f"bake {bake}") if part)
    return f"{first}a host takes up to {sum_of} = {span_words(before + host_seconds(course))}"


def _ends(state: State, calendar: Calendar, now: float, bake: float) -> str:
    """When it opens, in words; where it does not, what a person can do."""
    if _no_peak(state, calendar):
        return BY_A_PERSON
    need = bake + host_seconds(state.course)
    then = "with every gate passing; then it bakes"
    opening = _opening(state.course, now, need, back=_back(state))
    return opening if opening.startswith(BY_A_PERSON) else f"{opening}, {then}"


def _opening(course: Course | Plan, now: float, need: float, *, back: bool) -> str:
    """When it is open for so many seconds, in words."""
    calendar = course.calendar
    assert calendar is not None  # noqa: S101 - without one it is always open
    fit = first_fit(calendar, now, need, back=back)
    if fit is None:
        return f"{BY_A_PERSON}: it is not open for long enough before {_end(calendar)}"
    one = ended_by(calendar, fit)
    return f"the windows open {'now' if one is None else f'at {opens(calendar, one)}'}"


def by(calendar: Calendar, one: Closed) -> str:
    """`daily peak, mon-fri 05:30-10:00 Europe/Berlin and 30 min before (policy cache (…))`."""
    return rule_words(calendar.rules[one.by])


def rule_words(rule: ClosedBy) -> str:
    """A rule's reason, its times and its place."""
    named = f"{rule.reason}, " if rule.reason else ""
    settle = f" and {span_words(rule.settle)} before" if rule.settle else ""
    return f"{named}{rule.written} {rule.timezone}{settle} ({rule.origin})"


def opens(calendar: Calendar, one: Closed) -> str:
    """When a closed time ends, on the clocks of its zone."""
    zone = calendar.rules[one.by].timezone
    return f"{local(one.opens_at, one.open_offset)} ({zone})"


def _end(calendar: Calendar) -> str:
    return local(calendar.known_until, 0)


# ---------------------------------------------------------------- going back


def _tell_back(state: State, calendar: Calendar, now: float) -> State:
    """Going back in a closed time that does not bind it is told, once for each."""
    if not _back(state) or not state.waiting:
        return state
    for one in closed_at(calendar, now):
        if not calendar.rules[one.by].binds_back:
            text = f"goes back though closed until {opens(calendar, one)}: {by(calendar, one)}"
            told = any(line.text == text for line in state.story)
            state = state if told else note(state, now, text)
    return state


# ---------------------------------------------------------------- a bake that covers a peak


def covers(state: State) -> bool:
    """Whether this bake must cover a daily peak: after the last wave of each stage but the last."""
    calendar, waves = state.course.calendar, state.course.waves
    if calendar is None or not calendar.covers_peak or state.waiting or _back(state):
        return False
    after = state.wave + 1
    return after < len(waves) and waves[after].stage != waves[state.wave].stage


def cover(state: State, now: float, *, good: bool) -> State:
    """The state with the stretch of good evidence in which a peak may be seen.

    It begins with the bake, and anew once evidence was missing for longer than its grace in all.
    """
    if not covers(state):
        return state
    since, baked = state.covering_since, state.baked - state.covering_baked
    grace = min((rule.grace for rule in state.course.gates), default=0.0)
    if since is not None and state.baked > 0 and now - since - baked <= grace:
        return state
    return replace(state, covering_since=now if good else None, covering_baked=state.baked)


def peak_due(state: State) -> float | None:
    """When the bake will have covered a peak; None: it need not, or that is not known yet."""
    calendar, since = state.course.calendar, state.covering_since
    if calendar is None or since is None or not covers(state):
        return None
    return peak_seen_at(calendar, since)


def peak_is_covered(state: State, now: float) -> bool:
    """Whether this bake has covered the peak that it must cover, if it must."""
    if not covers(state):
        return True
    due = peak_due(state)
    return due is not None and now >= due


def peak_words(state: State) -> str:
    """What a bake waits for besides good seconds; empty: nothing."""
    calendar, due = state.course.calendar, peak_due(state)
    if calendar is None or due is None:
        return ""
    one = next(one for one in calendar.closed if one.opens_at == due)
    return f"until a daily peak has passed, at {opens(calendar, one)}"


def _no_peak(state: State, calendar: Calendar) -> bool:
    """Whether a peak must be covered, and none is left that could be."""
    since = state.covering_since
    return since is not None and covers(state) and peak_seen_at(calendar, since) is None


# ---------------------------------------------------------------- when to look again


def edges(state: State, now: float, left: float, bake: float) -> tuple[float | None, ...]:
    """The moments at which time alone raises or clears the hold, or ends a bake."""
    calendar = state.course.calendar
    if calendar is None:
        return ()
    if not state.waiting or not _binds(state, calendar):
        return (peak_due(state),)
    need, back = host_seconds(state.course), _back(state)
    if state.hold(WINDOW) is not None:
        return first_fit(calendar, now, bake + need, back=back), next_close(
            calendar, now, back=back
        )
    if state.baking_since is not None:
        return ()  # what is baked meanwhile is not missing later: looked at when the bake is over
    return (next_close(calendar, now, back=back) - need - left,)
