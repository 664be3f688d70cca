"""`guardrail simulate`: do the engine's rules hold in worlds that are made up from seeds?"""

import itertools
import json
import time
from collections.abc import Iterable
from typing import Annotated

import typer

from guardrail.errors import Refused
from guardrail.simulation.campaign import NOTHING, Tally, added, broken, readable, run_seeds
from guardrail.simulation.from_seed import story

EXAMPLE = "Example: guardrail simulate --seeds 2000"

app = typer.Typer()
BATCH = 100


@app.command(epilog=EXAMPLE)
def simulate(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 1000,
    first: Annotated[int, typer.Option("--from", min=0, help="The first seed.")] = 0,
    forever: Annotated[
        bool, typer.Option("--forever", help="Until a rule breaks, or Ctrl-C.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Tell made-up stories to the engine; stop at the first that breaks a rule (exit 1)."""
    began, total = time.monotonic(), NOTHING
    for start, count in _batches(first, None if forever else seeds):
        total = added(total, run_seeds(start, count))
        _progress(total, time.monotonic() - began)
        if total.found:
            break
    typer.echo(err=True)
    _result(total, first, time.monotonic() - began, as_json)


def _batches(first: int, seeds: int | None) -> Iterable[tuple[int, int]]:
    starts = itertools.count(first, BATCH) if seeds is None else range(first, first + seeds, BATCH)
    for start in starts:
        yield start, BATCH if seeds is None else min(BATCH, first + seeds - start)


def _progress(total: Tally, took: float) -> None:
    rate = total.seeds / max(took, 1e-9)
    typer.echo(f"\r{total.seeds} seeds, {rate:.0f} a second ", nl=False, err=True)


def _result(total: Tally, first: int, took: float, as_json: bool) -> None:
    lines: tuple[str, ...] = ()
    if total.found:
        found = broken(story(total.found[0].seed)) or total.found[0]
        lines = readable(found)
    if as_json:
        typer.echo(json.dumps(_record(total, first, took, lines), indent=1))
    else:
        told = ", ".join(f"{count} {phase}" for phase, count in total.phases)
        typer.echo("\n".join([*lines, f"{total.seeds} seeds from {first}: {told}"]))
    if total.found:
        worst = total.found[0]
        raise Refused(f"seed {worst.seed} breaks {worst.rule}: {worst.what}")


def _record(total: Tally, first: int, took: float, lines: tuple[str, ...]) -> dict[str, object]:
    return {
        "from": first,
        "seeds": total.seeds,
        "operations": total.operations,
        "events": total.events,
        "phases": dict(total.phases),
        "tookSeconds": round(took, 2),
        "seedsPerSecond": round(total.seeds / max(took, 1e-9), 1),
        "broken": [{"seed": f.seed, "rule": f.rule, "what": f.what} for f in total.found],
        "story": list(lines),
    }
