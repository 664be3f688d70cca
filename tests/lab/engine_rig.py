"""A real `guardrail up` on the lab, the command line as a process, and what the hosts saw.

Times called `at` are seconds of CLOCK_BOOTTIME, which is /proc/uptime: the clock that the hosts
write into their logs. `clock_of` brings the operation's own times (epoch) onto it.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from cli.cli_engine import free_port
from lab.rig import PATIENCE, Lab

from guardrail.cli import tied
from guardrail.edges.temporal import Operations, connect
from guardrail.errors import Unanswered
from guardrail.lab.layout import LabHost
from guardrail.model.messages import Say, Status
from guardrail.model.operation import FINAL, Direction, Hold

T = TypeVar("T")

GUARDRAIL = str(Path(sys.executable).with_name("guardrail"))
HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
EVERY = 0.05
STEPS = ("keep-registered", "switch", "restart")
"""What the changes do on a host once it may begin; staging comes before."""
PERMITTED = 1.3
"""Seconds after a hold in which a host may still begin: the permit's 0.3 s and the host's 1 s."""
TO_AN_END = 400.0
"""Seconds after which the end of an operation is waited for no more; as PATIENCE."""
LATE = 5.0
"""Seconds by which a busy machine may be late with what time alone brings about."""


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def clock_of(epoch: float) -> float:
    """A time of an operation by the hosts' clock.

    Both clocks are looked at: of several looks the one that took least time counts, since this
    process may have to wait in the middle of one.
    """
    return epoch - min(_look() for _ in range(9))[1]


def _look() -> tuple[float, float]:
    """How long it took, and by how much the epoch is ahead."""
    before, epoch, after = now(), time.time(), now()
    return after - before, epoch - after


def until(condition: Callable[[], T], what: str, limit: float = PATIENCE) -> T:
    """The first true answer of a condition on real parts; fails with `what` when time is up."""
    give_up = now() + limit
    while not (answer := condition()):
        assert now() < give_up, f"not within {limit:g} s: {what}"
        time.sleep(EVERY)
    return answer


def past(moment: float) -> None:
    """Wait until that moment is past: what must not happen has had its time."""
    until(lambda: now() > moment, "a moment to be past", moment - now() + PATIENCE)


# ---------------------------------------------------------------- what the hosts saw


@dataclass(frozen=True, slots=True)
class Begin:
    """A host that began to be changed, by its own log."""

    at: float
    host: str


def events(host: LabHost, operation: str, verbs: tuple[str, ...]) -> list[dict[str, object]]:
    """What that operation began and ended on a host."""
    lines = [json.loads(line) for line in host.log.read_text().splitlines()]
    return [x for x in lines if x["operation"] == operation and x["verb"] in verbs]


def begun(lab: Lab, operation: str) -> list[Begin]:
    """The hosts that this operation began to change, in the order of time."""
    found = []
    for host in lab.hosts:
        times = [x["mono"] for x in events(host, operation, STEPS) if x["event"] == "begin"]
        found += [Begin(min(times), host.name)] if times else []
    return sorted(found, key=lambda begin: begin.at)


def restarts(host: LabHost, since: float, agent: str = "consul") -> int:
    """How often the host's agent was restarted since then, whoever asked."""
    lines = [json.loads(line) for line in host.log.read_text().splitlines()]
    mine = [x for x in lines if x["verb"] == "restart" and x["agent"] == agent]
    return sum(x["event"] == "begin" and x["mono"] >= since for x in mine)


def servers_see(lab: Lab) -> dict[str, str]:
    """Each host's Consul version as the servers' member list has it; living members only."""
    members = lab.consul("/v1/agent/members")
    return {m["Name"]: m["Tags"]["build"].split(":")[0] for m in members if m["Status"] == 1}


# ---------------------------------------------------------------- the command line


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; `at` is the moment it had."""

    code: int
    out: str
    err: str
    took: float
    at: float

    @property
    def text(self) -> str:
        """All that it said, on one line: what is told may be wrapped."""
        return " ".join(f"{self.out} {self.err}".split())


def filled(lab: Lab, text: str) -> str:
    """Addresses and paths of the examples as this lab has them."""
    text = text.replace("127.0.20.", f"127.0.{lab.layout.block}.")
    return text.replace("$XDG_STATE_HOME/guardrail/lab", str(lab.state))


def copied(lab: Lab, folder: Path, target: Path) -> Path:
    """A folder of documents, filled for this lab."""
    for path in folder.rglob("*.yaml"):
        place = target / path.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(filled(lab, path.read_text()))
    return target


FILES = """\
apiVersion: guardrail/v1
kind: Fleet
metadata: {{name: {fleet}}}
spec:
  inventory:
    consul: {{address: "{consul}", service: memcached, filter: 'Node matches "{hosts}"'{ring}}}
  failureDomain: {{nodeMeta: zone}}
  reach: {{ssh: {{port: 2222, identity: {{file: {key}}}, knownHosts: {{file: {known}}}}}}}
