"""How every command ends: its exit code, one message, and never a traceback."""

import asyncio
import re
import signal
import socket
import time
from pathlib import Path

import pytest
import typer
from cli_engine import FILES, Line, free_port, line
from typer.main import get_command
from typer.testing import CliRunner

from guardrail import cli
from guardrail.cli import session
from guardrail.errors import Fault, InvalidFile, Refused, Unanswered
from guardrail.settings import Settings

runner = CliRunner()


def commands(command=None, path=()):
    """Every command there is, with the words that call it."""
    command = command or get_command(cli.app)
    below = getattr(command, "commands", None)
    if not below:
        yield path, command
    for name, child in (below or {}).items():
        yield from commands(child, (*path, name))


ALL = dict(commands())


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_an_example(path):
    ended = runner.invoke(cli.app, [*path, "--help"])
    assert ended.exit_code == 0
    command = "guardrail " + " ".join(path)
    shown = " ".join(ended.output.split())
    assert "Example" in shown
    assert command in shown.split("Example", 1)[1]
    assert ALL[path].help, "a command says what it does"


def test_the_commands_of_this_issue_are_there():
    names = {" ".join(path) for path in ALL}
    verbs = [
        "start",
        "status",
        "list",
        "watch",
        "pause",
        "resume",
        "approve",
        "retry",
        "skip",
        "abort",
        "explain",
    ]
    assert {f"rollout {verb}" for verb in verbs} | {"up", "worker", "stop"} <= names


# ---------------------------------------------------------------- codes from errors


def end_with(monkeypatch, error):
    """Run `rollout list` where its work raises this error."""

    def raises(_work, *_):
        _work.close()
        raise error

    monkeypatch.setattr("guardrail.cli.rollout.run", raises)
    return runner.invoke(cli.app, ["rollout", "list"])


FAULTS = (Fault("a.yaml", 3, 7, "unknown key `x`"), Fault("a.yaml", 9, 1, "no fleet"))


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Refused("not allowed", "for two reasons"), 1, "not allowed\nfor two reasons\n"),
        (InvalidFile(FAULTS), 2, "a.yaml:3:7: unknown key `x`\na.yaml:9:1: no fleet\n"),
        (
            Unanswered("Temporal", "127.0.0.1:1", "connection refused"),
            3,
            "Temporal at 127.0.0.1:1 did not answer: connection refused\n",
        ),
        (
            session.Interrupted("op-1"),
            130,
            "The operation goes on; come back with: guardrail rollout watch op-1\n",
        ),
    ],
)
def test_an_error_is_its_message_and_its_code(monkeypatch, error, code, said):
    ended = end_with(monkeypatch, error)
    assert (ended.exit_code, ended.stderr, ended.stdout) == (code, said, "")


def test_ctrl_c_anywhere_is_130(monkeypatch):
    ended = end_with(monkeypatch, KeyboardInterrupt())
    assert ended.exit_code == 130
    assert "Operations go on" in ended.stderr


def test_an_error_of_our_own_is_one_line_and_kept_in_a_log(monkeypatch, tmp_path):
    monkeypatch.setenv("GUARDRAIL_STATE", str(tmp_path))
    ended = end_with(monkeypatch, ZeroDivisionError("a\nb"))
    log = tmp_path / "logs" / "errors.log"
    assert ended.exit_code == 1
    assert ended.stderr.count("\n") == 1
    assert "ZeroDivisionError: a b" in ended.stderr
    assert str(log) in ended.stderr
    assert "Traceback" in log.read_text()


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setenv("GUARDRAIL_DEBUG", "1")
    ended = end_with(monkeypatch, ZeroDivisionError("boom"))
    assert isinstance(ended.exception, ZeroDivisionError)


@pytest.mark.parametrize("words", [["rollout", "nothing"], ["rollout", "approve"], ["up", "--x"]])
def test_wrong_usage_is_2(words):
    ended = runner.invoke(cli.app, words)
    assert ended.exit_code == 2
    assert "Usage" in ended.stderr


