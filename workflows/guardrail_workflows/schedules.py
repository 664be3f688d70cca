"""Who sees to it that what is in the worker's source has its schedules? Each worker, now and then.

A reminder or a checklist that is new or was edited has its schedule within `KEEP_EVERY`; what is as
it was is left alone, so several workers of one source do not disturb each other.
"""

import asyncio
import logging
from collections.abc import Awaitable
from pathlib import Path

from temporalio.client import Client

from guardrail.edges.checklists import Checklists
from guardrail.edges.reminders import Reminding
from guardrail.files import load

LOG = logging.getLogger(__name__)
KEEP_EVERY = 300.0
"""Seconds between two looks at the source."""


async def keep_schedules(client: Client, source: Path) -> None:
    """A schedule for each document that has one, as it is now; never ends. What cannot be read or
    reached is tried again."""
    while True:
        await _tried("all documents", _look(client, source))
        await asyncio.sleep(KEEP_EVERY)


async def _look(client: Client, source: Path) -> None:
    """One kind of document does not keep the other waiting."""
    address = client.service_client.config.target_host
    documents = await asyncio.to_thread(load, [source])
    await _tried("reminders", Reminding(client, address).keep(documents.reminders))
    await _tried("checklists", Checklists(client, address).keep(documents.checklists))


async def _tried(what: str, work: Awaitable[object]) -> None:
    try:
        await work
    except Exception as error:  # whatever it is: this worker changes hosts, too
        LOG.warning("the schedules of %s stay as they were: %s", what, error)
