"""A checklist on real parts: a worker with a build, its schedule, Prometheus, an HTTP receiver."""

import json
import signal

import pytest
from cli_engine import connected, line, temporal_server
from edges.prometheus_parts import real_prometheus, target
from receivers import web_hook
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from test_remind_real import CHANNEL, SOURCE, until, worker

from guardrail.edges.checklists import Checklists

pytestmark = pytest.mark.real
LIMIT = 120.0
"""Seconds that anything may take here; what takes longer hangs."""
CHECKLIST = """\
apiVersion: guardrail/v1
kind: Checklist
metadata: {name: wave}
spec:
  schedule: {cron: "0 9 29 2 *", timezone: Pacific/Auckland}
  tells: [ann]
  items:
    - {name: room, title: there is room, query: room, pass: {above: 5}}
"""


async def test_a_worker_goes_through_its_list_and_tells_whoever_can_be_reached(tmp_path):
    (tmp_path / "source").mkdir()
    # ann refuses everything, and bob is whom she names.
    ann = CHANNEL.replace("NAME", "ann").replace("tries: 1}", "tries: 1, otherwise: bob}")
    bob = CHANNEL.replace("NAME", "bob").replace("tries: 1}", "tries: 1, tells: [hold]}")
    with (
        temporal_server(tmp_path) as address,
        web_hook() as hook,
        target("room 9\n") as exporter,
        real_prometheus(tmp_path / "prometheus") as prometheus,
    ):
        prometheus.start(exporter)
        source = SOURCE.replace("ADDRESS", prometheus.address)
        (tmp_path / "source" / "all.yaml").write_text(CHECKLIST + source + ann + bob)
        desk = Checklists((await connected(address)).client, address)
        run = line(tmp_path, address)

        async def report(verdict: str) -> tuple[dict, int]:
            """The next one that the schedule makes with that verdict."""

            async def made():
                await desk.schedules.trigger("wave")
                last = (await desk.standing("wave")).report
                return last is not None and last.verdict == verdict

            async def shown():
                """A later run may be on its way still."""
                ended = await run("season", "report", "wave", "--json")
                (found,) = json.loads(ended.out)["checklists"]
                return None if found["problem"] else (found, ended.code)

            await until(made, LIMIT)
            return await until(shown, LIMIT)

        refused = await run("season", "report", "wave")
        assert (refused.code, "has no schedule" in refused.err) == (1, True)
        async with worker(address, tmp_path, hook):

            async def kept():
                return await desk.schedules.names() == ("wave",)

            await until(kept, LIMIT)
            new = await run("season", "report")
            assert (new.code, new.out.splitlines()[0]) == (3, "wave: has not been gone through yet")
            found, code = await report("pass")
            assert (code, found["report"]["items"][0]["value"]) == (0, 9.0)
            assert found["nextAt"].endswith("-02-28T20:00:00.000Z")  # its own clock is 13 h ahead
            count = len(hook.got)

            exporter.text = "room 3\n"
            found, code = await report("fail")
            assert code == 1
            said = hook.got[count]
            assert said["title"] == "wave: FAIL: room"
            assert "3 is not above 5" in said["message"]
            assert "If nobody acts: " in said["message"]
            assert said["message"].rstrip().endswith("guardrail season report wave")

            prometheus.end(signal.SIGKILL)
            found, code = await report("inconclusive")
            assert (code, found["report"]["items"][0]["kind"]) == (3, "unreachable")
            assert hook.got[-1]["title"] == "wave: not known: room"

            await desk.schedules.pause("wave", "the site moves")

            async def quiet():
                info = (await desk.schedules.of("wave")).info
                return not info.running_actions

            await until(quiet, LIMIT)
            paused = (await run("season", "report")).out.splitlines()[-1]
            assert paused.startswith("paused: the site moves; to go on: temporal schedule toggle")
        notices = (await run("journal", "show", "_notices")).out
        assert "channel ann did not take the message" in notices
        assert "channel bob took the message: wave: FAIL: room" in notices
        reports = (await run("journal", "show", "_checks")).out
        assert "checklist wave was gone through: inconclusive: room" in reports

        # Temporal keeps a result for a day here; it is deleted instead.
        told = await run("season", "report", "wave", "--json")
        for one in (await desk.schedules.of("wave")).info.recent_actions:
            await forgotten(desk.client, one.action)

        async def gone():
            return "does not keep it" in (await desk.standing("wave")).problem

        await until(gone, LIMIT)
        assert await run("season", "report", "wave", "--json") == told
        elsewhere = line(tmp_path / "elsewhere", address)
        lost = await elsewhere("season", "report", "wave")
        assert (lost.code, "Temporal does not keep it any more" in lost.out) == (3, True)


async def forgotten(client, action):
    """What becomes of a run once the time is over for which a namespace keeps it."""
    run = WorkflowExecution(workflow_id=action.workflow_id, run_id=action.first_execution_run_id)
    asked = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=run)
    await client.workflow_service.delete_workflow_execution(asked)
