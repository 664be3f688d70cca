"""Which faults of the engine would break which rule? Planted, to show that each rule can fail.

A fault takes the place of one function of the engine, wherever it is used. The rule's own check
must find it; `guardrail.simulation.campaign` counts how many seeds that takes.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from guardrail.decide import (
    bits,
    carry,
    catalog,
    catalog_holds,
    churning,
    coldness,
    commands,
    downs,
    evolve,
    explain,
    freeze_holds,
    freezes,
    holds,
    learn,
    limits,
    observing,
    overrides,
    overriding,
    people,
    ring,
    rollback,
    still_true,
    tighten,
    transition,
    waves,
    windows,
)
from guardrail.model.operation import BeginHost, Commanded, Hold, Phase, State, Watched
from guardrail.model.plan import ApprovalPoint, GateRule
from guardrail.simulation import freezing, rules_holds, world


@dataclass(frozen=True, slots=True)
class Fault:
    """`fault` takes the place of `name` in a module (or of a key in a table of it)."""

    what: str
    rule: str
    place: Any
    name: str
    fault: Callable[..., Any]


# ---------------------------------------------------------------- faults


def begin_under_holds(state: State, now: float) -> Any:
    """`advance` without its look at holds."""
    if state.phase != "running":
        return state, ()
    if state.step == "baking":
        state = transition.bake(state, now)
        return (
            transition.go_on(state, now)
            if transition.is_baked(state) and not state.in_flight
            else (state, ())
        )
    return transition.begin_hosts(state, now)


def no_gate_hold(state: State, rule: GateRule, watched: Watched, now: float) -> Any:
    return state


def gate_hold_ends_itself(state: State, rule: GateRule, watched: Watched, now: float) -> Any:
    return GATE_HOLD(state, replace(rule, recover_by="evidence"), watched, now)


def evidence_hold_ends_at_once(state: State, rule: GateRule, watched: Watched, now: float) -> Any:
    return EVIDENCE_HOLD(state, replace(rule, good_for=0.0), watched, now)


def no_grace_hold(state: State, rule: GateRule, watched: Watched, now: float) -> Any:
    judged = watched.judgement
    if judged is not None and judged.verdict == "inconclusive":
        return state
    return EVIDENCE_HOLD(state, rule, watched, now)


def one_approver_is_enough(state: State, point: ApprovalPoint, now: float) -> Any:
    return APPROVAL_HOLD(state, replace(point, count=1), now)


def resume_clears_everything(state: State, command: Commanded) -> Any:
    for hold in state.holds:
        state = holds.clear_hold(state, hold.name, command.at, "resumed")
    return state


def unjudged_passes(watched: Watched) -> Any:
    judged = watched.judgement
    return watched.since if judged is None or judged.verdict == "pass" else None


def inconclusive_passes(watched: Watched) -> Any:
    judged = watched.judgement
    return watched.since if judged is not None and judged.verdict != "fail" else None


def bake_counts_all(state: State, now: float) -> Any:
    since = state.baking_since
    baked = state.baked + (now - since if since is not None else 0.0)
    return replace(state, baked=baked, baking_since=now)


def baked_though_bad(state: State) -> Any:
    return state.baked >= transition.bake_needed(state) or state.baking_since is not None


def any_gate_is_enough(state: State) -> Any:
    return any(holds.passing_since(watched) is not None for watched in state.watched)


def evidence_is_never_stale(state: State, at: float) -> Any:
    new = WATCH_ANEW(state, at)
    return replace(new, watched=state.watched) if state.watched else new


def old_watch_counts(state: State, event: Any) -> Any:
    return replace(state, watched=tuple(learn._judged(old, event) for old in state.watched))


def in_flight_only(state: State) -> Any:
    return len(state.in_flight)


def without_down(state: State) -> Any:
    return limits.most_away(state) - limits.away(state)


def one_more(state: State) -> Any:
    return limits.most_away(state) - limits.away(state) - sum(state.course.down) + 1


def any_domain(state: State, counts: Counter[int], domain: int) -> Any:
    return True


def domain_without_down(state: State, counts: Counter[int], domain: int) -> Any:
    return DOMAIN_HAS_ROOM(
        replace(state, course=replace(state.course, down=(0,) * len(state.course.down))),
        counts,
        domain,
    )


def only_its_own_domain(state: State, counts: Counter[int], domain: int) -> Any:
    taken = counts[domain] + state.course.down[domain]
    return taken < state.course.caps.unavailable_per_domain


def no_pace(state: State) -> Any:
    return None


def half_pace(state: State) -> Any:
    pace = state.course.caps.pace
    return state.last_begin_at + pace / 2 if state.last_begin_at is not None and pace else None


def no_failures(state: State) -> Any:
    return None


def one_failure_more(state: State) -> Any:
    caps = replace(state.course.caps, failures=state.course.caps.failures + 1)
    return TOO_MANY(replace(state, course=replace(state.course, caps=caps)))


def no_row(state: State) -> Any:
    caps = replace(state.course.caps, failures_consecutive=None)
    return TOO_MANY(replace(state, course=replace(state.course, caps=caps)))


def unknown_without_hold(state: State, event: Any) -> Any:
    return replace(UNKNOWN(state, event), holds=state.holds)


def failed_frees_its_place(state: State, event: Any) -> Any:
    return replace(FAILED(state, event), failed=state.failed)


def stays_waiting(state: State, index: int, now: float) -> Any:
    return replace(BEGIN(state, index, now), waiting=state.waiting)


def same_turn(state: State, index: int, now: float) -> Any:
    return replace(BEGIN(state, index, now), turn=max(1, state.turn))


def unknown_tried_again(state: State, event: Any) -> Any:
    return learn._not_begun(learn._remember(state, event), event)


def failed_tried_again(state: State, event: Any) -> Any:
    return learn._not_begun(FAILED(state, event), event)


def whole_wave_again(state: State, now: float) -> Any:
    return NEXT_WAVE(replace(state, wave=max(-1, state.wave - 1)), now)


def any_turn(state: State, event: Any) -> Any:
    rest = tuple(other for other in state.in_flight if other.index != event.index)
    return learn.OUTCOMES[event.outcome](replace(state, in_flight=rest), event)


def any_turn_in_flight(state: State, event: Any) -> Any:
    flight = state.flight(event.index)
    return state if flight is None else any_turn(state, event)


def answer_ends_the_oldest(state: State, event: Any) -> Any:
    flight = state.flight(event.index)
    if flight is None or flight.turn != event.turn:
        return replace(state, in_flight=state.in_flight[1:])
    return HOST_ANSWERED(state, event)


def always_baked(state: State) -> Any:
    return True


def no_bake(state: State) -> Any:
    return 0.0


def half_bake(state: State) -> Any:
    return state.course.bake_for / 2


def back_to_changing(state: State, now: float) -> Any:
    """A hold does not send the wave back to baking."""
    if state.phase == "running" and state.holds and not state.hold(holds.ABORT):
        return state, ()
    return ADVANCE(state, now)


def bakes_in_flight(state: State, now: float) -> Any:
    baked = BAKE(replace(state, in_flight=()), now)
    return replace(baked, in_flight=state.in_flight)


def keeps_its_bake(state: State, now: float) -> Any:
    """A hold stops the bake, and what was baked before it still counts."""
    if state.phase == "running" and state.holds and not state.hold(holds.ABORT):
        return replace(state, step="baking", baking_since=None), ()
    return ADVANCE(state, now)


def permit_without_bake(state: State, turn: int | None = None) -> Any:
    return state.phase == "running" and not state.holds


def permit_always(state: State, turn: int | None = None) -> Any:
    return state.phase == "running"


def never(state: State, now: float) -> Any:
    return None


def wake_without(forgotten: str) -> Any:
    def moments(state: State) -> Any:
        bare = replace(
            state,
            waiting=0 if forgotten == "pace" else state.waiting,
            baking_since=None if forgotten == "bake" else state.baking_since,
            watched=() if forgotten == "gates" else state.watched,
            course=replace(state.course, gates=()) if forgotten == "gates" else state.course,
        )
        return MOMENTS(bare)

    return moments


def never_good_again(rule: GateRule, watched: Watched) -> Any:
    return None


def no_settling(state: State, now: float) -> Any:
    """The last host of a wave answered, and nobody turns to the bake."""
    actions: tuple[BeginHost, ...] = ()
    while (index := transition._host_to_begin(state, now)) is not None:
        state = transition.begin(state, index, now)
        actions = (*actions, BeginHost(index, state.turn, state.direction))
    if not state.waiting and not state.in_flight:
        state = replace(state, step="baking", baked=0.0, baking_since=None)
        state = transition.bake(state, now)
    return state, actions


def not_begun_is_lost(state: State, event: Any) -> Any:
    return state


def retry_forgets(state: State, command: Commanded) -> Any:
    for index in commands.asked_about(state, command):
        state = learn.forget(commands._release(state, command, index), index)
    return state


def without_reasons(state: State, hold: Hold) -> Any:
    return RAISE(state, replace(hold, reasons=()))


def without_end(state: State, hold: Hold) -> Any:
    return RAISE(state, replace(hold, clears=""))


def without_readings(state: State, hold: Hold) -> Any:
    return RAISE(state, replace(hold, judgement=None))


def empty_reasons(state: State, hold: Hold) -> Any:
    return RAISE(state, replace(hold, reasons=(" ",)))


def end_without_reasons(state: State, now: float, phase: Phase, reasons: tuple[str, ...]) -> Any:
    return FINISH(state, now, phase, ())


def sentence_without_holds(state: State) -> Any:
    return SENTENCE(replace(state, holds=()))


def always_retry(state: State, hold: Hold) -> Any:
    return f"retry {state.name}"


def always_resume(state: State, hold: Hold) -> Any:
    return f"resume {state.name}"


# ---------------------------------------------------------------- faults of going back


def permit_for_any_turn(state: State, turn: int | None = None) -> Any:
    return MAY_BEGIN(state)


def permit_back(state: State, turn: int | None = None) -> Any:
    return MAY_BEGIN(state, turn) or (state.direction == "back" and state.phase == "running")


def turns_and_forgets(state: State, now: float, scope: Any, why: str) -> Any:
    return TURN_BACK(
        replace(state, take_back=0, tried=state.tried | state.take_back), now, scope, why
    )


def oldest_first(state: State, hosts: int) -> Any:
    return bits.members(hosts)


def only_forward(state: State, rule: GateRule) -> Any:
    return state.direction == "forward"


def always_binds(state: State, rule: GateRule) -> Any:
    return True


def one_breaks_the_glass(state: State, rule: GateRule) -> Any:
    return GATE_BINDS(state, rule) and not state.churn_accepted


def any_version_is_bad(state: State, now: float) -> Any:
    """Everything is left before the system has recovered."""
    return 1.0 if state.catalog.departures else None


def quickly_back(state: State) -> Any:
    """A bad version is left at the pace of any other."""
    return GAP(replace(state, back_gap=None))


def whoever_left(state: State) -> Any:
    """What anybody's leaving takes of the budget is excused with a bad version."""
    return state.course.hosts and (1 << state.course.hosts) - 1


