"""A window that closes in the middle of a wave, on a real Temporal server with real time.

Times are seconds from the making of the course: closed from 9 to 12. A host takes at most 2 s and a
bake 1 s, so the last one may begin before 6.
"""

import time
from dataclasses import replace

import pytest

from guardrail.decide.chain import check
from guardrail.model.calendar import Calendar, Closed, ClosedBy, Shut
from guardrail.model.common import Origin
from guardrail.model.plan import Caps, Course, GateRule, Wave

from engine import World, operation

pytestmark = pytest.mark.temporal
HERE = Origin("policy test", "test.yaml", 1)
CLOSES, OPENS, BAKE, LONGEST = 9.0, 12.0, 1.0, 2.0
LAST = CLOSES - LONGEST - BAKE


def course(now, hosts):
    rule = ClosedBy("maintenance of the database", "daily", "UTC", HERE)
    times = (now + CLOSES, now + OPENS)
    calendar = Calendar(now + 3600, (rule,), (Closed(*times, 0),), (Shut(*times),))
    gates = (GateRule("margin", "safety", 5.0, "person", 0.5, 10.0, HERE, "q", "below 0.7"),)
    known = Course(
        "sha256:x", "ann", (Wave("100%", 0, hosts),), (0,) * hosts, (0,), Caps(1, 1, 1, 0), gates,
        (), BAKE,
    )  # fmt: skip
    return replace(known, host_timeout=LONGEST, calendar=calendar)


@pytest.mark.asyncio(loop_scope="module")
async def test_hosts_in_flight_finish_the_rest_wait_and_opening_leads_to_a_bake(server):
    began = time.time()
    world = World(course(began, 14), server.client, takes=0.7)
    async with operation(server.client, world) as op:
        held = await op.until(lambda s: s.holds)
        raised = held.holds[0].since - began
        (reason,) = held.holds[0].reasons
        assert held.holds[0].name == "window"
        assert LAST <= raised < CLOSES
        assert "a host takes up to 2 s + bake 1 s = 3 s; it closes at" in reason
        assert "maintenance of the database, daily UTC (policy test (test.yaml:1))" in reason
        quiet = await op.until(lambda s: not s.in_flight)
        begun = len(world.begun)
        assert quiet.changed == begun > 1
        shut = await op.until(lambda s: s.holds and "closed until" in s.holds[0].reasons[0])
        assert shut.as_of - began >= CLOSES
        baking = await op.until(lambda s: not s.holds)
        assert baking.as_of - began >= OPENS
        assert len(world.begun) == begun
        end = await op.handle.result()
    assert (end.phase, end.changed) == ("completed", 14)
    cleared = next(note.at for note in end.story if note.text.startswith("hold window cleared"))
    assert cleared - began >= OPENS
    lines = check(world.journal.read(op.name), op.name).lines
    asked = [line.at for line in lines if line.kind == "asked"]
    assert min(at for at in asked if at > cleared) - cleared >= BAKE - 0.01
    assert not [at for at in asked if began + LAST < at < cleared + BAKE - 0.01]
