"""How is a `Source` written?

apiVersion: guardrail/v1
kind: Source
metadata: {name: prometheus}
spec:
  address: http://127.0.20.6:9090   # Prometheus, Thanos, Mimir or VictoriaMetrics
  timeout: 2s                       # of one query
  token: {file: /run/secrets/prometheus}            # a bearer token; or basicAuth
  # basicAuth: {username: guardrail, password: {env: PROMETHEUS_PASSWORD}}
  headers: {X-Scope-OrgID: caches}
  tls: {caFile: ca.pem, certificateFile: me.pem, keyFile: me.key, serverName: prometheus}
"""

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from guardrail.files.place import Place
from guardrail.files.values import (
    Address,
    DurationAboveZero,
    Format,
    Metadata,
    SecretFormat,
    Text,
    TlsFormat,
    wrong,
)
from guardrail.model.gate import Source

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET_HEADER = re.compile(r"authorization|cookie|token|secret|password|api-?key", re.IGNORECASE)


class BasicAuthFormat(Format):
    """A user name, and where the password is."""

    username: Text
    password: SecretFormat


class SpecFormat(Format):
    """One place where service indicators are read."""

    address: Address
    timeout: DurationAboveZero = Field(default=2.0, description="Read time-out of one query.")
    token: SecretFormat | None = Field(default=None, description="A bearer token.")
    basic_auth: BasicAuthFormat | None = None
    headers: dict[str, str] = Field(default={}, description="Sent with every query; no secrets.")
    tls: TlsFormat | None = None

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        faults: list[tuple[tuple[str | int, ...], str]] = []
        for name, value in headers.items():
            if not _HEADER.fullmatch(name) or re.search(r"[^\t\x20-\x7e]", value):
                faults.append(((name,), "a header's name is a word, its value one line of ASCII"))
            elif _SECRET_HEADER.search(name):
                faults.append(
                    ((name,), f"`{name}` looks like a secret; use `token` or `basicAuth`")
                )
        if faults:
            raise wrong(*faults)
        return headers

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.token is not None and self.basic_auth is not None:
            raise wrong((("basicAuth",), "give `token` or `basicAuth`, not both"))
        return self


class SourceFormat(Format):
    """One Prometheus, or what answers like one."""

    api_version: Literal["guardrail/v1"]
    kind: Literal["Source"]
    metadata: Metadata
    spec: SpecFormat


def to_source(written: SourceFormat, place: Place) -> Source:
    """The model of a document that was found valid."""
    spec = written.spec
    return Source(
        name=written.metadata.name,
        address=spec.address,
        timeout=spec.timeout,
        token=place.secret(spec.token),
        username=spec.basic_auth.username if spec.basic_auth else None,
        password=place.secret(spec.basic_auth.password) if spec.basic_auth else None,
        headers=tuple(spec.headers.items()),
        tls=place.tls(spec.tls),
    )
