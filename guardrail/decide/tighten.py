"""What do the policies say now, and what of it is stricter than what an operation keeps to?

The worker's policies are merged again whenever an operation is about to go on: before each wave's
first host, the first wave included, and after every hold, so after each resume. What became
stricter applies at once; what became looser does not, for the operation was agreed to as planned.

    baked ── policies asked for ──▶ merged: tightened, go on
                                └─▶ cannot be read: hold `policy`, asked for again until they can

Until the answer is there no host begins: an operation that cannot know its policies must not go on.
Going back does not wait: it goes within the limits that are known, which only ever get stricter.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

from guardrail.decide import learn
from guardrail.decide.bits import union
from guardrail.decide.calendar import stricter_of
from guardrail.decide.evolve import replace
from guardrail.decide.found import counted
from guardrail.decide.holds import clear_hold, note, raise_hold
from guardrail.decide.rollback import wave_span
from guardrail.decide.stricter import FIELDS
from guardrail.decide.tiers import cut_where_full, overfull
from guardrail.decide.waves import cut_again
from guardrail.model.budget import Budget, ChurnLimit, WarmRule
from guardrail.model.calendar import Calendar
from guardrail.model.operation import Hold, MergePolicies, PolicyMerged, State, WatchAgain
from guardrail.model.plan import ApprovalPoint, Caps, Course, GateRule, Limit, Merged, Wave

POLICY = "policy"
"""The hold while the worker's policies cannot be read."""

CAPS = {
    "unavailable": "unavailable",
    "unavailable_per_domain": "unavailable_per_domain",
    "domains_at_once": "domains_at_once",
    "failures": "failures",
    "failures_share": "failures_share",
    "failures_consecutive": "failures_consecutive",
    "pace": "pace",
}
"""Fields of `Caps` by the fields of `Terms` that say what stricter means."""

T = TypeVar("T")


# ---------------------------------------------------------------- when policies are asked for


def fresh(state: State) -> bool:
    """Whether the policies have been merged since the last hold and the last wave, as far as any
    host is still to be begun."""
    last = state.direction == "forward" and state.wave + 1 == len(state.course.waves)
    done = last and not state.waiting
    return state.policies_fresh or done or not state.course.merges


def ask(state: State) -> State:
    """Ask for them, unless they have been asked for."""
    if state.merge_pending or not state.course.merges:
        return state
    return replace(state, merge_turn=state.merge_turn + 1, merge_pending=True)


def stale(state: State) -> State:
    """Something holds: what was known of the policies is not good enough to go on with after it."""
    state = replace(state, policies_fresh=False) if state.policies_fresh else state
    return ask(state) if state.hold(POLICY) else state


def action(before: State, after: State) -> tuple[MergePolicies, ...]:
    """What the carrier has to do about policies after an event."""
    asked = after.merge_turn != before.merge_turn and not after.finished
    return (MergePolicies(after.merge_turn),) if asked else ()


def merged(state: State, event: PolicyMerged) -> State:
    """The answer: what is stricter applies; without one it is held, and asked for on and on."""
    if event.turn != state.merge_turn or not state.merge_pending:
        return state
    if event.merged is None:
        ends = "the policies of the worker's source can be read again"
        reasons = (event.problem or "no reason was given",)
        state = replace(state, policies_fresh=state.direction == "back")
        return raise_hold(state, Hold(POLICY, event.at, reasons, ends))
    state = clear_hold(state, POLICY, event.at, "the policies can be read again")
    # Told in the middle of a wave that goes back, they are not news for the next one.
    state = replace(state, policies_fresh=state.step == "baking", merge_pending=False)
    return apply(state, event.merged, event.at)


def watch_again(state: State, event: WatchAgain) -> State:
    """A new run of the carrier: whoever was asked is gone with the last one."""
    return replace(learn.watch_again(state, event), policies_fresh=False, merge_pending=False)


def apply(state: State, found: Merged, now: float) -> State:
    """The state under what became stricter."""
    forward = state.direction == "forward"
    hosts, whole_wave = learn.wave_hosts(state, state.wave), wave_span(state, state.wave)
    others = state.waiting & ~hosts  # of earlier waves, to be asked again
    begun = whole_wave & (state.tried | state.astray)
    untouched = forward and state.waiting & hosts == hosts and not begun
    first = state.wave + (0 if untouched else 1)
    course, notes = tightened(state.course, found, first, forward=forward, turn=state.turn)
    if not notes:
        return state
    anew = _watched(state.course) != _watched(course)
    state = replace(state, course=course)
    if untouched:
        state = replace(state, waiting=others | learn.wave_hosts(state, state.wave))
    for text in notes:
        state = note(state, now, f"policy: {text}")
    return learn.watch_anew(state, now) if anew else state


