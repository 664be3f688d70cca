"""Are two people two keys, on real parts and through the command line? (see test_scenarios.py)"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.engine_rig import Ended, Engine, begun
from lab.rig import Lab
from signing_keys import key, line, signed_for

pytestmark = pytest.mark.lab


@pytest.fixture
def signers(engine: Engine) -> Iterator[Path]:
    """The worker's file of allowed signers: not there yet."""
    path = engine.source / "allowed_signers"
    yield path
    path.unlink(missing_ok=True)


def test_two_others_have_to_sign_and_the_requester_does_not_count(
    engine: Engine, fresh_lab: Lab, signers: Path, tmp_path: Path
) -> None:
    keys = {name: key(tmp_path, name) for name in ("ann", "bob", "cid", "dee", "eve")}
    name = engine.start("two", "^cache-00[1-3]$")  # as ann
    engine.until_held(name, "approval:start")

    def approve(*words: str) -> Ended:
        return engine("rollout", "approve", name, "--point", "start", *words)

    def refused(ended: Ended, words: str) -> None:
        assert ended.code == 1, ended.text
        assert words in ended.text

    refused(approve("--sign", str(keys["bob"])), "no signature can be checked")
    signers.write_text("".join(line(who, keys[who]) for who in ("ann", "bob", "cid", "dee")))
    for by in ("bob", "cid", "dan"):
        refused(approve("--by", by), f"nobody vouches for the name {by}")
    refused(approve("--sign", str(keys["ann"])), "ann asked for this operation")
    refused(approve("--sign", str(keys["eve"])), "by nobody whom the worker knows")

    first = approve("--sign", str(keys["bob"]), "--by", "dan")
    assert first.code == 0, first.text
    assert "still held: approval:start" in first.text
    refused(approve("--sign", str(keys["bob"])), "bob has approved start already")

    text = approve("--what-to-sign").out
    assert text.splitlines()[:3] == ["guardrail statement 1", "verb: approve", f"operation: {name}"]
    plan = text.splitlines()[3]
    other = text.replace(plan, plan[:-1] + ("0" if plan[-1] != "0" else "1"))
    file = tmp_path / "signature"
    file.write_text(signed_for(other, keys["cid"]))
    refused(approve("--signature", str(file)), "not over this text")
    assert begun(fresh_lab, name) == []

    file.write_text(signed_for(text, keys["cid"]))
    second = approve("--signature", str(file))
    assert second.code == 0, second.text
    assert "nobody vouches for ann who asked" in engine("rollout", "explain", name).text
    third = approve("--sign", str(keys["dee"]))  # one of the two might be ann, by another name
    assert third.code == 0, third.text
    status = engine.until_ended(name)
    assert (status.phase, status.changed) == ("completed", 3)
    journal = engine("journal", "show", name).text
    for who in ("bob", "cid", "dee"):
        assert f"{who} says approve at start (verified True, key SHA256:" in journal
