"""Who may say what, through the real workflow; signatures are made up (see engine.py)."""

import time
from dataclasses import replace

import pytest
from temporalio.client import WorkflowUpdateFailedError
from test_rollout import HERE, course, lines_of

from guardrail.model.plan import ApprovalPoint, Limit, Word

from engine import World, operation, stands

pytestmark = pytest.mark.temporal
TWO = (ApprovalPoint("start", 0, 2, True, HERE),)


async def refused(saying) -> str:
    with pytest.raises(WorkflowUpdateFailedError) as failure:
        await saying
    return failure.value.cause.message


@pytest.mark.asyncio(loop_scope="module")
async def test_two_people_are_two_keys(server):
    world = World(course(2, approvals=TWO), server.client)
    async with operation(server.client, world) as op:
        await op.until(stands("approval:start"))
        for by in ("bob", "cid", "dee"):
            told = await refused(op.say("approve", by=by, point="start"))
            assert f"nobody vouches for the name {by}" in told
        assert "wants somebody else" in await refused(op.say("approve", sign="ann", point="start"))
        await op.say("approve", by="ann", sign="bob", point="start")
        again = await refused(op.say("approve", by="cid", sign="bob", point="start"))
        assert again == "bob has approved start already"
        assert not world.begun
        await op.say("approve", sign="cid", point="start")
        (held,) = (await op.status()).holds
        assert "nobody vouches for ann who asked" in held.reasons[1], "one of the two may be ann"
        await op.say("approve", sign="dee", point="start")
        status = await op.handle.result()
    assert (status.phase, status.changed) == ("completed", 2)
    said = [each.record for each in lines_of(world, op.name) if each.kind == "command"]
    assert [(r.by, dict(r.options)["key"]) for r in said] == [
        ("bob", "SHA256:bob"),
        ("cid", "SHA256:cid"),
        ("dee", "SHA256:dee"),
    ]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_signature_for_other_words_changes_nothing(server):
    world = World(course(2, approvals=TWO), server.client)
    async with operation(server.client, world) as op:
        await op.until(stands("approval:start"))
        told = await refused(op.say("approve", point="start", signature="bob\nother words"))
        assert told == "not over this text"
        assert "is not signed" in await refused(op.say("pause", signature="bob\nx"))
        assert "more than" in await refused(
            op.say("approve", point="start", signature="x" * 20_000)
        )
        status = await op.status()
        assert stands("approval:start")(status)
        await op.say("abort", reason="enough")
        assert (await op.handle.result()).phase == "aborted"


@pytest.mark.asyncio(loop_scope="module")
async def test_an_override_waits_for_its_owner_and_ends_by_itself(server):
    words = (Word("cache-critical", 1.0, ("dee",)),)
    limit = Limit("unavailable", "1", 1.0, "hosts", HERE, words)
    plan = replace(course(1, 90, unavailable=1), limits=(limit,))
    world = World(plan, server.client, takes=0.5)
    async with operation(server.client, world) as op:
        await op.until(lambda s: s.changed >= 1)
        until = float(int(time.time()) + 6)
        said = {"limit": "unavailable", "value": 3.0, "until": until, "reason": "late"}
        told = (await op.say("override", **said)).text
        assert "waits for one of dee (policy cache-critical)" in told
        point = told.partition("--point ")[2].split()[0]
        assert "nobody vouches" in await refused(op.say("approve", "dee", point=point))
        assert "in force; dee agreed" in (await op.say("approve", sign="dee", point=point)).text
        await op.until(lambda s: len(s.in_flight) > 1)
        status = await op.until(lambda s: not s.overrides)
        assert status.as_of >= until
        await op.until(lambda s: len(s.in_flight) < 2)
        later = [await op.status() for _ in range(20)]
        assert max(len(status.in_flight) for status in later) < 2
        await op.say("abort", reason="seen enough")
        assert (await op.handle.result()).phase == "aborted"
