"""A host that is back is warm once its gate passes, and not done before."""

import asyncio
import time
from dataclasses import replace

import pytest

from guardrail.errors import Refused
from guardrail.model.budget import WarmRule
from guardrail.model.common import Origin
from guardrail.model.gate import Bound, Gate, Reading
from guardrail_workflows import warming
from guardrail_workflows.warming import cold_still, until_warm, warmth

ORIGIN = Origin("policy cache", "cache.yaml", 9)
QUERY = 'hits{instance="{host}"} / gets{instance="{host}"}'


def gate(query=QUERY, **more):
    words = {"every": 0.02, "fail_after": 2, "pass_after": 2, "digest": "sha256:warm"} | more
    return Gate("cache-warm", "Is it warm?", "safety", query, Bound(above=0.9), **words)


class Metrics:
    """What the gate's query answers, one value a reading; the last one for ever."""

    def __init__(self, *values):
        self.values, self.queries = list(values), []

    async def read(self, query, max_age=None):
        self.queries.append(query)
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        now = time.time()
        kind = "no_data" if value is None else None
        return Reading(value, kind, now, None if value is None else now)


async def told(metrics, *, within=5.0, host="cache-001", of=None, beats=None):
    rule = WarmRule("cache-warm", within, ((0, 9),), ORIGIN, "sha256:warm")
    one = warmth(rule, host, of or gate(), metrics, limit=1.0, source="http://x")
    return await cold_still([one], (beats if beats is not None else []).append)


async def test_it_is_warm_once_its_gate_passes():
    metrics = Metrics(0.1, 0.5, 0.95)
    assert await told(metrics) == ""
    assert len(metrics.queries) >= 4, "two good readings are a pass"
    assert set(metrics.queries) == {'hits{instance="cache-001"} / gets{instance="cache-001"}'}


async def test_a_name_is_escaped():
    metrics = Metrics(1.0)
    assert await told(metrics, host='a"} or up{b="') == ""
    assert metrics.queries[0].count('\\"') == 4


@pytest.mark.parametrize("value", [0.5, None])
async def test_it_is_cold_still_after_its_time_and_says_what_the_gate_said(value):
    why = await told(Metrics(value), within=0.3)
    assert why.startswith("gate cache-warm has not passed within 0.3 s: ")
    assert ("0.5" if value else "no_data") in why or "no data" in why


async def test_every_gate_must_pass():
    rule = WarmRule("cache-warm", 0.3, ((0, 9),), ORIGIN, "sha256:warm")
    both = [
        warmth(rule, "h", gate(), Metrics(value), limit=1.0, source="x") for value in (1.0, 0.1)
    ]
    assert "has not passed" in await cold_still(both, lambda _: None)


async def test_it_shows_life_while_it_waits(monkeypatch):
    monkeypatch.setattr(warming, "BEAT_EVERY", 0.02)
    beats = []
    await told(Metrics(0.1), within=0.3, beats=beats)
    assert len(beats) > 3
    assert set(beats) == {"warm"}


def test_a_gate_that_was_changed_since_or_cannot_name_a_host_is_refused():
    rule = WarmRule("cache-warm", 1.0, ((0, 9),), ORIGIN, "sha256:warm")
    with pytest.raises(Refused, match="changed after the plan"):
        warmth(rule, "h", gate(digest="sha256:other"), Metrics(1.0), limit=1.0, source="x")
    with pytest.raises(Refused, match="outside a string"):
        warmth(rule, "h", gate("up{job={host}}"), Metrics(1.0), limit=1.0, source="x")


async def test_nothing_is_left_behind():
    before = asyncio.all_tasks()
    await told(Metrics(0.1), within=0.1)
    assert asyncio.all_tasks() == before


# ---------------------------------------------------------------- how warm, and who need not be


def one(metrics, within=5.0, **more):
    rule = WarmRule("cache-warm", within, ((0, 9),), ORIGIN, "sha256:warm")
    return warmth(rule, "cache-001", gate(**more), metrics, limit=1.0, source="x")


async def test_it_tells_how_warm_it_is_and_again_what_did_not_arrive(monkeypatch):
    monkeypatch.setattr(warming, "BEAT_EVERY", 0.01)
    heard, lost = [], [True]

    async def tell(percent):
        if lost.pop() if lost else False:
            raise ConnectionError("the server is away")
        heard.append(percent)

    metrics = Metrics(*[0.45] * 10, *[0.75] * 10, *[None] * 10, 0.1)
    why = await cold_still([one(metrics, within=1.0)], lambda _: None, None, tell)
    assert "has not passed" in why
    assert heard[:4] == [50, 80, 0, 10]


async def test_the_coldest_of_two_gates_is_told_and_what_nobody_knows_at_once(monkeypatch):
    monkeypatch.setattr(warming, "BEAT_EVERY", 0.01)
    heard = []

    async def tell(percent):
        heard.append(percent)

    both = [one(Metrics(0.45), within=0.4), one(Metrics(0.2), within=0.4)]
    await cold_still(both, lambda _: None, None, tell, None)
    assert heard == [0, 20]


async def test_a_host_without_a_slot_has_nothing_to_show(monkeypatch):
    monkeypatch.setattr(warming, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(warming, "BEAT_EVERY", 0.02)
    answers = [True, True, False]

    async def serves():
        return answers.pop(0)

    assert await cold_still([one(Metrics(0.1))], lambda _: None, serves) == ""
    assert answers == []


async def test_who_took_a_slot_shows_it_on_samples_from_then_on():
    class Old(Metrics):
        async def read(self, query, max_age=None):
            found = await super().read(query, max_age)
            old = len(self.queries) < 5
            return replace(found, sampled_at=found.sampled_at - (60.0 if old else 0.0))

    metrics = Old(0.95)
    await asyncio.wait_for(until_warm([one(metrics)], time.time() - 1.0), 5)
    assert len(metrics.queries) >= 6, "four were from before, then two good ones"
