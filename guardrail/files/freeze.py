"""How is a freeze written, in a worker's file, at a URL or at a key of Consul's?

One freeze, or a list of them, in YAML or JSON; every key may be left out:

    name: holidays
    reason: nobody is there to look
    by: ann
    since: 2026-12-20T00:00:00Z     # default: when the file was written
    until: 2027-01-07T08:00:00Z     # default: until it is taken away
    roles: [memcached]              # whom it concerns; default: all
    fleets: [cache]
    rollback: warn                  # going back need not wait; default: same, it waits

An empty file that is there is a freeze for no stated reason: `touch FILE` is all it takes. An empty
list is none. A place that ends in `.ics`, or is served as text/calendar, or begins as one, is an
iCalendar file (files/ics.py).
"""

import re
from datetime import datetime
from functools import partial
from typing import Annotated, Literal, Protocol
from zoneinfo import ZoneInfo

from pydantic import Field, PlainValidator, ValidationError

from guardrail.errors import InvalidFile, Refused
from guardrail.files.faults import faults_of
from guardrail.files.tree import Placed, Spot, read
from guardrail.files.values import Format, shown
from guardrail.model.freeze import Freeze

_MOST = 1_000
"""Freezes of one place."""
CALENDAR = ".ics"
_BEGIN = b"BEGIN:VCALENDAR"
_BLANK = b"\xef\xbb\xbf \t\r\n"


def _time(value: object) -> float:
    """A time with its offset, as seconds since the epoch. Raises ValueError."""
    needed = f"a time with its offset is needed, such as 2026-12-20T00:00:00Z, found {shown(value)}"
    if not isinstance(value, str):
        raise ValueError(needed)
    try:
        found = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", value.strip()))
        if found.tzinfo is None:
            raise ValueError(needed)
        return found.timestamp()
    except (ValueError, OverflowError):
        raise ValueError(needed) from None


Time = Annotated[float, PlainValidator(_time)]


class FreezeFormat(Format):
    """One freeze."""

    name: str = Field(default="", max_length=100)
    reason: str = ""
    by: str = ""
    since: Time | None = None
    until: Time | None = None
    roles: list[str] = Field(default=[])
    fleets: list[str] = Field(default=[])
    rollback: Literal["same", "warn"] = "same"


class ManyFormat(Format):
    """A list of them, as it is checked here."""

    freezes: list[FreezeFormat] = Field(max_length=_MOST)


def parse(
    text: bytes, place: str, since: float, *, calendar: bool = False, timezone: str = ""
) -> tuple[Freeze, ...]:
    """The freezes of one place. since: when they were written, where they do not say it. calendar:
    it is said to be an iCalendar file, whatever its name. timezone: for its times without a zone.

    Raises InvalidFile with every fault: what cannot be read is no word that nothing is frozen.
    """
    if not text.strip():
        return (Freeze("freeze", "", "", since, place=place),)
    if calendar or place.lower().endswith(CALENDAR) or text.lstrip(_BLANK).startswith(_BEGIN):
        from guardrail.files import ics

        return ics.freezes(text, place, timezone)
    documents, faults = read(text, place)
    if faults:
        raise InvalidFile(faults)
    found = [one for placed in documents for one in _of(placed)]
    return tuple(_model(one, n, place, since) for n, one in enumerate(found, 1))


class Reading(Protocol):
    """`parse`, for one zone."""

    def __call__(
        self, text: bytes, place: str, since: float, /, *, calendar: bool = False
    ) -> tuple[Freeze, ...]:
        """See parse."""


def parse_in(timezone: str) -> Reading:
    """How documents are read where that zone is meant for times without one. Raises Refused."""
    try:
        zone = ZoneInfo(timezone).key if timezone else ""
    except (KeyError, ValueError, OSError):
        raise Refused(
            "GUARDRAIL_FREEZE_TIMEZONE is a name of the tz database, such as Europe/Berlin, "
            f"not {timezone!r}"
        ) from None
    return partial(parse, timezone=zone)


def _of(placed: Placed) -> list[FreezeFormat]:
    data, below = placed.data, placed
    if isinstance(data, dict) and set(data) != {"freezes"}:
        data, below = [data], _moved(placed, ("freezes", 0))
    elif isinstance(data, list):
        below = _moved(placed, ("freezes",))
    elif isinstance(data, dict):
        data = data["freezes"]
    try:
        return ManyFormat.model_validate({"freezes": data}).freezes
    except ValidationError as error:
        raise InvalidFile(faults_of(error, ManyFormat, below)) from None


def _moved(placed: Placed, under: tuple[str | int, ...]) -> Placed:
    """The same document with all its places one step further down, as it is checked."""
    keys = {(*under, *path): spot for path, spot in placed.keys.items()}
    values = {(*under, *path): spot for path, spot in placed.values.items()}
    top = placed.values.get((), Spot(1, 1))
    outer = {under[:n]: top for n in range(len(under))}
    return Placed(placed.file, placed.data, keys, {**outer, **values})


def _model(written: FreezeFormat, number: int, place: str, since: float) -> Freeze:
    return Freeze(
        name=written.name or f"freeze-{number}",
        reason=written.reason,
        by=written.by,
        since=since if written.since is None else written.since,
        until=written.until,
        place=place,
        roles=tuple(written.roles),
        fleets=tuple(written.fleets),
        binds_back=written.rollback == "same",
    )
