"""`guardrail plan -o` writes what `rollout start` keeps to: edited policies are named by line."""

import json
from pathlib import Path

import pytest
from test_plan_cli import here, metrics, planned  # noqa: F401 - fixtures

from guardrail.cli.contract import requested
from guardrail.cli.plan import planned as made_now
from guardrail.cli.session import run as run_async
from guardrail.contracting import kept
from guardrail.edges.compose import store_of
from guardrail.errors import Refused
from guardrail.files import load
from guardrail.settings import Settings


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("GUARDRAIL_STATE", str(tmp_path / "state"))
    return Settings.read()


def written(here: Path) -> Path:  # noqa: F811
    done = planned(here, "-o", str(here / "plan.json"), "--by", "ann")
    assert done.exit_code == 0, done.output
    assert "start it: guardrail rollout start" in done.output
    return here / "plan.json"


def as_the_worker(here: Path, plan: Path, known: Settings):  # noqa: F811
    """What the worker makes of the plan file, with its own source."""
    request = requested([plan], "ann", "op", known)
    documents = load([here / "source"])
    made = run_async(made_now(request, documents))
    return kept(store_of(known.plans), request, made, documents.policies)


def test_a_plan_file_is_started_as_it_is(here: Path, known: Settings):  # noqa: F811
    path = written(here)
    plan = as_the_worker(here, path, known)
    assert plan.refusals == ()
    content = json.loads(path.read_text())["contract"]
    assert plan.created_at == content["plan"]["created_at"]
    assert [host["version_seen"] for host in content["plan"]["hosts"]] == ["1", "1", "1"]
    request = requested([path], "bob", "op", known)
    assert (request.operation, request.requester) == ("op", "bob")


def test_a_policy_edited_since_is_refused_by_file_and_field(here: Path, known: Settings):  # noqa: F811
    path, policy = written(here), here / "source" / "policy.yaml"
    policy.write_text("# edited\n" + policy.read_text().replace("40%", "70%"))
    refusals = " | ".join(as_the_worker(here, path, known).refusals)
    place = f"{policy}:8"
    assert f"policy base changed: limits.unavailable 40% → 70% at {place}" in refusals


def test_a_host_changed_since_is_refused_by_name(here: Path, known: Settings):  # noqa: F811
    path = written(here)
    rollout = (here / "rollout.yaml").read_text()
    assert "web-3" in rollout
    (here / "version").write_text("v9\n")
    refusals = " | ".join(as_the_worker(here, path, known).refusals)
    assert "3 hosts with another version than then: web-1 (1 → 9), web-2" in refusals


def test_a_plan_file_stands_alone_and_names_are_checked(here: Path, known: Settings):  # noqa: F811
    path = written(here)
    with pytest.raises(Refused, match="name it alone"):
        requested([path, here / "rollout.yaml"], "ann", "", known)
    with pytest.raises(Refused, match="cannot be an operation's name"):
        requested([path], "ann", "no such/name", known)
    assert requested([here / "rollout.yaml"], "ann", "", known).contract == ""


def test_an_edited_plan_file_is_refused(here: Path, known: Settings):  # noqa: F811
    path = written(here)
    path.write_text(path.read_text().replace('"bake_for": 5.0', '"bake_for": 0.0'))
    with pytest.raises(Refused, match="was edited"):
        requested([path], "ann", "", known)


def test_a_place_that_cannot_be_written_is_said(here: Path):  # noqa: F811
    done = planned(here, "-o", str(here / "none" / "plan.json"))
    assert done.exit_code == 1
    assert "cannot be written" in done.output
