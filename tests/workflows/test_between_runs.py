"""What if a person speaks while one run of a workflow has ended and the next loads its course?"""

import asyncio
from dataclasses import dataclass, field

import pytest
from temporalio import activity
from test_rollout import course

from guardrail.model import messages
from guardrail.model.plan import Course

from engine import World, operation, real_server


@dataclass
class SlowLoad(World):
    """A world in which the course of a new run is not there before `may_load`."""

    loading: asyncio.Event = field(default_factory=asyncio.Event)
    may_load: asyncio.Event = field(default_factory=asyncio.Event)

    @activity.defn(name=messages.LOAD_COURSE)
    async def load(self, digest: str) -> Course:
        self.loading.set()
        await self.may_load.wait()
        return self.course


@pytest.mark.real
async def test_a_pause_between_two_runs_is_taken_and_not_refused():
    async with real_server() as server:
        world = SlowLoad(course(40, unavailable=3, bake=0.0), server.client, takes=0.05)
        async with operation(server.client, world, run_events=16) as op:
            await asyncio.wait_for(world.loading.wait(), 30)
            saying = asyncio.create_task(op.say("pause", reason="wait"))
            done, _ = await asyncio.wait({saying}, timeout=0.5)
            assert not done  # neither refused nor answered before anything is known
            world.may_load.set()
            said = await saying
            assert said.holds == ("operator:bob",)
            await op.until(lambda status: not status.in_flight)
            begun = len(world.begun)
            await op.say("resume")
            await op.until(lambda status: status.changed > 0 and len(world.begun) > begun)
            with pytest.raises(Exception, match="Workflow update failed"):
                await op.say("resume")
