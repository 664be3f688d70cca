"""Is a command said again that no worker heard, and only that?

Which words the server has for it was seen with a worker that was stopped and came back
(tests/crash); there it comes about by chance, so the server's side is played here.
"""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from temporalio.client import (
    Client,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError

from guardrail.edges import temporal
from guardrail.edges.temporal import NoWorker, Operations
from guardrail.errors import Refused
from guardrail.model.messages import Said, Say

PAUSE = Say("one id", "pause", "ann")
HEARD = Said("holding", 0, ())
NOT_HEARD = ApplicationError("not processed by worker", type="UnprocessedUpdate")


LOST = WorkflowUpdateRPCTimeoutOrCancelledError()
Answer = Said | ApplicationError | WorkflowUpdateRPCTimeoutOrCancelledError


@dataclass
class Server:
    """Answers each command with the next of what it was given; the last one stays."""

    answers: list[Answer]
    ids: list[str] = field(default_factory=list)

    def get_workflow_handle(self, _: str) -> "Server":
        return self

    async def execute_update(self, _: str, say: Say, **rest: Any) -> Said:
        self.ids.append(rest["id"])
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ApplicationError):
            raise WorkflowUpdateFailedError(answer)
        if isinstance(answer, WorkflowUpdateRPCTimeoutOrCancelledError):
            raise answer
        return answer


def saying(*answers: Answer) -> tuple[Operations, Server]:
    server = Server(list(answers))
    return Operations(cast("Client", server), "nowhere"), server


async def test_what_nobody_heard_is_said_again_under_its_id() -> None:
    operations, server = saying(NOT_HEARD, NOT_HEARD, HEARD)
    assert await operations.say("op", PAUSE) == HEARD
    assert server.ids == ["one id"] * 3


async def test_what_was_refused_is_not_said_again() -> None:
    operations, server = saying(ApplicationError("no", ("it is held",), type="Refused"), HEARD)
    with pytest.raises(Refused, match="it is held"):
        await operations.say("op", PAUSE)
    assert len(server.ids) == 1


async def test_what_nobody_answered_is_said_again_under_its_id() -> None:
    operations, server = saying(LOST, HEARD)
    assert await operations.say("op", PAUSE) == HEARD
    assert server.ids == ["one id"] * 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [(NOT_HEARD, "nobody heard `pause`; nothing was done"), (LOST, "`pause` may still be taken")],
)
async def test_it_ends_and_says_what_may_have_come_of_it(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, words: str
) -> None:
    monkeypatch.setattr(temporal, "SAY", 0.0)

    async def nobody(_: Operations, operation: str, reason: str) -> NoWorker:
        return NoWorker("nowhere", reason)

    monkeypatch.setattr(Operations, "_no_worker", nobody)
    operations, _ = saying(answer)
    with pytest.raises(NoWorker, match=words):
        await operations.say("op", PAUSE)
