"""When did an operation hold, and why; for a shadow, when would it have held?

(guardrail rollout report) It is read from the journal, which outlives Temporal and workers.
"""

import time
from typing import Annotated

import typer

from guardrail.cli.json_out import dump
from guardrail.cli.session import Json, run, settings
from guardrail.cli.summary import newest
from guardrail.cli.talk import tell
from guardrail.cli.text import count, duration, people, stamp
from guardrail.decide.chain import check
from guardrail.decide.shadow import Held, Report, report
from guardrail.edges.journal import journal_at
from guardrail.edges.temporal import connect
from guardrail.errors import Refused

EXAMPLE = "Example: guardrail rollout report consul-1.8.8-shadow"

app = typer.Typer()


@app.command("report", epilog=EXAMPLE)
def command(
    operation: Annotated[
        str | None, typer.Argument(metavar="[OP]", help="Default: the open one, else the last.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say when it held and why, and for how long; of a shadow: when it would have held."""
    known = settings()
    name = operation or run(_newest())
    checked = check(journal_at(known.journals).read(name), name)
    if not checked.lines:
        raise Refused(f"the journal at {known.journals} has nothing of {name}")
    found = report(name, checked.lines)
    if as_json:
        typer.echo(dump(found))
    else:
        tell(lines(found, time.time()))
    if checked.broken is not None:
        raise Refused(f"the journal of {name} can be read up to here only: {checked.broken}")


async def _newest() -> str:
    return await newest(await connect())


def lines(found: Report, now: float) -> list[str]:
    """The report in words. now: for what has not ended."""
    held = [_line(one, now) for one in found.held]
    return [*_head(found, now), *held, *(_not_waited_for(found) if found.shadow else ())]


def _not_waited_for(found: Report) -> list[str]:
    """What the rollout itself would have waited for, and its shadow did not."""
    past = [
        f"  {stamp(one.at, None)}: approval at {one.point}: {people(one.people)} would have had to "
        f"agree ({one.origin})"
        for one in found.passed
    ]
    hosts = f"{count(found.warm, 'host')} would have been cold first"
    warm = (
        f"  warm-up: {hosts}, and others would have waited for that; nothing was restarted, so its "
        "gates were read of hosts as they are"
    )
    leases = "  leases: none was taken, so it waited for no other operation"
    return ["It did not wait for:", *past, *([warm] if found.warm else []), leases]


def _head(found: Report, now: float) -> list[str]:
    kind = " was a shadow: no host was changed" if found.shadow else ""
    state = found.phase.replace("_", " ") or "goes on"
    first = f"{found.operation}{kind}{';' if kind else ':'} {state}"
    first += f": {'; '.join(found.outcome)}." if found.outcome else "."
    if found.started_at is None:
        return [first]
    end = now if found.finished_at is None else found.finished_at
    took = f"It took {duration(end - found.started_at)} from {stamp(found.started_at, None)}."
    would = "would have held" if found.shadow else "held"
    if not found.held:
        return [first, took, f"It {would} at no time."]
    times = "once" if len(found.held) == 1 else f"{len(found.held)} times"
    return [first, took, f"It {would} {times}:"]


def _line(one: Held, now: float) -> str:
    end = now if one.finished_at is None else one.finished_at
    until = "until now" if one.finished_at is None else f"for {duration(end - one.since)}"
    ended = f"; ended: {one.cleared}" if one.cleared else ""
    return f"  {stamp(one.since, None)}, {until}: {one.name}: {'; '.join(one.reasons)}{ended}"
