"""Which times are closed, when does it open again, and does a piece of work fit before it closes?

`expand` turns wall times in named zones into closed intervals, once, when the plan is made; it is
the only place that knows time zones. All other functions ask the `Calendar` that it made.

A window is all moments at which the clock on the wall, in its zone, shows a time in it:

    an hour that the clock passes twice (autumn)     is covered twice
    an hour that the clock leaves out (spring)       is left out; a window that lies in it whole
                                                     comes later by as much as the clock jumps,
                                                     so it is never of no length
    21:00 to 05:00 on fri                            ends on Saturday

Deny beats allow, and with no allow entry all that is not denied is allowed. `settleBefore` ends
the allowed time that much earlier. Over several policies the closed times are put together.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from zoneinfo import ZoneInfo

from guardrail.model.calendar import Calendar, Closed, ClosedBy, Shut, Window, Windows

DAY = 86_400.0
HORIZON = 60 * DAY
"""How far ahead times are computed: far longer than an operation takes."""

MARGIN = 3
"""Days before and after the horizon that are computed as well, for windows that reach into it."""

Span = tuple[float, float]
"""From (included), to (excluded); seconds since the epoch."""

LOOK = 3 * 3600.0
"""Clock changes are looked for so far apart (seconds); none are as near to each other."""


def expand(windows: Iterable[Windows], begin: float, horizon: float = HORIZON) -> Calendar | None:
    """The calendar from `begin` (seconds since the epoch) on; None where there are no windows.

    Raises zoneinfo.ZoneInfoNotFoundError (a KeyError) for a zone that the machine does not know.
    """
    until = begin + horizon
    rules: list[ClosedBy] = []
    closed: list[Closed] = []
    for each in windows:
        for rule, spans in _closing(each, begin, until):
            zone = ZoneInfo(each.timezone)
            kept = [span for span in spans if span[1] > begin and span[0] < until]
            closed += [_closed(span, len(rules), zone) for span in kept]
            rules.append(rule)
    if not rules:
        return None
    closed.sort(key=lambda one: (one.closes_at, one.opens_at, one.by))
    back = [one for one in closed if rules[one.by].binds_back]
    return Calendar(until, tuple(rules), tuple(closed), _spans(closed), _spans(back))


def _closing(each: Windows, begin: float, until: float) -> Iterator[tuple[ClosedBy, list[Span]]]:
    """What one policy's windows close, each with why."""
    base = ClosedBy("", "", each.timezone, each.origin, each.rollback == "same")
    for window in each.deny:
        settle, peak = window.settle_before, window.peak and each.covers_peak
        rule = replace(
            base,
            reason=window.reason,
            written=str(window),
            origin=window.origin,
            settle=settle,
            peak=peak,
        )
        spans = [(b - settle, e) for b, e in _occurrences(window, each.timezone, begin, until)]
        yield rule, spans if peak else list(union(spans))
    if each.allow:
        written = f"outside {' and '.join(map(str, each.allow))}"
        reasons = [window.reason for window in each.allow if window.reason]
        reason = f"outside the allowed time ({'; '.join(reasons)})" if reasons else ""
        yield replace(base, reason=reason, written=written), _outside(each, begin, until)


def _outside(each: Windows, begin: float, until: float) -> list[Span]:
    """All times but the allowed ones; each of those ends `settle_before` earlier."""
    allowed = union(
        (b, e - window.settle_before)
        for window in each.allow
        for b, e in union(_occurrences(window, each.timezone, begin, until))
    )
    first, last = begin - MARGIN * DAY, until + MARGIN * DAY
    edges = [first, *(edge for span in allowed for edge in span), last]
    return [(b, e) for b, e in zip(edges[::2], edges[1::2], strict=True) if b < e]


def _closed(span: Span, by: int, zone: ZoneInfo) -> Closed:
    begin, end = span
    offsets = (round(_offset(zone, at) / 60) for at in span)
    return Closed(begin, end, by, *offsets)


def _spans(closed: Iterable[Closed]) -> tuple[Shut, ...]:
    return tuple(Shut(*span) for span in union((one.closes_at, one.opens_at) for one in closed))


