"""What is on the calendar of the season, and is everything ready for it? (guardrail season ...)"""

import math
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from guardrail.cli.json_out import dump
from guardrail.cli.season_view import report_lines, season_lines, standing_lines
from guardrail.cli.session import Json, run, settings
from guardrail.cli.talk import tell
from guardrail.cli.text import Look
from guardrail.decide.chain import check as chained
from guardrail.decide.check_words import report_of
from guardrail.decide.checking import worst
from guardrail.decide.occasions import DAY
from guardrail.decide.season import Due, longest_lead, season
from guardrail.edges.checking import Known, go_through
from guardrail.edges.checklists import Checklists
from guardrail.edges.freezes import Commands, Freezes, places_of
from guardrail.edges.holidays import moments_of
from guardrail.edges.journal import journal_at
from guardrail.edges.temporal import connect
from guardrail.errors import Refused, Unanswered
from guardrail.files import Documents, load, shipped_policies
from guardrail.files.freeze import parse_in
from guardrail.model.check import Standing
from guardrail.model.checklist import Report
from guardrail.model.freeze import Seen
from guardrail.model.gate import Verdict
from guardrail.model.journal import CHECKS, ReportMade
from guardrail.model.occasion import Moment
from guardrail.model.reminder import Reminder
from guardrail.model.season import Season
from guardrail.settings import Settings

EXIT: dict[Verdict, int] = {"pass": 0, "fail": 1, "inconclusive": 3}
AHEAD = 183
"""Days of a season, where nothing else is said."""

app = typer.Typer(
    name="season",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Show the season's calendar, write it as a feed, and go through its checklists.",
    epilog="Example: guardrail season show examples/holiday-season --from 2026-10-01",
)

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE]...",
        help="Files or folders of documents [GUARDRAIL_SOURCE, or the shipped policies].",
    ),
]
From = Annotated[
    str, typer.Option("--from", metavar="DAY", help="Its first day, in UTC; default: today.")
]
To = Annotated[
    str, typer.Option("--to", metavar="DAY", help=f"The day after its last; default: {AHEAD} on.")
]
Offline = Annotated[
    bool, typer.Option("--offline", help="Do not ask Temporal: freezes by command are left out.")
]


# ---------------------------------------------------------------- show


