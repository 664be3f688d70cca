"""How is a `Reminder` written?

apiVersion: guardrail/v1
kind: Reminder
metadata: {name: transit-gateway, description: it must be scaled before everybody comes back}
spec:
  prescale: transit gateway tgw-main, to 50 Gbit/s       # what; in words
  occasion:                            # when the load comes: guardrail/files/occasion.py
    timezone: America/Los_Angeles
    at: "06:00"
    lasts: 5d
    workingDay: {number: 1, after: new-year, region: US}
  leads: {ticket: [30d, 14d], quota: [14d, 3d]}   # so long before, by type of request
  people: {owner: ann, deputy: bob, channel: storage-oncall, after: 4h}
  snooze: {most: 3d, times: 3}
  steps:
    - {name: ask, title: ask the provider, request: ticket, evidence: {ticket: "CASE-[0-9]+"}}
    - name: quota
      title: see that the quota was raised
      request: quota
      evidence: {quota: {query: tgw_quota_gbps, pass: {above: 49}}}
  verify: {query: tgw_capacity_gbps, target: 50, every: 1h}   # read until the occasion is over
  source: prometheus                   # a Source document; not needed where there is one
"""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from guardrail.files.gate import BoundFormat
from guardrail.files.occasion import OccasionFormat, to_occasion
from guardrail.files.place import Place
from guardrail.files.values import (
    DescribedMetadata,
    DurationAboveZero,
    Format,
    Name,
    Query,
    Text,
    exactly_one,
    wrong,
)
from guardrail.model.gate import Bound
from guardrail.model.reminder import Evidence, Lead, People, Reminder, Task, Verify


def _ticket(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"this is no regular expression: {error}") from None
    if re.fullmatch(value, ""):
        raise ValueError("an empty ticket would fit; say what its number looks like: CASE-[0-9]+")
    return value


TicketPattern = Annotated[Text, AfterValidator(_ticket)]


class PeopleFormat(Format):
    """Who is told, in this order, by the names of the worker's `Channel` documents."""

    owner: Name
    deputy: Name
    channel: Name
    after: DurationAboveZero = Field(
        default="4h",
        validate_default=True,
        description="Nobody has acknowledged within this time: the next one is told.",
    )


class SnoozeFormat(Format):
    """How long, and how often, a reminder can be put off for one occasion."""

    most: DurationAboveZero = Field(default="3d", validate_default=True)
    times: int = Field(default=3, ge=0)


class QuotaFormat(Format):
    """A value that is read back."""

    query: Query = Field(description="PromQL that answers one number.")
    pass_: BoundFormat = Field(alias="pass")


class TargetFormat(Format):
    """A target against what there is."""

    query: Query = Field(description="PromQL that answers what there is.")
    target: float = Field(description="At least this is needed.")


class EvidenceFormat(Format):
    """What shows that a step was taken: one of `ticket`, `quota` and `actual`."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    ticket: TicketPattern | None = Field(
        default=None, description="What its number looks like: CASE-[0-9]+"
    )
    quota: QuotaFormat | None = None
    actual: TargetFormat | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        exactly_one(self, "ticket", "quota", "actual")
        return self


class StepFormat(Format):
    """A step, and what shows that it was taken."""

    name: Name
    title: Text = Field(description="What to do, for people.")
    request: Name = Field(description="Its type: a key of `leads`.")
    evidence: EvidenceFormat


class VerifyFormat(TargetFormat):
    """What shows that it is there, read until the occasion is over."""

    every: DurationAboveZero = Field(default="1h", validate_default=True)


class SpecFormat(Format):
    """What to prepare, for what, by whom."""

    prescale: Text = Field(description="What, and to how much; for people.")
    occasion: OccasionFormat
    leads: dict[Name, Annotated[list[DurationAboveZero], Field(min_length=1)]] = Field(
        min_length=1, description="So long before the occasion, by type of request."
    )
    people: PeopleFormat
    snooze: SnoozeFormat = SnoozeFormat()
    steps: list[StepFormat] = Field(min_length=1)
    verify: VerifyFormat | None = None
    source: Name | None = Field(default=None, description="A Source document.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        names: set[str] = {"verify"}
        for number, step in enumerate(self.steps):
            if step.name in names:
                why = "is the name of the whole" if step.name == "verify" else "is listed twice"
                raise wrong((("steps", number, "name"), f"`{step.name}` {why}"))
            names.add(step.name)
            if step.request not in self.leads:
                allowed = ", ".join(f"`{each}`" for each in self.leads)
                why = f"`{step.request}` has no lead times; allowed: {allowed}"
                raise wrong((("steps", number, "request"), why))
        unused = [each for each in self.leads if all(s.request != each for s in self.steps)]
        if unused:
            raise wrong((("leads", unused[0]), f"no step has a request of type `{unused[0]}`"))
        return self


class ReminderFormat(Format):
    """What is prepared for an occasion, by whom, and what shows that it was."""

    api_version: Literal["guardrail/v1"]
    kind: Literal["Reminder"]
    metadata: DescribedMetadata
    spec: SpecFormat


# ---------------------------------------------------------------- the model


def to_reminder(written: ReminderFormat, place: Place) -> Reminder:
    """The model of a document that was found valid."""
    spec = written.spec
    leads = {Lead(kind, before) for kind, times in spec.leads.items() for before in times}
    return Reminder(
        name=written.metadata.name,
        what=spec.prescale,
        occasion=to_occasion(spec.occasion),
        leads=tuple(sorted(leads, key=lambda lead: (-lead.before, lead.request))),
        people=People(
            owner=spec.people.owner,
            deputy=spec.people.deputy,
            channel=spec.people.channel,
            after=spec.people.after,
            snooze_most=spec.snooze.most,
            snooze_times=spec.snooze.times,
        ),
        tasks=tuple(_task(step) for step in spec.steps),
        verify=_verify(spec.verify),
        source=spec.source,
        description=written.metadata.description,
        digest=place.digest(),
    )


def _task(written: StepFormat) -> Task:
    return Task(written.name, written.title, written.request, _evidence(written.evidence))


def _evidence(written: EvidenceFormat) -> Evidence:
    if written.ticket is not None:
        return Evidence("ticket", pattern=written.ticket)
    if written.quota is not None:
        return Evidence("quota", query=written.quota.query, bound=_bound(written.quota.pass_))
    found = written.actual
    return _target(found) if found is not None else Evidence("ticket")


def _target(written: TargetFormat) -> Evidence:
    return Evidence("target", query=written.query, target=written.target)


def _bound(written: BoundFormat) -> Bound:
    within = (written.within[0], written.within[1]) if written.within else None
    return Bound(written.below, written.above, within)


def _verify(written: VerifyFormat | None) -> Verify | None:
    return None if written is None else Verify(_target(written), written.every)
