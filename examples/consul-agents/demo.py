"""The main job, from nothing to a summary: what `make demo` runs.

Starts the lab and the engine, plans and rolls `examples/consul-agents/` over all cache hosts at the
lab's peak load, shows it live, asks the Consul servers and each agent which version runs, writes a
summary, and stops everything it started, also when it fails or is interrupted.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from guardrail.lab.layout import Layout
from guardrail.lab.processes import wait_until
from guardrail.lab.ready import all_pass

HERE = Path(__file__).parent
GUARDRAIL = [str(Path(sys.executable).parent / "guardrail")]
NEW = "1.8.8"
CATALOG_LIMIT = 60.0
"""Seconds."""


def main() -> int:
    """Run the demo in a state folder of its own; 0 when every host is at the new version."""
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="guardrail-demo-") as folder:
        os.environ["XDG_STATE_HOME"] = folder
        os.environ["GUARDRAIL_SOURCE"] = str(HERE / "source")
        os.environ.setdefault("GUARDRAIL_USER", "demo")
        # A port of its own, so that a Temporal that runs here already is not in the way.
        os.environ["TEMPORAL_ADDRESS"] = f"127.0.0.1:{free_port()}"
        layout = Layout(state=Path(folder) / "guardrail" / "lab")
        with lab(), engine(Path(folder)):
            status = roll_out(layout)
            agreed = verify(layout)
            summary(began)
    return status or (0 if agreed else 1)


def say(text: str) -> None:
    """A heading between the steps."""
    print(f"\n━━ {text}", flush=True)


def guardrail(*words: str, check: bool = True) -> int:
    """Run a command as a person would, showing what it shows."""
    print(f"$ guardrail {' '.join(words)}", flush=True)
    return subprocess.run([*GUARDRAIL, *words], check=check).returncode


def free_port() -> int:
    """A port of the loopback address that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextlib.contextmanager
def lab() -> Iterator[None]:
    """The lab of real parts, as long as the block lasts."""
    say("The lab: 30 cache hosts with Consul agents, a database, load at the daily peak")
    try:
        guardrail("lab", "up")
        yield
    finally:
        say("Stopping the lab")
        guardrail("lab", "down", check=False)


@contextlib.contextmanager
def engine(folder: Path) -> Iterator[None]:
    """The embedded Temporal server and a worker, as long as the block lasts."""
    say("The engine: an embedded Temporal server and a worker")
    ready = folder / "ready"
    port = os.environ["TEMPORAL_ADDRESS"].rpartition(":")[2]
    words = [*GUARDRAIL, "up", "--port", port, "--ready-file", str(ready)]
    child = subprocess.Popen(words)
    try:
        give_up = time.monotonic() + 60
        while not ready.exists():
            if child.poll() is not None or time.monotonic() > give_up:
                sys.exit("guardrail up did not become ready; its log is said above")
            time.sleep(0.1)
        yield
    finally:
        say("Stopping the engine")
        child.send_signal(signal.SIGINT)
        child.wait(timeout=60)


def await_catalog(layout: Layout) -> None:
    """On a busy machine an agent may be out of the catalog for a while: it would not be planned."""
    if not all_pass(layout):
        print("  waiting until the catalog lists every cache host", flush=True)
        wait_until(lambda: all_pass(layout), CATALOG_LIMIT)


def roll_out(layout: Layout) -> int:
    """Plan, start and watch the rollout; its exit code."""
    files = [str(HERE / "fleet.yaml"), str(HERE / "rollout.yaml")]
    await_catalog(layout)
    say("The plan: what will be done, within which limits, and where they come from")
    guardrail("plan", *files)
    say("The rollout, host by host, watched live")
    guardrail("rollout", "start", *files)
    return guardrail("rollout", "watch", check=False)


def verify(layout: Layout) -> bool:
    """Ask the Consul servers and every agent itself; say so. True when all are at NEW."""
    say(f"Asked again, from outside: who runs {NEW}?")
    members = httpx.get(f"{layout.consul_url}/v1/agent/members").json()
    seen = {m["Name"]: m["Tags"]["build"].split(":")[0] for m in members if m["Status"] == 1}
    names = [host.name for host in layout.hosts]
    told = {host.name: agent_version(host.address) for host in layout.hosts}
    servers = sum(seen.get(name) == NEW for name in names)
    agents = sum(version == NEW for version in told.values())
    print(f"  as the Consul servers see it: {servers} of {len(names)} cache hosts")
    print(f"  as each agent tells:          {agents} of {len(names)} cache hosts")
    return servers == agents == len(names)


def agent_version(address: str) -> str:
    """What a host's own agent says it is."""
    version = httpx.get(f"http://{address}:8500/v1/agent/self").json()["Config"]["Version"]
    return str(version)


def summary(began: float) -> None:
    """Show and keep the summary."""
    say("Summary")
    target = HERE.parents[1] / "build" / "demo-summary.md"
    target.parent.mkdir(exist_ok=True)
    guardrail("rollout", "summary", "--out", str(target))
    print(f"  written to build/{target.name}; the demo took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
