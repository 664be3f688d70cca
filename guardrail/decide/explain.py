"""What is going on, what happens if nobody acts, and what is the one command most likely right?"""

from collections import Counter
from dataclasses import replace

from guardrail.decide import holds, overrides, people, still_true
from guardrail.decide.bits import has, members
from guardrail.decide.catalog_holds import goes_on_by_itself
from guardrail.decide.churning import is_the_version
from guardrail.decide.commands import anyone_stuck, recovered_gates
from guardrail.decide.found import counted
from guardrail.decide.freeze_holds import FREEZE
from guardrail.decide.leasing import LEASE, OWN
from guardrail.decide.named import and_more, unnamed
from guardrail.decide.rollback import WAVE_TAKEN_BACK, bad_version, binding, would_take_back
from guardrail.decide.shadow import changed, in_front
from guardrail.decide.transition import bake_needed
from guardrail.decide.way_back import if_asked, in_words
from guardrail.decide.windows import BY_A_PERSON, WINDOW, peak_words
from guardrail.model.gate import Judgement
from guardrail.model.messages import DomainCount, GateState, HostState, Status
from guardrail.model.operation import Exceptional, Hold, State

RANK = (
    *("abort", "rollback:", "host:", "reverted", "limit:", "gate:", "evidence:"),
    *("approval:", "operator:", "freeze", "window", "lease", "yield"),
)
"""Which hold a person should look at first."""


def sentence(state: State) -> str:
    """The state in one sentence; of a shadow it says first that it is one."""
    return in_front(state.course) + _sentence(state)


def _sentence(state: State) -> str:
    done = f"{state.changed.bit_count()} of {counted(state.course.hosts)} {changed(state.course)}"
    if state.finished:
        return f"{state.phase}: {'; '.join(state.finish_reasons)}"
    if state.phase == "planned":
        return "planned; nothing has begun"
    if state.direction == "back":
        done = f"{counted(state.reverted.bit_count())} back, {state.take_back.bit_count()} to go"
    if binding(state):
        names = ", ".join(hold.name for hold in state.holds)
        return f"held on {names}; {done}, {len(state.in_flight)} in flight"
    return f"{doing(state)}; {done}, {len(state.in_flight)} in flight"


def doing(state: State) -> str:
    """What an operation that is not held does just now."""
    waves = state.course.waves
    where = f"wave {state.wave + 1} of {len(waves)} (to {waves[state.wave].stage})"
    back = state.direction == "back"
    if state.step == "changing":
        waits = "" if holds.evidence_is_good(state) else ", waiting for every gate to pass"
        return f"{'taking back' if back else 'changing'} hosts in {where}{waits}"
    if state.in_flight:
        return f"settling in {where}: waiting for the hosts in flight"
    if state.baking_since is None:
        return f"baking {where}, waiting for every gate to pass"
    if state.merge_pending:
        return f"waiting in {where} for the policies to be merged again"
    where = f"before going back in {where}" if back else where
    peak = f", {words}" if (words := peak_words(state)) else ""
    good = f"{state.baked:.0f} of {bake_needed(state):.0f} s good"
    return f"baking {where}: {good}{peak}{still_true.doing(state)}"


def first_hold(state: State) -> Hold | None:
    """The hold that a person should look at first; None when nothing is held."""
    return min(binding(state), key=_rank, default=None)


def _rank(hold: Hold) -> int:
    ranks = (rank for rank, prefix in enumerate(RANK) if hold.name.startswith(prefix))
    return next(ranks, len(RANK))


def advice(state: State) -> tuple[str, ...]:
    """What happens if nobody acts, and the one command most likely right."""
    hold = first_hold(state)
    if state.finished:
        return ()
    if hold is None:
        return ("If nobody acts it goes on by itself.", f"guardrail rollout watch {state.name}")
    if hold.name == FREEZE:
        return (f"If nobody acts nothing begins until: {hold.clears}.", "guardrail freeze status")
    if hold.name in OWN and not state.lease_broken:
        return (f"If nobody acts it goes on by itself: {hold.clears}.", "guardrail lease list")
    return (what_if_nobody_acts(hold), f"guardrail rollout {command_for(state, hold)}")


def what_if_nobody_acts(hold: Hold) -> str:
    """Whether a hold ends by itself."""
    if hold.name == holds.ABORT:
        return "It ends by itself when the hosts in flight have answered."
    if hold.name == WINDOW and not hold.clears.startswith(BY_A_PERSON):
        return f"If nobody acts it goes on by itself: {hold.clears}."
    if goes_on_by_itself(hold):
        return f"If nobody acts it goes on by itself: {hold.clears}."
    if hold.name.startswith("evidence:") or hold.clears.startswith("evidence"):
        return f"If nobody acts it stays as it is until: {hold.clears}."
    return f"If nobody acts nothing more is changed. It ends by: {hold.clears}."


def command_for(state: State, hold: Hold) -> str:
    """The command most likely right for this hold."""
    if can_go_back(state) and not one_bad_host(state):
        return f"rollback {state.name}"
    if hold.name == WAVE_TAKEN_BACK:
        return f"rollback {state.name} --scope all"
    if hold.name.startswith("approval:"):
        return f"approve {state.name} {people.how(state, hold.name.removeprefix('approval:'))}"
    waits = hold.name.startswith(("host:", "limit:", "reverted")) and not goes_on_by_itself(hold)
    if waits or hold.clears.startswith(BY_A_PERSON):
        return f"{'retry' if anyone_stuck(state) else 'abort'} {state.name}"
    if hold.name.startswith(("operator:", LEASE)) or hold.name in recovered_gates(state):
        return f"resume {state.name}"
    return f"explain {state.name}"