def bake_with_breaks(state: State, now: float) -> Any:
    """What was good before a gap counts for `recover.for`."""
    return replace(BAKE(state, now), baked=BAKE(replace(state, turned_at_turn=-1), now).baked)


def without_astray(state: State) -> Any:
    return state.unknown | state.failed


def any_domain_back(state: State, counts: Counter[int], domain: int) -> Any:
    return state.direction == "back" or DOMAIN_HAS_ROOM(state, counts, domain)


def any_room_back(state: State) -> Any:
    return 99 if state.direction == "back" else ROOM(state)


def no_pace_back(state: State) -> Any:
    return None if state.direction == "back" else NEXT_BEGIN_AT(state)


def whole_waves(state: State) -> Any:
    return (1 << state.course.waves[state.wave].end) - 1


def without_tried(state: State) -> Any:
    return state.changed | state.failed | state.unknown


def one_wave_is_all(state: State, now: float) -> Any:
    return GO_ON_BACK(replace(state, scope="all"), now)


def forgiven_back(state: State) -> Any:
    return None if state.direction == "back" else TOO_MANY(state)


def any_wave(state: State) -> Any:
    entered = ENTER_WAVE(state)
    stuck = state.failed | state.unknown | state.blocked
    busy = sum(1 << flight.index for flight in state.in_flight)
    return replace(entered, waiting=state.take_back & ~(stuck | busy))