def test_a_malformed_rollout_is_2_with_every_place(tmp_path):
    file = tmp_path / "r.yaml"
    file.write_text(
        FILES.replace("stages:", "stagez:").replace("cache-001,", "cache-001, port: x,")
    )
    ended = runner.invoke(cli.app, ["rollout", "start", str(file)])
    assert ended.exit_code == 2
    places = re.findall(rf"^{re.escape(str(file))}:\d+:\d+: .+$", ended.stderr, re.M)
    assert len(places) == len(ended.stderr.splitlines()) >= 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rollout", "start", "FILE", "--name", "../x"], "cannot be an operation's name"),
        (["up", "--source", "/nonexistent/policies"], "is not a folder"),
    ],
)
def test_what_is_not_allowed_is_1(words, said, tmp_path):
    file = tmp_path / "r.yaml"
    file.write_text(FILES)
    ended = runner.invoke(cli.app, [str(file) if word == "FILE" else word for word in words])
    assert ended.exit_code == 1
    assert said in ended.stderr


def test_a_wrong_setting_names_its_variable(monkeypatch):
    monkeypatch.setenv("GUARDRAIL_STATE", "~nobody-of-this-name/x")
    with pytest.raises(Refused, match="GUARDRAIL_STATE"):
        Settings.read()


def test_a_relative_xdg_state_folder_is_ignored(monkeypatch):
    monkeypatch.delenv("GUARDRAIL_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert Settings.read().state == Path.home() / ".local/state/guardrail"


def test_nobody_is_asked_for_a_name(monkeypatch):
    monkeypatch.delenv("GUARDRAIL_USER", raising=False)

    def no_login():
        raise OSError("no login name")

    monkeypatch.setattr("getpass.getuser", no_login)
    with pytest.raises(Refused, match="--by NAME"):
        session.person(" ", Settings.read())


# ---------------------------------------------------------------- Temporal that does not answer

SAYING = [
    ("rollout", "list"),
    ("rollout", "status", "op"),
    ("rollout", "pause", "op"),
    ("rollout", "watch", "op"),
    ("stop",),
    ("worker",),
]


@pytest.mark.parametrize("words", SAYING, ids=" ".join)
async def test_a_closed_port_is_3_at_once(words, tmp_path):
    address = f"127.0.0.1:{free_port()}"
    began = time.monotonic()
    ended = await line(tmp_path, address)(*words)
    assert ended.code == 3
    assert ended.out == ""
    hint = "(is it running? guardrail up starts one)"
    assert ended.err == f"Temporal at {address} did not answer: connection refused {hint}\n"
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("words", [("rollout", "list"), ("stop",)], ids=" ".join)
async def test_a_silent_temporal_is_3_in_bounded_time(words, tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        ended = await line(tmp_path, address)(*words)
    assert ended.code == 3
    assert ended.err == f"Temporal at {address} did not answer: no answer within 3 s\n"
    assert time.monotonic() - began < 12


async def test_something_that_is_not_temporal_is_3(tmp_path):
    async def answer(_reader, writer):
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        ended = await line(tmp_path, f"127.0.0.1:{port}")("rollout", "list")
    assert ended.code == 3
    assert ended.err.startswith(f"Temporal at 127.0.0.1:{port} did not answer: ")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TEMPORAL_PROFILE", "nowhere", "Profile 'nowhere' not found"),
        ("TEMPORAL_TLS_CLIENT_CERT_PATH", "/nonexistent.pem", "No such file"),
        ("TEMPORAL_ADDRESS", "no-port", "is not HOST:PORT"),
    ],
)
async def test_a_wrong_temporal_configuration_is_1(variable, value, said, tmp_path):
    ended = await line(tmp_path, **{variable: value})("rollout", "list")
    assert ended.code == 1
    assert said in ended.err
    assert "Traceback" not in ended.err


async def test_ctrl_c_while_waiting_for_an_answer(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        command: Line = line(tmp_path, f"127.0.0.1:{silent.getsockname()[1]}")
        process = await command.start("rollout", "status", "op")
        loop = asyncio.get_running_loop()
        heard, _ = await asyncio.wait_for(loop.run_in_executor(None, silent.accept), 20)
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 20)
        heard.close()
    assert process.returncode == 130
    assert b"come back with: guardrail rollout" in err
    assert b"Traceback" not in err


def test_the_root_is_one_typer_app():
    assert isinstance(cli.app, typer.Typer)
