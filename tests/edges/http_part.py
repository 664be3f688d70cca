"""A small HTTP server on a real socket that answers what a test tells it to."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Answer:
    """`body` is sent as JSON unless it is text. `silent` accepts and says nothing, ever."""

    body: object = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    silent: bool = False


@dataclass
class Asked:
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]


@dataclass
class HttpPart:
    """`answers` by path, looked up at each request; 404 where there is none."""

    address: str
    port: int = 8500
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    silent: bool = False

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *rest = head.decode().strip().split("\r\n")
                target = urlsplit(first.split()[1])
                headers = dict(line.lower().split(": ", 1) for line in rest)
                self.asked.append(Asked(target.path, parse_qs(target.query), headers))
                answer = self.answers.get(target.path, Answer("not found", 404))
                if self.silent or answer.silent:
                    await reader.read()
                    return
                writer.write(encoded(answer))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return


def encoded(answer: Answer) -> bytes:
    text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
    lines = [f"HTTP/1.1 {answer.status} X", f"Content-Length: {len(text.encode())}"]
    lines += [f"{key}: {value}" for key, value in answer.headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n" + text).encode()


@asynccontextmanager
async def listening(handle: Handler, address: str, port: int) -> AsyncIterator[None]:
    """A server whose connections are all at their end when it is left."""
    open_now: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(handle(reader, writer))
        open_now[task] = writer
        await asyncio.wait({task})
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        del open_now[task]

    server = await asyncio.start_server(accept, address, port)
    try:
        yield
    finally:
        server.close()
        for task, writer in list(open_now.items()):
            task.cancel()
            writer.transport.abort()
        await server.wait_closed()
        while open_now:  # noqa: ASYNC110  (each round lets the handlers end)
            await asyncio.sleep(0)


@asynccontextmanager
async def serving(address: str, port: int = 8500) -> AsyncIterator[HttpPart]:
    part = HttpPart(address, port)
    async with listening(part.serve, address, port):
        yield part
