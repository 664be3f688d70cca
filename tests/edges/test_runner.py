"""Does the host's part of the runner hold on slow disks, full disks and in other shells?"""

import asyncio
import os
import shutil
from pathlib import Path

import pytest
from hands import until, yes

from guardrail.edges.exec import ExecDriver
from guardrail.edges.runner import SCRIPT, converse, file_name
from guardrail.model.fleet import Host
from guardrail.ports import StepRequest, StepResult, Token, Unreachable

pytestmark = pytest.mark.real
HOST = Host("test", "cache-001", "127.0.0.1", "a")


def request(step: str, operation: str = "op", limit: float = 10.0, attempt: int = 1) -> StepRequest:
    steps = (("sh", "-c", step),)
    return StepRequest(operation, "agent", "forward", Token(0, 1, attempt), steps, limit)


def with_tool(folder: Path, name: str, script: str) -> tuple[str, ...]:
    """A shell on whose PATH one tool is another."""
    folder.mkdir(exist_ok=True)
    tool = folder / name
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    return ("env", f"PATH={folder}:{os.environ['PATH']}", "sh")


@pytest.mark.parametrize("shell", [("dash",), ("bash",), ("bash", "--posix")])
async def test_other_shells_run_it_too(tmp_path: Path, shell: tuple[str, ...]) -> None:
    driver = ExecDriver(tmp_path / "state", shell)
    step = f"echo ran >>{tmp_path}/a; sleep 0.3; echo said; exit 3"
    both = (driver.apply(HOST, request(step, attempt=n), yes) for n in (1, 2))
    results = await asyncio.gather(*both)
    assert results[1] == StepResult("done", exit_status=3, output="said\n")
    assert (tmp_path / "a").read_text() == "ran\n"


async def test_a_begin_at_the_very_limit_is_never_told_as_nothing_begun(tmp_path: Path) -> None:
    """The lock comes free just before the limit, and the disk is slow: it begins after it."""
    slow = with_tool(tmp_path / "bin", "dd", 'sleep 0.5; exec /bin/dd "$@"')
    driver = ExecDriver(tmp_path / "state", slow)
    first = request(f"touch {tmp_path}/first; sleep 0.8", operation="other")
    running = asyncio.create_task(driver.apply(HOST, first, yes))
    await until((tmp_path / "first").exists)
    result = await driver.apply(HOST, request(f"touch {tmp_path}/a; sleep 1", limit=1.0), yes)
    await running
    await until((tmp_path / "a").exists)
    assert result.kind in ("running", "done")


async def test_a_begin_that_a_slow_disk_makes_late_does_not_happen(tmp_path: Path) -> None:
    slow = with_tool(tmp_path / "bin", "dd", 'exec 5>>"${1#of=}"; sleep 1.3; exec /bin/dd "$@"')
    driver = ExecDriver(tmp_path / "state", slow)
    result = await driver.apply(HOST, request(f"touch {tmp_path}/a"), yes)
    assert result.kind == "not_begun"
    assert not (tmp_path / "a").exists()
    assert not list((tmp_path / "state").rglob("begun"))


async def test_a_begin_that_cannot_be_recorded_does_not_happen(tmp_path: Path) -> None:
    full = with_tool(tmp_path / "bin", "dd", "exit 1")
    result = await ExecDriver(tmp_path / "state", full).apply(
        HOST, request(f"touch {tmp_path}/a"), yes
    )
    assert result.kind == "not_begun"
    assert not (tmp_path / "a").exists()


async def test_a_state_folder_that_cannot_be_made_is_blocked(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file stands in the way")
    result = await ExecDriver(tmp_path / "state").apply(HOST, request("true"), yes)
    assert result.kind == "blocked"
    assert "cannot be made on the host" in result.reason


async def test_a_host_without_a_tool_is_blocked_and_told_which(tmp_path: Path) -> None:
    folder = tmp_path / "few"
    folder.mkdir()
    for tool in ("sh", "cat", "uname", "tr", "mkdir", "setsid", "timeout", "dd", "tail"):
        (folder / tool).symlink_to(shutil.which(tool) or "")
    driver = ExecDriver(tmp_path / "state", ("env", f"PATH={folder}", "sh"))
    result = await driver.apply(HOST, request("true"), yes)
    assert (result.kind, "no flock" in result.reason) == ("blocked", True)


async def test_without_a_named_place_state_is_where_it_was_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a home folder holds runs it goes on being asked, whatever becomes writable."""
    (tmp_path / ".guardrail" / "runs").mkdir(parents=True)
    shell = ("env", "-u", "GUARDRAIL_STATE", f"HOME={tmp_path}", "sh")
    driver = ExecDriver(tmp_path / "state", shell)
    assert (await driver.apply(HOST, request("true"), yes)).kind == "done"
    assert (tmp_path / ".guardrail" / "runs" / "op" / "cache-001").is_dir()
    assert not (tmp_path / "state").exists()


def test_file_names_are_plain_and_never_meet() -> None:
    names = ["a", "a.b", ".", "..", ".a", "%2E", "%2e", "a/b", "a%2Fb", "~", "*", "", "\n", "é"]
    made = [file_name(name) for name in names]
    assert len(set(made)) == len(names)
    for name in made:
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789ABCDEF%._-"), name
        assert not name.startswith(".")


def test_the_script_is_one_whole_command() -> None:
    """In braces, it is parsed whole before the first line runs and "go" can follow."""
    assert SCRIPT.startswith(b"{\n")
    assert SCRIPT.endswith(b"\nexit 0\n}\n")


class Gone:
    """A shell that ended before the script was sent, after it had said why."""

    def __init__(self, ended: int | None) -> None:
        self.ended = ended
        self.reader = asyncio.StreamReader()
        self.reader.feed_data(b"out of order\n")
        self.reader.feed_eof()

    @property
    def writer(self) -> "Gone":
        return self

    def write(self, data: bytes, /) -> None:
        raise BrokenPipeError("Channel not open for sending")

    async def drain(self) -> None: ...

    def write_eof(self) -> None: ...

    async def status(self) -> int | None:
        return self.ended


@pytest.mark.parametrize(
    ("ended", "told"),
    [(5, r"status 5 \(out of order\)"), (None, r"died before an answer came \(out of order\)")],
)
async def test_a_shell_that_has_ended_before_the_script_came_is_heard(
    ended: int | None, told: str
) -> None:
    with pytest.raises(Unreachable, match=told):
        await converse(Gone(ended), HOST, yes)
