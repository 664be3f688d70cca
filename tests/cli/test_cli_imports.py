"""What a command imports before it does anything: what it needs, and no other command's."""

import json
import logging
import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
import typer
from cli_engine import free_port

from guardrail import cli, logs
from guardrail.cli import rollout

HEAVY = {
    "apprise",
    "asyncssh",
    "cryptography",
    "holidays",
    "icalendar",
    "recurring_ical_events",
    "structlog",
    "guardrail.decide.transition",
    "guardrail.edges.compose",
    "guardrail.files.loader",
    "guardrail.lab",
    "guardrail.planning",
    "guardrail.simulation",
    "temporalio.worker",
}
"""What takes long to import and is of no use to who looks at an operation or stops it."""

RUN = """
import json, sys
from guardrail.cli import app
try:
    app()
finally:
    print(json.dumps(sorted(sys.modules)))
"""


def imported(folder: Path, *words: str, code: str = RUN, **environment: str) -> set[str]:
    """The modules that a process had when it ended."""
    own = {
        "GUARDRAIL_STATE": str(folder),
        "TEMPORAL_ADDRESS": f"127.0.0.1:{free_port()}",
        "TEMPORAL_CONFIG_FILE": "/nonexistent/temporal.toml",
    }
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    ended = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**kept, **own, **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.stdout, ended.stderr
    return set(json.loads(ended.stdout.splitlines()[-1]))


@pytest.mark.parametrize("words", ["rollout status op", "stop", "freeze status"])
def test_a_command_that_is_needed_at_once_imports_nothing_heavy(words, tmp_path):
    found = imported(tmp_path, *words.split())
    # It came as far as asking Temporal.
    assert {f"guardrail.cli.{words.split()[0]}", "temporalio.client"} <= found
    assert not HEAVY & found


@pytest.mark.parametrize(
    ("words", "without"),
    [
        ("plan --help", {"asyncssh", "guardrail.simulation", "guardrail.lab"}),
        ("lab --help", {"temporalio", "guardrail.files.loader", "guardrail.cli.rollout"}),
    ],
)
def test_no_command_imports_what_another_one_needs(words, without, tmp_path):
    assert not without & imported(tmp_path, *words.split())


def test_the_shell_completes_a_name_with_that_commands_module_only(tmp_path):
    asked = {
        "_GUARDRAIL_COMPLETE": "complete_bash",
        "COMP_WORDS": "guardrail sto",
        "COMP_CWORD": "1",
    }
    found = imported(tmp_path, code=RUN.replace("app()", "app(prog_name='guardrail')"), **asked)
    assert "guardrail.cli.stop" in found
    assert not {"guardrail.cli.rollout", "guardrail.cli.plan"} & found


def test_every_module_with_commands_is_in_a_table():
    modules = {module.name for module in pkgutil.iter_modules(cli.__path__)}
    with_commands = {
        name
        for name in modules
        if isinstance(getattr(import_module(f"guardrail.cli.{name}"), "app", None), typer.Typer)
    }
    tables = (cli.Root.later, rollout.Rollout.later)
    assert with_commands == {module for table in tables for module in table.values()}


def test_a_worker_has_asyncssh_before_its_first_host(tmp_path):
    code = "import guardrail_workflows.worker, json, sys; print(json.dumps(sorted(sys.modules)))"
    assert "asyncssh" in imported(tmp_path, code=code)


def test_a_log_line_on_a_pipe_is_json_time_level_and_words_first(monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", root.handlers[:])
    monkeypatch.setattr(root, "level", root.level)
    stream = StringIO()
    logs.set_up(stream)
    logging.getLogger("guardrail.test").warning("%s hosts", 3, extra={"operation": "op"})
    (line,) = stream.getvalue().splitlines()
    said = json.loads(line)
    assert list(said)[:3] == ["timestamp", "level", "event"]
    assert (said["level"], said["event"], said["operation"]) == ("warning", "3 hosts", "op")
