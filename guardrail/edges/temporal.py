"""How are operations on a Temporal server started, found, asked and spoken to?

The address comes from Temporal's own environment configuration (TEMPORAL_ADDRESS, profiles, TLS,
API key). Every fault of the connection is Unanswered with the address, within seconds; an
operation that is not there is Refused, naming those that are.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TypeVar

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDReusePolicy,
)
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.exceptions import ApplicationError, FailureError, WorkflowAlreadyStartedError
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RetryConfig, RPCError, RPCStatusCode

from guardrail.edges.converter import CONVERTER
from guardrail.errors import Refused, Unanswered
from guardrail.model import messages

T = TypeVar("T")

DEFAULT_ADDRESS = "127.0.0.1:7233"
CONNECT = 3.0
"""Seconds a server may take to say its first word."""
ANSWER = 4.0
"""Seconds a question may take; a worker killed a moment ago costs two of them."""
TASK = timedelta(seconds=1)
"""How long a worker may take for one task of a workflow before another one is asked: what a worker
that is killed in the middle of one costs, and then the run is replayed, which must fit into this
too. So runs end early (DRAIN_FROM in the workflow: 4,000 events replay in 0.6 to 0.9 s); where a
replay comes too late, Temporal gives the fourth one more time."""
SAY = 15.0
"""Seconds a command may take: workers are asked again when an operation changes its run."""
HEARD = 4.0
"""Seconds before the same command is said once more, under its id: twice one that met a killed
worker was answered by nobody for the 15 s that it was waited for (why is not known)."""
HEAR_AGAIN = 0.1
"""Seconds before a command that nobody heard is said again."""

OPERATION = SearchAttributeKey.for_keyword("GuardrailOperation")
PHASE = SearchAttributeKey.for_keyword("GuardrailPhase")
FLEET = SearchAttributeKey.for_keyword("GuardrailFleet")
HELD = SearchAttributeKey.for_bool("GuardrailHeld")
SEARCH_ATTRIBUTES = {
    "GuardrailOperation": "Keyword",
    "GuardrailPhase": "Keyword",
    "GuardrailFleet": "Keyword",
    "GuardrailHeld": "Bool",
}
"""What operations can be found by; `guardrail up` registers them."""
VERSION = SearchAttributeKey.for_keyword("TemporalWorkerDeploymentVersion")
WORKED_ON = SearchAttributeKey.for_keyword_list("BuildIds")
"""Temporal's own: the version a workflow is pinned to, and all that worked on it."""


class NoOperation(Refused):
    """There is no operation of that name; says which there are."""


class NoWorker(Unanswered):
    """Temporal answers, and no worker of ours behind it does (design.md §9: ask the memo)."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__("A worker", address, reason)
        self.args = (f"no worker answers behind Temporal at {address}: {reason}",)


@dataclass(frozen=True, slots=True)
class Known:
    """What Temporal itself knows of an operation, worker or not.

    sentence: the last state in words that the operation left in its memo. closed: how its
    workflow ended, in Temporal's words; empty while it is open. as_of: when the sentence was
    noted. build: the one it is pinned to (edges/deployment.py), empty where it began on a worker
    without one, None before any worker has begun it. shadow: it changes nothing. Times: seconds
    since the epoch.
    """

    operation: str
    sentence: str
    phase: str
    held: bool
    open: bool
    closed: str
    fleet: str
    started_at: float
    finished_at: float | None
    as_of: float | None = None
    build: str | None = None
    shadow: bool = False


# ---------------------------------------------------------------- connecting


def configured() -> ClientConnectConfig:
    """Address, namespace, TLS and key from Temporal's environment configuration.

    Raises Refused when that cannot be read.
    """
    try:
        config = ClientConfig.load_client_connect_config()
    except (RuntimeError, OSError, ValueError) as error:
        told = str(error).strip().splitlines()
        raise Refused(f"Temporal's environment configuration cannot be used: {told[0]}") from None
    config.setdefault("target_host", DEFAULT_ADDRESS)
    config.setdefault("namespace", "default")
    return config


async def connect(config: ClientConnectConfig | None = None) -> "Operations":
    """A connection that has answered once. Raises Unanswered within seconds."""
    config = config or configured()
    address = config["target_host"]
    await _first_word(address, secure=bool(config.get("tls")))
    try:
        client = await asyncio.wait_for(
            Client.connect(
                **config,
                data_converter=CONVERTER,
                retry_config=RetryConfig(max_elapsed_time_millis=int(ANSWER * 1000), max_retries=4),
                runtime=_runtime(),
            ),
            CONNECT + 2,
        )
    except TimeoutError:
        raise Unanswered("Temporal", address, f"nothing within {CONNECT + 2:g} s") from None
    except (RuntimeError, OSError) as error:
        raise Unanswered("Temporal", address, short(error)) from None
    return Operations(client, address)


@cache
def _runtime() -> Runtime:
    """The SDK's core without its own warnings: it would print each retry over ours."""
    quiet = LoggingConfig(filter=TelemetryFilter(core_level="ERROR", other_level="ERROR"))
    return Runtime(telemetry=TelemetryConfig(logging=quiet))


