"""Which days does a region not work on, as far as the library `holidays` knows?

Regions are written as in ISO 3166: `US`, `JP`, `NZ`, `NZ-AUK`, `GB-SCT`. What the library knows of
a year is law and custom as of its release. It can give any year to come by today's rules, and days
are still moved and added by decree: what is later than the year after its release is an estimate.
"""

from collections.abc import Iterable
from importlib.metadata import version

from guardrail.decide.occasions import moments, overridden, years_needed
from guardrail.errors import Refused
from guardrail.model.occasion import Free, Holiday, Moment, Occasion, Override

RELEASED = {"0.109": 2026}
"""The year of a release of the library, which does not say it itself."""
CERTAIN_YEARS = 1
"""Years after its release of which the library can know: governments proclaim the next one."""


def free_days(region: str, years: Iterable[int], overrides: Iterable[Override] = ()) -> Free:
    """The days of a region in these years, with what the user says of them.

    Raises Refused for a region that is not known.
    """
    import holidays as library  # every calendar there is: 60 ms

    wanted = tuple(sorted(set(years)))
    country, _, part = region.partition("-")
    # One year more at both ends: New Year's Day may be observed in the year before.
    around = range(min(wanted) - 1, max(wanted) + 2) if wanted else ()
    try:
        found = library.country_holidays(country, subdiv=part or None, years=around)
    except NotImplementedError as error:
        raise Refused(f"`{region}` is no region whose holidays are known: {error}") from None
    days = [Holiday(day, name) for day, name in sorted(found.items()) if day.year in wanted]
    worked = sorted(day for day in getattr(found, "weekend_workdays", ()) if day.year in wanted)
    free = Free(
        region=region,
        years=wanted,
        holidays=tuple(days),
        known_by=f"holidays {version('holidays')}",
        certain_until=min(_released() + CERTAIN_YEARS, found.end_year),
        weekend=tuple(sorted(found.weekend)),
        worked=tuple(worked),
    )
    return overridden(free, overrides)


def free_for(occasion: Occasion, begin: float, until: float) -> Free | None:
    """The days that `decide.occasions.moments` needs; None where it needs none. Raises Refused."""
    rule = occasion.working_day
    if rule is None:
        return None
    return free_days(rule.region, years_needed(occasion, begin, until), occasion.overrides)


def moments_of(occasion: Occasion, begin: float, until: float) -> tuple[Moment, ...]:
    """The occasion's moments between these times (seconds since the epoch), by the holidays that
    the library knows. Raises Refused for a region that is not known."""
    return moments(occasion, free_for(occasion, begin, until), begin, until)


def _released() -> int:
    """A release whose year nobody noted here counts as the oldest one that was."""
    return RELEASED.get(version("holidays"), min(RELEASED.values()))
