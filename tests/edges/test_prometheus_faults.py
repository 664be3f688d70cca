"""Every way in which an answer is no evidence has its name, and none of them raises."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_parts import Told, answered, stand_in

from guardrail.edges.prometheus import Prometheus
from guardrail.model.common import Secret, Tls
from guardrail.model.gate import Age, Reading, Source

QUICK = Age(seconds=5.0)
GOOD = answered(0.5, newest=999.0)
HISTOGRAM = {"metric": {"guardrail_part": "value"}, "histogram": [1000.0, {"count": "1"}]}


async def asked(
    answer: Callable[[str], Told] | Told, query: str = "q", **source: Any
) -> tuple[Reading, Any]:
    """One reading from a stand-in that answers everything so."""
    told = answer if callable(answer) else lambda _: answer
    with stand_in(told) as server:
        where = Source("test", server.address, **{"timeout": 1.0, **source})
        async with Prometheus(where, clock=lambda: 5000.0) as prometheus:
            return await prometheus.read(query, QUICK), server


def error(status: int, kind: str, words: str) -> Told:
    return Told(status, {"status": "error", "errorType": kind, "error": words})


def changed(**more: Any) -> Told:
    assert isinstance(GOOD.body, dict)
    return replace(GOOD, body={**GOOD.body, **more})


def vector(*result: Any) -> Told:
    rest = [
        each for each in GOOD.body["data"]["result"] if each["metric"]["guardrail_part"] != "value"
    ]
    data = {"resultType": "vector", "result": [*result, *rest]}
    return Told(body={"status": "success", "data": data})


@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [
        (Told(429, b"slow down", {"Retry-After": "7"}), "throttled", "retry after 7 s"),
        (error(200, "too_many_requests", "busy"), "throttled", "busy"),
        (error(400, "bad_data", "parse error: x"), "rejected_query", "parse error: x"),
        (error(422, "execution", "many-to-many"), "rejected_query", "many-to-many"),
        (error(422, "execution", "context deadline exceeded"), "unreachable", "took too long"),
        (error(503, "timeout", "query timed out in x"), "unreachable", "took too long"),
        (Told(500, b"<h1>no</h1>"), "unreachable", "HTTP 500"),
        (Told(503, b"Service Unavailable"), "unreachable", "Service Unavailable"),
        (Told(401, b""), "unreachable", "credentials"),
        (Told(403, b""), "unreachable", "credentials"),
        (Told(404, b"nothing here"), "unreachable", "path"),
        (Told(302, b"", {"Location": "http://u:secret@e/login"}), "unreachable", "http://e/login"),
        (Told(200, b"<html>log in</html>"), "unreachable", "not JSON: <html>log in"),
        (Told(200, b""), "unreachable", "empty body"),
        (Told(200, b"\xff\xfe"), "unreachable", "not JSON"),
        (Told(200, b"[" * 100_000), "unreachable", "not JSON"),
        (Told(200, [1, 2]), "unreachable", "not JSON"),
        (Told(200, {}), "unreachable", "not JSON"),
        (Told(200, {"status": "success"}), "unreachable", "shape"),
        (Told(200, {"status": "success", "data": None}), "unreachable", "shape"),
        (
            Told(200, {"status": "success", "data": {"resultType": "streams", "result": []}}),
            "unreachable",
            "shape",
        ),
        (
            Told(200, {"status": "success", "data": {"resultType": "vector", "result": []}}),
            "unreachable",
            "lacks what was asked",
        ),
        (changed(warnings=["store gateway 3 is down"]), "partial", "store gateway 3"),
        (changed(infos=["PromQL info: input was not monotonic"]), "partial", "monotonic"),
        (changed(isPartial=True), "partial", "partial"),
        (answered("NaN", newest=999.0), "not_finite", "nan"),
        (answered("+Inf", newest=999.0), "not_finite", "inf"),
        (answered("-Inf", newest=999.0), "not_finite", "-inf"),
        (answered(1.0, 2.0, newest=999.0), "ambiguous", "2 series"),
        (answered(newest=999.0), "no_data", "empty"),
        (answered(1.0, newest=990.0), "stale", "10.0 s old"),
        (answered(1.0, newest=1010.0), "stale", "10.0 s in the future"),
        (vector(HISTOGRAM), "rejected_query", "histogram"),
        (Told(200, GOOD.body, delay=30.0), "unreachable", "no answer within 1 s"),
    ],
)
async def test_an_answer_that_is_no_evidence_has_a_name(told: Told, kind: str, words: str) -> None:
    reading, _ = await asked(told)
    assert (reading.value, reading.kind) == (None, kind)
    assert words in reading.detail
    assert "secret" not in reading.detail


async def test_a_whole_answer_is_a_value_with_its_samples_time() -> None:
    reading, _ = await asked(GOOD)
    assert reading == Reading(0.5, None, 5000.0, 999.0, "samples 1.0 s old")


async def test_a_hint_about_a_metrics_name_does_not_make_an_answer_partial() -> None:
    hint = "PromQL info: metric might not be a counter, name does not end in _total: x"
    reading, _ = await asked(changed(infos=[hint]))
    assert reading.value == 0.5


async def test_nobody_listening_is_unreachable_in_the_systems_own_words() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        async with Prometheus(Source("test", address)) as prometheus:
            reading = await prometheus.read("q", QUICK)
    assert (reading.kind, reading.detail) == ("unreachable", f"{address}: Connection refused")


@pytest.mark.parametrize(
    "address", ["nonsense", "http://[::", "ftp://127.0.0.1", "http://127.0.0.1:x"]
)
async def test_an_address_that_is_none_is_unreachable_and_does_not_raise(address: str) -> None:
    async with Prometheus(Source("test", address)) as prometheus:
        reading = await prometheus.read("q", QUICK)
        assert await prometheus.age("q") is None
        assert await prometheus.scrape_interval("q") is None
    assert reading.kind == "unreachable"


async def test_a_query_is_not_sent_as_its_own_check_when_it_is_not_promql() -> None:
    reading, server = await asked(error(400, "bad_data", "the server's words"), "sum(")
    assert (reading.kind, reading.detail) == ("rejected_query", "the server's words")
    assert [form["query"] for form in server.forms] == [["sum("]]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("vector(1)", "nothing in it can be fresh"),
        ("x @ 1700000000", "nothing in it can be fresh"),
        ("x[5m]", "not one number"),
        ('"text"', "not one number"),
        ('x{host="{host}"}', "{host} is not filled in"),
    ],
)
async def test_a_query_that_cannot_be_fresh_is_rejected(query: str, words: str) -> None:
    reading, _ = await asked(GOOD, query)
    assert reading.kind == "rejected_query"
    assert words in reading.detail


async def test_partial_answers_are_declined_in_every_dialect() -> None:
    _, server = await asked(GOOD)
    [form] = server.forms
    assert form["partial_response"] == ["false"]
    assert form["deny_partial_response"] == ["1"]
    assert form["nocache"] == ["1"]
    assert form["timeout"] == ["1000ms"]


async def test_a_token_file_is_read_anew_for_each_query(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with stand_in(lambda _: GOOD) as server:
        source = Source("test", server.address, token=Secret("file", str(file)))
        async with Prometheus(source) as prometheus:
            for word in ("first", "second"):
                file.write_text(f"{word}\n")
                await prometheus.read("q", QUICK)
            file.unlink()
            missing = await prometheus.read("q", QUICK)
    assert [each["Authorization"] for each in server.headers] == ["Bearer first", "Bearer second"]
    assert missing.kind == "unreachable"
    assert "no credentials" in missing.detail


async def test_headers_user_and_password_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_PASSWORD", "pw")
    _, server = await asked(
        GOOD,
        headers=(("X-Scope-OrgID", "caches"),),
        username="me",
        password=Secret("env", "PROMETHEUS_PASSWORD"),
    )
    [headers] = server.headers
    assert (
        headers["X-Scope-OrgID".title()] if "X-Scope-Orgid" in headers else headers["X-Scope-OrgID"]
    )
    assert headers["Authorization"] == "Basic bWU6cHc="


async def test_a_missing_certificate_file_is_a_reading_too() -> None:
    reading, server = await asked(GOOD, tls=Tls(ca_file="/nowhere/ca.pem"))
    assert reading.kind == "unreachable"
    assert "No such file" in reading.detail
    assert not server.forms


async def test_two_hanging_queries_do_not_keep_others_waiting() -> None:
    with stand_in(lambda query: replace(GOOD, delay=30.0 if "slow" in query else 0.0)) as server:
        async with Prometheus(Source("test", server.address, timeout=1.5)) as prometheus:
            slow = [asyncio.create_task(prometheus.read(f"slow{n}", QUICK)) for n in range(20)]
            async with asyncio.timeout(1.0):
                quick = await prometheus.read("quick", QUICK)
            assert quick.value == 0.5
            assert {(await each).kind for each in slow} == {"unreachable"}


def ranged(count: float, start: float, age: float) -> Callable[[str], Told]:
    """A server that is scraped every second, asked for a range of ten."""

    def vector_of(**parts: float) -> Told:
        result = [
            {"metric": {"guardrail_part": part}, "value": [1000.0, str(value)]}
            for part, value in parts.items()
        ]
        data = {"resultType": "vector", "result": result}
        return Told(body={"status": "success", "data": data})

    def answer(query: str) -> Told:
        if "bottomk" in query:
            return vector_of(i0=600)
        if "label_replace" not in query:
            samples = [[float(at), "1"] for at in range(400, 1001)]
            data = {"resultType": "matrix", "result": [{"metric": {}, "values": samples}]}
            return Told(body={"status": "success", "data": data})
        return vector_of(value=5, t0=1000 - age, c0=count, s0=start, now=1000)

    return answer


@pytest.mark.parametrize(
    ("count", "start", "age", "words"),
    [
        (10, 1.0, 0.5, None),
        (9, 1.0, 0.5, None),
        (8, 1.0, 0.5, "8 samples, where 10 should be"),
        (10, 0.5, 0.5, None),
        (10, 0.4, 0.5, "at the start"),
        (9, 1.0, 1.9, None),
        (8, 1.0, 2.6, "at the end"),
        (1, 1.0, 0.5, "1 samples"),
    ],
)
async def test_a_range_must_be_whole_but_for_one_scrape_inside(
    count: float, start: float, age: float, words: str | None
) -> None:
    reading, _ = await asked(ranged(count, start, age), "rate(q[10s])")
    assert reading.kind == (None if words is None else "warming_up")
    assert words is None or words in reading.detail


async def test_without_a_measured_interval_a_range_is_warming_up() -> None:
    reading, _ = await asked(answered(5.0, newest=999.5), "rate(q[10s])")
    assert (reading.value, reading.kind) == (None, "warming_up")
