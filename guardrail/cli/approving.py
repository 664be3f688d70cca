"""How does a person consent to pass a point of a plan, so that the consent counts?"""

import time
import uuid
from typing import Annotated

import typer

from guardrail.cli.session import By, Json, person, run, settings
from guardrail.cli.signing import Sign, SignatureFile, Signing, WhatToSign, say_signed
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
    how = Signing(sign, signature, what_to_sign)
    run(say_signed(operation, say, how, as_json=as_json), operation)
