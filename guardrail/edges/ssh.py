"""How is a host reached over SSH, and when may its answer be believed?

One connection a host, reused, in a bounded pool. Host keys are always checked. A command whose
exit status did not come is `Unreachable`, never success: when a connection dies in the middle of
a command asyncssh returns normally, with an exit status of None.
"""

import asyncio
import shlex
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import asyncssh

from guardrail.edges.runner import Reader, Shell, Writer, checked, read_capped, run_steps
from guardrail.edges.ssh_options import Hop, hops, options
from guardrail.errors import Refused
from guardrail.model.change import Command
from guardrail.model.fleet import Host, SshReach
from guardrail.ports import BadCredentials, Permit, StepRequest, StepResult, Unreachable

CONNECT_LIMIT = 10.0
"""Seconds for reaching a host and logging in, all jumps included."""

_CLOSE_LIMIT = 2.0
_MOST_CONNECTIONS = 256
_MOST_CONNECTING = 32
_SESSIONS_EACH = 8  # OpenSSH's MaxSessions is 10


@dataclass(slots=True)
class _Line:
    """The connection to one address. `users` counts the calls that use it now."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    sessions: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_SESSIONS_EACH))
    connections: list[asyncssh.SSHClientConnection] = field(default_factory=list)
    users: int = 0


@dataclass(frozen=True, slots=True)
class _RemoteShell:
    process: asyncssh.SSHClientProcess[bytes]

    @property
    def reader(self) -> Reader:
        return cast("Reader", self.process.stdout)

    @property
    def writer(self) -> Writer:
        return cast("Writer", self.process.stdin)

    async def status(self) -> int | None:
        await self.process.wait_closed()
        # A command that a signal ended has a status too: -1, by asyncssh's convention.
        return self.process.exit_status


class SshDriver:
    """The `ssh` driver of one fleet. `close` it at the end."""

    def __init__(self, reach: SshReach, *, most_connections: int = _MOST_CONNECTIONS) -> None:
        self.reach = reach
        self.most_connections = most_connections
        self._lines: OrderedDict[str, _Line] = OrderedDict()
        self._connecting = asyncio.Semaphore(_MOST_CONNECTING)
        self._ahead: set[asyncio.Task[None]] = set()

    async def run(self, host: Host, command: Command, *, limit: float) -> tuple[int, str]:
        """A harmless command; output is capped at 64 KiB. Raises Unreachable, BadCredentials."""
        words = shlex.join(checked(command))
        try:
            async with asyncio.timeout(limit), self._process(host, words, stdin=False) as process:
                output = await read_capped(cast("Reader", process.stdout))
                status = await _RemoteShell(process).status()
        except TimeoutError:
            raise Unreachable(f"{host.name}: {words} did not end within {limit:g} s") from None
        if status is None:
            raise Unreachable(f"{host.name} lost the connection before an exit status came")
        return status, output

    async def apply(self, host: Host, request: StepRequest, permit: Permit) -> StepResult:
        """The steps, on the host, once. Raises Unreachable, BadCredentials."""

        @asynccontextmanager
        async def open_shell(words: list[str]) -> AsyncIterator[Shell]:
            command = shlex.join(("sh", "-s", "--", *words))
            async with self._process(host, command, stdin=True) as process:
                yield _RemoteShell(process)

        return await run_steps(open_shell, host, request, permit)

    def ahead(self, host: Host) -> None:
        """Connect to a host whose turn is near, beside whatever goes on."""
        reaching = asyncio.create_task(self._reach(host))
        self._ahead.add(reaching)
        reaching.add_done_callback(self._ahead.discard)

    async def _reach(self, host: Host) -> None:
        with suppress(Exception):  # it is tried again, and told, when the host's turn comes
            async with self._line(host) as line:
                await self._connection(host, line)

    async def close(self) -> None:
        """Close every connection; bounded in time."""
        ahead = list(self._ahead)
        for reaching in ahead:
            reaching.cancel()
        await asyncio.gather(*ahead, return_exceptions=True)
        lines, self._lines = list(self._lines.values()), OrderedDict()
        await asyncio.gather(*(_hang_up(line) for line in lines))

    # ------------------------------------------------------------ one process

    @asynccontextmanager
    async def _process(
        self, host: Host, command: str, *, stdin: bool
    ) -> AsyncIterator[asyncssh.SSHClientProcess[bytes]]:
        async with self._line(host) as line, line.sessions:
            with translated(host, "does not answer over SSH"):
                process = await self._start(host, line, command, stdin=stdin)
            try:
                with translated(host, "lost the connection before an exit status came"):
                    yield process
            finally:
                process.close()

    async def _start(
        self, host: Host, line: _Line, command: str, *, stdin: bool
    ) -> asyncssh.SSHClientProcess[bytes]:
        """Start it; once more on a new connection if the kept one turns out to be dead."""
        for kept in (True, False):
            connection = await self._connection(host, line)
            try:
                async with asyncio.timeout(CONNECT_LIMIT):
                    return await connection.create_process(
                        command,
                        encoding=None,
                        stdin=asyncssh.PIPE if stdin else asyncssh.DEVNULL,
                        stderr=asyncssh.STDOUT,
                    )
            except (asyncssh.ChannelOpenError, asyncssh.ConnectionLost, OSError):
                # Nothing was asked of the host yet: no channel was opened.
                if not kept or not connection.is_closed():
                    raise
        raise Unreachable(f"{host.name} does not keep a connection")

    # ------------------------------------------------------------ the pool

    @asynccontextmanager
    async def _line(self, host: Host) -> AsyncIterator[_Line]:
        line = self._lines.setdefault(host.address, _Line())
        self._lines.move_to_end(host.address)
        line.users += 1
        try:
            yield line
        finally:
            line.users -= 1
            await self._drop_idle()

    async def _drop_idle(self) -> None:
        """Beyond the bound, the connections that were not used for longest go."""
        surplus = len(self._lines) - self.most_connections
        idle = [name for name, line in self._lines.items() if line.users == 0]
        for name in idle[: max(0, surplus)]:
            await _hang_up(self._lines.pop(name))

    async def _connection(self, host: Host, line: _Line) -> asyncssh.SSHClientConnection:
        async with line.lock:
            if line.connections and not line.connections[-1].is_closed():
                return line.connections[-1]
            await _hang_up(line)
            line.connections = await self._dial(host)
            return line.connections[-1]

    async def _dial(self, host: Host) -> list[asyncssh.SSHClientConnection]:
        """The connections to the host, its jump hosts first."""
        dialled: list[asyncssh.SSHClientConnection] = []
        try:
            async with self._connecting, asyncio.timeout(CONNECT_LIMIT):
                for hop in hops(self.reach, host.address):
                    dialled.append(await self._dial_one(hop, dialled))
        except BaseException:
            await _hang_up(_Line(connections=dialled))
            raise
        return dialled

    async def _dial_one(
        self, hop: Hop, before: list[asyncssh.SSHClientConnection]
    ) -> asyncssh.SSHClientConnection:
        tunnel: Any = before[-1] if before else None  # never the file's: it is in `hops`
        return await asyncssh.connect(
            hop.host, options=options(self.reach, hop), tunnel=tunnel, config=None
        )


async def _hang_up(line: _Line) -> None:
    connections, line.connections = line.connections, []
    for connection in reversed(connections):
        connection.close()
        with suppress(Exception):
            async with asyncio.timeout(_CLOSE_LIMIT):
                await connection.wait_closed()
            continue
        connection.abort()


class translated:  # noqa: N801  (used as a verb: `with translated(...)`)
    """What asyncssh says, in the words of ports: who refused, and who was silent."""

    def __init__(self, host: Host, silence: str) -> None:
        self.host = host
        self.silence = silence

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        name = f"{self.host.name} ({self.host.address})"
        if isinstance(fault, asyncssh.HostKeyNotVerifiable | asyncssh.KeyExchangeFailed):
            raise BadCredentials(
                f"{name} is not who its host key should say: {fault}; compare its key with the "
                "known_hosts file, and add or correct the line only if it is the right machine"
            ) from fault
        if isinstance(fault, asyncssh.PermissionDenied):
            raise BadCredentials(
                f"{name} refuses to let us in: {fault.reason}; check user and key"
            ) from fault
        if isinstance(fault, asyncssh.KeyImportError | asyncssh.KeyEncryptionError):
            raise BadCredentials(f"the key for {name} cannot be used: {fault}") from fault
        if isinstance(fault, Refused):
            return
        if isinstance(fault, asyncssh.Error | OSError | TimeoutError):
            reason = str(fault) or "it did not answer in time"
            raise Unreachable(f"{name} {self.silence}: {reason}") from fault
