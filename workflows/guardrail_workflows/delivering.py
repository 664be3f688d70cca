"""How does a workflow have a message delivered, and what became of it recorded?"""

from collections.abc import Sequence
from datetime import timedelta
from itertools import count

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from guardrail.decide.record import notice_record
    from guardrail.model import board, messages
    from guardrail.model.board import Delivered
    from guardrail.model.journal import Entry, EntryId, Head
    from guardrail.model.notice import Answer, Message, Sent

SHORT = timedelta(seconds=10)
DELIVERED_WITHIN = timedelta(minutes=20)
SILENT = timedelta(seconds=15)
"""Without a heartbeat for so long, the worker that delivers is lost."""
RECORDED_WITHIN = timedelta(hours=6)
"""A journal that cannot be written for longer lacks what it should have; the next one goes on."""


async def delivered(message: Message, summary: str = "") -> tuple[Answer, ...] | None:
    """What its channels answered; nothing: no channel asks for it. None: it could not be tried,
    since the worker's channels cannot be read."""
    try:
        found: Delivered = await workflow.execute_activity(
            board.DELIVER,
            message,
            result_type=Delivered,
            start_to_close_timeout=DELIVERED_WITHIN,
            heartbeat_timeout=SILENT,
            retry_policy=RetryPolicy(maximum_attempts=3),
            summary=summary or message.cause,
        )
    except FailureError as error:
        workflow.logger.error("a message could not be delivered: %s", error.cause or error)
        return None
    return found.answers


def nobody(answers: Sequence[Answer] | None) -> bool:
    """Whether it was wanted, and nobody took it."""
    if answers is None:
        return True
    return bool(answers) and not any(isinstance(answer, Sent) for answer in answers)


async def recorded_message(
    operation: str,
    run: str,
    number: int,
    message: Message,
    answers: Sequence[Answer] | None,
    *,
    about: int = 0,
    within: timedelta = RECORDED_WITHIN,
) -> None:
    """Each channel's answer, in the journal of an operation or of what belongs to none.

    run, number: see EntryId. about: how many operations it is about.
    """
    parts = count()
    entries = [
        Entry(
            operation,
            EntryId(run, number, next(parts)),
            answer.at,
            notice_record(message, answer, about),
        )
        for answer in answers or ()
    ]
    if entries:
        await recorded(entries, f"a message about {message.about}", within)


async def recorded(entries: list[Entry], summary: str, within: timedelta = RECORDED_WITHIN) -> None:
    """In a journal; one that cannot be written keeps nobody waiting for good."""
    try:
        await workflow.execute_activity(
            messages.RECORD,
            entries,
            result_type=Head,
            start_to_close_timeout=SHORT,
            schedule_to_close_timeout=within,
            summary=summary,
        )
    except FailureError as error:
        workflow.logger.error("%s is not in the journal: %s", summary, error.cause or error)
