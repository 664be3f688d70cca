"""How does a person stop everything at once? (guardrail stop)"""

import asyncio
import time
from dataclasses import dataclass

import typer

from guardrail.cli.json_out import dump
from guardrail.cli.session import By, Json, person, run, settings
from guardrail.cli.talk import Spoken, speak, stand_still, tell
from guardrail.edges.temporal import Operations, connect
from guardrail.errors import GuardrailError, Refused

EXAMPLE = 'Example: guardrail stop --reason "the site is slow"'

app = typer.Typer()


PLANNING = 60.0
"""Seconds for which an operation that is still being planned is told again."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """What one operation answered. exit_code: 0 where it holds."""

    operation: str
    answer: str
    exit_code: int
    in_flight: int | None = None


@app.command(epilog=EXAMPLE)
def stop(
    reason: str = typer.Option("", "--reason", help="Why; it is recorded and shown."),
    by: By = "",
    as_json: Json = False,
) -> None:
    """Hold every open operation, now; says what each one answered."""
    answers = run(_stop(person(by, settings()), reason or "guardrail stop", quiet=as_json))
    if as_json:
        typer.echo(dump(answers))
    code = max((answer.exit_code for answer in answers), default=0)
    if code:
        raise typer.Exit(code)


async def _stop(by: str, reason: str, *, quiet: bool) -> list[Stopped]:
    operations = await connect()
    names = [known.operation for known in await operations.all(ended=0)]
    if not names and not quiet:
        typer.echo("No operation is open: there is nothing to hold.")
    heard = await asyncio.gather(*(_pause(operations, name, by, reason) for name in names))
    answers = [answer for answer, _ in heard]
    if not quiet:
        tell([f"{answer.operation}: {answer.answer}" for answer in answers])
    spoken = [each for _, each in heard if each is not None]
    await asyncio.gather(*(stand_still(each) for each in spoken))
    if spoken and not quiet:
        tell(_promise([each.operation for each in spoken]))
    return answers


async def _pause(
    operations: Operations, name: str, by: str, reason: str
) -> tuple[Stopped, Spoken | None]:
    """One operation's answer; one that does not answer never keeps the others waiting."""
    try:
        spoken = await _once_planned(operations, name, by, reason)
    except GuardrailError as error:
        return Stopped(name, str(error), error.exit_code), None
    return Stopped(name, spoken.said.text, 0, spoken.said.in_flight), spoken


async def _once_planned(operations: Operations, name: str, by: str, reason: str) -> Spoken:
    """Say it; one that is still being planned cannot hear it yet, and is told as soon as it can."""
    limit = time.monotonic() + PLANNING
    planning = True  # until a refusal came after its plan was seen: the plan may come in between
    while True:
        try:
            return await speak(operations, name, "pause", by, reason=reason)
        except Refused:
            if time.monotonic() > limit or not planning:
                raise
        planning = await _is_planning(operations, name)
        await asyncio.sleep(0.1 if planning else 0)


async def _is_planning(operations: Operations, name: str) -> bool:
    try:
        status = await operations.status(name)
        return status.phase == "planned" and (await operations.known(name)).open
    except GuardrailError:
        return False


def _promise(names: list[str]) -> list[str]:
    return [
        f"No host begins any more in: {', '.join(names)}.",
        "If nobody acts they stay held, and what is in flight finishes.",
        *(f"guardrail rollout resume {name}" for name in names),
    ]
