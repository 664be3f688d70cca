"""What of a step is worth keeping for good?

`entries` compares an operation before an event with what `decide` made of it, and says it in
records: first what happened, then what follows (holds that went, holds that came, the turn, the
wave, hosts that were asked, the end). It is pure, and knows of an event only what is in it: the
same step gives the same entries, on every worker and in every replay. Time alone is not recorded,
only what it leads to.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from guardrail.decide.commands import refusal
from guardrail.decide.overrides import clock
from guardrail.decide.people import wanted
from guardrail.model.freeze import Freeze, Frozen, Lifted
from guardrail.model.journal import (
    CommandSaid,
    Ended,
    Entry,
    EntryId,
    FreezeLifted,
    FreezeSet,
    GateTold,
    GonePast,
    HoldCleared,
    HoldRaised,
    HostAsked,
    HostsReread,
    HostTold,
    NoticeGiven,
    Pairs,
    PlanFixed,
    Record,
    Turned,
    WatchBegun,
    WaveBegun,
)
from guardrail.model.notice import Answer, Failed, Message
from guardrail.model.operation import (
    BeginHost,
    Commanded,
    Decision,
    Event,
    Finish,
    GateJudged,
    Hold,
    HostAnswered,
    HostsRead,
    Started,
    State,
    WatchAgain,
    WatcherLost,
)
from guardrail.model.plan import Course

MOST_TEXT = 500
"""Letters of one reason that are kept: the output of a host's command may be long."""

MOST_REASONS = 20
"""Reasons of one hold that are kept: one shared by many hosts has one for each."""

MOST_HOSTS = 100
"""Hosts of one hold that are kept: each one's own answer is recorded anyway."""

_SECRET_IN_URL = re.compile(r"://[^/\s@]+@")


def entries(
    before: State,
    event: Event,
    decision: Decision,
    *,
    number: int,
    run: str = "",
    facts: Pairs = (),
) -> tuple[Entry, ...]:
    """The entries of one step.

    number: which event of this operation it is, counted by the carrier over all its runs, so that
    the same step has the same ids whenever it is recorded. run: see `EntryId`. facts: what the
    carrier knows beside the event (versions seen on the host, the change that was asked for).
    """
    records = (
        *_happened(before, event, facts),
        *_holds_gone(before, event, decision.state),
        *_holds_come(before, decision.state),
        *_went_on(before, event, decision),
    )
    return tuple(
        Entry(before.name, EntryId(run, number, part), event.at, record)
        for part, record in enumerate(records)
    )


# ---------------------------------------------------------------- what happened


def _happened(before: State, event: Event, facts: Pairs) -> Iterator[Record]:
    """The event itself; of a finished operation only what hosts still answer."""
    tell = _TOLD.get(event.kind)
    if tell is not None and (not before.finished or isinstance(event, HostAnswered)):
        yield from tell(before, event, facts)


def _started(before: State, _: Started, facts: Pairs) -> Iterator[Record]:
    if before.phase == "planned":
        yield plan_fixed(before.course, facts)


def plan_fixed(course: Course, facts: Pairs = ()) -> PlanFixed:
    """The plan by its digest, with who asked for it and what must be kept."""
    return PlanFixed(
        plan=course.plan,
        requester=course.requester,
        hosts=course.hosts,
        stages=tuple(wave.stage for wave in course.waves),
        limits=_limits(course),
        gates=tuple((rule.name, rule.digest) for rule in course.gates),
        approvals=tuple((point.point, str(point.count)) for point in course.approvals),
        facts=_facts(facts),
    )


def _limits(course: Course) -> Pairs:
    caps = course.caps
    kept = (
        ("unavailable", caps.unavailable),
        ("unavailablePerDomain", caps.unavailable_per_domain),
        ("domainsAtOnce", caps.domains_at_once),
        ("failures", caps.failures),
        ("failuresShare", caps.failures_share),
        ("failuresConsecutive", caps.failures_consecutive),
        ("paceSeconds", caps.pace),
        ("bakeSeconds", course.bake_for),
    )
    return tuple((name, f"{value:g}") for name, value in kept if value is not None)


def _commanded(before: State, event: Commanded, _: Pairs) -> Iterator[Record]:
    yield CommandSaid(
        verb=event.verb,
        by=event.by,
        reason=text(event.reason),
        point=event.point,
        hosts=event.hosts,
        over=event.over,
        refusal=text(refusal(before, event) or ""),
        options=_options(event),
    )


def _options(event: Commanded) -> Pairs:
    """What a command says beyond the rest, where it is not what it says by itself."""
    told = {"at", "verb", "by", "reason", "point", "hosts", "over", "kind"}
    rest = [f for f in fields(event) if f.name not in told]
    said = [(f.name, getattr(event, f.name), f.default) for f in rest]
    return tuple((name, _option(name, value)) for name, value, default in said if value != default)


def _option(name: str, value: object) -> str:
    if isinstance(value, float):
        return clock(value) if name == "until" else f"{value:.10g}"
    return text(", ".join(value) if isinstance(value, tuple) else str(value))


def _judged(before: State, event: GateJudged, _: Pairs) -> Iterator[Record]:
    judged = event.judgement
    yield GateTold(
        gate=judged.gate,
        verdict=judged.verdict,
        why=judged.kind or "",
        value=_number(judged.value),
        reasons=_reasons(judged.reasons),
        counted=event.turn == before.watch_turn,
    )


def _watch_again(before: State, _: WatchAgain, __: Pairs) -> Iterator[Record]:
    yield WatchBegun(before.watch_turn + 1)


