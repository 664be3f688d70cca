"""A plan file is kept to: an edited policy is refused by file and field."""

from pathlib import Path

import pytest
from lab.engine_rig import Engine
from lab.rig import Lab

from guardrail.files.contractfile import read

pytestmark = pytest.mark.lab


def planned(engine: Engine, folder: Path) -> tuple[str, Path]:
    """A plan file for two hosts, and the name of its rollout."""
    name, file = engine.files("paced", "^cache-00[12]$")
    path = folder / f"{name}.json"
    done = engine("plan", file, "-o", str(path))
    assert done.code == 0, done.text
    return name, path


def test_a_plan_file_is_started_as_it_is_and_an_edited_policy_is_refused(
    engine: Engine, fresh_lab: Lab, tmp_path: Path
) -> None:
    assert fresh_lab.hosts
    name, path = planned(engine, tmp_path)
    policies = engine.source / "policies.yaml"
    before = policies.read_text()
    limit = "{unavailable: 2, pace"
    line = next(n for n, text in enumerate(before.splitlines(), 1) if limit in text)
    try:
        policies.write_text(before.replace(limit, limit.replace("2", "4")))
        refused = engine("rollout", "start", str(path))
    finally:
        policies.write_text(before)
    assert refused.code == 1, refused.text
    assert f"policy paced changed: limits.unavailable 2 → 4 at {policies}:{line}" in refused.text
    assert "guardrail plan FILE... -o PLAN.json" in refused.text

    started = engine("rollout", "start", str(path), "--name", f"{name}-again")
    assert started.code == 0, started.text
    ended = engine.until_ended(f"{name}-again")
    assert (ended.phase, ended.changed) == ("completed", 2)
    assert ended.plan == read(path.read_bytes(), "plan").digest
