"""What does a season come to: which occasions, reminders, windows and freezes, and when?

occasion   each moment of a reminder's occasion; one for all reminders that have it alike
reminder   each lead time of each reminder: ask for it now
window     the `deny` entries of policies with dates, or with a calendar; daily ones would fill it
freeze     what is frozen, or will be, as the places say
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from guardrail.decide.calendar import expand, local, span_words
from guardrail.decide.freezes import ends as freeze_ends
from guardrail.model.calendar import Windows
from guardrail.model.freeze import Freeze
from guardrail.model.occasion import Moment
from guardrail.model.policy import Policy
from guardrail.model.reminder import Lead, Reminder
from guardrail.model.season import Entry, Season

Due = tuple[Reminder, tuple[Moment, ...]]
"""A reminder and the moments of its occasion."""


def season(
    begin: float,
    end: float,
    due: Iterable[Due],
    policies: Iterable[Policy],
    freezes: Iterable[Freeze],
) -> Season:
    """All that touches the time from `begin` to `end`.

    due: with the moments whose lead times may fall into it. Raises
    zoneinfo.ZoneInfoNotFoundError.
    """
    known = tuple(due)
    found = [*_occasions(known), *_reminders(known), *_windows(policies, begin, end)]
    found += [_freeze(each) for each in freezes]
    inside = {each.uid: each for each in found if _touches(each, begin, end)}
    order = sorted(inside.values(), key=lambda each: (each.begins_at, each.kind, each.key))
    return Season(begin, end, tuple(order))


def longest_lead(reminders: Iterable[Reminder]) -> float:
    """Seconds after the end of a season in which occasions still have lead times in it."""
    return max((lead.before for each in reminders for lead in each.leads), default=0.0)


def _touches(entry: Entry, begin: float, end: float) -> bool:
    if entry.kind == "freeze" and entry.ends_at is None:
        return entry.begins_at < end
    over = entry.begins_at if entry.ends_at is None else entry.ends_at
    return entry.begins_at < end and (over > begin or entry.begins_at >= begin)


# ---------------------------------------------------------------- occasions and reminders


def _occasions(due: Iterable[Due]) -> Iterator[Entry]:
    """Those of several reminders that are alike are one; the first one's name is its key."""
    alike: dict[tuple[float, float, str, str], list[tuple[Reminder, Moment]]] = {}
    for reminder, moments in sorted(due, key=lambda each: each[0].name):
        for one in moments:
            same = (one.begins_at, one.ends_at, one.words, one.timezone)
            alike.setdefault(same, []).append((reminder, one))
    for together in alike.values():
        first, moment = together[0]
        names = ", ".join(reminder.name for reminder, _ in together)
        yield Entry(
            kind="occasion",
            key=f"{first.name}/{moment.key}",
            title=moment.words,
            begins_at=moment.begins_at,
            ends_at=moment.ends_at,
            timezone=moment.timezone,
            details=(*moment_words(moment), f"prepared for by: {names}"),
            estimate=moment.estimate,
        )


def moment_words(moment: Moment) -> tuple[str, ...]:
    """When it begins on its own clock, and what that rests on."""
    words = [f"begins at {local(moment.begins_at, moment.offset)} ({moment.timezone})"]
    words += [moment.clock] if moment.clock else []
    words += ["an estimate: the day may still be moved"] if moment.estimate else []
    words += [f"known by {', '.join(moment.known_by)}"] if moment.known_by else []
    return tuple(words)


def _reminders(due: Iterable[Due]) -> Iterator[Entry]:
    for reminder, moments in due:
        for moment in moments:
            yield from (_lead(reminder, moment, lead) for lead in reminder.leads)


def _lead(reminder: Reminder, moment: Moment, lead: Lead) -> Entry:
    steps = [task.title for task in reminder.tasks if task.request == lead.request]
    people = reminder.people
    return Entry(
        kind="reminder",
        key=f"{reminder.name}/{moment.key}/{lead.request}/{round(lead.before)}",
        title=f"{reminder.name}: {lead.request}, {span_words(lead.before)} before",
        begins_at=moment.begins_at - lead.before,
        timezone=moment.timezone,
        details=(
            f"prepare: {reminder.what}",
            *(f"step: {title}" for title in steps),
            f"for: {moment.words}, {local(moment.begins_at, moment.offset)}",
            f"owner {people.owner}, deputy {people.deputy}",
        ),
        estimate=moment.estimate,
    )


# ---------------------------------------------------------------- windows and freezes


def _windows(policies: Iterable[Policy], begin: float, end: float) -> Iterator[Entry]:
    for policy in policies:
        if policy.windows is not None:
            yield from _of_policy(policy, policy.windows, begin, end)


def _of_policy(policy: Policy, windows: Windows, begin: float, end: float) -> Iterator[Entry]:
    """One entry for each stretch that a dated window, or a calendar, closes, without the time to
    settle."""
    for window in windows.deny:
        if not window.dates and not window.calendar:
            continue
        alone = replace(windows, deny=(replace(window, settle_before=0.0),), allow=())
        calendar = expand([alone], begin, end - begin)
        for closed in calendar.closed if calendar else ():
            day = local(closed.closes_at, closed.close_offset)
            yield Entry(
                kind="window",
                key=f"{policy.name}/{day}",
                title=window.reason or f"closed: {window}",
                begins_at=closed.closes_at,
                ends_at=closed.opens_at,
                timezone=windows.timezone,
                details=(f"policy {policy.name}: {window} {windows.timezone}",),
                binds_back=windows.rollback == "same",
            )


def _freeze(freeze: Freeze) -> Entry:
    by = f" by {freeze.by}" if freeze.by else ""
    return Entry(
        kind="freeze",
        key=f"{freeze.place}/{freeze.name}",
        title=freeze.reason or "frozen, no reason given",
        begins_at=freeze.since,
        ends_at=freeze.until,
        details=(f"set{by} at {freeze.place}", f"ends by: {freeze_ends(freeze)}"),
        roles=freeze.roles,
        fleets=freeze.fleets,
        binds_back=freeze.binds_back,
    )
