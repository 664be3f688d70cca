"""What does a person see of a running operation, most important thing first?

`screen` makes lines of a `Snapshot`: it reads no clock and prints nothing. From the top: whether
anybody answers, the state in a sentence, what holds it and what to do, how far it is, the hosts,
the gates against their bounds, and the last lines of its story. On a low screen the last things
go first; the first ones never do.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from guardrail.cli.fleet_view import goes_back, hosts_section
from guardrail.cli.text import (
    Line,
    Look,
    Meaning,
    Span,
    clean,
    clock,
    columns,
    count,
    duration,
    line,
    offset,
    roughly,
    spread,
    wrap,
)
from guardrail.decide.judge import Trend
from guardrail.decide.overrides import in_words, stands
from guardrail.model.gate import Verdict
from guardrail.model.messages import GateState, Status
from guardrail.model.operation import FINAL, Hold
from guardrail.model.plan import Plan, Wave

TREND = 12
"""How many readings of a gate are shown."""

VERDICTS: tuple[Verdict | Literal[""], ...] = ("pass", "fail", "inconclusive", "")

MOST_REASONS = 4
"""How many reasons of one hold are shown; a hold shared by many hosts has one for each."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is shown at one moment. A gate without a trend shows its judgement's readings."""

    status: Status
    trends: tuple[Trend, ...] = ()

    def values(self, gate: GateState) -> tuple[float | None, ...]:
        """The readings to draw for this gate."""
        known = next((trend.values for trend in self.trends if trend.gate == gate.name), ())
        if known or gate.judgement is None:
            return known[-TREND:]
        return tuple(reading.value for reading in gate.judgement.readings)[-TREND:]


def trends_from(details: Sequence[object]) -> tuple[Trend, ...]:
    """The trends in a watcher's heartbeat details; what is not one is passed over.

    The details are trends as JSON gives them back: `{"gate": name, "verdict": word, "kind": word
    or null, "values": [number or null, ...]}`, one after the other or in one list.
    """
    records: list[object] = []
    for detail in details:
        records += detail if isinstance(detail, list | tuple) else [detail]
    known = (_trend(record) for record in records)
    return tuple(trend for trend in known if trend is not None)


def _trend(record: object) -> Trend | None:
    if isinstance(record, Trend):
        return record
    values = record.get("values") if isinstance(record, Mapping) else None
    if not isinstance(record, Mapping) or not isinstance(values, list | tuple):
        return None
    numbers = tuple(float(x) if isinstance(x, int | float) else None for x in values)
    found = [word for word in VERDICTS if word == record.get("verdict")]
    verdict = found[0] if found else VERDICTS[-1]
    return Trend(str(record.get("gate", "")), verdict, None, numbers[-TREND:])


# ---------------------------------------------------------------- the whole screen


def screen(
    snapshot: Snapshot, look: Look, plan: Plan | None = None, notice: str = ""
) -> list[Line]:
    """The lines of one screen, none wider than the look, no more of them than its height.

    notice: why what is shown may be old ("" when it is not).
    """
    rows: list[Line] = []
    for detail in (3, 2, 1, 0, -1):
        rows = _rows(snapshot, look, plan, notice, detail)
        if look.height is None or len(rows) <= look.height:
            return rows
    kept = max(1, (look.height or 1) - 1)
    more = f"... {len(rows) - kept} more lines on a higher screen"
    return [*rows[:kept], line(Span(more, "quiet"))]


def _rows(
    snapshot: Snapshot, look: Look, plan: Plan | None, notice: str, detail: int
) -> list[Line]:
    """The screen with as much detail as asked for: 3 is all, -1 the least."""
    status = snapshot.status
    sections = [
        [*notice_section(notice, look), *title(status, plan, look, brief=detail <= 0)],
        holds_section(status, look, brief=detail < 0),
        overrides_section(status, look),
        advice_section(status, look),
        progress_section(status, look),
        hosts_section(status, plan, look, brief=detail == 0),
        gates_section(snapshot, look, brief=detail <= 0),
        story_section(status, look, {3: 6, 2: 3}.get(detail, 0)),
    ]
    rows: list[Line] = []
    for section in sections:
        if section and rows and detail >= 1:
            rows.append(())
        rows += section
    return rows


