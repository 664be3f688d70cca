"""What is shown of an operation that runs, that nobody answers for, or that ended by itself?"""

import typer

from guardrail.cli.json_out import dump
from guardrail.cli.session import progress
from guardrail.cli.start import not_planned
from guardrail.cli.talk import tell
from guardrail.cli.text import Look, clean, count, stamp
from guardrail.cli.view import Snapshot, trends_from
from guardrail.edges.temporal import Known, NoWorker, Operations
from guardrail.errors import GuardrailError, Refused
from guardrail.model import messages
from guardrail.model.messages import Status
from guardrail.model.operation import FINAL


async def snapshot_of(operations: Operations, operation: str) -> Snapshot:
    """Status and gate trends now. Raises Refused or NoPlan when it ended without an end."""
    status = await operations.status(operation)
    if status.phase in FINAL:
        return Snapshot(status)
    known = await operations.known(operation)
    if known.closed == "completed":  # in between
        return Snapshot(await operations.status(operation))
    if not known.open:
        raise await _cut_off(operations, known, status)
    details = await operations.heartbeat(operation, messages.WATCH_GATES)
    return Snapshot(status, trends_from(details))


async def _cut_off(operations: Operations, known: Known, status: Status) -> GuardrailError:
    """An operation that was refused, or whose workflow was ended from outside or by an error."""
    if status.phase == "planned":
        return await not_planned(operations, known.operation)
    reasons = await operations.refusals(known.operation) if known.closed == "failed" else ()
    return Refused(
        (
            f"{known.operation}: its workflow was ended in Temporal ({known.closed}) while it was "
            f"{status.phase}; {status.changed} of {count(status.hosts, 'host')} changed, "
            f"{len(status.in_flight)} were in flight."
        ),
        *reasons,
        "Nothing new begins; what was in flight finishes by itself, and nobody watches its gates.",
    )


def tell_memo(known: Known, silent: NoWorker, as_json: bool) -> None:
    """The state without a worker: what the operation noted last, and how to get one."""
    if as_json:
        typer.echo(dump(known))
        progress(str(silent))
        return
    ended = f" (ended {stamp(known.finished_at, None)})" if known.finished_at else ""
    as_of = f"as of {stamp(known.as_of, None)}" if known.as_of else "the last that it noted"
    tell(
        [
            f"{known.operation}: {known.sentence}{ended}",
            f"This is {as_of}; {silent}.",
            *(_without_worker() if known.open else []),
        ]
    )


def _without_worker() -> list[str]:
    return [
        "If nobody acts nothing new begins until a worker is there.",
        "guardrail up    (or, on a cluster: guardrail worker)",
    ]


def listed(known: Known) -> list[str]:
    word = ("held" if known.held else "open") if known.open else known.phase or known.closed
    if not known.open and known.closed != "completed":
        word = "not begun" if (known.closed, known.phase) == ("failed", "planned") else known.closed
    fleet = f"  fleet {known.fleet}" if known.fleet else ""
    kind = f"{'shadow, ' * known.shadow}{word.replace('_', ' ')}{fleet}"
    head = f"{known.operation}  {kind}  since {stamp(known.started_at, None)}"
    refused = f"it did not begin; why: guardrail rollout status {known.operation}"
    sentence = refused if known.closed == "failed" and known.phase == "planned" else known.sentence
    return [head, f"    {clean(sentence, Look())}"]
