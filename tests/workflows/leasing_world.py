"""Operations that keep real leases on one role, with made-up hosts and gates."""

import time
from dataclasses import dataclass, field, replace

from temporalio import activity
from test_rollout import course

from guardrail.edges.leases import Desk, keep
from guardrail.model import messages
from guardrail.model.change import ChangeRef
from guardrail.model.common import Amount
from guardrail.model.fleet import Fleet, HostList
from guardrail.model.lease import Answer, Done, Lease, Need, Wanted
from guardrail.model.messages import (
    HostAnswer,
    HostTask,
    Leased,
    Planned,
    PlanRequest,
    RolloutInput,
)
from guardrail.model.plan import Course
from guardrail.model.rollout import Rollout

from engine import Running, World


@dataclass
class Leasing(World):
    """A world of several operations: `courses` by name, `tokens` and `spans` of their hosts.

    looks: what is said to be behind an orphaned lease, one word a look, and the last for good.
    """

    courses: dict = field(default_factory=dict)
    tokens: list = field(default_factory=list)
    spans: list = field(default_factory=list)
    looks: list = field(default_factory=lambda: ["nobody has looked"])

    @activity.defn(name=messages.PLAN_OPERATION)
    async def plan(self, request: PlanRequest) -> Planned:
        name = request.operation
        plan = replace(self.courses[name], plan=name, requester=request.requester)
        return Planned(name, plan, (), ())

    @activity.defn(name=messages.LOAD_COURSE)
    async def load(self, digest: str) -> Course:
        return replace(self.courses[digest], plan=digest)

    @activity.defn(name=messages.CHANGE_HOST)
    async def change(self, task: HostTask) -> HostAnswer:
        began = time.time()
        answer = await World.change(self, task)
        if answer.outcome != "not_begun":
            self.tokens.append((task.operation, task.lease))
            self.spans.append((task.operation, began, time.time()))
        return answer

    @activity.defn(name=messages.KEEP_LEASE)
    async def keep_lease(self, wanted: Wanted) -> None:
        name = messages.workflow_id(wanted.holder.operation)
        handle = self.client.get_workflow_handle(name)

        async def report(answer: Answer) -> None:
            await handle.signal(messages.LEASED, Leased(wanted.turn, answer, time.time()))

        await keep(Desk(self.client), wanted, report, activity.heartbeat, self._behind)

    async def _behind(self, _: Lease) -> str:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    @activity.defn(name=messages.END_LEASE)
    async def end_lease(self, done: Done) -> None:
        await Desk(self.client).give_back(done)

    @property
    def activities(self):
        return [*World.activities.fget(self), self.keep_lease, self.end_lease]


def needing(*ends, **fields):
    """A course of hosts that are all of one cache-critical role."""
    need = Need("memcached", True, f"{(1 << ends[-1]) - 1:x}")
    return replace(course(*ends, unavailable=1, **fields), leases=(need,))


async def begin(world, name, *, priority="normal", requester="ann", run_events=8000):
    """Start one of a world's operations."""
    change, all_hosts = ChangeRef("agent", "1", "2", "d"), (Amount(100, True),)
    rollout = Rollout("r", "cache", change, all_hosts, priority=priority)
    request = PlanRequest(name, rollout, Fleet("cache", HostList(())), requester)
    handle = await world.client.start_workflow(
        messages.ROLLOUT,
        RolloutInput(request, run_events=run_events),
        id=messages.workflow_id(name),
        task_queue=messages.TASK_QUEUE,
        result_type=messages.Status,
    )
    return Running(world, handle, name)
