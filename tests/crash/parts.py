"""Which real parts does a crash test run, and how is each of them lost and brought back?

A Temporal server on a database file as `guardrail up` starts it, workers, and a Prometheus: each a
process of its own that can be killed, stopped and started again alone. All are tied to this
process and end with it.
"""

import asyncio
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cli.cli_engine import free_port
from crash.fleet import HERE, HostFleet, now, write_source
from edges.prometheus_parts import RealPrometheus, Target, real_prometheus, target

from guardrail.cli import tied
from guardrail.cli.start import requested
from guardrail.cli.up import Wanted, server_command, temporal_binary, worker_command
from guardrail.edges.temporal import Known, Operations, connect
from guardrail.errors import Unanswered
from guardrail.model.messages import Said, Say, Status

T = TypeVar("T")

EVERY = 0.05
ANSWERS = 60.0
"""Seconds within which a question is asked again while nobody answers."""
SMALL = 256
"""Bytes a file may have for a worker whose store is full."""


def until(condition: Callable[[], T], limit: float, what: str) -> T:
    """The first true answer of a condition on real parts; fails with `what` when time is up."""
    give_up = now() + limit
    while not (answer := condition()):
        assert now() < give_up, f"not within {limit:g} s: {what}"
        time.sleep(EVERY)
    return answer


@dataclass(slots=True)
class Part:
    """A process that can be lost. `command` starts it anew, on whatever is on disk."""

    command: list[str]
    log: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        assert not self.runs, "it runs already"
        tie = [sys.executable, "-I", "-S", str(Path(tied.__file__)), str(os.getpid())]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*tie, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )

    def send(self, number: signal.Signals) -> None:
        assert self.runs, f"it has ended by itself; see {self.log}"
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once, whatever it does; it must have been alive."""
        self.send(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(20)

    def children(self) -> int:
        """How many processes it has started that run still."""
        stats = Path("/proc").glob("[0-9]*/stat")
        return sum(_parent(stat) == self.pid for stat in stats)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
            self.process.kill()
            self.process.wait(20)


def _parent(stat: Path) -> int:
    with contextlib.suppress(OSError):
        return int(stat.read_text().rpartition(")")[2].split()[1])
    return 0


@dataclass(slots=True)
class Rig:
    """The parts, and what a person can say to and hear of operations through Temporal."""

    folder: Path
    address: str
    server: Part
    workers: list[Part]
    prometheus: RealPrometheus
    exporter: Target
    loop: asyncio.Runner = field(default_factory=asyncio.Runner)
    operations: Operations | None = None

    @property
    def hosts(self) -> Path:
        return self.folder / "hosts"

    @property
    def store(self) -> Path:
        return self.folder / "plans"

    @property
    def alive(self) -> list[str]:
        """The parts that have ended by themselves, which none may."""
        named = {"server": self.server} | {f"worker {n}": w for n, w in enumerate(self.workers)}
        return [name for name, part in named.items() if not part.runs]

    # ------------------------------------------------------------ Temporal

    def _asked(self, call: Callable[[Operations], Any], limit: float = ANSWERS) -> Any:
        return self.loop.run(self._ask(call, limit))

    async def _ask(self, call: Callable[[Operations], Any], limit: float) -> Any:
        """Ask until somebody answers: a part may be away for a moment."""
        give_up = now() + limit
        while True:
            try:
                if self.operations is None:
                    where = {"target_host": self.address, "namespace": "default"}
                    self.operations = await connect(where)  # type: ignore[arg-type]
                return await call(self.operations)
            except Unanswered:
                if now() > give_up:
                    raise
                await asyncio.sleep(EVERY)

    def start(self, fleet: HostFleet) -> None:
        """Make the hosts, and start the rollout on them."""
        file = self.folder / f"{fleet.name}.yaml"
        file.write_text(fleet.make())
        request = requested([file], "ann", fleet.name)
        self._asked(lambda operations: operations.start(request))

    def status(self, operation: str) -> Status:
        status: Status = self._asked(lambda operations: operations.status(operation))
        return status

    def known(self, operation: str) -> Known:
        known: Known = self._asked(lambda operations: operations.known(operation))
        return known

    def refusals(self, operation: str) -> tuple[str, ...]:
        reasons: tuple[str, ...] = self._asked(lambda operations: operations.refusals(operation))
        return reasons

    def say(self, operation: str, say: Say) -> Said:
        """Say it, under one id, until it is answered."""
        said: Said = self._asked(lambda operations: operations.say(operation, say))
        return said

    # ------------------------------------------------------------ the workers' plan store

    def lose_store(self) -> None:
        """The store's folder is gone, and a file stands in its place: nothing can be made there."""
        self.store.rename(self.folder / "plans.away")
        self.store.write_text("no folder\n")

    def find_store(self) -> None:
        self.store.unlink()
        (self.folder / "plans.away").rename(self.store)

    def fill_store(self) -> None:
        """From now on the kernel refuses the workers what is longer than a few bytes."""
        for worker in self.workers:
            resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (SMALL, resource.RLIM_INFINITY))

    def empty_store(self) -> None:
        for worker in self.workers:
            free = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, free)

    # ------------------------------------------------------------ what the workers saw

    def seen(self, fleet: HostFleet) -> list[dict[str, Any]]:
        """The answers that the runners of these hosts gave, in order; of workers now dead, too."""
        file = self.folder / "seen"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        return [line for line in lines if line["host"].startswith(f"{fleet.name}-")]


@contextlib.contextmanager
def rig(folder: Path, workers: int = 1) -> Iterator[Rig]:
    """All parts, up and ready."""
    (folder / "plans").mkdir(parents=True)
    (folder / "hosts").mkdir()
    (folder / "seen").touch()
    with contextlib.ExitStack() as stack:
        exporter = stack.enter_context(target("fleet_serves 1\n"))
        prometheus = stack.enter_context(real_prometheus(folder / "prometheus"))
        prometheus.start(exporter)
        made = _made(folder, workers, prometheus, exporter)
        write_source(folder / "source", made.hosts, prometheus.address)
        try:
            made.server.start()
            for worker in made.workers:
                worker.start()
            until(lambda: _answer(made) >= workers, 60, f"{workers} workers answer; see {folder}")
            yield made
        finally:
            for part in (*made.workers, made.server):
                part.end()
            made.loop.close()


def _answer(made: Rig) -> int:
    count: int = made._asked(lambda operations: operations.workers())
    return count


def _made(folder: Path, workers: int, prometheus: RealPrometheus, exporter: Target) -> Rig:
    store = f"file://{folder / 'plans'}"
    port = free_port()
    wanted = Wanted(
        port=port,
        database=folder / "temporal.db",
        source=folder / "source",
        store=store,
        journal=f"file://{folder / 'journal'}",
        workers=workers,
        ready_file=None,
    )
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "xdg"),
        "GUARDRAIL_STATE": str(folder / "state"),
        "TEMPORAL_CONFIG_FILE": str(folder / "none.toml"),
        "CRASH_SEEN": str(folder / "seen"),
        "PYTHONUNBUFFERED": "1",
        **{key: os.environ[key] for key in ("PYTHONPATH",) if key in os.environ},
    }
    (folder / "state").mkdir()
    python, *words = worker_command(wanted.address, "default", wanted)
    odd = [python, str(HERE / "odd_worker.py"), *words[2:], "--current"]
    return Rig(
        folder,
        wanted.address,
        Part(server_command(temporal_binary(), wanted), folder / "temporal.log", environment),
        [Part(odd, folder / f"worker-{n}.log", environment) for n in range(workers)],
        prometheus,
        exporter,
    )
