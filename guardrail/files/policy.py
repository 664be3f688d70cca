"""How is a `Policy` written?

    apiVersion: guardrail/v1
    kind: Policy
    metadata: {name: cache-critical, owners: [storage-oncall], description: hosts with a cache}
    spec:
      match: {roles: [memcached, mcrouter]}    # also fleets, labels, agents, failureDomains
      cacheCritical: true
      limits:
        unavailable: 1                         # number or share
        unavailablePerDomain: 1
        domainsAtOnce: 1
        failures: {hosts: 0}                   # also share, consecutive
        wave: 10%
        pace: {between: 30s}
        coldCapacity: 5%                       # of the hosts it covers: restarted, not yet warm
        spares: 2                              # of the tier's ring, at least, before the start
        churn: {departures: 6, per: 10m}       # from the catalog, whoever causes them
      warmUp: {gate: cache-warm, within: 15m}  # its query may use {host}
      leaderLast: true                         # servers one by one, who leads after all others
      gates: {require: [cache-hit-ratio, database-margin]}
      evidence: {maxAge: 3 scrapes, grace: 10s}
      bake: {for: 10m, covers: dailyPeak}      # covers: one daily peak before the next stage
      approvals: {at: [start, 10%], count: 1, notRequester: true}   # verified: by signature
      recover: {by: person, for: 5m}           # or by: evidence
      rollback: {when: ask, requires: recovered}   # or never, or auto
      windows:                                 # when work may go on: guardrail/files/window.py
        timezone: America/Los_Angeles
        deny: [{days: mon-fri, from: "05:30", to: "10:00", reason: daily peak, peak: true}]

`match: {}` covers every host. What a policy does not state, it leaves to others.
"""

import hashlib
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from guardrail.errors import Fault, InvalidFile
from guardrail.files.place import Place
from guardrail.files.tree import MOST_BYTES
from guardrail.files.values import (
    STAGE_SCHEMA,
    DescribedMetadata,
    Duration,
    DurationAboveZero,
    Format,
    HostAmount,
    Name,
    SampleAge,
    Share,
    Text,
    shown,
    stage,
    wrong,
)
from guardrail.files.window import Spans, WindowsFormat, to_windows
from guardrail.model.calendar import Windows
from guardrail.model.policy import (
    Approvals,
    Churn,
    Failures,
    Match,
    Policy,
    PolicyEvidence,
    PolicyLimits,
    Recover,
    RecoverBy,
    RollbackWhen,
    WarmUp,
)


def _point(value: object) -> str:
    if value == "start":
        return "start"
    try:
        point = stage(value)
    except ValueError as error:
        raise ValueError(
            f"`start` or a stage as the rollout file has it is needed, found {shown(value)}"
        ) from error
    return "all" if value == "all" else str(point)


_POINT_SCHEMA = {"anyOf": [{"const": "start"}, *STAGE_SCHEMA["anyOf"]]}
Point = Annotated[str, PlainValidator(_point), WithJsonSchema(_POINT_SCHEMA)]


class MetadataFormat(DescribedMetadata):
    """What the policy is called, what it is for, and who answers for it."""

    owners: list[Text] = Field(default=[], description="Whom to ask.")


class MatchFormat(Format):
    """A host matches when every list given has a word of the host's; {} matches every host."""

    roles: list[Text] = Field(default=[], description="What runs on the host.")
    fleets: list[Name] = Field(default=[], description="Fleet documents.")
    labels: dict[str, str] = Field(default={}, description="A host has one of these, or more.")
    agents: list[Name] = Field(default=[], description="What the operation changes.")
    failure_domains: list[Text] = Field(default=[], description="Zones, racks.")


class FailuresFormat(Format):
    """How many hosts may fail before an operation holds."""

    hosts: int | None = Field(default=None, ge=0)
    share: Share | None = None
    consecutive: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hosts is None and self.share is None and self.consecutive is None:
            raise wrong(((), "at least one of `hosts`, `share`, `consecutive` is needed here"))
        return self


class PaceFormat(Format):
    """How fast hosts follow one another."""

    between: Duration = Field(description="Least time between the begin of two hosts.")


