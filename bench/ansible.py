"""How long does guardrail need for a host, beside Ansible, in one run on the same sshd hosts?

Thirty sshd as the lab has them (one address and one key each), one trivial command a host. Ansible
runs that command. guardrail reads the version, asks the permit, runs the step once under the
host's lock, reads the version again, and answers with a record: as its driver and host work do it
here in one process, and as a whole rollout on Temporal. That it takes a quarter of Ansible's time
is promised against this smaller work of Ansible's. Beside it stand the times of an Ansible that
reads as often as guardrail does: once before and once after, or, for a change with a process, what
is installed and what runs before, after, and 0.5 s after that.
"""

import asyncio
import os
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.breach import Target, prometheus
from bench.parts import Bench, running, until
from bench.playbook import ONE_LOOK, PLAYBOOK, SET, TWO_LOOKS, ansible_on
from bench.rows import Row, spread
from guardrail.cli.children import start
from guardrail.edges.probes import Probes
from guardrail.edges.ssh import SshDriver
from guardrail.files import load
from guardrail.lab import hosts as lab_hosts
from guardrail.lab import parts, tools
from guardrail.lab.layout import SSH_PORT, LabHost, Layout
from guardrail.model import messages
from guardrail.model.change import Change, ChangeRef, RunProbe
from guardrail.model.common import Amount, Secret
from guardrail.model.fleet import Fleet, Host, HostList, Reach, SshReach
from guardrail.model.messages import PlanRequest
from guardrail.model.operation import Direction
from guardrail.model.rollout import Rollout
from guardrail.ports import Token
from guardrail_workflows.host_work import HostJob, change_host

BLOCK = 77
HOSTS = 30
TRIES = 2
AT_ONCE = {"serial 1": 1, "25 %": 7}
"""Hosts together; Ansible's own 25 % of 30 is 7 too."""
SHARE = 4
"""guardrail promises at most one part in so many of Ansible's time for a host."""

TRIVIAL = """\
#!/bin/sh
# The agent of the measurement: `trivial version`, `trivial set VERSION`.
if [ "$1" = set ]; then echo "$2" >"$HOME/trivial.version"; else cat "$HOME/trivial.version"; fi
"""

SOURCE = """\
apiVersion: guardrail/v1
kind: Change
metadata: {name: trivial}
spec:
  agent: trivial
  driver: ssh
  installed: {run: [trivial, version], match: '(\\S+)'}
  running: {run: [trivial, version], match: '(\\S+)'}
  apply: [[trivial, set, "{to}"]]
  undo: same
  timeout: 1m
---
apiVersion: guardrail/v1
kind: Policy
metadata: {name: serial-1, owners: [bench]}
spec:
  match: {fleets: [serial-1]}
  limits: {unavailable: 1}
  bake: {for: 0s}
---
apiVersion: guardrail/v1
kind: Policy
metadata: {name: quarter, owners: [bench]}
spec:
  match: {fleets: [quarter]}
  limits: {unavailable: 7, unavailablePerDomain: 7, domainsAtOnce: 3}
  bake: {for: 0s}
"""

GATE = """\
---
apiVersion: guardrail/v1
kind: Source
metadata: {name: bench}
spec: {address: "ADDRESS"}
---
apiVersion: guardrail/v1
kind: Gate
metadata: {name: bench}
spec:
  title: A value that is good
  class: health
  query: max(bench_breach)
  pass: {below: 0.5}
  every: 1s
  failAfter: 1
  passAfter: 1
  evidence: {maxAge: 5s}
"""

# ---------------------------------------------------------------- the hosts


@asynccontextmanager
async def sshd_hosts(folder: Path) -> AsyncIterator[Layout]:
    """The lab's sshd hosts without the rest of the lab."""
    found, layout = tools.ensure(), Layout(folder / "lab", BLOCK, HOSTS)
    layout.logs.mkdir(parents=True)
    lab_hosts.build_artifacts(found)
    lab_hosts.build_keys(layout, found)
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # noqa: PTH103 - root's sshd wants it
    async with AsyncExitStack() as stack:
        for host in layout.hosts:
            lab_hosts.build_host(layout, host, found, "bench")
            (host.folder / "trivial.version").write_text("1\n")
            script = host.folder / "bin" / "trivial"
            script.write_text(TRIVIAL)
            script.chmod(0o755)
        # All of them first: each writes anew the file of users that a starting sshd reads.
        for part in [parts.sshd(layout, host, found) for host in layout.hosts]:
            words = ["/usr/bin/env", *(f"{k}={v}" for k, v in part.environment.items())]
            child = await start(part.name, [*words, *part.argv], Path(part.log))
            stack.push_async_callback(child.stop, 5)
        await until(lambda: all(map(_listens, layout.hosts)), 30, "every sshd listens")
        yield layout


def _listens(host: LabHost) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host.address, SSH_PORT)) == 0


# ---------------------------------------------------------------- guardrail, in one process


