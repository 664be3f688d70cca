"""Are the hosts that were changed still what they were changed to?

At each stage's end, once its last wave has baked, changed hosts are read again, and nothing goes on
before they have answered (rule 11 of design.md §4):

    baked ── read again ──▶ all as they should be      on to the next stage, or completed
                │
                ├── at another version, not running    hold `reverted`: a person retries or skips
                │                                       the hosts, or goes back
                └── silent, or nobody could read them  hold `reread`: read once more, every 30 s

Where the plan is cache-critical all of them are read, otherwise a tenth and at least five, drawn by
the plan's digest and the wave: nobody can choose them, and everybody can say which they are.
A hold of any kind makes the reading old: after it comes a bake, and then another reading.

The last reading looks into the inventory, too: hosts that came since the plan was made are left out
by name, in the reasons of the end. Silence of the inventory is silence.
"""

import hashlib

from guardrail.decide import named
from guardrail.decide.bits import bit, has, members
from guardrail.decide.evolve import replace
from guardrail.decide.found import counted
from guardrail.decide.holds import clear_hold, note, raise_hold
from guardrail.model.operation import Exceptional, Hold, HostFound, HostsRead, ReadAgain, State

REVERTED = "reverted"
REREAD = "reread"
AGAIN = 30.0
"""Seconds until hosts that were silent are read once more."""

ALL = 100
SAMPLE = 10
LEAST = 5
"""Percent of the changed hosts that are read again, and how many they are at least."""

BY_A_PERSON = "a person: retry or skip the hosts, or rollback"


def share_of(*, cache_critical: bool) -> int:
    """Percent of the changed hosts that are read again at each stage's end."""
    return ALL if cache_critical else SAMPLE


def share_in_words(share: int) -> str:
    """Which hosts are read again, for people; empty where none is."""
    if share >= ALL:
        return "all changed hosts"
    drawn = "drawn by the plan's digest and the wave"
    return f"{share}% of the changed hosts, at least {LEAST}, {drawn}" if share else ""


# ---------------------------------------------------------------- when, and which hosts


def at_stage_end(state: State) -> bool:
    """Whether the present wave is the last one of its stage."""
    after, waves = state.wave + 1, state.course.waves
    return after == len(waves) or waves[after].stage != waves[state.wave].stage


def believed(state: State) -> int:
    """The hosts that are taken to be at the new version."""
    return state.changed & ~state.set_aside


def due(state: State) -> bool:
    """Whether hosts must be read again before anything goes on from here."""
    if state.direction == "back" or state.true_wave == state.wave or state.waiting:
        return False
    wanted = bool(believed(state)) or at_the_end(state)
    return bool(state.course.reread) and wanted and at_stage_end(state)


def at_the_end(state: State) -> bool:
    """Whether nothing comes after the present wave."""
    return state.wave + 1 == len(state.course.waves)


