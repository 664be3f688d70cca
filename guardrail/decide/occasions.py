"""At which moment does an occasion begin?

`moments` gives all of them in a stretch of time. Wall times become moments here, once, by the rule
of windows (decide/calendar.py), and the moment says so:

    a time that the clock leaves out (spring)      comes later by as much as the clock jumps
    a time that the clock shows twice (autumn)     is the first of the two

A working day is a day that is neither of the region's weekend nor one of its holidays; what the
user says of a day wins over both.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from guardrail.decide.calendar import at_wall
from guardrail.decide.cron import parse
from guardrail.errors import Refused
from guardrail.model.calendar import DAY_MINUTES
from guardrail.model.occasion import Free, Holiday, Moment, Occasion, Override, WorkingDay

DAY = 86_400.0
FARTHEST = 366
"""Days in which a working day is looked for."""
NAMED_DAYS = {"new-year": (1, 1), "christmas": (12, 25)}
"""Days that have a word in documents."""
_ORDINALS = ("", "first", "second", "third", "fourth", "fifth")


# ---------------------------------------------------------------- the days of a region


def overridden(free: Free, overrides: Iterable[Override]) -> Free:
    """With what the user says, which wins and is kept."""
    kept = {each.day: each for each in (*free.overrides, *overrides)}
    said = [Holiday(o.day, o.reason or "by override") for o in kept.values() if not o.working]
    holidays = [each for each in free.holidays if each.day not in kept]
    worked = [day for day in free.worked if day not in kept]
    worked += [each.day for each in kept.values() if each.working]
    return replace(
        free,
        holidays=tuple(sorted([*holidays, *said], key=lambda each: each.day)),
        worked=tuple(sorted(worked)),
        overrides=tuple(kept[day] for day in sorted(kept)),
    )


def is_worked(free: Free, day: date) -> bool:
    """Whether a region works on a day. Raises Refused for a year that nothing is known of."""
    if day.year not in free.years:
        raise Refused(f"nothing is known of the days of {day.year} in {free.region}")
    if day in free.worked:
        return True
    return day.weekday() not in free.weekend and all(day != each.day for each in free.holidays)


def working_day(free: Free, day: date, number: int) -> date:
    """The working day that is so many after (below 0: before) a day; 0: it or the first after it.

    Raises Refused where there is none within a year, or nothing is known of a day on the way.
    """
    step = timedelta(days=-1 if number < 0 else 1)
    at, left = (day, abs(number)) if number else (day - step, 1)
    for _ in range(FARTHEST):
        at += step
        left -= is_worked(free, at)
        if not left:
            return at
    raise Refused(f"there is no such working day within a year of {day} in {free.region}")


def named_day(rule: WorkingDay, free: Free, year: int) -> date:
    """The day of that year from which is counted. Raises Refused for a holiday that is not there.

    29 February is 1 March in years that have none.
    """
    if not rule.holiday:
        there = (rule.month, rule.day) != (2, 29) or _is_leap(year)
        return date(year, rule.month, rule.day) if there else date(year, 3, 1)
    found = [each.day for each in free.holidays if each.day.year == year and _called(each, rule)]
    if not found:
        names = sorted({each.name for each in free.holidays if each.day.year == year})
        raise Refused(
            f"{free.region} has no holiday `{rule.holiday}` in {year}; there: {', '.join(names)}"
        )
    return min(found)


def _called(holiday: Holiday, rule: WorkingDay) -> bool:
    wanted = rule.holiday.casefold()
    return wanted in (name.strip().casefold() for name in holiday.name.split(";"))


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


# ---------------------------------------------------------------- moments


def years_needed(occasion: Occasion, begin: float, until: float) -> tuple[int, ...]:
    """The years of which the region's days must be known for `moments`; none without a region."""
    if occasion.working_day is None:
        return ()
    first, last = _days(occasion, begin, until)
    return tuple(range(first.year - 1, last.year + 2))


