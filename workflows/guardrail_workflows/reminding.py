"""What do reminders ask of the world? The time, what their queries answer, and which are near."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from guardrail.decide.occasions import DAY
from guardrail.edges.holidays import moments_of
from guardrail.edges.prometheus import Prometheus
from guardrail.edges.reminders import Reminding
from guardrail.errors import GuardrailError, Refused
from guardrail.files import Documents, load
from guardrail.model import remind
from guardrail.model.gate import Age
from guardrail.model.remind import BeginTask, Begun, ReadAnswer, ReadTask
from guardrail.model.reminder import ReadBack, Reminder, Wanted
from guardrail.ports import Metrics

AHEAD = 3 * DAY
"""Seconds before its first lead time that a reminder is begun: three looks of its schedule."""
FRESH = Age(scrapes=3)
"""How old the samples may be that something is read from: as gates have it."""
LONG_OVER = 7 * DAY
"""Seconds after which an occasion that nobody was reminded of is not spoken of any more."""


@activity.defn(name=remind.TELL_TIME)
async def tell_time() -> float:
    """The server's time, in seconds since the epoch."""
    return activity.info().started_time.timestamp()


@dataclass(frozen=True, slots=True)
class Reminders:
    """The activities of one worker; documents are read anew from its source at each use."""

    client: Client
    source: Path

    @property
    def all(self) -> Sequence[Callable[..., Awaitable[Any]]]:
        """What a worker registers."""
        return (tell_time, self.read, self.begin)

    async def documents(self) -> Documents:
        """The documents of the source folder, as they are now."""
        return await asyncio.to_thread(load, [self.source])

    @activity.defn(name=remind.READ_REMINDER)
    async def read(self, task: ReadTask) -> ReadAnswer:
        """Read all queries of a reminder; what cannot be read says why."""
        at = activity.info().started_time.timestamp()
        try:
            documents = await self.documents()
            reminder = documents.reminder(task.reminder)
            async with AsyncExitStack() as stack:
                source = documents.source(reminder.source)
                metrics = await stack.enter_async_context(Prometheus(source))
                return ReadAnswer(task.turn, await _read(reminder, metrics, at), at)
        except GuardrailError as error:
            return ReadAnswer(task.turn, await self._nothing(task, str(error), at), at)

    async def _nothing(self, task: ReadTask, why: str, at: float) -> tuple[ReadBack, ...]:
        """Each of its readings with the reason, as far as its document can be read at all."""
        try:
            names = [name for name, _ in (await self.documents()).reminder(task.reminder).reads]
        except GuardrailError:
            names = []
        return tuple(ReadBack(name, None, at, why) for name in names)

    @activity.defn(name=remind.BEGIN_REMINDERS)
    async def begin(self, task: BeginTask) -> Begun:
        """Begin a workflow for each moment that is near and has none; tell the others what their
        document says now."""
        now = activity.info().started_time.timestamp()
        try:
            reminder = (await self.documents()).reminder(task.reminder)
            near = await asyncio.to_thread(_near, reminder, task.at or now, now)
            address = self.client.service_client.config.target_host
            return await Reminding(self.client, address).begin(near)
        except Refused as error:
            return Begun(problem=str(error))
        except GuardrailError as error:
            raise ApplicationError(str(error), type=type(error).__name__) from error


async def _read(reminder: Reminder, metrics: Metrics, at: float) -> tuple[ReadBack, ...]:
    answers = await asyncio.gather(*(metrics.read(e.query, FRESH) for _, e in reminder.reads))
    return tuple(
        ReadBack(name, answer.value, at, answer.detail or answer.kind or "")
        for (name, _), answer in zip(reminder.reads, answers, strict=True)
    )


def _near(reminder: Reminder, at: float, now: float) -> tuple[Wanted, ...]:
    """The moments that are near as of a time: from those that are not over yet to those whose
    first lead time comes soon. Raises Refused for a region that is not known."""
    first = max((lead.before for lead in reminder.leads), default=0.0)
    begin = max(min(at, now), now - LONG_OVER) - reminder.occasion.lasts
    until = max(at, now) + first + AHEAD
    found = moments_of(reminder.occasion, begin, until)
    return tuple(Wanted(reminder, moment) for moment in found)
