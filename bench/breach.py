"""How long from a breach appearing in Prometheus to the hold, and to the last host begun?

A real Prometheus scrapes a target whose value is flipped at a random moment; the moment of the
breach is the time of the first sample that is over the bound, as Prometheus itself keeps it. The
real watcher reads it with `failAfter: 1`. Several operations watch at once, each in its own phase.
"""

import asyncio
import json
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import httpx

from bench.parts import Bench, Shape, free_port, running, until
from bench.rows import Row, spread
from guardrail.cli.children import start
from guardrail.lab import tools
from guardrail.model import messages

EVERY = 1.0
SCRAPE = "200ms"
OPERATIONS = 5
ROUNDS = 10
QUERY = "max(bench_breach)"
BOUND = 0.5
PROMISED = EVERY / 2 + 0.15
"""Seconds: half of the gate's interval, and 150 ms."""


class Target:
    """An exporter of one value."""

    def __init__(self) -> None:
        self.value = 0.0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Its address, as long as the block lasts."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            body = f"bench_breach {self.value}\n".encode()
            head = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % len(body) + body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # it gave up; the next scrape comes
        finally:
            writer.close()


@asynccontextmanager
async def prometheus(target: str) -> AsyncIterator[str]:
    """A real Prometheus that scrapes the target, and its address."""
    found, _ = tools.find()
    with tempfile.TemporaryDirectory(prefix="guardrail-bench-") as name:
        folder, listen = Path(name), f"127.0.0.1:{free_port()}"
        jobs = [{"job_name": "bench", "static_configs": [{"targets": [target]}]}]
        settings = {"global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE}}
        (folder / "p.yml").write_text(json.dumps({**settings, "scrape_configs": jobs}))
        command = [str(found["prometheus"]), f"--config.file={folder}/p.yml"]
        command += [f"--storage.tsdb.path={folder}/data", f"--web.listen-address={listen}"]
        # A program of another package folder finds its libraries by its environment.
        words = [f"{key}={value}" for key, value in found.environment("prometheus").items()]
        child = await start("Prometheus", ["/usr/bin/env", *words, *command], folder / "log")
        try:
            await until(lambda: _answers(f"http://{listen}"), 30, "Prometheus answers", child)
            yield f"http://{listen}"
        finally:
            await child.stop(10)


async def _answers(address: str) -> bool:
    try:
        return bool(await samples(address))
    except (httpx.HTTPError, ValueError, KeyError):
        return False


async def samples(address: str) -> list[tuple[float, float]]:
    """The samples of the last 30 s: time (epoch) and value, oldest first."""
    async with httpx.AsyncClient(trust_env=False, timeout=2.0) as client:
        answer = await client.get(f"{address}/api/v1/query", params={"query": "bench_breach[30s]"})
    result = answer.json()["data"]["result"]
    return [(float(at), float(value)) for at, value in result[0]["values"]] if result else []


# ---------------------------------------------------------------- the tries


async def rows() -> list[Row]:
    """At least 50 tries: the hold, and the last host that began."""
    target = Target()
    holds: list[float] = []
    begins: list[float] = []
    async with (
        target.serving() as at,
        prometheus(at) as address,
        running(1, "--prometheus", address) as bench,
    ):
        names = [f"op-{n}" for n in range(OPERATIONS)]
        for name in names:
            await bench.begin(name, _shape())
        for _ in range(ROUNDS):
            await _until_all(bench, names, held=False)
            await asyncio.sleep(random.uniform(0.5, 0.5 + EVERY))  # noqa: S311 - a phase
            target.value = 1.0
            await _until_all(bench, names, held=True)
            breach = await _appeared(address)
            holds += [await _held_at(bench, name) - breach for name in names]
            await asyncio.sleep(0.5)
            begins += _last_begun(bench, names, breach)
            target.value = 0.0
    note = (
        f"real Prometheus 2 scraping every {SCRAPE}, gate every {EVERY:g} s, failAfter 1, "
        f"{OPERATIONS} operations at once; from the time of the first bad sample; "
    )
    share = sum(value <= PROMISED for value in holds) / len(holds)
    return [
        spread(
            "breach in Prometheus to the hold",
            holds,
            "s",
            at_most=PROMISED,
            note=note + f"{share:.0%} of the tries within it",
        ),
        spread(
            "breach in Prometheus to the last host begun",
            begins,
            "s",
            note=f"hosts begin all the time before; median of those that began after the breach: "
            f"{median(begins):.2f} s",
        ),
    ]


def _shape() -> Shape:
    # Paced by their own time: about 10 hosts begin in a second, so that the last one is telling.
    return Shape(
        20_000, in_flight=4, takes=0.4, stages=("100%",), gate=QUERY, every=EVERY, bake_for=0.0
    )


async def _until_all(bench: Bench, names: list[str], *, held: bool) -> None:
    async def ready() -> bool:
        states = [await bench.operations.status(name) for name in names]
        if held:
            return all(state.holds for state in states)
        return all(not s.holds and len(s.in_flight) > 0 and s.step == "changing" for s in states)

    await until(ready, 60, f"all operations are {'held' if held else 'going on'}")


async def _appeared(address: str) -> float:
    """When the breach appeared: the first of the last row of bad samples."""
    bad: list[float] = []
    for at, value in await samples(address):
        bad = [*bad, at] if value > BOUND else []
    return bad[0]


async def _held_at(bench: Bench, name: str) -> float:
    """When the hold stood: the end of the workflow task that took the watcher's last report."""
    handle = bench.operations.client.get_workflow_handle(messages.workflow_id(name))
    told, held = False, 0.0
    async for event in handle.fetch_history_events():
        if event.HasField("workflow_execution_signaled_event_attributes"):
            told = True
        elif told and event.HasField("workflow_task_completed_event_attributes"):
            told, held = False, event.event_time.ToMicroseconds() / 1e6
    return held


def _last_begun(bench: Bench, names: list[str], breach: float) -> list[float]:
    """For each operation the last begin, as seconds after the breach."""
    last: dict[str, float] = {}
    for line in bench.begins.read_text().splitlines():
        _, epoch, operation, _ = line.split()
        last[operation] = float(epoch)
    return [last[name] - breach for name in names]