def _watched(course: Course) -> tuple[object, ...]:
    """What a watch has to know: the gates, and what those that take a slot of a ring must show."""
    gates = [(rule.name, rule.max_ages) for rule in course.gates]
    return (gates, course.budget.warm if course.budget.ring else ())


# ---------------------------------------------------------------- what is stricter


def tightened(
    course: Course, found: Merged, first: int, *, forward: bool = True, turn: int = 0
) -> tuple[Course, tuple[str, ...]]:
    """The course under the stricter of both, and what changed, in words that name the policy.

    first: the number of the first wave that no host has been asked of; earlier ones stay as they
    are. turn: the last one given; what hosts in flight must show stays as it was when they were
    asked. Nothing in the result is looser than in `course`; nothing changed: the same course.
    """
    notes: list[str] = []
    origins = {limit.name: f" ({limit.origin})" for limit in found.limits}

    def stricter(field: str, old: Any, new: Any, shown: str, name: str = "") -> Any:
        kept = strictest(field, old, new)
        if kept != old:
            was = "no limit" if old is None else f"{old:g}" if isinstance(old, float) else old
            notes.append(
                f"{shown} is now {_shown(kept)}, was {was}{origins.get(name or shown, '')}"
            )
        return kept

    caps = Caps(
        **{
            field: stricter(
                term, getattr(course.caps, field), getattr(found.caps, field), _title(term)
            )
            for term, field in CAPS.items()
        }
    )
    budget = _budget(course.budget, found, turn, notes)
    longer = budget.warm_within - course.budget.warm_within
    changed = {
        "caps": caps,
        "bake_for": stricter("bake", course.bake_for, found.bake_for, "bake.for"),
        "rollback_when": stricter(
            "rollback_when", course.rollback_when, found.rollback_when, "rollback.when"
        ),
        "leader_last": stricter("leader_last", course.leader_last, found.leader_last, "leaderLast"),
        "gates": _gates(course.gates, found.gates, notes),
        "budget": budget,
        "host_timeout": course.host_timeout + longer,
        "limits": tuple(_limit(limit, found.limits) for limit in course.limits),
        "calendar": _calendar(course.calendar, found.calendar, notes),
    }
    if forward:
        waves = _smaller(course.waves, found, first, origins.get("wave", ""), notes)
        changed |= _cut(course, waves)
        changed["approvals"] = _approvals(changed["approvals"], waves, first, found, notes)
    if not notes:
        return course, ()
    return dataclasses.replace(course, tightened=course.tightened + 1, **changed), tuple(notes)


def strictest(field: str, old: T, new: T) -> T:
    """The stricter of two values; None is no limit at all. Of equal ones the old."""
    if old is None or new is None:
        return new if old is None else old
    rank = FIELDS[field].rank
    return new if rank(new) < rank(old) else old


def _title(term: str) -> str:
    return FIELDS[term].path.partition(",")[0].removeprefix("limits.").removesuffix(".hosts")


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _limit(limit: Limit, found: Sequence[Limit]) -> Limit:
    """The limit with what policies say now, where that is stricter."""
    field = next((name for name in FIELDS if _title(name) == limit.name), None)
    for other in found:
        if field is not None and (other.name, other.unit) == (limit.name, limit.unit):
            kept = strictest(field, limit.value, other.value)
            return other if kept != limit.value else limit
    return limit


def _gates(
    rules: Sequence[GateRule], found: Sequence[GateRule], notes: list[str]
) -> tuple[GateRule, ...]:
    """Each gate under the stricter rule, then those that were not required before."""
    now = {rule.name: rule for rule in found}
    kept = [_rule(rule, now[rule.name], notes) if rule.name in now else rule for rule in rules]
    known = {rule.name for rule in rules}
    added = [rule for rule in found if rule.name not in known]
    notes += [f"gate {rule.name} is now required ({rule.required_by})" for rule in added]
    return (*kept, *added)


def _rule(old: GateRule, new: GateRule, notes: list[str]) -> GateRule:
    made = dataclasses.replace(
        old,
        grace=strictest("grace", old.grace, new.grace),
        recover_by=strictest("recover_by", old.recover_by, new.recover_by),
        good_for=strictest("recover_for", old.good_for, new.good_for),
        max_ages=(*old.max_ages, *(age for age in new.max_ages if age not in old.max_ages)),
    )
    notes += [f"gate {old.name} is judged more strictly"] if made != old else []
    return made


def _calendar(old: Calendar | None, new: Calendar | None, notes: list[str]) -> Calendar | None:
    """The closed times of both."""
    made = stricter_of(old, new)
    if made is not old and made is not None:
        places = dict.fromkeys(str(rule.origin) for rule in made.rules)
        notes.append(f"more is closed now ({', '.join(places)})")
    return made


