"""How is a checklist gone through: who is asked, and what was answered?

Every query is read by itself and at the same time, from its own source; one that cannot be reached
makes its own items inconclusive, and no other.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from guardrail.decide.checking import (
    YEAR_DAYS,
    Question,
    beside,
    checked,
    longest_tail,
    peak_after,
    questions,
    report,
    without_peak,
)
from guardrail.decide.judge import judge_once
from guardrail.decide.occasions import DAY
from guardrail.edges.gate_reader import GateReader
from guardrail.edges.holidays import moments_of
from guardrail.edges.promapi import shown
from guardrail.edges.prometheus import Prometheus
from guardrail.errors import Refused
from guardrail.model.checklist import Answers, Checked, Checklist, Report
from guardrail.model.gate import Gate, Reading, Source
from guardrail.model.occasion import Moment


@dataclass(frozen=True, slots=True)
class Known:
    """Which document a name means. Both raise Refused where there is none, or more than one."""

    gate: Callable[[str], Gate]
    source: Callable[[str | None], Source]


def peak_of(checklist: Checklist, at: float) -> Moment | None:
    """The peak that is prepared for at `at` (seconds since the epoch); None: none within a year.

    Raises Refused where the days of its region are not known.
    """
    occasion = checklist.peak
    if occasion is None:
        return None
    begin, end = at - occasion.lasts - longest_tail(checklist), at + YEAR_DAYS * DAY
    return peak_after(checklist, moments_of(occasion, begin, end), at)


async def go_through(checklist: Checklist, known: Known, at: float) -> Report:
    """Ask everything once. Raises Refused before anything is asked where a name means nothing, or
    where two sources that should stand in for each other are one."""
    peak = await asyncio.to_thread(peak_of, checklist, at)
    asked = [each for item in checklist.items for each in questions(item, peak, known.gate)]
    addresses = [_addresses(each, known) for each in asked]
    async with AsyncExitStack() as stack:
        desk = _Desk(stack)
        answers = await asyncio.gather(
            *(desk.answer(q, s) for q, s in zip(asked, addresses, strict=True))
        )
    found = list(answers)
    answered = {each.item for each in found}
    found += [without_peak(item, at) for item in checklist.items if item.name not in answered]
    return report(checklist, at, peak, _in_order(checklist, found))


def _in_order(checklist: Checklist, found: Sequence[Checked]) -> tuple[Checked, ...]:
    return tuple(one for item in checklist.items for one in found if one.item == item.name)


def _addresses(question: Question, known: Known) -> tuple[Source, ...]:
    """Whom to ask; of two that should stand in for each other, the second comes first."""
    asks, source = question.item.asks, known.source(question.source)
    if not isinstance(asks, Answers):
        return (source,)
    first = known.source(asks.first)
    if first.address == source.address:
        raise Refused(
            f"{question.item.name}: `{asks.first}` and `{asks.second}` are one address, "
            f"{shown(first.address)}: when the first is dark, so is the second"
        )
    return source, first


@dataclass(slots=True)
class _Desk:
    """Asks, with one connection a source."""

    stack: AsyncExitStack
    open_now: dict[str, Prometheus] = field(default_factory=dict)

    async def answer(self, question: Question, sources: tuple[Source, ...]) -> Checked:
        source, *rest = sources
        reading, *others = await asyncio.gather(
            self._read(question, source), *(self._read(question, other) for other in rest)
        )
        judged = judge_once(question.gate, reading, shown(source.address))
        found = checked(question, judged)
        for other, said in zip(rest, others, strict=True):
            found = beside(found, said, shown(other.address))
        return found

    async def _read(self, question: Question, source: Source) -> Reading:
        prometheus = self.open_now.get(source.name)
        if prometheus is None:
            prometheus = self.open_now[source.name] = Prometheus(source)
            self.stack.push_async_callback(prometheus.close)
        reader = GateReader(question.gate, prometheus, source.timeout, source=shown(source.address))
        return await reader.read()
