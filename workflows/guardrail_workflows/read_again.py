"""How does a workflow have changed hosts read again? Window by window, and it is told all at once.

The hosts of a window come as one small number and go as a few names, whatever a window's size, so
neither 100,000 hosts nor a rack that is gone makes a payload or a history too large.
"""

from collections.abc import Iterator
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from guardrail.decide.bits import span
    from guardrail.model import messages
    from guardrail.model.messages import (
        Arrivals,
        LeaderTask,
        Led,
        Observed,
        ObserveTask,
        PlanRequest,
        RereadAnswer,
        RereadTask,
    )
    from guardrail.model.operation import (
        HostFound,
        HostsRead,
        LeaderSeen,
        Observe,
        PlanObserved,
        ReadAgain,
        SeeLeader,
        State,
    )

WINDOW = 1_000
"""Plan indexes that one activity reads."""
MOST_WRONG = 100
"""Hosts that are named of one reading; the next one names others."""
WITHIN = timedelta(minutes=20)
"""For one window: some 30 are read together, and each is given up after less than a minute."""
LEADER_WITHIN = timedelta(seconds=30)
AGAIN = RetryPolicy(maximum_attempts=3, non_retryable_error_types=["Refused"])


def windows(hosts: int) -> Iterator[int]:
    """The set of hosts, cut into sets of hosts whose indexes are near each other."""
    for begin in range(0, hosts.bit_length(), WINDOW):
        part = hosts & span(begin, begin + WINDOW)
        if part:
            yield part


async def read_again(state: State, action: ReadAgain) -> tuple[float, HostsRead]:
    """Read the hosts; when the last of them were read (0: nobody knows), and what was found."""
    at, read, more = 0.0, 0, 0
    wrong: list[HostFound] = []
    try:
        for part in windows(action.hosts):
            answer = await _read(
                RereadTask(state.name, state.course.plan, action.turn, f"{part:x}")
            )
            at, read, more = answer.at, read + answer.read, more + answer.more
            wrong += answer.wrong
        came = await _arrivals(state.course.plan) if action.arrivals else Arrivals()
    except ActivityError as error:
        problem = _cause(error)
        return 0.0, HostsRead(0.0, action.turn, read, (), 0, problem)
    wrong.sort(key=lambda one: (not one.answered, one.index))
    more += len(wrong[MOST_WRONG:])
    found = tuple(wrong[:MOST_WRONG])
    read_at = max(at, came.at)
    return read_at, HostsRead(
        read_at, action.turn, read, found, more, arrived=came.names, others=came.others
    )


async def _arrivals(plan: str) -> Arrivals:
    found: Arrivals = await workflow.execute_activity(
        messages.FIND_ARRIVALS,
        plan,
        result_type=Arrivals,
        start_to_close_timeout=timedelta(minutes=2),
        heartbeat_timeout=timedelta(seconds=60),
        retry_policy=AGAIN,
        summary="hosts that came since",
    )
    return found


async def look_again(
    state: State, request: PlanRequest, action: Observe
) -> tuple[float, PlanObserved]:
    """Compare the world with the plan; when that was done (0: nobody knows), and what has moved."""
    done = state.changed | state.tried | state.set_aside | state.failed | state.unknown
    task = ObserveTask(request, state.course.plan, action.turn, f"{done:x}")
    try:
        found: Observed = await workflow.execute_activity(
            messages.OBSERVE_PLAN,
            task,
            result_type=Observed,
            start_to_close_timeout=timedelta(minutes=15),
            heartbeat_timeout=timedelta(seconds=30),
            retry_policy=AGAIN,
            summary=f"is the plan still true, turn {action.turn}",
        )
    except ActivityError as error:
        return 0.0, PlanObserved(0.0, action.turn, problem=_cause(error))
    return found.at, PlanObserved(found.at, action.turn, found.reasons)


async def see_leader(state: State, action: SeeLeader) -> tuple[float, LeaderSeen]:
    """Look who leads the servers; when that was seen (0: nobody knows), and who."""
    try:
        led: Led = await workflow.execute_activity(
            messages.SEE_LEADER,
            LeaderTask(state.course.plan, action.turn),
            result_type=Led,
            schedule_to_close_timeout=LEADER_WITHIN,
            retry_policy=RetryPolicy(maximum_attempts=1),
            summary=f"who leads, turn {action.turn}",
        )
    except ActivityError as error:
        unknown = f"who leads cannot be told: {_cause(error)}"
        return 0.0, LeaderSeen(0.0, action.turn, problem=unknown)
    return led.at, LeaderSeen(led.at, action.turn, led.index, led.name, led.problem)


async def _read(task: RereadTask) -> RereadAnswer:
    answer: RereadAnswer = await workflow.execute_activity(
        messages.REREAD_HOSTS,
        task,
        result_type=RereadAnswer,
        start_to_close_timeout=WITHIN,
        heartbeat_timeout=timedelta(seconds=60),
        retry_policy=AGAIN,
        summary=f"read again, turn {task.turn}",
    )
    return answer


def root(error: BaseException) -> BaseException:
    """What it all began with."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _cause(error: ActivityError) -> str:
    cause = root(error)
    return str(cause) or type(cause).__name__
