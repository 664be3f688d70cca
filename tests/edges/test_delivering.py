"""A message gets to somebody: over channels that fail, and workers that are lost meanwhile."""

from dataclasses import replace

import pytest
from receivers import web_hook
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from guardrail.edges.notify import Channels, deliver
from guardrail.errors import Refused
from guardrail.model.board import Delivered
from guardrail.model.common import Secret
from guardrail.model.notice import Answer, Channel, Failed, Message, Route, Sent
from guardrail.ports import Notifier
from guardrail.twin_notices import TwinNotifier
from guardrail_workflows.notifying import Notifying

SAID = Message("hold", "op", "hold:x", "guardrail: op is held", ("why",))
ROUTES = (Route("mail", ("finish",)), Route("pager", ("hold",), "mail"), Route("wall", ("hold",)))


def answers(found: tuple[Answer, ...]) -> list[tuple[str, bool]]:
    return [(answer.channel, isinstance(answer, Sent)) for answer in found]


async def test_a_channel_that_refuses_escalates_and_the_others_hear_it_once() -> None:
    twin = TwinNotifier(ROUTES, refusing={"pager"})
    rounds: list[int] = []
    found = await deliver(twin, SAID, heard=lambda told: rounds.append(len(told)))
    assert answers(found) == [("pager", False), ("wall", True), ("mail", True)]
    assert [name for name, _ in twin.heard] == ["wall", "mail"]
    assert rounds == [2, 3]


async def test_without_any_channel_nothing_counts_as_said() -> None:
    with pytest.raises(Refused, match="no channel any more"):
        await deliver(TwinNotifier(()), SAID)


async def test_whoever_takes_over_asks_nobody_again_whose_answer_is_known() -> None:
    """What Temporal gives to the next worker is a dictionary, as JSON has it."""
    twin = TwinNotifier(ROUTES, refusing={"pager"})
    env = ActivityEnvironment()
    failed = {"channel": "pager", "at": 1.0, "why": "no", "tries": 4, "kind": "failed"}
    sent = {"channel": "wall", "at": 1.0, "tries": 1, "kind": "sent"}
    before = {"answers": [failed, sent]}
    env.info = replace(env.info, heartbeat_details=[before])
    notifying = Notifying(None, twin)  # type: ignore[arg-type]  # no client is needed to send
    found: Delivered = await env.run(notifying.deliver, SAID)
    assert answers(found.answers) == [("pager", False), ("wall", True), ("mail", True)]
    assert [name for name, _ in twin.asked] == ["mail"]


async def test_documents_that_cannot_be_read_are_an_error_and_no_success() -> None:
    def broken() -> tuple[Channel, ...]:
        raise Refused("channels.yaml cannot be read")

    notifying = Notifying(None, Channels(broken))  # type: ignore[arg-type]
    with pytest.raises(ApplicationError, match="cannot be read"):
        await ActivityEnvironment().run(notifying.deliver, SAID)


@pytest.mark.parametrize("kind", ["twin", "real"])
async def test_both_notifiers_keep_the_same_contract(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_hook() as hook, web_hook() as bad:
        bad.answers = [404]
        monkeypatch.setenv("GOOD", hook.url())
        monkeypatch.setenv("BAD", bad.url())
        documents = (Channel("good", Secret("env", "GOOD")), Channel("bad", Secret("env", "BAD")))
        notifier: Notifier = Channels(lambda: documents)
        if kind == "twin":
            notifier = TwinNotifier((Route("good"), Route("bad")), refusing={"bad"})
        assert [route.name for route in notifier.routes()] == ["bad", "good"]
        good = await notifier.send(SAID, "good")
        assert isinstance(good, Sent)
        assert good.channel == "good"
        for name in ("bad", "neither"):
            refused = await notifier.send(SAID, name)
            assert isinstance(refused, Failed)
            assert (refused.channel, bool(refused.why)) == (name, True)
