"""A real sshd on a loopback address of its own, with keys made for this test alone."""

import contextlib
import getpass
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from guardrail.lab import tools
from guardrail.model.common import Secret
from guardrail.model.fleet import Host, SshReach

PORT = 2222


@dataclass
class Sshd:
    """Start it with `start`; `home` is what the host's sessions have for HOME."""

    folder: Path
    address: str
    process: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def client_key(self) -> Path:
        return self.folder / "client"

    def host(self, name: str = "cache-001") -> Host:
        return Host("test", name, self.address, "a")

    def reach(self, **changes: object) -> SshReach:
        given: dict[str, object] = {
            "user": getpass.getuser(),
            "port": PORT,
            "identity": Secret("file", str(self.client_key)),
            "known_hosts": Secret("file", str(self.known_hosts)),
        }
        return SshReach(**(given | changes))  # type: ignore[arg-type]

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        if not self.client_key.exists():
            self.make_keys()
        found, _ = tools.find()
        environment = found.environment("sshd")
        if os.geteuid() == 0 and found.nss_wrapper:
            environment |= {"LD_PRELOAD": str(found.nss_wrapper), **self.users()}
        (self.folder / "sshd_config").write_text(self.configuration())
        with (self.folder / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(found["sshd"]), "-D", "-e", "-f", str(self.folder / "sshd_config")],
                env={**os.environ, **environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wait()

    def make_keys(self) -> None:
        for name in ("client", "host_key", "ca"):
            key = asyncssh.generate_private_key("ssh-ed25519")
            key.write_private_key(str(self.folder / name))
            key.write_public_key(str(self.folder / f"{name}.pub"))
            (self.folder / name).chmod(0o600)
        public = (self.folder / "host_key.pub").read_text()
        self.known_hosts.write_text(f"[{self.address}]:{PORT} {public}")

    def configuration(self) -> str:
        words = {
            "HOME": str(self.home),
            "GUARDRAIL_STATE": str(self.home / "state"),
            **self.environment,
        }
        environment = " ".join(f'"{key}={value}"' for key, value in words.items())
        return "\n".join(
            [
                f"Port {PORT}",
                f"ListenAddress {self.address}",
                f"HostKey {self.folder}/host_key",
                f"AuthorizedKeysFile {self.folder}/client.pub",
                f"TrustedUserCAKeys {self.folder}/ca.pub",
                "PidFile none",
                "UsePAM no",
                "StrictModes no",
                "PermitRootLogin prohibit-password",
                "PasswordAuthentication no",
                "KbdInteractiveAuthentication no",
                "UseDNS no",
                "MaxStartups 200",
                "LogLevel VERBOSE",
                f"SetEnv {environment}",
                "",
            ]
        )

    def users(self) -> dict[str, str]:
        """Root's sshd wants a user sshd and an unlocked root: said to it alone."""
        passwd = Path("/etc/passwd").read_text()
        if not any(line.startswith("sshd:") for line in passwd.splitlines()):
            passwd += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
        shadow = f"{getpass.getuser()}:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n"
        (self.folder / "passwd").write_text(passwd)
        (self.folder / "group").write_text(Path("/etc/group").read_text())
        (self.folder / "shadow").write_text(shadow)
        return {
            f"NSS_WRAPPER_{name.upper()}": str(self.folder / name)
            for name in ("passwd", "group", "shadow")
        }

    def wait(self) -> None:
        assert self.process is not None
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection((self.address, PORT), 1):
                return
            assert self.process.poll() is None, (self.folder / "sshd.log").read_text()
            time.sleep(0.05)
        raise AssertionError("sshd does not listen")

    def sessions(self) -> list[int]:
        """The pids of the server's processes that hold connections."""
        assert self.process is not None
        found = [self.process.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found += [int(child) for child in (task / "children").read_text().split()]
        return [pid for pid in found[1:] if b"sshd" in _command(pid)]

    def cut(self) -> None:
        """Kill the server's side of every connection; the server lives on."""
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        self.cut()
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_bytes()
    return b""
