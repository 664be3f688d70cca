"""Which git revision do values come from, and what is said where there is none?"""

import os
import subprocess
from pathlib import Path

import pytest

from guardrail.files import load
from guardrail.files.revision import revision

POLICY = """apiVersion: guardrail/v1
kind: Policy
metadata: {name: base}
spec:
  match: {}
  limits:
    unavailable: 5%
"""


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of policies in a repository, with everything committed."""
    policies = tmp_path / "repository" / "policies"
    policies.mkdir(parents=True)
    (policies / "base.yaml").write_text(POLICY)
    git(tmp_path / "repository", "init", "-q")
    git(tmp_path / "repository", "add", ".")
    git(tmp_path / "repository", "commit", "-q", "-m", "first")
    return policies


def origin(given: Path):
    return load([given]).policy("base").origin("limits.unavailable")


def test_a_value_knows_its_file_line_and_revision(folder: Path) -> None:
    head = git(folder, "rev-parse", "HEAD")
    for given in (folder, folder / "base.yaml"):
        found = origin(given)
        assert (found.line, found.revision) == (7, head[:12])
        assert found.file == str(folder / "base.yaml")


def test_what_differs_from_the_revision_is_marked_and_other_folders_do_not_count(
    folder: Path,
) -> None:
    (folder.parent / "elsewhere.txt").write_text("not a policy")
    assert not origin(folder).revision.endswith("+")
    (folder / "new.yaml").write_text(POLICY.replace("base", "new"))
    assert origin(folder).revision.endswith("+")


def test_without_a_repository_or_a_commit_there_is_no_revision(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(POLICY)
    assert origin(tmp_path).revision == ""
    git(tmp_path, "init", "-q")
    assert origin(tmp_path).revision == ""


def test_without_git_there_is_no_revision(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    assert revision(folder) == ""


def test_a_repository_cannot_have_a_program_of_its_own_run(folder: Path, tmp_path: Path) -> None:
    spy, told = tmp_path / "spy", tmp_path / "told"
    spy.write_text(f"#!/bin/sh\ntouch {told}\n")
    spy.chmod(0o755)
    git(folder, "config", "core.fsmonitor", str(spy))
    assert revision(folder)
    assert not told.exists()


def test_git_is_asked_once_for_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "other.yaml").write_text(POLICY.replace("base", "other"))
    asked: list[Path] = []
    monkeypatch.setattr(
        "guardrail.files.loader.revision", lambda path: asked.append(path) or "1a2b3c"
    )
    assert origin(folder).revision == "1a2b3c"
    assert asked == [folder]
