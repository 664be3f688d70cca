"""What can this season be tried on? Two Prometheus, what they scrape, and who is told, on loopback.

    parts.py          start them, and end them at Ctrl-C
    parts.py dark     end the first Prometheus
    parts.py light    start it again
    parts.py told     show the messages that came

The numbers are made up, and good: the lock reaches from now to well after the next peak.
"""

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

from guardrail.edges.checking import peak_of
from guardrail.files import load
from guardrail.lab.tools import find

HERE = Path(__file__).parent
EXPORTER = ("127.0.24.1", 9400)
FIRST, SECOND = "127.0.24.2:9090", "127.0.24.3:9090"
DAY = 86_400.0
NUMBERS = {
    "provisioner_max_fds": 65_536,
    "provisioner_open_fds": 812,
    "provisioner_quota_servers": 2_000,
    "provisioner_used_servers": 640,
    "provisioner_group_maximum": 1_400,
    "provisioner_group_size": 640,
    'tgw_quota_gbps{region="us"}': 50,
    'tgw_capacity_gbps{region="us"}': 50,
    'tgw_quota_gbps{region="scotland"}': 20,
    'tgw_capacity_gbps{region="scotland"}': 20,
}


def main() -> int:
    """Start the parts, or tell those that run; 0 when it was done."""
    if sys.argv[1:] in (["dark"], ["light"], ["told"]):
        return said(sys.argv[1])
    if sys.argv[1:]:
        print(__doc__)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="guardrail-season-") as folder:
        first, second = (
            Prometheus(FIRST, Path(folder) / "a"),
            Prometheus(SECOND, Path(folder) / "b"),
        )
        with first, second, exporter(first), contextlib.suppress(KeyboardInterrupt):
            print(
                "ready: two Prometheus, what they scrape, and who is told; Ctrl-C ends them",
                flush=True,
            )
            threading.Event().wait()
    return 0


def said(word: str) -> int:
    """Say it to the parts that run."""
    try:
        answer = httpx.post(f"http://{EXPORTER[0]}:{EXPORTER[1]}/{word}", timeout=30)
    except httpx.HTTPError as error:
        print(f"the parts do not answer ({error}): start them with {Path(__file__).name}")
        return 3
    print(answer.text)
    return 0


def metrics() -> str:
    """What the provisioner and the network would say."""
    now = time.time()
    peak = peak_of(load([HERE / "source"]).checklist(), now)
    lock = {
        "scale_down_lock_since_seconds": now - DAY,
        "scale_down_lock_until_seconds": peak.ends_at + DAY if peak else 0.0,
    }
    return "".join(f"{name} {value:.0f}\n" for name, value in {**NUMBERS, **lock}.items())


@dataclass
class Prometheus:
    """One Prometheus with a folder of its own."""

    address: str
    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None)

    def __enter__(self) -> "Prometheus":
        self.folder.mkdir()
        targets = [{"targets": [f"{EXPORTER[0]}:{EXPORTER[1]}"]}]
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "provisioner", "static_configs": targets}],
        }
        (self.folder / "prometheus.yml").write_text(json.dumps(config))
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self) -> None:
        """Start it, and wait until it is ready. Raises SystemExit where it cannot be."""
        program = find()[0].programs.get("prometheus")
        if program is None:
            sys.exit("there is no Prometheus on this machine yet: make tools")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    str(program),
                    f"--config.file={self.folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address={self.address}",
                ],
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + 30
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit(f"Prometheus at {self.address} did not start; see its log")
            time.sleep(0.1)

    def is_ready(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"http://{self.address}/-/ready").status_code == 200
        return False

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextlib.contextmanager
def exporter(first: Prometheus) -> Iterator[None]:
    """What is scraped; it also takes the words above, and messages for whoever is told."""
    text = metrics()
    came: list[str] = []

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A Prometheus that ends as it reads is no error here."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            self.say(text)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path.startswith("/network-"):
                came.append(f"{self.path[1:]}: {json.loads(body).get('title')}")
                self.say("")
            elif self.path == "/told":
                self.say("\n".join(came) or "nobody was told anything")
            elif self.path == "/dark":
                first.end()
                self.say(f"the first Prometheus, {first.address}, is dark")
            elif first.process is None:
                first.start()
                self.say(f"the first Prometheus, {first.address}, is there again")
            else:
                self.say(f"the first Prometheus, {first.address}, is there")

        def say(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

    server = Server(EXPORTER, Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
