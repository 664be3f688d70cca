"""JSON as design.md §9 says: times in UTC, whole seconds, ratios, and no NaN."""

import dataclasses
import json
import math
import typing

import pytest

from guardrail.cli.json_out import DURATIONS, NUMBERS, TIMES, dump, encode
from guardrail.edges.temporal import Known
from guardrail.model.common import Amount
from guardrail.model.gate import Judgement, Reading
from guardrail.model.messages import Said, Status
from guardrail.model.operation import Hold
from guardrail.model.plan import Caps, Plan


def records(kind, seen):
    """Every record that can be inside this one."""
    if dataclasses.is_dataclass(kind) and kind not in seen:
        seen.add(kind)
        for hint in typing.get_type_hints(kind).values():
            records(hint, seen)
    for inner in typing.get_args(kind):
        records(inner, seen)
    return seen


def is_number(hint):
    return hint is float or float in typing.get_args(hint)


def test_every_number_of_a_printed_model_is_known_as_time_length_or_number():
    shown = set()
    for kind in (Status, Plan, Said, Known):
        records(kind, shown)
    strange = [
        f"{kind.__name__}.{name}"
        for kind in shown
        for name, hint in typing.get_type_hints(kind).items()
        if is_number(hint) and name not in TIMES | DURATIONS | NUMBERS
    ]
    assert strange == []
    assert not TIMES & DURATIONS


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        (Hold("a", 1796000000.25, ("x",), "y"), {"since": "2026-11-30T00:53:20.250Z"}),
        (Caps(1, 1, 2, 0, pace=29.6), {"paceSeconds": 30, "domainsAtOnce": 2}),
        (Reading(math.nan, "not_finite", 0.0), {"value": None, "sampledAt": None}),
        (Reading(math.inf, "not_finite", 0.0), {"value": None}),
        (Judgement("g", "pass", None, ("r",), ()), {"kind": None, "reasons": ["r"]}),
    ],
)
def test_fields(model, shown):
    written = encode(model)
    assert {key: written[key] for key in shown} == shown
    assert json.loads(dump(model)) == json.loads(json.dumps(written))


def test_amounts_are_ratios_or_hosts():
    assert encode((Amount(25, percent=True), Amount(3))) == [{"ratio": 0.25}, {"hosts": 3}]


def test_every_key_is_camel_case():
    keys = encode(Caps(1, 1, 1, 0))
    assert [key for key in keys if "_" in key] == []
