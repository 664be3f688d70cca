"""`guardrail plan` and `guardrail lab`: what is shown, what is refused, and how it ends."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from shown import ORIGIN, host, plan
from typer.testing import CliRunner

from guardrail.cli import app
from guardrail.cli import lab as lab_command
from guardrail.cli.plan_view import in_units, plan_rows
from guardrail.cli.text import Look, plain
from guardrail.lab.health import LabStatus, PartStatus
from guardrail.lab.layout import Layout
from guardrail.lab.register import Register
from guardrail.model.plan import Excluded, Limit

CHANGE = """
apiVersion: guardrail/v1
kind: Change
metadata: {name: agent}
spec:
  agent: agent
  driver: exec
  installed: {run: [cat, "VERSION"], match: 'v(\\S+)'}
  running: {run: [cat, "VERSION"], match: 'v(\\S+)'}
  apply: [["true"]]
  undo: same
  timeout: 1m
"""
GATE = """
apiVersion: guardrail/v1
kind: Gate
metadata: {name: margin}
spec:
  title: Demand over capacity
  class: safety
  query: max(demand)
  pass: {below: 0.7}
  every: 1s
  failAfter: 2
  passAfter: 3
---
apiVersion: guardrail/v1
kind: Source
metadata: {name: metrics}
spec: {address: "http://127.0.0.1:PORT"}
"""
POLICY = """
apiVersion: guardrail/v1
kind: Policy
metadata: {name: base}
spec:
  match: {}
  limits: {unavailable: 40%}
  gates: {require: [margin]}
  bake: {for: 5s}
"""
ROLLOUT = """
apiVersion: guardrail/v1
kind: Fleet
metadata: {name: few}
spec:
  inventory:
    hosts:
      - {name: web-1, address: 127.0.0.1, failureDomain: a, roles: [web]}
      - {name: web-2, address: 127.0.0.2, failureDomain: b, roles: [web]}
      - {name: web-3, address: 127.0.0.3, failureDomain: c, roles: [web]}
---
apiVersion: guardrail/v1
kind: Rollout
metadata: {name: agent-2}
spec:
  fleet: few
  change: {name: agent, from: "1", to: "2"}
  stages: [1, 100%]
"""


class Rejecting(BaseHTTPRequestHandler):
    """A Prometheus that takes no query: every gate is without evidence, which is a warning."""

    def do_GET(self) -> None:
        body = b'{"status": "error", "errorType": "bad_data", "error": "not here"}'
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Nothing: the test's output is for the test."""


