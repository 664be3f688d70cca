"""What stands against starting anything because of the catalog or cold hosts, and what ends it?

evidence:catalog   it is silent for longer than the grace; ends once it has answered for a while
limit:churn        as many nodes have left it as a limit allows, whoever caused it; ends when the
                   oldest of them is old enough, and then a bake follows
"""

from datetime import UTC, datetime
from functools import lru_cache

from guardrail.decide import coldness, downs, ring
from guardrail.decide.bits import members
from guardrail.decide.catalog import free_at, seen_within, within
from guardrail.decide.found import counted
from guardrail.decide.holds import clear_hold, raise_hold
from guardrail.model.budget import ChurnLimit, Departure
from guardrail.model.operation import Hold, State

CATALOG = "evidence:catalog"
CHURN = "limit:churn"
DOWN = "limit:down"
COLD = "limit:coldCapacity"
NAMED = 20


def refresh(state: State, now: float) -> State:
    """Raise what must stand now, and clear what need not stand any more."""
    state = _cold(state, now) if state.course.budget.cold else state
    if not state.course.budget.follow:
        return state
    return _down(_churn(_silence(state, now), now), now)


def _cold(state: State, now: float) -> State:
    """Used up by hosts that no bake warms: a person deals with them."""
    if ring.missing(state):
        return state  # nobody has told of the ring: what stands is not known to be over
    if not coldness.stuck(state, now):
        return clear_hold(state, COLD, now, "room again")
    used = coldness.words(state)
    return raise_hold(state, Hold(COLD, now, used, "room again: retry or skip a host"))


def _silence(state: State, now: float) -> State:
    catalog, budget = state.catalog, state.course.budget
    due = silent_due(state)
    if due is not None and now >= due:
        ends = f"the catalog answers again, for {budget.good_for:g} s"
        return raise_hold(state, Hold(CATALOG, now, (catalog.problem,), ends))
    good = good_again_at(state)
    if good is not None and now >= good:
        return clear_hold(state, CATALOG, now, f"it has answered for {budget.good_for:g} s")
    return state


def silent_due(state: State) -> float | None:
    """When a silent catalog becomes a hold; None while it answers."""
    since = state.catalog.silent_since
    return None if since is None else since + state.course.budget.grace


def good_again_at(state: State) -> float | None:
    """When it will have answered for long enough; None while it does not."""
    catalog = state.catalog
    if catalog.silent_since is not None or catalog.good_since is None:
        return None
    return catalog.good_since + state.course.budget.good_for


def _churn(state: State, now: float) -> State:
    used = [
        words(limit, gone)
        for limit in _used_by_departures(state)
        if free_at(gone := seen_within(state, limit, now), limit) is not None
    ]
    if not used:
        return clear_hold(state, CHURN, now, "room again")
    ends = "room again: the oldest of these is out of that time; then a bake"
    return raise_hold(state, Hold(CHURN, now, tuple(used), ends))


def _used_by_departures(state: State) -> tuple[ChurnLimit, ...]:
    """The limits on churn; none where nothing has left, since none of them is below that."""
    return state.course.budget.churn if state.catalog.departures else ()


def _down(state: State, now: float) -> State:
    alarming, many = downs.alarming(state), downs.too_many(state, now)
    if not alarming and not many:
        return clear_hold(state, DOWN, now, "they serve again")
    reasons = tuple(_is_down(state, index) for index in list(members(alarming))[:NAMED])
    if alarming.bit_count() > NAMED:
        reasons = (*reasons, f"and {alarming.bit_count() - NAMED} more")
    if many:
        reasons = (*reasons, _many(state, now))
    ends = "once they serve again, and a bake; or a person (resume), who goes on without them"
    return raise_hold(state, Hold(DOWN, now, reasons, ends))


def _is_down(state: State, index: int) -> str:
    known = [one for one in state.catalog.fallen if one.index == index]
    if not known:
        return f"host number {index} is down"
    lately = (state.lately | state.lately_before) >> index & 1
    why = "changed by this operation lately" if lately else "cache-critical"
    one = known[-1]
    return f"{one.host} is down since {clock(one.at)}: {one.why} ({why})"


def _many(state: State, now: float) -> str:
    gone = downs.falls(state, now)
    named = ", ".join(f"{one.host} at {clock(one.at)}" for one in gone[-NAMED:])
    most = state.course.budget.falls - 1
    return f"{counted(len(gone))} went down within an hour, {most} may by chance: {named}"


def words(limit: ChurnLimit, gone: tuple[Departure, ...]) -> str:
    """Which nodes left and when; whoever caused it."""
    named = ", ".join(f"{one.host} at {clock(one.at)}" for one in gone[-NAMED:])
    more = f"{len(gone) - NAMED} more, then " if len(gone) > NAMED else ""
    left = f"{len(gone)} node{'s' * (len(gone) != 1)} left the catalog"
    return f"{left} within {limit.per:g} s, {limit.departures} may ({limit.origin}): {more}{named}"


@lru_cache(maxsize=1000)
def clock(at: float) -> str:
    """A time of day, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}Z"


def moments(state: State, now: float) -> list[float | None]:
    """When time alone changes something here."""
    budget = state.course.budget
    if not budget.follow:
        return []
    due = [silent_due(state), *coldness.moments(state)]
    if state.hold(CATALOG):
        due.append(good_again_at(state))
    for limit in _used_by_departures(state):
        gone = within(state, limit, now)
        due += [free_at(gone, limit), free_at([one for one in gone if one.seen], limit)]
    if state.hold(DOWN):
        due += [one.at + downs.HOUR for one in downs.falls(state, now)[:1]]
    return due


def survives_a_turn(hold: Hold) -> bool:
    """Whether a hold is about the system, whichever way the operation goes."""
    return hold.name in (CHURN, DOWN)


def goes_on_by_itself(hold: Hold) -> bool:
    """Whether nobody has to do anything about a hold but wait."""
    return hold.name in (CHURN, DOWN)


def gone_on_without(state: State, at: float, by: str) -> State:
    """A person goes on without the hosts that are down."""
    if state.hold(DOWN) is None:
        return state
    return clear_hold(downs.accepted(state), DOWN, at, f"{by} goes on without them")
