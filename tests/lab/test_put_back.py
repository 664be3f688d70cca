"""A host that somebody puts back to the former version by hand is found before the next stage."""

import asyncio

import pytest
from lab.engine_rig import Engine
from lab.rig import Lab, on_host

pytestmark = [pytest.mark.lab, pytest.mark.second]

NEW, OLD = "1.8.8", "1.8.7"


def put_back(lab: Lab, name: str) -> None:
    """What an engineer at the host's shell would do; its node stays in the catalog."""
    words = (
        f"lab-host stage consul {OLD}",
        f"lab-host switch consul {OLD}",
        "lab-host restart consul",
    )
    for done in asyncio.run(on_host(lab, lab.layout.host(name), *words)):
        assert done.exit_status == 0, done.stderr


def test_a_host_put_back_by_hand_raises_reverted_and_a_retry_changes_it_again(
    engine: Engine, fresh_lab: Lab
) -> None:
    lab = fresh_lab
    name = engine.start("paced", "^cache-00[1235]$", stages="1, 100%")
    first = engine.until_begun(name, 1)[0].host
    engine.pause(name)  # what is in flight goes on to its end
    engine.until(name, lambda s: s.changed >= 1, "a changed host")
    put_back(lab, first)
    assert engine("rollout", "resume", name).code == 0

    held = engine.until_held(name, "reverted")
    assert held.reasons == (f"{first} is at {OLD}, and was brought to {NEW}",)
    shown, why = engine("rollout", "status", name), engine("rollout", "explain", name)
    for said in (shown, why):
        assert said.code == 0, said.text
        assert f"{first} is at {OLD}" in said.text
        assert "retry or skip the hosts, or rollback" in said.text
        assert f"guardrail rollout retry {name}" in said.text
    status = engine.status(name)
    assert len(engine.until_begun(name, 1)) == 1, "the next stage began"
    assert status.changed == 0

    retried = engine("rollout", "retry", name, first, "--by", "ann")
    assert retried.code == 0, retried.text
    ended = engine.until_ended(name)
    assert (ended.phase, ended.changed) == ("completed", 4)
    story = " ".join(note.text for note in ended.story)
    assert "4 changed hosts read again: all as they should be" in story
    told = engine("journal", "show", name)
    assert f"1 changed host read again: {first}: at {OLD}, and was brought to {NEW}" in told.text
