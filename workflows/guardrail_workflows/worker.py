"""What does a worker process do? It connects, takes work from the queue, and ends in good order.

`python -m guardrail_workflows.worker --source DIR …` is what `guardrail up` and `guardrail worker`
run. The policies, changes and gates that count are those of this worker's source folder.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from guardrail.model import messages
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
