"""`guardrail journal`: is what was recorded of an operation still what was written, and what is it?

It asks neither Temporal nor a worker: the journal outlives both. Exit 0: every line is sound;
1: one is not, or there is no such journal; 2: usage; 3: the place cannot be read.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from guardrail.cli.journal_story import story
from guardrail.cli.json_out import dump
from guardrail.cli.session import Json, progress, settings
from guardrail.cli.text import Look, count
from guardrail.decide.chain import check
from guardrail.edges.journal import JournalFolder, journal_at
from guardrail.errors import Refused
from guardrail.files.values import seconds
from guardrail.model.journal import Broken, Checked, Head, Line
from guardrail.ports import Journal

app = typer.Typer(
    name="journal",
    no_args_is_help=True,
    help="What was recorded of operations, for good: verify it, read it.",
)

VERIFY = "Example: guardrail journal verify consul-1.8.8 --head 41:9f86d081…"
SHOW = "Example: guardrail journal show consul-1.8.8 --since 2h"

Place = Annotated[
    str, typer.Option("--place", metavar="URL", help="Default: GUARDRAIL_JOURNAL, else the state.")
]


@dataclass(frozen=True, slots=True)
class Verified:
    """What is known of one journal. torn_bytes: of killed writers, moved beside it so far."""

    operation: str
    entries: int
    head: Head
    broken: Broken | None
    torn_bytes: int = 0


@app.command("verify", epilog=VERIFY)
def verify(
    operations: Annotated[
        list[str] | None, typer.Argument(metavar="[OPERATION]...", help="Default: all.")
    ] = None,
    head: Annotated[
        str, typer.Option("--head", metavar="SEQ:HASH", help="A head it had: tells a cut-off end.")
    ] = "",
    place: Place = "",
    as_json: Json = False,
) -> None:
    """Verify the chain of every journal, or of those named; exit 1 at a broken line."""
    where = place or settings().journals
    journal = journal_at(where)
    names = operations or list(journal.operations())
    if not names:
        raise Refused(f"there is no journal at {where}; name another place: --place URL")
    known = head_of(head, names)
    found = [_verified(journal, name, known) for name in names]
    typer.echo(dump(found) if as_json else "\n".join(map(verdict, found)))
    raise typer.Exit(1 if any(one.broken for one in found) else 0)


def head_of(text: str, names: Sequence[str]) -> Head | None:
    """The head that was given. Raises BadParameter (exit 2) for what is none, or is of whom?"""
    if not text:
        return None
    parts = re.fullmatch(r"([1-9][0-9]{0,17}):([0-9a-f]{64})", text.strip())
    if parts is None:
        raise typer.BadParameter("--head is SEQ:HASH as verify prints it, such as 41:9f86…")
    if len(names) != 1:
        raise typer.BadParameter("--head is of one operation: name it")
    return Head(int(parts[1]), parts[2])


def _verified(journal: Journal, operation: str, head: Head | None) -> Verified:
    checked = check(journal.read(operation), operation, head)
    torn = journal.torn(operation) if isinstance(journal, JournalFolder) else 0
    return Verified(operation, len(checked.lines), checked.head, checked.broken, torn)


def verdict(found: Verified) -> str:
    """One line for a person: sound with its head, or the first broken line."""
    sound = f"{found.operation}: {count(found.entries, 'sound entry').replace('entrys', 'entries')}"
    torn = f"; {found.torn_bytes} torn bytes lie beside it" if found.torn_bytes else ""
    if found.broken is None:
        return f"{sound}, head {found.head}{torn}"
    return f"{sound}, then {found.broken}{torn}"


@app.command("show", epilog=SHOW)
def show(
    operation: Annotated[str, typer.Argument(metavar="OPERATION")],
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="2h, or a time: 2026-11-29 14:00")
    ] = "",
    place: Place = "",
    as_json: Json = False,
) -> None:
    """Tell what happened to an operation, in words; exit 1 where its journal is broken."""
    start = moment_of(since, time.time()) if since else None
    checked = check(journal_at(place or settings().journals).read(operation), operation)
    if as_json:
        typer.echo(dump(as_record(operation, checked, start)))
    else:
        for row in story(checked.lines, Look(), start):
            typer.echo(row)
    if checked.broken is not None:
        progress(f"the journal of {operation} can be read up to here: {checked.broken}")
        raise typer.Exit(1)


def moment_of(text: str, now: float) -> float:
    """A time in the user's zone unless it names one, or so long before now; seconds."""
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        pass
    try:
        return now - seconds(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"--since is a duration (2h, 30m) or a time (2026-11-29 14:00), not {text!r}"
        ) from None


def as_record(operation: str, checked: Checked, since: float | None) -> dict[str, Any]:
    """The journal as `--json` prints it."""
    lines = [line for line in checked.lines if since is None or line.at >= since]
    return {
        "operation": operation,
        "head": checked.head,
        "broken": checked.broken,
        "entries": [_entry(line) for line in lines],
    }


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line without what only the chain needs."""

    sequence: int
    run: str
    event: int
    part: int
    at: float
    kind: str
    record: dict[str, Any]


def _entry(line: Line) -> _Entry:
    id_ = line.id
    return _Entry(line.sequence, id_.run, id_.event, id_.part, line.at, line.kind, line.fields)
