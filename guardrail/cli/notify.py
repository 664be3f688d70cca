"""Who is told what, and does it reach them? (guardrail notify ...)"""

import time
from dataclasses import dataclass
from typing import Annotated

import typer

from guardrail.cli.json_out import dump
from guardrail.cli.session import By, Json, person, progress, run, settings
from guardrail.cli.talk import tell
from guardrail.decide.escalation import faults
from guardrail.decide.notice_words import counted, span
from guardrail.edges.notices import Bulletin
from guardrail.edges.temporal import connect
from guardrail.errors import Refused
from guardrail.model.board import Board, Group, TrialAsked, Tried
from guardrail.model.notice import Failed, Route

app = typer.Typer(
    name="notify",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Show the channels by which people are told, try one, and see what was said.",
    epilog="Example: guardrail notify test storage-oncall",
)


@dataclass(frozen=True, slots=True)
class Shown:
    """The worker's channels, and what is wrong with them as a whole, for JSON."""

    channels: tuple[Route, ...]
    faults: tuple[str, ...]


@app.command("list", epilog="Example: guardrail notify list --json")
def list_channels(as_json: Json = False) -> None:
    """Show the channels of the worker's source: what each is told, and who is next."""
    found = run(_tried(TrialAsked()))
    shown = Shown(found.routes, faults(found.routes))
    if as_json:
        typer.echo(dump(shown))
        return
    tell(lines(shown))


@app.command("test", epilog="Example: guardrail notify test storage-oncall")
def try_channel(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="As `notify list` names it.")],
    by: By = "",
    as_json: Json = False,
) -> None:
    """Have the worker send a message to one channel, and say whether it was taken.

    Only that channel is tried; exit code 1 when it does not take the message.
    """
    who = person(by, settings())
    if not as_json:
        progress(f"the worker tries {channel} …")
    found = run(_tried(TrialAsked(channel, who)))
    if as_json:
        typer.echo(dump(found))
    else:
        tell(_outcome(channel, found))
    if isinstance(found.answer, Failed):
        raise Refused(f"{channel} did not take the message: {found.answer.why}")


@app.command(epilog="Example: guardrail notify status")
def status(as_json: Json = False) -> None:
    """Show what stands in all operations, and what of it has been said."""
    board = run(_board())
    if as_json:
        typer.echo(dump(board))
        return
    tell(standing(board, time.time()))


async def _tried(asked: TrialAsked) -> Tried:
    operations = await connect()
    return await Bulletin(operations.client, operations.address).tried(asked)


async def _board() -> Board:
    operations = await connect()
    return await Bulletin(operations.client, operations.address).board()


# ---------------------------------------------------------------- in words


def lines(shown: Shown) -> list[str]:
    """The channels in words."""
    if not shown.channels:
        return [
            "The worker's source has no channel: nobody is told anything.",
            "Write a document of the kind Channel there (docs/notifications.md).",
        ]
    rows = [
        f"{route.name}: is told of {', '.join(route.tells)}"
        + (f"; where it fails, {route.otherwise}" if route.otherwise else "")
        for route in shown.channels
    ]
    first = shown.channels[0].name
    return [*rows, *(f"wrong: {fault}" for fault in shown.faults), f"guardrail notify test {first}"]


def _outcome(channel: str, found: Tried) -> list[str]:
    if found.answer is None or isinstance(found.answer, Failed):
        return []
    tries = f" at try {found.answer.tries}" if found.answer.tries > 1 else ""
    return [f"{channel} took the message{tries}. Look whether it arrived."]


def standing(board: Board, now: float) -> list[str]:
    """What stands, cause by cause."""
    rows = [_group(group, now) for group in board.groups if _standing(group)]
    return rows or ["Nothing stands that somebody has to be told."]


def _standing(group: Group) -> int:
    return sum(member.gone is None for member in group.members)


def _group(group: Group, now: float) -> str:
    there = [member for member in group.members if member.gone is None]
    named = there[0].operation if len(there) == 1 else counted(len(there))
    since = span(now - min(member.since for member in there))
    said = sum(member.said for member in there)
    told = f"said {span(now - group.last)} ago" if said else "not said yet"
    if 0 < said < len(there):
        told += f", and {counted(len(there) - said)} came since"
    failed = "; no channel took the last message" if group.failed else ""
    return f"{named} {group.what if len(there) == 1 else group.many}, for {since}; {told}{failed}"
