"""Who leads is looked at by an activity before each host, and by its worker just before it."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest
from test_rollout import course

from guardrail.decide import leading
from guardrail.errors import Unanswered
from guardrail.model.fleet import Leading
from guardrail.model.messages import HostAnswer, HostTask, MayBegin
from guardrail_workflows import frozen
from guardrail_workflows.frozen import Asked

from engine import World, operation, stands


@pytest.mark.temporal
@pytest.mark.asyncio(loop_scope="module")
async def test_the_leader_of_the_day_begins_last_and_only_it_may_lead(server):
    plan = replace(course(1, 2, 3), leader_last=True)
    world = World(plan, server.client, leads=[0])
    async with operation(server.client, world) as op:
        end = await op.handle.result()
    assert (end.phase, end.changed) == ("completed", 3)
    assert [(task.index, task.follower) for task in world.tasks] == [
        (1, True),
        (2, True),
        (0, False),
    ]


@pytest.mark.temporal
@pytest.mark.asyncio(loop_scope="module")
async def test_unknown_leadership_holds_until_it_is_known(server, monkeypatch):
    monkeypatch.setattr(leading, "AGAIN", 0.5)
    plan = replace(course(1, 2), leader_last=True)
    world = World(plan, server.client, leads=["Consul has no leader"])
    async with operation(server.client, world) as op:
        status = await op.until(stands("leader"))
        (reason,) = status.holds[0].reasons
        assert "who leads cannot be told: " in reason
        assert "Consul has no leader" in reason
        assert world.tasks == []
        world.leads = [-1]
        end = await op.handle.result()
    assert (end.phase, end.changed) == ("completed", 2)


# ---------------------------------------------------------------- the worker's last look


class Says:
    """Who leads, or what comes instead of an answer."""

    def __init__(self, said):
        self.said = said

    async def leading(self, _fleet):
        if isinstance(self.said, Exception):
            raise self.said
        if self.said is None:
            await asyncio.sleep(60)
        return Leading(self.said)


class Free:
    async def now(self):
        return SimpleNamespace(freezes=(), unread=())


class Permitted:
    async def may_begin(self, *_):
        return MayBegin(True, "")


def asked(said, *, follower=True):
    task = HostTask("op", "sha256:x", 0, 1, "forward", follower=follower)
    host = SimpleNamespace(name="consul-1", roles=("consul",))
    plan = SimpleNamespace(where=None, fleet="servers", calendar=None)
    return Asked(task, plan, host, Permitted(), Free(), Says(said) if said != "nobody" else None)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("consul-1", "consul-1 leads now, and others are still to come"),
        (Unanswered("Consul", "http://x", "no leader"), "who leads cannot be told: Consul at"),
        (None, "nothing came within 0.05 s"),
    ],
)
async def test_whoever_leads_by_now_does_not_begin_and_the_answer_says_why(
    said, reason, monkeypatch
):
    monkeypatch.setattr(frozen, "LEADER_WITHIN", 0.05)
    last_look = asked(said)
    assert not await last_look()
    told = last_look.told(HostAnswer(0, 1, "not_begun", "consul-1", "no permit"))
    assert reason in told.reason


async def test_a_follower_begins_and_so_does_the_last_one_though_it_leads():
    assert await asked("consul-2")()
    assert await asked("consul-1", follower=False)()
    assert not await asked("nobody")()


async def test_the_answer_says_what_the_operation_refused_with():
    class Held:
        async def may_begin(self, *_):
            return MayBegin(False, "held on operator:bob")

    last_look = replace(asked("consul-2"), permits=Held())
    assert not await last_look()
    told = last_look.told(HostAnswer(0, 1, "not_begun", "consul-1", "no permit"))
    assert told.reason == "the permit was refused: held on operator:bob"
    began = HostAnswer(0, 1, "changed", "consul-1", "as it should be")
    assert last_look.told(began) == began
