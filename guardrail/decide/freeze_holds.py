"""What stands against starting anything because of a freeze, and what ends it?

    a freeze stands that binds this direction       hold `freeze`, whatever the operation does
    ... and none does any more, not every gate passes    it stays, and says so
    ... and every gate that binds passes            cleared; a bake follows, as after any hold

Going back waits for a freeze, too, unless who set it has said that it need not.
"""

from guardrail.decide.freezes import ends, standing, words
from guardrail.decide.holds import clear_hold, evidence_is_good, raise_hold
from guardrail.model.operation import Hold, State

FREEZE = "freeze"
THEN = "with every gate passing; then it bakes"


def refresh(state: State, now: float) -> State:
    """Raise the hold while a freeze stands, and clear it once all are over."""
    if not state.course.freezes:
        return state
    frozen = standing(state, now)
    if frozen:
        by = "; ".join(dict.fromkeys(map(ends, frozen)))
        return raise_hold(state, Hold(FREEZE, now, tuple(map(words, frozen)), f"{by}, {THEN}"))
    if state.hold(FREEZE) is None:
        return state
    if not evidence_is_good(state):
        waits = "the freeze is over, and not every gate passes"
        return raise_hold(state, Hold(FREEZE, now, (waits,), "every gate passing; then it bakes"))
    return clear_hold(state, FREEZE, now, _cleared(state, now))


def _cleared(state: State, now: float) -> str:
    told = [one.name for one in state.frozen.standing if one.until is None or now < one.until]
    return f"going back does not wait for {', '.join(told)}" if told else "the freeze is over"


def moments(state: State) -> list[float | None]:
    """When time alone ends a freeze, or begins one that was told ahead."""
    late = state.frozen.elsewhere
    known = [*state.frozen.standing, *[one.freeze for one in late]]
    if not state.course.freezes or not known:
        return []
    times = [*[one.until for one in known], *[one.since for one in known]]
    return [*times, *[one.again_at for one in late]]
