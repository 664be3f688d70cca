"""A stand-in that fails as told, a real Prometheus, and targets whose samples a test sets."""

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx

from guardrail.edges.prometheus import PART
from guardrail.lab.tools import find

SCRAPE = 0.25
"""Seconds between scrapes of the real one."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that gave up is no error of the server's."""


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...

    def reply(self, status: int, body: bytes, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(handler: type[_Handler]) -> Iterator[str]:
    """An HTTP server on a free port of the loopback, and its address."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Told:
    """A stand-in's answer to everything: a status and a body, after `delay` seconds."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass
class StandIn:
    """Answers each query as `answer` says, and remembers what it was asked."""

    address: str
    answer: Callable[[str], Told]
    forms: list[dict[str, list[str]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    leaving: threading.Event = field(default_factory=threading.Event)


@contextmanager
def stand_in(answer: Callable[[str], Told]) -> Iterator[StandIn]:
    """A server that speaks as much of the API as its tests need."""
    told = StandIn("", answer)

    class Handler(_Handler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            form = parse_qs(self.rfile.read(length).decode())
            told.forms.append(form)
            told.headers.append(dict(self.headers))
            given = told.answer(form["query"][0])
            told.leaving.wait(given.delay)
            body = given.body if isinstance(given.body, bytes) else json.dumps(given.body).encode()
            self.reply(given.status, body, "application/json", given.headers)

    with serving(Handler) as address:
        told.address = address
        try:
            yield told
        finally:
            told.leaving.set()


def answered(*values: float | str, newest: float, now: float = 1000.0, **more: Any) -> Told:
    """A whole answer to a query of one selector: its value, newest sample, and the time."""
    parts = [("value", str(value), {"n": str(n)}) for n, value in enumerate(values)]
    parts += [("t0", str(newest), {}), ("now", str(now), {})]
    result = [
        {"metric": {PART: part, **labels}, "value": [now, value]} for part, value, labels in parts
    ]
    data = {"resultType": "vector", "result": result}
    return Told(body={"status": "success", "data": data, **more})


@dataclass
class Target:
    """An exporter whose text a test sets. `{t}` in it is the time since it was made, in s."""

    text: str
    address: str = ""
    locked: bool = False
    since: float = field(default_factory=time.monotonic)


@contextmanager
def target(text: str) -> Iterator[Target]:
    """A scrape target; `locked` makes it refuse, as an exporter that its database locks out."""
    made = Target(text)

    class Handler(_Handler):
        def do_GET(self) -> None:
            body = made.text.replace("{t}", f"{time.monotonic() - made.since:.3f}")
            status = 503 if made.locked else 200
            self.reply(status, body.encode(), "text/plain; version=0.0.4", {})

    with serving(Handler) as address:
        made.address = address.removeprefix("http://")
        yield made


@dataclass
class RealPrometheus:
    """One Prometheus with its own folder; it can be killed, stopped and started again."""

    folder: Path
    address: str
    process: subprocess.Popen[bytes] | None = None

    def start(self, *targets: Target) -> None:
        """Start on these targets, with the database there is; returns when it is ready."""
        program = find()[0].programs.get("prometheus")
        assert program, "prometheus is not on PATH: run python -m guardrail.lab.tools"
        listed = [each.address for each in targets]
        config = {
            "global": {"scrape_interval": f"{round(SCRAPE * 1000)}ms", "scrape_timeout": "250ms"},
            "scrape_configs": [
                {
                    "job_name": "test",
                    "honor_timestamps": True,
                    "static_configs": [{"targets": listed}],
                }
            ],
        }
        (self.folder / "prometheus.yml").write_text(json.dumps(config))
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    str(program),
                    f"--config.file={self.folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address={self.address.removeprefix('http://')}",
                ],
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        until(lambda: httpx.get(f"{self.address}/-/ready").status_code == 200)

    def send(self, number: signal.Signals) -> None:
        """A signal to the process."""
        assert self.process
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it; what it has scraped stays on disk."""
        if self.process:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
            self.process.wait()
            self.process = None

    def ask(self, query: str) -> list[Any]:
        """What Prometheus itself says to a query, unjudged."""
        answer = httpx.get(f"{self.address}/api/v1/query", params={"query": query}).json()
        return list(answer["data"]["result"])


@contextmanager
def real_prometheus(folder: Path) -> Iterator[RealPrometheus]:
    """A Prometheus that is not started yet, on a free port of the loopback."""
    folder.mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    part = RealPrometheus(folder, f"http://127.0.0.1:{port}")
    try:
        yield part
    finally:
        part.end()


def until(holds: Callable[[], bool], limit: float = 30.0) -> None:
    """Wait for a condition on a real part; fail when it does not come."""
    end = time.monotonic() + limit
    while True:
        try:
            if holds():
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < end, "the condition did not come in time"
        time.sleep(0.02)
