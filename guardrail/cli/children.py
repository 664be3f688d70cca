"""How is a child process started, watched and stopped, so that none is ever left behind?

Each child has a session of its own, so that Ctrl-C at the terminal reaches `up` alone and the
order of stopping is ours; and each is tied to us (tied.py), so that it ends even when we are
killed. Its output goes to a log file, whose last lines are told when it dies.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from guardrail.cli import tied
from guardrail.logs import last_lines

LOG_LIMIT = 20_000_000
"""Bytes after which a log is set aside (one former log is kept)."""


@dataclass(slots=True)
class Child:
    """A running child. `name` is for people; its own log lines begin at byte `log_begins`."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    log_begins: int

    @property
    def pid(self) -> int:
        """Its process id; the same before and after exec."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.returncode is None

    def ended(self) -> str:
        """How it ended, with its log's last lines."""
        code = self.process.returncode
        how = f"killed by {_signal(-code)}" if code is not None and code < 0 else f"exit {code}"
        lines = [f"    {line}" for line in last_lines(self.log, since=self.log_begins)]
        return "\n".join([f"{self.name} ended ({how}); the last lines of {self.log}:", *lines])

    async def stop(self, patience: float) -> str:
        """Ask it to end, and after `patience` seconds make it. What was done, in words."""
        if not self.running:
            return f"{self.name} had ended"
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), patience)
        except TimeoutError:
            self.kill()
            await self.process.wait()
            return f"{self.name} did not end within {patience:g} s and was killed"
        return f"{self.name} stopped"

    def kill(self) -> None:
        """End it at once, with all that it started in its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


async def start(name: str, command: Sequence[str], log: Path) -> Child:
    """Start `command` (its first word an absolute path), output appended to `log`."""
    tie = [sys.executable, "-I", "-S", str(Path(tied.__file__)), str(os.getpid())]
    with _opened(log) as output:
        begins = output.tell()
        process = await asyncio.create_subprocess_exec(
            *tie,
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return Child(name, process, log, begins)


def _opened(log: Path) -> BinaryIO:
    """The log, for appending; one that has grown too large is set aside first."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        log.replace(log.with_suffix(".former.log"))
    return log.open("ab")


def _signal(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