def forward_again(state: State, now: float) -> Any:
    if state.direction == "back" and not state.holds and state.reverted:
        state = replace(state, direction="forward")
    return ADVANCE(state, now)


def no_safety_gates(state: State) -> Any:
    return frozenset()


def never_means_ask(state: State, command: Commanded) -> Any:
    return REFUSE(replace(state, course=replace(state.course, rollback_when="ask")), command)


def always_auto(state: State, now: float) -> Any:
    turned = CONSIDER(replace(state, course=replace(state.course, rollback_when="auto")), now)
    return replace(turned, course=state.course)


def never_auto(state: State, now: float) -> Any:
    return state


def always_forward(state: State, index: int, now: float) -> Any:
    return BEGIN(replace(state, direction="forward"), index, now)


def not_taken_back(state: State, event: Any) -> Any:
    return state


def everything_binds(state: State, hold: Hold) -> Any:
    return True


def no_way_for_astray(state: State, now: float = 1e9) -> Any:
    return NEXT_HOST(state, now) if limits.room(state) > 0 else None


def unpack_without_waiting(carried: Any, course: Any) -> Any:
    return replace(UNPACK(carried, course), waiting=0)


def never_over(state: State, now: float) -> Any:
    return state


def no_end(state: State) -> Any:
    return None


