"""What is in a cache host's folder before anything runs?

Each host has its own root folder: version folders with a `current` link, the agent's
configuration, a `bin` folder that an SSH session finds first on its PATH, an sshd with its own
key, and a log of what began. Hosts share one file system, so HOME and TMPDIR of a session are
below the host's folder.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from guardrail.lab.layout import (
    CONSUL_VERSIONS,
    EXPORTER_VERSIONS,
    MEMCACHED_PORT,
    SERVICE,
    SSH_PORT,
    LabHost,
    Layout,
)
from guardrail.lab.tools import SYSTEM_FOLDERS, Tools, library_folders

LAB_ID = "GUARDRAIL_LAB_ID"


def build_artifacts(tools: Tools) -> None:
    """The exporter's versions in the hosts' package repository; Consul's are there already."""
    text = files("guardrail.lab").joinpath("exporter.py.txt").read_text(encoding="utf-8")
    for version in EXPORTER_VERSIONS:
        path = tools.artifacts / "exporter" / version / "exporter"
        path.parent.mkdir(parents=True, exist_ok=True)
        body = text.replace("@VERSION@", version).replace("@PYTHON@", sys.executable)
        part = path.with_name(f"exporter.{os.getpid()}")
        part.write_text(body)
        part.chmod(0o755)
        part.replace(path)


def build_keys(layout: Layout, tools: Tools) -> None:
    """The client's key, one key a host, and the known_hosts file that names them all."""
    folder = layout.ssh_key.parent
    folder.mkdir(parents=True, exist_ok=True)
    _keygen(tools, layout.ssh_key)
    shutil.copy(layout.ssh_key.with_suffix(".pub"), folder / "authorized_keys")
    known = []
    for host in layout.hosts:
        (host.folder / "ssh").mkdir(parents=True, exist_ok=True)
        _keygen(tools, host.folder / "ssh" / "host_key")
        kind, key, *_ = (host.folder / "ssh" / "host_key.pub").read_text().split()
        known.append(f"[{host.address}]:{SSH_PORT} {kind} {key}\n")
    layout.known_hosts.write_text("".join(known))


def _keygen(tools: Tools, path: Path) -> None:
    if not path.exists():
        argv = [str(tools["ssh-keygen"]), "-q", "-t", "ed25519", "-N", "", "-C", "guardrail-lab"]
        subprocess.run([*argv, "-f", str(path)], check=True)


def build_host(layout: Layout, host: LabHost, tools: Tools, lab_id: str) -> None:
    """Write one host's folder anew, on the first version of each agent."""
    for part in ("bin", "run", "tmp", "consul.d", "consul", "exporter", "ssh"):
        (host.folder / part).mkdir(parents=True, exist_ok=True)
    host.log.touch()
    script = host.folder / "bin" / "lab-host"
    script.write_bytes(files("guardrail.lab").joinpath("lab-host.sh").read_bytes())
    script.chmod(0o755)
    for agent, version in (("consul", CONSUL_VERSIONS[0]), ("exporter", EXPORTER_VERSIONS[0])):
        (host.folder / "bin" / agent).symlink_to(f"../{agent}/current/{agent}")
        staged = host.folder / agent / version
        staged.mkdir()
        (staged / agent).symlink_to(tools.artifacts / agent / version / agent)
        (host.folder / agent / "current").symlink_to(version)
    (host.folder / "host.env").write_text(_host_environment(layout, host, tools, lab_id))
    (host.config / "agent.json").write_text(json.dumps(agent_configuration(layout, host), indent=1))
    (host.folder / "ssh" / "sshd_config").write_text(sshd_configuration(layout, host, lab_id))


def _host_environment(layout: Layout, host: LabHost, tools: Tools, lab_id: str) -> str:
    values = {
        "NAME": host.name,
        "ADDRESS": host.address,
        "REPOSITORY": tools.artifacts,
        "PYTHON": sys.executable,
        "MEMCACHED": tools["memcached"],
        "MEMCACHED_LIBRARIES": ":".join(library_folders(tools.root))
        if tools.unpacked("memcached")
        else "",
        "LAB_USER": layout.ssh_user,
        "LAB_STATE": layout.state,
        LAB_ID: lab_id,
    }
    return "".join(f"{key}={shlex.quote(str(value))}\n" for key, value in values.items())


def agent_configuration(layout: Layout, host: LabHost) -> dict[str, object]:
    """A client agent as the measured lab had it; by default it leaves the catalog on SIGTERM."""
    return {
        "node_name": host.name,
        "node_meta": {"zone": host.zone, "env": "lab"},
        "bind_addr": host.address,
        "client_addr": host.address,
        "retry_join": [layout.consul_address],
        "retry_interval": "1s",
        "ports": {"dns": -1, "grpc": -1},
        "disable_update_check": True,
        "log_level": "WARN",
        "services": [
            {
                "name": SERVICE,
                "port": MEMCACHED_PORT,
                "checks": [
                    {
                        "id": "memcached-tcp",
                        "name": "memcached answers",
                        "tcp": f"{host.address}:{MEMCACHED_PORT}",
                        "interval": "2s",
                        "timeout": "1s",
                    }
                ],
            }
        ],
    }


def sshd_configuration(layout: Layout, host: LabHost, lab_id: str) -> str:
    """A server that works for root and for any user; only the lab's key opens it."""
    session = {
        "PATH": f"{host.folder}/bin:{SYSTEM_FOLDERS}",
        "HOME": str(host.folder),
        "TMPDIR": str(host.folder / "tmp"),
        "XDG_STATE_HOME": str(host.folder / "state"),
        # Ours must not fall back to the machine's /var/lib/guardrail: all hosts of all labs would
        # share one lock, and a new lab would find the runs of an old one as done.
        "GUARDRAIL_STATE": str(host.folder / "guardrail"),
        "LAB_HOST_NAME": host.name,
        LAB_ID: lab_id,
    }
    environment = " ".join(f'"{key}={value}"' for key, value in session.items())
    return f"""\
Port {SSH_PORT}
ListenAddress {host.address}
HostKey "{host.folder}/ssh/host_key"
AuthorizedKeysFile "{layout.ssh_key.parent}/authorized_keys"
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
PrintMotd no
PrintLastLog no
AllowTcpForwarding yes
MaxStartups 200
MaxSessions 200
LogLevel ERROR
SetEnv {environment}
"""


def sshd_users(layout: Layout) -> dict[str, str]:
    """What root's sshd must be told of users: one named sshd exists, and ours is not locked.

    Returns the wrapper's environment; the machine's own user files are only read.
    """
    folder = layout.ssh_key.parent
    passwd = Path("/etc/passwd").read_text()
    if not any(line.startswith("sshd:") for line in passwd.splitlines()):
        passwd += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
    user = layout.ssh_user
    (folder / "passwd").write_text(passwd)
    (folder / "group").write_text(Path("/etc/group").read_text())
    (folder / "shadow").write_text(f"{user}:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n")
    return {
        "NSS_WRAPPER_PASSWD": str(folder / "passwd"),
        "NSS_WRAPPER_GROUP": str(folder / "group"),
        "NSS_WRAPPER_SHADOW": str(folder / "shadow"),
    }