def notice_section(notice: str, look: Look) -> list[Line]:
    """That what follows is old, before anything else."""
    return wrap(line(Span(clean(notice, look), "bad")), look.width, 2) if notice else []


# ---------------------------------------------------------------- state


def title(status: Status, plan: Plan | None, look: Look, *, brief: bool) -> list[Line]:
    """Name, state in one word, time; then the state in one sentence."""
    word, meaning = state_word(status)
    name = Span(clean(status.operation, look), "strong")
    change = f"{plan.change.name} {plan.change.old} to {plan.change.new}" if plan else ""
    left = line(name, "  ", Span(word, meaning))
    right = line(Span(times(status, plan), "quiet"))
    rows = spread(left, right, look.width)
    rows += wrap(line(clean(status.sentence, look)), look.width, 2)
    if change and not brief:
        rows += wrap(line(Span(clean(change, look), "quiet")), look.width, 2)
    return rows


def state_word(status: Status) -> tuple[str, Meaning]:
    """The state in one word."""
    if status.phase == "completed":
        return "COMPLETED", "good"
    if status.phase in FINAL:
        return status.phase.replace("_", " ").upper(), "bad"
    if status.holds:
        return "HELD", "bad"
    if status.phase == "planned":
        return "planned", "quiet"
    if goes_back(status):
        return ("going back" if status.step == "changing" else "baking before going back"), "busy"
    return status.step, "busy"


def times(status: Status, plan: Plan | None) -> str:
    """How long it has run, and about how long it still will."""
    if status.started_at is None:
        return "not started"
    end = status.as_of if status.finished_at is None else status.finished_at
    ran = duration(end - status.started_at)
    if status.phase in FINAL:
        return f"took {ran}"
    left = seconds_left(status, plan)
    if status.holds:
        return f"{ran} so far, held"
    return f"{ran} so far" if left is None else f"{ran} so far, about {roughly(left)} left"


def seconds_left(status: Status, plan: Plan | None) -> float | None:
    """Seconds to the end if nothing holds: bakes still to come, and hosts at the usual pace.

    The pace is the plan's, or without a plan the one seen so far; None when neither is known.
    """
    bake = plan.bake_for if plan else status.bake_needed
    bakes = bake * (status.wave + 1 if goes_back(status) else len(status.waves) - status.wave)
    if status.step == "baking":
        bakes -= min(status.baked, bake)
    done = status.changed + status.failed + status.unknown + status.set_aside
    per_host = _seconds_per_host(status, plan, done)
    left = status.to_take_back if goes_back(status) else max(0, status.hosts - done)
    return None if per_host is None else bakes + per_host * left


def _seconds_per_host(status: Status, plan: Plan | None, done: int) -> float | None:
    if plan and plan.hosts:
        waits = plan.seconds_closed + plan.bake_for * len(plan.waves)
        changing = plan.seconds_expected - waits
        return max(0.0, changing) / len(plan.hosts)
    if not done or status.started_at is None:
        return None
    baked = status.bake_needed * status.wave + status.baked
    return max(0.0, status.as_of - status.started_at - baked) / done


# ---------------------------------------------------------------- holds and what to do


def holds_section(status: Status, look: Look, *, brief: bool = False) -> list[Line]:
    """Each hold: since when, why, and who or what ends it."""
    rows: list[Line] = []
    for hold in status.holds:
        rows += [*_hold_head(hold, status, look), *([] if brief else _hold_why(hold, look))]
    return rows


def _hold_head(hold: Hold, status: Status, look: Look) -> list[Line]:
    by = f" by {clean(hold.by, look)}" if hold.by else ""
    since = f"{by} since {clock(hold.since, look.zone)} ({duration(status.as_of - hold.since)})"
    head = line(Span("! ", "bad"), Span(clean(hold.name, look), "bad"), Span(since, "quiet"))
    return wrap(head, look.width, 4)