def union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same times as few spans, in order; what is of no length is left out."""
    joined: list[Span] = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return tuple(joined)


# ---------------------------------------------------------------- from the wall to the epoch


def _occurrences(window: Window, timezone: str, begin: float, until: float) -> Iterator[Span]:
    """Every time that a window comes, from some days before `begin` to some after `until`."""
    if window.calendar:
        yield from window.spans
        return
    zone = ZoneInfo(timezone)
    first = datetime.fromtimestamp(begin, zone).date() - timedelta(days=MARGIN)
    last = datetime.fromtimestamp(until, zone).date() + timedelta(days=MARGIN)
    steady = tuple(_steady(zone, begin - 2 * MARGIN * DAY, until + 2 * MARGIN * DAY))
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        if window.on(day):
            yield from _of_day(window, day, zone, steady)


Steady = tuple[float, float, float]
"""From when to when (seconds since the epoch) clocks are this many seconds east of UTC."""


def _of_day(window: Window, day: date, zone: ZoneInfo, steady: Sequence[Steady]) -> list[Span]:
    """The window that begins on that day: one span, or two where the clock goes back in it."""
    start = datetime.combine(day, time()) + timedelta(minutes=window.begins)  # a wall time
    wall = start.replace(tzinfo=UTC).timestamp()
    length = window.minutes * 60.0
    found = [
        (max(since, wall - offset), min(to, wall + length - offset)) for since, to, offset in steady
    ]
    shown = list(union(found))
    if shown:
        return shown
    shifted = at_wall(start, zone)
    return [(shifted, shifted + length)]


def at_wall(wall: datetime, zone: ZoneInfo) -> float:
    """When a clock shows a time, in seconds since the epoch; one that it shows twice: the first
    time. One that it leaves out comes later by as much as the clock jumps."""
    return wall.replace(tzinfo=zone, fold=0).timestamp()


def _steady(zone: ZoneInfo, begin: float, until: float) -> Iterator[Steady]:
    """The stretches of time between two changes of the clock."""
    since, offset, at = begin, _offset(zone, begin), begin
    while at < until:
        after = min(until, at + LOOK)
        if _offset(zone, after) != offset:
            change = _change(zone, at, after)
            yield since, change, offset
            since, offset = change, _offset(zone, change)
        at = after
    yield since, until, offset


def _change(zone: ZoneInfo, before: float, after: float) -> float:
    """The second at which the clocks are changed between two times."""
    low, high, old = int(before), int(after) + 1, _offset(zone, before)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset(zone, middle) == old else (low, middle)
    return float(high)


def _offset(zone: ZoneInfo, at: float) -> float:
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0


def stricter_of(old: Calendar | None, new: Calendar | None) -> Calendar | None:
    """What both close, for a calendar that was made again later: never looser than the old one.

    Where the new one closes nothing more it is the old one itself. It knows no more than the old
    one did, since what the old policies close after that is not known any more.
    """
    if old is None or new is None:
        return new if old is None else old
    more = [one for one in new.closed if not _implied(old, new, one)]
    if not more and new.known_until >= old.known_until:
        return old
    used = sorted({one.by for one in more})
    moved = [replace(one, by=len(old.rules) + used.index(one.by)) for one in more]
    closed = sorted((*old.closed, *moved), key=lambda one: (one.closes_at, one.opens_at, one.by))
    rules = (*old.rules, *(new.rules[by] for by in used))
    back = [one for one in closed if rules[one.by].binds_back]
    until = min(old.known_until, new.known_until)
    return Calendar(until, rules, tuple(closed), _spans(closed), _spans(back))


def _implied(old: Calendar, new: Calendar, one: Closed) -> bool:
    """Whether the old calendar closes all of that time, as strictly, as far as it knows."""
    rule, until = new.rules[one.by], min(one.opens_at, old.known_until)
    if one.closes_at >= until:
        return True
    if rule.peak:
        return any(
            (kept.closes_at, kept.opens_at) == (one.closes_at, one.opens_at)
            and replace(old.rules[kept.by], origin=rule.origin) == rule
            for kept in old.closed
        )
    spans = old.shut_back if rule.binds_back else old.shut
    return any(span.closes_at <= one.closes_at and until <= span.opens_at for span in spans)


# ---------------------------------------------------------------- asking a calendar

_CLOSES_AT = attrgetter("closes_at")


def shut_at(calendar: Calendar, at: float, *, back: bool = False) -> Shut | None:
    """The closed time around `at`; None while it is open. After the calendar's end it is closed."""
    if at >= known_until(calendar, back=back):
        return Shut(calendar.known_until, math.inf)
    spans = calendar.shut_back if back else calendar.shut
    number = bisect_right(spans, at, key=_CLOSES_AT) - 1
    return spans[number] if number >= 0 and at < spans[number].opens_at else None


def closed_at(calendar: Calendar, at: float, *, back: bool = False) -> tuple[Closed, ...]:
    """All that closes it at `at`, what ends last first; none while it is open, and after the
    calendar's end."""
    begun = calendar.closed[: bisect_right(calendar.closed, at, key=_CLOSES_AT)]
    there = [one for one in begun if at < one.opens_at and _binds(calendar, one, back=back)]
    return tuple(sorted(there, key=lambda one: (-one.opens_at, one.closes_at, one.by)))