@dataclass
class Guardrail:
    """The real driver, probes and host work, without Temporal."""

    layout: Layout
    change: Change
    direction: Direction = "back"
    turn: int = 0
    driver: SshDriver | None = None
    probes: Probes | None = None

    async def cool(self) -> None:
        """Close every connection."""
        if self.driver is not None and self.probes is not None:
            await self.probes.close()
            await self.driver.close()
        self.driver = SshDriver(reach(self.layout))
        self.probes = Probes(self.driver)

    async def all(self, at_once: int) -> float:
        """Seconds a host for changing all of them, each to the other version."""
        self.direction = "forward" if self.direction == "back" else "back"
        self.turn += 1
        waiting = iter(self.layout.hosts)

        async def work() -> None:
            for host in waiting:
                await self._one(Host("bench", host.name, host.address, host.zone))

        began = time.monotonic()
        await asyncio.gather(*(work() for _ in range(at_once)))
        return (time.monotonic() - began) / HOSTS

    async def _one(self, host: Host) -> None:
        if self.driver is None or self.probes is None:
            raise RuntimeError("cool() comes first")
        job = HostJob("bench", host, self.change, self.direction, "1", "2", Token(0, self.turn, 1))
        result = await change_host(
            job, self.driver, self.probes, catalog=None, permit=_yes, heartbeat=lambda _: None
        )
        if result.outcome != "changed" or "skipped" in dict(result.facts):
            raise RuntimeError(f"{host.name}: {result}")


async def _yes() -> bool:
    return True


def reach(layout: Layout) -> SshReach:
    """How the lab's hosts are reached."""
    return SshReach(
        user=layout.ssh_user,
        port=SSH_PORT,
        identity=Secret("file", str(layout.ssh_key)),
        known_hosts=Secret("file", str(layout.known_hosts)),
    )


# ---------------------------------------------------------------- guardrail, a whole rollout


async def rollouts(layout: Layout, folder: Path) -> dict[str, list[float]]:
    """Seconds a host, from the plan to the end, of rollouts there and back on Temporal."""
    source = folder / "source"
    source.mkdir()
    times: dict[str, list[float]] = {name: [] for name in AT_ONCE}
    async with Target().serving() as at, prometheus(at) as address, running(0) as bench:
        (source / "source.yaml").write_text(SOURCE + GATE.replace("ADDRESS", address))
        command = [sys.executable, "-m", "guardrail_workflows.worker", "--address", bench.address]
        command += ["--source", str(source), "--store", str(bench.folder / "plans")]
        command += ["--journal", str(bench.folder / "journal")]
        worker = await start("worker", command, bench.folder / "worker.log")
        bench.workers.append(worker)
        for number in range(2 * TRIES):
            name, fleet = (("serial 1", "serial-1"), ("25 %", "quarter"))[number % 2]
            operation = f"op-{uuid.uuid4().hex[:8]}"
            await bench.operations.start(_request(layout, operation, fleet, number % 2 == 1))
            status = await bench.ended(operation, 120)
            if status.changed != HOSTS:
                raise RuntimeError(status.sentence)
            times[name].append(await _first_to_last(bench, operation) / HOSTS)
    return times


async def _first_to_last(bench: Bench, operation: str) -> float:
    """Seconds from asking the first host to the last one's answer, by the history."""
    handle = bench.operations.client.get_workflow_handle(messages.workflow_id(operation))
    asked: dict[int, float] = {}
    last = 0.0
    async for event in handle.fetch_history_events():
        at = event.event_time.ToMicroseconds() / 1e6
        scheduled = event.activity_task_scheduled_event_attributes
        if scheduled.activity_type.name == messages.CHANGE_HOST:
            asked[event.event_id] = at
        if event.activity_task_completed_event_attributes.scheduled_event_id in asked:
            last = at
    return last - min(asked.values())


def _request(layout: Layout, operation: str, fleet: str, back: bool) -> PlanRequest:
    old, new = ("2", "1") if back else ("1", "2")
    listed = tuple(Host("bench", host.name, host.address, host.zone) for host in layout.hosts)
    change = ChangeRef("trivial", old, new)
    rollout = Rollout(operation, fleet, change, (Amount(100, True),), ("bench",))
    where = Fleet(fleet, HostList(listed), reach=Reach(reach(layout)))
    return PlanRequest(operation, rollout, where, "ann")


# ---------------------------------------------------------------- the rows


async def rows() -> list[Row]:
    """All of it in one run, in turns, so that a busy minute meets both."""
    if not PLAYBOOK.exists():
        raise RuntimeError(f"{PLAYBOOK} is not there; `make bench` installs it")
    with tempfile.TemporaryDirectory(prefix="guardrail-bench-") as name:
        folder = Path(name)
        async with sshd_hosts(folder) as layout:
            (folder / "change.yaml").write_text(SOURCE)
            change = load([folder / "change.yaml"]).change("trivial")
            ours, theirs = await _in_turns(layout, folder, change)
            process = await _processes(layout, change)
            _put(layout, "1")
            whole = await rollouts(layout, folder)
            alike = await asyncio.to_thread(_alike, layout, folder)
    found = [_beside(key, ours[key], theirs[key]) for key in ours]
    found += [_whole(name, values, theirs[name, "cold"]) for name, values in whole.items()]
    found += [_one_look(name, ours[name, "warm"], alike[name, ONE_LOOK]) for name in AT_ONCE]
    found += [_two_looks(name, values, alike[name, TWO_LOOKS]) for name, values in process.items()]
    plain = alike["serial 1", SET]
    found.append(Row("Ansible per host, serial 1, without pipelining", plain, "s", note="warm"))
    return found


