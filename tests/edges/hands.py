"""What tests of both drivers share: a driver with its host's places, permits, and patience."""

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from guardrail.model.fleet import Host
from guardrail.ports import HostDriver

last = itertools.count(1)
_addresses = itertools.count()


def own_address() -> str:
    """A loopback address that no other test, here or in another process, uses."""
    pid, count = os.getpid(), next(_addresses)
    return f"127.{64 + pid // 250 % 60 + 60 * (count // 250)}.{1 + pid % 250}.{1 + count % 250}"


@dataclass
class Hands:
    """A driver and the place where its host keeps state; `cut` ends its connections."""

    driver: HostDriver
    state: Path
    folder: Path
    host: Host
    cut: Callable[[], None]
    another: Callable[[], HostDriver]

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def adding(self, name: str, *then: str) -> tuple[str, ...]:
        """A step that adds a line to a file, and then does more."""
        script = f'echo ran >>"$0"; {"; ".join(then)}'
        return ("sh", "-c", script, str(self.folder / name))

    def run_folder(self, operation: str, direction: str, turn: int) -> Path:
        return self.state / "runs" / operation / self.host.name / f"{direction}-{turn}"


def cut_shells() -> None:
    """Kill the shells that this process talks to; what they detached lives on."""
    for pid in Path("/proc/self/task").glob("*/children"):
        for child in pid.read_text().split():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{child}/comm").read_text() == "sh\n":
                    os.kill(int(child), signal.SIGKILL)


async def yes() -> bool:
    return True


async def no() -> bool:
    return False


async def until(condition: Callable[[], object], limit: float = 10.0) -> None:
    """Wait for something to be true of real parts; fails past the limit."""
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110  (nothing tells us but the files)
            await asyncio.sleep(0.02)
