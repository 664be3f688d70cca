"""Does a channel work? A person asks, the worker tries it, since only it knows the address.

One short workflow for each question; what was sent is in the journal `_notices`.
"""

from datetime import timedelta
from typing import cast

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from guardrail.decide.record import notice_record
    from guardrail.model import board, journal, messages
    from guardrail.model.board import TrialAsked, Tried
    from guardrail.model.journal import Entry, EntryId, Head
    from guardrail.model.notice import ROUTES, SEND, Answer, Message, Route, SendTask

ONCE = RetryPolicy(maximum_attempts=1)


@workflow.defn(name=board.TRIAL)
class NoticeTrial:
    """Which channels there are, and whether one takes a message."""

    @workflow.run
    async def run(self, asked: TrialAsked) -> Tried:
        """Look, and where a channel is named, send."""
        routes: list[Route] = await workflow.execute_activity(
            ROUTES,
            result_type=list[Route],
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=ONCE,
        )
        if not asked.channel:
            return Tried(tuple(routes))
        message = _message(asked)
        answer: Answer = await workflow.execute_activity(
            SEND,
            SendTask(message, asked.channel),
            result_type=cast("type", Answer),
            start_to_close_timeout=timedelta(minutes=10),
            heartbeat_timeout=timedelta(seconds=15),
            retry_policy=ONCE,
            summary=asked.channel,
        )
        await self._record(message, answer)
        return Tried(tuple(routes), answer)

    async def _record(self, message: Message, answer: Answer) -> None:
        where = EntryId(f"trial/{workflow.info().run_id}", 0, 0)
        entry = Entry(journal.NOTICES, where, answer.at, notice_record(message, answer, 0))
        await workflow.execute_activity(
            messages.RECORD,
            [entry],
            result_type=Head,
            start_to_close_timeout=timedelta(seconds=10),
            schedule_to_close_timeout=timedelta(seconds=60),
            summary="a trial message",
        )


def _message(asked: TrialAsked) -> Message:
    return Message(
        kind="finish",
        about="a trial",
        cause=f"trial:{asked.channel}",
        subject=f"guardrail: a trial of the channel {asked.channel}",
        lines=(
            f"{asked.by or 'Somebody'} has tried whether messages arrive here: this one did.",
            "Nothing is held.",
            "If nobody acts nothing happens.",
            "guardrail notify status",
        ),
        to=(asked.channel,),
    )
