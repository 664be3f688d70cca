"""With which keys, over which jumps, and against which host keys is a host dialled?

What the fleet document says comes first, then an OpenSSH configuration file that it names. There
is no way to turn host key checks off, neither here nor in that file.
"""

import getpass
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from guardrail.edges.secrets import read_secret
from guardrail.errors import Refused
from guardrail.model.fleet import SshReach

_LOGIN_LIMIT = 10.0
_KEEPALIVE_EVERY = 5.0  # seconds; three unanswered end the connection
_KEEPALIVES = 3


@dataclass(frozen=True, slots=True)
class Hop:
    """One machine on the way; None leaves user or port to the configuration file."""

    host: str
    user: str | None
    port: int | None
    last: bool


def hops(reach: SshReach, address: str) -> list[Hop]:
    """The jump hosts in the order they are dialled, then the host itself."""
    target = Hop(address, reach.user, reach.port, last=True)
    written = reach.jump or _jump_of_file(reach, target)
    jumps = [_hop(part.strip()) for part in written.split(",") if part.strip()]
    return [*jumps, target]


def _hop(written: str) -> Hop:
    user, _, place = written.rpartition("@")
    host, _, port = place.rpartition(":") if ":" in place else (place, "", "")
    if not host or (port and not port.isdigit()):
        raise Refused(f"a jump host is written [user@]host[:port], not {written!r}")
    return Hop(host, user or None, int(port) if port else None, last=False)


def _jump_of_file(reach: SshReach, target: Hop) -> str:
    tunnel = options(reach, target).tunnel
    return tunnel if isinstance(tunnel, str) else ""


def options(reach: SshReach, hop: Hop) -> asyncssh.SSHClientConnectionOptions:
    """All that is needed to dial one hop. Raises Refused if host keys would not be checked."""
    given: dict[str, Any] = {
        "host": hop.host,
        "config": [str(Path(reach.config).expanduser())] if reach.config else None,
        "login_timeout": _LOGIN_LIMIT,
        "keepalive_interval": _KEEPALIVE_EVERY,
        "keepalive_count_max": _KEEPALIVES,
    }
    if hop.user or not reach.config:
        given["username"] = hop.user or reach.user or getpass.getuser()
    if hop.port:
        given["port"] = hop.port
    given |= _identity(reach)
    if reach.known_hosts:
        given["known_hosts"] = read_secret(reach.known_hosts).reveal()
    try:
        made = asyncssh.SSHClientConnectionOptions(**given)
    except OSError as fault:
        raise Refused(f"{fault.filename or reach.config} cannot be read: {fault}") from fault
    except asyncssh.ConfigParseError as fault:
        raise Refused(f"{reach.config} is not an OpenSSH configuration: {fault}") from fault
    _insist_on_host_keys(made, reach)
    return made


def _identity(reach: SshReach) -> dict[str, Any]:
    """The named key alone; without one, what the file names, an agent, or the usual keys."""
    if not reach.identity:
        if reach.certificate:
            raise Refused("reach.ssh names a certificate and no identity: name the key it is for")
        return {}
    key: Any = asyncssh.import_private_key(read_secret(reach.identity).reveal())
    if reach.certificate:
        certificate = asyncssh.import_certificate(read_secret(reach.certificate).reveal())
        key = (key, certificate)
    return {"client_keys": [key], "agent_path": None}


def _insist_on_host_keys(made: asyncssh.SSHClientConnectionOptions, reach: SshReach) -> None:
    known: Any = made.known_hosts
    if known is None:
        raise Refused(
            f"{reach.config} turns host key checks off (UserKnownHostsFile none); guardrail "
            "changes no host that it cannot tell from another: name a known_hosts file"
        )
    if isinstance(known, bytes):
        return
    files = [Path(name).expanduser() for name in known] or [Path("~/.ssh/known_hosts").expanduser()]
    if not any(file.is_file() for file in files):
        named = ", ".join(str(file) for file in files)
        raise Refused(
            f"no known_hosts file at {named}: name one in the fleet (reach.ssh.knownHosts) that "
            "holds the host keys, from your configuration management or ssh-keyscan over a "
            "network you trust"
        )
    made.known_hosts = [str(file) for file in files if file.is_file()]