def sample(state: State) -> int:
    """The hosts that are read again at the end of the present wave."""
    hosts = believed(state)
    count = hosts.bit_count()
    most = max(LEAST, -(-count * state.course.reread // 100))
    if most >= count:
        return hosts
    drawn = sorted(members(hosts), key=lambda index: _lot(state, index))
    return sum(bit(index) for index in drawn[:most])


def _lot(state: State, index: int) -> bytes:
    return hashlib.sha256(f"{state.course.plan}/{state.wave}/{index}".encode()).digest()


def ask(state: State) -> State:
    """Have hosts read again, unless that is going on."""
    if state.rereading:
        return state
    turn = state.reread_turn + 1
    return replace(state, rereading=turn, reread_turn=turn, reread_at=None)


def again(state: State, at: float) -> State:
    """Whoever read them is gone: what he would say is not waited for, and they are read anew."""
    soon = at if state.hold(REREAD) is not None else None
    return replace(state, rereading=0, reread_at=soon)


def action(before: State, after: State) -> tuple[ReadAgain, ...]:
    """What the carrier has to read after an event: the silent ones, or what the stage asks for."""
    if not after.rereading or after.reread_turn == before.reread_turn:
        return ()
    held = after.hold(REREAD)
    silent = sum(bit(index) for index in held.hosts) if held is not None else 0
    hosts = silent & believed(after) or sample(after)
    return (ReadAgain(after.reread_turn, hosts, at_the_end(after)),)


# ---------------------------------------------------------------- what is told


def told(state: State, event: HostsRead) -> State:
    """What was found on the hosts that were to be read last."""
    if not event.turn or event.turn != state.rereading:
        return state
    state = replace(state, rereading=0, arrived=event.arrived, arrived_more=event.others)
    wrong = [found for found in event.wrong if has(believed(state), found.index)]
    other = [found for found in wrong if found.answered]
    silent = [found for found in wrong if not found.answered]
    if other:
        state = _reverted(state, other, event)
    state = _silent(state, silent, event)
    if wrong or event.more or event.problem:
        return state
    read = counted(event.read, "changed host")
    state = note(state, event.at, f"{read} read again: all as they should be")
    settled = not state.waiting and not state.in_flight
    return replace(state, true_wave=state.wave) if settled else state


def _reverted(state: State, found: list[HostFound], event: HostsRead) -> State:
    """Hosts that are not at the new version any more are not changed, and a person is asked."""
    for one in found:
        state = _no_longer_changed(state, one, event.at)
    old = state.hold(REVERTED)
    reasons = [*(old.reasons if old else ()), *(f"{one.name} is {one.found}" for one in found)]
    hosts = {*(old.hosts if old else ()), *(one.index for one in found)}
    kept = tuple(dict.fromkeys(reasons))
    held = Hold(REVERTED, event.at, kept, BY_A_PERSON, hosts=tuple(sorted(hosts)))
    return raise_hold(state, held)


def _no_longer_changed(state: State, found: HostFound, at: float) -> State:
    lost = bit(found.index)
    astray = state.astray | lost if found.away else state.astray
    state = replace(state, changed=state.changed & ~lost, astray=astray)
    known = Exceptional(found.index, found.name, "reverted", found.found, at)
    return named.remember(state, known, held=True)


def _silent(state: State, silent: list[HostFound], event: HostsRead) -> State:
    """Hosts that do not answer are neither true nor reverted: nothing goes on without them."""
    heard = tuple(known for known in state.exceptional if known.outcome != "silent")
    state = replace(state, exceptional=heard)
    if not silent and not event.more and not event.problem:
        return clear_hold(state, REREAD, event.at, "all hosts that were silent have answered")
    reasons = [f"{one.name} {one.found}" for one in silent]
    reasons += [f"changed hosts could not be read again: {event.problem}"] if event.problem else []
    more = f"{counted(event.more, 'more host')} {'is' if event.more == 1 else 'are'}"
    reasons += [f"{more} not as they should be"] if event.more else []
    ends = f"their answers, read once more every {AGAIN:g} s; or a person: skip the hosts"
    hosts = () if event.more or event.problem else tuple(one.index for one in silent)
    state = replace(state, reread_at=event.at + AGAIN)
    for one in silent if hosts else ():
        known = Exceptional(one.index, one.name, "silent", one.found, event.at)
        state = named.remember(state, known, held=True)
    return raise_hold(state, Hold(REREAD, event.at, tuple(reasons), ends, hosts=hosts))


# ---------------------------------------------------------------- what follows


def refresh(state: State, now: float) -> State:
    """Read silent hosts once more when it is time; going back nobody is waited for."""
    if state.direction == "back":
        return _let_be(state, now)
    held = state.hold(REREAD) is not None
    if held and state.reread_at is not None and now >= state.reread_at - 0.001:
        return ask(state)
    return state


def _let_be(state: State, now: float) -> State:
    if not state.rereading and state.hold(REREAD) is None and state.hold(REVERTED) is None:
        return state
    for name in (REREAD, REVERTED):
        state = clear_hold(state, name, now, "the operation goes back")
    heard = tuple(known for known in state.exceptional if known.outcome != "silent")
    return replace(state, rereading=0, reread_at=None, exceptional=heard)


def left_out(state: State) -> str:
    """The hosts that came since the plan was made, in words that follow another sentence."""
    if not state.arrived:
        return ""
    count = len(state.arrived) + state.arrived_more
    more = f" and {state.arrived_more} more" if state.arrived_more else ""
    came = f"{counted(count)} came since the plan was made"
    return (
        f"; {came} and {'is' if count == 1 else 'are'} left out: {', '.join(state.arrived)}{more}"
    )


def doing(state: State) -> str:
    """What is read just now, in words; empty: nothing."""
    return ", reading changed hosts again" if state.rereading else ""
