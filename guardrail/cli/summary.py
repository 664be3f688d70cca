"""What became of an operation, as a page that can be kept, mailed or put into a ticket?

`summary` makes Markdown of a status and its plan; it reads no clock and asks nobody.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Annotated

import typer

from guardrail.cli.fleet_view import host_name
from guardrail.cli.plan_names import names_of
from guardrail.cli.plan_view import in_units
from guardrail.cli.session import run, settings
from guardrail.cli.text import Look, clean, clock, count, duration, stamp
from guardrail.cli.view import number_in_words
from guardrail.decide.bits import members
from guardrail.edges.temporal import Operations, connect
from guardrail.errors import Refused
from guardrail.model.messages import GateState, HostState, Status
from guardrail.model.operation import FINAL
from guardrail.model.plan import Plan, Wave
from guardrail.settings import Settings

EXAMPLE = "Example: guardrail rollout summary consul-1.8.8 --out summary.md"

app = typer.Typer()


@app.command("summary", epilog=EXAMPLE)
def command(
    operation: Annotated[
        str | None, typer.Argument(metavar="[OP]", help="Default: the open one, else the last.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it there as well.")
    ] = None,
) -> None:
    """Sum up an operation as Markdown: what was done, within which limits, and what happened."""
    text = run(_asked(operation, settings()))
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise Refused(f"the summary cannot be written to {out}: {error.strerror}") from None
    typer.echo(text, nl=False)


async def _asked(operation: str | None, known: Settings) -> str:
    operations = await connect()
    status = await operations.status(operation or await newest(operations))
    names = await names_of(known, status.plan)
    return summary(names.named(status), names.plan)


async def newest(operations: Operations) -> str:
    """The only open operation, or with none open the last one that ended. Raises Refused."""
    found = await operations.all(ended=1)
    open_ones = [known.operation for known in found if known.open]
    if len(open_ones) > 1:
        raise Refused(f"{len(open_ones)} operations are open, name one: {', '.join(open_ones)}")
    if not found:
        raise Refused("there is no operation yet; start one: guardrail rollout start FILE")
    return open_ones[0] if open_ones else found[0].operation


def summary(status: Status, plan: Plan | None = None, zone: tzinfo | None = None) -> str:
    """The whole page. Without a plan, hosts that were not named have numbers."""
    sections = (
        head(status, plan, zone),
        holds_now(status),
        left_out(status, plan),
        gates(status),
        waves(status),
        limits(plan),
        story(status, zone),
    )
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


# ---------------------------------------------------------------- sections


def head(status: Status, plan: Plan | None, zone: tzinfo | None) -> list[str]:
    """How it ended, and the facts."""
    word = status.phase.replace("_", " ")
    reasons = "; ".join(status.finish_reasons) if status.phase in FINAL else status.sentence
    return [
        f"# {safe(status.operation)}: {word}",
        "",
        f"{safe(reasons)}.",
        "",
        *_table(("", ""), _facts(status, plan, zone)),
    ]


def _facts(status: Status, plan: Plan | None, zone: tzinfo | None) -> list[tuple[str, str]]:
    facts = [("Hosts", _counts(status))]
    if plan is not None:
        change = plan.change
        facts.append(
            ("Change", f"{change.name} {change.old} to {change.new} on fleet {plan.fleet}")
        )
        facts += [("Ticket", plan.ticket)] if plan.ticket else []
    vouched = "" if status.requester_verified or not status.requester else " (unverified)"
    facts.append(("Asked for by", f"{status.requester or 'nobody that is known'}{vouched}"))
    if status.started_at is not None:
        end = status.as_of if status.finished_at is None else status.finished_at
        expected = f", {duration(plan.seconds_expected)} expected" if plan else ""
        facts.append(("Began", stamp(status.started_at, zone)))
        facts.append(("Ended" if status.finished_at else "As of", stamp(end, zone)))
        facts.append(("Took", duration(end - status.started_at) + expected))
    facts.append(("Plan", status.plan))
    return facts


def _counts(status: Status) -> str:
    """`30 of 30 changed`, and whatever is not."""
    parts = [f"{status.changed:,} of {status.hosts:,} changed"]
    rest = status.hosts - status.changed - status.failed - status.unknown - status.set_aside
    rest -= status.reverted
    for number, word in (
        (status.failed, "failed"),
        (status.unknown, "unknown"),
        (status.set_aside, "set aside"),
        (status.reverted, "back at the former version"),
        (rest, "not changed"),
    ):
        parts += [f"{number:,} {word}"] if number > 0 else []
    return ", ".join(parts)


def holds_now(status: Status) -> list[str]:
    """The holds that stand, with what ends them."""
    if not status.holds:
        return []
    rows = [(hold.name, "; ".join(hold.reasons), hold.clears) for hold in status.holds]
    return ["## Held on", "", *_table(("hold", "why", "ends by"), rows)]


def left_out(status: Status, plan: Plan | None) -> list[str]:
    """The hosts that were not changed and why, and for an operation cut short which were."""
    rows: list[str] = []
    if status.exceptional:
        cells = [_exceptional(host, plan) for host in status.exceptional]
        rows += [
            "## Hosts that did not simply change",
            "",
            *_table(("host", "state", "why"), cells),
        ]
        more = count(status.unnamed, "host")
        rows += ["", f"And {more} more, counted and not kept by name."] if status.unnamed else []
    if status.phase != "completed" and plan is not None and status.changed:
        changed = _named(status.changed_hosts, plan)
        still = "are still changed" if status.direction == "back" else "were changed"
        rows += [*([""] if rows else []), f"## Hosts that {still}", "", changed]
    if plan is not None and status.reverted:
        back = _named(status.reverted_hosts, plan)
        rows += [*([""] if rows else []), "## Hosts back at the former version", "", back]
    return rows


def _exceptional(host: HostState, plan: Plan | None) -> tuple[str, str, str]:
    return host_name(host, plan), host.outcome.replace("_", " "), host.reason


def _named(digits: str, plan: Plan) -> str:
    """The hosts of a hex number over the plan's indexes, by name."""
    known = (index for index in members(_bits(digits)) if index < len(plan.hosts))
    return safe(", ".join(plan.hosts[index].name for index in known))


