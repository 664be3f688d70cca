"""How are durations, amounts, ages, names, secrets and the like written in a document?

Each type here reads one notation and says, when it cannot, what is allowed instead:

    10m, 1h30m, 5s, 250ms, 30      a duration (a plain number counts seconds)
    1, 25%                         an amount: hosts, or a share of them
    3 scrapes, 10s                 an age
    {env: NAME}, {file: PATH}      a secret: where it is, never what it is
"""

import re
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import urlsplit

import promql_parser
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from guardrail.model.common import Amount
from guardrail.model.gate import Age

NAME = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$"
DURATION = (
    "^" + "".join(rf"([0-9]+(\.[0-9]+)?{unit})?" for unit in ("d", "h", "m", "s", "ms")) + "$"
)
PERCENT = r"^[0-9]+(\.[0-9]+)?%$"
_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
MOST_SECONDS = 366 * 86_400.0

LATER = (
    "is a word of the format, but this version does not enforce it yet; "
    "a limit that is written down and not kept would be worse than none"
)


class Format(BaseModel):
    """Base of every piece of a document: strict, nothing unknown, keys in camelCase.

    `later` names keys that the format has and this version does not keep.
    """

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel, frozen=True)
    later: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _not_kept_yet(cls, value: Any) -> Any:
        """Keys in `later` that have a field already; those without one are unknown keys."""
        fields = {field.alias for field in cls.model_fields.values()}
        there = value if isinstance(value, dict) else {}
        faults = [((key,), f"`{key}` {LATER}") for key in cls.later if key in fields & set(there)]
        if faults:
            context = {"text": faults[0][1], "faults": tuple(faults)}
            raise PydanticCustomError("wrong_key", "{text}", context)
        return value


def wrong(*faults: tuple[tuple[str | int, ...], str]) -> PydanticCustomError:
    """Faults that a check over several fields found, each at a path below the checked value."""
    return PydanticCustomError("wrong", "{text}", {"text": faults[0][1], "faults": faults})


def exactly_one(piece: Format, *names: str) -> None:
    """Raises unless exactly one of the named keys (as written in the file) was given."""
    fields = {field.alias: name for name, field in type(piece).model_fields.items()}
    given = [name for name in names if getattr(piece, fields[name]) is not None]
    if len(given) != 1:
        allowed = ", ".join(f"`{name}`" for name in names)
        found = " and ".join(f"`{name}`" for name in given) or "none"
        raise wrong(((), f"exactly one of {allowed} is needed here, found {found}"))


def shown(value: object) -> str:
    """A found value as a message names it, cut short."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        text = value if len(value) <= 40 else value[:39] + "…"
        return f"`{text}`" if text else "an empty text"
    return "a list" if isinstance(value, list) else "a mapping"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def seconds(value: object) -> float:
    """A duration in seconds. Raises ValueError for what is none, or is longer than a year."""
    found = float(value) if _is_number(value) else _spelled(value)  # type: ignore[arg-type]
    if found is None:
        raise ValueError(
            f"a duration is needed, such as 10m, 1h30m, 5s or a number of seconds, "
            f"found {shown(value)}"
        )
    if not 0 <= found <= MOST_SECONDS:
        raise ValueError(f"a duration is from 0 to 366d, found {shown(value)}")
    return found


def _spelled(value: object) -> float | None:
    if not isinstance(value, str) or not value or not re.fullmatch(DURATION, value, re.ASCII):
        return None
    parts = re.findall(r"([0-9.]+)(ms|[dhms])", value)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _above_zero(value: float) -> float:
    if value <= 0:
        raise ValueError("a duration above 0 is needed here")
    return value


def _percent(value: object) -> Amount | None:
    if isinstance(value, str) and re.fullmatch(PERCENT, value, re.ASCII):
        return Amount(float(value[:-1]), percent=True)
    return None


def amount(value: object) -> Amount:
    """Hosts (1 or more) or a share of them (above 0 %, at most 100 %). Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return Amount(float(value))
    found = _percent(value)
    if found is None or not 0 < found.value <= 100:
        raise ValueError(
            f"a number of hosts from 1 on, or a share above 0% up to 100%, is needed, "
            f"found {shown(value)}"
        )
    return found


def stage(value: object) -> Amount:
    """A stage: hosts, a share of them, or `all`. Raises ValueError."""
    return Amount(100.0, percent=True) if value == "all" else amount(value)


def share(value: object) -> Amount:
    """A share from 0% to 100%. Raises ValueError."""
    found = _percent(value)
    if found is None or found.value > 100:
        raise ValueError(f"a share from 0% to 100% is needed, found {shown(value)}")
    return found


def age(value: object) -> Age:
    """An age above 0: a duration, or a number of scrapes. Raises ValueError."""
    if isinstance(value, str) and (scrapes := re.fullmatch(r"([0-9.]+) scrapes?", value)):
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?", scrapes[1]) and float(scrapes[1]) >= 1:
            return Age(scrapes=float(scrapes[1]))
        raise ValueError(f"at least 1 scrape is needed, found {shown(value)}")
    if not _is_number(value) and _spelled(value) is None:
        raise ValueError(
            f"an age is needed, such as 3 scrapes, 10s or a number of seconds, found {shown(value)}"
        )
    return Age(seconds=_above_zero(seconds(value)))