def nobody_asked(state: State, limit: str, value: float) -> Any:
    return ()


def any_name(point: ApprovalPoint) -> Any:
    return False


def nobody_may_have(state: State, point: ApprovalPoint) -> Any:
    return False


def drain_for_good(state: State, event: Any) -> Any:
    return replace(WATCH_AGAIN(state, event), draining=state.draining)


# ---------------------------------------------------------------- faults of windows


def windows_ignored(state: State, now: float, left: float, bake: float) -> Any:
    return state


def closes_when_it_closes(course: Any) -> Any:
    return 0.0


def open_for_all(course: Any, at: float, direction: Any) -> Any:
    return True


def binds_forward_only(state: State, calendar: Any) -> Any:
    return state.direction == "forward"


def binds_both_ways(state: State, calendar: Any) -> Any:
    return True


def no_edges(state: State, now: float, left: float, bake: float) -> Any:
    return ()


def any_peak(state: State, now: float) -> Any:
    return True


def peak_from_the_start(state: State, now: float, *, good: bool) -> Any:
    return replace(state, covering_since=state.started_at)


def opens_by_itself(state: State, now: float, left: float, bake: float) -> Any:
    if state.hold(windows.WINDOW) is not None and now - state.holds[-1].since > 10.0:
        return holds.clear_hold(state, windows.WINDOW, now, "time is up")
    return WINDOW_REFRESH(state, now, left, bake)


WINDOW_REFRESH = windows.refresh


# ---------------------------------------------------------------- faults of reading again


def nothing_is_due(state: State) -> Any:
    return False


def only_the_first(state: State) -> Any:
    hosts = still_true.believed(state)
    return hosts & -hosts


def reverted_is_true(state: State, event: Any) -> Any:
    return TOLD(state, replace(event, wrong=()))


def silence_is_true(state: State, event: Any) -> Any:
    return TOLD(state, replace(event, wrong=tuple(one for one in event.wrong if one.answered)))


def true_for_good(state: State, now: float) -> Any:
    """What was true before a hold is taken for true after it."""
    after, actions = ADVANCE(state, now)
    kept = state.true_wave if after.wave == state.wave else after.true_wave
    return replace(after, true_wave=kept), actions


def any_reading(state: State, event: Any) -> Any:
    return TOLD(replace(state, rereading=event.turn), event)


def silent_for_good(state: State, now: float) -> Any:
    return still_true._let_be(state, now) if state.direction == "back" else state


def moved_is_true(state: State, event: Any) -> Any:
    return LOOKED(state, replace(event, reasons=(), problem=""))


LOOKED = observing.told
TOLD = still_true.told
# ---------------------------------------------------------------- faults about the catalog


def nobody_is_down(state: State) -> Any:
    return 0


def anybody_may_leave(state: State, hosts: int, now: float) -> Any:
    return hosts


def anybody_may_be_cold(state: State, hosts: int) -> Any:
    return hosts


def warm_at_once(state: State, event: Any) -> Any:
    return replace(state, cold=state.cold & ~bits.bit(event.index))


def never_taken(state: State, event: Any) -> Any:
    """Who takes a slot is warm at once."""
    return replace(RING_SEEN(state, event), fresh=0)


def nobody_is_missing(state: State, hosts: int) -> Any:
    """Slots that nobody serves, and other nodes' slots, do not count."""
    return (((state.cold & state.serving) | state.fresh) & hosts).bit_count()


def asked_is_warm(state: State, hosts: int) -> Any:
    """Who was asked and has its slot still counts as warm."""
    known = state.catalog.ring
    return (state.fresh & hosts).bit_count() + known.empty + len(known.fresh)


def bake_is_enough(state: State) -> Any:
    """A bake warms those that a gate must show to be warm."""
    return 0


def warm_of_any_turn(state: State, event: Any) -> Any:
    """What a host says of its warmth is believed of any turn."""
    return coldness._told(state, event.index, event.percent)


