"""How is what all operations share asked, and started where it is not there yet?

The table of leases and the list of freezes are one workflow each, in the namespace. Whoever needs
one first starts it, in one call with the question.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from guardrail.edges.temporal import ANSWER, TASK, reasons_of, short
from guardrail.errors import Refused, Unanswered
from guardrail.model import messages

T = TypeVar("T")
LIMIT = timedelta(seconds=ANSWER)
"""For one call."""


class NotThere(Exception):
    """There is no open workflow of that name."""


@dataclass(frozen=True, slots=True)
class Shared:
    """One workflow of the namespace.

    workflow, id: its type and its name. what: its name in errors. summary: in Temporal's own list.
    Every call raises Unanswered, Refused with the workflow's words, and NotThere.
    """

    client: Client
    address: str
    workflow: str
    id: str
    what: str
    summary: str

    @property
    def handle(self) -> WorkflowHandle[object, object]:
        """The workflow, open or not."""
        return self.client.get_workflow_handle(self.id)

    async def update(
        self, name: str, said: object, kind: type[T], *, ident: str = "", within: float = ANSWER
    ) -> T:
        """Say something, where it is there. ident: said twice under it, it is heard once. within:
        seconds for the answer."""
        limit = timedelta(seconds=within)
        call = self.handle.execute_update(
            name, said, id=ident or None, result_type=kind, rpc_timeout=limit
        )
        answer: T = await self._answered(call, within)
        return answer

    async def query(self, name: str, kind: type[T], *words: object) -> T:
        """Ask something; nothing is changed, and nothing goes to history."""
        call = self.handle.query(name, args=words, result_type=kind, rpc_timeout=LIMIT)
        answer: T = await self._answered(call)
        return answer

    async def start_and_update(self, name: str, said: object, kind: type[T], given: object) -> T:
        """Say something, and start it with `given` where it is not there."""
        start: WithStartWorkflowOperation[object, object] = WithStartWorkflowOperation(
            self.workflow,
            given,
            id=self.id,
            task_queue=messages.TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            task_timeout=TASK,
            static_summary=self.summary,
        )
        call = self.client.execute_update_with_start_workflow(
            name, said, start_workflow_operation=start, result_type=kind, rpc_timeout=LIMIT
        )
        answer: T = await self._answered(call)
        return answer

    async def _answered(self, call: Awaitable[Any], within: float = ANSWER) -> Any:
        try:
            return await asyncio.wait_for(call, within + 1)
        except WorkflowUpdateFailedError as error:
            raise Refused(*reasons_of(error.cause)) from None
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise NotThere from None
            raise self.silent(short(error)) from None
        except (
            TimeoutError,
            WorkflowQueryFailedError,
            WorkflowUpdateRPCTimeoutOrCancelledError,
        ) as error:
            told = short(error) if str(error) else f"nothing within {within:g} s"
            raise self.silent(told) from None

    def silent(self, reason: str) -> Unanswered:
        """That it does not answer, and why."""
        return Unanswered(self.what, self.address, reason)
