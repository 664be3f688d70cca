"""Is each part of the lab up, and does it answer?

Every part is really asked, in its own protocol; a live process that does not answer is down.
The event loops' lag is read too: above 0.25 s what was measured in the lab is void.
"""

import http.client
import json
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from guardrail.lab.layout import Layout
from guardrail.lab.parts import Part
from guardrail.lab.register import read_register

ASK_TIMEOUT = 3.0
LAG_LIMIT = 0.25


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One part: `ok` only if its process lives and it answered; `health` says what, or why not."""

    name: str
    address: str
    pid: int | None
    ok: bool
    health: str


@dataclass(frozen=True, slots=True)
class LabStatus:
    """The whole lab. `lag` is each event loop's worst delay of the last second, in seconds."""

    state: Path
    block: int
    load: str
    parts: tuple[PartStatus, ...]
    lag: dict[str, float]

    @property
    def ok(self) -> bool:
        return bool(self.parts) and all(part.ok for part in self.parts)

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "state": str(self.state),
            "block": self.block,
            "load": self.load,
            "eventLoopLagSeconds": self.lag,
            "parts": [asdict(part) for part in self.parts],
        }


def status(state: Path) -> LabStatus:
    """Ask every part. Raises Refused when no lab was started in this folder."""
    register = read_register(state)
    with ThreadPoolExecutor(16) as pool:
        parts = tuple(pool.map(part_status, register.parts.values()))
    return LabStatus(
        state=state,
        block=register.layout.block,
        load=register.load,
        parts=parts,
        lag=loop_lag(register.layout),
    )


def part_status(part: Part) -> PartStatus:
    """The part's process, and its answer."""
    process = part.running()
    if process:
        ok, health = ask(part)
    else:
        ok, health = False, "not running"
    address = f"{part.address}:{part.port}"
    return PartStatus(part.name, address, process.pid if process else None, ok, health)


def ask(part: Part) -> tuple[bool, str]:
    """Whether the part answers in its protocol, and its words or the fault."""
    try:
        return True, _QUESTIONS[part.kind](part)
    except (OSError, http.client.HTTPException, ValueError, KeyError) as fault:
        return False, str(fault) or type(fault).__name__


def fetch(address: str, port: int, path: str, method: str = "GET") -> str:
    """The body of a 200 answer; raises OSError for any other."""
    connection = http.client.HTTPConnection(address, port, timeout=ASK_TIMEOUT)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
    finally:
        connection.close()
    if answer.status != 200:
        raise OSError(f"{answer.status}: {body.strip()[:200]}")
    return body


def loop_lag(layout: Layout) -> dict[str, float]:
    """Seconds by process; a process that does not answer is left out (its part is down)."""
    found = {}
    for name, url in (
        ("boot", layout.boot_url),
        ("load", layout.load_url),
        ("ring", layout.ring_url),
    ):
        address, _, port = url.removeprefix("http://").partition(":")
        try:
            text = fetch(address, int(port), "/metrics")
        except (OSError, http.client.HTTPException):
            continue
        if lag := re.search(r"^lab_event_loop_lag_seconds (\S+)", text, re.MULTILINE):
            found[name] = float(lag[1])
    return found


def _greeting(part: Part, send: bytes, expect: bytes) -> str:
    with socket.create_connection((part.address, part.port), timeout=ASK_TIMEOUT) as connection:
        connection.sendall(send)
        answer = connection.recv(200)
    if expect not in answer:
        raise OSError(f"unexpected answer {answer[:60]!r}")
    return answer.decode("latin-1").strip()


def _consul(part: Part) -> str:
    if part.name == "consul":
        leader = json.loads(fetch(part.address, part.port, "/v1/status/leader"))
        if not leader:
            raise OSError("no leader")
        return f"leader {leader}"
    me = json.loads(fetch(part.address, part.port, "/v1/agent/self"))
    return f"Consul {me['Config']['Version']}"


def _memcached(part: Part) -> str:
    return _greeting(part, b"version\r\n", b"VERSION").removeprefix("VERSION ")


def _database(part: Part) -> str:
    with socket.create_connection((part.address, part.port), timeout=ASK_TIMEOUT) as connection:
        greeting = connection.recv(200)
    version = greeting[5:].partition(b"\0")[0].decode("latin-1")
    if "MariaDB" not in version:
        raise OSError(f"unexpected greeting {greeting[:40]!r}")
    return version


def _exporter(part: Part) -> str:
    found = re.search(r'version="([^"]+)"', fetch(part.address, part.port, "/metrics"))
    if not found:
        raise OSError("no version in its metrics")
    return f"exporter {found[1]}"


def _own(part: Part) -> str:
    return fetch(part.address, part.port, "/health").strip()


_QUESTIONS: dict[str, Callable[[Part], str]] = {
    "consul": _consul,
    "memcached": _memcached,
    "exporter": _exporter,
    "sshd": lambda part: _greeting(part, b"", b"SSH-2.0"),
    "database": _database,
    "prometheus": lambda part: fetch(part.address, part.port, "/-/ready").strip(),
    "boot": _own,
    "load": _own,
    "ring": _own,
}
