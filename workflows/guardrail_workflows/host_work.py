"""What is done on one host, in which order, and what became of it?

    look → prepare → apply → verify

Safe to run again from the top at any point: it looks first and then acts, and `apply` happens
once a turn on the host itself, whoever asks. Where it had to wait for the steps of an earlier turn
it looks again before it acts. Every end is an outcome, never an exception: silence
is `unknown`, so that it holds, and is never taken for failed or for done.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from guardrail.decide.steps import Steps, steps_for
from guardrail.errors import Refused, Unanswered
from guardrail.model.change import Change, Command
from guardrail.model.fleet import Host
from guardrail.model.operation import Direction, Outcome
from guardrail.ports import (
    BadCredentials,
    Catalog,
    HostDriver,
    Permit,
    Probing,
    StepRequest,
    StepResult,
    Token,
    Unreachable,
)
from guardrail_workflows.host_look import Look, Seen

VERIFY_WITHIN = 30.0
"""Seconds for the versions to show where the change names no catalog check with its own."""
LOOK_EVERY = 0.5
LOOKS_ALIKE = 2
"""Good looks in a row before a host counts as changed: one right after a restart proves little.
Where no process is looked at, nothing can still fall over, and one is enough."""
ASK_AGAIN_AFTER = 1.5
"""Seconds before a lost host is asked what became: by then a "go" on its way has come too late."""
BEAT_EVERY = 1.0
UNPREPARE_WITHIN = 30.0
"""Seconds for undoing what was prepared, and at most half of what is left of the time limit."""

_TAIL = 300

Heartbeat = Callable[[str], None]
"""Told the phase, at each step and every second while waiting."""


@dataclass(frozen=True, slots=True)
class HostJob:
    """One host to bring to a version. `old` and `new` are the rollout's, in both directions."""

    operation: str
    host: Host
    change: Change
    direction: Direction
    old: str
    new: str
    token: Token
    run: str = ""

    @property
    def target(self) -> str:
        """The version that the host is to have."""
        return self.new if self.direction == "forward" else self.old


@dataclass(frozen=True, slots=True)
class HostResult:
    """What became of it; `facts` are what was seen, for the record."""

    outcome: Outcome
    reason: str = ""
    facts: tuple[tuple[str, str], ...] = ()


class _Ended(Exception):
    """The work is over, with this result."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        self.outcome = outcome
        self.reason = reason
        super().__init__(reason)


@dataclass(slots=True)
class _Work:
    """The parts that the work is done with, and what is known so far."""

    job: HostJob
    driver: HostDriver
    look: Look
    permit: Permit
    heartbeat: Heartbeat
    deadline: float
    may_have_begun: bool
    phase: str = "look"
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def host(self) -> Host:
        return self.job.host

    @property
    def left(self) -> float:
        return max(1.0, self.deadline - time.monotonic())

    def enter(self, phase: str) -> None:
        self.phase = phase
        self.heartbeat(phase)

    def note(self, **facts: str | int | None) -> None:
        self.facts.update({key: str(value) for key, value in facts.items() if value is not None})


async def change_host(
    job: HostJob,
    driver: HostDriver,
    probing: Probing,
    *,
    catalog: Catalog | None,
    permit: Permit,
    heartbeat: Heartbeat,
) -> HostResult:
    """Bring one host to its version; within the change's time limit, or `unknown`.

    catalog None: there is none to ask. permit: asked last, when the host stands ready.
    """
    deadline = time.monotonic() + job.change.timeout
    work = _Work(
        job=job,
        driver=driver,
        look=Look(job.host, job.change, job.target, probing, catalog),
        permit=permit,
        heartbeat=heartbeat,
        deadline=deadline,
        # What an earlier attempt of this turn did is not known before the host says it.
        may_have_begun=job.token.attempt > 1,
    )
    outcome, reason = await _ended(work)
    return HostResult(outcome, reason, tuple(sorted(work.facts.items())))


async def _ended(work: _Work) -> tuple[Outcome, str]:
    """Whatever happens, as an outcome and its reason."""
    try:
        async with asyncio.timeout(work.job.change.timeout), _beating(work):
            await _do(work)
            return "changed", f"{work.host.name} is at {work.job.target}"
    except _Ended as end:
        return end.outcome, end.reason
    except TimeoutError:
        limit = work.job.change.timeout
        return "unknown", f"not done after {limit:g} s, in {work.phase}; {_begun(work)}"
    except Unreachable as silence:
        return await _silent(work, silence)
    except Unanswered as silence:
        outcome: Outcome = "unknown" if work.may_have_begun else "blocked"
        return outcome, f"{silence}; {_begun(work)}"
    except (BadCredentials, Refused) as refusal:
        outcome = "unknown" if work.may_have_begun else "credentials"
        return outcome, f"{refusal}; {_begun(work)}"


def _begun(work: _Work) -> str:
    return "the steps may have begun" if work.may_have_begun else "nothing was begun"


async def _silent(work: _Work, silence: Unreachable) -> tuple[Outcome, str]:
    """Silent before it began: has it left? Otherwise it is unknown, and holds."""
    catalog = work.look.catalog
    listed = work.job.change.verify_catalog is not None
    if not work.may_have_begun and catalog is not None and listed:
        try:
            async with asyncio.timeout(work.left):
                if await catalog.entry(work.host.name) is None:
                    return "gone", f"{silence}; the catalog lists it no more; nothing was begun"
        except (Unanswered, Refused, TimeoutError):
            return "unknown", f"{silence}; nothing was begun"
    return "unknown", f"{silence}; {_begun(work)}"


@asynccontextmanager
async def _beating(work: _Work) -> AsyncIterator[None]:
    """A heartbeat every second, whatever is being waited for."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(BEAT_EVERY)
            work.heartbeat(work.phase)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()


