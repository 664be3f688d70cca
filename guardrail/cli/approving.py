"""How does a person consent to pass a point of a plan, so that the consent counts?"""

import time
import uuid
from typing import Annotated

import typer

from guardrail.cli.json_out import dump
from guardrail.cli.session import By, Json, person, run, settings
from guardrail.cli.signing import Sign, SignatureFile, Signing, WhatToSign, signed
from guardrail.cli.talk import pick, state_lines, tell, utter
from guardrail.edges.temporal import connect
from guardrail.model.messages import Say

EXAMPLE = "Example: guardrail rollout approve consul-1.8.8 --point 10% --sign ~/.ssh/id_ed25519"


def command(
    *,
    point: Annotated[str, typer.Option("--point", metavar="P", help="Which point of the plan.")],
    operation: Annotated[
        str | None, typer.Argument(metavar="[OP]", help="The operation's name.")
    ] = None,
    sign: Sign = None,
    signature: SignatureFile = None,
    what_to_sign: WhatToSign = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded and shown.")] = "",
    by: By = "",
    as_json: Json = False,
) -> None:
    """Consent to pass a named point of the plan; where two have to agree, with a signature."""
    who = person(by, settings())
    say = Say(str(uuid.uuid4()), "approve", who, reason, point, at=time.time())
    run(_approve(operation, say, Signing(sign, signature, what_to_sign), as_json), operation)


async def _approve(operation: str | None, say: Say, how: Signing, as_json: bool) -> None:
    operations = await connect()
    name = await pick(operations, operation)
    ready = await signed(operations, name, say, how)
    if ready is None:
        return
    spoken = await utter(operations, name, ready)
    if as_json:
        typer.echo(dump(spoken.said))
        return
    tell([f"{name}: {spoken.said.text}", *await state_lines(operations, name)])