async def _first_word(address: str, *, secure: bool) -> None:
    """Open a connection and wait for the server's first byte. Raises Unanswered.

    `Client.connect` waits 30 s for a server that accepts and says nothing, whatever time-out it
    is given (tried with temporalio 1.35), and a call still open at exit crashes the process.
    """
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(CONNECT):
            await _greet(host.strip("[]"), int(port), secure=secure)
    except TimeoutError:
        reason = f"no answer within {CONNECT:g} s"
    except ssl.SSLError:
        return  # it speaks; what is wrong with its certificate the client says better
    except ValueError:
        raise Refused(f"Temporal's address {address!r} is not HOST:PORT") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower() if error.errno else str(error)
    else:
        return
    raise Unanswered("Temporal", address, _refused_connection(reason))


async def _greet(host: str, port: int, *, secure: bool) -> None:
    context = ssl.create_default_context() if secure else None
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        if not secure:  # HTTP/2: the preface and empty settings; the server must send its own
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            if not await reader.read(1):
                raise ConnectionResetError(None, "the connection was closed")
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _refused_connection(reason: str) -> str:
    if "refused" in reason or "connect call failed" in reason.lower():
        return "connection refused (is it running? guardrail up starts one)"
    return reason


def short(error: BaseException) -> str:
    """One line of an SDK error, without its Rust innards."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].removeprefix("Failed client connect: ").split(", source:")[0][:300]


# ---------------------------------------------------------------- operations


class Operations:
    """All that can be done with operations through one Temporal connection."""

    def __init__(self, client: Client, address: str) -> None:
        self.client = client
        self.address = address

    def _handle(self, operation: str) -> WorkflowHandle[object, object]:
        return self.client.get_workflow_handle(messages.workflow_id(operation))

    async def _ask(self, call: Awaitable[T], operation: str = "", limit: float = ANSWER) -> T:
        """Await one call. Raises Unanswered for faults, Refused when there is no such thing."""
        try:
            # Beyond the call's own time-out: one that retries a lost server does not keep it.
            return await asyncio.wait_for(call, limit + 1)
        except TimeoutError:
            raise Unanswered("Temporal", self.address, f"nothing within {limit:g} s") from None
        except RPCError as error:
            raise await self._fault(error, operation) from None

    async def _fault(self, error: RPCError, operation: str) -> Exception:
        if error.status is not RPCStatusCode.NOT_FOUND or error.message.startswith("Namespace"):
            reason = "no answer in time" if _timed_out(error) else short(error)
            return Unanswered("Temporal", self.address, _refused_connection(reason))
        if "already completed" in error.message:
            return Refused(f"{operation} has ended; nothing can be said to it any more")
        return NoOperation(f"there is no operation {operation!r}; {await self._those_there()}")

    async def _those_there(self) -> str:
        known = await self.all(ended=5)
        open_ones = [each.operation for each in known if each.open]
        ended = [each.operation for each in known if not each.open]
        told = f"open: {', '.join(open_ones) or 'none'}"
        return f"{told}; ended lately: {', '.join(ended)}" if ended else told

    # ------------------------------------------------------------ start and find

    async def start(self, request: messages.PlanRequest, signature: str = "") -> None:
        """Start the operation's workflow; signature: of who asks, if they signed.

        Raises Refused when its name is or was taken.
        """
        name = request.operation
        found = TypedSearchAttributes(
            [
                SearchAttributePair(OPERATION, name),
                SearchAttributePair(PHASE, "planned"),
                SearchAttributePair(FLEET, request.fleet.name),
                SearchAttributePair(HELD, False),
            ]
        )
        try:
            await self._ask(
                self.client.start_workflow(
                    messages.SHADOW if request.shadow else messages.ROLLOUT,
                    messages.RolloutInput(request, signature=signature),
                    id=messages.workflow_id(name),
                    task_queue=messages.TASK_QUEUE,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    task_timeout=TASK,
                    memo={messages.MEMO_SUMMARY: "planning; nothing has begun"},
                    search_attributes=found,
                    static_summary=f"{request.rollout.name} on {request.fleet.name}",
                    rpc_timeout=timedelta(seconds=ANSWER),
                )
            )
        except WorkflowAlreadyStartedError:
            raise Refused(await self._taken(name)) from None

    async def _taken(self, name: str) -> str:
        known = await self.known(name)
        if known.open:
            return (
                f"the operation {name} runs already ({known.sentence}). "
                f"See it: guardrail rollout watch {name}"
            )
        return f"there was an operation {name} already ({known.sentence}); give another --name"

    async def known(self, operation: str) -> Known:
        """What Temporal knows of it. Raises Refused, Unanswered."""
        limit = timedelta(seconds=ANSWER)
        return await _known(
            await self._ask(self._handle(operation).describe(rpc_timeout=limit), operation)
        )

    async def taken(self, operation: str) -> Known | None:
        """The operation of that name, or None where the name is free."""
        try:
            return await self.known(operation)
        except NoOperation:
            return None

    async def all(self, ended: int = 20) -> tuple[Known, ...]:
        """All open operations and the last `ended` ended ones, newest first."""
        kind = f"WorkflowType IN ('{messages.ROLLOUT}', '{messages.SHADOW}')"
        over = "ExecutionStatus != 'Running' AND ExecutionStatus != 'ContinuedAsNew'"
        found = await self._ask(self._found(f"{kind} AND ExecutionStatus = 'Running'", None))
        if ended:
            found += await self._ask(self._found(f"{kind} AND {over}", ended))
        return tuple(sorted(found, key=lambda known: (known.open, known.started_at), reverse=True))

    async def _found(self, query: str, limit: int | None) -> list[Known]:
        executions = self.client.list_workflows(
            query, limit=limit, rpc_timeout=timedelta(seconds=ANSWER)
        )
        return [await _known(execution) async for execution in executions]

    # ------------------------------------------------------------ ask

    async def status(self, operation: str) -> messages.Status:
        """The operation as its worker knows it, or as it was left when it ended.

        Raises NoWorker (not ended, and nobody answers), Unanswered, Refused.
        """
        try:
            return await self._query(operation, messages.STATUS, messages.Status)
        except NoWorker:
            if (left := await self._left(operation)) is None:
                raise
            return left

    async def _left(self, operation: str) -> messages.Status | None:
        """What an operation that has ended gave as its result: no worker is needed for that."""
        known = await self.known(operation)
        if known.closed != "completed":
            return None
        handle = self.client.get_workflow_handle(
            messages.workflow_id(operation), result_type=messages.Status
        )
        return await asyncio.wait_for(handle.result(), ANSWER)

    async def explain(self, operation: str) -> list[str]:
        """The state, its holds and readings in lines of text. Raises as `status` does."""
        return await self._query(operation, messages.EXPLAIN, list[str])

    async def way_back(self, operation: str, say: messages.Say) -> messages.WayBack:
        """What a rollback would do now; nothing is changed. Raises as `status` does."""
        return await self._query(operation, messages.WAY_BACK, messages.WayBack, say)

    async def _query(self, operation: str, name: str, kind: type[T], *words: messages.Say) -> T:
        call = self._handle(operation).query(
            name, args=words, result_type=kind, rpc_timeout=timedelta(seconds=ANSWER)
        )
        try:
            answer: T = await asyncio.wait_for(call, ANSWER + 1)
        except (TimeoutError, WorkflowQueryFailedError) as error:
            reason = short(error) if str(error) else f"nothing within {ANSWER:g} s"
            raise await self._no_worker(operation, reason) from None
        except RPCError as error:
            if _timed_out(error):
                raise await self._no_worker(operation, f"nothing within {ANSWER:g} s") from None
            if error.status is RPCStatusCode.FAILED_PRECONDITION:
                raise await self._no_worker(operation, short(error)) from None
            raise await self._fault(error, operation) from None
        return answer

    async def _no_worker(self, operation: str, reason: str) -> Unanswered:
        """NoWorker if Temporal itself still answers; otherwise raises for Temporal."""
        build = (await self.known(operation)).build
        wanted = f" ({operation} wants one of build {build})" if build else ""
        return NoWorker(self.address, reason + wanted)

    async def refusals(self, operation: str) -> tuple[str, ...]:
        """Why an ended operation was refused or failed; empty when it did not fail."""
        cause = await self._failure(operation)
        return () if cause is None else reasons_of(cause)

    async def was_refused(self, operation: str) -> bool:
        """Whether an ended operation was judged and refused, rather than lost to a fault."""
        causes = _chain(await self._failure(operation))
        return any(isinstance(each, ApplicationError) and each.type == "Refused" for each in causes)

    async def _failure(self, operation: str) -> BaseException | None:
        """What an ended operation failed with; None when it did not fail."""
        limit = timedelta(seconds=ANSWER)
        try:
            await self._ask(self._handle(operation).result(rpc_timeout=limit), operation)
        except WorkflowFailureError as failure:
            return failure.cause
        return None

    async def workers(self, build: str = "") -> int:
        """How many workers have asked for work lately (Temporal forgets after minutes).

        build: count those of this build only.
        """
        request = DescribeTaskQueueRequest(
            namespace=self.client.namespace,
            task_queue=TaskQueue(name=messages.TASK_QUEUE),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        service = self.client.workflow_service
        call = service.describe_task_queue(request, timeout=timedelta(seconds=ANSWER))
        pollers = (await self._ask(call)).pollers
        wanted = [each for each in pollers if build in ("", each.deployment_options.build_id)]
        return len({poller.identity for poller in wanted})

    async def heartbeat(self, operation: str, activity: str) -> list[object]:
        """The last heartbeat's details of a running activity; none when there is none."""
        limit = timedelta(seconds=ANSWER)
        described = await self._ask(self._handle(operation).describe(rpc_timeout=limit), operation)
        for pending in described.raw_description.pending_activities:
            if pending.activity_type.name == activity and pending.HasField("heartbeat_details"):
                details = pending.heartbeat_details.payloads
                return await self.client.data_converter.decode(list(details))
        return []

    # ------------------------------------------------------------ say

    async def say(self, operation: str, say: messages.Say) -> messages.Said:
        """Say a command and hear the answer; the same `say.id` twice is harmless.

        Raises Refused with the operation's words, NoWorker, Unanswered.
        """
        give_up = asyncio.get_running_loop().time() + SAY
        unsure = f"nobody heard `{say.verb}`; nothing was done"
        while True:
            try:
                return await self._say(operation, say)
            except _NotHeard:
                pass
            except WorkflowUpdateRPCTimeoutOrCancelledError:
                unsure = (
                    f"nothing within {SAY:g} s; `{say.verb}` may still be taken: see its status"
                )
            if asyncio.get_running_loop().time() > give_up:
                raise await self._no_worker(operation, unsure)
            await asyncio.sleep(HEAR_AGAIN)

    async def _say(self, operation: str, say: messages.Say) -> messages.Said:
        call = self._handle(operation).execute_update(
            messages.UPDATE,
            say,
            id=say.id,
            result_type=messages.Said,
            rpc_timeout=timedelta(seconds=HEARD),
        )
        try:
            said: messages.Said = await self._ask(call, operation, HEARD)
        except WorkflowUpdateFailedError as error:
            if _unprocessed(error):
                raise _NotHeard from None
            raise Refused(*reasons_of(error.cause)) from None
        return said


