"""How does a person put a name that counts below what they say?

With `--sign KEYFILE` here and now, or offline: `--what-to-sign` prints exactly the text,
`ssh-keygen -Y sign -n guardrail -f KEYFILE` signs it, and `--signature FILE` brings it.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from guardrail.cli.talk import pick, tell_answer, utter
from guardrail.decide.signing import statement
from guardrail.edges.signatures import MOST_SIGNATURE, NAMESPACE, sign
from guardrail.edges.temporal import Operations, connect
from guardrail.errors import Refused
from guardrail.model.messages import Say

Sign = Annotated[
    Path | None,
    typer.Option("--sign", metavar="KEYFILE", help="Sign it with this key; its name then counts."),
]
SignatureFile = Annotated[
    Path | None,
    typer.Option("--signature", metavar="FILE", help="A signature that was made elsewhere."),
]
WhatToSign = Annotated[
    bool, typer.Option("--what-to-sign", help="Only print exactly the text that has to be signed.")
]


@dataclass(frozen=True, slots=True)
class Signing:
    """What was asked for of the three. Raises Refused for more than one."""

    key: Path | None = None
    signature: Path | None = None
    show: bool = False

    def __post_init__(self) -> None:
        if sum((self.key is not None, self.signature is not None, self.show)) > 1:
            raise Refused("take one of --sign, --signature and --what-to-sign")

    @property
    def wanted(self) -> bool:
        """Whether any was asked for."""
        return self.key is not None or self.signature is not None or self.show


def signature_over(text: str, how: Signing, more: str = "") -> str | None:
    """The signature that was asked for, or brought; None once the text was only printed.

    more: options that bring it later. Raises Refused when it cannot be signed, or the file cannot
    be read.
    """
    if how.signature is not None:
        return _read(how.signature)
    if how.key is not None:
        return sign(text, how.key)
    typer.echo(text, nl=False)
    typer.echo(f"Sign it: ssh-keygen -Y sign -n {NAMESPACE} -f KEYFILE < TEXT > FILE", err=True)
    if more:
        typer.echo(f"Then say the same with {more} --signature FILE", err=True)
    return None


async def signed(operations: Operations, operation: str, say: Say, how: Signing) -> Say | None:
    """The command with its signature, if one was asked for; None once the text was printed.

    Raises Refused when it cannot be signed, or the signature's file cannot be read.
    """
    if not how.wanted:
        return say
    if how.signature is not None:
        return replace(say, signature=_read(how.signature))
    text = statement(operation, (await operations.status(operation)).plan, say)
    signature = signature_over(text, how)
    return None if signature is None else replace(say, signature=signature)


async def say_signed(operation: str | None, say: Say, how: Signing, *, as_json: bool) -> None:
    """Say it with its signature, and tell what was answered; or only print what to sign.

    operation None: the only open one. Raises as `signed` and `utter` do.
    """
    operations = await connect()
    name = await pick(operations, operation)
    ready = await signed(operations, name, say, how)
    if ready is None:
        return
    await tell_answer(operations, await utter(operations, name, ready), as_json=as_json)


def _read(path: Path) -> str:
    try:
        with path.open() as file:
            return file.read(MOST_SIGNATURE + 1)
    except (OSError, UnicodeDecodeError) as fault:
        raise Refused(f"the signature {path} cannot be read: {fault}") from None
