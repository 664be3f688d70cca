"""How is a `Rollout` written?

apiVersion: guardrail/v1
kind: Rollout
metadata: {name: consul-1.8.8, description: security fix, ticket: CHG-1}
spec:
  fleet: cache                      # a Fleet document
  change: {name: consul-agent, from: 1.8.7, to: 1.8.8}
  stages: [1, 25%, 50%, 75%, 100%]  # cumulative; counts first; the last is 100% or all
  gates: [agent-health]             # besides those that policies require
  order: {by: failureDomain, canaries: {firstOf: [role, os, version]}}   # or by: name
  plan: {tolerate: {hosts: 2%, versions: 0}}   # how much may have moved since `guardrail plan -o`
  priority: normal                  # urgent: others that hold a lease it needs give it back
"""

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, field_validator, model_validator

from guardrail.files.place import Place
from guardrail.files.values import (
    SHARE_SCHEMA,
    DescribedMetadata,
    Format,
    Name,
    StageAmount,
    Text,
    share,
    wrong,
)
from guardrail.model.change import ChangeRef
from guardrail.model.common import Amount
from guardrail.model.rollout import FirstOf, Order, Rollout, Tolerate


class MetadataFormat(DescribedMetadata):
    """What the rollout is called, what it is for, and who knows of it."""

    ticket: str = Field(default="", description="The change request, if there is one.")


class ChangeRefFormat(Format):
    """Which change, and between which versions."""

    name: Name = Field(description="A Change document of the worker's source.")
    from_: Text = Field(alias="from", description="The version that hosts have now.")
    to: Text = Field(description="The version that they get.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.from_ == self.to:
            raise wrong((("to",), f"`from` and `to` are the same version, `{self.to}`"))
        return self


class CanariesFormat(Format):
    """The first host of each combination of these facts comes before all others."""

    first_of: list[FirstOf] = Field(min_length=1)


class OrderFormat(Format):
    """In which order hosts come."""

    by: Literal["failureDomain", "name"] = "failureDomain"
    canaries: CanariesFormat | None = None


def tolerated(value: object) -> Amount:
    """Hosts (0 or more), or a share of them from 0% to 100%. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Amount(float(value))
    return share(value)


_TOLERATED_SCHEMA = {"anyOf": [{"type": "integer", "minimum": 0}, SHARE_SCHEMA]}
Tolerated = Annotated[Amount, PlainValidator(tolerated), WithJsonSchema(_TOLERATED_SCHEMA)]


class TolerateFormat(Format):
    """How much may be otherwise than a plan file has it; hosts newly down always may."""

    hosts: Tolerated = Field(default=Amount(0), description="Came, went, came back, or moved.")
    versions: Tolerated = Field(default=Amount(0), description="At another version than then.")


class PlanFormat(Format):
    """What a plan file (`guardrail plan -o`) promises."""

    tolerate: TolerateFormat = TolerateFormat()


class SpecFormat(Format):
    """What is asked for."""

    fleet: Name = Field(description="A Fleet document.")
    change: ChangeRefFormat
    stages: list[StageAmount] = Field(
        min_length=1, description="Cumulative targets; counts first, the last is 100% or all."
    )
    gates: list[Name] = Field(default=[], description="Besides those that policies require.")
    order: OrderFormat | None = None
    priority: Literal["normal", "urgent"] = Field(
        default="normal",
        description="urgent: others that hold a lease which it needs settle and give it back.",
    )

    plan: PlanFormat = PlanFormat()

    @field_validator("stages")
    @classmethod
    def _check_stages(cls, stages: list[Amount]) -> list[Amount]:
        faults: list[tuple[tuple[str | int, ...], str]] = []
        for n, (before, after) in enumerate(pairwise(stages), start=1):
            if before.percent and not after.percent:
                faults.append(
                    ((n,), f"numbers of hosts come before shares: {after} after {before}")
                )
            elif before.percent == after.percent and after.value <= before.value:
                faults.append(((n,), f"stages must grow: {after} comes after {before}"))
        if stages[-1] != Amount(100, percent=True):
            at = (len(stages) - 1,)
            faults.append((at, f"the last stage must be `100%` or `all`, found `{stages[-1]}`"))
        if faults:
            raise wrong(*faults)
        return stages


class RolloutFormat(Format):
    """What the person who rolls out asks for."""

    api_version: Literal["guardrail/v1"]
    kind: Literal["Rollout"]
    metadata: MetadataFormat
    spec: SpecFormat


def to_rollout(written: RolloutFormat, _: Place) -> Rollout:
    """The model of a document that was found valid."""
    spec = written.spec
    return Rollout(
        name=written.metadata.name,
        fleet=spec.fleet,
        change=ChangeRef(spec.change.name, spec.change.from_, spec.change.to),
        stages=tuple(spec.stages),
        gates=tuple(spec.gates),
        order=_order(spec.order),
        description=written.metadata.description,
        ticket=written.metadata.ticket,
        priority=spec.priority,
        tolerate=Tolerate(spec.plan.tolerate.hosts, spec.plan.tolerate.versions),
    )


def _order(written: OrderFormat | None) -> Order:
    if written is None:
        return Order()
    canaries = written.canaries.first_of if written.canaries else ()
    return Order(by=written.by, canaries=tuple(canaries))
