"""What is to be prepared, how far is it, and who has it? (guardrail remind ...)"""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from guardrail.cli.json_out import dump
from guardrail.cli.remind_view import (
    Ahead,
    Shown,
    ahead,
    ahead_lines,
    lines,
    row,
    shown,
    state_lines,
)
from guardrail.cli.session import By, Json, end_of, person, progress, run, settings
from guardrail.cli.talk import tell
from guardrail.decide.occasions import DAY
from guardrail.edges.holidays import moments_of
from guardrail.edges.notices import Bulletin
from guardrail.edges.reminders import Reminding
from guardrail.edges.temporal import connect
from guardrail.errors import Refused
from guardrail.files import Documents, load, shipped_policies
from guardrail.model.board import TrialAsked
from guardrail.model.notice import Answer, Failed
from guardrail.model.occasion import Moment
from guardrail.model.remind import Word
from guardrail.model.reminder import Reminder, ReminderState

app = typer.Typer(
    name="remind",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="See what is to be prepared for an occasion, take it on, put it off, and prove it done.",
    epilog="Example: guardrail remind list",
)

YEAR = 366 * DAY
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="As `remind list` names it; its year may be left out.")
]
Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE]...",
        help="Files or folders of documents [GUARDRAIL_SOURCE, or the shipped policies].",
    ),
]


@dataclass(frozen=True, slots=True)
class Coming:
    """What is to come, for JSON."""

    coming: tuple[Ahead, ...]


@dataclass(frozen=True, slots=True)
class Open:
    """All that are open, for JSON."""

    reminders: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """Whom a trial message reached, for JSON."""

    reminder: str
    answers: tuple[Answer, ...]


# ---------------------------------------------------------------- check


