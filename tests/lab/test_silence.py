"""What does a person see before anything is touched, or when a service or a file is no good?

`plan` and `gate` on the lab's real parts; the same commands against services that are not there or
never answer, and with files that are wrong: an exit code, the place, the reason, no traceback.
"""

import json
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.cli_engine import free_port
from lab.engine_rig import Ended, Engine, now, report, until
from lab.rig import Lab

from guardrail.lab.supervisor import start_part, stop_part

pytestmark = pytest.mark.lab

EVERY_HOST = "^cache-"
BOUNDED = 20.0
"""Seconds after which nobody should still be waiting for a silent service."""
GATE_KEYS = ["gate", "verdict", "kind", "value", "query", "source", "takenAt", "reasons"]


# ---------------------------------------------------------------- plan


def zones(lab: Lab) -> dict[str, str]:
    """Each node's zone in the servers' catalog; Consul may take a minute until all have it."""
    nodes = lab.consul("/v1/catalog/nodes")
    return {n["Node"]: n["Meta"]["zone"] for n in nodes if "zone" in (n["Meta"] or {})}


def test_a_plan_shows_hosts_waves_limits_and_the_end(engine: Engine, lab: Lab) -> None:
    until(lambda: len(zones(lab)) == len(lab.hosts), "every node's zone is in the catalog")
    _, file = engine.files("usual", EVERY_HOST, stages="1, 25%, 100%")
    planned = engine("plan", file)
    assert planned.code == 0, planned.text
    shown = re.findall(r"^ *(\d+) +wave (\d) +(cache-\d{3}) +([abc]) ", planned.out, re.MULTILINE)
    assert [int(number) for number, *_ in shown] == list(range(1, 31)), planned.out
    assert {name for _, _, name, _ in shown} == {host.name for host in lab.hosts}
    assert {(name, zone) for *_, name, zone in shown} == {(h.name, h.zone) for h in lab.hosts}
    waves = [int(wave) for _, wave, _, _ in shown]
    assert (waves.count(1), waves.count(2), waves.count(3)) == (1, 6, 23)
    together = planned.text.replace(" ", "")  # long paths are broken where the screen ends
    for limit, words in (
        ("unavailable", "limits:{unavailable:6,"),
        ("unavailablePerDomain", "limits:{unavailable:6,"),
        ("failures", "failures:{hosts:0}"),
    ):
        line = 1 + next(
            number
            for number, text in enumerate((engine.source / "policies.yaml").read_text().split("\n"))
            if words in text.replace(" ", "")
        )
        found = rf"{limit}\d+hosts?written\d+policy\w+\({engine.source}/policies\.yaml:{line}\)"
        assert re.search(found, together), (limit, planned.out)
    assert re.search(r"it ends at \d{4}-\d\d-\d\d \d\d:\d\d \+00:00", planned.text)
    report(f"guardrail plan of 30 hosts: {planned.took:.1f} s")


def test_a_plan_reads_from_each_agent_what_a_restart_does(engine: Engine, lab: Lab) -> None:
    _, file = engine.files("usual", EVERY_HOST, change="default-leave")
    planned = engine("plan", file)
    assert planned.code == 0, planned.text
    assert "this change will deregister 30 cache nodes" in planned.text
    assert re.search(r"30 hosts: [^.]*leave_on_terminate", planned.text), planned.out


def test_a_plan_that_would_be_refused_says_why(engine: Engine, fresh_lab: Lab) -> None:
    _, wrong = engine.files("usual", "^cache-00[1-3]$", old="1.8.6")
    refused = engine("plan", wrong)
    assert refused.code == 1
    assert "goes from 1.8.6 to 1.8.8, and something else is on 3 hosts" in refused.text
    assert "cache-001 (1.8.7)" in refused.text

    _, lacking = engine.files("lacking", "^cache-00[1-3]$")
    refused = engine("plan", lacking)
    assert refused.code == 1
    assert "gate no-such-gate, required by policy lacking" in refused.text
    assert "is not in the worker's source" in refused.text

    stop_part(fresh_lab.state, "cache-002/sshd")
    _, silent = engine.files("usual", "^cache-00[1-3]$")
    refused = engine("plan", silent)
    assert refused.code == 1
    assert "1 host cannot be looked at: cache-002" in refused.text
    started = engine("rollout", "start", silent)
    assert started.code == 1, started.text
    assert "cache-002" in started.text
    start_part(fresh_lab.state, "cache-002/sshd")
    assert engine("plan", silent).code == 0


# ---------------------------------------------------------------- services that do not answer


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def unanswered(ended: Ended, service: str, address: str) -> None:
    """Exit 3; one line that names the service, its address and a reason; within bounds."""
    assert ended.code == 3, ended.text
    assert ended.took < BOUNDED
    lines = [line for line in ended.err.splitlines() if line]
    assert len(lines) == 1, ended.err
    assert service in lines[0]
    assert address in lines[0]
    reason = lines[0].partition("did not answer: ")[2]
    assert re.search("refused|no answer within|nothing came within", reason, re.IGNORECASE), lines[
        0
    ]
    report(f"{service} at {address}: exit 3 after {ended.took:.1f} s: {lines[0]}")


def test_a_silent_consul_is_named(engine: Engine, silent: str) -> None:
    gone = f"127.0.0.1:{free_port()}"
    for address in (silent, gone):
        _, file = engine.files("usual", EVERY_HOST, consul=f"http://{address}")
        unanswered(engine("plan", file), "Consul", address)