# ---------------------------------------------------------------- the sequence


async def _do(work: _Work) -> None:
    job = work.job
    steps = steps_for(job.change, job.direction, job.old, job.new, job.host.name)
    work.enter("look")
    before = now = await work.look.once()
    work.note(installed_before=before.installed, running_before=before.running)
    result = None
    if job.token.attempt > 1 or _is_there(work, now):
        result = await _what_ran(work, steps, now)
        now = await work.look.once() if result is None else now
    if result is None and not _is_there(work, now):
        result = await _prepare_and_apply(work, now, steps)
    if result is None:
        work.note(skipped="at the version already")
    else:
        await _judge(work, result)
    work.enter("verify")
    await _verify(work, before)


def _is_there(work: _Work, seen: Seen) -> bool:
    return seen.installed == seen.running == work.job.target


async def _what_ran(work: _Work, steps: Steps, seen: Seen) -> StepResult | None:
    """What an earlier attempt of this turn has done; None: nothing.

    Steps of earlier turns that run still are waited for, and none of them begins after this: what
    is looked at from here on stays as it is. So a host that is at its version is asked, too: it
    was taken for done while old steps were about to bring another version (tried).
    """
    result = await work.driver.apply(work.host, _request(work, steps), _never)
    if result.kind not in ("not_begun", "blocked"):
        return result
    work.may_have_begun = False
    if result.kind == "blocked" and _is_there(work, seen):
        raise _Ended("blocked", f"{result.reason}; nothing was begun")
    return None


async def _prepare_and_apply(work: _Work, before: Seen, steps: Steps) -> StepResult | None:
    """What became of the steps; None: they were not needed, as earlier ones had done it by then."""
    _expect_known_versions(work, before)
    work.enter("prepare")
    for command in steps.prepare:
        status, output = await work.driver.run(work.host, command, limit=work.left)
        if status != 0:
            why = f"{_ended_with(command, status, output)}; nothing was begun"
            raise _Ended("blocked", why + await _unprepare(work, steps))
    work.enter("apply")
    result = await _apply(work, replace(_request(work, steps), look_again=True))
    if result.kind == "look_again":
        work.enter("look again")
        now = await work.look.once()
        if _is_there(work, now):
            return None
        _expect_known_versions(work, now)
        work.enter("apply")
        result = await _apply(work, _request(work, steps))
    if result.kind != "blocked":
        return result
    raise _Ended("blocked", f"{result.reason}; nothing was begun{await _unprepare(work, steps)}")


def _ended_with(command: Command, status: int, output: str) -> str:
    said = f": {_tail(output)}" if output.strip() else ""
    return f"{' '.join(command)!r} ended with status {status}{said}"


async def _unprepare(work: _Work, steps: Steps) -> str:
    """Undo what was prepared, as far as that goes; what became of it, to be said with the reason.

    Only where nothing was begun. It never changes the outcome: the host was left as it was.
    """
    if not steps.unprepare:
        return ""
    work.enter("unprepare")
    faults: list[str] = []
    try:
        async with asyncio.timeout(min(UNPREPARE_WITHIN, work.left / 2)):
            for command in steps.unprepare:
                status, output = await work.driver.run(work.host, command, limit=work.left)
                faults += [_ended_with(command, status, output)] if status else []
    except (Unreachable, BadCredentials, Refused, TimeoutError) as silence:
        faults.append(str(silence) or "it did not end in time")
    work.note(unprepared="; ".join(faults) or "yes")
    return f"; prepare could not be undone: {'; '.join(faults)}" if faults else "; prepare undone"


