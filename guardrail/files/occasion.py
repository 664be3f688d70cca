"""How is it written when the load comes?

    occasion:
      timezone: America/Los_Angeles      # whose clock counts
      at: "06:00"                        # on it; cron has its own
      lasts: 5d                          # until it is over; 1d
      workingDay: {number: 1, after: new-year, region: US}   # or `before`, or `on` without number
      # or date: 2027-01-04
      # or cron: "0 6 1 * *"             # minute, hour, day, month, day of the week
      holidays:                          # what is other than the library has it; wins
        - {day: 2027-01-05, is: workday, reason: inventory}
        - {day: 2027-01-06, is: holiday}

A named day is `new-year`, `christmas`, a month and day such as 12-25, or {holiday: NAME}, as the
library calls it in that region. A time that the clock leaves out, or shows twice, is one moment all
the same (decide/occasions.py), and `guardrail remind check` says which.
"""

import re
from calendar import monthrange
from datetime import date
from functools import cache
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, model_validator

from guardrail.decide import cron
from guardrail.decide.occasions import NAMED_DAYS
from guardrail.files.values import DurationAboveZero, Format, Text, exactly_one, shown, wrong
from guardrail.files.window import Clock, Zone
from guardrail.model.occasion import Occasion, Override, WorkingDay

MONTH_DAY = r"^(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
REGION = r"^[A-Z]{2}(-[A-Za-z0-9 ]+)?$"
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
FARTHEST = 260
"""Working days from a named day: a year."""


# ---------------------------------------------------------------- words


def _date(value: object) -> date:
    if isinstance(value, str) and re.fullmatch(DATE, value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise ValueError(f"there is no day {value}") from None
    raise ValueError(f"a day is needed, such as 2027-01-04, found {shown(value)}")


def _named_day(value: object) -> tuple[int, int] | str:
    """`new-year`, `12-25`, or {holiday: NAME}: month and day, or the name of a holiday."""
    if isinstance(value, str) and value in NAMED_DAYS:
        return NAMED_DAYS[value]
    if isinstance(value, str) and re.fullmatch(MONTH_DAY, value):
        month, day = map(int, value.split("-"))
        if day > monthrange(2028, month)[1]:  # a leap year has all days that there are
            raise ValueError(f"there is no day {value}")
        return month, day
    if isinstance(value, dict) and set(value) == {"holiday"} and isinstance(value["holiday"], str):
        return str(value["holiday"])
    words = ", ".join(f"`{word}`" for word in NAMED_DAYS)
    raise ValueError(
        f"a day of the year is needed: {words}, a month and day such as 12-25, or "
        f"{{holiday: NAME}}, found {shown(value)}"
    )


@cache
def _regions() -> dict[str, tuple[str, ...]]:
    """The countries of the library `holidays`, imported late: it takes a fifth of a second."""
    import holidays

    known = holidays.list_supported_countries(include_aliases=False)
    return {country: tuple(parts) for country, parts in known.items()}


def _region(value: str) -> str:
    country, _, part = value.partition("-")
    if country not in _regions():
        raise ValueError(
            f"{shown(value)} is no region known here; a country such as US, JP or NZ is needed, "
            "or a part of one such as GB-ENG"
        )
    parts = _regions()[country]
    if part and part not in parts:
        allowed = ", ".join(f"`{country}-{each}`" for each in parts) or "none"
        raise ValueError(f"{shown(value)} is no part of {country}; allowed: {allowed}")
    return value


def _cron(value: str) -> str:
    cron.parse(value)
    return value


Date = Annotated[date, PlainValidator(_date), WithJsonSchema({"type": "string", "pattern": DATE})]
_DAY_SCHEMA = {
    "anyOf": [
        {"enum": list(NAMED_DAYS)},
        {"type": "string", "pattern": MONTH_DAY},
        {
            "type": "object",
            "properties": {"holiday": {"type": "string"}},
            "required": ["holiday"],
            "additionalProperties": False,
        },
    ]
}
NamedDay = Annotated[tuple[int, int] | str, PlainValidator(_named_day), WithJsonSchema(_DAY_SCHEMA)]
Region = Annotated[
    str, AfterValidator(_region), WithJsonSchema({"type": "string", "pattern": REGION})
]
CronLine = Annotated[Text, AfterValidator(_cron)]


# ---------------------------------------------------------------- formats


class WorkingDayFormat(Format):
    """A working day of a region, counted from a named day of each year."""

    number: int = Field(
        default=1, ge=0, le=FARTHEST, description="The first is 1; not needed with `on`."
    )
    after: NamedDay | None = None
    before: NamedDay | None = None
    on: NamedDay | None = Field(
        default=None, description="That day, or the first working day after it."
    )
    region: Region = Field(description="A country, or a part of one: US, GB-SCT, NZ-AUK.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        exactly_one(self, "after", "before", "on")
        if self.on is None and self.number == 0:
            raise wrong((("number",), "at least 1 is needed here; for the day itself write `on`"))
        return self

    @property
    def counted(self) -> int:
        """Below 0: before the named day; 0: on it."""
        if self.on is not None:
            return 0
        return self.number if self.after is not None else -self.number

    @property
    def named(self) -> tuple[int, int] | str:
        found = self.after or self.before or self.on
        return found if found is not None else (1, 1)


class HolidayFormat(Format):
    """A day that is other than the library has it."""

    day: Date
    is_: Literal["holiday", "workday"] = Field(alias="is")
    reason: str = ""


class OccasionFormat(Format):
    """When the load comes: one of `date`, `cron` and `workingDay`."""

    timezone: Zone = Field(description="A name of the tz database, such as Europe/Berlin.")
    at: Clock | None = Field(default=None, description="00:00; `cron` has its own.")
    lasts: DurationAboveZero = Field(
        default="1d", validate_default=True, description="From its begin until it is over."
    )
    date: Date | None = None
    cron: CronLine | None = Field(default=None, description="minute hour day month weekday")
    working_day: WorkingDayFormat | None = None
    holidays: list[HolidayFormat] = Field(
        default=[], description="Days that are other than the library has them; these win."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        exactly_one(self, "date", "cron", "workingDay")
        if self.cron is not None and self.at is not None:
            raise wrong((("at",), "`cron` says the time itself; drop `at`"))
        if self.holidays and self.working_day is None:
            raise wrong((("holidays",), "they count for `workingDay` alone"))
        days = [each.day for each in self.holidays]
        for number, each in enumerate(self.holidays):
            if each.day in days[:number]:
                raise wrong((("holidays", number, "day"), f"{each.day} is listed twice"))
        return self


# ---------------------------------------------------------------- the model


def to_occasion(written: OccasionFormat) -> Occasion:
    """The model of an occasion that was found valid."""
    return Occasion(
        timezone=written.timezone,
        minute=written.at or 0,
        lasts=written.lasts,
        on=written.date,
        cron=written.cron or "",
        working_day=_working_day(written.working_day),
        overrides=tuple(
            Override(each.day, each.is_ == "workday", each.reason) for each in written.holidays
        ),
    )


def _working_day(written: WorkingDayFormat | None) -> WorkingDay | None:
    if written is None:
        return None
    named = written.named
    if isinstance(named, str):
        return WorkingDay(written.region, written.counted, holiday=named)
    return WorkingDay(written.region, written.counted, *named)
