"""Who goes through a checklist of the worker's source? An activity, which decides what to say, too.

So the workflow decides nothing, and carries on under any later build.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.client import Client

from guardrail.decide import check_words
from guardrail.decide.checking import unread
from guardrail.edges.checking import Known, go_through
from guardrail.edges.checklists import Checklists, task_of
from guardrail.errors import GuardrailError, Refused
from guardrail.files import Documents, load
from guardrail.model.check import GO_THROUGH, CheckTask, Found, GoTask
from guardrail.model.checklist import Checklist


@dataclass(frozen=True, slots=True)
class Checks:
    """The activity of one worker; documents are read anew from its source at each use."""

    client: Client
    source: Path

    @property
    def all(self) -> Sequence[Callable[..., Awaitable[Any]]]:
        """What a worker registers."""
        return (self.go_through,)

    @activity.defn(name=GO_THROUGH)
    async def go_through(self, task: GoTask) -> Found:
        """Ask everything once. Where that cannot be done, the report says why, and passes nothing.

        A list that is not in the source any more has its schedule deleted.
        """
        at, check = activity.info().started_time.timestamp(), task.check
        try:
            documents = await asyncio.to_thread(load, [self.source])
            checklist = _listed(documents, check.checklist)
            if checklist is None:
                return await self._taken_out(check, at)
            check = task_of(checklist)
            report = await go_through(checklist, Known(documents.gate, documents.source), at)
        except GuardrailError as error:
            report = unread(check.checklist, at, str(error))
        return Found(report, check_words.message(check, report, owed=task.owed))

    async def _taken_out(self, check: CheckTask, at: float) -> Found:
        schedules = Checklists(self.client, self._address).schedules
        with suppress(Refused):  # deleted by a worker that was lost, or by a person
            await schedules.delete(check.checklist)
        report = unread(check.checklist, at, "it is not in the worker's source any more")
        return Found(report, check_words.taken_out(check, at))

    @property
    def _address(self) -> str:
        return self.client.service_client.config.target_host


def _listed(documents: Documents, name: str) -> Checklist | None:
    return next((each for each in documents.checklists if each.name == name), None)