def _name(value: str) -> str:
    if len(value) > 63 or not re.fullmatch(NAME, value):
        raise ValueError(
            f"a name has small letters, digits, `-` and `.`, at most 63, and begins and ends with "
            f"a letter or digit, found {shown(value)}"
        )
    return value


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("a text that is not empty is needed here")
    return value


def _address(value: str) -> str:
    allowed = "an address such as http://127.0.0.1:9090 is needed"
    try:
        parts = urlsplit(value)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError as error:
        raise ValueError(f"{allowed}: {error}") from error
    if "@" in parts.netloc:
        raise ValueError("no user or password belongs in an address; use `token` or `basicAuth`")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        raise ValueError(f"{allowed}, found {shown(value)}")
    if parts.query or parts.fragment or re.search(r"\s", value):
        raise ValueError(f"{allowed}, without blanks, `?` and `#`, found {shown(value)}")
    return value.rstrip("/")


def _query(value: str) -> str:
    try:
        tree = promql_parser.parse(value)
    except ValueError as error:
        raise ValueError(f"Prometheus would not take this query: {error}") from error
    while isinstance(tree, promql_parser.ParenExpr):
        tree = tree.expr
    ranges = promql_parser.MatrixSelector | promql_parser.SubqueryExpr
    if isinstance(tree, ranges | promql_parser.StringLiteral):
        raise ValueError("the query must answer one number at one time, not a range or a text")
    return value


def _pattern(value: str) -> str:
    try:
        groups = re.compile(value).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"this is no regular expression: {error}") from error
    if groups != 1:
        raise ValueError(
            f"exactly one group in brackets is needed, around the version: 'v(\\S+)', "
            f"found {groups}"
        )
    return value


def not_yet(*words: str) -> BeforeValidator:
    """Refuse words that the format has and this version does not keep."""

    def check(value: Any) -> Any:
        if value in words and isinstance(value, str):
            raise ValueError(f"`{value}` {LATER}")
        return value

    return BeforeValidator(check)


_DURATION_SCHEMA = {
    "anyOf": [
        {"type": "string", "pattern": DURATION, "minLength": 2},
        {"type": "number", "minimum": 0},
    ]
}
SHARE_SCHEMA = {"type": "string", "pattern": PERCENT}
_AMOUNT_SCHEMA = {"anyOf": [{"type": "integer", "minimum": 1}, SHARE_SCHEMA]}
STAGE_SCHEMA = {"anyOf": [*_AMOUNT_SCHEMA["anyOf"], {"const": "all"}]}
_SCRAPES_SCHEMA = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? scrapes?$"}
_AGE_SCHEMA = {"anyOf": [_SCRAPES_SCHEMA, *_DURATION_SCHEMA["anyOf"]]}

Name = Annotated[str, AfterValidator(_name), WithJsonSchema({"type": "string", "pattern": NAME})]
Text = Annotated[str, AfterValidator(_text), WithJsonSchema({"type": "string", "pattern": r"\S"})]
Address = Annotated[
    str, AfterValidator(_address), WithJsonSchema({"type": "string", "pattern": "^https?://"})
]
Query = Annotated[str, AfterValidator(_query)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Port = Annotated[int, Field(ge=1, le=65_535)]
Duration = Annotated[float, PlainValidator(seconds), WithJsonSchema(_DURATION_SCHEMA)]
DurationAboveZero = Annotated[Duration, AfterValidator(_above_zero)]
HostAmount = Annotated[Amount, PlainValidator(amount), WithJsonSchema(_AMOUNT_SCHEMA)]
StageAmount = Annotated[Amount, PlainValidator(stage), WithJsonSchema(STAGE_SCHEMA)]
Share = Annotated[Amount, PlainValidator(share), WithJsonSchema(SHARE_SCHEMA)]
SampleAge = Annotated[Age, PlainValidator(age), WithJsonSchema(_AGE_SCHEMA)]


class SecretFormat(Format):
    """Where a secret is: {env: NAME} or {file: PATH} on the machine that uses it."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    env: str | None = Field(default=None, description="Name of an environment variable.")
    file: Text | None = Field(
        default=None, description="Path of a file; relative to this document, or with `~`."
    )

    @model_validator(mode="before")
    @classmethod
    def _never_literal(cls, value: Any) -> Any:
        if isinstance(value, str | int | float):
            # The value itself must not reach a message: it may be the secret.
            raise ValueError(
                "a secret is not written into a document; write {env: NAME} or {file: PATH}"
            )
        return value

    @model_validator(mode="after")
    def _one(self) -> Self:
        exactly_one(self, "env", "file")
        if self.env is not None and not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", self.env, re.ASCII):
            raise wrong(
                (("env",), "the name of an environment variable is needed, never its value")
            )
        return self


class TlsFormat(Format):
    """TLS to a service; paths are relative to this document, or with `~`."""

    ca_file: Text | None = Field(default=None, description="Certificates to trust, PEM.")
    certificate_file: Text | None = Field(default=None, description="Client certificate, PEM.")
    key_file: Text | None = Field(default=None, description="Key of the client certificate, PEM.")
    server_name: Text | None = Field(default=None, description="Name to expect, if another.")

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if (self.certificate_file is None) != (self.key_file is None):
            raise wrong(((), "`certificateFile` and `keyFile` are given together or not at all"))
        return self


class Metadata(Format):
    """What the document is called."""

    name: Name = Field(description="Unique among the documents of its kind.")


class DescribedMetadata(Metadata):
    """What the document is called, and what it is for."""

    description: str = Field(default="", description="For people.")
