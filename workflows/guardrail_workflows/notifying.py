"""Who takes messages to their channels? Activities, since the addresses are the worker's.

`notices.py` decides nothing itself: what is due is answered by a local activity, so that a later
build, which may decide otherwise, carries on with what an earlier one has begun.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from guardrail.decide import notices
from guardrail.edges.notices import Bulletin
from guardrail.edges.notify import Channels, deliver
from guardrail.errors import GuardrailError
from guardrail.files import load
from guardrail.model.board import DELIVER, DUE, TELL, Delivered, Due, DueTask, Tidings
from guardrail.model.notice import ROUTES, SEND, Answer, Message, Route, SendTask
from guardrail.ports import Notifier

BEAT = 2.0
"""Seconds between two heartbeats while a message is on its way."""


@activity.defn(name=DUE)
async def notices_due(task: DueTask) -> Due:
    """What of a board is to be said now."""
    return notices.due(task.board, task.now)


@dataclass(frozen=True, slots=True)
class Notifying:
    """The channels of one worker, and the notices of its namespace."""

    client: Client
    notifier: Notifier

    @classmethod
    def of(cls, client: Client, source: Path) -> "Notifying":
        """With the channels of the worker's source folder, read anew at each use."""
        return cls(client, Channels(lambda: load([source]).channels))

    @property
    def all(self) -> Sequence[Callable[..., Awaitable[Any]]]:
        """The activities."""
        return (self.tell, self.deliver, self.send, self.routes, notices_due)

    async def are_there(self) -> bool:
        """Whether there is any channel; without one no operation tells anything."""
        return bool(await asyncio.to_thread(self.notifier.routes))

    @activity.defn(name=TELL)
    async def tell(self, tidings: Tidings) -> None:
        """Take what stands in an operation to the notices' workflow."""
        address = self.client.service_client.config.target_host
        try:
            await Bulletin(self.client, address).tell(tidings)
        except GuardrailError as error:
            raise ApplicationError(str(error), type=type(error).__name__) from error

    @activity.defn(name=DELIVER)
    async def deliver(self, message: Message) -> Delivered:
        """Give a message to its channels, and to the next where one fails.

        A worker that takes over from a lost one asks nobody again whose answer the lost one has
        told; where that was too late to be told, a channel may get the message twice.
        """
        found: list[Answer] = _told_before()

        def heard(answers: tuple[Answer, ...]) -> None:
            found[:] = answers
            activity.heartbeat(Delivered(answers))

        beating = asyncio.create_task(_beat(found))
        try:
            return Delivered(await deliver(self.notifier, message, tuple(found), heard))
        except GuardrailError as error:
            raise ApplicationError(str(error), type=type(error).__name__) from error
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    @activity.defn(name=SEND)
    async def send(self, task: SendTask) -> Answer:
        """Give a message to one channel."""
        beating = asyncio.create_task(_beat([]))
        try:
            return await self.notifier.send(task.message, task.channel)
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    @activity.defn(name=ROUTES)
    async def routes(self) -> list[Route]:
        """The worker's channels, by name."""
        try:
            return list(await asyncio.to_thread(self.notifier.routes))
        except GuardrailError as error:
            raise ApplicationError(str(error), type=type(error).__name__) from error


def _told_before() -> list[Answer]:
    details = activity.info().heartbeat_details
    if not details:
        return []
    told = activity.payload_converter().from_payload(
        activity.payload_converter().to_payload(details[0]), Delivered
    )
    return list(told.answers)


async def _beat(found: list[Answer]) -> None:
    while True:
        activity.heartbeat(Delivered(tuple(found)))
        await asyncio.sleep(BEAT)