def _expect_known_versions(work: _Work, before: Seen) -> None:
    """A version that the rollout does not speak of is somebody else's work: hands off."""
    known = (work.job.old, work.job.new, None)
    for what, version in (("installed", before.installed), ("running", before.running)):
        if version not in known:
            raise _Ended(
                "blocked",
                f"{version} is {what}, neither {work.job.old} nor {work.job.new}: find out who "
                "changed it; nothing was begun",
            )


def _request(work: _Work, steps: Steps) -> StepRequest:
    job = work.job
    return StepRequest(
        operation=job.operation,
        agent=job.change.agent,
        direction=job.direction,
        token=job.token,
        steps=steps.apply,
        limit=work.left,
        run=job.run,
    )


async def _apply(work: _Work, request: StepRequest) -> StepResult:
    async def asked() -> bool:
        allowed = await work.permit()
        work.may_have_begun = work.may_have_begun or allowed
        return allowed

    try:
        return await work.driver.apply(work.host, request, asked)
    except Unreachable:
        if not work.may_have_begun:
            raise
        return await _ask_what_became(work, request)


async def _ask_what_became(work: _Work, request: StepRequest) -> StepResult:
    """The host was told "go" and then lost: it knows, so it is asked until time is up."""
    work.enter("ask again")
    request = replace(request, look_again=False)
    while True:
        await asyncio.sleep(ASK_AGAIN_AFTER)
        try:
            result = await work.driver.apply(work.host, request, _never)
            lost = replace(result, reason="the connection was lost just before it began")
            return lost if result.kind == "not_begun" else result
        except Unreachable:
            if time.monotonic() + ASK_AGAIN_AFTER >= work.deadline:
                raise


async def _never() -> bool:
    return False


async def _judge(work: _Work, result: StepResult) -> None:
    """Returns when the steps are done and well; any other result is the end."""
    work.note(exit_status=result.exit_status, output=_tail(result.output) or None)
    match result.kind:
        case "done" if result.exit_status == 0:
            work.may_have_begun = True
        case "done":
            said = f": {_tail(result.output)}" if result.output.strip() else ""
            raise _Ended("failed", f"a step ended with status {result.exit_status}{said}")
        case "not_begun":
            raise _Ended("not_begun", result.reason)
        case _:  # refused, running, died: somebody has begun, or may have
            await _note_versions(work)
            raise _Ended("unknown", result.reason or result.kind)


async def _note_versions(work: _Work) -> None:
    try:
        seen = await work.look.once()
    except (Unreachable, Unanswered, BadCredentials, Refused):
        return
    work.note(installed=seen.installed, running=seen.running)


async def _verify(work: _Work, before: Seen) -> None:
    """Returns once the host, its agent and the servers agree; ends as failed or unknown."""
    check = work.job.change.verify_catalog
    if check is not None and work.look.catalog is None:
        raise _Ended("unknown", "the change is verified in the catalog, and the fleet has none")
    until = min(work.deadline, time.monotonic() + (check.within if check else VERIFY_WITHIN))
    alike = 0
    while True:
        seen, silence = await _try_to_look(work, before)
        if seen is not None:
            work.note(installed=seen.installed, running=seen.running)
            work.note(catalog=seen.entry.version if seen.entry else None)
        alike = alike + 1 if seen is not None and not seen.lacks else 0
        if alike >= _looks_needed(work):
            return
        if time.monotonic() >= until and alike == 0:
            if seen is None:
                raise _Ended("unknown", f"{silence}; the steps are done, the result is not seen")
            raise _Ended("failed", "; ".join(seen.lacks))
        await asyncio.sleep(LOOK_EVERY)


def _looks_needed(work: _Work) -> int:
    watched = work.look.has_process or work.job.change.verify_catalog is not None
    return LOOKS_ALIKE if watched else 1


async def _try_to_look(work: _Work, before: Seen) -> tuple[Seen | None, str]:
    """A look, or why there was none: an agent that restarts may be silent for a moment."""
    try:
        return await work.look.against(before), ""
    except (Unreachable, Unanswered) as silence:
        return None, str(silence)


def _tail(output: str) -> str:
    """The end of an output, on one line."""
    words = " ".join(output.split())
    return words if len(words) <= _TAIL else f"… {words[-_TAIL:]}"
