"""What does a query say right now, and is that fit to judge by?

One request answers both: the query, the newest sample of every selector it is built from and how
much of each range is there are parts of one PromQL expression, evaluated on one state of the
database. Asked one after the other, a scrape between them would give a value a wrong sample time,
and one sample could be counted twice.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from types import TracebackType
from typing import Self

from guardrail.edges.promapi import Api, Fault, Series
from guardrail.edges.promql import BadQuery, Reads, Selector, quote, read_plan, unfilled
from guardrail.model.gate import Age, Reading, Source

PART = "guardrail_part"
REMEASURE = 60.0
"""Seconds after which the scrape interval is measured again."""
HOLES = 0.05
"""The share of a range that may be missing at its start, or anywhere; inside it one sample may."""
REACHES_OUT = 1.1
"""Scrape intervals: a rate is carried on to the edge of its range from a sample this close to it
(Prometheus' own constant); from farther away it falls short, and shows a dip that is not there."""
_LOOK_BACK = (600.0, 3600.0)
_FEWEST = 4  # samples, so that the median of their distances survives one hole


@dataclass(frozen=True, slots=True)
class _Facts:
    """One answer taken apart. `now` is the server's time; None where nothing was answered."""

    value: tuple[Series, ...]
    now: float
    newest: tuple[float | None, ...]
    counts: tuple[float | None, ...]
    starts: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class _Interval:
    """A measured scrape interval, in seconds, and when it was measured."""

    seconds: float
    measured_at: float


_Intervals = Sequence[float | None]


@dataclass(slots=True)
class Prometheus:
    """The `Metrics` port on one source. `clock` gives seconds since the epoch.

    Every method is bounded by the source's read time-out. Use it as an async context manager.
    """

    source: Source
    clock: Callable[[], float] = time.time
    api: Api = field(init=False)
    _intervals: dict[Selector, _Interval] = field(init=False, default_factory=dict)
    _measuring: set[asyncio.Task[None]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.api = Api(self.source)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End what is still being measured, and close the connections."""
        for task in tuple(self._measuring):
            task.cancel()
        await asyncio.gather(*self._measuring, return_exceptions=True)
        await self.api.close()

    async def read(self, query: str, max_age: Age | None = None) -> Reading:
        """One instant query, as a reading; never raises.

        With `max_age`, samples older than that make the reading `stale`, each selector judged
        against its own scrape interval.
        """
        try:
            async with asyncio.timeout(self.source.timeout):
                return await self._read(query, max_age)
        except Fault as fault:
            return self._nothing(fault)
        except TimeoutError:
            return self._nothing(
                Fault("unreachable", f"no answer within {self.source.timeout:g} s")
            )

    def _nothing(self, fault: Fault) -> Reading:
        """A fault as a reading; where the server is at fault, its address says which one."""
        of_server = fault.kind in ("unreachable", "throttled")
        detail = f"{self.api.address}: {fault.detail}" if of_server else fault.detail
        return Reading(None, fault.kind, self.clock(), detail=detail)

    async def age(self, query: str) -> float | None:
        """Seconds since the oldest newest-sample among the query's selectors; None: no data."""
        try:
            async with asyncio.timeout(self.source.timeout):
                reads = read_plan(query)
                facts = await self._ask(query, reads, self._known(reads))
        except (Fault, BadQuery, TimeoutError):
            return None
        known = [age for age in _ages(reads.selectors, facts) if age is not None]
        return max(known) if len(known) == len(reads.selectors) else None

    async def scrape_interval(self, query: str) -> float | None:
        """Measured seconds between samples of the query's slowest selector; None: unknown."""
        try:
            async with asyncio.timeout(self.source.timeout):
                reads = read_plan(query)
                await self._measure(reads.selectors)
        except (Fault, BadQuery, TimeoutError):
            return None
        known = self._known(reads)
        return None if None in known else max(seconds for seconds in known if seconds is not None)

    async def _read(self, query: str, max_age: Age | None) -> Reading:
        reads = await self._plan(query)
        measuring = self._start_measuring(reads, max_age)
        if measuring and None in self._known(reads):
            await asyncio.shield(measuring)
        intervals = self._known(reads)
        facts = await self._ask(query, reads, intervals)
        _check_samples(reads, facts, intervals, max_age)
        return _reading(reads, facts, self.clock())

    async def _plan(self, query: str) -> Reads:
        if (open_place := unfilled(query)) is not None:
            raise Fault("rejected_query", f"{open_place} is not filled in: name one (--host)")
        try:
            return read_plan(query)
        except BadQuery as error:
            await self.api.query(query)  # the server's own words are better, where it refuses too
            raise Fault("rejected_query", f"it cannot be judged: {error}") from error

    async def _ask(self, query: str, reads: Reads, intervals: _Intervals) -> _Facts:
        try:
            return _facts(reads, await self.api.query(_expression(query, reads, intervals)))
        except Fault as fault:
            if fault.kind == "rejected_query":
                await self.api.query(query)  # a fault of the query's own is told in its own terms
            raise

    def _start_measuring(self, reads: Reads, max_age: Age | None) -> asyncio.Task[None] | None:
        """Beside the reading, which waits for it only while an interval is not known at all."""
        if not _needs_interval(reads, max_age):
            return None
        task = asyncio.create_task(self._try_measure(reads.selectors))
        self._measuring.add(task)
        task.add_done_callback(self._measuring.discard)
        return task

    async def _try_measure(self, selectors: Sequence[Selector]) -> None:
        """An interval that cannot be measured now stays what it was."""
        try:
            await self._measure(selectors)
        except Fault:
            return

    async def _measure(self, selectors: Iterable[Selector]) -> None:
        bases = dict.fromkeys(replace(selector, reach=0.0) for selector in selectors)
        due = [base for base in bases if self._is_due(base)]
        for look_back in _LOOK_BACK:
            if not due:
                return
            picked = await self.api.query(_picks(due, look_back))
            for number, base in enumerate(due):
                await self._measure_one(base, look_back, _part(picked, f"i{number}"))
            due = [base for base in due if self._is_due(base)]

    def _is_due(self, base: Selector) -> bool:
        known = self._intervals.get(base)
        return known is None or not 0 <= self.clock() - known.measured_at < REMEASURE

    async def _measure_one(
        self, base: Selector, look_back: float, picked: tuple[Series, ...]
    ) -> None:
        if not picked:
            return
        one = replace(base, text=_exactly(base.text, picked[0]))
        series = await self.api.query(one.over(look_back))
        spacings = [_spacing(each) for each in series if len(each.samples) >= _FEWEST]
        if spacings:
            self._intervals[base] = _Interval(max(spacings), self.clock())

    def _known(self, reads: Reads) -> _Intervals:
        found = [self._intervals.get(replace(each, reach=0.0)) for each in reads.selectors]
        return [each.seconds if each else None for each in found]


def _needs_interval(reads: Reads, max_age: Age | None) -> bool:
    by_scrapes = max_age is not None and max_age.scrapes is not None
    return by_scrapes or any(selector.reach for selector in reads.selectors)


def _tagged(expression: str, part: str) -> str:
    return f'label_replace({expression}, "{PART}", "{part}", "", "")'


def _expression(query: str, reads: Reads, intervals: _Intervals) -> str:
    """The query and what is asked about its selectors, each part marked by a label."""
    body = f"(\n{query}\n)"  # on lines of its own: a query may end with a comment
    parts = [_tagged(f"vector{body}" if reads.scalar else body, "value")]
    for number, selector in enumerate(reads.selectors):
        parts.append(_tagged(f"min(timestamp({selector}))", f"t{number}"))
        if selector.reach:
            # The median series: a server's hole is in all of them, a new target's in few.
            counts = f"count_over_time({selector.over(selector.reach)})"
            start = f"count_over_time({_start(selector, intervals[number])})"
            parts.append(_tagged(f"quantile(0.5, {counts})", f"c{number}"))
            parts.append(_tagged(f"count({start}) / count({counts})", f"s{number}"))
    return "\nor ".join([*parts, _tagged("vector(time())", "now")])


def _start(selector: Selector, interval: float | None) -> str:
    """The first part of a range: a sample has to be in it."""
    lead = min(selector.reach, max(REACHES_OUT * (interval or 0.0), HOLES * selector.reach))
    return replace(selector, offset=selector.offset + selector.reach - lead).over(lead)


def _picks(bases: Sequence[Selector], look_back: float) -> str:
    """For each selector the series with the fewest samples that still tell an interval."""
    return "\nor ".join(
        _tagged(f"bottomk(1, count_over_time({base.over(look_back)}) >= {_FEWEST})", f"i{number}")
        for number, base in enumerate(bases)
    )


def _exactly(text: str, picked: Series) -> str:
    """The selector, narrowed down to one series."""
    labels = [
        f"{name}={quote(value)}"
        for name, value in picked.labels
        if name not in (PART, "__name__") and name.isidentifier() and name.isascii()
    ]
    head, _, rest = text.partition("{")
    inside = rest[:-1]
    return f"{head}{{{','.join([inside] * bool(inside) + labels)}}}"


def _spacing(series: Series) -> float:
    times = [at for at, _ in series.samples][-11:]
    return median(later - earlier for earlier, later in pairwise(times))


def _part(series: tuple[Series, ...], part: str) -> tuple[Series, ...]:
    return tuple(each for each in series if each.label(PART) == part)


def _facts(reads: Reads, series: tuple[Series, ...]) -> _Facts:
    def one(part: str) -> float | None:
        found = _part(series, part)
        return found[0].samples[0][1] if found else None

    now = one("now")
    if now is None:
        raise Fault("unreachable", "its answer lacks what was asked about the query's samples")
    numbers = range(len(reads.selectors))
    newest, counts, starts = (tuple(one(f"{part}{n}") for n in numbers) for part in "tcs")
    return _Facts(_part(series, "value"), now, newest, counts, starts)


def _ages(selectors: Sequence[Selector], facts: _Facts) -> list[float | None]:
    """Seconds between the newest sample of each selector and the time it is asked for."""
    return [
        None if at is None else (selector.pinned or facts.now) - selector.offset - at
        for selector, at in zip(selectors, facts.newest, strict=True)
    ]


def _check_samples(reads: Reads, facts: _Facts, intervals: _Intervals, max_age: Age | None) -> None:
    """Raises Fault where a selector that has data has old data, or too little of it."""
    ages = _ages(reads.selectors, facts)
    for selector, age, interval in zip(reads.selectors, ages, intervals, strict=True):
        if age is not None and max_age is not None:
            _check_age(selector, age, interval, max_age)
    for number, selector in enumerate(reads.selectors):
        age, interval = ages[number], intervals[number]
        if age is None or not selector.reach:
            continue
        if interval is None:
            raise _unmeasured(selector)
        count, start = facts.counts[number] or 0.0, facts.starts[number] or 0.0
        if (missing := _missing(selector, interval, age, count, start)) is not None:
            raise Fault(
                "warming_up",
                f"{missing} the {selector.reach:g} s that the query reads of {selector} (a scrape "
                f"every {interval:.3g} s): the server or the target was away",
            )


def _check_age(selector: Selector, age: float, interval: float | None, max_age: Age) -> None:
    limit = max_age.limit(interval)
    if limit is None:
        raise _unmeasured(selector)
    if not -limit <= age <= limit:
        when = f"{age:.1f} s old" if age > 0 else f"{-age:.1f} s in the future"
        raise Fault("stale", f"the newest sample of {selector} is {when}, the limit {limit:g} s")


def _missing(
    selector: Selector, interval: float, age: float, count: float, start: float
) -> str | None:
    """What part of a selector's range has no samples; None: all of it has."""
    wanted = math.floor(max(0.0, selector.reach - age) / interval + 1e-3) + 1
    if count < max(wanted - max(1.0, HOLES * wanted), min(2, wanted)):
        return f"{count:g} samples, where {wanted} should be, in"
    if start < 0.5:  # of the series
        return "no sample at the start of"
    # One scrape is late, two are missing; what a rate lacks then is the age but half a scrape.
    if age > 2 * interval and age - interval / 2 > 2 * HOLES * selector.reach:
        return "no sample at the end of"
    return None


def _unmeasured(selector: Selector) -> Fault:
    return Fault("warming_up", f"{selector} has too few samples to tell its scrape interval")


def _reading(reads: Reads, facts: _Facts, taken_at: float) -> Reading:
    """The value, once the samples that are there are known to be good ones."""
    live = [
        at + selector.offset
        for selector, at in zip(reads.selectors, facts.newest, strict=True)
        if at is not None and selector.pinned is None
    ]
    bare = Reading(None, None, taken_at, min(live, default=None))
    absent = [s for s, at in zip(reads.selectors, facts.newest, strict=True) if at is None]
    if absent:
        return replace(bare, kind="no_data", detail=f"no series now for {absent[0]}")
    if not facts.value:
        return replace(bare, kind="no_data", detail="the answer is empty, though its series exist")
    if len(facts.value) > 1:
        return replace(bare, kind="ambiguous", detail=_two(facts.value))
    value = facts.value[0].samples[0][1]
    if value is None:
        return replace(bare, kind="rejected_query", detail="the answer is a histogram")
    if not math.isfinite(value):
        return replace(bare, kind="not_finite", detail=f"the answer is {value}")
    oldest = max(age for age in _ages(reads.selectors, facts) if age is not None)
    return replace(bare, value=value, detail=f"samples {max(0.0, oldest):.1f} s old")


def _two(series: tuple[Series, ...]) -> str:
    def words(one: Series) -> str:
        labels = ", ".join(f"{k}={quote(v)}" for k, v in one.labels if k != PART)
        return f"{{{labels}}}"

    return f"{len(series)} series, as {words(series[0])} and {words(series[1])}: aggregate them"