def _alike(layout: Layout, folder: Path) -> dict[tuple[str, str], float]:
    """Ansible with as many looks as guardrail takes, and once without pipelining; all warm."""
    times: dict[tuple[str, str], float] = {}
    with ansible_on(layout, folder, pipelining=True) as ansible:
        ansible.play("100%")
        for name, at_once in AT_ONCE.items():
            for tasks in (ONE_LOOK, TWO_LOOKS):
                times[name, tasks] = ansible.play(_serial(at_once), tasks)
    with ansible_on(layout, folder, pipelining=False) as ansible:
        ansible.play("100%")
        times["serial 1", SET] = ansible.play("1")
    return times


def _serial(at_once: int) -> str:
    return "1" if at_once == 1 else '"25%"'


Times = dict[tuple[str, str], list[float]]


async def _in_turns(layout: Layout, folder: Path, change: Change) -> tuple[Times, Times]:
    ours: Times = {}
    theirs: Times = {}
    guardrail = Guardrail(layout, change)
    with ansible_on(layout, folder, pipelining=True) as ansible:
        for _ in range(TRIES):
            for name, at_once in AT_ONCE.items():
                await guardrail.cool()
                await asyncio.to_thread(ansible.cool)
                serial = _serial(at_once)
                for state in ("cold", "warm"):
                    mine = await guardrail.all(at_once)
                    ours.setdefault((name, state), []).append(mine)
                    # Versions that guardrail does not know are put back: it keeps its hands off.
                    their = await asyncio.to_thread(ansible.play, serial)
                    theirs.setdefault((name, state), []).append(their)
                    _put(layout, "2" if guardrail.direction == "forward" else "1")
    await guardrail.cool()
    return ours, theirs


async def _processes(layout: Layout, change: Change) -> dict[str, list[float]]:
    """The same where what runs is read apart: such a host must look well twice, 0.5 s apart."""
    running = RunProbe(("trivial", "version"), r"^(\S+)")
    guardrail = Guardrail(layout, replace(change, running=running), turn=1_000)
    times: dict[str, list[float]] = {}
    await guardrail.cool()
    _put(layout, "1")
    await guardrail.all(HOSTS)
    for _ in range(TRIES):
        for name, at_once in AT_ONCE.items():
            times.setdefault(name, []).append(await guardrail.all(at_once))
    await guardrail.cool()
    return times


def _whole(name: str, values: Sequence[float], theirs: Sequence[float]) -> Row:
    """A whole rollout, whose connections are as cold as those of Ansible's play beside it."""
    peer = median(theirs)
    return spread(
        f"per host, {name}, cold, a whole rollout on Temporal: guardrail reads, sets, reads, "
        "records; Ansible sets",
        values,
        "s",
        peer=peer,
        peer_name="Ansible, sets only",
        at_most=peer / SHARE,
        note="permits, gate and journal as always; from asking the first host to the last one's "
        "answer",
    )


def _one_look(name: str, ours: Sequence[float], theirs: float) -> Row:
    return spread(
        f"per host, {name}, warm: both read, set, read",
        ours,
        "s",
        peer=theirs,
        peer_name="Ansible, four tasks",
        note="the same work in both; Ansible once. No promise: it is kept against less work",
    )


def _two_looks(name: str, times: Sequence[float], theirs: float) -> Row:
    return spread(
        f"per host, {name}, warm, a change with a process: both read, set, look twice 0.5 s apart",
        times,
        "s",
        peer=theirs,
        peer_name="Ansible, ten tasks",
        note="a look reads what is installed and what runs, apart; Ansible once. No promise: most "
        "of it is a wait that both have",
    )


def _put(layout: Layout, version: str) -> None:
    for host in layout.hosts:
        (host.folder / "trivial.version").write_text(f"{version}\n")


def _beside(key: tuple[str, str], ours: Sequence[float], theirs: Sequence[float]) -> Row:
    name, state = key
    peer = median(theirs)
    return spread(
        f"per host, {name}, {state}: guardrail reads, sets, reads; Ansible sets",
        ours,
        "s",
        peer=peer,
        peer_name=f"Ansible, sets only, {min(theirs):.2f} to {max(theirs):.2f}",
        at_most=peer / SHARE,
        note=f"{median(ours) / peer:.0%} of Ansible's; {HOSTS} hosts, pipelining. In one process, "
        "permit given at once, no journal; a change without a process: one look after it",
    )