def _watcher_lost(before: State, event: WatcherLost, _: Pairs) -> Iterator[Record]:
    if event.turn == before.watch_turn:
        yield WatchBegun(before.watch_turn + 1, text(event.reason))


def _answered(before: State, event: HostAnswered, facts: Pairs) -> Iterator[Record]:
    flight = before.flight(event.index)
    asked = flight is not None and flight.turn == event.turn
    yield HostTold(
        index=event.index,
        turn=event.turn,
        name=event.name,
        outcome=event.outcome,
        reason=text(event.reason),
        seconds=round(event.at - flight.asked_at) if flight is not None and asked else None,
        facts=_facts(facts),
    )


def _read(before: State, event: HostsRead, _: Pairs) -> Iterator[Record]:
    if event.turn == before.rereading:
        wrong = tuple((one.name, text(one.found)) for one in event.wrong[:MOST_HOSTS])
        more = event.more + len(event.wrong) - len(wrong)
        yield HostsReread(event.read, wrong, more, text(event.problem))


_TOLD: dict[str, Callable[[State, Any, Pairs], Iterator[Record]]] = {
    "started": _started,
    "commanded": _commanded,
    "gate_judged": _judged,
    "watch_again": _watch_again,
    "watcher_lost": _watcher_lost,
    "host_answered": _answered,
    "hosts_read": _read,
}
"""Who tells which event. Time (`ticked`) tells nothing by itself."""


# ---------------------------------------------------------------- holds


def _holds_gone(before: State, event: Event, after: State) -> Iterator[Record]:
    by = event.by if isinstance(event, Commanded) else ""
    for hold in before.holds:
        if after.hold(hold.name) is None:
            yield HoldCleared(hold.name, text(_why_cleared(hold, after, event.at)), by)


def _why_cleared(hold: Hold, after: State, at: float) -> str:
    """What the story says of it at this time, or what was to end it."""
    start = f"hold {hold.name} cleared: "
    said = [note.text for note in after.story if note.at == at and note.text.startswith(start)]
    return said[-1].removeprefix(start) if said else hold.clears


def _holds_come(before: State, after: State) -> Iterator[Record]:
    """Holds that are new, or that stand for other reasons now."""
    for hold in after.holds:
        old = before.hold(hold.name)
        if old is None or _told_of(old) != _told_of(hold):
            yield replace(_told_of(hold), again=old is not None)


def _told_of(hold: Hold) -> HoldRaised:
    reasons, hosts = _reasons(hold.reasons), hold.hosts[:MOST_HOSTS]
    return HoldRaised(hold.name, reasons, text(hold.clears), hold.by, hosts)


# ---------------------------------------------------------------- going on


def _went_on(before: State, event: Event, decision: Decision) -> Iterator[Record]:
    after = decision.state
    if after.direction != before.direction:
        yield Turned(after.direction)
    if after.wave != before.wave or (isinstance(event, Started) and before.phase == "planned"):
        wave = after.course.waves[after.wave]
        count = len(after.course.waves)
        hosts = wave.end - wave.begin
        yield WaveBegun(after.wave + 1, count, wave.stage, hosts, after.direction)
        for point in after.course.passed if after.direction == "forward" else ():
            if point.wave == after.wave:
                yield GonePast(point.point, wanted(after, point), str(point.origin))
    for action in decision.actions:
        if isinstance(action, BeginHost):
            yield HostAsked(action.index, action.turn, action.direction)
        elif isinstance(action, Finish):
            reasons = _reasons(after.finish_reasons)
            yield Ended(action.phase, reasons, after.changed.bit_count(), after.course.hosts)


# ---------------------------------------------------------------- of no operation


def freeze_records(before: Frozen, after: Frozen) -> tuple[FreezeSet | FreezeLifted, ...]:
    """What one command has changed of the freezes; an end that comes by itself is in the first of
    the two records."""
    there = set(before.freezes)
    made = [_freeze_set(one) for one in after.freezes if one not in there]
    return (*made, *(_lifted(one) for one in after.lifted if one not in before.lifted))


def _freeze_set(one: Freeze) -> FreezeSet:
    whom = (one.roles, one.fleets, one.binds_back)
    return FreezeSet(one.name, one.by, text(one.reason), one.until, *whom)


def _lifted(gone: Lifted) -> FreezeLifted:
    return FreezeLifted(gone.freeze.name, gone.freeze.by, gone.by, text(gone.reason))


def notice_record(message: Message, answer: Answer, operations: int) -> NoticeGiven:
    """What a channel has made of a message about so many operations."""
    failed = isinstance(answer, Failed)
    return NoticeGiven(
        channel=answer.channel,
        message=message.kind,
        cause=message.cause,
        subject=text(message.subject),
        sent=not failed,
        why=text(answer.why) if isinstance(answer, Failed) else "",
        tries=answer.tries,
        operations=operations,
    )


# ---------------------------------------------------------------- words and numbers


def text(said: str) -> str:
    """What may be kept of a text from elsewhere: no password in a URL, and not too much."""
    safe = _SECRET_IN_URL.sub("://…@", said)
    return safe if len(safe) <= MOST_TEXT else f"{safe[:MOST_TEXT]}…"


def _reasons(said: tuple[str, ...]) -> tuple[str, ...]:
    kept = tuple(map(text, said[:MOST_REASONS]))
    more = len(said) - len(kept)
    return (*kept, f"and {more} more") if more else kept


def _facts(facts: Pairs) -> Pairs:
    return tuple((name, text(value)) for name, value in facts)


def _number(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
