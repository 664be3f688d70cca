"""Each rule of design.md §4 can fail: a planted fault for every way in which it could be broken.

A mutation replaces one function of the engine, where it is used, by a faulty one. The rule's
check must then fail within a budget of stories; the same budget finds nothing in the engine as
it is (`test_rules.py` spends a larger one).
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample

from guardrail import twins
from guardrail.decide import commands, explain, holds, learn, limits, transition
from guardrail.twins import drive

import checks
from builders import stories

BUDGET = 400
"""Stories looked at before a mutation counts as not caught."""


@dataclass(frozen=True)
class Mutation:
    """`fault` takes the place of `name` in a module (or of a key in a table of it)."""

    what: str
    rule: str
    place: object
    name: str
    fault: Callable


# ---------------------------------------------------------------- faults


def begin_under_holds(state, now):
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


def no_gate_hold(state, rule, watched, now):
    return state


def gate_hold_ends_itself(state, rule, watched, now):
    return GATE_HOLD(state, replace(rule, recover_by="evidence"), watched, now)


def evidence_hold_ends_at_once(state, rule, watched, now):
    return EVIDENCE_HOLD(state, replace(rule, good_for=0.0), watched, now)


def no_grace_hold(state, rule, watched, now):
    judged = watched.judgement
    if judged is not None and judged.verdict == "inconclusive":
        return state
    return EVIDENCE_HOLD(state, rule, watched, now)


def one_approver_is_enough(state, point, now):
    return APPROVAL_HOLD(state, replace(point, count=1), now)


def resume_clears_everything(state, command):
    for hold in state.holds:
        state = holds.clear_hold(state, hold.name, command.at, "resumed")
    return state


def unjudged_passes(watched):
    judged = watched.judgement
    return watched.since if judged is None or judged.verdict == "pass" else None


def inconclusive_passes(watched):
    judged = watched.judgement
    return watched.since if judged is not None and judged.verdict != "fail" else None


def bake_counts_all(state, now):
    since = state.baking_since
    baked = state.baked + (now - since if since is not None else 0.0)
    return replace(state, baked=baked, baking_since=now)


def baked_though_bad(state):
    return state.baked >= transition.bake_needed(state) or state.baking_since is not None


def any_gate_is_enough(state):
    return any(holds.passing_since(watched) is not None for watched in state.watched)


def evidence_is_never_stale(state, event):
    new = WATCH_AGAIN(state, event)
    return replace(new, watched=state.watched) if state.watched else new


def old_watch_counts(state, event):
    return replace(state, watched=tuple(learn._judged(old, event) for old in state.watched))


def lost_watch_counts(state, event):
    return WATCHER_LOST(state, replace(event, turn=state.watch_turn))


def in_flight_only(state):
    return len(state.in_flight)


def without_down(state):
    return limits.most_away(state) - limits.away(state)


def one_more(state):
    return limits.most_away(state) - limits.away(state) - sum(state.course.down) + 1


def any_domain(state, counts, domain):
    return True


def domain_without_down(state, counts, domain):
    return DOMAIN_HAS_ROOM(
        replace(state, course=replace(state.course, down=(0,) * len(state.course.down))),
        counts,
        domain,
    )


def only_its_own_domain(state, counts, domain):
    taken = counts[domain] + state.course.down[domain]
    return taken < state.course.caps.unavailable_per_domain


def no_pace(state):
    return None


def half_pace(state):
    pace = state.course.caps.pace
    return state.last_begin_at + pace / 2 if state.last_begin_at is not None and pace else None


def no_failures(state):
    return None


def one_failure_more(state):
    caps = replace(state.course.caps, failures=state.course.caps.failures + 1)
    return TOO_MANY(replace(state, course=replace(state.course, caps=caps)))


def no_row(state):
    caps = replace(state.course.caps, failures_consecutive=None)
    return TOO_MANY(replace(state, course=replace(state.course, caps=caps)))


def unknown_without_hold(state, event):
    return replace(UNKNOWN(state, event), holds=state.holds)


def failed_frees_its_place(state, event):
    return replace(FAILED(state, event), failed=state.failed)


def stays_waiting(state, index, now):
    return replace(BEGIN(state, index, now), waiting=state.waiting)


def same_turn(state, index, now):
    return replace(BEGIN(state, index, now), turn=max(1, state.turn))


def unknown_tried_again(state, event):
    return learn._not_begun(learn._remember(state, event), event)


def failed_tried_again(state, event):
    return learn._not_begun(FAILED(state, event), event)


def whole_wave_again(state, now):
    return NEXT_WAVE(replace(state, wave=max(-1, state.wave - 1)), now)


def any_turn(state, event):
    rest = tuple(other for other in state.in_flight if other.index != event.index)
    return learn.OUTCOMES[event.outcome](replace(state, in_flight=rest), event)


def any_turn_in_flight(state, event):
    flight = state.flight(event.index)
    return state if flight is None else any_turn(state, event)


def answer_ends_the_oldest(state, event):
    flight = state.flight(event.index)
    if flight is None or flight.turn != event.turn:
        return replace(state, in_flight=state.in_flight[1:])
    return HOST_ANSWERED(state, event)


def always_baked(state):
    return True


def no_bake(state):
    return 0.0


def half_bake(state):
    return state.course.bake_for / 2


def back_to_changing(state, now):
    """A hold does not send the wave back to baking."""
    if state.phase == "running" and state.holds and not state.hold(holds.ABORT):
        return state, ()
    return ADVANCE(state, now)


def bakes_in_flight(state, now):
    baked = BAKE(replace(state, in_flight=()), now)
    return replace(baked, in_flight=state.in_flight)


def keeps_its_bake(state, now):
    """A hold stops the bake, and what was baked before it still counts."""
    if state.phase == "running" and state.holds and not state.hold(holds.ABORT):
        return replace(state, step="baking", baking_since=None), ()
    return ADVANCE(state, now)


def permit_without_bake(state):
    return state.phase == "running" and not state.holds


def permit_always(state):
    return state.phase == "running"


def never(state, now):
    return None


def wake_without(forgotten):
    def moments(state):
        bare = replace(
            state,
            waiting=0 if forgotten == "pace" else state.waiting,
            baking_since=None if forgotten == "bake" else state.baking_since,
            watched=() if forgotten == "gates" else state.watched,
            course=replace(state.course, gates=()) if forgotten == "gates" else state.course,
        )
        return MOMENTS(bare)

    return moments


def never_good_again(rule, watched):
    return None


def no_settling(state, now):
    """The last host of a wave answered, and nobody turns to the bake."""
    actions = ()
    while (index := transition._host_to_begin(state, now)) is not None:
        state = transition.begin(state, index, now)
        actions = (*actions, transition.BeginHost(index, state.turn, state.direction))
    if not state.waiting and not state.in_flight:
        state = replace(state, step="baking", baked=0.0, baking_since=None)
        state = transition.bake(state, now)
    return state, actions


def not_begun_is_lost(state, event):
    return state


def retry_forgets(state, command):
    for index in commands.asked_about(state, command):
        state = learn.forget(commands._release(state, command, index), index)
    return state


def without_reasons(state, hold):
    return RAISE(state, replace(hold, reasons=()))


def without_end(state, hold):
    return RAISE(state, replace(hold, clears=""))


def without_readings(state, hold):
    return RAISE(state, replace(hold, judgement=None))


def empty_reasons(state, hold):
    return RAISE(state, replace(hold, reasons=(" ",)))


def end_without_reasons(state, now, phase, reasons):
    return FINISH(state, now, phase, ())


def sentence_without_holds(state):
    return SENTENCE(replace(state, holds=()))


def always_retry(state, hold):
    return f"retry {state.name}"


def always_resume(state, hold):
    return f"resume {state.name}"


GATE_HOLD, EVIDENCE_HOLD = holds._gate_hold, holds._evidence_hold
APPROVAL_HOLD, RAISE = holds._approval_hold, holds.raise_hold
WATCH_AGAIN, WATCHER_LOST = learn.watch_again, learn.watcher_lost
HOST_ANSWERED = learn.host_answered
UNKNOWN, FAILED = learn._unknown, learn._failed
DOMAIN_HAS_ROOM, TOO_MANY = limits.domain_has_room, limits.too_many_failures
ADVANCE, BAKE, BEGIN = transition.advance, transition.bake, transition.begin
NEXT_WAVE, FINISH, MOMENTS = transition.next_wave, transition.finish, transition._moments
SENTENCE = explain.sentence

MUTATIONS = [
    Mutation(what, rule, place, name, fault)
    for rule, rows in {
        "no_start_under_hold": [
            ("permits ignore holds", twins, "may_begin", permit_always),
            ("holds are ignored when asking", transition, "advance", begin_under_holds),
            ("a failing gate is not held", holds, "_gate_hold", no_gate_hold),
            ("a gate's hold ends without its person", holds, "_gate_hold", gate_hold_ends_itself),
            ("missing evidence is not held", holds, "_evidence_hold", no_grace_hold),
            ("good again for a moment", holds, "_evidence_hold", evidence_hold_ends_at_once),
            ("the grace has no alarm", transition, "_moments", wake_without("gates")),
            ("one approver instead of two", holds, "_approval_hold", one_approver_is_enough),
            ("resume clears every hold", commands.VERBS, "resume", resume_clears_everything),
            ("an unknown host is not held", learn.OUTCOMES, "unknown", unknown_without_hold),
            ("failures are not held", limits, "too_many_failures", no_failures),
        ],
        "inconclusive_never_advances": [
            ("a gate not judged yet passes", holds, "passing_since", unjudged_passes),
            ("inconclusive passes", holds, "passing_since", inconclusive_passes),
            ("inconclusive seconds are baked", transition, "bake", bake_counts_all),
            ("baked though evidence is bad", transition, "is_baked", baked_though_bad),
            ("one gate of two is enough", holds, "evidence_is_good", any_gate_is_enough),
            ("a new watch keeps old verdicts", learn, "watch_again", evidence_is_never_stale),
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
        ],
        "one_change_per_host": [
            ("begin leaves the host waiting", transition, "begin", stays_waiting),
            ("unknown is tried again by itself", learn.OUTCOMES, "unknown", unknown_tried_again),
            ("failed is tried again by itself", learn.OUTCOMES, "failed", failed_tried_again),
            ("a turn is given twice", transition, "begin", same_turn),
            ("a wave is done twice", transition, "next_wave", whole_wave_again),
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
        ],
        "resume_bakes_first": [
            ("always baked", transition, "is_baked", always_baked),
            ("no bake", transition, "bake_needed", no_bake),
            ("half a bake", transition, "bake_needed", half_bake),
            ("a resume does not go back to baking", transition, "advance", back_to_changing),
            ("what was baked before a hold counts", transition, "advance", keeps_its_bake),
            ("baked with hosts in flight", transition, "bake", bakes_in_flight),
            ("permits before the bake", twins, "may_begin", permit_without_bake),
        ],
        "progress": [
            ("nothing is looked at again", transition, "wake_at", never),
            ("the bake has no alarm", transition, "_moments", wake_without("bake")),
            ("the pace has no alarm", transition, "_moments", wake_without("pace")),
            ("evidence holds never end", holds, "good_again_at", never_good_again),
            ("a bake of no seconds never ends", transition, "begin_hosts", no_settling),
            ("not begun is lost", learn.OUTCOMES, "not_begun", not_begun_is_lost),
            ("retry forgets the host", commands.VERBS, "retry", retry_forgets),
        ],
        "explained": [
            ("holds without reasons", holds, "raise_hold", without_reasons),
            ("empty reasons", holds, "raise_hold", empty_reasons),
            ("holds that nothing ends", holds, "raise_hold", without_end),
            ("gates without readings", holds, "raise_hold", without_readings),
            ("an end without reasons", transition, "finish", end_without_reasons),
            ("a sentence without the holds", checks, "sentence", sentence_without_holds),
            ("retry is always advised", explain, "command_for", always_retry),
            ("resume is always advised", explain, "command_for", always_resume),
        ],
    }.items()
    for what, place, name, fault in rows
]


# ---------------------------------------------------------------- catching them


def breaks(rule, story):
    """Whether that rule's check fails for this story, or the engine falls over."""
    check = getattr(checks, rule)
    try:
        check(*story) if rule == "progress" else check(drive(*story, until=3000.0))
    except (AssertionError, IndexError, RecursionError):
        return True
    return False


