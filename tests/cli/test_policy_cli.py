"""`guardrail policy`: every planted fault is named with its line, every value with its file."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from guardrail.cli import app
from guardrail.cli.policy import checked
from guardrail.edges.prometheus import Prometheus
from guardrail.files import KINDS, shipped_policies, survey

PLANTED = Path(__file__).parent / "planted"
EXAMPLES = Path(__file__).parents[2] / "examples"


def call(*words: object) -> Result:
    return CliRunner().invoke(app, ["policy", *map(str, words)])


def planted() -> set[tuple[str, int, str]]:
    """File, line and rule of every fault, by the comment that stands beside it."""
    found = set()
    for path in PLANTED.rglob("*.yaml"):
        for number, text in enumerate(path.read_text().splitlines(), 1):
            if fault := re.search(r"# fault: (\S+)", text):
                found.add((str(path), number, fault[1]))
    return found


# ---------------------------------------------------------------- check


def test_twelve_planted_faults_are_all_named_with_their_lines_and_nothing_else() -> None:
    report = checked(survey([PLANTED]), None, 1.77e9, offline=True)
    assert len(planted()) == 12
    assert {(one.file, one.line, one.rule) for one in report.findings} == planted()
    assert (report.errors, report.warnings) == (12, 0)


def test_faults_are_said_one_a_line_with_what_to_do_and_end_with_2() -> None:
    said = call("check", PLANTED, "--offline")
    assert said.exit_code == 2
    lines = said.stdout.splitlines()
    assert lines[-1] == "12 errors, 0 warnings"
    for file, line, _ in planted():
        assert any(re.match(rf"{re.escape(file)}:{line}:\d+: error: ", row) for row in lines)
    assert "did you mean `unavailable`?" in said.stdout
    assert "there: cache; did you mean `cache`?" in said.stdout
    assert "they contradict" in said.stdout


def test_as_json_it_is_the_same_findings() -> None:
    said = call("check", PLANTED, "--offline", "--json")
    report = json.loads(said.stdout)
    assert said.exit_code == 2
    assert {(f["file"], f["line"], f["rule"]) for f in report["findings"]} == planted()
    assert all(f["severity"] == "error" and f["what"] for f in report["findings"])


SHIPPED = (shipped_policies(), EXAMPLES / "consul-agents", EXAMPLES / "node-exporter")


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
def test_what_ships_has_no_error(folder: Path) -> None:
    said = call("check", folder, "--offline")
    assert said.exit_code == 0, said.stdout


def test_warnings_alone_end_with_0(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "apiVersion: guardrail/v1\nkind: Policy\nmetadata: {name: empty}\nspec:\n  match: {}\n"
    )
    said = call("check", tmp_path, "--offline")
    assert said.exit_code == 0
    assert f"{tmp_path}/p.yaml:5:3: warning: policy empty: it says nothing" in said.stdout
    assert said.stdout.endswith("0 errors, 1 warning\n")


def test_a_folder_without_files_and_a_wrong_address_are_errors_too(tmp_path: Path) -> None:
    said = call("check", tmp_path, "--offline")
    assert said.exit_code == 2
    assert "no *.yaml or *.yml file" in said.stdout
    assert call("check", PLANTED, "--prometheus", "nowhere").exit_code != 0


GATE = """apiVersion: guardrail/v1
kind: Gate
metadata: {name: slow}
spec:
  title: a gate
  class: safety
  query: slow_metric
  pass: {below: 1}
  every: 2s
  evidence:
    maxAge: 5s
"""


def test_a_staleness_limit_is_compared_with_measured_scrapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measured(self: Prometheus, query: str) -> float:
        return 15.0

    (tmp_path / "gate.yaml").write_text(GATE)
    monkeypatch.setattr(Prometheus, "scrape_interval", measured)
    said = call("check", tmp_path, "--prometheus", "http://127.0.0.1:1")
    assert said.exit_code == 2
    assert f"{tmp_path}/gate.yaml:11:13: error: gate slow: 5 s is shorter than two" in said.stdout


def test_where_no_prometheus_answers_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(GATE)
    quiet = call("check", tmp_path, "--prometheus", "http://127.0.0.1:1")
    assert quiet.exit_code == 0
    assert "not compared with real scrapes, since none could be measured: slow" in quiet.stderr


# ---------------------------------------------------------------- explain

FLEET = EXAMPLES / "consul-agents"
HOSTS = """apiVersion: guardrail/v1
kind: Fleet
metadata: {name: cache}
spec:
  inventory:
    hosts:
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A fleet of 30 listed cache hosts and two others, and the example's rollout."""
    rows = [
        f"      - {{name: cache-{n:03d}, address: 127.0.20.{n}, failureDomain: "
        f"{'abc'[n % 3]}, roles: [memcached]}}\n"
        for n in range(1, 31)
    ]
    rows += [
        f"      - {{name: web-{n}, address: 127.0.30.{n}, failureDomain: a, roles: [web]}}\n"
        for n in (1, 2)
    ]
    (tmp_path / "fleet.yaml").write_text(HOSTS + "".join(rows))
    (tmp_path / "rollout.yaml").write_text((FLEET / "rollout.yaml").read_text())
    return tmp_path


