"""May this host begin now? A worker's answer, from the operation itself and never older than 0.3 s.

A workflow stops scheduling at once, but what it has scheduled keeps starting for seconds. So the
worker asks the workflow just before a host is told "go". All hosts of an operation share one
question in flight; an answer is good for 0.3 s from the moment its question was *sent*. Silence is
asked again for a while, and only an explicit no, or no answer at all, keeps a host from beginning.
Whose turn is over gets that no, whatever the others get. And a no from before this host was asked
is not about it (the gates' watch asks, too, for who is in flight): the question is put anew.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from guardrail.decide.permit import for_turn
from guardrail.model.messages import MayBegin

VALID = 0.3
"""Seconds from sending the question."""
AHEAD = 0.15
"""Seconds before an answer in use ends that the next question is sent, so that hosts need not wait
for it: a question takes 10 to 200 ms at a busy operation."""
PATIENCE = 10.0
"""Seconds of silence after which a host does not begin."""
ASK_AGAIN = 0.05
EARLIER = 2
"""Answers that may be older than a host's turn: the one in use, and the one on its way."""

Ask = Callable[[str], Awaitable[MayBegin]]
"""Asks an operation; raises whatever a failed query raises."""


@dataclass(slots=True)
class _Known:
    """The last answer of one operation, and the question in flight."""

    until: float = 0.0
    answer: MayBegin | None = None
    question: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Permits:
    """The permits of one worker. `clock` is monotonic, in seconds."""

    ask: Ask
    clock: Callable[[], float] = time.monotonic
    patience: float = PATIENCE
    _known: dict[str, _Known] = field(default_factory=dict)

    async def may_begin(self, operation: str, turn: int, run: str = "") -> MayBegin:
        """Whether the host that was asked with this turn, by that run, may begin now."""
        answer = await self.answer(operation)
        known = self._known[operation]
        for _ in range(EARLIER):
            if answer.allowed or answer.newest >= turn or answer is not known.answer:
                break
            known.until = 0.0
            answer = await self.answer(operation)
        return for_turn(answer, turn, run)

    async def answer(self, operation: str) -> MayBegin:
        """A fresh answer for all hosts; a refusal with its reason when none comes in time."""
        known = self._known.setdefault(operation, _Known())
        give_up = self.clock() + self.patience
        while self.clock() < give_up:
            if known.answer is not None and self.clock() < known.until:
                if self.clock() >= known.until - AHEAD:
                    self._send_one(operation, known)
                return known.answer
            await self._question(operation, known, give_up - self.clock())
        return MayBegin(False, f"the operation gave no permit within {self.patience:g} s")

    def ahead(self, operation: str) -> None:
        """Have an answer on its way for a host that is about to be ready; nobody waits for it."""
        known = self._known.setdefault(operation, _Known())
        if self.clock() >= known.until - AHEAD:
            self._send_one(operation, known)

    async def _question(self, operation: str, known: _Known, limit: float) -> None:
        """Wait for the one question in flight, sending it if there is none."""
        question = self._send_one(operation, known)
        await asyncio.wait({question}, timeout=max(0.0, limit))

    def _send_one(self, operation: str, known: _Known) -> asyncio.Task[None]:
        """The one question in flight."""
        if known.question is None or known.question.done():
            known.question = asyncio.create_task(self._send(operation, known))
        return known.question

    async def _send(self, operation: str, known: _Known) -> None:
        sent = self.clock()
        try:
            answer = await self.ask(operation)
        except Exception:  # noqa: BLE001, RUF100 - an unanswered query is asked again, whatever it was
            await asyncio.sleep(ASK_AGAIN)
            return
        known.answer, known.until = answer, sent + VALID
