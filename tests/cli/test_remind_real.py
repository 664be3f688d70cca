"""A reminder on real parts: a worker with a build, a schedule, Prometheus, an HTTP receiver."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from cli_engine import connected, line, temporal_server
from edges.prometheus_parts import real_prometheus, target
from receivers import web_hook

from guardrail.edges.reminders import Reminding

pytestmark = pytest.mark.real
REMINDER = """\
apiVersion: guardrail/v1
kind: Reminder
metadata: {name: gateway}
spec:
  prescale: transit gateway, to 50 Gbit/s
  occasion: {timezone: Pacific/Auckland, at: "07:00", date: DAY}
  leads: {ticket: [10d]}
  people: {owner: ann, deputy: bob, channel: oncall}
  steps:
    - {name: ask, title: ask for it, request: ticket, evidence: {ticket: "CASE-[0-9]+"}}
  verify: {query: tgw_capacity, target: 50, every: 1h}
"""
CHANNEL = """\
---
apiVersion: guardrail/v1
kind: Channel
metadata: {name: NAME}
spec: {address: {env: HOOK_NAME}, tries: 1}
"""
SOURCE = """\
---
apiVersion: guardrail/v1
kind: Source
metadata: {name: prometheus}
spec: {address: "ADDRESS"}
"""


@asynccontextmanager
async def worker(address, folder, hook):
    """As `guardrail up` starts it: a process, with a build that new workflows go to."""
    words = ["--address", address, "--source", str(folder / "source"), "--current"]
    words += ["--store", f"file://{folder}/plans", "--journal", f"file://{folder}/journal"]
    hooks = {f"HOOK_{name}": hook.url(f"/{name}") for name in ("bob", "oncall")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "guardrail_workflows.worker",
        *words,
        "--build-id",
        "build-1",
        env={**os.environ, **hooks, "HOOK_ann": "json://127.0.0.1:9/refused"},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 20)


async def until(holds, limit=40.0):
    async with asyncio.timeout(limit):
        while not (found := await holds()):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        return found


async def test_an_owner_who_is_not_reached_a_target_that_is_and_done(tmp_path):
    day = str((datetime.now(UTC) + timedelta(days=5)).date())
    (tmp_path / "source").mkdir()
    channels = [CHANNEL.replace("NAME", name) for name in ("ann", "bob", "oncall")]
    with (
        temporal_server(tmp_path) as address,
        web_hook() as hook,
        target("tgw_capacity 20\n") as exporter,
        real_prometheus(tmp_path / "prometheus") as prometheus,
    ):
        prometheus.start(exporter)
        source = SOURCE.replace("ADDRESS", prometheus.address)
        (tmp_path / "source" / "all.yaml").write_text(
            REMINDER.replace("DAY", day) + source + "".join(channels)
        )
        await connected(address)
        run = line(tmp_path, address)
        async with worker(address, tmp_path, hook):

            async def heard():
                return hook.got

            await until(heard)
            said = hook.got[0]  # ann refuses, so somebody else has it at once
            assert "gateway: transit gateway, to 50 Gbit/s" in said["title"]
            assert "If nobody acknowledges it by" in said["message"]
            assert f"guardrail remind ack gateway/{day}" in said["message"]
            assert (await run("remind", "ack", "gateway", "--by", "bob")).code == 0

            step = ("--step", "ask", "--ticket", "CASE-7")
            assert (await run("remind", "done", "gateway", *step)).code == 0

            async def refused_for_its_value():
                ended = await run("remind", "done", "gateway")
                assert ended.code == 1
                return "verify is 20, and at least 50 is needed" in ended.err

            await until(refused_for_its_value)
            exporter.text = "tgw_capacity 50\n"

            async def done():
                return (await run("remind", "done", "gateway")).code == 0

            await until(done)
            shown = json.loads((await run("remind", "show", "gateway", "--json")).out)
            assert (shown["standing"], shown["doneBy"], shown["takenBy"]) == ("done", "ann", "ann")
            desk = Reminding((await connected(address)).client, address)
            known = await desk.schedules.of("gateway")
            assert known.schedule.spec.time_zone_name == "Pacific/Auckland"
            kept = (await run("journal", "show", "_notices")).out
            assert "channel ann did not take the message" in kept
            assert "channel bob took the message" in kept
