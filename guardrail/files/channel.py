"""How is a `Channel` written?

apiVersion: guardrail/v1
kind: Channel
metadata: {name: storage-oncall}
spec:
  address: {env: STORAGE_ONCALL_URL}     # an apprise URL, on the worker; or {file: PATH}
  tells: [hold, approval, rollback]      # what it gets; default: everything
  otherwise: duty-mail                   # the channel that is tried where this one fails
  timeout: 10s                           # of one try
  tries: 4                               # 1 to 10; the wait before each is twice the last
  wait: 1s                               # before the second
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from guardrail.files.place import Place
from guardrail.files.values import (
    Duration,
    DurationAboveZero,
    Format,
    Metadata,
    Name,
    SecretFormat,
)
from guardrail.model.notice import KINDS, Channel, MessageKind

LONGEST = 60.0
"""Seconds that one try, and the first wait, may take: ten tries are over within hours."""


def _short(value: float) -> float:
    if value > LONGEST:
        raise ValueError(f"at most {LONGEST:.0f}s, or a message would wait too long for a silence")
    return value


class SpecFormat(Format):
    """A way to reach somebody."""

    address: SecretFormat = Field(description="Where its apprise URL is, on the worker.")
    tells: Annotated[list[MessageKind], Field(min_length=1)] = Field(
        default=list(KINDS), description="The messages that it gets."
    )
    otherwise: Name | None = Field(
        default=None, description="The channel that is tried where this one fails."
    )
    timeout: Annotated[DurationAboveZero, AfterValidator(_short)] = Field(
        default=10.0, description="Of one try."
    )
    tries: Annotated[int, Field(ge=1, le=10)] = Field(default=4, description="How many.")
    wait: Annotated[Duration, AfterValidator(_short)] = Field(
        default=1.0, description="Before the second try; it doubles each time."
    )


class ChannelFormat(Format):
    """A way to reach somebody; its address is never in here."""

    api_version: Literal["guardrail/v1"]
    kind: Literal["Channel"]
    metadata: Metadata
    spec: SpecFormat


def to_channel(written: ChannelFormat, place: Place) -> Channel:
    """The model of a document that was found valid."""
    spec, address = written.spec, place.secret(written.spec.address)
    assert address is not None  # noqa: S101 - the format needs one
    return Channel(
        name=written.metadata.name,
        address=address,
        tells=tuple(dict.fromkeys(spec.tells)),
        otherwise=spec.otherwise or "",
        timeout=spec.timeout,
        tries=spec.tries,
        wait=spec.wait,
    )
