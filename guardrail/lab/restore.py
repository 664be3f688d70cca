"""How does a used lab become as good as new without being started again?

Every part up, every host on its first versions and leaving the catalog on a stop as a fresh one
does, no cap, and the cache in the long-run state of the load. This is what lies between two
scenarios that share a lab.
"""

import shutil
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from guardrail.lab import health, warm
from guardrail.lab.layout import CONSUL_VERSIONS, EXPORTER_VERSIONS, LabHost
from guardrail.lab.parts import Part
from guardrail.lab.processes import stop
from guardrail.lab.register import read_register
from guardrail.lab.supervisor import settle, start_part, until_steady

FIRST = {"consul": CONSUL_VERSIONS[0], "exporter": EXPORTER_VERSIONS[0]}


def restore(state: Path) -> None:
    """Raises Refused without a lab, NotStarted when it does not come back to its steady state."""
    register = read_register(state)
    untouched = warm.is_untouched(register)
    if not untouched:
        _control(register.parts["load"], "lam=0")
    used = [host for host in register.layout.hosts if not _is_new(host)]
    # Killed, so that none leaves the catalog and costs the ring a slot.
    agents = [register.parts[f"{host.name}/{agent}"] for host in used for agent in FIRST]
    stop([process for part in agents if (process := part.running())], signal.SIGKILL)
    for host in used:
        _make_new(host)
    # In the order of the first start: later parts need earlier ones.
    _start(state, [part for part in register.parts.values() if not part.running()])
    _control(register.parts["boot"], "cap=none")
    register = read_register(state)
    until_steady(register) if untouched else settle(register, lambda _: None)


def _control(part: Part, setting: str) -> None:
    if part.running():
        health.fetch(part.address, part.port, f"/ctl?{setting}", "POST")


def _start(state: Path, parts: Sequence[Part]) -> None:
    """A host's agents at once; those that the register must name, one after the other."""
    for part in parts:
        if not part.pid_file:
            start_part(state, part.name)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: start_part(state, part.name), (p for p in parts if p.pid_file)))


def _is_new(host: LabHost) -> bool:
    links = {agent: (host.folder / agent / "current").readlink().name for agent in FIRST}
    return links == FIRST and _names(host.config) == {"agent.json"}


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _make_new(host: LabHost) -> None:
    for name in _names(host.config) - {"agent.json"}:
        (host.config / name).unlink()
    for agent, version in FIRST.items():
        link = host.folder / agent / "current"
        link.unlink()
        link.symlink_to(version)
    shutil.rmtree(host.folder / "guardrail", ignore_errors=True)  # what operations left there
