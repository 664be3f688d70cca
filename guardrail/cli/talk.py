"""How is one operation picked, spoken to, and what is said afterwards?

Every answer that may want a person ends with the state in one sentence, what happens if nobody
acts, and the one command most likely right.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import typer

from guardrail.cli.json_out import dump
from guardrail.cli.plan_names import Names, names_of
from guardrail.cli.session import progress
from guardrail.edges.temporal import NoOperation, NoWorker, Operations
from guardrail.errors import Refused, Unanswered
from guardrail.model.messages import HostState, Said, Say, Status
from guardrail.model.operation import Verb
from guardrail.settings import Settings

STILL = 1.3
"""Seconds after an answered pause until no host begins any more: a permit's 0.3 s, and the 1 s
that a host waits for its "go" (design.md §5)."""

EVERY = 0.5
"""Seconds between two looks while waiting."""


# ---------------------------------------------------------------- which operation


async def pick(operations: Operations, operation: str | None) -> str:
    """The operation that is meant; without a name, the only open one. Raises Refused."""
    if operation:
        return operation
    open_ones = [known.operation for known in await operations.all(ended=0)]
    if len(open_ones) == 1:
        return open_ones[0]
    if not open_ones:
        raise Refused("no operation is open; name one of: guardrail rollout list")
    raise Refused(f"{len(open_ones)} operations are open, name one: {', '.join(open_ones)}")


async def pick_with_hosts(
    operations: Operations, words: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """`[OP] HOST...`: the first word is an operation if there is one of that name."""
    if words:
        if await operations.taken(words[0]) is not None:
            return words[0], tuple(words[1:])
        try:
            return await pick(operations, None), tuple(words)
        except Refused as error:
            raise NoOperation(f"there is no operation {words[0]!r}", *error.reasons) from None
    return await pick(operations, None), ()


# ---------------------------------------------------------------- saying


@dataclass(frozen=True, slots=True)
class Spoken:
    """A command that was taken: the answer, and when it came by this machine's own clock."""

    operation: str
    said: Said
    answered: float


async def speak(
    operations: Operations,
    operation: str,
    verb: Verb,
    by: str,
    *,
    reason: str = "",
    hosts: tuple[str, ...] = (),
    over: str = "",
) -> Spoken:
    """Say it. Raises Refused with the operation's reason and its state, Unanswered."""
    say = Say(str(uuid.uuid4()), verb, by, reason, hosts=hosts, over=over, at=time.time())
    return await utter(operations, operation, say)


async def utter(operations: Operations, operation: str, say: Say) -> Spoken:
    """Say a command that is put together already. Raises as `speak` does."""
    try:
        said = await operations.say(operation, say)
    except NoOperation:
        raise
    except Refused as error:
        state = await state_lines(operations, operation)
        told = f"{say.verb} refused: {error.reasons[0]}"
        raise Refused(told, *error.reasons[1:], *state) from None
    return Spoken(operation, said, time.monotonic())


async def stand_still(spoken: Spoken) -> None:
    """Wait until the promise holds that no host begins any more."""
    left = spoken.answered + STILL - time.monotonic()
    await asyncio.sleep(max(0.0, left) + 0.01)  # sleep may end a clock's tick early


# ---------------------------------------------------------------- telling


async def state_lines(operations: Operations, operation: str) -> list[str]:
    """The state in a sentence and what to do; nothing where nobody can tell."""
    try:
        return sentences(await operations.status(operation))
    except (Unanswered, Refused):
        return []


def sentences(status: Status) -> list[str]:
    """The state in one sentence, what happens if nobody acts, the command most likely right."""
    return [f"{status.operation}: {status.sentence}.", *status.advice]


def tell(lines: Sequence[str]) -> None:
    """Print lines of a result."""
    for line in lines:
        typer.echo(line)


async def tell_answer(operations: Operations, spoken: Spoken, *, as_json: bool) -> None:
    """Print what was answered, and the state after it."""
    if as_json:
        typer.echo(dump(spoken.said))
        return
    state = await state_lines(operations, spoken.operation)
    tell([f"{spoken.operation}: {spoken.said.text}", *state])


async def no_more_begins(operations: Operations, spoken: Spoken) -> list[str]:
    """What can be promised once the time has passed: a hold that still stands, or its end."""
    await stand_still(spoken)
    try:
        status = await operations.status(spoken.operation)
    except NoWorker:
        return [f"No host of {spoken.operation} begins any more."]
    if status.holds or status.finished_at is not None:
        return [f"No host of {spoken.operation} begins any more.", *sentences(status)]
    return [f"The hold on {spoken.operation} was lifted meanwhile.", *sentences(status)]


# ---------------------------------------------------------------- what was in flight


async def until_settled(
    operations: Operations, operation: str, say: Callable[[str], None] = progress
) -> Status:
    """Wait until nothing is in flight; says when the number changes."""
    told = -1
    while True:
        try:
            status = await operations.status(operation)
        except NoWorker as silent:
            say(f"{silent}; waiting for one")
            await asyncio.sleep(EVERY)
            continue
        if not status.in_flight:
            return status
        if len(status.in_flight) != told:
            told = len(status.in_flight)
            say(f"{told} in flight")
        await asyncio.sleep(EVERY)


async def in_flight_list(
    settings: Settings, before: Status, after: Status
) -> tuple[Names, list[str]]:
    """What became of each host that was in flight: the exact list after a pause."""
    names = await names_of(settings, after.plan)
    lines = [f"  {names.of(host.index)}: {became(host, after)}" for host in before.in_flight]
    head = "Nothing is in flight." if not lines else "Nothing is in flight. What was:"
    return names, [head, *lines, *([names.missing] if names.missing and lines else [])]


def became(host: HostState, after: Status) -> str:
    """What became of a host that was in flight."""
    if int(after.reverted_hosts, 16) >> host.index & 1:
        return "back at the former version"
    if after.direction == "forward" and int(after.changed_hosts, 16) >> host.index & 1:
        return "changed"
    for known in after.exceptional:
        if known.index == host.index:
            return f"{known.outcome}, {known.reason}" if known.reason else known.outcome
    return "not begun"
