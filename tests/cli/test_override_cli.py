"""What is said about overrides and signatures, through the real command line."""

from dataclasses import replace
from pathlib import Path

import pytest
from cli_engine import ORIGIN, Pretended, working
from signing_keys import key, line, signed_for
from test_rollout_cli import LONG, Desk, address, desk  # noqa: F401 - fixtures

from guardrail.cli.override import until_of, value_of
from guardrail.cli.start import requested
from guardrail.decide.chain import check
from guardrail.edges.store import PlanFolder
from guardrail.errors import Refused
from guardrail.files.contractfile import contract_of, written
from guardrail.model.plan import ApprovalPoint
from guardrail_workflows.identity import Identity

pytestmark = pytest.mark.temporal


async def test_a_limit_is_exceeded_shown_and_taken_back(desk):  # noqa: F811
    desk.hosts.seconds = LONG
    await desk.start("exceeded")
    add = ("override", "add", "exceeded")
    wrong = await desk.run(*add, "wave", "3", "--until", "2h", "--reason", "late")
    assert wrong.code == 1
    assert "waves are cut before the start" in wrong.err
    late = await desk.run(*add, "unavailable", "3", "--reason", "late")
    assert "over already" in late.err
    good = await desk.run(*add, "unavailable", "3", "--until", "2h", "--reason", "late")
    assert good.code == 0, good.err
    assert "override of unavailable 3 instead of 1 until " in good.out
    assert "by ann (unverified): late; in force" in good.out
    listed = await desk.run("override", "list")
    assert "exceeded: unavailable 3 instead of 1" in listed.out
    assert "override of unavailable 3" in (await desk.run("rollout", "status", "exceeded")).out
    assert "override of unavailable 3" in (await desk.run("rollout", "explain", "exceeded")).out
    back = await desk.run(*add, "unavailable", "1", "--reason", "enough")
    assert "unavailable is what the plan says again" in back.out
    assert (await desk.run("override", "list")).out == "No limit is overridden.\n"


async def test_what_to_sign_is_printed_and_nothing_is_said(desk):  # noqa: F811
    desk.hosts.seconds = LONG
    await desk.start("to-sign")
    shown = await desk.run("rollout", "rollback", "to-sign", "--accept-churn", "--what-to-sign")
    assert shown.code == 0, shown.err
    assert shown.out.startswith("guardrail statement 1\nverb: rollback\noperation: to-sign\nplan: ")
    assert shown.out.endswith("scope: all\naccepts churn: yes\n")
    assert "ssh-keygen -Y sign -n guardrail" in shown.err
    both = await desk.run("rollout", "approve", "--point", "start", "--what-to-sign", "--sign", "k")
    assert both.code == 1
    assert "take one of" in both.err
    unsigned = await desk.run("rollout", "rollback", "to-sign", "--accept-churn")
    assert unsigned.code == 1
    assert "nobody vouches for the name ann" in unsigned.err
    gone = await desk.run("rollout", "approve", "to-sign", "--point", "x", "--signature", "none")
    assert "cannot be read" in gone.err


@pytest.mark.parametrize(
    ("written", "ends"),
    [("", 0.0), ("2h", 8_200.0), ("30m", 2_800.0), ("1970-01-01T01:00:00Z", 3_600.0)],
)
def test_until(written, ends):
    assert until_of(written, 1_000.5) == ends


@pytest.mark.parametrize(
    ("written", "words"), [("soon", "a duration"), ("1970-01-01T01:00:00", "which zone")]
)
def test_until_is_clear(written, words):
    with pytest.raises(Refused, match=words):
        until_of(written, 0.0)


def test_values():
    assert value_of("unavailable", "3") == 3.0
    assert value_of("pace.between", "10s") == 10.0
    with pytest.raises(Refused, match="unavailable cannot be '10%'"):
        value_of("unavailable", "10%")


class Signing(Pretended):
    """Pretended hosts, and the worker's real look at real keys."""

    signers = None

    def activities(self):
        return [*super().activities(), *Identity(self.signers, PlanFolder(self.store)).all]