def _hold_why(hold: Hold, look: Look) -> list[Line]:
    rows: list[Line] = []
    for reason in hold.reasons[:MOST_REASONS]:
        rows += wrap(line("    ", clean(reason, look)), look.width, 6)
    if len(hold.reasons) > MOST_REASONS:
        more = f"    and {count(len(hold.reasons) - MOST_REASONS, 'more reason')}: see explain"
        rows += wrap(line(Span(more, "quiet")), look.width, 6)
    ends = line("    ", Span("ends by: ", "quiet"), clean(hold.clears, look))
    return rows + wrap(ends, look.width, 6)


def overrides_section(status: Status, look: Look) -> list[Line]:
    """What is exceeded just now, by whom, until when."""
    rows: list[Line] = []
    for each in status.overrides:
        ends = f", {duration(max(0.0, each.until - status.as_of))} more"
        told = f"override of {in_words(each)} ({stands(each)}{ends})"
        rows += wrap(line(Span(clean(told, look), "warn")), look.width, 4)
    return rows


def needs_a_person(status: Status) -> bool:
    """Whether it is held on something that only a person clears."""
    return any(_by_a_person(hold) for hold in status.holds)


PERSONAL = (
    "operator",
    "host:",
    "approval:",
    "limit:failures",
    "limit:unavailable",
    "reverted",
    "rollback:",
)


def _by_a_person(hold: Hold) -> bool:
    return hold.name.startswith((*PERSONAL, "metastable")) or hold.clears.startswith("a person")


def advice_section(status: Status, look: Look) -> list[Line]:
    """What happens if nobody acts, and the one command most likely right (the last line)."""
    if not status.holds:
        return []
    rows: list[Line] = []
    for number, words in enumerate(status.advice, 1):
        command = number == len(status.advice) and number > 1
        mark = f"{look.symbols.arrow} " if command else ""
        meaning: Meaning = "strong" if command else ""
        rows += wrap(line(mark, Span(clean(words, look), meaning)), look.width, 2)
    return rows


# ---------------------------------------------------------------- progress


def progress_section(status: Status, look: Look) -> list[Line]:
    """A bar of hosts changed, or back; and the stages with the one it is in."""
    done, of, what = status.changed, status.hosts, "hosts"
    if goes_back(status):
        done, of = status.reverted, status.reverted + status.to_take_back
        what = "hosts back at the former version"
    share = done / of if of else 0.0
    words = f"  {done:,} of {of:,} {what} ({math.floor(share * 100)}%)"
    room = max(8, min(40, look.width - len(words)))
    rows = wrap(line(*bar(share, room, look), words), look.width, 2)
    return rows + wrap(stages(status, look), look.width, 8)


def bar(share: float, width: int, look: Look) -> list[Span]:
    """A bar so many cells wide; it is full only when the share is 1."""
    full = min(width, max(0, math.floor(share * width)))
    symbols = look.symbols
    return [Span(symbols.full * full, "good"), Span(symbols.empty * (width - full), "quiet")]


def stages(status: Status, look: Look) -> Line:
    """`stages  1 ✓  25% ✓  [50% wave 3 of 5]  75%  100%`; going back the later ones are undone."""
    spans = [Span("stages", "quiet")]
    names = _stage_names(status.waves)
    back = goes_back(status)
    ended = status.phase == "completed"
    over = ended or status.phase == "rolled_back"
    for name, last in names:
        current = not over and name == status.waves[min(status.wave, len(status.waves) - 1)].stage
        shown = clean(name, look)
        if current:
            going = ", going back" if back else ""
            where = f"[{shown}, wave {status.wave + 1} of {len(status.waves)}{going}]"
            spans += [Span("  "), Span(where, "strong")]
        elif ended or (last < status.wave and not back):
            spans += [Span("  "), Span(f"{shown} {look.symbols.passes}", "good")]
        else:
            spans += [Span("  "), Span(shown, "quiet")]
    return tuple(spans)


def _stage_names(waves: Sequence[Wave]) -> list[tuple[str, int]]:
    """The stages in order, each with the number of its last wave."""
    return list({wave.stage: number for number, wave in enumerate(waves)}.items())


# ---------------------------------------------------------------- gates


