"""Are documents found in files and folders, and mapped to the models as written?"""

from dataclasses import replace
from pathlib import Path

import pytest

from guardrail.errors import InvalidFile, Refused
from guardrail.files import Documents, load, parse
from guardrail.model.change import ConsulAgentProbe, ConsulCatalogCheck, HttpProbe, RunProbe
from guardrail.model.common import Amount, Secret, Tls
from guardrail.model.fleet import ConsulInventory, HostList, SshReach
from guardrail.model.gate import Age, Bound, GateEvidence, Targets
from guardrail.model.policy import (
    Approvals,
    Churn,
    Failures,
    PolicyEvidence,
    PolicyLimits,
    Recover,
    WarmUp,
)
from guardrail.model.rollout import Order

HEAD = "apiVersion: guardrail/v1\nkind: "
GATE = (
    HEAD + "Gate\nmetadata: {name: NAME}\n"
    "spec: {title: t, class: health, query: up, pass: {within: [0, 1]}, every: 1m30s}\n"
)


def gate(name: str) -> str:
    return GATE.replace("NAME", name)


def names(documents: Documents) -> list[str]:
    return [found.name for found in documents.gates]


def test_a_folder_gives_yaml_and_yml_of_all_levels_in_order_and_nothing_hidden(
    tmp_path: Path,
) -> None:
    for path in ("b.yaml", "a/z.yml", "a/.hidden.yaml", ".git/x.yaml", "notes.txt"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(gate(Path(path).stem.strip(".")))
    assert names(load([tmp_path])) == ["z", "b"]


def test_the_same_file_given_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(gate("one") + "---\n" + gate("two"))
    assert names(load([tmp_path / "a.yaml", tmp_path, tmp_path / "." / "a.yaml"])) == ["one", "two"]


def test_faults_of_all_files_come_at_once_each_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(gate("one").replace("health", "well"))
    (tmp_path / "b.yaml").write_bytes(b"\0")
    (tmp_path / "c.yaml").write_text(gate("three"))
    (tmp_path / "empty").mkdir()
    paths = [tmp_path, tmp_path / "absent.yaml", tmp_path / "empty", "/dev/null"]
    with pytest.raises(InvalidFile) as refused:
        load(paths)
    said = {(Path(fault.file).name, fault.message.split(";")[0]) for fault in refused.value.faults}
    assert said == {
        ("a.yaml", "`well` is not known here"),
        ("b.yaml", "this is a binary file"),
        ("absent.yaml", "cannot be read: no such file or directory"),
        ("empty", "no *.yaml or *.yml file is in this folder"),
        ("null", "this is not a regular file"),
    }


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(InvalidFile, match=r"loop.yaml:1:1: cannot be read: "):
        load([tmp_path / "loop.yaml"])


def test_one_name_in_two_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(gate("same"))
    (tmp_path / "b.yaml").write_text(gate("same"))
    with pytest.raises(InvalidFile) as refused:
        load([tmp_path])
    (fault,) = refused.value.faults
    assert fault.file.endswith("b.yaml")
    assert f"already, at {tmp_path}/a.yaml:3" in fault.message


def test_a_name_that_is_absent_is_refused_with_the_near_one() -> None:
    documents = parse(gate("database-margin") + "---\n" + gate("boots"), "g.yaml")
    assert documents.gate("boots").name == "boots"
    with pytest.raises(Refused, match=r"no Gate `databse-margin`.*did you mean `database-margin`"):
        documents.gate("databse-margin")
    with pytest.raises(Refused, match="there is no Fleet `x` in the files given; there: none"):
        documents.fleet("x")
    with pytest.raises(Refused, match="one Gate is needed, found 2: database-margin, boots"):
        documents.gate()
    assert parse(gate("only"), "g.yaml").gate().name == "only"


def test_joined_documents_are_both_once_and_never_two_of_a_name() -> None:
    one = parse(gate("a") + "---\n" + gate("b"), "one.yaml")
    two = parse("# another file\n" + gate("b") + "---\n" + gate("c"), "two.yaml")
    assert names(one.joined(two)) == ["a", "b", "c"]
    other = parse(gate("b").replace("query: up", "query: down"), "three.yaml")
    with pytest.raises(Refused, match="Gate `b` is given twice, with different content"):
        one.joined(other)


def test_policies_are_alike_wherever_their_file_lies() -> None:
    text = HEAD + "Policy\nmetadata: {name: base}\nspec: {match: {}}\n"
    here, there = parse(text, "here.yaml"), parse(text, "there.yaml")
    assert here.policies[0] != there.policies[0]
    assert here.joined(there) == here


def test_a_digest_is_of_the_content_not_of_its_layout() -> None:
    tidy = gate("a")
    untidy = (
        "# a comment\nkind: 'Gate'\nspec:\n  every: 1m30s\n  pass:\n    within:\n    - 0\n    - 1\n"
        "  query: \"up\"\n  class: health\n  title: >-\n    t\nmetadata: {name: 'a'} # b\n"
        "apiVersion: guardrail/v1\n"
    )
    digest = parse(tidy, "x.yaml").gates[0].digest
    assert digest.startswith("sha256:")
    assert len(digest) == 71
    assert parse(untidy, "elsewhere/y.yaml").gates[0].digest == digest


@pytest.mark.parametrize(
    ("piece", "instead"),
    [
        ("[0, 1]", "[0, 2]"),
        ("[0, 1]", "[1, 1]"),
        ("health", "safety"),
        ("NAME", "b"),
        ("1m30s", "2m"),
    ],
)
def test_another_value_is_another_digest(piece: str, instead: str) -> None:
    before, after = gate("a"), GATE.replace(piece, instead).replace("NAME", "a")
    assert parse(after, "x.yaml").gates[0].digest != parse(before, "x.yaml").gates[0].digest


def test_where_a_value_of_a_policy_was_written() -> None:
    text = (
        HEAD + "Policy\nmetadata:\n  name: base\nspec:\n  match: {}\n  limits:\n"
        "    unavailable: 5%\n    failures:\n      hosts: 2\n"
        "  gates:\n    require:\n      - a\n      - b\n"
    )
    policy = parse("# one\n" + text, "p.yaml").policies[0]
    lines = {path: origin.line for path, origin in policy.origins}
    assert lines == {
        "match": 7,
        "limits": 8,
        "limits.unavailable": 9,
        "limits.failures": 10,
        "limits.failures.hosts": 11,
        "gates": 12,
        "gates.require": 13,
        "gates.require.0": 14,
        "gates.require.1": 15,
    }
    assert str(policy.origin("limits.unavailable")) == "policy base (p.yaml:9)"


def test_paths_are_relative_to_the_document_or_to_the_home_or_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    text = (
        HEAD + "Fleet\nmetadata: {name: a}\nspec:\n"
        "  inventory: {consul: {address: http://c:1, service: s,"
        " tls: {caFile: ../ca.pem}, token: {file: /run/t}}}\n  reach: {ssh: {config: ~/.ssh/config,"
        " identity: {file: $XDG_STATE_HOME/lab/key}, knownHosts: {env: HOSTS}}}\n"
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "f.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    (fleet,) = load(["sub/f.yaml"]).fleets
    assert fleet.inventory == ConsulInventory(
        address="http://c:1",
        service="s",
        token=Secret("file", "/run/t"),
        tls=Tls(ca_file=f"{tmp_path}/ca.pem"),
    )
    assert fleet.reach.ssh == SshReach(
        config="/home/me/.ssh/config",
        identity=Secret("file", "/home/me/.local/state/lab/key"),
        known_hosts=Secret("env", "HOSTS"),
    )
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    (fleet,) = load(["sub/f.yaml"]).fleets
    assert fleet.reach.ssh is not None
    assert fleet.reach.ssh.identity == Secret("file", "/state/lab/key")


def example(kind: str) -> Documents:
    """The example that the format's own module opens with."""
    module = __import__(f"guardrail.files.{kind}", fromlist=["x"])
    lines = module.__doc__.partition("\n\n")[2].split("\n\n")[0].splitlines()
    # From Python 3.13 on docstrings come without their indentation.
    indent = len(lines[0]) - len(lines[0].lstrip())
    return parse("\n".join(line[indent:] for line in lines), f"/docs/{kind}.yaml")


def test_a_fleet_becomes_a_model() -> None:
    fleet = example("fleet").fleet("cache")
    assert isinstance(fleet.inventory, ConsulInventory)
    assert fleet.inventory.node_meta == (("env", "lab"),)
    assert fleet.inventory.filter == 'Meta.env == "lab"'
    assert fleet.failure_domain.node_meta == "zone"
    assert fleet.reach.ssh is not None
    assert (fleet.reach.ssh.user, fleet.reach.ssh.port) == ("deploy", 2222)
    assert fleet.reach.ssh.jump == "bastion.example"


def test_listed_hosts_take_their_domain_from_a_label_where_they_state_none() -> None:
    text = (
        HEAD + "Fleet\nmetadata: {name: web}\nspec:\n  failureDomain: {label: rack}\n  inventory:\n"
        "    hosts:\n    - {name: one, address: 10.0.0.1, labels: {rack: r1}, roles: [web]}\n"
        "    - {name: two, address: b.example, failureDomain: r9, labels: {rack: r1}}\n"
    )
    inventory = parse(text, "f.yaml").fleet("web").inventory
    assert isinstance(inventory, HostList)
    assert [(host.name, host.failure_domain, host.inventory) for host in inventory.hosts] == [
        ("one", "r1", "web"),
        ("two", "r9", "web"),
    ]
    assert inventory.hosts[0].roles == ("web",)


def test_a_change_becomes_a_model() -> None:
    change = example("change").change("consul-agent")
    assert change.installed == RunProbe(("consul", "version"), r"Consul v(\S+)")
    assert change.running == ConsulAgentProbe(8500, "http")
    assert change.obtainable == ("fetch", "--can", "consul", "{version}")
    assert change.prepare == (("fetch", "consul", "{to}"),)
    assert change.unprepare == (("remove", "consul", "{to}"),)
    assert change.apply == (("switch", "consul", "{to}"), ("restart", "consul"))
    assert change.undo is None
    assert change.verify_catalog == ConsulCatalogCheck(30.0)
    assert (change.agent, change.driver, change.timeout) == ("consul", "ssh", 300.0)


def test_a_change_may_have_an_undo_of_its_own_and_ask_by_http() -> None:
    text = (
        HEAD + "Change\nmetadata: {name: a}\nspec:\n  agent: a\n  driver: exec\n"
        "  installed: {http: {port: 1, path: /v, match: (.+)}}\n"
        "  running: {run: [a], match: v(.)}\n"
        "  apply: [[up, '{host}', '{version}', '{ x }', '{{.State}}']]\n"
        "  undo: [[down]]\n  timeout: 9\n"
    )
    change = parse(text, "c.yaml").change("a")
    assert change.installed == HttpProbe(1, "/v", "(.+)")
    assert change.running == RunProbe(("a",), "v(.)")
    assert change.undo == (("down",),)
    assert (change.verify_catalog, change.timeout) == (None, 9.0)
    assert (change.prepare, change.unprepare, change.obtainable) == ((), (), None)


def test_a_rollout_becomes_a_model() -> None:
    rollout = example("rollout").rollout()
    stages = (1, "25%", "50%", "75%", "100%")
    assert tuple(map(str, rollout.stages)) == tuple(map(str, stages))
    assert (rollout.change.name, rollout.change.old, rollout.change.new) == (
        "consul-agent",
        "1.8.7",
        "1.8.8",
    )
    assert rollout.order == Order("failureDomain", ("role", "os", "version"))
    assert (rollout.fleet, rollout.gates, rollout.ticket) == ("cache", ("agent-health",), "CHG-1")


def test_all_is_a_last_stage() -> None:
    text = (
        HEAD
        + "Rollout\nmetadata: {name: a}\nspec: {fleet: f, change: {name: c, from: '1', to: '2'},"
        " stages: [3, 4, all]}\n"
    )
    rollout = parse(text, "r.yaml").rollout("a")
    assert rollout.stages == (Amount(3), Amount(4), Amount(100, percent=True))
    assert rollout.order == Order()


def test_a_gate_becomes_a_model() -> None:
    found = example("gate").gate("database-margin")
    assert found.bound == Bound(below=0.7)
    assert (found.every, found.fail_after, found.pass_after) == (2.0, 2, 3)
    assert found.evidence == GateEvidence(
        max_age=Age(scrapes=3),
        targets=Targets('count(up{job="memcached"} == 1)', 0.98),
        zero_when="sum(rate(lab_boots_total[5s])) > 1",
    )
    assert (found.gate_class, found.source) == ("safety", "prometheus")


def test_a_gate_has_defaults_only_where_the_format_says_so() -> None:
    found = parse(gate("a"), "g.yaml").gate()
    assert (found.fail_after, found.pass_after, found.evidence) == (2, 3, GateEvidence())
    assert (found.bound, found.every, found.source) == (Bound(within=(0, 1)), 90.0, None)


def test_a_policy_becomes_a_model() -> None:
    policy = example("policy").policy("cache-critical")
    assert policy.match.roles == ("memcached", "mcrouter")
    assert policy.cache_critical is True
    assert policy.limits == PolicyLimits(
        unavailable=Amount(1),
        unavailable_per_domain=Amount(1),
        domains_at_once=1,
        failures=Failures(hosts=0),
        wave=Amount(10, percent=True),
        pace_between=30.0,
        cold_capacity=Amount(5, percent=True),
        churn=Churn(6, 600.0),
        spares=2,
    )
    assert policy.warm_up == WarmUp("cache-warm", 900.0)
    assert policy.required_gates == ("cache-hit-ratio", "database-margin")
    assert policy.evidence == PolicyEvidence(Age(scrapes=3), 10.0)
    assert policy.bake_for == 600.0
    assert policy.approvals == Approvals(("start", "10%"), 1, not_requester=True)
    assert policy.recover == Recover("person", 300.0)
    assert (policy.rollback_when, policy.owners) == ("ask", ("storage-oncall",))


def test_a_policy_is_silent_about_what_it_does_not_state() -> None:
    policy = parse(HEAD + "Policy\nmetadata: {name: a}\nspec: {match: {}}\n", "p.yaml").policy("a")
    assert replace(policy.limits) == PolicyLimits()
    assert (policy.bake_for, policy.approvals, policy.recover) == (None, None, Recover())
    assert (policy.rollback_when, policy.evidence) == (None, PolicyEvidence())


def test_points_of_approval_are_written_as_the_rollout_file_has_them() -> None:
    text = (
        HEAD
        + "Policy\nmetadata: {name: a}\nspec: {match: {}, approvals: {at: [start, 1, 25%, all]}}"
    )
    approvals = parse(text, "p.yaml").policy("a").approvals
    assert approvals == Approvals(("start", "1", "25%", "all"), 1, not_requester=True)


def test_a_source_becomes_a_model() -> None:
    source = example("source").source()
    assert (source.address, source.timeout) == ("http://127.0.20.6:9090", 2.0)
    assert source.token == Secret("file", "/run/secrets/prometheus")
    assert source.headers == (("X-Scope-OrgID", "caches"),)
    assert source.tls == Tls("/docs/ca.pem", "/docs/me.pem", "/docs/me.key", "prometheus")
    text = (
        HEAD
        + "Source\nmetadata: {name: a}\nspec: {address: https://p/prom/, basicAuth: {username: u,"
        " password: {env: PW}}}"
    )
    source = parse(text, "s.yaml").source()
    assert (source.address, source.username) == ("https://p/prom", "u")
    assert (source.password, source.token) == (Secret("env", "PW"), None)


def test_words_of_yaml_1_1_are_text_and_anchors_work() -> None:
    text = (
        HEAD + "Fleet\nmetadata: {name: a}\nspec:\n  inventory:\n    hosts:\n"
        "    - {name: no, address: on, failureDomain: 2022-02-22, roles: &r [yes, off, 12:30]}\n"
        "    - {name: b, address: c, failureDomain: d, roles: *r}\n"
    )
    inventory = parse(text, "f.yaml").fleet("a").inventory
    assert isinstance(inventory, HostList)
    first, second = inventory.hosts
    assert (first.name, first.address, first.failure_domain) == ("no", "on", "2022-02-22")
    assert first.roles == second.roles == ("yes", "off", "12:30")


def test_a_byte_order_mark_and_windows_lines_do_not_matter() -> None:
    content = b"\xef\xbb\xbf" + gate("a").replace("\n", "\r\n").encode()
    assert names(parse(content, "g.yaml")) == ["a"]