@pytest.fixture(scope="module")
def metrics() -> Iterator[int]:
    """The port of a Prometheus that takes no query."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Rejecting) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def here(tmp_path: Path, metrics: int) -> Path:
    """A fleet of three hosts whose agent is a file on this machine, and a source of documents."""
    version = tmp_path / "version"
    version.write_text("v1\n")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "change.yaml").write_text(CHANGE.replace("VERSION", str(version)))
    (tmp_path / "source" / "policy.yaml").write_text(POLICY)
    (tmp_path / "source" / "gate.yaml").write_text(GATE.replace("PORT", str(metrics)))
    (tmp_path / "rollout.yaml").write_text(ROLLOUT)
    return tmp_path


def run(*words: str, width: int = 100):
    return CliRunner(env={"COLUMNS": str(width), "TZ": "UTC"}).invoke(app, list(words))


def planned(here: Path, *words: str):
    return run("plan", str(here / "rollout.yaml"), "--source", str(here / "source"), *words)


def test_a_plan_is_shown_and_nothing_is_changed(here: Path):
    done = planned(here)
    assert done.exit_code == 0, done.output
    assert re.search("warning: gate margin has no evidence now", done.output)
    assert "agent-2  agent 1 to 2 on fleet few" in done.output
    for number, name in enumerate(("web-1", "web-2", "web-3"), 1):
        assert re.search(rf"{number} +wave {min(number, 2)} +{name} ", done.output)
    assert re.search(r"unavailable +1 host +written 40% +policy base", done.output)
    assert f"({here}/source/policy.yaml:7)" in re.sub(r"\s*\n\s*", "", done.output)
    assert re.search(r"it\s+ends\s+at\s+\d{4}-\d\d-\d\d \d\d:\d\d [+-]\d\d:\d\d", done.output)
    assert "\x1b" not in done.output
    assert (here / "version").read_text() == "v1\n"


def test_json_is_the_model_in_utc_and_seconds(here: Path):
    made = json.loads(planned(here, "--json").stdout)
    assert [host["name"] for host in made["hosts"]] == ["web-1", "web-2", "web-3"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", made["createdAt"])
    assert made["bakeForSeconds"] == 5
    assert made["refusals"] == []


def test_a_refused_plan_is_shown_with_its_reasons_and_exits_1(here: Path):
    (here / "version").write_text("v7\n")
    done = planned(here)
    assert done.exit_code == 1
    assert re.search(r"^refused: .*web-1", done.output, re.MULTILINE)
    assert "It would be refused" in done.output
    assert "it ends at" not in done.output
    assert json.loads(planned(here, "--json").stdout)["refusals"]


def test_a_change_that_the_source_does_not_have_is_refused(here: Path):
    (here / "source" / "change.yaml").unlink()
    assert planned(here).exit_code == 1


def planned_with(here: Path, policy: str) -> Result:
    """The plan with a policy beside the rollout, one line of text for each line of the plan."""
    (here / "own.yaml").write_text(policy)
    files = [str(here / name) for name in ("rollout.yaml", "own.yaml")]
    return run("plan", *files, "--source", str(here / "source"), width=300)


def test_a_policy_beside_the_rollout_is_added_to_those_of_the_source(here: Path):
    own = POLICY.replace("name: base", "name: own")
    strict = planned_with(here, own.replace("for: 5s", "for: 9s"))
    assert strict.exit_code == 0, strict.output
    assert re.search(rf"bake.for +9 s +.*policy own \({here}/own.yaml:9\)", strict.output)
    loose = planned_with(here, own.replace("40%", "100%").replace("for: 5s", "for: 1s"))
    assert re.search(r"bake.for +5 s +.*policy base", loose.output)
    assert re.search(r"unavailable +1 host +written 40% +policy base", loose.output)


def test_a_policy_of_the_source_cannot_be_given_otherwise(here: Path):
    done = planned_with(here, POLICY.replace("40%", "100%"))
    assert done.exit_code == 1
    assert re.search(
        r"refused: policy base \(.*own.yaml\) is not the one that the worker", done.output
    )
    assert re.search(r"unavailable +1 host +written 40% +policy base", done.output)
    assert planned_with(here, POLICY).exit_code == 0


def test_a_gate_that_the_worker_does_not_have_so_is_named(here: Path):
    done = planned_with(here, GATE.split("---", maxsplit=1)[0].replace("0.7", "0.9"))
    assert "warning: gate margin in the files given is not the one in the source" in done.output
    assert "files given" not in planned(here).output


def test_an_invalid_file_exits_2_with_every_fault_and_its_place(here: Path):
    file = here / "rollout.yaml"
    file.write_text(ROLLOUT.replace("stages:", "stagse:").replace("roles: [web]", "rolse: [web]"))
    done = planned(here)
    assert done.exit_code == 2
    assert len(re.findall(r"rollout\.yaml:\d+:\d+: ", done.stderr)) >= 4
    assert "Traceback" not in done.output


def test_a_source_that_is_no_folder_is_refused(here: Path):
    done = run("plan", str(here / "rollout.yaml"), "--source", str(here / "nowhere"))
    assert done.exit_code == 1
    assert "--source DIR" in done.stderr


def test_a_silent_inventory_exits_3_with_its_address(here: Path):
    consul = '{consul: {address: "http://127.0.0.1:9", service: web}}'
    fleet = f"""
apiVersion: guardrail/v1
kind: Fleet
metadata: {{name: few}}
spec:
  inventory: {consul}