WORDS: dict[str, tuple[str, Meaning]] = {
    "pass": ("pass", "good"),
    "fail": ("FAIL", "bad"),
    "inconclusive": ("no evidence", "warn"),
    "": ("not judged", "warn"),
}


def gates_section(snapshot: Snapshot, look: Look, *, brief: bool = False) -> list[Line]:
    """Each gate: verdict, name, its last readings as a small trend, value and bound."""
    gates = snapshot.status.gates
    if not gates:
        return []
    cells = [_gate_cells(snapshot, gate, look) for gate in gates]
    table = columns(cells, look.width)
    rows: list[Line] = [line(Span("Gates", "strong"))]
    for number, gate in enumerate(gates):
        rows += [table[number]] if table else _gate_narrow(cells[number], look)
        rows += [] if brief else _gate_reasons(gate, look)
    return rows


def _gate_cells(snapshot: Snapshot, gate: GateState, look: Look) -> list[Span]:
    verdict = gate.judgement.verdict if gate.judgement is not None else ""
    word, meaning = WORDS[verdict]
    symbols = look.symbols
    mark = {"pass": symbols.passes, "fail": symbols.fails}.get(verdict, symbols.unknown)
    values = snapshot.values(gate)
    return [
        Span(f"{mark} {word}", meaning),
        Span(clean(gate.name, look)),
        Span(trend(values, gate.bound, look).rjust(TREND), meaning),
        Span(number_in_words(values[-1] if values else None), "strong"),
        Span(clean(gate.bound, look), "quiet"),
    ]


def _gate_narrow(cells: Sequence[Span], look: Look) -> list[Line]:
    """A gate on two lines or more: verdict and name, then trend, value and bound."""
    verdict, name, drawn, value, bound = cells
    first = wrap(line("  ", verdict, "  ", name), look.width, 4)
    return first + wrap(line("    ", drawn, "  ", value, "  ", bound), look.width, 4)


def _gate_reasons(gate: GateState, look: Look) -> list[Line]:
    judged = gate.judgement
    if judged is None or judged.verdict == "pass":
        return []
    kind = f"{judged.kind}: " if judged.kind else ""
    words = kind + "; ".join(judged.reasons)
    return wrap(line("    ", clean(words, look)), look.width, 6) if words else []


def trend(values: Sequence[float | None], bound: str, look: Look) -> str:
    """The values as a row of signs, scaled so that the bound is on the scale too."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    scale = [*finite, *bound_values(bound)]
    if not scale:
        return look.symbols.gap * len(values)
    low, high = min(scale), max(scale)
    return "".join(_sign(value, low, high, look) for value in values)


def _sign(value: float | None, low: float, high: float, look: Look) -> str:
    levels = look.symbols.trend
    if value is None or not math.isfinite(value):
        return look.symbols.gap
    # Halves, since high - low may be more than a float can hold.
    size = high / 2 - low / 2
    share = 0.5 if size <= 0 else (value / 2 - low / 2) / size
    return levels[min(len(levels) - 1, max(0, int(share * len(levels))))]


def bound_values(bound: str) -> list[float]:
    """The numbers in a bound as it is written ("below 0.7", "within [1, 2]")."""
    found = (float(word) for word in re.findall(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?", bound))
    return [number for number in found if math.isfinite(number)]


def number_in_words(value: float | None) -> str:
    """A reading's value with three digits, or that there is none."""
    return "none" if value is None else f"{value:.3g}"


# ---------------------------------------------------------------- story


def story_section(status: Status, look: Look, lines: int) -> list[Line]:
    """The last lines of the story, newest last."""
    notes = status.story[-lines:] if lines else ()
    if not notes:
        return []
    head = line(Span("Story", "strong"), Span(_zone(status, look), "quiet"))
    rows = wrap(head, look.width, 2)
    for note in notes:
        at = Span(f"  {clock(note.at, look.zone)}  ", "quiet")
        rows += wrap(line(at, clean(note.text, look)), look.width, 12)
    return rows


def _zone(status: Status, look: Look) -> str:
    return f"  times at {offset(status.as_of, look.zone)}"
