"""What does one run of a workflow hand to the next, so that nothing is lost and little is sent?

The course stays behind (the next run loads it by the plan's digest; where policies have become
stricter since, all but its hosts is carried), sets of hosts travel as hex
numbers, and what was known of the gates is not believed: a new run watches anew.
"""

from dataclasses import replace
from typing import Any

from guardrail.errors import Refused
from guardrail.model.messages import CARRIED_FORMAT, Carried, Said
from guardrail.model.operation import State
from guardrail.model.plan import Caps, Course

SETS = (
    "waiting",
    "changed",
    "failed",
    "unknown",
    "blocked",
    "set_aside",
    "tried",
    "astray",
    "take_back",
    "reverted",
    "down_now",
    "cold",
    "serving",
    "fresh",
    "down_accepted",
    "lately",
    "lately_before",
    "put_off",
)
LEFT_BEHIND = Course("", "", (), (), (), Caps(1, 1, 1, 0), (), (), 0.0)


def pack(
    state: State, answered: tuple[tuple[str, Said], ...] = (), events: int = 0, at: float = 0.0
) -> Carried:
    """The state as the next run gets it.

    events: how many have happened so far, over all runs; at: the last one's time.
    """
    sets = tuple((name, f"{getattr(state, name):x}") for name in SETS)
    none: dict[str, Any] = dict.fromkeys(SETS, 0)
    kept = replace(state.course, domains=(), down=()) if state.course.tightened else LEFT_BEHIND
    empty = replace(state, course=kept, **none)
    return Carried(state.course.plan, empty, sets, answered, events, CARRIED_FORMAT, at)


def unpack(carried: Carried, course: Course) -> State:
    """The state that was packed, with its course.

    Raises Refused when a newer build packed it: the workflow then waits, whole, for a worker that
    can read it.
    """
    if carried.format > CARRIED_FORMAT:
        raise Refused(
            f"the operation was carried on by a newer build (state format {carried.format}; this "
            f"one reads up to {CARRIED_FORMAT}): run a worker of that build, nothing is lost"
        )
    sets: dict[str, Any] = {name: int(number, 16) for name, number in carried.sets}
    kept = carried.state.course
    if kept.tightened:  # stricter than the plan that is loaded again
        course = replace(kept, domains=course.domains, down=course.down)
    return replace(carried.state, course=course, **sets)