class ChurnFormat(Format):
    """How many nodes may leave the catalog within how long, whoever causes it."""

    departures: int = Field(ge=1)
    per: DurationAboveZero = Field(description="Any stretch of time of this length.")


class LimitsFormat(Format):
    """Numbers that the engine may not exceed."""

    unavailable: HostAmount | None = Field(default=None, description="Hosts away or down.")
    unavailable_per_domain: HostAmount | None = Field(
        default=None, description="The same, within one failure domain."
    )
    domains_at_once: int | None = Field(
        default=None, ge=1, description="Failure domains that may have hosts away."
    )
    failures: FailuresFormat | None = None
    wave: HostAmount | None = Field(default=None, description="No wave is larger than this.")
    pace: PaceFormat | None = None
    cold_capacity: HostAmount | None = Field(
        default=None, description="Of the tier: restarted and not yet warm, by how cold they are."
    )
    churn: ChurnFormat | None = None
    spares: int | None = Field(
        default=None, ge=1, description="Spares that the tier's ring must have before the start."
    )


class GatesFormat(Format):
    """Gates that every operation on these hosts has."""

    require: list[Name] = Field(min_length=1)


class WarmUpFormat(Format):
    """The evidence that a returned host must show before it counts again."""

    gate: Name = Field(description="Its query may use {host}.")
    within: DurationAboveZero = Field(description="How long it may take before that is a hold.")


class EvidenceFormat(Format):
    """How good evidence must be."""

    max_age: SampleAge | None = None
    grace: Duration | None = Field(
        default=None, description="How long it may be missing before a hold."
    )


class BakeFormat(Format):
    """The wait after a wave, gates live."""

    for_: Duration = Field(alias="for")
    covers: Literal["dailyPeak"] | None = Field(
        default=None, description="See one daily peak (`peak: true`) before the next stage."
    )


class ApprovalsFormat(Format):
    """Who must agree, and when."""

    at: list[Point] = Field(min_length=1, description="`start`, or a stage of the rollout file.")
    count: int = Field(default=1, ge=1, description="Distinct people.")
    not_requester: bool = Field(default=True, description="Whoever asked does not count.")
    verified: bool | None = Field(
        default=None, description="Only people who sign count; default: from two people on."
    )

    @model_validator(mode="after")
    def _two_are_verified(self) -> Self:
        if self.verified is False and self.count > 1:
            never = "names that nobody vouches for never make two people: leave it out, or `true`"
            raise wrong((("verified",), f"`verified: false` with `count: {self.count}`: {never}"))
        return self


class RecoverFormat(Format):
    """How a hold of a gate ends."""

    by: RecoverBy | None = None
    for_: Duration | None = Field(
        default=None, alias="for", description="How long evidence must be good."
    )


class RollbackFormat(Format):
    """When changed hosts are brought back."""

    when: RollbackWhen
    requires: Literal["recovered"] = Field(
        default="recovered", description="Every safety gate good for recover.for first."
    )


class SpecFormat(Format):
    """Which hosts, and how careful to be there."""

    later: ClassVar[tuple[str, ...]] = ("relief", "cacheModel")

    match: MatchFormat
    cache_critical: bool = Field(
        default=False, description="Loss of these hosts makes others slow."
    )
    limits: LimitsFormat = LimitsFormat()
    gates: GatesFormat | None = None
    evidence: EvidenceFormat = EvidenceFormat()
    bake: BakeFormat | None = None
    approvals: ApprovalsFormat | None = None
    recover: RecoverFormat = RecoverFormat()
    rollback: RollbackFormat | None = None
    windows: WindowsFormat | None = None
    warm_up: WarmUpFormat | None = None
    leader_last: bool = Field(
        default=False, description="Servers one by one; who leads them after all others."
    )

    @model_validator(mode="after")
    def _peak(self) -> Self:
        covers = self.bake is not None and self.bake.covers is not None
        if covers and not (self.windows and self.windows.has_peak):
            lacks = "needs an entry in `windows.deny` with `peak: true`: which peak is it?"
            raise wrong((("bake", "covers"), f"`covers: dailyPeak` {lacks}"))
        return self


