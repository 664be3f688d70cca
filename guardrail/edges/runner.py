"""How are the steps of a change run on a host once, whatever becomes of the connection?

The host's part is `runner.sh`, sent to `sh` on standard input; here is the other end of the talk.
Both drivers use it, over SSH and on this machine: whoever opens a shell gives `converse` its two
ends. The host says "ready", the permit is asked, "go" is said, and from then on only the host
knows: its state folder can be read by a later attempt of the same turn.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from importlib.resources import files
from typing import Protocol
from urllib.parse import quote

from guardrail.errors import Refused
from guardrail.model.fleet import Host
from guardrail.ports import Permit, StepRequest, StepResult, Unreachable

SCRIPT = files("guardrail.edges").joinpath("runner.sh").read_bytes()
ANSWER = b"guardrail:"
MOST_OUTPUT = 64 * 1024
_MOST_NOISE = 20
_TRIES = 3
SLACK = 10.0
"""Seconds beyond the host's own limit before its silence is taken for silence."""


class Reader(Protocol):
    """What the host says; at the end, empty bytes."""

    async def readline(self) -> bytes: ...
    async def read(self, n: int = -1, /) -> bytes: ...


class Writer(Protocol):
    """What the host is told."""

    def write(self, data: bytes, /) -> None: ...
    async def drain(self) -> None: ...
    def write_eof(self) -> None: ...


class Shell(Protocol):
    """A running `sh` on the host."""

    @property
    def reader(self) -> Reader: ...
    @property
    def writer(self) -> Writer: ...
    def status(self) -> Awaitable[int | None]:
        """The exit status; None: the connection died before one came."""
        ...


OpenShell = Callable[[list[str]], AbstractAsyncContextManager[Shell]]
"""Start `sh -s -- ARGUMENTS`; leaving the context closes it, on every path."""


def file_name(name: str) -> str:
    """A name as one path component that no shell and no file system reads otherwise."""
    encoded = quote(name, safe="").replace("~", "%7E")
    return "%2E" + encoded[1:] if encoded.startswith(".") else encoded


def arguments(host: Host, request: StepRequest) -> list[str]:
    """The runner's arguments; raises Refused for steps that no host can run as they stand."""
    names = [request.operation, host.name, request.agent, request.direction]
    if any(not name for name in names):
        raise Refused(f"a run on {host.name!r} lacks a name: operation, host, agent and direction")
    token = request.token
    numbers = [token.lease, token.turn, token.attempt, max(1, int(request.limit))]
    steps = [part for step in request.steps for part in (str(len(step)), *checked(step))]
    operation, *others = [file_name(name) for name in names]
    # No file name of ours has an "@": what follows it is the run.
    run = f"@{file_name(request.run)}" if request.run else ""
    return [f"{operation}{run}", *others, *(str(number) for number in numbers), *steps]


def checked(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command, if it is one: a program first, no zero bytes. Raises Refused."""
    if not command or not command[0] or command[0].startswith("-"):
        raise Refused(f"a command begins with the name of a program, not {command[:1]}")
    if any("\0" in word for word in command):
        raise Refused(f"a zero byte cannot be part of a command: {command[0]}")
    return command


async def run_steps(
    open_shell: OpenShell, host: Host, request: StepRequest, permit: Permit
) -> StepResult:
    """Run the steps once; asks the permit at the last moment, each time the host is ready.

    A "go" that came too late began nothing, so the same is tried again (a slow network would
    otherwise send hosts back to the queue for nothing). Raises Unreachable.
    """
    words = arguments(host, request)
    result = StepResult("not_begun", reason="never tried")
    for _ in range(_TRIES):
        allowed: list[bool] = []

        async def asked(allowed: list[bool] = allowed) -> bool:
            allowed.append(await permit())
            return allowed[-1]

        result = await _once(open_shell, host, words, request, asked)
        if result.kind != "not_begun" or not allowed:
            break
        if not allowed[-1]:
            return StepResult("not_begun", reason="the permit was refused: it may not begin now")
    return result


async def _once(
    open_shell: OpenShell, host: Host, words: list[str], request: StepRequest, permit: Permit
) -> StepResult:
    limit, look_again = request.limit, request.look_again
    try:
        async with asyncio.timeout(limit + SLACK):
            async with open_shell(words) as shell:
                return await converse(shell, host, permit, look_again=look_again)
    except TimeoutError:
        raise Unreachable(f"{host.name} was silent past {limit + SLACK:g} s") from None


async def converse(
    shell: Shell, host: Host, permit: Permit, *, look_again: bool = False
) -> StepResult:
    """Send the script, say "go" if the permit allows it, and hear what became of the steps.

    look_again: as in `StepRequest`; then a host where others have worked is not told "go".
    """
    noise: list[str] = []
    others = False  # whether steps of others may have ended since the caller has looked
    try:
        await _send(shell, SCRIPT)
        while line := await shell.reader.readline():
            if not line.startswith(ANSWER):
                noise = [*noise, line.decode(errors="replace").strip()][-_MOST_NOISE:]
                continue
            kind, _, rest = line.removeprefix(ANSWER).decode(errors="replace").partition(" ")
            if kind == "wait":
                others = look_again
            elif kind.strip() == "ready":
                others = others or (look_again and bool(rest.strip()))
                await _tell(shell, not others and await permit())
            else:
                result = await _hear(shell, host, kind, rest.strip())
                seen_late = others and result.kind == "not_begun"
                return replace(result, kind="look_again") if seen_late else result
    except (OSError, ValueError) as fault:  # ValueError: a line without an end
        raise Unreachable(f"the connection to {host.name} died: {fault}") from fault
    status = await shell.status()
    said = f" ({' / '.join(noise)})" if noise else ""
    if status is None:
        raise Unreachable(f"the connection to {host.name} died before an answer came{said}")
    raise Unreachable(f"the runner on {host.name} ended without an answer, status {status}{said}")


async def _tell(shell: Shell, allowed: bool) -> None:
    if allowed:
        await _send(shell, b"go\n")
        return
    with suppress(OSError):
        shell.writer.write_eof()


async def _send(shell: Shell, data: bytes) -> None:
    # The host may have ended, or given up waiting; what it said by then is there to be read.
    with suppress(OSError):
        shell.writer.write(data)
        await shell.writer.drain()


async def _hear(shell: Shell, host: Host, kind: str, rest: str) -> StepResult:
    """The last line; "done" is followed by the output and counts only with the shell's own end."""
    output = await read_capped(shell.reader)
    status = await shell.status()
    if status != 0:
        raise Unreachable(f"the connection to {host.name} died while it answered ({kind})")
    if kind == "done" and rest.isdigit():
        return StepResult("done", exit_status=int(rest), output=output)
    if kind in ("not_begun", "refused", "blocked", "running", "died"):
        return StepResult(kind, output=output, reason=rest)
    raise Unreachable(f"the runner on {host.name} gave an answer that means nothing: {kind} {rest}")


async def read_capped(reader: Reader) -> str:
    """All there is to read, of which the first 64 KiB are kept; the rest is let through."""
    kept = b""
    more = 0
    while data := await reader.read(MOST_OUTPUT):
        room = MOST_OUTPUT - len(kept)
        kept += data[:room]
        more += max(0, len(data) - room)
    text = kept.decode(errors="replace")
    return f"{text}\n[{more} more bytes were cut]" if more else text
