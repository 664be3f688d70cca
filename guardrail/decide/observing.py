"""After a long hold: is the world still as it was when the plan was made?

A plan is made minutes before its first host. A hold may last for days, and hosts come and go
meanwhile. So after a hold of more than an hour the plan's hosts, versions and documents are looked
at again, before the next host begins (decide/contract.py says what has moved):

    held for long ── baked ── look again ──▶ nothing moved   on
                                  ├── something moved     hold `plan`: a person accepts it
                                  │                       by name, or aborts and plans anew
                                  └── nobody could look   hold `plan`: again every 30 s
"""

from guardrail.decide.evolve import replace
from guardrail.decide.holds import clear_hold, note, raise_hold
from guardrail.decide.rollback import binding
from guardrail.model.operation import Commanded, Hold, Observe, PlanObserved, State

PLAN = "plan"
LONG = 3_600.0
"""Seconds of a hold after which the world is looked at again."""
AGAIN = 30.0
"""Seconds until it is tried again, where nobody could look."""
BY_NAME = "a person, by name (resume --over plan --reason); or abort, and plan anew"


def refresh(state: State, now: float) -> State:
    """Know how long holds have stood, and look again where that could not be done."""
    if not state.course.observe_after or state.direction == "back":
        return _let_be(state, now)
    held = bool(binding(state))
    since = state.held_since
    long = since is not None and now - since >= state.course.observe_after - 0.001
    after = (since if since is not None else now) if held else None
    if after != since or (long and not state.outdated):  # a copy of the state is not for nothing
        state = replace(state, held_since=after, outdated=state.outdated or long)
    again = state.observe_at is not None and now >= state.observe_at - 0.001
    return ask(state) if again and state.hold(PLAN) else state


def _let_be(state: State, now: float) -> State:
    if not state.outdated and state.held_since is None:
        return state
    state = clear_hold(state, PLAN, now, "the operation goes back")
    return replace(state, held_since=None, outdated=False, observing=0, observe_at=None)


def due(state: State) -> bool:
    """Whether the world has to be looked at before another host begins."""
    return state.outdated and bool(state.waiting)


def ask(state: State) -> State:
    """Have it looked at, unless that is going on."""
    if state.observing:
        return state
    turn = state.observe_turn + 1
    return replace(state, observing=turn, observe_turn=turn, observe_at=None)


def again(state: State, at: float) -> State:
    """Whoever looked is gone."""
    soon = at if state.hold(PLAN) is not None and state.observing else state.observe_at
    return replace(state, observing=0, observe_at=soon)


def action(before: State, after: State) -> tuple[Observe, ...]:
    """What the carrier has to look at after an event."""
    asked = after.observing and after.observe_turn != before.observe_turn
    return (Observe(after.observe_turn),) if asked else ()


def told(state: State, event: PlanObserved) -> State:
    """What has moved, or why nobody could look."""
    if not event.turn or event.turn != state.observing:
        return state
    state = replace(state, observing=0)
    if event.problem:
        ends = f"another look, every {AGAIN:g} s"
        reason = f"after a long hold the plan could not be looked at again: {event.problem}"
        state = replace(state, observe_at=event.at + AGAIN)
        return raise_hold(state, Hold(PLAN, event.at, (reason,), ends))
    if event.reasons:
        told = tuple(f"since the plan was made: {reason}" for reason in event.reasons)
        return raise_hold(state, Hold(PLAN, event.at, told, BY_NAME))
    state = clear_hold(state, PLAN, event.at, "the plan is still true")
    state = note(state, event.at, "after a long hold: the plan is still true")
    return replace(state, outdated=False)


def acceptable(state: State) -> bool:
    """Whether a person can accept what has moved."""
    held = state.hold(PLAN)
    return held is not None and held.clears == BY_NAME


def accepted(state: State, command: Commanded) -> State:
    """A person has seen what has moved, and goes on."""
    why = f"accepted by {command.by}: {command.reason}"
    state = clear_hold(state, PLAN, command.at, why)
    return replace(state, outdated=False, held_since=None)
