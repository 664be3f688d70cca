"""Which freezes are there now, whom do they concern, and what does an operation know of them?

A freeze is set at one of several places, and set anywhere is frozen. A watch reads every place and
tells the operation what has changed; a worker reads them once more just before a host begins, and
what it finds there (its own file, say) is told, too:

    told by the watch      stands until the watch tells otherwise, or its time is over
    told with a refusal    stands for half a minute: then that worker is asked again

What ends a freeze, and what follows, is in decide/freeze_holds.py.
"""

import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime

from guardrail.decide.evolve import replace
from guardrail.model.freeze import (
    COMMAND,
    Concerned,
    Freeze,
    Frozen,
    Known,
    Lift,
    Lifted,
    Refused,
    Seen,
)
from guardrail.model.operation import Direction, FreezesSeen, State
from guardrail.model.plan import Plan

AGAIN = 30.0
"""Seconds that a worker's refusal stands before its host is asked again."""
KEPT = 20
"""Freezes that were lifted, or are over, and are remembered."""


# ---------------------------------------------------------------- whom they concern


def concerned(plan: Plan) -> Concerned:
    """What of a plan freezes can be about."""
    roles = {role for host in plan.hosts for role in host.roles}
    unknown = any(not host.roles for host in plan.hosts)
    return Concerned(plan.fleet, tuple(sorted(roles)), unknown)


def about(freezes: Iterable[Freeze], whom: Concerned, now: float) -> tuple[Freeze, ...]:
    """Those that stand now and concern these hosts, sorted."""
    return in_order(one for one in freezes if stands(one, now) and _is_about(one, whom))


def _is_about(freeze: Freeze, whom: Concerned) -> bool:
    """A host without a known role may have any: every freeze of a role is about it."""
    fleet = not freeze.fleets or whom.fleet in freeze.fleets
    role = not freeze.roles or whom.unknown or bool(set(freeze.roles) & set(whom.roles))
    return fleet and role


def stands(freeze: Freeze, now: float) -> bool:
    """Whether it has begun and is not over. One by command has begun, whatever our clock says."""
    begun = freeze.place == COMMAND or freeze.since <= now
    return begun and (freeze.until is None or now < freeze.until)


def binds(freeze: Freeze, direction: Direction) -> bool:
    """Whether it stands in the way of this direction."""
    return direction == "forward" or freeze.binds_back


def in_order(freezes: Iterable[Freeze]) -> tuple[Freeze, ...]:
    return tuple(sorted(freezes, key=lambda one: (one.place, one.name)))


def differs(told: Iterable[Freeze], now: Iterable[Freeze]) -> bool:
    """Whether there is something to tell: why a place cannot be read may be worded anew."""
    return [_told(one) for one in told] != [_told(one) for one in now]


def _told(freeze: Freeze) -> Freeze:
    return dataclasses.replace(freeze, reason="", since=0.0) if freeze.unreadable else freeze


# ---------------------------------------------------------------- in words


def words(freeze: Freeze) -> str:
    """`frozen since 12:00:00Z by ann until 14:00:00Z: holidays (command, go-slow)`."""
    until = f" until {clock(freeze.until)}" if freeze.until is not None else ""
    by = f" by {freeze.by}" if freeze.by else ""
    why = freeze.reason or "no reason given"
    whom = [*freeze.roles, *(f"fleet {name}" for name in freeze.fleets)]
    of = f", for {', '.join(whom)}" if whom else ""
    where = f"{freeze.place}, {freeze.name}" if freeze.place == COMMAND else freeze.place
    return f"frozen since {clock(freeze.since)}{by}{until}: {why} ({where}){of}"


