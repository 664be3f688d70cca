"""`guardrail up` on a real Temporal server: ready, and gone without a trace, whoever ends it."""

import asyncio
import contextlib
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli_engine import FILES, ORIGIN, Pretended, connected, free_port, line, temporal_server

from guardrail.cli.supervise import _only_one
from guardrail.edges.deployment import make_current
from guardrail.errors import Refused
from guardrail.model.plan import ApprovalPoint
from guardrail_workflows.worker import make_worker

pytestmark = pytest.mark.temporal

STUB = Path(__file__).parent / "stub_worker"


async def until(true, what, seconds=30.0):
    """Wait for a condition, with a limit."""
    loop = asyncio.get_running_loop()
    limit = loop.time() + seconds
    while not true():
        assert loop.time() < limit, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.05)


def alive(pid):
    """Whether a process runs; one that has ended and was not yet collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@dataclass
class Up:
    process: asyncio.subprocess.Process
    facts: dict

    @property
    def children(self):
        return [self.facts["server"], *self.facts["workers"]]

    async def ended(self):
        out, err = await asyncio.wait_for(self.process.communicate(), 30)
        return self.process.returncode, out.decode(), err.decode()


@contextlib.asynccontextmanager
async def upped(folder: Path, *words: str, **more: str):
    """A `guardrail up` that is ready; whatever a test leaves of it is killed."""
    port = free_port()
    command = line(folder, PYTHONPATH=str(STUB), **more)
    ready = folder / "ready.json"
    process = await command.start("up", "--port", str(port), "--ready-file", str(ready), *words)
    children = []
    try:
        await until(lambda: ready.exists() or process.returncode is not None, "ready")
        if process.returncode is not None:
            pytest.fail((await process.communicate())[1].decode())
        up = Up(process, json.loads(ready.read_text()))
        children = up.children
        yield up
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_the_worker_then_the_server_and_leaves_nothing(tmp_path, number):
    async with upped(tmp_path) as up:
        assert all(alive(pid) for pid in up.children)
        up.process.send_signal(number)
        code, out, err = await up.ended()
        assert not any(alive(pid) for pid in up.children)
    assert code == 0
    assert f"guardrail is up: Temporal at {up.facts['address']}" in out
    assert f"export TEMPORAL_ADDRESS={up.facts['address']}" in out
    assert err.splitlines()[-2:] == ["worker 1 stopped", "Temporal stopped"]
    assert "good order" in (tmp_path / "logs" / "worker-1.log").read_text()
    assert not (tmp_path / "ready.json").exists()


async def test_killed_itself_it_leaves_nothing_behind(tmp_path):
    async with upped(tmp_path) as up:
        up.process.kill()
        await up.process.wait()
        await until(lambda: not any(alive(pid) for pid in up.children), "children ended")


async def test_ready_means_that_temporal_knows_a_worker(tmp_path):
    async with upped(tmp_path) as up:
        operations = await connected(up.facts["address"])
        assert await operations.workers() == 1
        assert await operations.all() == ()


async def test_a_worker_that_dies_is_told_of_and_started_again(tmp_path):
    async with upped(tmp_path) as up:
        os.kill(up.facts["workers"][0], signal.SIGKILL)
        log = tmp_path / "logs" / "worker-1.log"
        await until(lambda: log.read_text().count("stub worker begins") == 2, "a second start")
        up.process.send_signal(signal.SIGINT)
        code, _, err = await up.ended()
    assert code == 0
    assert "worker 1 ended (killed by SIGKILL)" in err
    assert "    stub worker begins" in err
    assert "It is started again in 1 s." in err


async def test_the_servers_death_ends_it_with_3(tmp_path):
    async with upped(tmp_path) as up:
        os.kill(up.facts["server"], signal.SIGKILL)
        code, _, err = await up.ended()
        assert not any(alive(pid) for pid in up.children)
    assert code == 3
    assert f"Temporal at {up.facts['address']} did not answer: Temporal ended" in err


async def test_a_taken_port_is_refused_with_what_to_do(tmp_path):
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        ended = await line(tmp_path, PYTHONPATH=str(STUB))("up", "--port", str(port))
    assert ended.code == 1
    assert f"127.0.0.1:{port} cannot be used: address already in use" in ended.err
    assert "--port" in ended.err


async def left_open(folder: Path, build: str) -> None:
    """An operation that began on another build stands, held, in the database of `folder`."""
    with temporal_server(folder) as address:
        operations = await connected(address)
        consent = ApprovalPoint("start", 0, 1, True, ORIGIN)
        pretended = Pretended(f"file://{folder / 'plans'}", approvals=(consent,))
        async with make_worker(operations.client, pretended.activities(), build):
            await make_current(operations, build)
            (folder / "it.yaml").write_text(FILES.replace("NAME", "before"))
            file = str(folder / "it.yaml")
            started = await line(folder, address)("rollout", "start", file)
            assert started.code == 0, started.err


async def test_another_build_is_refused_while_an_operation_is_open_or_runs_beside(tmp_path):
    await left_open(tmp_path, "0.0.1-former")
    port = str(free_port())
    ended = await line(tmp_path, PYTHONPATH=str(STUB))("up", "--port", port)
    assert ended.code == 1
    assert "operations are open that began on another" in ended.err
    assert "before (build 0.0.1-former): running" in ended.err
    assert "guardrail up --beside" in ended.err
    assert ended.err.count("Temporal stopped") == 1
    async with upped(tmp_path, "--beside") as up:
        known = await (await connected(up.facts["address"])).known("before")
        assert (known.open, known.build) == (True, "0.0.1-former")
        up.process.send_signal(signal.SIGINT)
        code, out, _ = await up.ended()
    assert code == 0
    assert "before (build 0.0.1-former)" in out
    assert f"TEMPORAL_ADDRESS={up.facts['address']} guardrail worker" in out


def test_two_never_share_a_database(tmp_path):
    lock = tmp_path / "temporal.db.lock"
    with (
        _only_one(lock),
        pytest.raises(Refused, match="another guardrail up uses the database"),
        _only_one(lock),
    ):
        pytest.fail("both have it")
    with _only_one(lock):
        pass
