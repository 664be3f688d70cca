"""A worker that only asks for work: what `guardrail up` starts, without what the lab needs."""

import argparse
import asyncio
import signal
import sys

from temporalio import workflow
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Worker, WorkerDeploymentConfig


@workflow.defn(name="Rollout", sandboxed=False)
class Nothing:
    @workflow.run
    async def run(self, given: dict) -> None:
        """Never started."""


async def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("--address", "--namespace", "--source", "--store", "--journal", "--build-id"):
        parser.add_argument(option, required=True)
    asked = parser.parse_args()
    sys.stderr.write("stub worker begins\n")
    client = await Client.connect(asked.address, namespace=asked.namespace)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    deployment = WorkerDeploymentConfig(
        WorkerDeploymentVersion("guardrail", asked.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )
    async with Worker(
        client, task_queue="guardrail", workflows=[Nothing], deployment_config=deployment
    ):
        await stop.wait()
    sys.stderr.write("stub worker ends in good order\n")


if __name__ == "__main__":
    asyncio.run(main())