def warm_for_two(state: State, hosts: int) -> Any:
    """A host that is half warm counts as warm."""
    return sum(100 for index, _ in state.warmth if (hosts & state.cold) >> index & 1)


def all_back(state: State) -> Any:
    """Nobody is down any more that was when the plan was made."""
    return (0,) * len(state.course.down)


def all_warm(state: State) -> Any:
    return replace(state, cold=0)


def no_bake_helps(state: State) -> Any:
    return False


def only_ours(state: State, limit: Any, now: float) -> Any:
    return tuple(one for one in WITHIN(state, limit, now) if one.turn)


def not_expected(state: State, index: int, turn: int, now: float) -> Any:
    return state


def as_it_is(one: Any, turns: Any, now: float) -> Any:
    return one


def always_good(state: State) -> Any:
    return True


def no_catalog_hold(state: State, now: float) -> Any:
    return state


def nothing_survives(hold: Hold) -> Any:
    return False


def binds_forward(freeze: Any, direction: str) -> bool:
    return direction == "forward"


def nothing_refuses(places: Any, now: float, direction: str) -> Any:
    return ()


def no_moments(state: State, now: float) -> Any:
    return []


RING_SEEN = ring.seen
WITHIN = catalog.within
WATCH_ANEW = learn.watch_anew
MAY_BEGIN, TURN_BACK, GATE_BINDS = transition.may_begin, rollback.turn_back, holds.gate_binds
GAP = limits.gap
ROOM, NEXT_BEGIN_AT, NEXT_HOST = limits.room, limits.next_begin_at, limits.next_host
GO_ON_BACK, ENTER_WAVE = transition.go_on_back, rollback.enter_wave
REFUSE, CONSIDER, UNPACK = rollback.refuse, rollback.consider, carry.unpack
GATE_HOLD, EVIDENCE_HOLD = holds._gate_hold, holds._evidence_hold
APPROVAL_HOLD, RAISE = holds._approval_hold, holds.raise_hold
WATCH_AGAIN = learn.watch_again
HOST_ANSWERED = learn.host_answered
UNKNOWN, FAILED = learn._unknown, learn._failed
DOMAIN_HAS_ROOM, TOO_MANY = limits.domain_has_room, limits.too_many_failures
ADVANCE, BAKE, BEGIN = transition.advance, transition.bake, transition.begin
NEXT_WAVE, FINISH, MOMENTS = transition.next_wave, transition.finish, transition._moments
SENTENCE = explain.sentence


def never_asked(state: State) -> bool:
    return True


def newest_counts(field: str, old: Any, new: Any) -> Any:
    return old if new is None else new


def nothing_is_stricter(course: Any, found: Any, first: int, **_: Any) -> Any:
    return course, ()


def share_of_all(share: Any, hosts: int) -> Any:
    return hosts


def as_large_as_before(waves: Any, *_: Any) -> Any:
    return waves


def no_tiers(waves: Any, tiers: Any) -> Any:
    return tuple(waves)


def one_host_lost(waves: Any, most: Any, first: int) -> Any:
    cut = CUT_AGAIN(waves, most, first)
    return cut if len(cut) == len(waves) else (*cut[:-1], replace(cut[-1], end=cut[-1].end - 1))


def begun_ones_too(waves: Any, most: Any, first: int) -> Any:
    return CUT_AGAIN(waves, most, max(0, first - 1))


def as_warm_as_before(*_: Any) -> Any:
    return ()


def newest_warm_up(old: Any, found: Any, turn: int, notes: Any) -> Any:
    return tuple(replace(rule, after=0) for rule in WARM(old, found, turn, notes))


CUT_AGAIN, WARM = waves.cut_again, tighten._warm


def unread_is_good(state: State, event: Any) -> State:
    if event.turn != state.merge_turn or not state.merge_pending:
        return state
    return evolve.replace(state, policies_fresh=True, merge_pending=False)


