"""What does a checklist ask, and what do the answers come to?

    verdict of an item        the worst of its queries': fail, then inconclusive, then pass
    verdict of a checklist    the worst of its items'
    a lock, and no peak       inconclusive: nobody can tell whether it covers what is not known

Inconclusive is never a pass. Every query is a gate that is read once and judged by its bound
(decide/judge.py).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from guardrail.decide.calendar import span_words
from guardrail.decide.freezes import clock
from guardrail.model.checklist import Answers, Checked, Checklist, Item, Locked, Part, Plain, Report
from guardrail.model.gate import Bound, Gate, GateEvidence, Judgement, Reading, Verdict
from guardrail.model.occasion import Moment

YEAR_DAYS = 366
LATEST = 1e11
"""Seconds since the epoch, far beyond any lock: more are milliseconds, or nonsense."""
EVERY = 15.0
_ORDER: tuple[Verdict, ...] = ("fail", "inconclusive", "pass")


@dataclass(frozen=True, slots=True)
class Question:
    """One query of an item. source: the name of a Source document; None: the only one."""

    item: Item
    part: Part
    gate: Gate
    source: str | None


def questions(item: Item, peak: Moment | None, gate: Callable[[str], Gate]) -> tuple[Question, ...]:
    """What is asked for an item; nothing for a lock without a peak. gate: finds a Gate document.

    Raises what `gate` raises.
    """
    asks = item.asks
    if isinstance(asks, str):
        found = gate(asks)
        return (Question(item, "value", found, item.source or found.source),)
    if isinstance(asks, Plain):
        return (_question(item, "value", asks.query, asks.bound, item.source),)
    if isinstance(asks, Answers):
        return (_question(item, "value", asks.query, asks.bound, asks.second),)
    return () if peak is None else _lock(item, asks, peak)


def _lock(item: Item, lock: Locked, peak: Moment) -> tuple[Question, ...]:
    """Whether it began in time, and ends late enough."""
    begun = Bound(within=(1.0, peak.begins_at - lock.before))
    ends = Bound(within=(peak.ends_at + lock.tail, LATEST))
    since = _question(item, "since", lock.since, begun, item.source)
    return since, _question(item, "until", lock.until, ends, item.source)


def _question(item: Item, part: Part, query: str, bound: Bound, source: str | None) -> Question:
    gate = Gate(
        name=item.name,
        title=item.title,
        gate_class="safety",
        query=query,
        bound=bound,
        every=EVERY,
        fail_after=1,
        pass_after=1,
        evidence=GateEvidence(max_age=item.max_age),
        source=source,
    )
    return Question(item, part, gate, source)


# ---------------------------------------------------------------- answers


def checked(question: Question, judged: Judgement) -> Checked:
    """The answer to one question."""
    item, reading = question.item, judged.readings[-1]
    found = Checked(
        item=item.name,
        title=item.title,
        part=question.part,
        verdict=judged.verdict,
        kind=judged.kind,
        value=reading.value,
        bound=_bound(question),
        reasons=judged.reasons,
        query=question.gate.query,
        source=judged.source,
        taken_at=reading.taken_at,
    )
    return found if question.part == "value" or reading.value is None else _told(found, question)


def _bound(question: Question) -> str:
    low, high = question.gate.bound.within or (0.0, 0.0)
    if question.part == "since":
        return f"locked by {clock(high)}"
    if question.part == "until":
        return f"locked until {clock(low)} at least"
    return str(question.gate.bound)


def _told(found: Checked, question: Question) -> Checked:
    """A time is told as one, with how much too late or too early it is."""
    low, high = question.gate.bound.within or (0.0, 0.0)
    value = found.value or 0.0
    verb = "locked since" if question.part == "since" else "locked until"
    if not 1.0 <= value <= LATEST:
        return replace(found, reasons=(f"{value:g} is no time in seconds since the epoch",))
    said = f"{verb} {clock(value)}"
    if question.part == "since" and value > high:
        said += f": {span_words(value - high)} too late"
    if question.part == "until" and value < low:
        said += f": {span_words(low - value)} too early"
    return replace(found, reasons=(said,))


def beside(found: Checked, first: Reading, address: str) -> Checked:
    """With what the first source says at the same time: it may be dark, and is not judged."""
    if first.kind is not None:
        return replace(found, reasons=(*found.reasons, f"the first is dark: {first.detail}"))
    said = f"the first ({address}) answers {first.value:g}" if first.value is not None else ""
    return replace(found, reasons=(*found.reasons, said))


def without_peak(item: Item, at: float) -> Checked:
    """A lock for which no peak is known."""
    why = "no peak is known within a year, so nobody can tell whether the lock covers it"
    return Checked(
        item.name, item.title, "value", "inconclusive", "no_data", None, "", (why,), "", "", at
    )


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Of none: inconclusive."""
    return min(verdicts, key=_ORDER.index, default="inconclusive")


def report(
    checklist: Checklist, at: float, peak: Moment | None, items: Sequence[Checked]
) -> Report:
    """What it all comes to; an item without an answer makes it inconclusive."""
    answered = {each.item for each in items}
    verdicts = [each.verdict for each in items]
    verdicts += ["inconclusive" for each in checklist.items if each.name not in answered]
    return Report(checklist.name, at, worst(verdicts), peak, tuple(items))


def unread(checklist: str, at: float, why: str) -> Report:
    """Nothing could be asked: nobody knows, and that is no pass."""
    return Report(checklist, at, "inconclusive", None, (), why)


# ---------------------------------------------------------------- when


def longest_tail(checklist: Checklist) -> float:
    """Seconds after a peak for which something is still locked."""
    tails = [item.asks.tail for item in checklist.items if isinstance(item.asks, Locked)]
    return max(tails, default=0.0)


def peak_after(checklist: Checklist, moments: Sequence[Moment], at: float) -> Moment | None:
    """The peak that is prepared for: the next one, or the one that is not over with its tail."""
    tail = longest_tail(checklist)
    return next((each for each in moments if each.ends_at + tail > at), None)
