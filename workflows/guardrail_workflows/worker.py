"""What does a worker process do? It connects, takes work from the queue, and ends in good order.

`python -m guardrail_workflows.worker --source DIR …` is what `guardrail up` and `guardrail worker`
run. The policies, changes and gates that count are those of this worker's source folder. With
`--build-id` the worker is versioned: operations it begins are pinned to that build, so that none
is ever replayed by other code than it began with. Without (tests, development) it is not.
"""

import argparse
import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

import guardrail.edges.ssh  # noqa: F401 - now, rather than at the first host
from guardrail.edges.compose import store_of
from guardrail.edges.converter import CONVERTER
from guardrail.edges.deployment import make_current
from guardrail.edges.freezes import places_of
from guardrail.edges.journal import journal_at
from guardrail.edges.temporal import Operations, configured
from guardrail.files import load
from guardrail.files.freeze import parse_in
from guardrail.model import messages
from guardrail.settings import Settings
from guardrail_workflows.activities import Activities
from guardrail_workflows.check import CheckWorkflow, UpgradedCheckWorkflow
from guardrail_workflows.checking import Checks
from guardrail_workflows.freezes import FreezesWorkflow, UpgradedFreezesWorkflow
from guardrail_workflows.leases import LeasesWorkflow, UpgradedLeasesWorkflow
from guardrail_workflows.notice_trial import NoticeTrial
from guardrail_workflows.notices import NoticesWorkflow, UpgradedNoticesWorkflow
from guardrail_workflows.reminder import (
    RemindersWorkflow,
    ReminderWorkflow,
    UpgradedRemindersWorkflow,
    UpgradedReminderWorkflow,
)
from guardrail_workflows.reminding import Reminders
from guardrail_workflows.rollout import RolloutWorkflow
from guardrail_workflows.schedules import keep_schedules
from guardrail_workflows.shadow import ShadowWorkflow

SHARED = (LeasesWorkflow, FreezesWorkflow, NoticesWorkflow)
UPGRADED = (UpgradedLeasesWorkflow, UpgradedFreezesWorkflow, UpgradedNoticesWorkflow)
"""The workflows of which a namespace has one each; with a build they outlive it."""
REMINDING = (ReminderWorkflow, RemindersWorkflow, CheckWorkflow)
UPGRADED_REMINDING = (UpgradedReminderWorkflow, UpgradedRemindersWorkflow, UpgradedCheckWorkflow)
"""A reminder waits for months, and a schedule knows no build: they outlive builds, too."""
AT_ONCE = 1_000
"""Host activities that one worker runs at the same time."""
FINISH_WITHIN = timedelta(seconds=3)
"""How long a worker that is asked to end lets activities finish."""


def sandbox() -> SandboxedWorkflowRunner:
    """Where recorded histories are replayed, so that a workflow that looks at the world is caught.

    Workers do without: it costs a fifth of their processor, and a worker that takes over replays
    a long run in less than half the time. guardrail's own modules are passed through.
    """
    passed = SandboxRestrictions.default.with_passthrough_modules("guardrail")
    return SandboxedWorkflowRunner(restrictions=passed)


def versioned(build: str, deployment: str) -> WorkerDeploymentConfig | None:
    """A build's place in its deployment; None without a build.

    The behaviour is said here and never at `@workflow.defn`: on a worker without a build that
    fails every workflow task for ever (tried).
    """
    if not build:
        return None
    version = WorkerDeploymentVersion(deployment, build)
    return WorkerDeploymentConfig(
        version,
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


def _outliving(build: str) -> tuple[type, ...]:
    """The workflows that are not pinned to a build, where there is one."""
    return (*UPGRADED, *UPGRADED_REMINDING) if build else (*SHARED, *REMINDING)


def make_worker(
    client: Client,
    activities: Sequence[Callable[..., Any]],
    build: str = "",
    deployment: str = messages.DEPLOYMENT,
) -> Worker:
    """A worker with the settings without which the promises break (design.md §8).

    The sticky time-out: a killed worker otherwise freezes its workflows for 10 s. The heartbeat
    interval: cancellation and trends travel with heartbeats. build: see `versioned`.
    """
    return Worker(
        client,
        task_queue=messages.TASK_QUEUE,
        workflows=[RolloutWorkflow, ShadowWorkflow, NoticeTrial, *_outliving(build)],
        activities=activities,
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_activities=AT_ONCE,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        default_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=FINISH_WITHIN,
        deployment_config=versioned(build, deployment),
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
    parser.add_argument("--journal", required=True, help="what is kept for good, an fsspec URL")
    parser.add_argument("--allowed-signers", type=Path, help="whose signatures count")
    parser.add_argument("--build-id", default="", help="pin operations to this build")
    parser.add_argument("--deployment", default=messages.DEPLOYMENT)
    parser.add_argument("--current", action="store_true", help="new operations go to this build")
    given = parser.parse_args()
    if given.current and not given.build_id:
        parser.error("--current needs a --build-id that new operations can go to")
    return given


async def _run(given: argparse.Namespace) -> None:
    load([given.source])  # a source that cannot be used is said now, not at the first rollout
    config = configured()
    config["target_host"], config["namespace"] = given.address, given.namespace
    client = await Client.connect(**config, data_converter=CONVERTER)
    journal = journal_at(given.journal)
    activities = Activities(
        client,
        given.source,
        store_of(given.store),
        journal,
        given.allowed_signers,
        places_of(parse_in(Settings.read().freeze_timezone), *Settings.read().freeze_places),
        Settings.read().lease_locks,
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    scheduled = (Reminders(client, given.source), Checks(client, given.source))
    every = [*activities.all, *(one for each in scheduled for one in each.all)]
    async with make_worker(client, every, given.build_id, given.deployment):
        if given.current:
            await _unless(stop, make_current(Operations(client, given.address), given.build_id))
        await _unless(stop, keep_schedules(client, given.source))


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Do the work, unless the wish to stop comes first."""
    task, wish = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait({task, wish}, return_when=asyncio.FIRST_COMPLETED)
    wish.cancel()
    if task.done():
        task.result()
    task.cancel()


if __name__ == "__main__":
    main()