def test_a_silent_prometheus_is_named(engine: Engine, silent: str, tmp_path: Path) -> None:
    _, file = engine.files("usual", "^cache-001$")
    for number, address in enumerate((silent, f"127.0.0.1:{free_port()}")):
        source = tmp_path / str(number)
        shutil.copytree(engine.source, source)
        place = source / "source.yaml"
        place.write_text(place.read_text().replace(engine.lab.prometheus_url, f"http://{address}"))
        unanswered(engine("plan", file, "--source", str(source)), "Prometheus", address)


def test_a_silent_temporal_is_named(engine: Engine, silent: str) -> None:
    _, file = engine.files("usual", "^cache-001$")
    for address in (silent, f"127.0.0.1:{free_port()}"):
        started = engine("rollout", "start", file, TEMPORAL_ADDRESS=address)
        unanswered(started, "Temporal", address)


# ---------------------------------------------------------------- files that are wrong

BROKEN = {
    "Fleet": (
        """\
apiVersion: guardrail/v1
kind: Fleet
metadata: {name: cache}
spec:
  inventory:
    consul: {address: "http://127.0.20.1:8500", servce: memcached}
  failureDomain: {nodeMeat: zone}
""",
        {(6, "servce"), (7, "nodeMeat")},
    ),
    "Change": (
        """\
apiVersion: guardrail/v1
kind: Change
metadata: {name: consul-agent}
spec:
  agent: consul
  driver: telnet
  installed: {run: [consul, version], match: 'Consul v(\\S+)'}
  running: {consulAgent: {}}
  apply: [[lab-host, restart, consul]]
  undo: same
  timeout: soon
""",
        {(6, "telnet"), (11, "soon")},
    ),
    "Rollout": (
        """\
apiVersion: guardrail/v1
kind: Rollout
metadata: {name: consul-1.8.8}
spec:
  fleet: cache
  change: {name: consul-agent, from: 1.8.7, too: 1.8.8}
  stages: [1, 125%]
""",
        {(6, "too"), (7, "125%")},
    ),
    "Gate": (
        """\
apiVersion: guardrail/v1
kind: Gate
metadata: {name: margin}
spec:
  title: Demand over capacity
  class: savety
  query: max(demand
  pass: {below: 0.7}
  every: 1s
  failAfter: 2
  passAfter: 3
""",
        {(6, "savety"), (7, "unclosed left parenthesis")},
    ),
    "Policy": (
        """\
apiVersion: guardrail/v1
kind: Policy
metadata: {name: base}
spec:
  match: {role: [memcached]}
  limits: {unavailable: many}
""",
        {(5, "role"), (6, "many")},
    ),
    "Source": (
        """\
apiVersion: guardrail/v1
kind: Source
metadata: {name: prometheus}
spec:
  address: prometheus
  timeout: 2 fortnights
""",
        {(5, "prometheus"), (6, "fortnights")},
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_malformed_file_is_told_by_line_and_column(
    engine: Engine, tmp_path: Path, kind: str
) -> None:
    text, wanted = BROKEN[kind]
    broken = tmp_path / "broken.yaml"
    broken.write_text(text)
    ended = engine("plan", str(broken))
    assert ended.code == 2, ended.text
    assert "Traceback" not in ended.text
    faults = re.findall(rf"^{broken}:(\d+):(\d+): (.+)$", ended.err, re.MULTILINE)
    assert len(faults) == len(ended.err.splitlines()), ended.err
    for line, word in wanted:
        assert any(int(at) == line and word in said for at, _, said in faults), ended.err


# ---------------------------------------------------------------- gates


def test_gate_read_is_for_other_peoples_tools(engine: Engine, fresh_lab: Lab) -> None:
    file, url = str(engine.source / "gates.yaml"), fresh_lab.prometheus_url
    words = ("gate", "read", file, "--gate", "cache-nodes", "--prometheus", url, "--json")
    good = engine(*words)
    answer = json.loads(good.out)
    assert (good.code, list(answer), answer["kind"]) == (0, GATE_KEYS, None)
    assert (answer["gate"], answer["verdict"]) == ("cache-nodes", "pass")
    assert 0.95 < answer["value"] <= 1  # one of 30 may be scraped too late
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", answer["takenAt"])
    assert url in answer["source"]

    for name in ("cache-020", "cache-021"):
        stop_part(fresh_lab.state, f"{name}/memcached")
    began = now()
    waited = engine("gate", "wait", "cache-nodes", "--for", "fail", "--within", "3m", "--json")
    assert (waited.code, json.loads(waited.out)["verdict"]) == (0, "fail")
    report(f"gate wait saw two dead caches after {waited.at - began:.1f} s")
    bad = engine(*words)
    answer = json.loads(bad.out)
    assert (bad.code, list(answer), answer["verdict"]) == (1, GATE_KEYS, "fail")
    assert engine("gate", "wait", "cache-nodes", "--within", "8s").code == 1

    stop_part(fresh_lab.state, "prometheus")
    none = engine(*words)
    answer = json.loads(none.out)
    assert (none.code, list(answer)) == (3, GATE_KEYS)
    assert (answer["verdict"], answer["kind"], answer["value"]) == (
        "inconclusive",
        "unreachable",
        None,
    )
    assert url in " ".join(answer["reasons"])