---
apiVersion: guardrail/v1
kind: Rollout
metadata: {{name: {name}}}
spec:
  fleet: {fleet}
  change: {{name: {change}, from: {old}, to: {new}}}
  stages: [{stages}]
"""


class Engine:
    """`guardrail up` as a process with its own state folder and port."""

    def __init__(self, lab: Lab, folder: Path, source: Path = HERE / "source") -> None:
        self.lab, self.folder = lab, folder
        self.address = f"127.0.0.1:{free_port()}"
        self.source = copied(lab, source, folder / "source")
        self.ready = folder / "ready"
        self.count = 0
        self.tag = uuid.uuid4().hex[:6]  # the hosts' logs outlive an engine
        self.process: subprocess.Popen[bytes] | None = None
        self.loop = asyncio.Runner()
        self.operations: Operations | None = None

    # ------------------------------------------------------------ up and down

    @property
    def environment(self) -> dict[str, str]:
        wanted = ("PATH", "HOME", "LANG", "PYTHONPATH")
        kept = {key: os.environ[key] for key in wanted if key in os.environ}
        return {
            **kept,
            "GUARDRAIL_STATE": str(self.folder / "state"),
            "XDG_STATE_HOME": str(self.folder / "xdg"),
            "GUARDRAIL_SOURCE": str(self.source),
            "GUARDRAIL_USER": "ann",
            "TEMPORAL_ADDRESS": self.address,
            "TEMPORAL_CONFIG_FILE": str(self.folder / "none.toml"),
            "TZ": "UTC",
            "COLUMNS": "120",
        }

    def up(self) -> None:
        """Start it, or start it again on the database that is there."""
        tie = [sys.executable, "-I", "-S", str(Path(tied.__file__)), str(os.getpid())]
        port = self.address.rpartition(":")[2]
        words = [GUARDRAIL, "up", "--port", port, "--ready-file", str(self.ready)]
        with (self.folder / "up.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*tie, *words], stdout=log, stderr=log, env=self.environment
            )
        until(self._is_ready, "guardrail up is ready")

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        return self.ready.exists()

    @property
    def log(self) -> str:
        """What `guardrail up` has said."""
        return (self.folder / "up.log").read_text()

    def worker(self) -> int:
        """The worker's process now: a killed one is started again under another number."""
        assert self.process is not None
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
                words = stat.with_name("cmdline").read_bytes().split(b"\0")
                if parent == self.process.pid and b"guardrail_workflows.worker" in words:
                    return int(stat.parent.name)
        raise AssertionError("guardrail up has no worker")

    def server(self) -> int:
        """The Temporal server's process."""
        return int(json.loads(self.ready.read_text())["server"])

    def down(self) -> None:
        """End it as Ctrl-C does."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)

    def close(self) -> None:
        self.down()
        self.loop.close()

    # ------------------------------------------------------------ the command line

    def __call__(self, *words: str, limit: float = PATIENCE, **environment: str) -> Ended:
        """Run a command as a person would, to its end."""
        began = now()
        done = subprocess.run(
            [GUARDRAIL, *words],
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**self.environment, **environment},
        )
        ended = now()
        return Ended(done.returncode, done.stdout, done.stderr, ended - began, ended)

    def heard(self, words: str, *command: str) -> tuple[float, str]:
        """When a command said these words, and all that it said; it must end with 0."""
        at, said = 0.0, ""
        with subprocess.Popen(
            [GUARDRAIL, *command],
            stdout=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
            env=self.environment,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                at = now() if words in line and not at else at
                said += line
            assert process.wait(PATIENCE) == 0, said
        assert at, said
        return at, said

    def files(
        self,
        fleet: str,
        hosts: str,
        *,
        stages: str = "1, 100%",
        change: str = "keep-registered",
        old: str = "1.8.7",
        new: str = "1.8.8",
        consul: str = "",
        ring: str = "",
    ) -> tuple[str, str]:
        """A rollout's name and its file, with its fleet; `hosts` is a pattern of names. ring: the
        key of the tier's ring, where the fleet names it."""
        self.count += 1
        name = f"roll-{self.tag}-{self.count}"
        path = self.folder / f"{name}.yaml"
        text = FILES.format(
            fleet=fleet,
            consul=consul or self.lab.consul_url,
            hosts=hosts,
            key=self.lab.ssh_key,
            known=self.lab.known_hosts,
            name=name,
            change=change,
            old=old,
            new=new,
            stages=stages,
            ring=f", ring: {ring}" if ring else "",
        )
        path.write_text(text)
        return name, str(path)

    def start(self, fleet: str, hosts: str, **what: str) -> str:
        """Start a rollout and see its plan; its name."""
        name, file = self.files(fleet, hosts, **what)
        started = self("rollout", "start", file)
        assert started.code == 0, started.text
        return name

    def pause(self, operation: str) -> None:
        """Pause it within milliseconds, where a command would take seconds on a busy machine."""
        say = Say(uuid.uuid4().hex, "pause", "ann", at=time.time())
        self.loop.run(self._say(operation, say))

    async def _say(self, operation: str, say: Say) -> None:
        await (await self._connected()).say(operation, say)

    # ------------------------------------------------------------ what an operation says

    def journal(self, operation: str, kind: str) -> list[tuple[float, dict[str, Any]]]:
        """What is recorded of a kind, in order, each with its time by the hosts' clock."""
        said = self("journal", "show", operation, "--json")
        assert said.code == 0, said.text
        return [
            (clock_of(datetime.fromisoformat(entry["at"]).timestamp()), entry["record"])
            for entry in json.loads(said.out)["entries"]
            if entry["kind"] == kind
        ]

    def asked(self, operation: str, direction: Direction) -> list[tuple[float, int]]:
        """When hosts were asked to go in a direction, and which: their places in the plan's order.

        That order is promised. Of two asked together whichever is ready first begins first, and
        where a hold comes between them the other one does not begin.
        """
        found = self._asked(operation, direction)
        return [(at, host["index"]) for at, host in found]

    def asked_in_vain(self, operation: str, direction: Direction) -> list[int]:
        """The places of hosts that were asked and have not begun, once for each time: no "go" came
        within their second, as happens on a busy machine, or it was too late for one.

        Another host is asked then, and this one again after a second, if it still may be.
        """
        turns = {host["turn"] for _, host in self._asked(operation, direction)}
        answers = [host for _, host in self.journal(operation, "answered")]
        none = ("not_begun", "blocked")
        return [x["index"] for x in answers if x["outcome"] in none and x["turn"] in turns]

    def _asked(self, operation: str, direction: Direction) -> list[tuple[float, dict[str, Any]]]:
        found = self.journal(operation, "asked")
        return [(at, host) for at, host in found if host["direction"] == direction]

    def status(self, operation: str) -> Status:
        """Its status, asked again while no worker answers for a moment."""
        return self.loop.run(self._status(operation))

    async def _connected(self) -> Operations:
        if self.operations is None:
            self.operations = await connect({"target_host": self.address, "namespace": "default"})
        return self.operations

    async def _status(self, operation: str) -> Status:
        give_up = now() + PATIENCE
        while True:
            try:
                return await (await self._connected()).status(operation)
            except Unanswered:
                if now() > give_up:
                    raise
                await asyncio.sleep(EVERY)

    def until(
        self,
        operation: str,
        condition: Callable[[Status], object],
        what: str,
        limit: float = PATIENCE,
    ) -> Status:
        """The first status for which the condition is true."""
        give_up = now() + limit
        while True:
            status = self.status(operation)
            if condition(status):
                return status
            assert now() < give_up, f"not within {limit:g} s: {what}; {status.sentence}"
            assert status.phase not in FINAL, f"ended before {what}: {status.sentence}"
            time.sleep(EVERY)

    def until_begun(self, operation: str, count: int) -> list[Begin]:
        """The begins by the hosts' own logs, once there are that many."""

        def enough() -> list[Begin]:
            found = begun(self.lab, operation)
            return found if len(found) >= count else []

        return until(enough, f"{count} hosts begun in {operation}")

    def until_ended(self, operation: str) -> Status:
        return self.until(operation, lambda status: status.phase in FINAL, "an end", TO_AN_END)

    def until_told(self, operation: str, words: str) -> str:
        """The first line of its story with these words: what came and went again is in it too."""

        def lines(status: Status) -> list[str]:
            return [note.text for note in status.story if words in note.text]

        return lines(self.until(operation, lines, f"told: {words}"))[0]

    def until_held(self, operation: str, prefix: str) -> Hold:
        """The first hold of that name, or of a name that begins so."""
        status = self.until(operation, lambda s: holds(s, prefix), f"a hold {prefix}")
        return holds(status, prefix)[0]


