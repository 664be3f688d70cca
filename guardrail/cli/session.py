"""What do all commands share: a connection, an event loop, and what Ctrl-C means?"""

import asyncio
from collections.abc import Coroutine
from datetime import datetime
from typing import Annotated, Any, TypeVar

import typer

from guardrail.errors import GuardrailError, Refused
from guardrail.files.values import seconds
from guardrail.settings import Settings

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="Print the model as JSON, nothing else.")]
By = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="NAME",
        help="Who says so; default GUARDRAIL_USER, else the login name. Recorded as unverified.",
    ),
]


class Interrupted(GuardrailError):
    """A person pressed Ctrl-C: the command ends, an operation never does."""

    exit_code = 130

    def __init__(self, operation: str | None = None, said: str = "") -> None:
        where = f"watch {operation}" if operation else "list"
        goes_on = "The operation goes on" if operation else "Operations go on"
        super().__init__(said or f"{goes_on}; come back with: guardrail rollout {where}")


def run(work: Coroutine[Any, Any, T], operation: str | None = None) -> T:
    """Run a command's work to its end. Raises Interrupted at Ctrl-C."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise Interrupted(operation) from None


def settings() -> Settings:
    """The settings of this command, read once at its entry."""
    return Settings.read()


def person(by: str, known: Settings) -> str:
    """Who acts. Raises Refused when nobody can be named."""
    name = (by or known.identity).strip()
    if not name:
        raise Refused("say who you are: --by NAME, or GUARDRAIL_USER in the environment")
    return name


def progress(text: str) -> None:
    """A line about work that goes on: to standard error, so that output stays clean."""
    typer.echo(text, err=True)


def end_of(text: str, now: float) -> float:
    """So long from now, or a time, in the user's zone unless it names one; epoch seconds."""
    try:
        return now + seconds(text.strip())
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"--until is a duration (2h, 30m, 2d) or a time (2026-12-24 08:00), not {text!r}"
        ) from None