class PolicyFormat(Format):
    """Which hosts a policy covers, and how careful an operation must be there."""

    api_version: Literal["guardrail/v1"]
    kind: Literal["Policy"]
    metadata: MetadataFormat
    spec: SpecFormat


def to_policy(written: PolicyFormat, place: Place) -> Policy:
    """The model of a document that was found valid, with the line of each value."""
    spec, name = written.spec, written.metadata.name
    return Policy(
        name=name,
        match=_match(spec.match),
        owners=tuple(written.metadata.owners),
        cache_critical=spec.cache_critical,
        limits=_limits(spec.limits),
        required_gates=tuple(spec.gates.require) if spec.gates else (),
        evidence=PolicyEvidence(spec.evidence.max_age, spec.evidence.grace),
        bake_for=spec.bake.for_ if spec.bake else None,
        approvals=_approvals(spec.approvals),
        recover=Recover(spec.recover.by, spec.recover.for_),
        rollback_when=spec.rollback.when if spec.rollback else None,
        windows=_windows(spec, place),
        warm_up=WarmUp(spec.warm_up.gate, spec.warm_up.within) if spec.warm_up else None,
        leader_last=spec.leader_last,
        origins=place.origins(f"policy {name}"),
        file=place.file,
        digest=_digest(spec, place),
        description=written.metadata.description,
    )


def _match(written: MatchFormat) -> Match:
    return Match(
        roles=tuple(written.roles),
        fleets=tuple(written.fleets),
        labels=tuple(written.labels.items()),
        agents=tuple(written.agents),
        failure_domains=tuple(written.failure_domains),
    )


def _windows(spec: SpecFormat, place: Place) -> Windows | None:
    written = spec.windows
    if written is None:
        return None

    def said(number: int, calendar: str) -> Spans:
        text = calendar_text(place, number, calendar)
        from guardrail.files import ics

        return ics.spans(text, place.path(calendar), written.timezone)

    covers = spec.bake is not None and spec.bake.covers is not None
    return to_windows(written, said, covers_peak=covers)


def calendar_text(place: Place, number: int, calendar: str) -> bytes:
    """What is in the calendar of a `deny` entry. Raises InvalidFile."""
    spot = place.placed.spot(("spec", "windows", "deny", number, "calendar"))
    path = Path(place.path(calendar))
    try:
        if not path.is_file():
            why = "there is no such file"  # a pipe might never end
        elif path.stat().st_size > MOST_BYTES:
            why = f"it has more than {MOST_BYTES:,} bytes"
        else:
            return path.read_bytes()
    except (OSError, ValueError) as error:
        why = (isinstance(error, OSError) and error.strerror) or str(error)
    what = f"the calendar `{calendar}` cannot be read: {why}"
    raise InvalidFile((Fault(place.file, spot.line, spot.column, what),))


def _digest(spec: SpecFormat, place: Place) -> str:
    """Of the document, and of the calendars that it reads."""
    deny = spec.windows.deny if spec.windows else []
    named = [(n, entry.calendar) for n, entry in enumerate(deny) if entry.calendar is not None]
    if not named:
        return place.digest()
    whole = hashlib.sha256(place.digest().encode())
    for number, calendar in named:
        whole.update(hashlib.sha256(calendar_text(place, number, calendar)).digest())
    return f"sha256:{whole.hexdigest()}"


def _limits(written: LimitsFormat) -> PolicyLimits:
    failures = written.failures
    return PolicyLimits(
        unavailable=written.unavailable,
        unavailable_per_domain=written.unavailable_per_domain,
        domains_at_once=written.domains_at_once,
        failures=_failures(failures) if failures else None,
        wave=written.wave,
        pace_between=written.pace.between if written.pace else None,
        cold_capacity=written.cold_capacity,
        churn=Churn(written.churn.departures, written.churn.per) if written.churn else None,
        spares=written.spares,
    )


def _failures(written: FailuresFormat) -> Failures:
    return Failures(written.hosts, written.share, written.consecutive)


def _approvals(written: ApprovalsFormat | None) -> Approvals | None:
    if written is None:
        return None
    asked = (tuple(written.at), written.count, written.not_requester)
    return Approvals(*asked, verified=written.verified or written.count > 1)
