"""How does a rollout file become an operation, and what does the person see until it is planned?"""

import asyncio
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from guardrail.cli.session import progress
from guardrail.cli.talk import EVERY, sentences
from guardrail.cli.text import count
from guardrail.edges.temporal import NoWorker, Operations
from guardrail.errors import GuardrailError, Refused, Unanswered
from guardrail.model.messages import PlanRequest, Status

PLANNING = 300.0
"""Seconds that are waited for a plan: its preflight asks every host."""
WORKER = 20.0
"""Seconds that are waited for any worker to answer."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What an operation may be called: it names markers on hosts and files in logs."""


def named(name: str) -> None:
    """Raises Refused for what cannot be an operation's name; empty: it gets one later."""
    if name and not NAME.fullmatch(name):
        raise Refused(
            f"{name!r} cannot be an operation's name: up to 100 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )


def requested(files: Sequence[Path], requester: str, name: str) -> PlanRequest:
    """What these files ask for. Raises InvalidFile, Refused."""
    from guardrail.files import load  # every format

    named(name)
    documents = load(files)
    rollout = documents.rollout()
    return PlanRequest(
        operation=name,
        rollout=rollout,
        fleet=documents.fleet(rollout.fleet),
        requester=requester,
        policies=documents.policies,
    )


async def free_name(operations: Operations, rollout: str, now: datetime | None = None) -> str:
    """The rollout's own name while it is free or running, else with date and time.

    A running one of that name is not passed by: the start that follows is refused and names it.
    """
    known = await operations.taken(rollout)
    if known is None or known.open:
        return rollout
    return f"{rollout}-{(now or datetime.now(UTC)):%Y%m%d-%H%M%S}"


async def until_planned(operations: Operations, operation: str) -> Status:
    """Wait for the plan. Raises Refused with the plan's reasons, NoPlan, NoWorker, Unanswered."""
    began = heard = time.monotonic()
    told = ""
    while True:
        known = await operations.known(operation)
        if not known.open and known.closed != "completed":
            raise await not_planned(operations, operation)
        try:
            status = await operations.status(operation)
            heard = time.monotonic()
            words = "the worker makes the plan; its preflight asks the hosts"
            if status.phase != "planned":
                return status
        except NoWorker as silent:
            words = str(silent)
            if time.monotonic() - heard > WORKER:
                raise NoWorker(operations.address, _recorded(operation)) from None
        if words != told:
            progress(f"{operation}: {words}")
            told = words
        if time.monotonic() - began > PLANNING:
            reason = f"no plan within {PLANNING:g} s; see: guardrail rollout status {operation}"
            raise NoWorker(operations.address, reason)
        await asyncio.sleep(EVERY)


def _recorded(operation: str) -> str:
    return (
        f"{operation} is recorded and begins when a worker comes: guardrail up, or guardrail worker"
    )


class NoPlan(Unanswered):
    """Nobody judged what was asked for: a service was silent while it was planned, or it broke."""

    def __init__(self, address: str, lines: list[str]) -> None:
        super().__init__("A worker", address, "; ".join(lines))
        self.args = ("\n".join(lines),)


async def not_planned(operations: Operations, operation: str) -> GuardrailError:
    """Why an operation ended before it had a plan: Refused where it was judged, else NoPlan."""
    refused = await operations.was_refused(operation)
    reasons = await operations.refusals(operation) or ("it ended before it had a plan",)
    told = "was refused" if refused else "could not be planned"
    lines = [f"{operation} {told}; nothing was begun:", *(f"  {reason}" for reason in reasons)]
    if refused:
        more = "Mend what is named and start again; guardrail plan FILE shows the plan beforehand."
        return Refused(*lines, more)
    more = "Start it again once what is named answers; nothing about the rollout was found wrong."
    return NoPlan(operations.address, [*lines, more])


def planned_lines(status: Status) -> list[str]:
    """What is going to happen, and the commands to go on with."""
    stages = ", ".join(wave.stage for wave in status.waves)
    waves = count(len(status.waves), "wave")
    shadow = "shadow: no host is changed; " if status.shadow else ""
    hosts = count(status.hosts, "host")
    return [
        f"{status.operation} has begun: {shadow}{hosts} in {waves} ({stages})",
        f"plan {status.plan}",
        *sentences(status),
        f"Stop it at any time: guardrail rollout pause {status.operation}",
    ]
