"""How do a season and a checklist's report look to a person?"""

from guardrail.cli.text import Look, clean, stamp
from guardrail.decide.calendar import local
from guardrail.decide.check_words import WORDS
from guardrail.model.check import SCHEDULE, Standing
from guardrail.model.checklist import Checked, Report
from guardrail.model.season import Entry, Season


def season_lines(season: Season, look: Look) -> list[str]:
    """One line an entry, in the user's zone, with what is below it; then what could not be read."""
    if not season.entries:
        days = f"{_minute(season.begins_at, look)} to {_minute(season.ends_at, look)}"
        rows = [f"Nothing is on the calendar from {days}."]
    else:
        rows = [row for entry in season.entries for row in _entry(entry, look)]
    return rows + [clean(f"cannot be read: {why}", look) for why in season.unread]


def _entry(entry: Entry, look: Look) -> list[str]:
    until = f" to {_minute(entry.ends_at, look)}" if entry.ends_at is not None else ""
    if entry.kind == "freeze" and entry.ends_at is None:
        until = " until it is lifted"
    whom = [*entry.roles, *(f"fleet {name}" for name in entry.fleets)]
    title = f"{entry.title}{' (estimate)' if entry.estimate else ''}"
    title += f", for {', '.join(whom)}" if whom else ""
    head = f"{_minute(entry.begins_at, look)}{until}  {entry.kind}: {title}"
    return [clean(head, look), *(f"    {clean(each, look)}" for each in entry.details)]


def _minute(at: float, look: Look) -> str:
    """`2026-11-29 14:03+01:00`."""
    said = stamp(at, look.zone)
    return said[:16] + said[19:]


# ---------------------------------------------------------------- a report


def report_lines(report: Report, look: Look) -> list[str]:
    """The verdict, what it was for, and each query with value, bound and reason."""
    peak = report.peak
    rows = [f"{report.checklist}: {report.verdict} at {_minute(report.at, look)}"]
    if peak is not None:
        rows.append(f"for {peak.words}: {local(peak.begins_at, peak.offset)} ({peak.timezone})")
    rows += [row for each in report.items for row in _checked(each)]
    if report.problem:
        rows.append(f"  {WORDS[report.verdict]}: {report.problem}")
    return [
        *(row[: len(row) - len(row.lstrip())] + clean(row, look) for row in rows),
        *_end(report),
    ]


def _checked(found: Checked) -> list[str]:
    part = "" if found.part == "value" else f" ({found.part})"
    said = f"  {WORDS[found.verdict]} {found.item}{part}: {found.title}"
    rows = [said, f"      needed: {found.bound or 'a peak'}; {'; '.join(found.reasons)}"]
    if found.verdict != "pass" and found.query:
        rows.append(f"      asked {found.source}: {found.query}")
    return rows


def _end(report: Report) -> list[str]:
    """The state, what happens if nobody acts, and the command most likely right."""
    bad = sorted({each.item for each in report.items if each.verdict != "pass"})
    if report.verdict == "pass":
        return ["Everything on the list is as it must be."]
    return [
        f"Not as it must be, or not known: {', '.join(bad) or 'all of it'}.",
        "If nobody acts, the load meets it as it is now.",
        "When it is mended: guardrail season check",
    ]


def standing_lines(standing: Standing, look: Look) -> list[str]:
    """The last report, and how it goes on."""
    name = standing.checklist
    if standing.report is not None:
        rows = report_lines(standing.report, look)
    else:
        rows = [] if standing.problem else [f"{name}: has not been gone through yet"]
    if standing.problem:
        rows.append(f"{name}: not known {standing.problem}")
    return [*rows, clean(_next(standing, look), look)]


def _next(standing: Standing, look: Look) -> str:
    if standing.paused:
        why = f": {standing.note}" if standing.note else ""
        go_on = f"temporal schedule toggle --unpause -s {SCHEDULE}{standing.checklist}"
        return f"paused{why}; to go on: {go_on}"
    if standing.next_at is None:
        return "next: never"
    return f"next: {_minute(standing.next_at, look)}"