async def test_two_others_sign_and_the_requester_does_not_count(tmp_path, address):  # noqa: F811
    desk = Desk(tmp_path, address)  # noqa: F811
    desk.hosts = Signing(f"file://{tmp_path / 'plans'}")
    desk.hosts.signers = tmp_path / "allowed_signers"
    desk.hosts.approvals = (ApprovalPoint("start", 0, 2, True, ORIGIN),)
    keys = {who: key(tmp_path, who) for who in ("ann", "bob", "cid", "dee", "eve")}

    async def approve(*words):
        return await desk.run("rollout", "approve", "two", "--point", "start", *words)

    async with working(address, desk.hosts):
        started = await desk.start("two")
        assert "approve two --point start --sign KEYFILE" in started.out
        early = await approve("--sign", str(keys["bob"]))
        assert "no signature can be checked" in early.err
        known = [line(who, keys[who]) for who in ("ann", "bob", "cid", "dee")]
        desk.hosts.signers.write_text("".join(known))
        for words, why in (
            (("--by", "bob"), "nobody vouches for the name bob"),
            (("--sign", str(keys["ann"])), "ann asked for this operation"),
            (("--sign", str(keys["eve"])), "by nobody whom the worker knows"),
        ):
            no = await approve(*words)
            assert no.code == 1
            assert why in no.err
        first = await approve("--sign", str(keys["bob"]), "--by", "dan")
        assert first.code == 0, first.err
        assert "still held: approval:start" in first.out
        assert "bob has approved start already" in (await approve("--sign", str(keys["bob"]))).err
        text = (await approve("--what-to-sign")).out
        file = tmp_path / "signature"
        file.write_text(signed_for(text.replace("plan: sha256:", "plan: sha256:0"), keys["cid"]))
        assert "not over this text" in (await approve("--signature", str(file))).err
        file.write_text(signed_for(text, keys["cid"]))
        second = await approve("--signature", str(file))
        assert second.code == 0, second.err
        assert "nobody vouches for ann who asked" in (await desk.run("rollout", "explain")).out
        assert desk.hosts.begun == [], "any one of the two may be who asked, under another name"
        assert (await approve("--sign", str(keys["dee"]))).code == 0
        await desk.until("two", lambda status: status.phase == "completed")


def plan_file(desk, rollout):  # noqa: F811
    """A plan file, as `guardrail plan -o` writes it, asked for by somebody who is not known."""
    request = replace(requested([Path(desk.file(rollout))], "ann", ""), operation=rollout)
    path = desk.folder / f"{rollout}.json"
    path.write_bytes(written(contract_of(request, desk.hosts.plan(request), ())))
    return str(path)


async def test_where_the_start_is_signed_two_others_are_enough(tmp_path, address):  # noqa: F811
    desk = Desk(tmp_path, address)  # noqa: F811
    desk.hosts = Signing(f"file://{tmp_path / 'plans'}")
    desk.hosts.signers = tmp_path / "allowed_signers"
    desk.hosts.approvals = (ApprovalPoint("start", 0, 2, True, ORIGIN),)
    keys = {who: key(tmp_path, who) for who in ("bob", "cid", "dee", "eve")}
    desk.hosts.signers.write_text("".join(line(w, keys[w]) for w in ("bob", "cid", "dee")))
    path = plan_file(desk, "signed")

    async def start(*words):
        return await desk.run("rollout", "start", *words)

    async with working(address, desk.hosts):
        plain = await start(desk.file("signed"), "--sign", str(keys["bob"]))
        assert (plain.code, "of a plan file" in plain.err) == (1, True), plain.err
        strange = await start(path, "--name", "strange", "--sign", str(keys["eve"]))
        assert strange.code == 1
        assert "by nobody whom the worker knows" in strange.err
        shown = await start(path, "--name", "signed", "--what-to-sign")
        assert shown.out.startswith("guardrail statement 1\nverb: start\noperation: signed\nplan: ")
        assert "--name signed --signature FILE" in shown.err
        signature = tmp_path / "signature"
        signature.write_text(signed_for(shown.out, keys["bob"]))
        other = await start(path, "--name", "other", "--signature", str(signature))
        assert "not over this text" in other.err
        begun = await start(path, "--name", "signed", "--signature", str(signature))
        assert begun.code == 0, begun.err
        status = await desk.status("signed")
        assert (status["requester"], status["requesterVerified"]) == ("bob", True)
        approve = ("rollout", "approve", "signed", "--point", "start", "--sign")
        own = await desk.run(*approve, str(keys["bob"]))
        assert "bob asked for this operation" in own.err
        for who in ("cid", "dee"):
            assert (await desk.run(*approve, str(keys[who]))).code == 0
        await desk.until("signed", lambda status: status.phase == "completed")
    fixed = check(desk.hosts.journal.read("signed")).lines[0].record
    assert dict(fixed.facts)["signed by"] == "bob"
    assert dict(fixed.facts)["key"].startswith("SHA256:")