def moments(
    occasion: Occasion, free: Free | None, begin: float, until: float
) -> tuple[Moment, ...]:
    """All moments from `begin` (included) to `until` (excluded), in order.

    free: the region's days in `years_needed`, overrides in them; None where none are needed.
    Raises Refused where these are not enough, zoneinfo.ZoneInfoNotFoundError.
    """
    found = {one.begins_at: one for one in reversed(list(_all(occasion, free, begin, until)))}
    return tuple(found[at] for at in sorted(found) if begin <= at < until)


def _all(occasion: Occasion, free: Free | None, begin: float, until: float) -> Iterator[Moment]:
    first, last = _days(occasion, begin, until)
    if occasion.on is not None:
        yield _moment(occasion, occasion.on, occasion.minute, str(occasion.on), str(occasion.on))
    elif occasion.cron:
        for day, minute in parse(occasion.cron).walls(first, last):
            key = f"{day}T{minute // 60:02d}{minute % 60:02d}"
            yield _moment(occasion, day, minute, key, f"`{occasion.cron}`")
    elif occasion.working_day is not None and free is not None:
        for year in range(first.year, last.year + 1):
            yield _counted(occasion, occasion.working_day, free, year)
    else:
        raise Refused("the days of the region are needed for a working day")


def _days(occasion: Occasion, begin: float, until: float) -> tuple[date, date]:
    """The days around a stretch of time; for counted days, those that may be counted from."""
    zone = ZoneInfo(occasion.timezone)
    reach = 1 if occasion.working_day is None else 31 + 2 * abs(occasion.working_day.number)
    first = datetime.fromtimestamp(begin, zone).date() - timedelta(days=reach)
    return first, datetime.fromtimestamp(until, zone).date() + timedelta(days=reach)


def _counted(occasion: Occasion, rule: WorkingDay, free: Free, year: int) -> Moment:
    named = named_day(rule, free, year)
    day = working_day(free, named, rule.number)
    moment = _moment(occasion, day, occasion.minute, str(year), in_words(rule))
    by = [f"override: {each}" for each in free.overrides if _between(each.day, named, day)]
    late = max(named, day).year > free.certain_until
    return replace(moment, estimate=late, known_by=(free.known_by, *by))


def _between(day: date, one: date, other: date) -> bool:
    return min(one, other) <= day <= max(one, other)


def _moment(occasion: Occasion, day: date, minute: int, key: str, words: str) -> Moment:
    at, clock = on_clock(day, minute, occasion.timezone)
    offset = datetime.fromtimestamp(at, ZoneInfo(occasion.timezone)).utcoffset() or timedelta()
    return Moment(
        key=key,
        begins_at=at,
        ends_at=at + occasion.lasts,
        offset=round(offset / timedelta(minutes=1)),
        words=words,
        timezone=occasion.timezone,
        clock=clock,
    )


def on_clock(day: date, minute: int, timezone: str) -> tuple[float, str]:
    """When a clock shows so many minutes after midnight, and what was done where it shows that
    never or twice; empty: it shows it once."""
    zone = ZoneInfo(timezone)
    wall = datetime.combine(day, time()) + timedelta(minutes=min(minute, DAY_MINUTES - 1))
    at = at_wall(wall, zone)
    shown = datetime.fromtimestamp(at, zone)
    if shown.replace(tzinfo=None) != wall:
        return at, f"the clock leaves {wall:%H:%M} out on {day}: it is {shown:%H:%M}"
    again = wall.replace(tzinfo=zone, fold=1).astimezone(UTC).timestamp()
    if again != at:
        return at, f"the clock shows {wall:%H:%M} twice on {day}: it is the first time"
    return at, ""


def in_words(rule: WorkingDay) -> str:
    """`first working day after New Year in GB-SCT`."""
    words = {value: key for key, value in NAMED_DAYS.items()}
    known = words.get((rule.month, rule.day), f"{rule.month:02d}-{rule.day:02d}")
    named = rule.holiday or {"new-year": "New Year", "christmas": "Christmas"}.get(known, known)
    if rule.number == 0:
        return f"{named} or the first working day after it in {rule.region}"
    count = abs(rule.number)
    nth = _ORDINALS[count] if count < len(_ORDINALS) else f"{count}th"
    if rule.number < 0:
        nth = "last" if count == 1 else f"{nth} last"
    return f"{nth} working day {'after' if rule.number > 0 else 'before'} {named} in {rule.region}"
