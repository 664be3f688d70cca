"""Is this process the one we started, and how is it started and stopped?

A pid alone is reused; a pid with its start time is not. Nothing is signalled unless both still
match what was written down, so the lab never touches what it did not start.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TERM_WAIT = 8.0
KILL_WAIT = 5.0

_STARTED: set[int] = set()


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for as long as it lives; `start` is in clock ticks since the machine's start."""

    pid: int
    start: int


def start_time(pid: int) -> int | None:
    """None when there is no such process, or only its exit status is left."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(") ")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def alive(process: Identity) -> bool:
    """Whether this very process still runs."""
    return start_time(process.pid) == process.start


def read_pid_file(path: Path) -> Identity | None:
    """What `lab-host` wrote; None without a file or with half of one."""
    try:
        pid, start = path.read_text().split()
        return Identity(int(pid), int(start))
    except (OSError, ValueError):
        return None


def launch(
    argv: Sequence[str], environment: Mapping[str, str], log: Path, cwd: Path | None = None
) -> Identity:
    """Start in a session of its own, output to the log. Raises OSError if it cannot be run."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=cwd,
        )
    # The lab outlives its starter: no warning that the child still runs when this object goes.
    _STARTED.add(process.pid)
    process.returncode = 0
    start = start_time(process.pid)
    return Identity(process.pid, -1 if start is None else start)


def descendants(roots: Iterable[int]) -> list[Identity]:
    """Every process below these, as they are now."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(errors="replace")
            except OSError:
                continue
            parent = int(stat.rpartition(") ")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return [Identity(pid, start) for pid in found if (start := start_time(pid)) is not None]


def marked(variable: str, value: str) -> list[Identity]:
    """Processes whose environment has this variable with this value: a lab's stragglers."""
    wanted = f"{variable}={value}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        start = start_time(int(entry.name))
        if wanted in environment and start is not None:
            found.append(Identity(int(entry.name), start))
    return found


def reap() -> None:
    """Take the exit status of children that have ended, where they are ours to take."""
    # Only by the pids that we started: waiting for any child would steal another library's.
    for pid in list(_STARTED):
        try:
            done, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            done = pid
        if done:
            _STARTED.discard(pid)


def send(processes: Iterable[Identity], number: signal.Signals) -> None:
    """Signal those that are still the ones named."""
    for process in processes:
        if alive(process):
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:
                continue


def wait_until(condition: Callable[[], bool], limit: float, every: float = 0.05) -> bool:
    """Whether the condition came true within `limit` seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def ended(process: Identity, limit: float) -> bool:
    """Whether this process ended within `limit` seconds."""

    def gone() -> bool:
        reap()
        return not alive(process)

    return wait_until(gone, limit, every=0.01)


def stop(processes: Sequence[Identity], first: signal.Signals = signal.SIGTERM) -> list[Identity]:
    """Stop these; SIGKILL for what does not follow in time. Returns what is left."""

    def left() -> list[Identity]:
        reap()
        return [process for process in processes if alive(process)]

    send(processes, first)
    if not wait_until(lambda: not left(), TERM_WAIT if first is signal.SIGTERM else KILL_WAIT):
        send(left(), signal.SIGKILL)
        wait_until(lambda: not left(), KILL_WAIT)
    return left()