@app.command(epilog="Example: guardrail season show examples/holiday-season --offline")
def show(
    files: Files = None,
    *,
    begin: From = "",
    end: To = "",
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Show occasions, lead times, windows with dates and freezes, in order.

    What cannot be read is named, and the exit code is 3 then.
    """
    found = _season(files, begin, end, offline=offline)
    tell([dump(found)] if as_json else season_lines(found, _look()))
    raise typer.Exit(Unanswered.exit_code if found.unread else 0)


# ---------------------------------------------------------------- ics


@app.command(epilog="Example: guardrail season ics -o season.ics --offline")
def ics(
    files: Files = None,
    *,
    begin: From = "",
    end: To = "",
    offline: Offline = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write it here; default: print it."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the season as an iCalendar feed that calendars can subscribe to.

    The same season is the same file, but for DTSTAMP, its first day. Nothing is written while a
    place with freezes cannot be read: they would vanish from people's calendars.
    """
    found = _season(files, begin, end, offline=offline)
    if found.unread:
        raise Unanswered("A place with freezes", "the season's places", "; ".join(found.unread))
    from guardrail.edges.ics import feed  # icalendar: no other command pays for loading it

    text = feed(found)
    if out is not None:
        _write(out, text)
        said = f"{len(found.entries)} entries are in {out}"
        tell([dump(found) if as_json else f"{said}; publish it, or import it."])
    elif as_json:
        typer.echo(dump(found))
    else:
        sys.stdout.write(text.decode().replace("\r\n", "\n"))


def _write(path: Path, text: bytes) -> None:
    """Whole or not at all. Raises Refused."""
    beside = path.with_name(f"{path.name}.part")
    try:
        beside.write_bytes(text)
        beside.replace(path)
    except OSError as error:
        raise Refused(f"the feed cannot be written to {path}: {error.strerror or error}") from error


# ---------------------------------------------------------------- check


@app.command(epilog="Example: guardrail season check examples/holiday-season --json")
def check(
    files: Files = None,
    *,
    name: Annotated[
        str | None,
        typer.Option("--checklist", metavar="NAME", help="Which one, if there are several."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Go through a checklist and report on each item. Exit 0 pass, 1 fail, 3 inconclusive.

    Inconclusive is never a pass. Gates and sources are the documents beside it.
    """
    documents = _documents(files)
    checklist = documents.checklist(name)
    known = Known(documents.gate, documents.source)
    found = run(go_through(checklist, known, time.time()))
    tell([dump(found)] if as_json else report_lines(found, _look()))
    raise typer.Exit(EXIT[found.verdict])


# ---------------------------------------------------------------- report


@dataclass(frozen=True, slots=True)
class Standings:
    """Checklists with a schedule, for JSON."""

    checklists: tuple[Standing, ...]


@app.command(epilog="Example: guardrail season report return-to-work")
def report(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A checklist; default: all of them.")
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """Show what the workers' schedule found the last time, and when it looks again.

    Exit 0 pass, 1 fail, 3 inconclusive: also where it has not been gone through yet, or where a
    later time has not ended well. Of several the worst counts.
    """
    found = tuple(map(_from_journal, run(_standings(name))))
    if as_json:
        tell([dump(Standings(found))])
    else:
        for each in found:
            tell(standing_lines(each, _look()))
    raise typer.Exit(EXIT[worst(map(_verdict, found))])


async def _standings(name: str | None) -> list[Standing]:
    operations = await connect()
    desk = Checklists(operations.client, operations.address)
    names = await desk.schedules.names() if name is None else [name]
    if not names:
        raise Refused("no checklist has a schedule; is there one in a worker's source?")
    return [await desk.standing(each) for each in names]


def _from_journal(standing: Standing) -> Standing:
    """With the journal's report, where Temporal does not keep one any more."""
    if standing.report is not None or standing.begun_at is None:
        return standing
    kept = _kept(standing.checklist)
    if kept is None or kept.at < standing.begun_at:  # an earlier one says nothing of that time
        return replace(standing, report=kept)
    return replace(standing, report=kept, problem="")


def _kept(checklist: str) -> Report | None:
    """The last report that the journal has; None: none, or it cannot be read here."""
    try:
        lines = chained(journal_at(settings().journals).read(CHECKS), CHECKS).lines
    except (Refused, Unanswered):
        return None
    made = [(one.record, one.at) for one in lines if isinstance(one.record, ReportMade)]
    mine = [report_of(*each) for each in made if each[0].checklist == checklist]
    return mine[-1] if mine else None


def _verdict(standing: Standing) -> Verdict:
    """What the last report says, unless it says nothing of now."""
    said = standing.report.verdict if standing.report is not None else "inconclusive"
    return worst((said, "inconclusive")) if standing.problem else said


# ---------------------------------------------------------------- what is there


def _documents(files: Sequence[Path] | None) -> Documents:
    return load(files or [settings().source or shipped_policies()])


def _season(files: Sequence[Path] | None, begin: str, end: str, *, offline: bool) -> Season:
    documents = _documents(files)
    first, last = _stretch(begin, end, time.time())
    seen = run(_freezes(settings(), offline=offline))
    due = _due(documents.reminders, first, last)
    made = season(first, last, due, documents.policies, seen.freezes)
    return Season(made.begins_at, made.ends_at, made.entries, seen.unread)


def _stretch(begin: str, end: str, now: float) -> tuple[float, float]:
    """From the first day to the day after the last one, epoch seconds. Raises BadParameter."""
    first = _day("--from", begin) if begin else math.floor(now / DAY) * DAY
    last = _day("--to", end) if end else first + AHEAD * DAY
    if not first < last:
        raise typer.BadParameter("--to is a day after --from")
    if last - first > 5 * 366 * DAY:
        raise typer.BadParameter("a season is at most five years")
    return first, last


def _day(option: str, text: str) -> float:
    try:
        return datetime.strptime(text.strip(), "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise typer.BadParameter(f"{option} is a day, such as 2026-10-01, not {text!r}") from None


def _due(reminders: Iterable[Reminder], begin: float, end: float) -> list[Due]:
    """Every reminder with its moments, up to those whose lead times begin before the end."""
    known = list(reminders)
    until = end + longest_lead(known)
    return [(each, _moments(each, begin, until)) for each in known]


def _moments(reminder: Reminder, begin: float, until: float) -> tuple[Moment, ...]:
    occasion = reminder.occasion
    return moments_of(occasion, begin - occasion.lasts, until)


async def _freezes(known: Settings, *, offline: bool) -> Seen:
    """What all places say now, and those that cannot be read."""
    places = places_of(parse_in(known.freeze_timezone), *known.freeze_places)
    if offline:
        return await Freezes(places).now()
    try:
        operations = await connect()
    except Unanswered as silent:
        seen = await Freezes(places).now()
        why = f"command: {silent}; --offline leaves these out"
        return Seen(seen.freezes, (*seen.unread, why))
    return await Freezes((Commands(operations.client, operations.address), *places)).now()


def _look() -> Look:
    return Look(encoding=sys.stdout.encoding or "utf-8")