"""
    (here / "rollout.yaml").write_text(fleet + "---" + ROLLOUT.split("---")[1])
    done = planned(here)
    assert done.exit_code == 3
    assert "http://127.0.0.1:9" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


# ---------------------------------------------------------------- what is shown


def rows(made, width=100, *, everything=False, encoding="utf-8"):
    return plain(plan_rows(made, Look(width, None, encoding, UTC), everything=everything))


def test_what_stands_against_it_comes_first():
    made = plan(refusals=("cache-001 does not answer",), warnings=("the baseline is young",))
    shown = rows(made)
    assert (
        shown.index("refused: cache-001 does not answer")
        < shown.index("warning: the baseline is young")
        < next(n for n, row in enumerate(shown) if row.startswith("Waves"))
    )


def test_waves_are_cumulative():
    shown = rows(plan())
    assert "  1  to 1     1 host    1 of 30   hosts 1 to 1" in shown
    assert "  4  to 100%  15 hosts  30 of 30  hosts 16 to 30" in shown


def test_who_comes_last_is_named():
    text = "\n".join(rows(plan(leader_last=True, leader="consul-2"), 120))
    assert "one server after the other, consul-2 last (it leads now)" in text
    assert "one server after the other" not in "\n".join(rows(plan(), 120))


def test_the_finish_is_in_the_persons_zone_with_its_offset():
    assert "it ends at 2025-11-29 23:18 +00:00" in "\n".join(rows(plan(), 120))


def test_hosts_that_restart_alike_are_told_once():
    hosts = tuple(
        replace(
            host(n),
            restart=f"SIGTERM deregisters {host(n).name} (memcached) for about 5 s"
            if n < 20
            else host(n).restart,
        )
        for n in range(30)
    )
    shown = rows(plan(hosts=hosts))
    text = " ".join(row.strip() for row in shown)
    assert "cache-006 and 14 more): SIGTERM deregisters the host (memcached) for about 5 s" in text
    assert "10 hosts (cache-021, " in text
    assert "  all 30 hosts: stays registered: leave_on_terminate is false" in rows(plan())


def test_a_large_fleet_is_shortened_in_the_middle_and_says_so():
    made = plan(3000)
    shown = rows(made)
    assert "  ... 2,976 more hosts; see them with --all" in shown
    assert any("cache-001" in row for row in shown)
    assert any("cache-3000" in row for row in shown)
    assert len(shown) < 80
    everything = rows(made, everything=True)
    assert sum("wave" in row and "cache-" in row for row in everything) == 3000


def test_many_excluded_hosts_are_shortened_with_their_reasons():
    made = plan(
        excluded=tuple(Excluded(f"old-{n}", "a", "already at 1.8.8", False) for n in range(90))
    )
    assert any("66 more (in all 90 already at 1.8.8)" in row for row in rows(made))


def test_a_plan_without_gates_says_so():
    assert "Gates  none" in rows(plan(gates=()))


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (3, "hosts", "3 hosts"),
        (1, "hosts", "1 host"),
        (90, "seconds", "1 min 30 s"),
        (1, "people", "1 person"),
        (2, "people", "2 people"),
    ],
)
def test_limits_have_units(value, unit, words):
    assert in_units(Limit("x", "y", float(value), unit, ORIGIN)) == words


@given(st.integers(20, 140), st.sampled_from(["utf-8", "ascii"]), st.text(max_size=80))
def test_a_plan_fits_every_screen(width, encoding, anything):
    hosts = (replace(host(0), name=anything, restart=anything), *plan().hosts[1:])
    made = plan(hosts=hosts, refusals=(anything,), description=anything, fleet=anything)
    shown = rows(made, width, encoding=encoding)
    assert all(cell_len(row) <= width and "\x1b" not in row for row in shown)


# ---------------------------------------------------------------- lab


def lab(*, down: bool = False, lag: float = 0.004) -> LabStatus:
    parts = (
        PartStatus("consul", "127.0.20.1:8500", 12, True, "leader 127.0.20.1:8300"),
        PartStatus(
            "cache-001/memcached",
            "127.0.20.10:11211",
            None if down else 13,
            not down,
            "not running" if down else "1.6.18",
        ),
    )
    return LabStatus(Path("/tmp/lab"), 20, "peak", parts, {"boot": lag, "load": 0.001})


def test_lab_status_has_every_part_and_the_lag():
    text = lab_command.status_text(lab(), Look(100))
    assert "2 parts, all up" in text
    assert re.search(r"ok +consul +127\.0\.20\.1:8500 +pid 12 +leader", text)
    assert "event-loop lag: boot 4 ms, load 1 ms" in text


def test_lab_status_says_what_is_down_and_when_results_are_void():
    text = lab_command.status_text(lab(down=True, lag=0.4), Look(100))
    assert text.startswith("1 of 2 parts are down")
    assert re.search(r"DOWN +cache-001/memcached .* no process +not running", text)
    assert "above 250 ms (boot): what is measured now is void" in text


def test_lab_status_without_a_lab_says_how_to_start_one(tmp_path: Path):
    done = run("lab", "status", "--dir", str(tmp_path))
    assert done.exit_code == 1
    assert "guardrail lab up" in done.stderr


def test_lab_status_exits_1_when_a_part_is_down(tmp_path: Path):
    Register(Layout(tmp_path), "none", 0.0, "peak").write()
    assert run("lab", "status", "--dir", str(tmp_path)).exit_code == 1
    done = run("lab", "status", "--dir", str(tmp_path), "--json")
    assert (done.exit_code, json.loads(done.stdout)["ok"]) == (1, False)


def test_a_lab_without_its_extra_says_what_to_install(monkeypatch):
    monkeypatch.setattr(lab_command, "EXTRA", ("uvloop", "no_such_module_at_all"))
    for words in (("up",), ("status",), ("down",)):
        done = run("lab", *words)
        assert done.exit_code == 1
        assert "pip install 'guardrail-orchestrator[lab]'" in done.stderr


def test_a_lab_of_no_such_size_is_a_wrong_word(tmp_path: Path):
    done = run("lab", "up", "--hosts", "3", "--dir", str(tmp_path))
    assert done.exit_code == 2


def test_a_freeze_that_stands_is_shown_and_what_cannot_be_read(
    here: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    shown = " ".join(planned(here).output.split())
    unread = "warning: whether a freeze stands is not known: command: Temporal at 127.0.0.1:1"
    assert unread in shown
    (tmp_path / "freeze.yaml").write_text("reason: this machine moves\n")
    monkeypatch.setenv("GUARDRAIL_FREEZE_FILE", str(tmp_path / "freeze.yaml"))
    done = planned(here, "-o", str(tmp_path / "plan.json"))
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    assert "warning: no host begins now: frozen since" in shown
    assert "this machine moves" in shown
    agreed = json.loads((tmp_path / "plan.json").read_text())["contract"]["plan"]
    assert not [told for told in agreed["warnings"] if "begins now: frozen" in told]
