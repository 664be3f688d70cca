"""How does an operation's workflow have its lease kept, and given back?

One activity keeps what was asked for last (edges/leases.py), another gives it back. A keeper that
falls silent is an event: nothing is begun on a lease that nobody renews.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from guardrail.model import messages
    from guardrail.model.lease import Done, Holder, Wanted
    from guardrail.model.messages import PlanRequest
    from guardrail.model.operation import EndLease, Event, KeepLease, LeaseTold

SILENT = timedelta(seconds=10)
"""Without a sign of life for so long a keeper is lost. It gives one only within 10 s of a renewal
that was heard, so its operation begins nothing more 10 s before its lease is orphaned."""
AT_THE_END = timedelta(seconds=30)
"""How long the end of an operation waits for what it has to give back."""


@dataclass(slots=True)
class Keeper:
    """What an operation's workflow has of it. spawn: makes a task; happen: has an event decided;
    current: the turn that counts, None once the operation is over; now: the operation's time."""

    request: PlanRequest
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    happen: Callable[[Event], None]
    current: Callable[[], int | None]
    now: Callable[[], float]
    task: asyncio.Task[None] | None = None
    died: bool = False
    giving: int = 0

    def do(self, action: KeepLease | EndLease, plan: str) -> None:
        """Keep what is asked for now, and nothing else."""
        if self.task is not None:
            self.task.cancel()
            self.task = None
        if isinstance(action, KeepLease):
            self.task = self.spawn(self._keep(action, plan))
        else:
            self.giving += 1
            self.spawn(self._give_back(action))

    def _wanted(self, action: KeepLease, plan: str) -> Wanted:
        request, ask = self.request, action.ask
        change = request.rollout.change
        why = request.rollout.description or f"{change.name} {change.old} to {change.new}"
        ticket = f", {request.rollout.ticket}" if request.rollout.ticket else ""
        priority = request.rollout.priority
        holder = Holder(request.operation, request.requester, why + ticket, priority, plan)
        return Wanted(holder, action.turn, ask.claims, ask.keep, action.token)

    async def _keep(self, action: KeepLease, plan: str) -> None:
        if self.died:
            await workflow.sleep(1)  # one that ends at once would be started again without end
        self.died = False
        try:
            await workflow.execute_activity(
                messages.KEEP_LEASE,
                self._wanted(action, plan),
                start_to_close_timeout=timedelta(days=30),
                heartbeat_timeout=SILENT,
                retry_policy=RetryPolicy(maximum_attempts=1),
                summary=f"lease on {', '.join(action.ask.roles)}, turn {action.turn}",
            )
            reason = "it ended by itself"
        except ActivityError as error:
            reason = f"{type(error.cause).__name__}: {error.cause}"
        if self.current() != action.turn:
            return  # over, or replaced
        self.died = True
        roles = ", ".join(action.ask.roles)
        why = f"nobody keeps the lease on {roles}: its keeper was lost ({reason})"
        self.happen(LeaseTold(self.now(), action.turn, "lost", (why,)))

    async def _give_back(self, action: EndLease) -> None:
        """Tried for as long as it takes: what is not given back blocks others."""
        try:
            await workflow.execute_activity(
                messages.END_LEASE,
                Done(self.request.operation, action.turn),
                start_to_close_timeout=timedelta(seconds=15),
                retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=5)),
                summary=f"give back, turn {action.turn}",
            )
        finally:
            self.giving -= 1

    async def settle(self) -> None:
        """Before the operation's end: what it had is given back, or that was tried for a while."""
        if not self.giving:
            return
        try:
            await workflow.wait_condition(lambda: not self.giving, timeout=AT_THE_END)
        except TimeoutError:
            workflow.logger.error("the lease could not be given back; it will be orphaned")
