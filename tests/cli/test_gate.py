"""`guardrail gate` answers other people's tools by exit code, and people in whole sentences."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from edges.prometheus_parts import StandIn, Told, answered, stand_in
from typer.testing import CliRunner, Result

from guardrail.cli.gate import app

GATE = """\
apiVersion: guardrail/v1
kind: Gate
metadata: {name: NAME}
spec:
  title: Database demand over capacity
  class: safety
  query: margin
  pass: {below: 0.7}
  every: 100ms
  failAfter: 2
  passAfter: 3
  evidence: {maxAge: 5s}
"""
SOURCE = """\
apiVersion: guardrail/v1
kind: Source
metadata: {name: prometheus}
spec: {address: "ADDRESS", timeout: 500ms}
"""
KEYS = ["gate", "verdict", "kind", "value", "query", "source", "takenAt", "reasons"]


@pytest.fixture
def server() -> Iterator[StandIn]:
    with stand_in(lambda _: answered(0.5, newest=999.0)) as made:
        yield made


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GUARDRAIL_SOURCE", raising=False)
    path = tmp_path / "margin.yaml"
    path.write_text(GATE.replace("NAME", "margin"))
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def moving(*values: float) -> Iterator[Told]:
    """Each answer from a newer sample; the last value goes on."""
    for number in range(10_000):
        value = values[min(number, len(values) - 1)]
        yield answered(value, newest=1000.0 + number, now=1000.5 + number)


@pytest.mark.parametrize(
    ("told", "judged", "code"),
    [
        (answered(0.5, newest=999.0), ("pass", None, 0.5), 0),
        (answered(0.7, newest=999.0), ("fail", None, 0.7), 1),
        (answered(newest=999.0), ("inconclusive", "no_data", None), 3),
        (answered("NaN", newest=999.0), ("inconclusive", "not_finite", None), 3),
        (answered(0.5, newest=900.0), ("inconclusive", "stale", None), 3),
        (Told(429), ("inconclusive", "throttled", None), 3),
        (Told(500), ("inconclusive", "unreachable", None), 3),
    ],
)
def test_read_json(
    server: StandIn, file: Path, told: Told, judged: tuple[str, str | None, float | None], code: int
) -> None:
    server.answer = lambda _: told
    done = run("read", file, "--prometheus", server.address, "--json")
    said = json.loads(done.stdout)
    assert list(said) == KEYS
    assert (said["verdict"], said["kind"], said["value"]) == judged
    assert (said["gate"], said["query"], said["source"]) == ("margin", "margin", server.address)
    assert said["takenAt"].endswith("Z")
    assert said["reasons"]
    assert (done.exit_code, done.stderr) == (code, "")


def test_read_for_people(server: StandIn, file: Path) -> None:
    done = run("read", file, "--prometheus", server.address)
    first, query, source = done.stdout.splitlines()
    assert first == "margin: pass — 0.5 is below 0.7; samples 1.0 s old"
    assert query.split() == ["query", "margin"]
    assert source.split() == ["source", server.address]


def test_the_source_comes_from_the_file_or_the_folder_or_is_asked_for(
    server: StandIn, file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "prometheus.yaml").write_text(SOURCE.replace("ADDRESS", server.address))
    (folder / "other.yaml").write_text(GATE.replace("NAME", "other"))
    assert run("read", file, "--source", folder).exit_code == 0
    assert run("read", "other", "--source", folder).exit_code == 0
    file.write_text(file.read_text() + "---\n" + SOURCE.replace("ADDRESS", server.address))
    assert run("read", file).exit_code == 0
    file.write_text(GATE.replace("NAME", "margin"))
    lost = run("read", file)
    assert lost.exit_code == 2
    assert "--prometheus URL" in lost.stderr


def test_one_of_several_gates_is_named(server: StandIn, file: Path) -> None:
    file.write_text(GATE.replace("NAME", "one") + "---\n" + GATE.replace("NAME", "two"))
    unclear = run("read", file, "--prometheus", server.address)
    assert unclear.exit_code == 2
    assert "one, two" in unclear.stderr
    clear = run("read", file, "--gate", "two", "--prometheus", server.address, "--json")
    assert json.loads(clear.stdout)["gate"] == "two"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["read", "FILE", "--prometheus", "nonsense"], "http://127.0.0.1:9090"),
        (["read", "FILE", "--prometheus", "http://[::"], "http://127.0.0.1:9090"),
        (["read", "nosuch", "--prometheus", "http://127.0.0.1:9"], "nosuch"),
        (["read", "nosuch.yaml", "--prometheus", "http://127.0.0.1:9"], "nosuch.yaml:1:1"),
        (["read", "FILE", "--host", "a", "--prometheus", "http://127.0.0.1:9"], "--host"),
        (["wait", "FILE", "--within", "soon", "--prometheus", "http://127.0.0.1:9"], "--within"),
    ],
)
def test_wrong_words_are_exit_2_with_what_to_do(file: Path, words: list[str], told: str) -> None:
    done = run(*(str(file) if word == "FILE" else word for word in words))
    assert done.exit_code == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_malformed_file_is_exit_2_with_all_its_faults(file: Path) -> None:
    file.write_text(GATE.replace("below: 0.7", "under: 0.7").replace("every: 100ms", "every: soon"))
    done = run("read", file, "--prometheus", "http://127.0.0.1:9")
    assert done.exit_code == 2
    assert f"{file}:8:" in done.stderr
    assert f"{file}:9:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_host_is_filled_in_escaped(server: StandIn, file: Path) -> None:
    file.write_text(file.read_text().replace("query: margin", "query: 'margin{n=\"{host}\"}'"))
    bare = run("read", file, "--prometheus", server.address, "--json")
    assert json.loads(bare.stdout)["kind"] == "rejected_query"
    done = run("read", file, "--host", 'a"} or b', "--prometheus", server.address, "--json")
    assert json.loads(done.stdout)["query"] == 'margin{n="a\\"} or b"}'


def test_secrets_in_an_address_are_not_shown(server: StandIn, file: Path) -> None:
    address = server.address.replace("http://", "http://me:secret@")
    done = run("read", file, "--prometheus", address, "--json")
    assert json.loads(done.stdout)["source"] == server.address


def test_watch_prints_a_line_for_each_reading_and_ends_by_verdict(
    server: StandIn, file: Path
) -> None:
    answers = moving(0.1, 0.1, 0.1, 0.9, 0.9)
    server.answer = lambda _: next(answers)
    done = run("watch", file, "--prometheus", server.address, "--readings", 5)
    words = [line.split()[2] for line in done.stdout.splitlines()]
    assert words == ["pending", "pending", "pass", "pass", "fail"]
    assert done.exit_code == 1


def test_watch_json_has_no_verdict_before_there_is_one(server: StandIn, file: Path) -> None:
    done = run("watch", file, "--prometheus", server.address, "--readings", 2, "--json")
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(each) for each in said] == [KEYS, KEYS]
    assert [each["verdict"] for each in said] == [None, None]
    assert said[1]["reasons"] == ["no verdict yet: 1 of 3 good readings in a row"]
    assert done.exit_code == 3


@pytest.mark.parametrize(
    ("values", "words", "code"),
    [
        ([0.9, 0.9, 0.1], "--for pass --within 10s", 0),
        ([0.1, 0.9], "--for fail --within 10s", 0),
        ([0.9], "--for pass --within 700ms", 1),
        ([0.1], "--for fail --within 700ms", 1),
    ],
)
def test_wait_ends_with_the_verdict_wanted_or_when_time_is_up(
    server: StandIn, file: Path, values: list[float], words: str, code: int
) -> None:
    answers = moving(*values)
    server.answer = lambda _: next(answers)
    done = run("wait", file, "--prometheus", server.address, *words.split(), "--json")
    assert done.exit_code == code
    assert (json.loads(done.stdout)["verdict"] == words.split()[1]) == (code == 0)


def test_wait_never_passes_on_one_repeated_sample(server: StandIn, file: Path) -> None:
    done = run("wait", file, "--prometheus", server.address, "--within", "700ms")
    assert done.exit_code == 3
    assert done.stdout.startswith("margin: no verdict — no verdict yet: 1 of 3")


def test_wait_without_evidence_is_inconclusive(file: Path) -> None:
    done = run("wait", file, "--prometheus", "http://127.0.0.1:9", "--within", "300ms")
    assert done.exit_code == 3
    assert "unreachable: http://127.0.0.1:9: Connection refused" in done.stdout.splitlines()[0]


def test_ctrl_c_ends_a_watch_with_130_and_without_a_traceback(server: StandIn, file: Path) -> None:
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from guardrail.cli.gate import app; app()",
            *("watch", str(file), "--prometheus", server.address),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        text=True,
    ) as watching:
        assert watching.stdout
        assert watching.stderr
        assert "pending" in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        start = time.monotonic()
        assert watching.wait(timeout=10) == 130
        assert time.monotonic() - start < 5
        assert "Traceback" not in watching.stderr.read()


@pytest.mark.parametrize("command", ["read", "watch", "wait"])
def test_help_has_an_example(command: str) -> None:
    done = run(command, "--help")
    assert f"Example: guardrail gate {command}" in " ".join(done.stdout.split())
    assert done.exit_code == 0