class _NotHeard(Exception):
    """The server gave the command up before the operation heard it."""


def _unprocessed(error: WorkflowUpdateFailedError) -> bool:
    """Whether the task that brought the command came back without a word about it.

    The server says so where a worker that was stopped for a while comes back and ends a task that
    it had begun before. Nothing was heard, nothing is in history: the same can be said again.
    """
    cause = error.cause
    return isinstance(cause, ApplicationError) and cause.type == "UnprocessedUpdate"


def _timed_out(error: RPCError) -> bool:
    # A deadline that passes in the client is reported as CANCELLED, "Timeout expired".
    late = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
    return error.status in late


def reasons_of(error: BaseException | None) -> tuple[str, ...]:
    """What an ApplicationError says, however deep it is: its details, else its message."""
    last = error
    for last in _chain(error):
        if isinstance(last, ApplicationError) and last.type == "Refused" and last.details:
            return tuple(_flat(last.details))
        if isinstance(last, ApplicationError) and last.type == "Unanswered":
            return (last.message,)  # it names the service; its own cause is only an errno
    if isinstance(last, FailureError):
        return (last.message,)
    return (str(last) or type(last).__name__,)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _flat(details: object) -> list[str]:
    if isinstance(details, list | tuple):
        return [text for detail in details for text in _flat(detail)]
    return [str(details)]


async def _known(execution: WorkflowExecution) -> Known:
    memo = await execution.memo()
    found = execution.typed_search_attributes
    is_open = execution.status is WorkflowExecutionStatus.RUNNING
    name = execution.id.removeprefix(messages.workflow_id(""))
    ended = "" if is_open or execution.status is None else execution.status.name.lower()
    return Known(
        operation=name,
        sentence=str(memo.get(messages.MEMO_SUMMARY, "nothing was noted yet")),
        phase=found.get(PHASE, ""),
        held=found.get(HELD, False),
        open=is_open,
        closed=ended.replace("_", " "),
        fleet=found.get(FLEET, ""),
        started_at=execution.start_time.timestamp(),
        finished_at=_epoch(execution.close_time),
        as_of=float(noted) if (noted := memo.get(messages.MEMO_AS_OF)) is not None else None,
        build=_build(found),
        shadow=execution.workflow_type == messages.SHADOW,
    )


def _build(found: TypedSearchAttributes) -> str | None:
    if not found.get(WORKED_ON):
        return None
    return found.get(VERSION, "").removeprefix(f"{messages.DEPLOYMENT}:")


def _epoch(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()
