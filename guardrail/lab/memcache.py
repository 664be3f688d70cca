"""How does the boot service read and fill memcached?

The text protocol, pipelined on one connection a node: replies come in the order of the
requests, so a queue of futures is all the state there is. Values are read by their stated
length.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

CONNECT_TIMEOUT = 0.5
REPLY_TIMEOUT = 0.5


class Memcached:
    """One node. A call raises OSError when the node does not answer; the next reconnects."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[bytes, asyncio.Future[dict[str, str]]]] = deque()
        self._connecting = asyncio.Lock()

    async def get(self, keys: Sequence[str]) -> set[str]:
        """Which of these keys the node holds."""
        found = await self._ask(f"get {' '.join(keys)}\r\n".encode(), b"END")
        return set(found)

    async def stats(self) -> dict[str, str]:
        return await self._ask(b"stats\r\n", b"END")

    async def flush(self) -> None:
        """Empty the node; returns when it says so."""
        await self._ask(b"flush_all\r\n", b"OK")

    async def set(self, entries: Sequence[tuple[str, int]], value: str) -> None:
        """Store one value under each (key, seconds to live), without waiting for replies."""
        writer = await self._connection()
        data = (
            f"set {key} 0 {max(1, ttl)} {len(value)} noreply\r\n{value}\r\n" for key, ttl in entries
        )
        writer.write("".join(data).encode())

    async def _ask(self, request: bytes, end: bytes) -> dict[str, str]:
        writer = await self._connection()
        answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._waiting.append((end, answer))
        writer.write(request)
        try:
            async with asyncio.timeout(REPLY_TIMEOUT):
                return await answer
        except TimeoutError:
            self._drop(OSError(f"memcached at {self._host} does not answer"))
            raise

    async def _connection(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is None or self._writer.is_closing():
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    reader, self._writer = await asyncio.open_connection(self._host, self._port)
                self._reading = asyncio.create_task(self._read(reader))
            return self._writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        found: dict[str, str] = {}
        try:
            while line := await reader.readline():
                words = line.split()
                if words[0] == b"VALUE":
                    await reader.readexactly(int(words[3]) + 2)
                    found[words[1].decode()] = ""
                elif words[0] == b"STAT":
                    found[words[1].decode()] = b" ".join(words[2:]).decode()
                elif self._waiting and words[0] == self._waiting[0][0]:
                    _, answer = self._waiting.popleft()
                    if not answer.done():
                        answer.set_result(found)
                    found = {}
                else:
                    raise OSError(f"memcached at {self._host} says {line!r}")
            raise OSError(f"memcached at {self._host} closed the connection")
        except (OSError, asyncio.IncompleteReadError) as fault:
            self._drop(OSError(str(fault)))

    def _drop(self, fault: OSError) -> None:
        if self._writer:
            self._writer.close()
        self._writer = None
        if self._reading and self._reading is not asyncio.current_task():
            self._reading.cancel()
        while self._waiting:
            _, answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(fault)
                with suppress(BaseException):
                    answer.exception()  # seen, even when the asker has gone
