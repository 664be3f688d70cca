"""What is said of a checklist that its schedule went through, and what is kept of it?

    fail, inconclusive         said each time: the list's own schedule is how often it is repeated
    pass, after one of these   said once
    pass, after a pass         nothing
    out of the source          said once; its schedule is deleted

Each message ends with the state in a sentence, what happens if nobody acts, and the one command
that is most likely right (design.md §9).
"""

import math
from collections.abc import Iterator
from dataclasses import astuple, replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from guardrail.decide.calendar import local
from guardrail.model.check import CheckTask
from guardrail.model.checklist import Checked, Report
from guardrail.model.gate import Verdict
from guardrail.model.journal import ReportMade
from guardrail.model.notice import Message
from guardrail.model.occasion import Moment

MOST = 20
"""Queries of a list that one message tells of."""
WORDS: dict[Verdict, str] = {"pass": "pass", "fail": "FAIL", "inconclusive": "not known"}


def message(task: CheckTask, report: Report, *, owed: bool) -> Message | None:
    """What is to be said now; None: nothing. owed: see `GoTask`."""
    if report.verdict != "pass":
        return _bad(task, report)
    if not owed:
        return None
    return _message(
        task,
        report.at,
        "passes again",
        f"State: everything on the list passes again ({len(report.items)} readings).",
        "If nobody acts: nothing more is said as long as it passes.",
        f"guardrail season report {task.checklist}",
    )


def _bad(task: CheckTask, report: Report) -> Message:
    bad = [row for each in report.items if each.verdict != "pass" for row in (_item(each),)]
    more = [f"- and {len(bad) - MOST} more"] if len(bad) > MOST else []
    return _message(
        task,
        report.at,
        sentence(report),
        *_peak(report),
        *bad[:MOST],
        *more,
        f"State: {sentence(report)}.",
        "If nobody acts: the load meets it as it is now; it is said again at the list's next time.",
        f"guardrail season report {task.checklist}",
    )


def taken_out(task: CheckTask, at: float) -> Message:
    """It is not in the worker's source any more."""
    return _message(
        task,
        at,
        "it is not gone through any more",
        "State: it is not in the worker's source any more, and its schedule is deleted.",
        "If nobody acts: nobody looks whether what is on it is so.",
        "guardrail season report",
    )


def _message(task: CheckTask, at: float, said: str, *lines: str) -> Message:
    return Message(
        kind="check",
        about=task.checklist,
        cause=f"check:{task.checklist}",
        subject=f"{task.checklist}: {said}",
        lines=(f"{task.checklist}: gone through at {clock(task, at)}.", *lines),
        to=task.tells,
        at=at,
    )


def clock(task: CheckTask, at: float) -> str:
    """`2027-01-04 09:00 UTC-08:00 (America/Los_Angeles)`: on the list's own clock."""
    east = datetime.fromtimestamp(at, UTC).astimezone(ZoneInfo(task.timezone)).utcoffset()
    minutes = round(east.total_seconds() / 60) if east is not None else 0
    return f"{local(at, minutes)} ({task.timezone})"


def _peak(report: Report) -> Iterator[str]:
    peak = report.peak
    if peak is not None:
        yield f"It is for: {peak.words}, {local(peak.begins_at, peak.offset)} ({peak.timezone})."


def _item(found: Checked) -> str:
    """`- room: there is room: FAIL; needed: above 5; 3 is not above 5`."""
    part = "" if found.part == "value" else f" ({found.part})"
    kind = f" ({found.kind})" if found.kind is not None else ""
    why = "; ".join(found.reasons)
    said = f"- {found.item}{part}: {found.title}: {WORDS[found.verdict]}{kind}"
    return f"{said}; needed: {found.bound or 'a peak'}; {why}"


def sentence(report: Report) -> str:
    """`FAIL: room; not known: quota`, or why nothing was asked."""
    if report.problem:
        return f"not known: {report.problem}"
    failed = _names(report, "fail")
    unknown = tuple(name for name in _names(report, "inconclusive") if name not in failed)
    both = ((WORDS["fail"], failed), (WORDS["inconclusive"], unknown))
    said = "; ".join(f"{word}: {', '.join(names)}" for word, names in both if names)
    return said or WORDS[report.verdict]


def _names(report: Report, verdict: Verdict) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.item for one in report.items if one.verdict == verdict))


# ---------------------------------------------------------------- what is kept


def report_record(report: Report) -> ReportMade:
    """A report as the journal keeps it."""
    return ReportMade(
        report.checklist,
        report.verdict,
        astuple(report.peak) if report.peak is not None else (),
        tuple(astuple(_finite(each)) for each in report.items),
        report.problem,
    )


def _finite(found: Checked) -> Checked:
    """A journal has no number that is none."""
    known = found.value is None or math.isfinite(found.value)
    return found if known else replace(found, value=None)


def report_of(record: ReportMade, at: float) -> Report:
    """A report that the journal has kept. Raises TypeError for one of another build's form."""
    verdict: Verdict = record.verdict  # type: ignore[assignment]
    peak = Moment(*map(_tuples, record.peak)) if record.peak else None
    items = tuple(Checked(*map(_tuples, row)) for row in record.items)
    return Report(record.checklist, at, verdict, peak, items, record.problem)


def _tuples(value: Any) -> Any:
    """JSON has lists."""
    return tuple(value) if isinstance(value, list) else value
