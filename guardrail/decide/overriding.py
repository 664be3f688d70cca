"""Who may exceed a limit for a while, who has to agree, and what becomes of it when time is up?

asked ── no policy with owners allows less ─────────────▶ in force ── until ──▶ over
  └── owners: one of each such policy agrees, by key ──────┘ └── more hosts away than the plan
                                                                 allows: hold `override`, until
                                                                 what is in flight has settled
"""

from guardrail.decide import downs, limits, overrides
from guardrail.decide.evolve import replace
from guardrail.decide.found import counted
from guardrail.decide.holds import ABORT, clear_hold, note, raise_hold
from guardrail.decide.overrides import KNOBS, LONGEST, clock, looser, planned
from guardrail.decide.people import (
    anybody_asked,
    asked_for_it,
    needs_signature,
    sign_it,
    sign_the_start,
)
from guardrail.model.operation import Commanded, Hold, State
from guardrail.model.override import Override

OVER = "override"
"""The hold after an override has ended with more hosts away than the plan allows."""


# ---------------------------------------------------------------- asking


def refuse(state: State, command: Commanded) -> str | None:
    """Why this override cannot be had, in words that say what to do."""
    if command.limit not in KNOBS:
        return _no_such_limit(command.limit)
    return _refuse_person(state, command) or _refuse_value(state, command)


def _no_such_limit(name: str) -> str:
    never = "; waves are cut before the start: plan again" if name == "wave" else ""
    known = ", ".join(KNOBS)
    return (
        f"{name or 'that'} cannot be overridden{never}. Limits that can: {known}; what evidence "
        "must be, bakes, gates and approvals never can"
    )


def _refuse_person(state: State, command: Commanded) -> str | None:
    if state.hold(ABORT):
        return "it is being aborted: nothing new begins any more"
    if not command.reason.strip():
        return "an override needs --reason: it is recorded and shown"
    others = next((point for point in state.course.approvals if point.not_requester), None)
    if others is not None and asked_for_it(state, command):
        return (
            f"{command.by} asked for this operation, and {others.origin} wants somebody else to "
            "agree: somebody else has to override its limits"
        )
    unsure = next((point for point in state.course.approvals if anybody_asked(state, point)), None)
    if unsure is not None:
        other = f"whether {command.by} is somebody else, as {unsure.origin} wants, is not known"
        return sign_the_start(state, other)
    two = next((point for point in state.course.approvals if needs_signature(point)), None)
    if two is not None and not command.verified:
        return sign_it(command.by, f"an override where {two.origin} wants verified people")
    return None


def _refuse_value(state: State, command: Commanded) -> str | None:
    knob, now = KNOBS[command.limit], planned(state, command.limit)
    if now is None:
        return f"this plan has no limit {command.limit}: there is nothing to override"
    whole = command.value >= knob.least and command.value == knob.to(command.value)
    if not whole:
        return f"{command.limit} is in {knob.unit}, from {knob.least:g} on; not {command.value:g}"
    if command.value == now:
        there = any(each.limit == command.limit for each in state.overrides)
        return None if there else f"{command.limit} is {now:g} already"
    if not looser(command.limit, command.value, now):
        return f"the plan allows {command.limit} {now:g}; an override allows more, never less"
    return _refuse_time(command)


def _refuse_time(command: Commanded) -> str | None:
    left = command.until - command.at
    if not left > 0:
        return f"it would be over already ({clock(command.until) or 'no time'}): --until 2h"
    if left > LONGEST + 1 or command.until != int(command.until):
        return (
            f"an override lasts for {LONGEST / 3600:g} h at the most, to a whole second; for "
            "longer change the policy, where its owners see it"
        )
    return None


def obey(state: State, command: Commanded) -> State:
    """The override is there; in force, or waiting for owners. The plan's own value ends one."""
    rest = tuple(each for each in state.overrides if each.limit != command.limit)
    now = planned(state, command.limit) or 0.0
    if command.value == now:
        state = replace(state, overrides=rest)
        text = f"override of {command.limit} taken back by {command.by}: {now:g} again"
        return _exceeding(note(state, command.at, text), command.at)
    asked = Override(
        limit=command.limit,
        value=command.value,
        planned=now,
        until=command.until,
        by=command.by,
        at=command.at,
        reason=command.reason,
        verified=command.verified,
        wants=overrides.wants(state, command.limit, command.value),
    )
    asked = _agreed(state, asked, command)
    state = replace(state, overrides=tuple(sorted((*rest, asked), key=lambda each: each.limit)))
    text = f"override of {overrides.in_words(asked)}; {overrides.stands(asked)}"
    return _exceeding(note(state, command.at, text), command.at)


