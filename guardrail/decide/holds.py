"""What stands against starting anything new, why, and what ends it?

Holds of gates, evidence, approvals and limits follow from what is known: `refresh` raises the
ones that must stand and clears the ones whose reason has gone. Holds raised by a person or by
one host's answer are put there and taken away in `learn` and `commands`.
"""

import dataclasses
from operator import attrgetter

from guardrail.decide import downs, limits, overrides
from guardrail.decide.catalog import is_good as catalog_is_good
from guardrail.decide.evolve import replace
from guardrail.decide.found import counted
from guardrail.decide.freezes import are_known as freezes_are_known
from guardrail.decide.people import (
    anybody_asked,
    consents,
    needs_signature,
    sign_the_start,
    wanted,
)
from guardrail.model.operation import Hold, Note, State, Watched
from guardrail.model.plan import ApprovalPoint, GateRule
from guardrail.model.policy import RecoverBy

STORY_LINES = 200
ABORT = "abort"
JOURNAL = "journal"
FAILURES = "limit:failures"
UNAVAILABLE = "limit:unavailable"
BREAK_GLASS = 2
"""How many people it takes to accept churn in a system that is not well."""


def note(state: State, at: float, text: str) -> State:
    """The state with one more line in its story; the oldest lines go."""
    return replace(state, story=(*state.story, Note(at, text))[-STORY_LINES:])


def raise_hold(state: State, hold: Hold) -> State:
    """The state with this hold; one of the same name keeps its `since`."""
    old = state.hold(hold.name)
    if old is not None and _says(old) == _says(hold):
        return state
    kept = dataclasses.replace(hold, since=old.since) if old else hold
    others = [other for other in state.holds if other.name != hold.name]
    state = replace(state, holds=tuple(sorted([*others, kept], key=lambda h: h.name)))
    return state if old else note(state, hold.since, f"hold {hold.name}: {'; '.join(hold.reasons)}")


_says = attrgetter("reasons", "clears", "by", "hosts", "judgement")
"""All of a hold but its name and since when."""


def clear_hold(state: State, name: str, at: float, why: str) -> State:
    """The state without that hold."""
    if state.hold(name) is None:
        return state
    rest = tuple(hold for hold in state.holds if hold.name != name)
    return note(replace(state, holds=rest), at, f"hold {name} cleared: {why}")


def refresh(state: State, now: float) -> State:
    """Raise what must stand now and clear what need not stand any more."""
    for rule, watched in zip(state.course.gates, state.watched, strict=True):
        if state.holds or passing_since(watched) is None:  # else it has nothing to raise or clear
            state = _gate_hold(state, rule, watched, now)
            state = _evidence_hold(state, rule, watched, now)
    for point in state.course.approvals:
        state = _approval_hold(state, point, now)
    return _limit_holds(state, now)


# ---------------------------------------------------------------- gates and evidence


def passing_since(watched: Watched) -> float | None:
    """Since when the gate has passed; None while it does not pass."""
    judged = watched.judgement
    return watched.since if judged is not None and judged.verdict == "pass" else None


def evidence_is_good(state: State) -> bool:
    """Whether every gate that binds in this direction passes now.

    A gate that was not judged yet does not. Going back health gates do not bind, and none does
    once enough people have accepted churn, or where the new version itself is the trouble.
    """
    for rule, watched in zip(state.course.gates, state.watched, strict=True):
        if passing_since(watched) is None and gate_binds(state, rule):
            return False
    return catalog_is_good(state) and freezes_are_known(state)


def gate_binds(state: State, rule: GateRule) -> bool:
    """Whether a gate may stand in the way of the present direction."""
    if state.direction == "forward":
        return True
    before_recovery = state.back_gap is not None or len(state.churn_accepted) >= BREAK_GLASS
    return rule.gate_class == "safety" and not before_recovery


def evidence_due(rule: GateRule, watched: Watched) -> float | None:
    """When missing evidence becomes a hold; None while there is evidence, good or bad."""
    if watched.judgement is None:
        return watched.since + rule.first_within
    if watched.judgement.verdict == "inconclusive":
        return watched.since + rule.grace
    return None


def good_again_at(rule: GateRule, watched: Watched) -> float | None:
    """When evidence will have been good for `recover.for`; None while it does not pass."""
    since = passing_since(watched)
    return None if since is None else since + rule.good_for


def _recovered(rule: GateRule, watched: Watched, now: float) -> bool:
    at = good_again_at(rule, watched)
    return at is not None and now >= at


