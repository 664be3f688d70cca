"""How does a model look as JSON? (design.md §9)

Keys are the fields' names in camelCase; times are RFC 3339 in UTC; durations are whole seconds in
keys that end in `Seconds`; ratios are 0 to 1; a number that is not finite is null.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePath

from guardrail.model.common import Amount

TIMES = frozenset(
    (
        "at",
        "since",
        "as_of",
        "started_at",
        "finished_at",
        "asked_at",
        "created_at",
        "expires_at",
        "taken_at",
        "sampled_at",
        "last_begin_at",
        "baking_since",
        "covering_since",
        "closes_at",
        "opens_at",
        "known_until",
        "until",
        "begun_at",
        "begins_at",
        "ends_at",
        "next_at",
        "snoozed_until",
        "done_at",
    )
)
"""Fields that are seconds since the epoch."""

DURATIONS = frozenset(
    (
        "baked",
        "bake_needed",
        "bake_for",
        "grace",
        "good_for",
        "first_within",
        "pace",
        "seconds_expected",
        "seconds_closed",
        "settle",
        "covering_baked",
        "every",
        "per",
        "timeout",
        "host_timeout",
        "host_expected",
        "silence",
        "seconds_early",
    )
)
"""Fields that are seconds of length."""

NUMBERS = frozenset(
    (
        "value",
        "scrapes",
        "seconds",
        "at_least",
        "below",
        "above",
        "within",
        "planned",
        "failures_share",
    )
)
"""Fields that are neither: values of gates and limits, and ratios."""


def dump(model: object) -> str:
    """The model as JSON text, indented, never with NaN in it."""
    return json.dumps(encode(model), indent=2, ensure_ascii=False, allow_nan=False)


def encode(value: object) -> object:
    """The model as what `json` can write."""
    if isinstance(value, Amount):
        return {"ratio": value.value / 100} if value.percent else {"hosts": value.value}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = (_field(f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return dict(pairs)
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return _plain(value)


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, PurePath) else value


def _field(name: str, value: object) -> tuple[str, object]:
    number = isinstance(value, int | float) and math.isfinite(value)
    if name in TIMES:
        return camel(name), rfc3339(float(value)) if number else None  # type: ignore[arg-type]
    if name in DURATIONS:
        plain = name.removeprefix("seconds_")
        return camel(f"{plain}_seconds"), round(value) if number else None  # type: ignore[call-overload]
    return camel(name), encode(value)


def camel(name: str) -> str:
    """`as_of` is `asOf`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def rfc3339(at: float) -> str:
    """Seconds since the epoch as `2026-11-29T23:15:04.250Z`, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
