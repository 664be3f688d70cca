"""What tests on the lab share: the lab itself, a shell on a host, a dense watch on the catalog."""

import json
import threading
import time
from base64 import b64decode
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from guardrail.lab import ready
from guardrail.lab.health import fetch
from guardrail.lab.layout import RING_KEY, LabHost, Layout
from guardrail.lab.processes import wait_until
from guardrail.lab.restore import restore

CATALOG = "/v1/catalog/service/memcached"
OFF_PEAK = 24.0
"""Boots a second, at which a few cold slots are no danger to the database: of two dead caches at
the peak it is asked for more than it can do, and stays so, or flaps about its gate's bound while
they warm up."""
PATIENCE = 180.0
"""Seconds after which a wait is given up. It ends a hang, and says nothing of how quick a thing is:
a busy machine may be three times slower."""


@dataclass(frozen=True, slots=True)
class Lab:
    """The running lab, as tests need it."""

    layout: Layout

    @property
    def state(self) -> Path:
        return self.layout.state

    @property
    def prometheus_url(self) -> str:
        return self.layout.prometheus_url

    @property
    def consul_url(self) -> str:
        return self.layout.consul_url

    @property
    def hosts(self) -> tuple[LabHost, ...]:
        return self.layout.hosts

    @property
    def ssh_key(self) -> Path:
        return self.layout.ssh_key

    @property
    def known_hosts(self) -> Path:
        return self.layout.known_hosts

    def value(self, query: str) -> float | None:
        """One number from Prometheus; None without data."""
        return ready.value(self.layout, query)

    def consul(self, path: str) -> Any:
        """What the Consul server answers."""
        return json.loads(fetch(self.layout.consul_address, 8500, path))

    def ring(self) -> dict[str, list[str]]:
        """The ring now: "slots" and "spares" by host name."""
        (entry,) = self.consul(f"/v1/kv/{RING_KEY}")
        return json.loads(b64decode(entry["Value"]))

    def set_load(self, rate: float) -> None:
        """Fresh boots per second."""
        self._control(self.layout.load_url, f"lam={rate}")

    def set_cap(self, cap: float | None) -> None:
        """Boots admitted per second; None lifts the cap."""
        self._control(self.layout.boot_url, f"cap={'none' if cap is None else cap}")

    @staticmethod
    def _control(url: str, query: str) -> None:
        address, _, port = url.removeprefix("http://").partition(":")
        fetch(address, int(port), f"/ctl?{query}", "POST")

    def restore(self) -> None:
        """As good as new: every part up, first versions, default leave, cache warm, peak load."""
        restore(self.state)

    @staticmethod
    def wait_for(condition: Callable[[], bool]) -> bool:
        """Wait on a condition of the real parts; whether it came true."""
        return wait_until(condition, PATIENCE)


def connected(lab: Lab, host: LabHost) -> AbstractAsyncContextManager[asyncssh.SSHClientConnection]:
    """A connection to a host, for commands in a session each."""
    return asyncssh.connect(
        host.address,
        port=2222,
        username=lab.layout.ssh_user,
        client_keys=[str(lab.ssh_key)],
        known_hosts=str(lab.known_hosts),
        config=None,
    )


async def on_host(lab: Lab, host: LabHost, *commands: str) -> list[asyncssh.SSHCompletedProcess]:
    """Run commands in one SSH session each, over one connection."""
    async with connected(lab, host) as connection:
        return [await connection.run(command) for command in commands]


class CatalogWatch:
    """Reads the server's catalog as densely as it answers, on a thread."""

    def __init__(self, lab: Lab, name: str) -> None:
        self._lab, self._name = lab, name
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self.seen: list[tuple[float, bool]] = []

    def _read(self) -> None:
        while not self._stop.is_set():
            nodes = {entry["Node"] for entry in self._lab.consul(CATALOG)}
            self.seen.append((time.monotonic(), self._name in nodes))

    def __enter__(self) -> "CatalogWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def absences(self) -> int:
        return sum(not present for _, present in self.seen)


def begins(host: LabHost, verb: str) -> list[dict[str, str]]:
    lines = [json.loads(line) for line in host.log.read_text().splitlines()]
    return [line for line in lines if line["event"] == "begin" and line["verb"] == verb]
