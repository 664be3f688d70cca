"""Which build of the worker does an operation belong to, and which one gets the new ones?

Temporal calls the builds of one program a deployment, and the build that new workflows go to its
current version. An operation is pinned: it ends on the build that it began with, through every
continue-as-new, also while another build is current. One that began on a worker without a build
(tests, development) is pinned to nothing: the current build takes it.
"""

import asyncio
import time
from datetime import timedelta

from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.service import RPCError, RPCStatusCode

from guardrail.edges.temporal import ANSWER, Known, Operations
from guardrail.errors import Unanswered
from guardrail.model import messages

KNOWN_WITHIN = 30.0
"""Seconds within which the server must have heard of a build whose worker asks for work; it takes
0.2 to 1.5 s (tried)."""


async def open_operations(operations: Operations) -> tuple[Known, ...]:
    """All open operations that a worker has begun, by name. Raises Unanswered."""
    found = [each for each in await operations.all(ended=0) if each.build is not None]
    return tuple(sorted(found, key=lambda each: each.operation))


async def current_build(operations: Operations) -> str:
    """The build that new operations go to; empty when that is none. Raises Unanswered."""
    request = DescribeWorkerDeploymentRequest(
        namespace=operations.client.namespace, deployment_name=messages.DEPLOYMENT
    )
    service = operations.client.workflow_service
    call = service.describe_worker_deployment(request, timeout=timedelta(seconds=ANSWER))
    try:
        described = await asyncio.wait_for(call, ANSWER + 1)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return ""
        raise Unanswered("Temporal", operations.address, error.message) from None
    except TimeoutError:
        raise Unanswered("Temporal", operations.address, f"nothing within {ANSWER:g} s") from None
    routing = described.worker_deployment_info.routing_config
    return str(routing.current_deployment_version.build_id)


async def make_current(operations: Operations, build: str, within: float = KNOWN_WITHIN) -> None:
    """From here on new operations go to this build. A worker of it must be asking for work.

    Raises Unanswered when the server has not heard of such a worker `within` seconds.
    """
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=operations.client.namespace,
        deployment_name=messages.DEPLOYMENT,
        build_id=build,
        identity=operations.client.identity,
    )
    limit = time.monotonic() + within
    while (why := await _set_current(operations, request)) is not None:
        if time.monotonic() > limit:
            reason = f"build {build} cannot take new operations: {why}"
            raise Unanswered("Temporal", operations.address, reason)
        await asyncio.sleep(0.1)


async def _set_current(
    operations: Operations, request: SetWorkerDeploymentCurrentVersionRequest
) -> str | None:
    """Ask once; why it cannot be done yet, or None when it is done."""
    service = operations.client.workflow_service
    call = service.set_worker_deployment_current_version(request, timeout=timedelta(seconds=ANSWER))
    try:
        await asyncio.wait_for(call, ANSWER + 1)
    except RPCError as error:
        # NOT_FOUND, FAILED_PRECONDITION: it has not heard of the worker yet; others: not now.
        return error.message
    except TimeoutError:
        return f"nothing within {ANSWER:g} s"
    return None
