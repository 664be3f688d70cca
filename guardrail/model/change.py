"""How does an agent go from one version to another on a host, and back?"""

from dataclasses import dataclass
from typing import Literal

Command = tuple[str, ...]
"""One command as an argument list; `{from}`, `{to}`, `{version}` and `{host}` are filled in."""

Driver = Literal["ssh", "exec"]


@dataclass(frozen=True, slots=True)
class RunProbe:
    """Run a command on the host; `match`'s first group is the version."""

    run: Command
    match: str


@dataclass(frozen=True, slots=True)
class ConsulAgentProbe:
    """Ask the Consul agent on the host itself: `/v1/agent/self`, Config.Version.

    `port` is the agent's HTTP port on the host's own address.
    """

    port: int = 8500
    scheme: Literal["http", "https"] = "http"


@dataclass(frozen=True, slots=True)
class HttpProbe:
    """Fetch `http://<host address>:<port><path>`; `match`'s first group is the version."""

    port: int
    path: str
    match: str


Probe = RunProbe | ConsulAgentProbe | HttpProbe


@dataclass(frozen=True, slots=True)
class ConsulCatalogCheck:
    """After the change the servers' catalog must show the node alive, at the version, and
    with its services, within so many seconds."""

    within: float


@dataclass(frozen=True, slots=True)
class Change:
    """The document `Change`. `undo` None means "apply with from and to exchanged".

    `timeout` is in seconds, for the whole of `prepare`, `apply` and `verify` on one host.
    unprepare: undoes `prepare` where `apply` was never begun. obtainable: ends with 0 where
    `{version}` can be brought to `{host}`, and changes nothing; None: that cannot be asked.
    keeps_registered: the steps restart the agent in a way that leaves its node in the catalog,
    whatever the agent's own configuration says about a SIGTERM.
    """

    name: str
    agent: str
    driver: Driver
    installed: RunProbe | HttpProbe
    running: Probe
    prepare: tuple[Command, ...]
    apply: tuple[Command, ...]
    undo: tuple[Command, ...] | None
    verify_catalog: ConsulCatalogCheck | None
    timeout: float
    digest: str = ""
    description: str = ""
    keeps_registered: bool = False
    unprepare: tuple[Command, ...] = ()
    obtainable: Command | None = None


@dataclass(frozen=True, slots=True)
class ChangeRef:
    """A change as a payload names it: never its command lines. `old` to `new`."""

    name: str
    old: str
    new: str
    digest: str = ""
