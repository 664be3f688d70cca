"""Does the lab start and stop as a whole, whatever interrupts it?"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest
from lab.rig import PATIENCE

from guardrail.errors import Refused
from guardrail.lab.hosts import LAB_ID
from guardrail.lab.layout import Layout
from guardrail.lab.processes import marked, start_time, wait_until
from guardrail.lab.register import read_register
from guardrail.lab.supervisor import down, up

pytestmark = pytest.mark.lab

BLOCK = 41


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Layout]:
    """The layout of a lab of five hosts, not started; stopped after the test."""
    layout = Layout(tmp_path / "state", BLOCK, 5)
    yield layout
    down(layout.state)


def command(layout: Layout, verb: str, *more: str) -> list[str]:
    place = ["--dir", str(layout.state), "--block", str(layout.block), "--hosts", "5"]
    return [sys.executable, "-m", "guardrail.lab", verb, *place, *more]


def listening() -> set[str]:
    """The addresses of the small lab's block on which something listens."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        address = socket.inet_ntoa(bytes.fromhex(fields[1].split(":")[0])[::-1])
        if fields[3] == "0A" and address.startswith(f"127.0.{BLOCK}."):
            found.add(address)
    return found


def interrupted_up(layout: Layout, after: str, number: signal.Signals) -> tuple[int, str]:
    """Start `up` in a process of its own and signal it once it has said `after`."""
    with subprocess.Popen(
        command(layout, "up"), stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr
        for line in process.stderr:
            if after in line:
                os.kill(process.pid, number)
                break
        _, rest = process.communicate(timeout=PATIENCE)
    return process.returncode, rest


async def test_down_leaves_no_process_and_nothing_listening(small: Layout) -> None:
    assert up(small)
    lab_id = read_register(small.state).id
    assert len(listening()) == 5 + 6
    host = small.hosts[0]
    async with asyncssh.connect(
        host.address,
        port=2222,
        username=small.ssh_user,
        client_keys=[str(small.ssh_key)],
        known_hosts=str(small.known_hosts),
        config=None,
    ) as connection:
        await connection.run("setsid sleep 1000 >/dev/null 2>&1 </dev/null &")
        session = await connection.create_process("exec sleep 1001")
        assert len(marked(LAB_ID, lab_id)) > 20
        down(small.state)
        await session.wait_closed()
    assert marked(LAB_ID, lab_id) == []
    assert listening() == set()
    assert not small.state_file.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", ["sshd: started", "database: answers"])
def test_an_interrupted_up_cleans_up_after_itself(
    small: Layout, after: str, number: signal.Signals
) -> None:
    status, said = interrupted_up(small, after, number)
    assert status == 130
    assert "stopping what was started" in said
    assert marked(LAB_ID, read_register(small.state).id) == []
    assert listening() == set()


def test_a_killed_up_is_cleaned_up_by_down(small: Layout) -> None:
    status, _ = interrupted_up(small, "consul server: leader", signal.SIGKILL)
    assert status == -signal.SIGKILL
    lab_id = read_register(small.state).id
    assert marked(LAB_ID, lab_id) != []
    with pytest.raises(Refused, match="was broken off; run: guardrail lab down"):
        up(small)
    down(small.state)
    assert marked(LAB_ID, lab_id) == []
    assert listening() == set()


def test_down_touches_nothing_that_it_did_not_start(small: Layout) -> None:
    interrupted_up(small, "consul server: leader", signal.SIGKILL)
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        try:
            body = json.loads(small.state_file.read_text())
            server = next(part for part in body["parts"] if part["name"] == "consul")
            true_pid, server["process"]["pid"] = server["process"]["pid"], bystander.pid
            small.state_file.write_text(json.dumps(body))
            assert start_time(bystander.pid) != server["process"]["start"]
            down(small.state)
            assert bystander.poll() is None
            # The server is found by its mark, though the register no longer names it.
            assert start_time(true_pid) is None
        finally:
            bystander.kill()


def test_status_says_what_is_down_and_exits_with_1(small: Layout) -> None:
    nothing = subprocess.run(command(small, "status"), capture_output=True, text=True, check=False)
    assert nothing.returncode == 1
    assert "guardrail lab up" in nothing.stderr
    assert up(small)
    good = subprocess.run(command(small, "status", "--json"), capture_output=True, check=False)
    assert good.returncode == 0
    assert json.loads(good.stdout)["ok"] is True
    register = read_register(small.state)
    process = register.parts["cache-002/exporter"].running()
    assert process
    # Stopped, not killed: the process lives and does not answer.
    os.kill(process.pid, signal.SIGSTOP)
    bad = subprocess.run(command(small, "status"), capture_output=True, text=True, check=False)
    assert bad.returncode == 1
    (line,) = (line for line in bad.stdout.splitlines() if line.startswith("DOWN"))
    assert "cache-002/exporter" in line
    assert "1 down" in bad.stdout
    assert "event-loop lag: boot" in bad.stdout


def test_a_taken_address_is_refused_before_anything_starts(small: Layout) -> None:
    with (
        socket.create_server((small.consul_address, 8500)),
        pytest.raises(Refused, match=r"127\.0\.41\.1:8500 is in use"),
    ):
        up(small)
    assert wait_until(lambda: listening() == set(), PATIENCE)


def test_a_folder_that_is_no_labs_is_refused_and_kept(small: Layout) -> None:
    small.state.mkdir()
    (small.state / "thesis.txt").write_text("mine")
    with pytest.raises(Refused, match=r"thesis\.txt, which is no lab's"):
        up(small)
    assert (small.state / "thesis.txt").read_text() == "mine"
