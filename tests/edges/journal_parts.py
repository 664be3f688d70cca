"""Entries for tests of the journal, and children that are killed while they write."""

import os
import signal
from collections.abc import Callable

from guardrail.model.journal import Entry, EntryId, HostAsked, HostTold

T = 1_764_458_110.25


def entry(event: int, part: int = 0, *, run: str = "", reason: str = "", op: str = "op") -> Entry:
    """The entry with that id; always the same one."""
    record: HostAsked | HostTold = HostAsked(event, event + 1, "forward")
    if part or reason:
        record = HostTold(event, event + 1, f"cache-{event:03d}", "failed", reason or "exit 4", 5)
    return Entry(op, EntryId(run, event, part), T + event, record)


def batch(*events: int, run: str = "") -> list[Entry]:
    return [entry(event, part, run=run) for event in events for part in (0, 1)]


def ids(entries: list[Entry]) -> list[EntryId]:
    return [each.id for each in entries]


def child(work: Callable[[int], None]) -> tuple[int, int]:
    """Fork; the child runs `work` with a pipe to write to, and ends. (pid, the pipe's other end)"""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    code = 1
    try:
        os.close(read)
        work(write)
        code = 0
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    """Wait for a child; its exit code, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    assert ended(pid) == -signal.SIGKILL


def heard(pipe: int) -> bytes:
    """All that a child has written, once it is gone."""
    with os.fdopen(pipe, "rb") as said:
        return said.read()