def _budget(old: Budget, found: Merged, turn: int, notes: list[str]) -> Budget:
    """Limits on churn and on cold hosts, and warm-ups, that hold besides the ones there were."""
    churn = tuple(new for new in found.churn if not any(_keeps(kept, new) for kept in old.churn))
    cold = tuple(
        new
        for new in found.cold
        if not any(kept.hosts == new.hosts and kept.most <= new.most for kept in old.cold)
    )
    notes += [f"churn is now at most {limit} ({limit.origin})" for limit in churn]
    notes += [f"at most {counted(limit.most)} may be cold now ({limit.origin})" for limit in cold]
    warm = _warm(old.warm, found.warm, turn, notes)
    if not churn and not cold and not warm:
        return old
    return dataclasses.replace(
        old, churn=(*old.churn, *churn), cold=(*old.cold, *cold), warm=(*old.warm, *warm)
    )


def _warm(
    old: Sequence[WarmRule], found: Sequence[WarmRule], turn: int, notes: list[str]
) -> tuple[WarmRule, ...]:
    """Warm-ups that none of the others asks for: a gate more, hosts more, or less time.

    A gate that was asked for before stays the document that it was: one that has been changed
    since is refused where it is read.
    """
    digests = {rule.gate: rule.digest for rule in reversed(old)}
    added = tuple(
        dataclasses.replace(rule, digest=digests.get(rule.gate, rule.digest), after=turn)
        for rule in found
        if not any(_warms(kept, rule) for kept in old)
    )
    notes += [
        f"hosts must now be warm by gate {rule.gate} within {rule.within:g} s ({rule.origin})"
        for rule in added
    ]
    return added


def _warms(kept: WarmRule, new: WarmRule) -> bool:
    """Whether whoever is warm by the one is warm by the other."""
    inside = not union(new.hosts) & ~union(kept.hosts)
    return kept.gate == new.gate and kept.within <= new.within and inside


def _keeps(kept: ChurnLimit, new: ChurnLimit) -> bool:
    """Whether whoever keeps the one keeps the other."""
    return kept.departures <= new.departures and kept.per >= new.per


# ---------------------------------------------------------------- waves and their points


def _smaller(
    waves: tuple[Wave, ...], found: Merged, first: int, origin: str, notes: list[str]
) -> tuple[Wave, ...]:
    """The waves, those that have not begun no larger than they may be now, in all and of each
    tier; every host stays in its place."""
    smaller = cut_again(waves, found.wave, first)
    if smaller != waves:
        notes.append(f"waves are now of at most {counted(found.wave or 0)}{origin}")
    full = [tier for tier in found.tiers if overfull(smaller[first:], tier)]
    notes += [
        f"waves now have at most {counted(tier.most)} of {tier.role} ({tier.origin})"
        for tier in full
    ]
    return (*smaller[:first], *cut_where_full(smaller[first:], full))


def _cut(course: Course, waves: tuple[Wave, ...]) -> dict[str, Any]:
    """The waves, and the approvals by their new numbers."""
    number = {wave.begin: at for at, wave in enumerate(waves)}
    begins = [wave.begin for wave in course.waves]
    approvals = tuple(
        dataclasses.replace(point, wave=number[begins[point.wave]]) for point in course.approvals
    )
    return {"waves": waves, "approvals": approvals}


def _approvals(
    points: Sequence[ApprovalPoint],
    waves: Sequence[Wave],
    first: int,
    found: Merged,
    notes: list[str],
) -> tuple[ApprovalPoint, ...]:
    """Points that lie ahead, with the stricter count each; those that are passed stay passed."""
    kept = {point.point: point for point in points}
    begins = {wave.begin: number for number, wave in enumerate(waves)}
    for host, point in found.approvals:
        number = begins.get(host, 0)
        if number < first:
            continue
        old = kept.get(point.point)
        asked = dataclasses.replace(point, wave=number)
        if old is None:
            notes.append(f"an approval is now asked for at {point.point} ({point.origin})")
        elif any(
            (
                old.count < point.count,
                point.not_requester and not old.not_requester,
                point.verified and not old.verified,
            )
        ):
            notes.append(f"the approval at {point.point} is stricter ({point.origin})")
            asked = dataclasses.replace(
                asked,
                count=max(old.count, point.count),
                not_requester=old.not_requester or point.not_requester,
                verified=old.verified or point.verified,
            )
        else:
            continue
        kept[point.point] = asked
    return tuple(sorted(kept.values(), key=lambda point: (point.wave, point.point != "start")))