def answer(state: State, command: Commanded) -> str | None:
    """What a person is told of an override that was just asked for, or agreed to; None: it was
    about something else. `state` is the one after it."""
    if command.verb == "override":
        there = next((each for each in state.overrides if each.limit == command.limit), None)
        if there is None:
            return f"{command.limit} is what the plan says again"
        how = f"; they agree with: {overrides.consent_words(there)}" if there.wants else ""
        return f"override of {overrides.in_words(there)}; {overrides.stands(there)}{how}"
    if command.verb == "approve" and command.point.startswith(overrides.POINT):
        found = [e for e in state.overrides if overrides.point_of(e) == command.point]
        told = [f"{overrides.change_of(each)}: {overrides.stands(each)}" for each in found]
        return "; ".join(told) or None
    return None


# ---------------------------------------------------------------- agreeing


def _agreed(state: State, asked: Override, command: Commanded) -> Override:
    """What is left to agree to, once this person has said so."""
    if not _counts(state, command):
        return asked
    names = {command.by, *command.groups}
    left = tuple((policy, owners) for policy, owners in asked.wants if names.isdisjoint(owners))
    if len(left) == len(asked.wants):
        return asked
    agreed = tuple(dict.fromkeys((*asked.agreed, command.by)))
    return Override(
        asked.limit, asked.value, asked.planned, asked.until, asked.by, asked.at, asked.reason,
        asked.verified, left, agreed,
    )  # fmt: skip


def _counts(state: State, command: Commanded) -> bool:
    """Whether this person's word as an owner counts: vouched for, and not who asked for it all."""
    return command.verified and not asked_for_it(state, command)


def refuse_consent(state: State, asked: Override, command: Commanded) -> str | None:
    """Why this person cannot agree to a waiting override."""
    if not command.verified:
        return sign_it(command.by, f"an owner's consent to {overrides.change_of(asked)}")
    if asked_for_it(state, command):
        return f"{command.by} asked for this operation; another owner has to agree"
    if _agreed(state, asked, command) == asked:
        return f"{command.by} is not one it waits for: {overrides.stands(asked)}"
    return None


def consent(state: State, asked: Override, command: Commanded) -> State:
    """An owner agrees."""
    after = _agreed(state, asked, command)
    others = tuple(after if each == asked else each for each in state.overrides)
    text = f"override of {overrides.change_of(after)}: {overrides.stands(after)}"
    return note(replace(state, overrides=others), command.at, text)


# ---------------------------------------------------------------- ending


def expire(state: State, now: float) -> State:
    """The state without overrides whose time is up. Asked first, whatever happens."""
    if not state.overrides:
        return state
    over = [each for each in state.overrides if now >= each.until]
    if not over:
        return state
    left = tuple(each for each in state.overrides if now < each.until)
    state = replace(state, overrides=left)
    for each in over:
        never = "" if each.in_force else "; it was never in force"
        text = f"override of {each.limit} is over: {each.planned:.10g} again{never}"
        state = note(state, now, text)
    return _exceeding(state, now)


def _exceeding(state: State, now: float) -> State:
    """Hold while hosts are in flight for which there is no room any more: those that have not
    begun do not begin, by the permit."""
    why = exceeded(state)
    if why is None or not state.in_flight:
        return state
    return raise_hold(state, Hold(OVER, now, (why,), "hosts in flight settle, then a bake"))


def settle(state: State, now: float) -> State:
    """End that hold once nothing of it is in flight, or there is room again.

    What failed or fell silent meanwhile keeps its place, and has holds of its own.
    """
    if state.hold(OVER) is None or (state.in_flight and exceeded(state)):
        return state
    return clear_hold(state, OVER, now, "within the limits again, or nothing in flight")


def exceeded(state: State) -> str | None:
    """Which limit has more hosts away than it allows now, in words; None: none has."""
    caps, down = overrides.caps_now(state), downs.before(state)
    gone, counts = limits.away(state), limits.away_by_domain(state)
    if gone and gone + sum(down) > caps.unavailable:
        return f"{counted(gone)} away and {sum(down)} down, {caps.unavailable} allowed"
    for domain, count in sorted(counts.items()):
        if count and count + down[domain] > caps.unavailable_per_domain:
            return f"{counted(count)} of a domain away, {caps.unavailable_per_domain} allowed"
    domains = sum(1 for count in counts.values() if count)
    if domains > caps.domains_at_once:
        return f"hosts of {counted(domains, 'domain')} away, {caps.domains_at_once} allowed"
    return None