def explained(fleet: Path, target: str) -> dict[str, dict]:
    said = call("explain", target, fleet, "--source", FLEET / "source", "--json")
    assert said.exit_code == 0, said.output
    return {row["name"]: row for row in json.loads(said.stdout)}


def test_five_values_and_more_come_from_three_files_each_with_its_line(fleet: Path) -> None:
    rows = explained(fleet, "cache")
    files = {row["origin"]["file"] for row in rows.values() if row["origin"]["line"]}
    assert len(files) >= 3
    assert len(rows) >= 5
    for row in rows.values():
        origin = row["origin"]
        if origin["line"]:
            written = Path(origin["file"]).read_text().splitlines()[origin["line"] - 1]
            word = row["name"].split(",")[0].split(".")[-1]
            assert word in written or row["value"].split()[0] in written, row


def test_each_value_says_what_it_would_be_without_its_policy(fleet: Path) -> None:
    rows = explained(fleet, "cache")
    away = rows["limits.unavailable"]
    assert (away["value"], away["written"], away["without"]) == ("3 hosts", "10%", "3 hosts")
    assert away["withoutOrigin"]["document"] == "policy cache-critical"
    assert rows["limits.unavailablePerDomain"]["without"] == "1 host"
    assert rows["limits.failures.consecutive"]["without"] == "3 hosts"
    assert rows["limits.unavailablePerDomain"]["withoutOrigin"]["document"] == "built-in default"
    assert rows["recover.by"]["value"] == "person"
    assert rows["recover.by"]["without"] == "evidence"
    assert rows["gates.require"]["without"] == "not asked for"


def test_one_host_has_the_values_of_the_policies_that_cover_it(fleet: Path) -> None:
    web = explained(fleet, "web-1")
    assert web["limits.unavailable"]["origin"]["document"] == "policy base"
    assert "cacheCritical" not in web
    assert explained(fleet, "cache-001")["cacheCritical"]["value"] == "true"


def test_for_people_it_is_a_table_with_a_last_line(fleet: Path) -> None:
    said = call("explain", "cache", fleet, "--source", FLEET / "source")
    assert said.exit_code == 0, said.output
    assert "fleet cache, 32 hosts, agent consul" in said.stdout
    assert re.search(r"\d+ values from [3-9] files", said.stdout)
    assert "cache-critical.yaml:" in said.stdout.replace("\n", "").replace(" ", "")


def test_what_is_not_there_is_said_with_what_is(fleet: Path) -> None:
    said = call("explain", "cahce", fleet, "--source", FLEET / "source")
    assert said.exit_code == 1
    assert "cache (32 hosts)" in said.output
    (fleet / "rollout.yaml").unlink()
    asked = call("explain", "cache", fleet, "--source", shipped_policies())
    assert asked.exit_code == 1
    assert "--agent (consul, node-exporter)" in asked.output
    named = call("explain", "cache", fleet, "--source", shipped_policies(), "--agent", "consul")
    assert named.exit_code == 0, named.output


# ---------------------------------------------------------------- schema


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_of_each_kind_is_printed(kind: str) -> None:
    said = call("schema", kind.lower())
    assert said.exit_code == 0
    jsonschema.Draft202012Validator.check_schema(json.loads(said.stdout))
    assert json.loads(said.stdout)["title"] == kind


def test_a_kind_that_there_is_not_ends_with_2_and_names_all() -> None:
    said = call("schema", "Polizy")
    assert said.exit_code == 2
    assert "Policy, Source" in said.output


@pytest.mark.parametrize("command", ["check", "explain", "schema"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    assert "Example: guardrail policy " in call(command, "--help").stdout