def all_pass(status: Status) -> bool:
    """Whether every gate passes now."""
    return all(g.judgement is not None and g.judgement.verdict == "pass" for g in status.gates)


def told(status: Status, words: str) -> list[float]:
    """When the operation's story said these words, by the hosts' clock."""
    return [clock_of(note.at) for note in status.story if words in note.text]


def holds(status: Status, prefix: str) -> list[Hold]:
    return [hold for hold in status.holds if hold.name.startswith(prefix)]


@contextlib.contextmanager
def engine_on(lab: Lab, folder: Path, source: Path = HERE / "source") -> Iterator[Engine]:
    """An engine that is up as long as the block lasts, with a filled copy of `source`."""
    (folder / "state").mkdir(parents=True)
    engine = Engine(lab, folder, source)
    try:
        engine.up()
        yield engine
    finally:
        engine.close()


@contextlib.contextmanager
def engine_with(lab: Lab, folder: Path, **more: str) -> Iterator[Engine]:
    """An engine whose documents are those of `source` and these, by the file that they go to."""
    source = copied(lab, HERE / "source", folder / "documents")
    for name, text in more.items():
        with (source / f"{name}.yaml").open("a") as file:
            file.write(filled(lab, text))
    with engine_on(lab, folder / "engine", source) as running:
        yield running


def report(figure: str) -> None:
    """A measured figure, for who reads the tests' output (pytest -rP)."""
    sys.stdout.write(f"\nmeasured: {figure}\n")
