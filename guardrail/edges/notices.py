"""How does what stands in an operation get to those who should know?

One workflow of the namespace hears it (model/board.py). Telling starts that workflow where it is
not there, in one call, so that nothing depends on who was first.
"""

from dataclasses import dataclass

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from guardrail.edges.shared import LIMIT, NotThere, Shared
from guardrail.edges.temporal import TASK, short
from guardrail.errors import Unanswered
from guardrail.model import messages
from guardrail.model.board import BOARD, HEAR, NOTICES, NOTICES_ID, Board, NoticesInput, Tidings

WHAT = "The list of notices"
SUMMARY = "who is told what, of all operations"


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
