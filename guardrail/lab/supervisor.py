"""How is a lab started as a whole, and stopped without a trace?

`up` returns when every part answers, the cache is warm, the load runs and the 5-second rates
are full; it waits for conditions, never for a fixed time. Whatever stops it half-way, what it
started is stopped again. `down` stops everything that `up` and the hosts' own tools started,
and nothing else.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from guardrail.errors import GuardrailError, Refused
from guardrail.lab import health, hosts, parts, warm
from guardrail.lab.layout import Layout
from guardrail.lab.parameters import LOADS, Load
from guardrail.lab.processes import Identity, descendants, ended, launch, marked, stop, wait_until
from guardrail.lab.ready import DEMAND, SUCCESS, all_pass, is_steady, value
from guardrail.lab.register import Register, read_register
from guardrail.lab.tools import Report, Tools, ensure

START_LIMIT = 60.0
STOP_ROUNDS = 10


class NotStarted(GuardrailError):
    """A part of the lab did not come up; the message has its last words."""

    exit_code = 3


def up(layout: Layout, load: Load = "peak", report: Report = print) -> bool:
    """Start a lab. False when one is up in this folder already. Raises NotStarted, ToolMissing,
    or Refused when the folder or the addresses are in use for something else."""
    with _exclusive(layout.state):
        if _is_up(layout.state):
            report(f"lab: up already in {layout.state}")
            return False
        began = time.monotonic()

        def say(line: str) -> None:
            report(f"{time.monotonic() - began:5.1f} s  {line}")

        tools = ensure(say)
        register = _prepare(layout, load, tools)
        try:
            with _termination_is_an_interrupt():
                _start(register, tools, say)
        except BaseException:
            say("stopping what was started")
            _stop(register)
            raise
        say(f"lab is up at {load} load; state in {layout.state}")
        return True


def down(state: Path, report: Report = print) -> None:
    """Stop the lab of this folder; quiet when there is none. Raises Refused if a process stays."""
    if not Layout(state).state_file.exists():
        report(f"lab: nothing was started in {state}")
        return
    with _exclusive(state):
        register = read_register(state)
        left = _stop(register)
        if left:
            pids = ", ".join(str(process.pid) for process in left)
            raise Refused(f"these processes of the lab did not stop: {pids}; end them by hand")
        register.layout.state_file.unlink(missing_ok=True)
    report("lab: down")


def stop_part(state: Path, name: str, number: signal.Signals = signal.SIGTERM) -> None:
    """Stop one part ("prometheus", "cache-005/memcached") and wait until it has gone."""
    part = _part(read_register(state), name)
    if process := part.running():
        # A server's sessions go with it: a stopped sshd must not go on serving who is connected.
        stop([process, *descendants([process.pid])], number)


def start_part(state: Path, name: str) -> None:
    """Start a stopped part again as `up` did, and wait until it answers. Raises NotStarted."""
    register = read_register(state)
    part = _part(register, name)
    if not part.running():
        _finish(part, _launch(register, part))
    _await(register, name)


def _part(register: Register, name: str) -> parts.Part:
    if name not in register.parts:
        raise Refused(f"the lab has no part {name!r}; `guardrail lab status` lists them")
    return register.parts[name]


def _is_up(state: Path) -> bool:
    if not Layout(state).state_file.exists():
        return False
    register = read_register(state)
    running = register.running()
    if running and not register.complete:
        raise Refused(f"a start of the lab in {state} was broken off; run: guardrail lab down")
    if running and len(running) < len(register.parts):
        missing = len(register.parts) - len(running)
        raise Refused(f"{missing} parts of the lab in {state} are down; run: guardrail lab down")
    return bool(running)


@contextmanager
def _exclusive(state: Path) -> Iterator[None]:
    """One `up` or `down` at a time for a folder; the folder is made."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"another lab up or down is at work in {state}; wait for it") from None
        yield