_ROWS: dict[str, list[tuple[str, Any, str, Callable[..., Any]]]] = {
    "policies_tighten": [
        ("policies are not asked for", tighten, "fresh", never_asked),
        ("what became looser applies", tighten, "strictest", newest_counts),
        ("what became stricter does not apply", tighten, "tightened", nothing_is_stricter),
        ("unread is good", transition.LEARN, "policy_merged", unread_is_good),
        ("waves are not cut smaller", tighten, "cut_again", as_large_as_before),
        ("a tier's smaller wave does not apply", tighten, "cut_where_full", no_tiers),
        ("a smaller wave loses a host", tighten, "cut_again", one_host_lost),
        ("a wave that has begun is cut", tighten, "cut_again", begun_ones_too),
        ("a stricter warm-up does not apply", tighten, "_warm", as_warm_as_before),
        ("a warm-up binds who was asked before", tighten, "_warm", newest_warm_up),
    ],
    "no_start_under_hold": [
        ("permits ignore holds", transition, "may_begin", permit_always),
        ("a drain is not heeded", transition.LEARN, "drained", learn.ticked),
        ("a journal that fails is not heeded", transition.LEARN, "journal_said", learn.ticked),
        ("holds are ignored when asking", transition, "advance", begin_under_holds),
        ("a failing gate is not held", holds, "_gate_hold", no_gate_hold),
        ("a gate's hold ends without its person", holds, "_gate_hold", gate_hold_ends_itself),
        ("missing evidence is not held", holds, "_evidence_hold", no_grace_hold),
        ("good again for a moment", holds, "_evidence_hold", evidence_hold_ends_at_once),
        ("the grace has no alarm", transition, "_moments", wake_without("gates")),
        ("one approver instead of two", holds, "_approval_hold", one_approver_is_enough),
        ("names that nobody vouches for make two", people, "needs_signature", any_name),
        ("two of whom one may have asked", people, "anybody_asked", nobody_may_have),
        ("resume clears every hold", commands.VERBS, "resume", resume_clears_everything),
        ("an unknown host is not held", learn.OUTCOMES, "unknown", unknown_without_hold),
        ("failures are not held", limits, "too_many_failures", no_failures),
        ("churn that is used up is not held", catalog_holds, "_churn", no_catalog_hold),
        ("a silent catalog is not held", catalog_holds, "_silence", no_catalog_hold),
        ("hosts newly down are not held", catalog_holds, "_down", no_catalog_hold),
        ("a turn round gives the budget back", catalog_holds, "survives_a_turn", nothing_survives),
    ],
    "inconclusive_never_advances": [
        ("a gate not judged yet passes", holds, "passing_since", unjudged_passes),
        ("inconclusive passes", holds, "passing_since", inconclusive_passes),
        ("inconclusive seconds are baked", transition, "bake", bake_counts_all),
        ("baked though evidence is bad", transition, "is_baked", baked_though_bad),
        ("one gate of two is enough", holds, "evidence_is_good", any_gate_is_enough),
        ("a new watch keeps old verdicts", learn, "watch_anew", evidence_is_never_stale),
    ],
    "limits_hold": [
        ("an unknown or failed host frees its place", limits, "away", in_flight_only),
        ("a failed host frees its place", learn.OUTCOMES, "failed", failed_frees_its_place),
        ("hosts down do not count", limits, "room", without_down),
        ("one host too many", limits, "room", one_more),
        ("no limit per domain", limits, "domain_has_room", any_domain),
        ("down hosts of a domain do not count", limits, "domain_has_room", domain_without_down),
        ("any number of domains", limits, "domain_has_room", only_its_own_domain),
        ("no pace", limits, "next_begin_at", no_pace),
        ("half the gap", limits, "next_begin_at", half_pace),
        ("one failure too many", limits, "too_many_failures", one_failure_more),
        ("failures in a row do not count", limits, "too_many_failures", no_row),
        ("a share is of all hosts", limits, "allowed_of", share_of_all),
        ("hosts newly down do not count", downs, "newly", nobody_is_down),
        ("whoever leaves, it is the version", churning, "own_doing", whoever_left),
        ("departures are not counted", catalog, "permitted", anybody_may_leave),
        ("cold hosts are not counted", coldness, "permitted", anybody_may_be_cold),
        ("who answers well is warm", coldness, "answered", warm_at_once),
        ("a failed host is warm after a bake", coldness, "baked", all_warm),
        ("who takes a slot is warm at once", ring, "seen", never_taken),
        ("slots that nobody serves do not count", ring, "cold", nobody_is_missing),
        ("slots of hosts that were asked do not count", ring, "cold", asked_is_warm),
        ("a bake stands for the gate of a slot", ring, "by_gate", bake_is_enough),
        ("who was down is back unseen", downs, "before", all_back),
        ("a little warm is warm", coldness, "_warm", warm_for_two),
        ("what others took is there for us", catalog, "within", only_ours),
        ("only what was seen counts", catalog, "asked", not_expected),
        ("who stands ready for long has left", catalog, "_may_still", as_it_is),
        ("asked though the catalog is silent", holds, "catalog_is_good", always_good),
        ("an override never ends", overriding, "expire", never_over),
        ("the end of an override has no alarm", overrides, "next_end", no_end),
        ("hosts asked under an override still begin", overriding, "exceeded", no_failures),
        ("owners are not asked", overrides, "wants", nobody_asked),
    ],
    "windows_hold": [
        ("windows are not looked at", windows, "refresh", windows_ignored),
        ("a host need not be done when it closes", windows, "host_seconds", closes_when_it_closes),
        ("windows never bind going back", windows, "_binds", binds_forward_only),
        ("windows always bind going back", windows, "_binds", binds_both_ways),
        ("the hold ends before it opens", windows, "refresh", opens_by_itself),
        ("the next stage does not wait for a peak", windows, "peak_is_covered", any_peak),
        ("any peak since the start counts", windows, "cover", peak_from_the_start),
        ("permits do not look at windows", windows, "open_for", open_for_all),
    ],
    "freezes_hold": [
        ("a freeze is not held", freeze_holds, "refresh", no_catalog_hold),
        ("freezes bind forward only", freezes, "binds", binds_forward),
        ("permits do not look at freezes", freezing, "refuses", nothing_refuses),
    ],
    "one_change_per_host": [
        ("begin leaves the host waiting", transition, "begin", stays_waiting),
        ("unknown is tried again by itself", learn.OUTCOMES, "unknown", unknown_tried_again),
        ("failed is tried again by itself", learn.OUTCOMES, "failed", failed_tried_again),
        ("a turn is given twice", transition, "begin", same_turn),
        ("a wave is done twice", transition, "next_wave", whole_wave_again),
        ("a permit for any turn", transition, "may_begin", permit_for_any_turn),
        ("all tries what failed again", rollback, "turn_back", turns_and_forgets),
    ],
    "answers_match_turns": [
        ("answers of any turn count", transition.LEARN, "host_answered", any_turn),
        ("a late echo counts", transition.LEARN, "host_answered", any_turn_in_flight),
        (
            "an echo ends another flight",
            transition.LEARN,
            "host_answered",
            answer_ends_the_oldest,
        ),
        ("an ended watch still reports", transition.LEARN, "gate_judged", old_watch_counts),
        ("a late reading counts", transition.LEARN, "hosts_read", any_reading),
        ("warmth of another turn is believed", transition.LEARN, "host_warming", warm_of_any_turn),
    ],
    "resume_bakes_first": [
        ("always baked", transition, "is_baked", always_baked),
        ("no bake", transition, "bake_needed", no_bake),
        ("half a bake", transition, "bake_needed", half_bake),
        ("a resume does not go back to baking", transition, "advance", back_to_changing),
        ("what was baked before a hold counts", transition, "advance", keeps_its_bake),
        ("baked with hosts in flight", transition, "bake", bakes_in_flight),
        ("permits before the bake", transition, "may_begin", permit_without_bake),
    ],
    "rollback_obeys_limits": [
        ("oldest first", limits, "_in_order", oldest_first),
        ("safety gates do not bind", holds, "gate_binds", only_forward),
        ("one person breaks the glass", holds, "gate_binds", one_breaks_the_glass),
        ("no time to recover", rollback, "recover_for", no_bake),
        ("any version is a bad one", churning, "gap", any_version_is_bad),
        ("quickly away from a bad version", limits, "gap", quickly_back),
        ("recovered with breaks", transition, "bake", bake_with_breaks),
        ("failed hosts free their place", limits, "not_serving", without_astray),
        ("any domain going back", limits, "domain_has_room", any_domain_back),
        ("no limit going back", limits, "room", any_room_back),
        ("no pace going back", limits, "next_begin_at", no_pace_back),
        ("hosts that were not changed", rollback, "touched", whole_waves),
        ("one wave is all", transition, "go_on_back", one_wave_is_all),
        ("failures going back are forgiven", limits, "too_many_failures", forgiven_back),
        ("an older wave before the newer is done", rollback, "enter_wave", any_wave),
    ],
    "no_loop": [
        ("forward again once all is well", transition, "advance", forward_again),
        ("auto because of a safety gate", rollback, "safety_gates", no_safety_gates),
        ("never means ask", rollback, "refuse", never_means_ask),
        ("ask means auto", rollback, "consider", always_auto),
        ("auto does not turn", rollback, "consider", never_auto),
        (
            "hosts begin forward after the turn",
            transition,
            "may_begin",
            permit_back,
        ),
        ("going back, hosts are asked forward", transition, "begin", always_forward),
    ],
    "progress": [
        ("health gates block going back", holds, "gate_binds", always_binds),
        ("a late answer does not go back", rollback, "late_answer", not_taken_back),
        ("what was tried again is forgotten", rollback, "touched", without_tried),
        ("approvals hold going back", rollback, "binds_back", everything_binds),
        ("hosts without room are stuck", limits, "next_host", no_way_for_astray),
        ("a new run forgets who waits", carry, "unpack", unpack_without_waiting),
        ("a drain never ends", transition.LEARN, "watch_again", drain_for_good),
        ("nothing is looked at again", transition, "wake_at", never),
        ("the bake has no alarm", transition, "_moments", wake_without("bake")),
        ("the calendar has no alarm", windows, "edges", no_edges),
        ("the pace has no alarm", transition, "_moments", wake_without("pace")),
        ("the catalog's holds have no alarm", catalog_holds, "moments", no_moments),
        ("nobody bakes to be warm", coldness, "bake_helps", no_bake_helps),
        ("evidence holds never end", holds, "good_again_at", never_good_again),
        ("a bake of no seconds never ends", transition, "begin_hosts", no_settling),
        ("not begun is lost", learn.OUTCOMES, "not_begun", not_begun_is_lost),
        ("retry forgets the host", commands.VERBS, "retry", retry_forgets),
        ("silent hosts are not read once more", still_true, "refresh", silent_for_good),
    ],
    "still_true": [
        ("hosts are not read again", still_true, "due", nothing_is_due),
        ("one host is enough", still_true, "sample", only_the_first),
        ("reverted hosts pass", transition.LEARN, "hosts_read", reverted_is_true),
        ("silent hosts pass", transition.LEARN, "hosts_read", silence_is_true),
        ("a reading outlives a hold", transition, "advance", true_for_good),
        ("a long hold leaves the plan as it is", observing, "due", nothing_is_due),
        ("what has moved does not hold", transition.LEARN, "plan_observed", moved_is_true),
    ],
    "explained": [
        ("holds without reasons", holds, "raise_hold", without_reasons),
        ("empty reasons", holds, "raise_hold", empty_reasons),
        ("holds that nothing ends", holds, "raise_hold", without_end),
        ("gates without readings", holds, "raise_hold", without_readings),
        ("an end without reasons", transition, "finish", end_without_reasons),
        ("a sentence without the holds", explain, "sentence", sentence_without_holds),
        ("retry is always advised", explain, "command_for", always_retry),
        ("resume is always advised", explain, "command_for", always_resume),
    ],
}

