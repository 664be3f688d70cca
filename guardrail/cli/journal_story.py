"""What happened, in words? One line for each entry of a journal.

Hosts are asked by their number in the plan and answer with their name, so a journal knows most
names by itself; the others are shown by number. What a newer guardrail wrote is shown as it is.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from guardrail.cli.text import Look, clean, count, duration, people, stamp
from guardrail.cli.view import number_in_words
from guardrail.decide.freezes import clock
from guardrail.model.journal import (
    CommandSaid,
    Ended,
    FreezeLifted,
    FreezeSet,
    GateTold,
    GonePast,
    HoldCleared,
    HoldRaised,
    HostAsked,
    HostsReread,
    HostTold,
    LeaseBroken,
    Line,
    NoticeGiven,
    Pairs,
    PlanFixed,
    ReportMade,
    Turned,
    WatchBegun,
    WaveBegun,
)

UNNAMED = "host number "
"""How the carrier calls a host whose work ended without an answer of its own."""


@dataclass(frozen=True, slots=True)
class Cast:
    """Who is who: names by (run, index), and in which direction each (run, turn) was asked."""

    names: dict[tuple[str, int], str]
    ways: dict[tuple[str, int], str]

    def name(self, run: str, index: int) -> str:
        """The host's name; its number where it has not answered yet."""
        return self.names.get((run, index), f"host #{index}")


def cast_of(lines: Iterable[Line]) -> Cast:
    """Learn the names from what hosts answered, in any operation of the journal."""
    cast = Cast({}, {})
    for line in lines:
        match line.record:
            case HostTold(index=index, name=name) if not name.startswith(UNNAMED):
                cast.names[line.id.run, index] = name
            case HostAsked(turn=turn, direction=way):
                cast.ways[line.id.run, turn] = way
    return cast


def story(lines: Sequence[Line], look: Look, since: float | None = None) -> list[str]:
    """The story in the zone of `look`; since (seconds since the epoch): only from then on."""
    cast = cast_of(lines)
    shown = (line for line in lines if since is None or line.at >= since)
    return [f"{stamp(line.at, look.zone)} {clean(in_words(line, cast), look)}" for line in shown]


def in_words(line: Line, cast: Cast) -> str:
    """One entry as a sentence."""
    if line.record is None:
        return f"{line.kind}: {json.dumps(line.fields, ensure_ascii=False)}"
    return WORDS[type(line.record)](line.record, line.id.run, cast)


# ---------------------------------------------------------------- a sentence for each record


def _plan(plan: PlanFixed, _: str, __: Cast) -> str:
    facts = dict(plan.facts)
    change = facts.get("change", "")
    versions = f"{facts['from']} to {facts['to']}" if {"from", "to"} <= facts.keys() else ""
    what = " ".join(word for word in (change, versions) if word)
    waves = f"{count(len(plan.stages), 'wave')} ({', '.join(plan.stages)})"
    limits = ", ".join(f"{name} {value}" for name, value in plan.limits)
    gates = ", ".join(name for name, _ in plan.gates) or "none"
    key = f" (signed, key {facts['key']})" if "key" in facts else ""
    return (
        f"{plan.requester or 'somebody'}{key} begins{f' {what} on' if what else ''} "
        f"{count(plan.hosts, 'host')} in {waves}; plan {plan.plan}; limits: {limits}; "
        f"gates: {gates}{_approvals(plan.approvals)}"
    )


def _approvals(points: Pairs) -> str:
    told = [f"{people} at {point}" for point, people in points]
    return f"; approvals: {', '.join(told)}" if told else ""


def _command(said: CommandSaid, _: str, __: Cast) -> str:
    words = [f"{said.by or 'somebody'} says {said.verb}"]
    words += [f"at {said.point}"] if said.point else []
    words += [f"of {', '.join(said.hosts)}"] if said.hosts else []
    words += [f"over {said.over}"] if said.over else []
    words += [f"({', '.join(f'{k} {v}' for k, v in said.options)})"] if said.options else []
    reason = f": {said.reason}" if said.reason else ""
    refused = f"; refused, {said.refusal}" if said.refusal else ""
    return f"{' '.join(words)}{reason}{refused}"


def _gate(told: GateTold, _: str, __: Cast) -> str:
    kind = f" ({told.why})" if told.why else ""
    value = f", {number_in_words(told.value)}" if told.value is not None else ""
    why = f": {'; '.join(told.reasons)}" if told.reasons else ""
    late = "" if told.counted else " (of an earlier watch: it does not count)"
    return f"gate {told.gate}: {told.verdict}{kind}{value}{why}{late}"


def _watch(begun: WatchBegun, _: str, __: Cast) -> str:
    lost = f": the last watch was lost, {begun.lost}" if begun.lost else ""
    return f"the gates are watched anew (watch {begun.turn}){lost}"


