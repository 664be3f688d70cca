"""How is a `Checklist` written?

apiVersion: guardrail/v1
kind: Checklist
metadata: {name: holiday-season, description: what must be so before everybody comes back}
spec:
  schedule: {cron: "0 9 * * mon-fri", timezone: America/Los_Angeles}   # when it is gone through
  peak:                                # what it is for: guardrail/files/occasion.py
    timezone: America/Los_Angeles
    at: "06:00"
    lasts: 5d
    workingDay: {after: new-year, region: US}
  tells: [network-oncall]              # Channel documents; default: all that are told of checks
  source: prometheus                   # a Source document; not needed where there is one
  items:                               # each asks in one of four ways
    - name: open-files
      title: the provisioner can open the wave's files
      query: min(process_max_fds - process_open_fds)
      pass: {above: 20000}             # as in a Gate
      maxAge: 3 scrapes
    - {name: database, title: the database has room, gate: database-margin}    # a Gate document
    - name: scale-down
      title: nothing is scaled down from before the peak to after its tail
      locked: {since: scale_down_lock_since, until: scale_down_lock_until, before: 2h, tail: 6h}
    - name: second-prometheus
      title: the second answers when the first is dark
      answers: {first: prometheus, second: prometheus-b, query: count(up == 1), pass: {above: 0}}

`locked` has queries that answer seconds since the epoch. `answers` reads the second source alone;
what the first says is told, and does not matter.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from guardrail.files.gate import BoundFormat
from guardrail.files.occasion import CronLine, OccasionFormat, to_occasion
from guardrail.files.place import Place
from guardrail.files.values import (
    DescribedMetadata,
    DurationAboveZero,
    Format,
    Name,
    Query,
    SampleAge,
    Text,
    exactly_one,
    wrong,
)
from guardrail.files.window import Zone
from guardrail.model.checklist import Answers, Checklist, Item, Locked, Plain
from guardrail.model.gate import Age, Bound

_WAYS = ("query", "gate", "locked", "answers")


class ScheduleFormat(Format):
    """When it is gone through."""

    cron: CronLine = Field(description="minute hour day month weekday")
    timezone: Zone = Field(description="A name of the tz database, such as Europe/Berlin.")


class LockedFormat(Format):
    """From when to when something must be locked; the queries answer seconds since the epoch."""

    since: Query
    until: Query
    before: DurationAboveZero = Field(description="So long before the peak it is locked.")
    tail: DurationAboveZero = Field(description="So long after the peak it is still locked.")


class AnswersFormat(Format):
    """What the second of two sources must answer, by itself."""

    first: Name = Field(description="A Source document.")
    second: Name = Field(description="Another one.")
    query: Query
    pass_: BoundFormat = Field(alias="pass")

    @model_validator(mode="after")
    def _two(self) -> Self:
        if self.first == self.second:
            raise wrong((("second",), f"`{self.second}` is the first; name another Source"))
        return self


class ItemFormat(Format):
    """One point: a `query` with its `pass`, a `gate`, `locked` or `answers`."""

    name: Name
    title: Text = Field(description="What must be so, for people.")
    query: Query | None = Field(default=None, description="PromQL that answers one number.")
    pass_: BoundFormat | None = Field(default=None, alias="pass")
    gate: Name | None = Field(default=None, description="A Gate document.")
    locked: LockedFormat | None = None
    answers: AnswersFormat | None = None
    max_age: SampleAge | None = Field(default=None, description="3 scrapes; a gate has its own.")
    source: Name | None = Field(default=None, description="A Source document.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        exactly_one(self, *_WAYS)
        if (self.query is None) != (self.pass_ is None):
            raise wrong(((), "`query` and `pass` are given together or not at all"))
        if self.answers is not None and self.source is not None:
            raise wrong((("source",), "`answers` names its sources itself; drop `source`"))
        if self.gate is not None and self.max_age is not None:
            raise wrong((("maxAge",), "the gate says that itself; drop `maxAge`"))
        return self


class SpecFormat(Format):
    """What must be so, and when that is looked at."""

    schedule: ScheduleFormat
    peak: OccasionFormat | None = Field(default=None, description="The load that it is for.")
    tells: Annotated[list[Name], Field(min_length=1)] | None = Field(
        default=None,
        description="Channel documents that hear when it does not pass; default: all that have "
        "`check` in their own `tells`.",
    )
    source: Name | None = Field(default=None, description="A Source document, for all items.")
    items: list[ItemFormat] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        names: set[str] = set()
        for number, item in enumerate(self.items):
            if item.name in names:
                raise wrong((("items", number, "name"), f"`{item.name}` is listed twice"))
            names.add(item.name)
            if item.locked is not None and self.peak is None:
                why = "a lock is held against the `peak`: say when that is"
                raise wrong((("items", number, "locked"), why))
        return self


class ChecklistFormat(Format):
    """Gates on a schedule, with a report."""

    api_version: Literal["guardrail/v1"]
    kind: Literal["Checklist"]
    metadata: DescribedMetadata
    spec: SpecFormat


# ---------------------------------------------------------------- the model


def to_checklist(written: ChecklistFormat, place: Place) -> Checklist:
    """The model of a document that was found valid."""
    spec = written.spec
    return Checklist(
        name=written.metadata.name,
        cron=spec.schedule.cron,
        timezone=spec.schedule.timezone,
        items=tuple(_item(item, spec.source) for item in spec.items),
        peak=None if spec.peak is None else to_occasion(spec.peak),
        description=written.metadata.description,
        digest=place.digest(),
        tells=tuple(spec.tells or ()),
    )


def _item(written: ItemFormat, source: str | None) -> Item:
    age = written.max_age or Age(scrapes=3)
    return Item(written.name, written.title, _asks(written), age, written.source or source)


def _asks(written: ItemFormat) -> str | Plain | Locked | Answers:
    if written.locked is not None:
        lock = written.locked
        return Locked(lock.since, lock.until, lock.before, lock.tail)
    if written.answers is not None:
        two = written.answers
        return Answers(two.first, two.second, two.query, _bound(two.pass_))
    if written.query is not None and written.pass_ is not None:
        return Plain(written.query, _bound(written.pass_))
    return written.gate or ""


def _bound(written: BoundFormat) -> Bound:
    within = (written.within[0], written.within[1]) if written.within else None
    return Bound(written.below, written.above, within)