FAULTS: tuple[Fault, ...] = tuple(
    Fault(what, rule, place, name, fault)
    for rule, rows in _ROWS.items()
    for what, place, name, fault in rows
)


# ---------------------------------------------------------------- planting them

MODULES = (
    carry,
    catalog,
    catalog_holds,
    churning,
    coldness,
    downs,
    holds,
    learn,
    limits,
    observing,
    commands,
    overrides,
    overriding,
    people,
    ring,
    rollback,
    still_true,
    tighten,
    transition,
    waves,
    windows,
    explain,
    freeze_holds,
    freezes,
    freezing,
    rules_holds,
    world,
)


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """The engine with this fault in it."""
    undo: list[Callable[[], None]] = []
    try:
        _plant(fault, undo)
        yield
    finally:
        for each in reversed(undo):
            each()


def _plant(fault: Fault, undo: list[Callable[[], None]]) -> None:
    if isinstance(fault.place, dict):
        table, old = fault.place, fault.place[fault.name]
        undo.append(lambda: table.__setitem__(fault.name, old))
        verb = isinstance(old, commands._Verb)
        table[fault.name] = replace(old, do=fault.fault) if verb else fault.fault
        return
    original = getattr(fault.place, fault.name)
    for module in MODULES:
        if getattr(module, fault.name, None) is original:
            undo.append(lambda module=module: setattr(module, fault.name, original))  # type: ignore[misc]
            setattr(module, fault.name, fault.fault)
    for name, known in tuple(commands.VERBS.items()):
        if known.refuse is original:
            undo.append(lambda name=name, known=known: commands.VERBS.__setitem__(name, known))  # type: ignore[misc]
            commands.VERBS[name] = replace(known, refuse=fault.fault)