@contextmanager
def _termination_is_an_interrupt() -> Iterator[None]:
    """SIGTERM to `up` cleans up as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread: the caller's own handling stands
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _prepare(layout: Layout, load: Load, tools: Tools) -> Register:
    """Write all folders anew. Nothing runs yet."""
    known = {"hosts", "logs", "ssh", "consul", "database", "prometheus", "lock", "stopping"}
    known |= {"lab.json", "lab.part", "database.sql", "database.pid"}
    strange = sorted(path.name for path in layout.state.iterdir() if path.name not in known)
    if strange:
        raise Refused(f"{layout.state} holds {strange[0]}, which is no lab's; name another folder")
    for path in layout.state.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()
    layout.logs.mkdir()
    register = Register(layout, uuid.uuid4().hex, time.time(), load)
    hosts.build_artifacts(tools)
    hosts.build_keys(layout, tools)
    for host in layout.hosts:
        hosts.build_host(layout, host, tools, register.id)
    if os.geteuid() == 0:
        # The one path outside our folders: root's sshd insists on it, and it is gone at a reboot.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    register.write()
    return register


def _start(register: Register, tools: Tools, say: Report) -> None:
    layout = register.layout
    every = layout.hosts
    server = parts.consul_server(layout, tools)
    _refuse_if_taken(server)
    argv, environment = parts.install_database(layout, tools)
    with (layout.logs / "install-db.log").open("wb") as log:
        install = subprocess.Popen(
            argv,
            env={**os.environ, **environment, hosts.LAB_ID: register.id},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _begin(register, server)
        _begin(register, *(parts.host_agent(host, "memcached") for host in every))
        _begin(register, *(parts.host_agent(host, "exporter") for host in every))
        _begin(register, *(parts.sshd(layout, host, tools) for host in every))
        say(f"{len(every)} memcached, {len(every)} exporter, {len(every)} sshd: started")
        _await(register, server.name)
        say("consul server: leader")
        _begin(register, parts.prometheus(layout, tools))
        _begin(register, parts.python_part(layout, "ring", layout.ring_url))
        _begin(register, *(parts.host_agent(host, "consul") for host in every))
    finally:
        failed = install.wait()
    if failed:
        raise NotStarted(f"database: {_last_words(layout.logs / 'install-db.log')}")
    store = parts.database(layout, tools)
    _begin(register, store)
    _await(register, store.name)
    say("database: answers")
    _begin(register, parts.python_part(layout, "boot", layout.boot_url))
    _begin(register, parts.python_part(layout, "load", layout.load_url))
    _await(register, *register.parts)
    say(f"{len(every)} consul agents: registered; ring of {layout.slots} + {layout.spares} formed")
    settle(register, say)
    register.complete = True
    register.write()


def settle(register: Register, say: Report) -> None:
    """Warm the cache, start the load, and wait until the rates tell of nothing else."""
    rate = LOADS[register.load]
    boot, load = register.parts["boot"], register.parts["load"]
    stored = health.fetch(boot.address, boot.port, f"/prewarm?lam={rate}", "POST").strip()
    say(f"cache: warm, {stored} keys")
    health.fetch(load.address, load.port, f"/ctl?lam={rate}", "POST")
    until_steady(register)
    say(f"load: {rate:g} boots/s, served; the 5-second rates are full")


def until_steady(register: Register) -> None:
    """Wait until the rates tell of this load and nothing else, and every host passes its checks."""
    layout, rate = register.layout, LOADS[register.load]
    if not wait_until(lambda: is_steady(layout, rate), START_LIMIT, every=0.25):
        readings = f"demand {value(layout, DEMAND)}, success {value(layout, SUCCESS)}"
        raise NotStarted(f"prometheus: no steady state in {START_LIMIT:g} s: {readings}")
    # Last: of agents that were killed a moment ago the servers know no ill before.
    if not wait_until(lambda: all_pass(layout), START_LIMIT, every=0.25):
        raise NotStarted(f"consul: not every host passes its checks within {START_LIMIT:g} s")
    warm.note(register)


def _refuse_if_taken(server: parts.Part) -> None:
    """Another lab on the same block would be found only after much has been started."""
    try:
        health.fetch(server.address, server.port, "/")
    except ConnectionRefusedError:
        return
    except OSError:
        pass
    raise Refused(f"{server.address}:{server.port} is in use; stop that lab or choose a --block")


def _begin(register: Register, *these: parts.Part) -> None:
    """Write parts down, then start them: what is started is always written down."""
    register.add(*these)
    starting = [_launch(register, part) for part in these]
    for part, process in zip(these, starting, strict=True):
        _finish(part, process)


def _finish(part: parts.Part, process: Identity) -> None:
    """What a host's `lab-host` starts is there once that has ended."""
    if part.pid_file and not ended(process, START_LIMIT):
        raise NotStarted(f"{part.name}: lab-host hangs: {_last_words(Path(part.log))}")


def _launch(register: Register, part: parts.Part) -> Identity:
    environment = {**part.environment, hosts.LAB_ID: register.id}
    process = launch(part.argv, environment, Path(part.log))
    if not part.pid_file:
        register.parts[part.name] = replace(part, process=process)
        register.write()
    return process


def _await(register: Register, *names: str) -> None:
    """Wait until each part answers; raises NotStarted with the last words of one that ended."""
    waiting = [register.parts[name] for name in names]

    def all_answer() -> bool:
        for part in list(waiting):
            answers, _ = health.ask(part)
            if answers:
                waiting.remove(part)
            elif not part.running():
                raise NotStarted(f"{part.name}: ended: {_last_words(Path(part.log))}")
            else:
                return False
        return True

    if not wait_until(all_answer, START_LIMIT):
        _, fault = health.ask(waiting[0])
        words = _last_words(Path(waiting[0].log))
        raise NotStarted(f"{waiting[0].name}: no answer in 60 s ({fault}); log: {words}")


def _last_words(log: Path) -> str:
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return lines[-1][-300:] if lines else f"nothing in {log}"


def _stop(register: Register) -> list[Identity]:
    """Stop every process; returns what is left.

    Killed, not asked: a polite leave takes 5 s an agent. Repeated, because a host's tool may be
    between two commands; it starts nothing any more once the `stopping` file is there.
    """
    (register.layout.state / "stopping").touch()
    for _ in range(STOP_ROUNDS):
        known = set(register.running().values()) | set(marked(hosts.LAB_ID, register.id))
        every = sorted(known | set(descendants(p.pid for p in known)), key=lambda p: p.pid)
        if not every:
            return []
        left = stop(every, signal.SIGKILL)
    return left