def recovers_by(state: State, rule: GateRule) -> RecoverBy:
    """Who ends a gate's hold. Going back was asked for already: evidence alone goes on."""
    return "evidence" if state.direction == "back" else rule.recover_by


def of_gate(state: State, rule: GateRule) -> bool:
    """Whether a gate holds: by its verdict, or by missing evidence."""
    if not state.holds:
        return False
    return bool(state.hold(f"gate:{rule.name}") or state.hold(f"evidence:{rule.name}"))


def _gate_hold(state: State, rule: GateRule, watched: Watched, now: float) -> State:
    name, judged = f"gate:{rule.name}", watched.judgement
    if judged is not None and judged.verdict == "fail":
        by_person = recovers_by(state, rule) == "person"
        ends = (
            f"evidence good for {rule.good_for:g} s"
            if not by_person
            else ("a person (resume), once the gate passes")
        )
        return raise_hold(state, Hold(name, now, judged.reasons, ends, judgement=judged))
    if state.hold(name) is None or recovers_by(state, rule) != "evidence":
        return state
    if _recovered(rule, watched, now):
        why = f"evidence good for {rule.good_for:g} s; on at half the pace"
        return replace(clear_hold(state, name, now, why), slowed=True)
    return state


def _evidence_hold(state: State, rule: GateRule, watched: Watched, now: float) -> State:
    name, due = f"evidence:{rule.name}", evidence_due(rule, watched)
    if due is not None and now >= due:
        return raise_hold(state, evidence_hold(rule, watched, now))
    if state.hold(name) is not None and _recovered(rule, watched, now):
        return clear_hold(state, name, now, f"evidence good for {rule.good_for:g} s")
    return state


def evidence_hold(rule: GateRule, watched: Watched, now: float, why: str = "") -> Hold:
    """The hold for missing evidence, with the reason that is known best."""
    judged = watched.judgement
    known = judged.reasons if judged is not None else ("the gate was not judged in time",)
    ends = f"evidence back and good for {rule.good_for:g} s"
    return Hold(f"evidence:{rule.name}", now, (why,) if why else known, ends, judgement=judged)


# ---------------------------------------------------------------- approvals and limits


def _approval_hold(state: State, point: ApprovalPoint, now: float) -> State:
    if state.wave < point.wave or state.direction == "back":
        return state
    name, given, most = f"approval:{point.point}", consents(state, point), wanted(state, point)
    if len(given) >= most:
        return clear_hold(state, name, now, f"approved by {', '.join(given)}")
    reasons = [f"{len(given)} of {most} approvals for {point.point} ({point.origin})"]
    if anybody_asked(state, point):
        one = "any one of those who approve may be that person: one more is wanted"
        reasons.append(sign_the_start(state, one))
    others = ", not the requester" if point.not_requester else ""
    sign = " --sign KEYFILE" if needs_signature(point) else ""
    ends = f"{most - len(given)} more people{others} (approve --point {point.point}{sign})"
    return raise_hold(state, Hold(name, now, tuple(reasons), ends))


def _limit_holds(state: State, now: float) -> State:
    why = too_far = limits.too_many_failures(state)
    ends = "a person: retry or skip the failed hosts, or abort"
    state = _stands(state, FAILURES, why, ends, now)
    stuck = None if too_far or _hosts_hold(state) else _no_room(state)
    ends = "room again: retry or skip a host"
    if not state.unknown | state.failed:
        ends = "nothing here: abort, and plan again once the hosts that are down are back"
    return _stands(state, UNAVAILABLE, stuck, ends, now)


def _hosts_hold(state: State) -> bool:
    """Whether a host's own hold explains already why nothing goes on."""
    return any(hold.name.startswith("host:") for hold in state.holds)


def _no_room(state: State) -> str | None:
    """Why no host will ever be begun without help: nothing in flight, and still no room."""
    if state.in_flight or not state.waiting or state.phase != "running":
        return None
    gone, down = limits.away(state), downs.total(state)
    if not (gone or down) or limits.next_host(state) is not None:
        return None
    most = f"{counted(limits.most_away(state))} away"
    if limits.room(state) > 0:
        caps = overrides.caps_now(state)
        domains = counted(caps.domains_at_once, "domain")
        most = f"{counted(caps.unavailable_per_domain)} away in each of {domains}"
    return f"{counted(gone)} unknown or failed and {down} down use up the limit of {most}"


def _stands(state: State, name: str, why: str | None, ends: str, now: float) -> State:
    if why is None:
        return clear_hold(state, name, now, "within the limit again") if state.holds else state
    return raise_hold(state, Hold(name, now, (why,), ends))
