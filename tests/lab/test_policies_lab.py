"""Policies on the lab's real parts: where each value comes from, and gates that can be read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from lab.rig import Lab

pytestmark = pytest.mark.lab

EXAMPLE = Path(__file__).parents[2] / "examples" / "consul-agents"

FLEET = """apiVersion: guardrail/v1
kind: Fleet
metadata: {{name: cache}}
spec:
  inventory:
    consul: {{address: "{consul}", service: memcached, filter: 'Meta.env == "lab"'}}
  failureDomain: {{nodeMeta: zone}}
"""


def guardrail(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from guardrail.cli import main; main()", "policy"]
    command += map(str, words)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def explained(lab: Lab, folder: Path, target: str) -> dict[str, dict]:
    (folder / "fleet.yaml").write_text(FLEET.format(consul=lab.layout.consul_url))
    (folder / "rollout.yaml").write_text((EXAMPLE / "rollout.yaml").read_text())
    said = guardrail("explain", target, folder, "--source", EXAMPLE / "source", "--json")
    assert said.returncode == 0, said.stderr
    return {row["name"]: row for row in json.loads(said.stdout)}


def test_the_cache_hosts_have_values_of_three_files(lab: Lab, tmp_path: Path) -> None:
    rows = explained(lab, tmp_path, "cache")
    written = [row for row in rows.values() if row["origin"]["line"]]
    assert len(written) >= 5
    assert {Path(row["origin"]["file"]).name for row in written} == {
        "base.yaml",
        "cache-critical.yaml",
        "consul-agents.yaml",
    }
    assert all(row["without"] for row in written)
    assert rows["limits.unavailable"]["value"] == "3 hosts"  # 10% of 30
    assert rows["limits.wave"]["value"] == "9 hosts"  # 30% of 30
    assert rows["limits.wave"]["without"] == "15 hosts"


def test_one_cache_host_has_them_too(lab: Lab, tmp_path: Path) -> None:
    assert explained(lab, tmp_path, "cache-001")["cacheCritical"]["value"] == "true"


def test_the_examples_gates_can_be_as_fresh_as_they_want_to_be(lab: Lab) -> None:
    said = guardrail("check", EXAMPLE / "source", "--prometheus", lab.layout.prometheus_url)
    assert said.returncode == 0, said.stdout
    assert "not compared with real scrapes" not in said.stderr
