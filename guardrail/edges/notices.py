"""How does what stands in an operation get to those who should know?

One workflow of the namespace hears it (model/board.py). Telling starts that workflow where it is
not there, in one call, so that nothing depends on who was first.
"""

import asyncio
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from guardrail.edges.shared import LIMIT, NotThere, Shared
from guardrail.edges.temporal import TASK, reasons_of, short
from guardrail.errors import Refused, Unanswered
from guardrail.model import messages
from guardrail.model.board import (
    BOARD,
    HEAR,
    NOTICES,
    NOTICES_ID,
    TRIAL,
    Board,
    NoticesInput,
    Tidings,
    TrialAsked,
    Tried,
)

WHAT = "The list of notices"
SUMMARY = "who is told what, of all operations"
TRIED_WITHIN = 120.0
"""Seconds that a person waits for a channel's answer: its tries, and the waits between."""


@dataclass(frozen=True, slots=True)
class Bulletin:
    """The notices of a namespace."""

    client: Client
    address: str = "Temporal"

    async def tell(self, tidings: Tidings) -> None:
        """What stands in an operation; it may be told again. Raises Unanswered."""
        try:
            await self.client.start_workflow(
                NOTICES,
                NoticesInput(),
                id=NOTICES_ID,
                task_queue=messages.TASK_QUEUE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                task_timeout=TASK,
                static_summary=SUMMARY,
                start_signal=HEAR,
                start_signal_args=[tidings],
                rpc_timeout=LIMIT,
            )
        except RPCError as error:
            raise Unanswered(WHAT, self.address, short(error)) from None

    async def board(self) -> Board:
        """What stands, and what of it was said; nothing where nothing was ever told. Raises
        Unanswered."""
        shared = Shared(self.client, self.address, NOTICES, NOTICES_ID, WHAT, SUMMARY)
        try:
            return await shared.query(BOARD, Board)
        except NotThere:
            return Board()

    async def tried(self, asked: TrialAsked, within: float = TRIED_WITHIN) -> Tried:
        """The worker's channels, and what one of them answers to a trial message.

        Raises Unanswered when no worker does so in time, Refused when it cannot.
        """
        try:
            handle: WorkflowHandle[Any, Tried] = await self.client.start_workflow(
                TRIAL,
                asked,
                id=f"notice-trial/{uuid.uuid4().hex}",
                task_queue=messages.TASK_QUEUE,
                result_type=Tried,
                execution_timeout=timedelta(seconds=within + 60),
                task_timeout=TASK,
                rpc_timeout=LIMIT,
            )
            return await asyncio.wait_for(handle.result(), within)
        except WorkflowFailureError as error:
            raise Refused(*reasons_of(error.cause)) from None
        except RPCError as error:
            raise Unanswered(WHAT, self.address, short(error)) from None
        except TimeoutError:
            why = f"no worker has tried it within {within:g} s; is one running (guardrail up)?"
            raise Unanswered("The worker", self.address, why) from None