def clock(at: float) -> str:
    """A time in UTC, to the second."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}Z"


def reading(seen: Seen, whom: Concerned, now: float) -> tuple[str, ...]:
    """What a plan says of freezes when it is made: what stands, and what could not be read."""
    standing = [
        f"no host begins now: {words(one)}; ends by: {ends(one)}"
        for one in about(seen.freezes, whom, now)
    ]
    unread = [f"whether a freeze stands is not known: {why}" for why in seen.unread]
    return (*standing, *unread)


def ends(freeze: Freeze) -> str:
    """Who or what ends it."""
    if freeze.unreadable:
        return "the place can be read again"
    by = f"guardrail freeze off {freeze.name}" if freeze.place == COMMAND else f"at {freeze.place}"
    return by if freeze.until is None else f"its end at {clock(freeze.until)} (or {by})"


# ---------------------------------------------------------------- what an operation knows


def are_known(state: State) -> bool:
    """Whether the present watch has read every place, or nobody has to."""
    return not state.course.freezes or state.frozen.told


def watch_anew(state: State) -> State:
    """A new watch begins: what stands has to be told again, and stands meanwhile."""
    if not state.course.freezes:
        return state
    return replace(state, frozen=dataclasses.replace(state.frozen, told=False))


def seen(state: State, event: FreezesSeen) -> State:
    """What the present watch, or a worker with a refusal (turn 0), tells."""
    known = state.frozen
    if event.turn == 0:
        return replace(state, frozen=dataclasses.replace(known, elsewhere=_elsewhere(state, event)))
    if event.turn != state.watch_turn:
        return state
    names = _names(event.freezes)  # of these it will tell the end, too
    rest = tuple(one for one in known.elsewhere if not _names([one.freeze]) & names)
    return replace(state, frozen=Known(True, in_order(event.freezes), rest))


def _names(freezes: Iterable[Freeze]) -> set[tuple[str, str]]:
    return {(one.place, one.name) for one in freezes}


def _elsewhere(state: State, event: FreezesSeen) -> tuple[Refused, ...]:
    """One worker's refusal, beside those of others."""
    new = tuple(Refused(one, event.at + AGAIN) for one in in_order(event.freezes))
    names = _names(event.freezes)
    known = state.frozen.elsewhere
    rest = (one for one in known if one.again_at > event.at and not _names([one.freeze]) & names)
    return (*rest, *new)


def standing(state: State, now: float) -> tuple[Freeze, ...]:
    """The freezes that stand in the way of the present direction; told twice, they are one."""
    if not state.frozen.standing and not state.frozen.elsewhere:
        return ()
    told = [one for one in state.frozen.standing if stands(one, now)]
    late = [one.freeze for one in state.frozen.elsewhere if now < one.again_at]
    more = [one for one in late if stands(one, now) and not _names([one]) & _names(told)]
    return tuple(one for one in (*told, *more) if binds(one, state.direction))


# ---------------------------------------------------------------- set by command


def refuse_on(frozen: Frozen, freeze: Freeze, now: float) -> str | None:
    """Why this freeze cannot be set; None if it can."""
    if not freeze.by or not freeze.reason.strip():
        return "a freeze says who sets it and why: --reason WHY"
    if freeze.until is not None and freeze.until <= now:
        return f"its end, {clock(freeze.until)}, is past: give a later one, or none"
    other = next((one for one in current(frozen, now).freezes if one.name == freeze.name), None)
    if other is not None:
        return f"there is a freeze {freeze.name} already, {words(other)}; give another --name"
    return None


def on(frozen: Frozen, freeze: Freeze, now: float) -> Frozen:
    """With one more freeze, from now on."""
    new = dataclasses.replace(freeze, since=now, place=COMMAND)
    freezes = in_order([*current(frozen, now).freezes, new])
    return dataclasses.replace(frozen, freezes=freezes)


def refuse_off(frozen: Frozen, lift: Lift, now: float) -> str | None:
    """Why this freeze cannot be lifted; None if it can."""
    if not lift.by or not lift.reason.strip():
        return "who lifts a freeze says why: --reason WHY"
    names = [one.name for one in current(frozen, now).freezes]
    if lift.name in names:
        return None
    return f"there is no freeze {lift.name} by command; there: {', '.join(names) or 'none'}"


def off(frozen: Frozen, lift: Lift, now: float) -> Frozen:
    """Without that freeze; who lifted it is remembered."""
    there = current(frozen, now).freezes
    gone = tuple(Lifted(one, lift.by, lift.reason, now) for one in there if one.name == lift.name)
    left = tuple(one for one in there if one.name != lift.name)
    return Frozen(left, (*frozen.lifted, *gone)[-KEPT:])


def current(frozen: Frozen, now: float) -> Frozen:
    """Without those that are over."""
    left = tuple(one for one in frozen.freezes if one.until is None or now < one.until)
    return dataclasses.replace(frozen, freezes=left)