def _hold(hold: HoldRaised, _: str, __: Cast) -> str:
    held = "still held" if hold.again else "held"
    return f"{held} on {hold.name}: {'; '.join(hold.reasons)}; ends by: {hold.ends}"


def _cleared(hold: HoldCleared, _: str, __: Cast) -> str:
    return f"no longer held on {hold.name}: {hold.why}"


def _lease_broken(broken: LeaseBroken, _: str, __: Cast) -> str:
    return f"{broken.by} breaks its lease on {', '.join(broken.roles)}: {broken.reason}"


def _freeze_set(made: FreezeSet, _: str, __: Cast) -> str:
    whom = [*made.roles, *(f"fleet {name}" for name in made.fleets)]
    of = f" for {', '.join(whom)}" if whom else ""
    until = f" until {clock(made.until)}" if made.until is not None else ""
    back = "" if made.binds_back else "; going back need not wait"
    return f"{made.by} sets the freeze {made.name}{of}{until}{back}: {made.reason}"


def _freeze_lifted(gone: FreezeLifted, _: str, __: Cast) -> str:
    whose = f" of {gone.set_by}" if gone.set_by != gone.by else ""
    return f"{gone.by} lifts the freeze {gone.name}{whose}: {gone.reason}"


def _turned(turned: Turned, _: str, __: Cast) -> str:
    return "it goes back from here" if turned.direction == "back" else "it goes forward from here"


def _gone_past(gone: GonePast, _: str, __: Cast) -> str:
    who = f"{people(gone.people)} would have had to agree ({gone.origin})"
    return f"it goes past the approval at {gone.point}: {who}, and a shadow asks nobody"


def _wave(wave: WaveBegun, _: str, __: Cast) -> str:
    which = f"wave {wave.number} of {wave.of}"
    if wave.direction == "back":
        return f"{which} goes back"
    return f"{which} begins: to {wave.stage}, {count(wave.hosts, 'host')}"


def _asked(asked: HostAsked, run: str, cast: Cast) -> str:
    way = "go back" if asked.direction == "back" else "change"
    return f"{cast.name(run, asked.index)} is asked to {way} (turn {asked.turn})"


def _told(told: HostTold, run: str, cast: Cast) -> str:
    name = cast.name(run, told.index)
    outcome = told.outcome.replace("_", " ")
    if told.outcome == "changed" and cast.ways.get((run, told.turn)) == "back":
        outcome = "is back"
    took = f" after {duration(told.seconds)}" if told.seconds is not None else ""
    late = "" if told.seconds is not None else " (nobody waits for this answer any more)"
    facts = f" ({', '.join(f'{key} {value}' for key, value in told.facts)})" if told.facts else ""
    reason = f": {told.reason}" if told.reason else ""
    return f"{name} {outcome}{took}{facts}{reason}{late}"


def _read(read: HostsReread, _: str, __: Cast) -> str:
    what = f"{count(read.read, 'changed host')} read again"
    if read.problem:
        return f"changed hosts could not be read again: {read.problem}"
    wrong = [f"{name}: {found}" for name, found in read.wrong]
    wrong += [f"{read.more} more"] if read.more else []
    return f"{what}: {'; '.join(wrong) or 'all as they should be'}"


def _notice(given: NoticeGiven, _: str, __: Cast) -> str:
    of = f" (about {given.operations} operations)" if given.operations > 1 else ""
    told = f"channel {given.channel} took the message: {given.subject}"
    if not given.sent:
        told = f"channel {given.channel} did not take the message, {given.why}: {given.subject}"
    tries = f", at try {given.tries}" if given.tries > 1 else ""
    return f"{told}{of}{tries}"


def _report(made: ReportMade, _: str, __: Cast) -> str:
    bad = dict.fromkeys(item for item, _, __, verdict, *___ in made.items if verdict != "pass")
    said = f"checklist {made.checklist} was gone through: {made.verdict}"
    why = made.problem or ", ".join(map(str, bad))
    return f"{said}: {why}" if why else said


def _ended(end: Ended, _: str, __: Cast) -> str:
    return f"{end.phase.replace('_', ' ')}: {'; '.join(end.reasons)}"


WORDS: dict[type, Callable[[Any, str, Cast], str]] = {
    PlanFixed: _plan,
    CommandSaid: _command,
    GateTold: _gate,
    WatchBegun: _watch,
    HoldRaised: _hold,
    HoldCleared: _cleared,
    LeaseBroken: _lease_broken,
    FreezeSet: _freeze_set,
    FreezeLifted: _freeze_lifted,
    Turned: _turned,
    WaveBegun: _wave,
    GonePast: _gone_past,
    HostAsked: _asked,
    HostTold: _told,
    HostsReread: _read,
    NoticeGiven: _notice,
    ReportMade: _report,
    Ended: _ended,
}