def next_open(calendar: Calendar, at: float, *, back: bool = False) -> float | None:
    """When it is open: `at` itself, or the end of the closed time around it; None: not before the
    calendar's end."""
    around = shut_at(calendar, at, back=back)
    opens = at if around is None else around.opens_at
    return opens if opens < known_until(calendar, back=back) else None


def next_close(calendar: Calendar, at: float, *, back: bool = False) -> float:
    """When the closed time after `at` begins (`at` itself is open): its end closes a calendar."""
    spans = calendar.shut_back if back else calendar.shut
    number = bisect_right(spans, at, key=_CLOSES_AT)
    closes = spans[number].closes_at if number < len(spans) else math.inf
    return min(closes, known_until(calendar, back=back))


def fits(calendar: Calendar, at: float, seconds: float, *, back: bool = False) -> bool:
    """Whether work that begins at `at` and takes so long ends before it closes again."""
    if at + seconds >= next_close(calendar, at, back=back):
        return False
    return shut_at(calendar, at, back=back) is None


def first_fit(calendar: Calendar, at: float, seconds: float, *, back: bool = False) -> float | None:
    """The first time from `at` on at which such work fits; None: not before the calendar's end."""
    opens = next_open(calendar, at, back=back)
    while opens is not None:
        closes = next_close(calendar, opens, back=back)
        if opens + seconds < closes:
            return opens
        opens = next_open(calendar, closes, back=back)
    return None


def longest_open(calendar: Calendar, since: float) -> Span:
    """The longest open time from `since` to the calendar's end; of no length if there is none."""
    edges = [since, calendar.known_until]
    edges[1:1] = [edge for shut in calendar.shut for edge in (shut.closes_at, shut.opens_at)]
    spans = zip(edges[::2], edges[1::2], strict=True)
    inside = [(max(since, b), min(e, calendar.known_until)) for b, e in spans]
    longest = max(inside, key=lambda span: span[1] - span[0])
    return longest if longest[0] < longest[1] else (since, since)


def closing(calendar: Calendar, at: float, *, back: bool = False) -> Closed | None:
    """What begins the closed time at exactly `at` (see `next_close`)."""
    number = bisect_left(calendar.closed, at, key=_CLOSES_AT)
    same = takewhile(lambda one: one.closes_at == at, calendar.closed[number:])
    there = [one for one in same if _binds(calendar, one, back=back)]
    return min(there, key=lambda one: (-one.opens_at, one.by), default=None)


def ended_by(calendar: Calendar, at: float) -> Closed | None:
    """The first closed time that ends at exactly `at`; None: none does."""
    begun = calendar.closed[: bisect_left(calendar.closed, at, key=_CLOSES_AT)]
    return next((one for one in begun if one.opens_at == at), None)


def peak_seen_at(calendar: Calendar, since: float) -> float | None:
    """When one whole peak of each kind that began at `since` or later is over; None: not before
    the calendar's end. The time to settle before a peak is no part of it."""
    ends = [_peak_end(calendar, by, since) for by, rule in enumerate(calendar.rules) if rule.peak]
    known = [end for end in ends if end is not None and end < calendar.known_until]
    return max(known) if ends and len(known) == len(ends) else None


def _peak_end(calendar: Calendar, by: int, since: float) -> float | None:
    settle = calendar.rules[by].settle
    whole = (
        one.opens_at for one in calendar.closed if one.by == by and one.closes_at + settle >= since
    )
    return min(whole, default=None)


def known_until(calendar: Calendar, *, back: bool = False) -> float:
    """The end of what is known; where nothing binds going back, that has none."""
    return calendar.known_until if not back or calendar.binds_back else math.inf


def _binds(calendar: Calendar, one: Closed, *, back: bool) -> bool:
    return not back or calendar.rules[one.by].binds_back


# ---------------------------------------------------------------- in words


@lru_cache(maxsize=1000)  # a hold that stands is worded anew at every event
def local(at: float, offset: int) -> str:
    """`2026-11-30 10:00 UTC-08:00`: a time on clocks that are `offset` minutes east of UTC."""
    shown = datetime.fromtimestamp(at, timezone(timedelta(minutes=offset)))
    return f"{shown:%Y-%m-%d %H:%M} {shown.tzname()}"


def span_words(seconds: float) -> str:
    """`15 min`, `1 h 30 min`, `45 s`."""
    left, parts = round(seconds), []
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        parts += [f"{count} {name}"] if count else []
    return " ".join(parts[:2]) or "0 s"
