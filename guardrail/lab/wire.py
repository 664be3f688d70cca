"""How do the lab's own processes speak HTTP to each other, to Prometheus and to Consul?

Just enough of HTTP/1.1 for loopback between parts that we start ourselves: a server whose
handlers get a path and a query, and a client that keeps connections open. At 300 requests a
second a general library costs more processor time than all the parts together, and a stall of
the machine tips the lab over.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Query = dict[str, str]
Reply = tuple[int, str]
Handler = Callable[[Query], Awaitable[Reply]]

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}
LARGEST_BODY = 4_000_000


async def _headers(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return first, {name.strip().lower(): value.strip() for name, _, value in pairs}


@dataclass(frozen=True, slots=True)
class Server:
    """Routes are "METHOD /path"; a POST changes something, a GET never does."""

    routes: Mapping[str, Handler]

    async def listen(self, host: str, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._serve, host, port, backlog=1024)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether another may follow."""
        first, headers = await _headers(reader)
        await reader.readexactly(int(headers.get("content-length", "0")))
        status, body = await self._answer(first)
        data = body.encode()
        head = (
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\n"
            f"Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        writer.write(head.encode() + data)
        await writer.drain()
        return headers.get("connection", "").lower() != "close"

    async def _answer(self, first: str) -> Reply:
        method, target, _ = first.split(" ", 2)
        url = urlsplit(target)
        handler = self.routes.get(f"{method} {url.path}")
        if not handler:
            known = any(route.endswith(f" {url.path}") for route in self.routes)
            return (405, f"{url.path} is not for {method}\n") if known else (404, "no such path\n")
        try:
            return await handler(dict(parse_qsl(url.query)))
        except (KeyError, ValueError) as fault:
            return 400, f"{fault}\n"


class Client:
    """A pool of kept-alive connections to one host and port."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def request(
        self, method: str, target: str, body: bytes = b"", within: float = 5.0
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers, body. Raises OSError when not answered in time or broken off."""
        try:
            async with asyncio.timeout(within):
                return await self._exchange(method, target, body)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as fault:
            raise ConnectionError(f"{self._host}:{self._port} broke off: {fault}") from fault

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop()[1].close()

    async def _exchange(
        self, method: str, target: str, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        reader, writer = await self._connection()
        try:
            head = f"{method} {target} HTTP/1.1\r\nHost: lab\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            first, headers = await _headers(reader)
            content = await self._body(reader, headers)
        except BaseException:
            writer.close()
            raise
        self._idle.append((reader, writer))
        return int(first.split(" ", 2)[1]), headers, content

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port)

    async def _body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", ""):
            return await reader.readexactly(int(headers.get("content-length", "0")))
        parts: list[bytes] = []
        while size := int(await reader.readline(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readline()
        return b"".join(parts)


async def consul_read(
    client: Client, path: str, index: int, wait: int = 30
) -> tuple[int, list[dict[str, Any]]]:
    """One blocking query: the next index and the entries. Raises OSError or ValueError."""
    joint = "&" if "?" in path else "?"
    target = f"{path}{joint}index={index}&wait={wait}s"
    status, headers, body = await client.request("GET", target, within=wait * 1.2 + 5)
    if status not in {200, 404}:
        raise OSError(f"consul says {status} for {path}: {body[:120].decode(errors='replace')}")
    entries: list[dict[str, Any]] = json.loads(body) if status == 200 else []
    return int(headers.get("x-consul-index", "0")), entries


class LoopLag:
    """How late this process's event loop runs: the worst of the last second and of all time."""

    def __init__(self) -> None:
        self.last = 0.0
        self.worst = 0.0

    async def measure(self, every: float = 0.05) -> None:
        """Runs until cancelled. A run with more than 0.25 s of lag is void."""
        loop = asyncio.get_running_loop()
        recent: list[float] = []
        while True:
            before = loop.time()
            await asyncio.sleep(every)
            late = max(0.0, loop.time() - before - every)
            recent = [*recent[-19:], late]
            self.last, self.worst = max(recent), max(self.worst, late)

    def lines(self) -> list[str]:
        return [
            sample("lab_event_loop_lag_seconds", self.last),
            sample("lab_event_loop_lag_worst_seconds", self.worst),
        ]


def sample(name: str, value: float, **labels: str) -> str:
    """One line of Prometheus' text format."""
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value:.12g}" if inside else f"{name} {value:.12g}"


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run a part on uvloop until it is told to stop."""
    import uvloop

    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_whole(main))
    sys.exit(0)


async def _whole(main: Callable[[], Awaitable[None]]) -> None:
    await main()
