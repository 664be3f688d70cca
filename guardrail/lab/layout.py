"""Where is each part of the lab, and how is it spoken to?

Everything here is arithmetic on two facts, the loopback block and the state folder: no file is
read and nothing is started. One lab owns the addresses 127.0.<block>.1 to 127.0.<block>.253, so
several labs can run side by side.
"""

import argparse
import getpass
import os
from dataclasses import dataclass, field
from pathlib import Path

ZONES = ("a", "b", "c")
FIRST_HOST = 10
MOST_HOSTS = 60
SSH_PORT = 2222
MEMCACHED_PORT = 11211
EXPORTER_PORT = 9100
SERVICE = "memcached"
RING_KEY = "ring/memcached"
CONSUL_VERSIONS = ("1.8.7", "1.8.8")
EXPORTER_VERSIONS = ("1.0.0", "1.1.0")


def default_state() -> Path:
    """The lab's state folder when none is named: under the XDG state folder, made by `up`."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "guardrail" / "lab"


@dataclass(frozen=True, slots=True)
class LabHost:
    """One cache host: Consul agent, memcached, exporter and sshd on one loopback address."""

    name: str
    address: str
    zone: str
    folder: Path

    @property
    def consul_url(self) -> str:
        """The host's own agent, not the server."""
        return f"http://{self.address}:8500"

    @property
    def exporter_url(self) -> str:
        return f"http://{self.address}:{EXPORTER_PORT}"

    @property
    def log(self) -> Path:
        """JSON lines that `lab-host` appends: what began on this host, and when."""
        return self.folder / "log"

    @property
    def config(self) -> Path:
        """The Consul agent's configuration folder."""
        return self.folder / "consul.d"

    def pid_file(self, agent: str) -> Path:
        """Holds "PID STARTTIME" of a running agent; the start time as in /proc/PID/stat."""
        return self.folder / "run" / f"{agent}.pid"


@dataclass(frozen=True, slots=True)
class Layout:
    """Addresses and paths of one lab: `count` cache hosts, four in five on the ring."""

    state: Path = field(default_factory=default_state)
    block: int = 20
    count: int = 30
    ssh_user: str = field(default_factory=getpass.getuser)

    def __post_init__(self) -> None:
        if not 1 <= self.block <= 254:
            raise ValueError(f"the loopback block is 1 to 254, not {self.block}")
        if not 5 <= self.count <= MOST_HOSTS:
            raise ValueError(f"a lab has 5 to {MOST_HOSTS} cache hosts, not {self.count}")

    def address(self, last: int) -> str:
        return f"127.0.{self.block}.{last}"

    @property
    def slots(self) -> int:
        """Ring slots: 24 of 30 hosts."""
        return self.count * 4 // 5

    @property
    def spares(self) -> int:
        return self.count - self.slots

    @property
    def hosts(self) -> tuple[LabHost, ...]:
        return tuple(
            LabHost(
                name=f"cache-{n + 1:03d}",
                address=self.address(FIRST_HOST + n),
                zone=ZONES[n % len(ZONES)],
                folder=self.state / "hosts" / f"cache-{n + 1:03d}",
            )
            for n in range(self.count)
        )

    def host(self, name: str) -> LabHost:
        """Raises KeyError for a name the lab does not have."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(f"the lab has no host {name!r}; it has cache-001 to cache-{self.count:03d}")

    @property
    def consul_address(self) -> str:
        return self.address(1)

    @property
    def consul_url(self) -> str:
        """The Consul server."""
        return f"http://{self.consul_address}:8500"

    @property
    def database_address(self) -> str:
        """MariaDB, port 3306."""
        return self.address(3)

    @property
    def boot_url(self) -> str:
        """Boot service: /metrics, /health, POST /ctl?cap=N (boots/s admitted; "none" lifts it)."""
        return f"http://{self.address(4)}:8000"

    @property
    def ring_url(self) -> str:
        """Ring controller and memcached exporter: /metrics, /health, /probe?target=cache-001."""
        return f"http://{self.address(5)}:8001"

    @property
    def prometheus_url(self) -> str:
        return f"http://{self.address(6)}:9090"

    @property
    def load_url(self) -> str:
        """Open-loop clients: /metrics, /health, POST /ctl?lam=N (fresh boots per second)."""
        return f"http://{self.address(7)}:8002"

    @property
    def ssh_key(self) -> Path:
        """The client's private key; the same one opens every host."""
        return self.state / "ssh" / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.state / "ssh" / "known_hosts"

    @property
    def state_file(self) -> Path:
        """Pid, start time, address and port of each part, written by `up`."""
        return self.state / "lab.json"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    def as_arguments(self) -> list[str]:
        """How a part of the lab is told its layout on its command line."""
        return ["--state", str(self.state), "--block", str(self.block), "--count", str(self.count)]


def from_arguments(arguments: list[str] | None = None) -> Layout:
    """The layout that `as_arguments` wrote; other arguments are passed over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--block", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    known, _ = parser.parse_known_args(arguments)
    return Layout(known.state, known.block, known.count)
