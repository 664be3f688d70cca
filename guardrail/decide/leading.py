"""Who leads the servers that are changed, and does that one really come last?

A leader that restarts costs an election, and the next one may lead from a server that is still to
come. So a plan puts whoever leads last (decide/waves.py); and since leadership moves while servers
restart, it is looked at again before each host:

    a host could begin ── look ──▶ it follows                        it begins
                            ├──▶ it leads, and others are to come    it is put off: after all others
                            ├──▶ it leads, and nobody else is left   it begins
                            └──▶ unknown, or not all servers well    hold `leader`: looked at again

Such hosts begin one by one: what was seen before one of them began says nothing any more. Those
that were put off come after the last wave, each with a bake of its own before it. Going back is the
same the other way round, except that two people who accept churn are not kept by it.
"""

from guardrail.decide.bits import bit, has, members, span
from guardrail.decide.evolve import replace
from guardrail.decide.found import Found
from guardrail.decide.holds import BREAK_GLASS, clear_hold, note, raise_hold
from guardrail.decide.rollback import enter_wave as enter_wave_back
from guardrail.decide.rollback import last_touched_wave
from guardrail.model.fleet import Leading
from guardrail.model.operation import Hold, LeaderSeen, SeeLeader, State
from guardrail.model.plan import Plan

LEADER = "leader"
FRESH = 10.0
"""Seconds for which it is believed who leads."""
AGAIN = 10.0
"""Seconds until it is looked at again, where that could not be told."""
ENDS = f"a leader that is known, and all servers well: looked at every {AGAIN:g} s; then it bakes"


# ---------------------------------------------------------------- for a plan


def named(found: Found) -> str:
    """The name of the host that leads, where that is known and it is one of the fleet's."""
    led = found.leading
    if not isinstance(led, Leading) or led.host not in {host.name for host in found.hosts}:
        return ""
    return led.host


def refusals(plan: Plan, found: Found) -> tuple[str, ...]:
    """Who has to come last, and is not known, keeps everybody from beginning."""
    if not plan.leader_last or not isinstance(found.leading, str):
        return ()
    return (f"the leader must come last, and who leads cannot be told: {found.leading}",)


def warnings(plan: Plan, found: Found) -> tuple[str, ...]:
    """Servers that are not well now, and a leader that is not of the fleet."""
    led = found.leading
    if not plan.leader_last or not isinstance(led, Leading):
        return ()
    unwell = f"{led.unwell}; no host begins until all servers are well" if led.unwell else ""
    strange = f"{led.host} leads and is not in fleet {plan.fleet}" if not plan.leader else ""
    return tuple(words for words in (unwell, strange) if words)


# ---------------------------------------------------------------- may it begin


def binds(state: State) -> bool:
    """Whether who leads matters here."""
    if not state.course.leader_last:
        return False
    return state.direction == "forward" or len(state.churn_accepted) < BREAK_GLASS


def due(state: State, now: float) -> bool:
    """Whether somebody has to look who leads before a host begins."""
    seen = state.leader_at
    return binds(state) and (seen is None or now - seen > FRESH)


def ask(state: State) -> State:
    """Have it looked at, once the host before has answered, and unless that is going on."""
    if state.leader_looking or state.in_flight:
        return state
    turn = state.leader_turn + 1
    return replace(state, leader_turn=turn, leader_looking=True, leader_again=None)


def to_come(state: State) -> int:
    """The hosts that are still to begin in this direction, in whatever wave."""
    if state.direction == "back":
        return state.take_back & ~(state.failed | state.unknown | state.blocked)
    later = span(state.course.waves[state.wave].end, state.course.hosts)
    done = state.changed | state.set_aside | state.blocked
    return (later & ~done) | state.waiting | state.put_off


def may_lead(state: State, index: int) -> bool:
    """Whether this host may begin though it leads: nobody else is left."""
    return not binds(state) or not to_come(state) & ~bit(index)


def put_off(state: State, now: float) -> State:
    """Whoever leads now waits until all others have had their turn."""
    index = state.leader
    if due(state, now) or index < 0 or not has(state.waiting, index) or may_lead(state, index):
        return state
    others = (to_come(state) & ~bit(index)).bit_count()
    why = f"{state.leader_name} leads now: it begins after the {others} that are still to come"
    rest, off = state.waiting & ~bit(index), state.put_off | bit(index)
    return note(replace(state, waiting=rest, put_off=off), now, why)


# ---------------------------------------------------------------- those that were put off


def next_put_off(state: State) -> State:
    """After the last wave: one of those that were put off is to begin, the leader after them."""
    index = _first(state.put_off, state.leader)
    return replace(state, waiting=bit(index), put_off=state.put_off & ~bit(index))


def enter_wave(state: State) -> State:
    """Going back: the next wave without those that were put off, or one of them when all others
    are back."""
    off = state.put_off & to_come(state) if binds(state) else 0
    others = state.take_back & ~off
    if not off or others & to_come(state):
        entered = enter_wave_back(replace(state, take_back=others))
        return replace(entered, take_back=state.take_back)
    index = _first(off, state.leader)
    wave = last_touched_wave(state, bit(index))
    assert wave is not None  # noqa: S101 - every host of a plan is in one of its waves
    return replace(state, wave=wave, waiting=bit(index), put_off=off & ~bit(index))


def _first(hosts: int, leader: int) -> int:
    others = hosts & ~bit(leader) if leader >= 0 else hosts
    return next(members(others or hosts))


# ---------------------------------------------------------------- what is told


def action(before: State, after: State) -> tuple[SeeLeader, ...]:
    """What the carrier has to look at after an event."""
    if after.leader_turn == before.leader_turn or not after.leader_looking:
        return ()
    return (SeeLeader(after.leader_turn),)


def told(state: State, event: LeaderSeen) -> State:
    """Who leads, or why that cannot be told."""
    if not state.leader_looking or event.turn != state.leader_turn:
        return state
    state = replace(state, leader_looking=False)
    if event.problem:
        state = replace(state, leader_again=event.at + AGAIN)
        return raise_hold(state, Hold(LEADER, event.at, (event.problem,), ENDS))
    state = replace(state, leader=event.index, leader_at=event.at, leader_name=event.name)
    return clear_hold(state, LEADER, event.at, f"{event.name} leads, and all servers are well")


def again(state: State, at: float) -> State:
    """Whoever looked is gone."""
    soon = at if state.hold(LEADER) is not None else None
    if not state.leader_looking and soon is None:
        return state
    return replace(state, leader_looking=False, leader_at=None, leader_again=soon)


def refresh(state: State, now: float) -> State:
    """Look again where it could not be told; a turn round forgets who was put off before."""
    if not state.course.leader_last:
        return state
    if state.direction == "back" and state.put_off & ~state.take_back:
        state = replace(state, put_off=state.put_off & state.take_back)
    if state.hold(LEADER) is not None and not binds(state):
        return clear_hold(state, LEADER, now, "two people accept churn")
    due_again = state.leader_again is not None and now >= state.leader_again - 0.001
    return ask(state) if due_again and state.hold(LEADER) is not None else state
