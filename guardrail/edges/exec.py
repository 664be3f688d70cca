"""How is a host changed by commands on this machine (ansible, tsh, salt and their like)?

Each step is one local command that names the host itself. The same host-side runner makes it
happen once; its state lies here, in one folder for each host.
"""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from guardrail.edges.runner import (
    Reader,
    Shell,
    Writer,
    checked,
    file_name,
    read_capped,
    run_steps,
)
from guardrail.model.change import Command
from guardrail.model.fleet import Host
from guardrail.ports import Permit, StepRequest, StepResult, Unreachable

_NOT_FOUND = 127
_NOT_RUNNABLE = 126


def default_state() -> Path:
    """Where markers are kept when no folder is named: under the XDG state folder."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "guardrail" / "hosts"


@dataclass(frozen=True, slots=True)
class _LocalShell:
    process: Process

    @property
    def reader(self) -> Reader:
        return cast("Reader", self.process.stdout)

    @property
    def writer(self) -> Writer:
        return cast("Writer", self.process.stdin)

    async def status(self) -> int | None:
        return await self.process.wait()


class ExecDriver:
    """The `exec` driver: commands run here, as this user."""

    def __init__(self, state: Path | None = None, shell: tuple[str, ...] = ("sh",)) -> None:
        self.state = state or default_state()
        self.shell = shell

    async def run(self, host: Host, command: Command, *, limit: float) -> tuple[int, str]:
        """A harmless command; 127 and 126 as a shell has them. Raises Unreachable past `limit`."""
        try:
            process = await _start(checked(command), stdin=asyncio.subprocess.DEVNULL)
        except FileNotFoundError:
            return _NOT_FOUND, f"{command[0]}: not found on this machine"
        except OSError as fault:
            return _NOT_RUNNABLE, f"{command[0]}: {fault}"
        try:
            async with asyncio.timeout(limit):
                output = await read_capped(cast("Reader", process.stdout))
                return await process.wait(), output
        except TimeoutError:
            what = " ".join(command)
            raise Unreachable(f"{host.name}: {what!r} did not end within {limit:g} s") from None
        finally:
            await _end(process)

    async def apply(self, host: Host, request: StepRequest, permit: Permit) -> StepResult:
        """The steps, once, under this host's lock on this machine."""

        @asynccontextmanager
        async def open_shell(words: list[str]) -> AsyncIterator[Shell]:
            place = {"GUARDRAIL_STATE": str(self.state / file_name(host.name))}
            command = (*self.shell, "-s", "--", *words)
            process = await _start(command, stdin=PIPE, env={**os.environ, **place})
            try:
                yield _LocalShell(process)
            finally:
                await _end(process)

        return await run_steps(open_shell, host, request, permit)

    def ahead(self, host: Host) -> None:
        """There is nothing to connect to."""

    async def close(self) -> None:
        """Nothing is kept open between calls."""


async def _start(command: Command, stdin: int, env: dict[str, str] | None = None) -> Process:
    return await asyncio.create_subprocess_exec(
        *command, stdin=stdin, stdout=PIPE, stderr=STDOUT, env=env, start_new_session=True
    )


async def _end(process: Process) -> None:
    """End what still runs of a command, with its children; detached steps are not among them."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    transport = getattr(process, "_transport", None)
    if transport is not None:  # pipes that a grandchild holds open would otherwise stay ours
        transport.close()
