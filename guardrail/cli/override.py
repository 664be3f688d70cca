"""How does a person exceed a limit for a while, and see what is exceeded? (guardrail override)"""

import time
import uuid
from datetime import datetime
from typing import Annotated

import typer

from guardrail.cli.json_out import dump
from guardrail.cli.session import By, Json, person, run, settings
from guardrail.cli.signing import Sign, SignatureFile, Signing, WhatToSign, say_signed
from guardrail.cli.talk import pick, tell
from guardrail.decide.overrides import KNOBS, clock, consent_words, in_words, stands
from guardrail.edges.temporal import Operations, connect
from guardrail.errors import Refused
from guardrail.files.values import seconds
from guardrail.model.messages import Say
from guardrail.model.override import Override

app = typer.Typer(
    name="override",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Exceed one limit of one operation, until a time; and see what is exceeded.",
    epilog="Example: guardrail override list",
)


@app.command(
    epilog="Example: guardrail override add consul-1.8.8 unavailable 3 --until 2h --reason 'late'"
)
def add(
    *,
    operation: Annotated[str, typer.Argument(metavar="OP", help="The operation's name.")],
    limit: Annotated[str, typer.Argument(metavar="LIMIT", help=f"One of {', '.join(KNOBS)}.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Hosts, domains, or a duration.")],
    until: Annotated[
        str, typer.Option("--until", metavar="WHEN", help="After so long (2h), or at a time (UTC).")
    ] = "",
    reason: Annotated[str, typer.Option("--reason", help="Why; recorded and shown. Needed.")],
    sign: Sign = None,
    signature: SignatureFile = None,
    what_to_sign: WhatToSign = False,
    by: By = "",
    as_json: Json = False,
) -> None:
    """Allow more of one limit until a time; the plan's own value takes an override back.

    Owners of policies that allow less have to agree: guardrail rollout approve.
    """
    at = time.time()
    say = Say(
        str(uuid.uuid4()),
        "override",
        person(by, settings()),
        reason,
        at=at,
        limit=limit,
        value=value_of(limit, value),
        until=until_of(until, at),
    )
    run(_add(operation, say, Signing(sign, signature, what_to_sign), as_json), operation)


def value_of(limit: str, written: str) -> float:
    """A number, or a duration where the limit is one. Raises Refused."""
    try:
        return seconds(written) if limit == "pace.between" else float(written)
    except ValueError as fault:
        raise Refused(f"{limit} cannot be {written!r}: {fault}") from None


def until_of(written: str, now: float) -> float:
    """When it ends, in whole seconds since the epoch; 0 where nothing is said. Raises Refused."""
    if not written:
        return 0.0
    try:
        return float(int(now + seconds(written)))
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(written)
    except ValueError:
        raise Refused(
            f"--until takes a duration (2h, 30m) or a time (2026-11-30T05:00:00Z), not {written!r}"
        ) from None
    if when.tzinfo is None:
        raise Refused(f"--until {written} does not say in which zone: 2026-11-30T05:00:00Z is UTC")
    return float(int(when.timestamp()))


async def _add(operation: str, say: Say, how: Signing, as_json: bool) -> None:
    if how.show and say.until:
        typer.echo(f"Say it with the same end: --until {clock(say.until)}", err=True)
    await say_signed(operation, say, how, as_json=as_json)


@app.command("list", epilog="Example: guardrail override list consul-1.8.8")
def list_(
    operation: Annotated[
        str | None, typer.Argument(metavar="[OP]", help="Only of this operation.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List what is exceeded now, and what waits for its owners; of all open operations."""
    found = run(_list(operation))
    if as_json:
        typer.echo(dump(found))
    elif not found:
        typer.echo("No limit is overridden.")
    else:
        tell([line for name, each in found for line in told(name, each)])


async def _list(operation: str | None) -> list[tuple[str, Override]]:
    operations = await connect()
    names = [await pick(operations, operation)] if operation else await _open(operations)
    found = [(name, await operations.status(name)) for name in names]
    return [(name, each) for name, status in found for each in status.overrides]


async def _open(operations: Operations) -> list[str]:
    return [known.operation for known in await operations.all(ended=0)]


def told(name: str, each: Override) -> list[str]:
    """One override in lines, with what it waits for."""
    lines = [f"{name}: {in_words(each)}", f"  {stands(each)}"]
    if not each.in_force:
        lines.append(f"  they agree with: guardrail rollout approve {name} {consent_words(each)}")
    return lines
