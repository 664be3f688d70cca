"""How is Ansible run on the measurement's hosts, and which tasks does it do there?

One `ansible-playbook` a play, as a person would run it: connections kept (ControlPersist), no
facts gathered, a fork for every host.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.parts import ROOT
from guardrail.lab.layout import SSH_PORT, Layout
from guardrail.lab.processes import wait_until

PLAYBOOK = ROOT / ".venv-bench" / "bin" / "ansible-playbook"

PLAY = """\
- hosts: all
  gather_facts: false
  serial: {serial}
  tasks:
"""
READ = """\
    - {ansible.builtin.command: {argv: [trivial, version]}, register: found, changed_when: false}
"""
SET = """\
    - ansible.builtin.command: {argv: [trivial, set, "VERSION"]}
"""
CHECK = """\
    - {ansible.builtin.assert: {that: found.stdout == 'VERSION', quiet: true}}
"""
WAIT = """\
    - {ansible.builtin.command: {argv: [sleep, "0.5"]}, changed_when: false}
"""
ONE_LOOK = READ + SET + READ + CHECK
"""What guardrail does where nothing runs that is looked at apart."""
LOOK = READ + READ + CHECK
TWO_LOOKS = READ + READ + SET + LOOK + WAIT + LOOK
"""What it does where something does: what is installed and what runs, each twice, 0.5 s apart."""


@dataclass
class Ansible:
    """ansible-playbook on those hosts; each try sets another version."""

    layout: Layout
    folder: Path
    pipelining: bool
    version: int = 100
    control: Path = field(init=False)

    def __post_init__(self) -> None:
        self.control = Path(tempfile.mkdtemp(prefix="gb-", dir="/tmp"))
        lines = [
            f"{host.name} ansible_host={host.address} ansible_port={SSH_PORT}"
            for host in self.layout.hosts
        ]
        (self.folder / "inventory").write_text("\n".join(lines) + "\n")

    @property
    def environment(self) -> dict[str, str]:
        layout = self.layout
        known = f"-o UserKnownHostsFile={layout.known_hosts} -o StrictHostKeyChecking=yes"
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "ANSIBLE_REMOTE_USER": layout.ssh_user,
            "ANSIBLE_PRIVATE_KEY_FILE": str(layout.ssh_key),
            "ANSIBLE_SSH_ARGS": f"-o ControlMaster=auto -o ControlPersist=300s {known} -F none",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.control),
            "ANSIBLE_PIPELINING": str(self.pipelining),
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "ANSIBLE_FORKS": str(len(self.layout.hosts)),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "ansible"),
        }

    def play(self, serial: str, tasks: str = SET) -> float:
        """Seconds a host of one whole play."""
        self.version += 1
        text = PLAY.format(serial=serial) + tasks.replace("VERSION", str(self.version))
        book = self.folder / "play.yml"
        book.write_text(text)
        began = time.monotonic()
        done = subprocess.run(
            [str(PLAYBOOK), "-i", str(self.folder / "inventory"), str(book)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        took = time.monotonic() - began
        if done.returncode or done.stdout.count("failed=0") != len(self.layout.hosts):
            raise RuntimeError(f"Ansible did not change every host:\n{done.stdout}{done.stderr}")
        return took / len(self.layout.hosts)

    def cool(self) -> None:
        """Close every connection that was kept."""
        for socket_file in self.control.iterdir():
            subprocess.run(
                ["ssh", "-o", f"ControlPath={socket_file}", "-O", "exit", "any"],
                capture_output=True,
                check=False,
            )
        wait_until(lambda: not any(self.control.iterdir()), 5)


@contextmanager
def ansible_on(layout: Layout, folder: Path, *, pipelining: bool) -> Iterator[Ansible]:
    """Ansible, whose connections are closed at the end."""
    ansible = Ansible(layout, folder, pipelining)
    try:
        yield ansible
    finally:
        ansible.cool()
        shutil.rmtree(ansible.control, ignore_errors=True)
