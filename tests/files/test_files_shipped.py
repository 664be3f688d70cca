"""Do the shipped files hold: do they load, name each other rightly, and fit their schemas?"""

import json
import os
import re
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from guardrail.files import KINDS, Documents, load, parse, shipped_policies
from guardrail.files.schema import text, write
from guardrail.lab.layout import CONSUL_VERSIONS, EXPORTER_VERSIONS, SSH_PORT, Layout
from guardrail.model.change import HttpProbe, RunProbe
from guardrail.model.fleet import ConsulInventory

ROOT = Path(__file__).parents[2]
EXAMPLES = (ROOT / "examples" / "consul-agents", ROOT / "examples" / "node-exporter")
FOLDERS = (shipped_policies(), *EXAMPLES, ROOT / "examples" / "holiday-season" / "source")
FILES = [path for folder in FOLDERS for path in sorted(folder.rglob("*.y*ml"))]


def schema_of(path: Path) -> Path:
    """The schema that the first line names for editors."""
    first = path.read_text().splitlines()[0]
    found = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert found, f"{path} does not name its schema in the first line"
    return Path(os.path.normpath(path.parent / found[1]))


def required(documents: Documents) -> set[str]:
    asked = {gate for rollout in documents.rollouts for gate in rollout.gates}
    return asked | {gate for policy in documents.policies for gate in policy.required_gates}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_each_folder_loads_and_is_whole(folder: Path) -> None:
    documents = load([folder])
    for name in required(documents):
        documents.gate(name)
    for gate in documents.gates:
        documents.source(gate.source)
    for rollout in documents.rollouts:
        documents.fleet(rollout.fleet)
        documents.change(rollout.change.name)


def test_the_shipped_kinds_are_there() -> None:
    documents = load([shipped_policies()])
    assert {policy.name for policy in documents.policies} >= {"base", "cache-critical"}
    assert documents.policy("cache-critical").cache_critical
    assert {change.agent for change in documents.changes} == {"consul", "node-exporter"}
    assert documents.gate("cache-hit-ratio").bound.above == 0.5
    assert documents.gate("database-margin").bound.below == 0.7
    assert documents.gate("agent-health").gate_class == "health"


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_name_the_lab_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    lab, documents = Layout(), load([folder])
    (fleet,), (rollout,) = documents.fleets, documents.rollouts
    assert isinstance(fleet.inventory, ConsulInventory)
    assert fleet.inventory.address == lab.consul_url
    assert documents.source().address == lab.prometheus_url
    ssh = fleet.reach.ssh
    assert ssh is not None
    assert ssh.identity is not None
    assert ssh.known_hosts is not None
    assert ssh.port == SSH_PORT
    assert (ssh.identity.name, ssh.known_hosts.name) == (str(lab.ssh_key), str(lab.known_hosts))
    assert (rollout.change.old, rollout.change.new) in (CONSUL_VERSIONS, EXPORTER_VERSIONS)


@pytest.mark.parametrize(
    ("name", "installed", "running", "version"),
    [
        (
            "node-exporter",
            "node_exporter, version 1.5.0+ds (branch: debian/sid, revision: 1.5.0+ds-1)",
            'x 1\nnode_exporter_build_info{branch="d",goversion="go1.19",version="1.5.0+ds"} 1',
            "1.5.0",
        ),
        ("consul-agent", "Consul v1.8.8\nRevision 1a2b", None, "1.8.8"),
        ("consul-agent-keep-registered", "Consul v1.8.8\nRevision 1a2b", None, "1.8.8"),
    ],
)
def test_shipped_changes_read_the_version_from_what_the_agents_say(
    name: str, installed: str, running: str | None, version: str
) -> None:
    change = load([shipped_policies()]).change(name)
    assert isinstance(change.installed, RunProbe)
    found = re.search(change.installed.match, installed)
    assert found
    assert found[1] == version
    if running is not None:
        assert isinstance(change.running, HttpProbe)
        found = re.search(change.running.match, running)
        assert found
        assert found[1] == version


def test_the_lab_exporter_is_read_by_its_example() -> None:
    change = load([ROOT / "examples" / "node-exporter"]).change("node-exporter")
    assert isinstance(change.running, HttpProbe)
    found = re.search(change.running.match, 'exporter_build_info{version="1.1.0"} 1\n')
    assert found
    assert found[1] == "1.1.0"


@pytest.mark.parametrize("kind", KINDS)
def test_the_committed_schemas_are_current(kind: str) -> None:
    path = shipped_policies() / "schema" / f"{kind.lower()}.json"
    assert path.read_text() == text(kind), "run: python -m guardrail.files.schema"


def test_schemas_are_written_one_a_kind(tmp_path: Path) -> None:
    written = write(tmp_path / "schema")
    assert [path.stem for path in written] == [kind.lower() for kind in KINDS]
    for path in written:
        jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_shipped_file_fits_the_schema_it_names_and_a_wrong_key_does_not(path: Path) -> None:
    schema = schema_of(path)
    assert schema.parent == shipped_policies() / "schema"
    validator = jsonschema.Draft202012Validator(json.loads(schema.read_text()))
    document = YAML(typ="safe").load(path.read_text())
    assert document["kind"].lower() == schema.stem
    validator.validate(document)
    for place in (document, document["metadata"], document["spec"]):
        place["unknownKey"] = 1
        assert not validator.is_valid(document)
        del place["unknownKey"]
    del document["spec"]
    assert not validator.is_valid(document)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_shipped_file_says_in_words_what_it_is_for(path: Path) -> None:
    """Comments or a description, and one document a file, so that a name finds its file."""
    content = path.read_text()
    assert "description:" in content or content.count("\n# ") >= 1
    found = parse(content, str(path))
    assert sum(len(getattr(found, kind.field)) for kind in KINDS.values()) == 1