def _bits(digits: str) -> int:
    found = re.fullmatch(r"[0-9a-f]+", digits)
    return int(found[0], 16) if found else 0


def gates(status: Status) -> list[str]:
    """Each gate's bound, and what it said last."""
    if not status.gates:
        return []
    cells = [_gate(gate) for gate in status.gates]
    return ["## Gates", "", *_table(("gate", "bound", "last verdict", "last value", "why"), cells)]


def _gate(gate: GateState) -> tuple[str, ...]:
    judged = gate.judgement
    if judged is None:
        return gate.name, gate.bound, "not judged", "none", ""
    kind = f" ({judged.kind})" if judged.kind else ""
    value = number_in_words(judged.value)
    return gate.name, gate.bound, judged.verdict + kind, value, "; ".join(judged.reasons)


def waves(status: Status) -> list[str]:
    """The waves, and how far it came."""
    done = status.phase == "completed"
    cells = [
        (
            str(number + 1),
            f"to {wave.stage}",
            count(wave.end - wave.begin, "host"),
            _became(status, number, wave)
            if status.direction == "back"
            else "done"
            if done or number < status.wave
            else _last_wave(status, number),
        )
        for number, wave in enumerate(status.waves)
    ]
    return ["## Waves", "", *_table(("wave", "stage", "hosts", ""), cells)]


def _became(status: Status, number: int, wave: Wave) -> str:
    """What became of a wave on the way back."""
    hosts = (1 << wave.end) - (1 << wave.begin)
    back, changed = _bits(status.reverted_hosts) & hosts, _bits(status.changed_hosts) & hosts
    if not back and not changed:
        return "not begun"
    if not changed:
        return "back"
    return "going back" if back or number == status.wave else "done"


def _last_wave(status: Status, number: int) -> str:
    began = number == status.wave and status.started_at is not None
    return "in it" if began else "not begun"


def limits(plan: Plan | None) -> list[str]:
    """The limits that were kept, and where each came from."""
    if plan is None or not plan.limits:
        return []
    cells = [
        (limit.name, in_units(limit), limit.written, str(limit.origin)) for limit in plan.limits
    ]
    return ["## Limits", "", *_table(("limit", "value", "as written", "from"), cells)]


def story(status: Status, zone: tzinfo | None) -> list[str]:
    """What happened, in order."""
    if not status.story:
        return []
    day = stamp(status.story[0].at, zone)
    about = f"From {day[:10]}, times at {day[19:]}."
    lines = [f"- {clock(note.at, zone)} {safe(note.text)}" for note in status.story]
    return ["## Story", "", about, "", *lines]


# ---------------------------------------------------------------- Markdown


def safe(text: str) -> str:
    """The text on one line, with nothing in it that Markdown or HTML would act upon."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", clean(text, Look()))


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    drawn = [f"| {' | '.join(safe(cell) for cell in row)} |" for row in (titles, *rows)]
    return [drawn[0], "|" + "---|" * len(titles), *drawn[1:]]
