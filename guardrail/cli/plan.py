"""`guardrail plan FILE...`: what exactly would be done, within which limits, and what stands
against it?

The same planning as the worker's, from here: it asks the inventory, every host and every gate,
and changes nothing. Exit 0: it may start; 1: it would be refused; 2: a file is wrong; 3: a
service does not answer.
"""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from guardrail.cli.contract import Out, write
from guardrail.cli.json_out import dump
from guardrail.cli.plan_view import plan_rows
from guardrail.cli.session import By, Interrupted, Json, person, run, settings
from guardrail.cli.text import to_rich
from guardrail.cli.watch import look_of
from guardrail.decide.adding import with_added
from guardrail.decide.freezes import concerned, reading
from guardrail.edges.compose import edges_of, store_of
from guardrail.edges.freezes import Commands, Freezes, places_of
from guardrail.edges.own_servers import own_servers
from guardrail.edges.temporal import configured, connect
from guardrail.errors import Refused, Unanswered
from guardrail.files import Documents, load, shipped_policies
from guardrail.files.contractfile import contract_of
from guardrail.files.freeze import parse_in
from guardrail.model.messages import PlanRequest
from guardrail.model.plan import Plan
from guardrail.planning import plan_rollout, recalled
from guardrail.settings import Settings

EXAMPLE = "Example: guardrail plan examples/consul-agents --source examples/consul-agents/source"

app = typer.Typer()

Files = Annotated[
    list[Path], typer.Argument(metavar="FILE", help="One Rollout, its Fleet, policies to add.")
]
SourceFolder = Annotated[
    Path | None,
    typer.Option(
        "--source", metavar="DIR", help="The worker's source [GUARDRAIL_SOURCE, shipped]."
    ),
]


@app.command(epilog=EXAMPLE)
def plan(
    files: Files,
    *,
    source: SourceFolder = None,
    by: By = "",
    everything: Annotated[bool, typer.Option("--all", help="Shorten no list.")] = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Show what a rollout would do, in which order and within which limits; change nothing."""
    known = settings()
    given = load(files)
    request = requested(given, person(by, known))
    folder = source_folder(source or known.source)
    documents = load([folder])
    try:
        made = run(planned(request, documents))
    except Interrupted:
        raise Interrupted(said="Interrupted; nothing was changed.") from None
    if out is not None:
        policies = with_added(documents.policies, request.policies)
        write(out, contract_of(request, made, policies))
    more = (*strangers(given, documents, folder), *run(frozen(made, known)))
    made = replace(made, warnings=(*made.warnings, *more))
    if as_json:
        typer.echo(dump(made))
    else:
        console = Console(highlight=False)
        look = look_of(console, whole=True)
        console.print(to_rich(plan_rows(made, look, everything=everything)), end="")
    raise typer.Exit(1 if made.refusals else 0)


def requested(documents: Documents, requester: str) -> PlanRequest:
    """What these documents ask for. Raises Refused when not one rollout and its fleet are there."""
    rollout = documents.rollout()
    fleet = documents.fleet(rollout.fleet)
    added = documents.policies
    return PlanRequest(rollout.name, rollout, fleet, requester, policies=added)


def source_folder(named: Path | None) -> Path:
    """The folder whose policies, changes and gates count. Raises Refused when it is none."""
    folder = named or shipped_policies()
    if not folder.is_dir():
        raise Refused(f"the source {folder} is not a folder; name one: --source DIR")
    return folder


async def planned(request: PlanRequest, documents: Documents) -> Plan:
    """The plan from the real inventory, hosts and gates. Raises Refused, Unanswered."""
    name = request.rollout.change.name
    change = next((change for change in documents.changes if change.name == name), None)
    async with edges_of(request.fleet, change) as edges:
        return await plan_rollout(
            request,
            documents,
            edges.inventory,
            edges.probing,
            edges.restarts,
            metrics_of=edges.metrics_of,
            leaders=edges.leaders,
            now=time.time(),
            guards=await own_servers(configured()["target_host"], request.fleet, documents.sources),
            before=await asyncio.to_thread(recalled, store_of(settings().plans), request.fleet),
        )


async def frozen(made: Plan, known: Settings) -> tuple[str, ...]:
    """The freezes that stand now and concern the plan, and the places that cannot be read: those
    by command, and those that this environment names. Raises Refused."""
    places = places_of(parse_in(known.freeze_timezone), *known.freeze_places)
    try:
        operations = await connect()
    except Unanswered as silent:
        seen = await Freezes(places).now()
        seen = replace(seen, unread=(*seen.unread, f"command: {silent}"))
    else:
        seen = await Freezes((Commands(operations.client, operations.address), *places)).now()
    return reading(seen, concerned(made), time.time())


def strangers(given: Documents, source: Documents, folder: Path) -> tuple[str, ...]:
    """Documents among the files that do not count, since the worker's source has not the same."""
    kinds = (
        ("change", given.changes, source.changes),
        ("gate", given.gates, source.gates),
    )
    known = {(kind, item.name, item.digest) for kind, _, there in kinds for item in there}
    return tuple(
        f"{kind} {item.name} in the files given is not the one in the source {folder}: it does "
        "not count (--source names another source)"
        for kind, items, _ in kinds
        for item in items
        if (kind, item.name, item.digest) not in known
    )