def can_go_back(state: State) -> bool:
    """Whether going back is what most likely helps: the new version is judged bad."""
    if state.hold(holds.ABORT) or state.direction == "back":
        return False
    if state.course.rollback_when == "never" or not would_take_back(state, "all"):
        return False
    return bad_version(state) is not None or is_the_version(state)


def one_bad_host(state: State) -> bool:
    """Whether all that speaks against the new version is a single host: it may be the host."""
    failed = (state.failed | state.blocked).bit_count()
    return failed == 1 and not any(hold.name.startswith("gate:") for hold in state.holds)


def explain(state: State) -> tuple[str, ...]:
    """The state, each hold with its reasons and readings, and what to do: lines of text."""
    lines = [f"{state.name}: {sentence(state)}."]
    for hold in state.holds:
        lines += [f"  {hold.name}: {reason}" for reason in hold.reasons]
        lines += [f"    ends by: {hold.clears}"]
    lines += [f"  {words}" for words in overrides.lines(state)]
    for known in state.exceptional:
        lines.append(f"  {known.name}: {known.outcome}, {known.reason}")
    lines += [f"  and {more}"] if (more := and_more(state)) else []
    for watched in state.watched:
        lines.append(f"  gate {watched.gate}: {_verdict(watched.judgement)}")
    if can_go_back(state):
        lines.append("  a rollback (see it beforehand: --dry-run)")
        lines += [f"    {words}" for words in in_words(if_asked(state))]
    return (*lines, *advice(state))


def _verdict(judged: Judgement | None) -> str:
    if judged is None:
        return "not judged yet"
    kind = f" ({judged.kind})" if judged.kind else ""
    return f"{judged.verdict}{kind}: {'; '.join(judged.reasons)}"


# ---------------------------------------------------------------- the same, as a record


def status(state: State, now: float) -> Status:
    """The operation as a record, as of `now` (seconds since the epoch)."""
    return Status(
        operation=state.name,
        plan=state.course.plan,
        phase=state.phase,
        direction=state.direction,
        step=state.step,
        sentence=sentence(_as_of(state, now)),
        requester=state.course.requester,
        wave=state.wave,
        waves=state.course.waves,
        hosts=state.course.hosts,
        changed=state.changed.bit_count(),
        failed=(state.failed | state.blocked).bit_count(),
        unknown=state.unknown.bit_count(),
        set_aside=state.set_aside.bit_count(),
        in_flight=tuple(
            HostState(f.index, "", "in flight", "", f.asked_at) for f in state.in_flight
        ),
        exceptional=tuple(
            HostState(x.index, x.name, outcome_now(state, x), x.reason, x.at)
            for x in state.exceptional
        ),
        domains=domain_counts(state),
        gates=tuple(
            GateState(rule.name, rule.bound, watched.since, watched.judgement)
            for rule, watched in zip(state.course.gates, state.watched, strict=False)
        ),
        holds=state.holds,
        story=state.story,
        baked=_as_of(state, now).baked,
        bake_needed=bake_needed(state),
        as_of=now,
        started_at=state.started_at,
        finished_at=state.finished_at,
        finish_reasons=state.finish_reasons,
        advice=advice(state),
        changed_hosts=f"{state.changed:x}",
        reverted=state.reverted.bit_count(),
        to_take_back=state.take_back.bit_count(),
        rollback_when=state.course.rollback_when,
        overrides=state.overrides,
        reverted_hosts=f"{state.reverted:x}",
        unnamed=unnamed(state).bit_count(),
        shadow=state.course.shadow,
        requester_verified=bool(state.asked_by.name),
    )


def _as_of(state: State, now: float) -> State:
    """The state with the present stretch of baking counted."""
    if state.baking_since is None:
        return state
    return replace(state, baked=state.baked + now - state.baking_since)


def outcome_now(state: State, known: Exceptional) -> str:
    """The host's last outcome, or what has been made of it since."""
    if has(state.set_aside, known.index):
        return "set aside"
    return "waiting" if has(state.waiting, known.index) else known.outcome


def domain_counts(state: State) -> tuple[DomainCount, ...]:
    """Hosts by failure domain and state, each counted once: a host that goes back is in flight,
    not changed."""
    domains = state.course.domains
    total = Counter(domains)
    flying = Counter(domains[flight.index] for flight in state.in_flight)
    stuck = state.failed | state.blocked | state.unknown | state.set_aside
    busy = state.flying | stuck
    failed_ones = (state.failed | state.blocked) & ~state.set_aside
    sets = (state.changed & ~busy, failed_ones, state.unknown & ~state.set_aside)
    changed, failed, unknown, aside, back = (
        Counter(domains[index] for index in members(hosts))
        for hosts in (*sets, state.set_aside, state.reverted & ~busy)
    )
    return tuple(
        DomainCount(d, total[d], changed[d], flying[d], failed[d], unknown[d], aside[d], back[d])
        for d in range(len(state.course.down))
    )
