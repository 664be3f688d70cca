"""A shadow on a real Temporal with real hosts: all of it happens, and nothing is changed."""

import pytest
from cli.cli_engine import line
from crash.fleet import OLD, HostFleet
from real_worker import parts, worker

from guardrail.decide.chain import check
from guardrail.decide.shadow import report
from guardrail.edges.journal import journal_at
from guardrail.edges.leases import Desk
from guardrail.edges.temporal import Operations
from guardrail.model import messages
from guardrail_workflows import activities

pytestmark = pytest.mark.temporal
TAKES = 0.6


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with parts(tmp_path_factory.mktemp("shadow")) as found:
        yield found


CARE = """
apiVersion: guardrail/v1
kind: Policy
metadata: {name: care}
spec:
  match: {fleets: [dusk]}
  warmUp: {gate: host-warm, within: 30s}
  approvals: {at: [start], count: 2}
---
apiVersion: guardrail/v1
kind: Gate
metadata: {name: host-warm}
spec:
  title: Is a host warm
  class: safety
  query: 'fleet_serves{host!="{host}"}'
  pass: {above: 0.5}
  every: 100ms
  failAfter: 2
  passAfter: 1
  evidence: {maxAge: 5s}
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A host is expected to take 0.6 s instead of 10."""
    real = activities.shadow_host

    async def shortly(*words, seconds, **more):
        assert seconds == 10.0
        return await real(*words, seconds=TAKES, **more)

    monkeypatch.setattr(activities, "shadow_host", shortly)


@pytest.mark.asyncio(loop_scope="module")
async def test_everything_but_the_change_and_its_report(server, made, tmp_path):
    fleet = HostFleet("dusk", made.hosts, 16)
    made.exporter.text = "fleet_serves 1\n"
    (made.folder / "source" / "care.yaml").write_text(CARE)
    async with worker(server.client, made) as here:
        request = here.request(fleet, shadow=True)
        await here.operations.start(request)
        begun = await here.until("dusk", lambda s: s.changed >= 2)
        assert begun.shadow
        assert begun.sentence.startswith("shadow, nothing is changed: ")
        (known,) = [one for one in await here.operations.all() if one.operation == "dusk"]
        assert known.shadow
        made.exporter.text = "fleet_serves 0.2\n"
        held = await here.until("dusk", lambda s: "gate:fleet-serves" in [h.name for h in s.holds])
        assert held.changed < fleet.count
        made.exporter.text = "fleet_serves 1\n"
        end = await here.until("dusk", lambda s: s.finished_at is not None, 90.0)
        assert (await Desk(server.client).table()).leases == ()
    assert (end.phase, end.changed, end.shadow) == ("completed", fleet.count, True)
    assert fleet.aways() == fleet.aways("stage") == []
    assert fleet.versions() == {OLD: fleet.count}
    entries = check(journal_at(made.journal).read("dusk"), "dusk").lines
    answers = [one.fields for one in entries if one.kind == "answered"]
    assert all(["shadow", "yes"] in one["facts"] for one in answers)
    asked = {one.fields["turn"]: one.at for one in entries if one.kind == "asked"}
    told = {one.fields["turn"]: one.at for one in entries if one.fields.get("outcome") == "changed"}
    assert min(told[turn] - asked[turn] for turn in told) >= TAKES
    found = report("dusk", entries)
    assert found.shadow
    gate = next(one for one in found.held if one.name == "gate:fleet-serves")
    assert gate.since < gate.finished_at < end.finished_at
    assert [(one.point, one.people) for one in found.passed] == [("start", 3)]
    assert found.warm == fleet.count
    run = line(tmp_path, GUARDRAIL_JOURNAL=made.journal)
    shown = await run("rollout", "report", "dusk")
    assert shown.code == 0, shown.err
    assert shown.out.startswith("dusk was a shadow: no host was changed; completed: 16 of 16 hosts")
    assert "gate:fleet-serves: 0.2 is not above 0.5" in shown.out
    assert "It did not wait for:\n" in shown.out
    assert "approval at start: 3 people would have had to agree (policy care (" in shown.out
    assert "warm-up: 16 hosts would have been cold first" in shown.out


@pytest.mark.asyncio(loop_scope="module")
async def test_under_its_type_nothing_is_changed_though_the_word_was_lost(server, made):
    """What an earlier build's command line would send, or a mistake of ours."""
    fleet = HostFleet("dawn", made.hosts, 1)
    async with worker(server.client, made) as here:
        request = here.request(fleet)
        handle = await server.client.start_workflow(
            messages.SHADOW,
            messages.RolloutInput(request),
            id=messages.workflow_id("dawn"),
            task_queue=messages.TASK_QUEUE,
            result_type=messages.Status,
        )
        end = await handle.result()
    assert (end.phase, end.shadow) == ("completed", True)
    assert fleet.versions() == {OLD: 1}
    assert isinstance(here.operations, Operations)
