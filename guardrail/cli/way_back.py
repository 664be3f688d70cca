"""How does a person take a rollout back, and see beforehand what that would do?"""

import time
import uuid
from collections.abc import Sequence
from typing import Annotated

import typer

from guardrail.cli.json_out import dump
from guardrail.cli.plan_names import Names, names_of
from guardrail.cli.session import By, Json, person, run, settings
from guardrail.cli.signing import Sign, SignatureFile, Signing, WhatToSign, say_signed
from guardrail.cli.talk import pick, state_lines, tell
from guardrail.decide.bits import newest_first
from guardrail.edges.temporal import Operations, connect
from guardrail.errors import Refused
from guardrail.model.messages import Say, WayBack
from guardrail.model.operation import Scope
from guardrail.settings import Settings

EXAMPLE = "Example: guardrail rollout rollback consul-1.8.8 --dry-run"
MOST_NAMES = 500


def command(
    *,
    operation: Annotated[
        str | None, typer.Argument(metavar="[OP]", help="The operation's name.")
    ] = None,
    scope: Annotated[
        Scope, typer.Option(help="All changed hosts, or those of the last wave; then it holds.")
    ] = "all",
    accept_churn: Annotated[
        bool,
        typer.Option(
            "--accept-churn",
            help="Break-glass: two people sign, and no gate stands in the way; limits do.",
        ),
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded and shown.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what it would do, and wait for.")
    ] = False,
    sign: Sign = None,
    signature: SignatureFile = None,
    what_to_sign: WhatToSign = False,
    by: By = "",
    as_json: Json = False,
) -> None:
    """Bring changed hosts back to the former version: newest first, same limits, gates live."""
    known = settings()
    how = Signing(sign, signature, what_to_sign)
    say = Say(
        str(uuid.uuid4()),
        "rollback",
        person(by, known),
        reason,
        scope=scope,
        accept_churn=accept_churn,
        at=time.time(),
    )
    if dry_run:
        run(_show(operation, say, known, as_json), operation)
    else:
        run(say_signed(operation, say, how, as_json=as_json), operation)


# ---------------------------------------------------------------- beforehand


async def _show(operation: str | None, say: Say, known: Settings, as_json: bool) -> None:
    operations = await connect()
    way = await asked(operations, await pick(operations, operation), say)
    names = await names_of(known, way.plan)
    if as_json:
        typer.echo(dump(way))
        return
    words = _typed(way, say)
    tell([*shown(way, names), f"Nothing was changed. To do it: guardrail rollout {words}"])


async def asked(operations: Operations, name: str, say: Say) -> WayBack:
    """What a rollback would do now. Raises Refused with the reason where it would be."""
    way = await operations.way_back(name, say)
    if way.refused:
        raise Refused(f"rollback refused: {way.refused}", *await state_lines(operations, name))
    return way


def shown(way: WayBack, names: Names) -> list[str]:
    """What it would do, and each host by name in the order in which it would go."""
    from guardrail.decide.way_back import in_words  # the whole engine

    order = [names.of(index) for index in newest_first(int(way.hosts, 16))]
    head, *more = in_words(way)
    lines = [f"A rollback of {way.operation} {head}.", *(f"  {words}" for words in more)]
    lines += [f"In this order: {_list_of(order)}"]
    return lines + ([names.missing] if names.missing else [])


def _list_of(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more (--json: all)" if more > 0 else "")


def _typed(way: WayBack, say: Say) -> str:
    """The command that does what was shown."""
    scope = f" --scope {way.scope}" if way.scope != "all" else ""
    churn = " --accept-churn --sign KEYFILE" if say.accept_churn else ""
    return f"rollback {way.operation}{scope}{churn}"