def caught(rule):
    """A story that breaks the rule; None within the budget."""
    quick = settings(
        max_examples=BUDGET,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    with suppress(NoSuchExample):
        return find(stories(), lambda story: breaks(rule, story), settings=quick)
    return None


def plant(monkeypatch, mutation):
    if isinstance(mutation.place, dict):
        old = mutation.place[mutation.name]
        new = mutation.fault
        if isinstance(old, commands._Verb):
            new = replace(old, do=mutation.fault)
        monkeypatch.setitem(mutation.place, mutation.name, new)
        return
    original = getattr(mutation.place, mutation.name)
    for module in (holds, learn, limits, commands, transition, explain, twins, checks):
        if getattr(module, mutation.name, None) is original:
            monkeypatch.setattr(module, mutation.name, mutation.fault)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: f"{m.rule}: {m.what}")
def test_a_planted_fault_is_caught(mutation, monkeypatch):
    plant(monkeypatch, mutation)
    assert caught(mutation.rule) is not None, f"{mutation.what} breaks no story"


@pytest.mark.parametrize("rule", sorted({mutation.rule for mutation in MUTATIONS}))
def test_the_engine_as_it_is_survives_the_same_stories(rule):
    assert caught(rule) is None


def test_every_rule_has_several_faults():
    counts = {m.rule: sum(o.rule == m.rule for o in MUTATIONS) for m in MUTATIONS}
    assert set(counts) == {
        "no_start_under_hold",
        "inconclusive_never_advances",
        "limits_hold",
        "one_change_per_host",
        "answers_match_turns",
        "resume_bakes_first",
        "progress",
        "explained",
    }
    assert min(counts.values()) >= 2