@app.command(epilog="Example: guardrail remind check examples/holiday-season/source")
def check(
    files: Files = None,
    *,
    until: Annotated[
        str, typer.Option("--until", metavar="WHEN", help="90d, or a day; default: 366d.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Check reminders, and show which moments come, when who is told, and what that rests on.

    Exit 2 where a document is wrong.
    """
    documents, now = _documents(files), time.time()
    end = end_of(until, now) if until else now + YEAR
    found = [pair for each in documents.reminders for pair in _coming(each, now, end)]
    found.sort(key=lambda pair: (pair[1].begins_at, pair[0].name))
    if as_json:
        typer.echo(dump(Coming(tuple(ahead(*pair) for pair in found))))
        return
    if not found:
        tell([f"{len(documents.reminders)} reminders are right; none of them comes in that time."])
        return
    for reminder, moment in found:
        tell(ahead_lines(ahead(reminder, moment), moment.offset))


def _coming(reminder: Reminder, now: float, end: float) -> list[tuple[Reminder, Moment]]:
    begin = now - reminder.occasion.lasts
    found = moments_of(reminder.occasion, begin, end)
    return [(reminder, moment) for moment in found if moment.ends_at > now]


def _documents(files: Sequence[Path] | None) -> Documents:
    return load(files or [settings().source or shipped_policies()])


# ---------------------------------------------------------------- list, show


@app.command("list", epilog="Example: guardrail remind list --json")
def list_reminders(as_json: Json = False) -> None:
    """Show the reminders that are open: how far each is, and whom it waits for."""
    found = tuple(shown(state) for state in run(_open()))
    if as_json:
        typer.echo(dump(Open(found)))
        return
    nothing = ["No reminder is open. See what is to come: guardrail remind check"]
    tell([row(each) for each in found] or nothing)


async def _open() -> list[ReminderState]:
    desk = await _desk()
    states = [await desk.state(each) for each in await desk.open()]
    return sorted(states, key=lambda state: (state.wanted.moment.begins_at, state.wanted.id))


@app.command(epilog="Example: guardrail remind show transit-gateway-us")
def show(name: Name, as_json: Json = False) -> None:
    """Show one: its occasion, its steps with their evidence, and what happened."""
    state = run(_state(name))
    if as_json:
        typer.echo(dump(shown(state)))
        return
    tell(lines(state))


async def _state(name: str) -> ReminderState:
    desk = await _desk()
    return await desk.state(await desk.pick(name))


async def _desk() -> Reminding:
    operations = await connect()
    return Reminding(operations.client, operations.address)


# ---------------------------------------------------------------- ack, snooze, done


@app.command(epilog="Example: guardrail remind ack transit-gateway-us")
def ack(name: Name, by: By = "", as_json: Json = False) -> None:
    """Take it on: nobody else is told until the next lead time."""
    _say(name, _word("ack", by), as_json=as_json)


@app.command(
    epilog='Example: guardrail remind snooze transit-gateway-us --until 2d --reason "closed"'
)
def snooze(
    name: Name,
    *,
    until: Annotated[
        str, typer.Option("--until", metavar="WHEN", help="2d, or a time. Needed.")
    ] = "",
    reason: Annotated[str, typer.Option("--reason", help="Why it can wait. Needed.")] = "",
    by: By = "",
    as_json: Json = False,
) -> None:
    """Put it off for a while: within the document's limit, and never beyond the occasion."""
    if not until:
        raise typer.BadParameter("--until says how long it can wait, such as 2d")
    word = replace(_word("snooze", by), reason=reason, until=end_of(until, time.time()))
    _say(name, word, as_json=as_json)


@app.command(epilog="Example: guardrail remind done transit-gateway-us --step ask --ticket CASE-7")
def done(
    name: Name,
    *,
    step: Annotated[
        str, typer.Option("--step", metavar="STEP", help="Only this step, with its --ticket.")
    ] = "",
    ticket: Annotated[
        str, typer.Option("--ticket", metavar="TEXT", help="The number of the ticket.")
    ] = "",
    by: By = "",
    as_json: Json = False,
) -> None:
    """Give the evidence of a step, or say that all of it is done.

    All queries are read first: without tickets and good readings it is refused, with what is
    missing.
    """
    if bool(step) != bool(ticket):
        raise typer.BadParameter("--step and --ticket are given together, or not at all")
    word = _word("ticket" if step else "done", by)
    _say(name, replace(word, task=step, text=ticket), as_json=as_json)


def _word(verb: str, by: str) -> Word:
    who = person(by, settings())
    return Word(uuid.uuid4().hex, verb, who, at=time.time())  # type: ignore[arg-type]


def _say(name: str, word: Word, *, as_json: bool) -> None:
    state = run(_said(name, word))
    tell([dump(shown(state))] if as_json else state_lines(state))


async def _said(name: str, word: Word) -> ReminderState:
    desk = await _desk()
    return await desk.say(await desk.pick(name), word)


# ---------------------------------------------------------------- test


@app.command("test", epilog="Example: guardrail remind test transit-gateway-us")
def try_people(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As its document names it.")],
    files: Files = None,
    *,
    by: By = "",
    as_json: Json = False,
) -> None:
    """Have the worker send a trial message to the owner, the deputy and the channel.

    Exit code 1 when one of them does not take it.
    """
    people = _documents(files).reminder(name).people
    who = person(by, settings())
    if not as_json:
        progress(f"the worker tries {', '.join(people.levels)} …")
    found = Trial(name, run(_tried(people.levels, who)))
    wrong = [each for each in found.answers if isinstance(each, Failed)]
    if as_json:
        typer.echo(dump(found))
    else:
        took = [each.channel for each in found.answers if not isinstance(each, Failed)]
        tell([f"{channel} took the message. Look whether it arrived." for channel in took])
    if wrong:
        raise Refused(*(f"{each.channel} did not take the message: {each.why}" for each in wrong))


async def _tried(channels: Sequence[str], by: str) -> tuple[Answer, ...]:
    operations = await connect()
    desk = Bulletin(operations.client, operations.address)
    tried = [await desk.tried(TrialAsked(each, by)) for each in dict.fromkeys(channels)]
    return tuple(each.answer for each in tried if each.answer is not None)
