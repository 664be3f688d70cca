"""How is a `Gate` written?

apiVersion: guardrail/v1
kind: Gate
metadata: {name: database-margin}
spec:
  title: Database demand over capacity, worst shard
  class: safety                     # judges both directions; health: the new version only
  feltByUsers: true                 # users notice when it fails; cache-critical needs one such gate
  query: max(rate(lab_scatter_total[5s]) / lab_db_capacity)
  pass: {below: 0.7}                # or {above: 0.5}, or {within: [0.2, 0.7]}
  every: 2s
  failAfter: 2                      # consecutive bad readings with different sample times
  passAfter: 3
  source: prometheus                # a Source document; not needed when there is only one
  evidence:
    maxAge: 3 scrapes               # or 10s
    targets: {query: 'count(up{job="memcached"} == 1)', atLeast: 98%}
    zeroWhen: 'sum(rate(lab_boots_total[5s])) > 1'
"""

from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from guardrail.files.place import Place
from guardrail.files.values import (
    DurationAboveZero,
    Format,
    Metadata,
    Name,
    Query,
    SampleAge,
    Share,
    Text,
    exactly_one,
    wrong,
)
from guardrail.model.gate import Bound, Gate, GateEvidence, Targets


class BoundFormat(Format):
    """When a value passes: one of `below`, `above` (both strict) and `within` (closed)."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    below: float | None = None
    above: float | None = None
    within: list[float] | None = Field(default=None, min_length=2, max_length=2)

    @model_validator(mode="after")
    def _check(self) -> Self:
        exactly_one(self, "below", "above", "within")
        if self.within is not None and self.within[0] > self.within[1]:
            raise wrong((("within",), f"the lower bound comes first: [{self.within[1]:g}, …]"))
        return self


class TargetsFormat(Format):
    """From how many of the expected targets the value must be built."""

    query: Query = Field(description="Counts the targets that are there.")
    at_least: Share = Field(description="Of the plan's hosts without excluded and in flight.")


class EvidenceFormat(Format):
    """What makes readings fit to judge by."""

    max_age: SampleAge = Field(
        default="3 scrapes", validate_default=True, description="By the samples' own times."
    )
    targets: TargetsFormat | None = None
    zero_when: Query | None = Field(
        default=None, description="An absent series counts as 0 only while this has data."
    )


class SpecFormat(Format):
    """A question about service indicators."""

    later: ClassVar[tuple[str, ...]] = ("baseline", "drift")

    title: Text = Field(description="The question, for people.")
    class_: Literal["safety", "health"] = Field(
        alias="class", description="safety judges both directions; health never blocks going back."
    )
    felt_by_users: bool = Field(
        default=False, description="Users notice what this gate measures; some gate must be one."
    )
    query: Query = Field(description="PromQL that answers one number.")
    pass_: BoundFormat = Field(alias="pass")
    every: DurationAboveZero = Field(description="Time between two readings.")
    fail_after: int = Field(default=2, ge=1, description="Consecutive distinct bad readings.")
    pass_after: int = Field(default=3, ge=1, description="Consecutive distinct good readings.")
    source: Name | None = Field(default=None, description="A Source document.")
    evidence: EvidenceFormat = EvidenceFormat()


class GateFormat(Format):
    """A named question about service indicators."""

    api_version: Literal["guardrail/v1"]
    kind: Literal["Gate"]
    metadata: Metadata
    spec: SpecFormat


def to_gate(written: GateFormat, place: Place) -> Gate:
    """The model of a document that was found valid."""
    spec = written.spec
    return Gate(
        name=written.metadata.name,
        title=spec.title,
        gate_class=spec.class_,
        query=spec.query,
        bound=_bound(spec.pass_),
        every=spec.every,
        fail_after=spec.fail_after,
        pass_after=spec.pass_after,
        evidence=_evidence(spec.evidence),
        source=spec.source,
        felt_by_users=spec.felt_by_users,
        digest=place.digest(),
    )


def _bound(written: BoundFormat) -> Bound:
    within = (written.within[0], written.within[1]) if written.within else None
    return Bound(written.below, written.above, within)


def _evidence(written: EvidenceFormat) -> GateEvidence:
    targets = written.targets
    return GateEvidence(
        max_age=written.max_age,
        targets=Targets(targets.query, targets.at_least.value / 100) if targets else None,
        zero_when=written.zero_when,
    )
