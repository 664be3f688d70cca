"""What does a worker process do? It connects, takes work from the queue, and ends in good order.

`python -m guardrail_workflows.worker --source DIR …` is what `guardrail up` and `guardrail worker`
run. The policies, changes and gates that count are those of this worker's source folder.
"""

import argparse
import asyncio
import signal
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from guardrail.edges.compose import store_of
from guardrail.edges.temporal import configured
from guardrail.files import load
from guardrail.model import messages
from guardrail_workflows.activities import Activities
from guardrail_workflows.rollout import RolloutWorkflow

AT_ONCE = 1_000
"""Host activities that one worker runs at the same time."""
FINISH_WITHIN = timedelta(seconds=3)
"""How long a worker that is asked to end lets activities finish."""


def make_worker(client: Client, activities: Sequence[Callable[..., Any]]) -> Worker:
    """A worker with the settings without which the promises break (design.md §8).

    The sticky time-out: a killed worker otherwise freezes its workflows for 10 s. The heartbeat
    interval: cancellation and trends travel with heartbeats.
    """
    passed = SandboxRestrictions.default.with_passthrough_modules("guardrail")
    return Worker(
        client,
        task_queue=messages.TASK_QUEUE,
        workflows=[RolloutWorkflow],
        activities=activities,
        workflow_runner=SandboxedWorkflowRunner(restrictions=passed),
        max_concurrent_activities=AT_ONCE,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        default_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=FINISH_WITHIN,
    )


def main() -> None:
    """Run a worker until it is told to end (SIGINT, SIGTERM)."""
    given = _arguments()
    asyncio.run(_run(given))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="guardrail worker", description=__doc__)
    parser.add_argument("--address", required=True, help="Temporal's address, host:port")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--source", required=True, type=Path, help="policies, changes, gates")
    parser.add_argument("--store", required=True, help="where plans are kept, an fsspec URL")
    return parser.parse_args()


async def _run(given: argparse.Namespace) -> None:
    load([given.source])  # a source that cannot be used is said now, not at the first rollout
    config = configured()
    config["target_host"], config["namespace"] = given.address, given.namespace
    client = await Client.connect(**config, data_converter=pydantic_data_converter)
    activities = Activities(client, given.source, store_of(given.store))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with make_worker(client, activities.all):
        await stop.wait()


if __name__ == "__main__":
    main()
