"""What can a person ask of a rollout, and say to it? (guardrail rollout ...)"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from rich.console import Console

from guardrail.cli import approving, way_back
from guardrail.cli import start as starting
from guardrail.cli.commands import Group
from guardrail.cli.json_out import dump
from guardrail.cli.look import listed, snapshot_of, tell_memo
from guardrail.cli.plan_names import names_of
from guardrail.cli.session import By, Interrupted, Json, person, progress, run, settings
from guardrail.cli.signing import Sign, SignatureFile, Signing, WhatToSign
from guardrail.cli.talk import (
    in_flight_list,
    no_more_begins,
    pick,
    pick_with_hosts,
    sentences,
    speak,
    stand_still,
    tell,
    tell_answer,
    until_settled,
)
from guardrail.cli.text import to_rich
from guardrail.cli.view import screen
from guardrail.cli.watch import look_of, show_for
from guardrail.cli.watch import watch as follow
from guardrail.edges.temporal import Known, NoWorker, Operations, connect
from guardrail.errors import Refused
from guardrail.model import messages
from guardrail.model.messages import Status
from guardrail.model.operation import Verb
from guardrail.settings import Settings


class Rollout(Group):
    """The group, with what looks back on an operation."""

    later: ClassVar[Mapping[str, str]] = {"summary": "summary", "report": "report"}


app = typer.Typer(
    name="rollout",
    cls=Rollout,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Start, follow and steer rollouts. OP may be left out while exactly one is open.",
    epilog="Example: guardrail rollout start examples/consul-agents --watch",
)

WHAT = "One Rollout, its Fleet, policies to add; or a plan file (guardrail plan -o)."
Op = Annotated[str | None, typer.Argument(metavar="OP", help="The operation's name.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is recorded and shown.")]
NeededReason = Annotated[str, typer.Option("--reason", help="Why; recorded and shown. Needed.")]


# ---------------------------------------------------------------- start


@app.command(epilog="Example: guardrail rollout start examples/consul-agents --watch")
def start(
    *,
    files: Annotated[list[Path], typer.Argument(help=WHAT)],
    name: Annotated[
        str, typer.Option("--name", metavar="OP", help="The operation's name; default: its own.")
    ] = "",
    by: By = "",
    wait: Annotated[bool, typer.Option(help="Wait to see the plan.")] = True,
    watch: Annotated[bool, typer.Option("--watch", help="Then follow it to its end.")] = False,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Everything but the change: no host is touched.")
    ] = False,
    sign: Sign = None,
    signature: SignatureFile = None,
    what_to_sign: WhatToSign = False,
    as_json: Json = False,
) -> None:
    """Start a rollout; the worker plans it first, and refuses what is not safe to begin.

    Of a plan file the start can be signed: then it is known for certain who asked.
    """
    from guardrail.cli.contract import requested  # the formats of files

    known, how = settings(), Signing(sign, signature, what_to_sign)
    request = requested(files, person(by, known), name, known)
    request = replace(request, shadow=shadow)
    lost = "Interrupted; whether it has started says: guardrail rollout list"
    try:
        operation = run(_start(request, files, how))
    except Interrupted:
        raise Interrupted(said=lost) from None
    if operation is None:
        return
    if not wait and not watch:
        typer.echo(f"{operation} is started; see its plan: guardrail rollout status {operation}")
        return
    status = run(_planned(operation), operation)
    if as_json and not watch:
        typer.echo(dump(status))
        return
    tell(starting.planned_lines(status))
    if watch:
        raise typer.Exit(run(_watch(operation, known), operation))


async def _start(request: messages.PlanRequest, files: list[Path], how: Signing) -> str | None:
    """The name under which it was started; None: only what to sign was shown."""
    from guardrail.cli.contract import start_signature

    operations = await connect()
    if not request.operation:
        shadow = "-shadow" if request.shadow else ""
        name = await starting.free_name(operations, request.rollout.name + shadow)
        request = replace(request, operation=name)
    signature = start_signature(files, request.operation, how, shadow=request.shadow)
    if signature is None:
        return None
    await operations.start(request, signature)
    return request.operation


async def _planned(operation: str) -> Status:
    return await starting.until_planned(await connect(), operation)


# ---------------------------------------------------------------- look


@app.command(epilog="Example: guardrail rollout status consul-1.8.8 --json")
def status(operation: Op = None, as_json: Json = False) -> None:
    """Show where an operation stands; without a worker, the last that it noted."""
    run(_status(operation, settings(), as_json))


async def _status(operation: str | None, known: Settings, as_json: bool) -> None:
    operations = await connect()
    name = await pick(operations, operation)
    try:
        snapshot = await snapshot_of(operations, name)
    except NoWorker as silent:
        tell_memo(await operations.known(name), silent, as_json)
        return
    names = await names_of(known, snapshot.status.plan)
    snapshot = replace(snapshot, status=names.named(snapshot.status))
    if as_json:
        typer.echo(dump(snapshot.status))
        return
    console = Console(highlight=False)
    rows = screen(snapshot, look_of(console, whole=True), names.plan, names.missing)
    console.print(to_rich(rows), end="")


@app.command("list", epilog="Example: guardrail rollout list --ended 5")
def list_(
    ended: Annotated[int, typer.Option(min=0, help="How many ended ones to show.")] = 20,
    as_json: Json = False,
) -> None:
    """List the open operations and those that ended lately, by their full names."""
    known = run(_list(ended))
    if as_json:
        typer.echo(dump(known))
    elif not known:
        typer.echo("There are no operations. Start one: guardrail rollout start FILE")
    else:
        tell([line for each in known for line in listed(each)])


async def _list(ended: int) -> tuple[Known, ...]:
    return await (await connect()).all(ended)


@app.command(epilog="Example: guardrail rollout watch consul-1.8.8")
def watch(
    operation: Op = None,
    until_held: Annotated[
        bool,
        typer.Option(
            "--until-held/--through-holds",
            help="End with 1 once only a person can clear what holds it; default off a terminal.",
        ),
    ] = not Console().is_terminal,
) -> None:
    """Follow an operation to its end; Ctrl-C ends the watching only."""
    known = settings()
    name = run(_picked(operation))
    raise typer.Exit(run(_watch(name, known, until_held), name))


async def _picked(operation: str | None) -> str:
    return await pick(await connect(), operation)


async def _watch(operation: str, known: Settings, until_held: bool | None = None) -> int:
    operations = await connect()
    console = Console(highlight=False)
    first = await operations.known(operation)  # an unknown name is said at once
    plan = None
    if first.open:
        plan = (await names_of(known, await _digest(operations, operation))).plan
    held = not console.is_terminal if until_held is None else until_held
    show = show_for(console, plan)
    return await follow(lambda: snapshot_of(operations, operation), show, until_held=held)


async def _digest(operations: Operations, operation: str) -> str:
    try:
        return (await operations.status(operation)).plan
    except NoWorker:
        return ""


@app.command(epilog="Example: guardrail rollout explain consul-1.8.8")
def explain(operation: Op = None, as_json: Json = False) -> None:
    """Say why it stands where it stands: every hold, its reasons and readings, what ends it."""
    lines = run(_explain(operation))
    if as_json:
        typer.echo(dump(lines))
    else:
        tell(lines)


async def _explain(operation: str | None) -> list[str]:
    operations = await connect()
    return await operations.explain(await pick(operations, operation))


# ---------------------------------------------------------------- stop and go on


@app.command(epilog='Example: guardrail rollout pause consul-1.8.8 --reason "looking" --wait')
def pause(
    operation: Op = None,
    reason: Reason = "",
    by: By = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Until nothing is in flight; then list what was.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Hold it: nothing new begins; what is in flight finishes."""
    known = settings()
    work = _pause(
        operation,
        by=person(by, known),
        reason=reason,
        known=known,
        wait=wait,
        as_json=as_json,
    )
    run(work, operation)


async def _pause(
    operation: str | None, *, by: str, reason: str, known: Settings, wait: bool, as_json: bool
) -> None:
    operations = await connect()
    name = await pick(operations, operation)
    spoken = await speak(operations, name, "pause", by, reason=reason)
    say = progress if as_json else typer.echo
    say(f"{name}: {spoken.said.text}")
    before = await operations.status(name) if wait else None
    lines = await no_more_begins(operations, spoken)
    if not as_json:
        tell(lines)
    if before is None:
        if as_json:
            typer.echo(dump(spoken.said))
        return
    after = await until_settled(operations, name)
    names, became = await in_flight_list(known, before, after)
    if as_json:
        typer.echo(dump(names.named(after)))
    else:
        tell(became)


@app.command(epilog='Example: guardrail rollout resume consul-1.8.8 --over ada --reason "seen"')
def resume(
    operation: Op = None,
    over: Annotated[
        str, typer.Option("--over", metavar="NAME", help="Lift NAME's hold; NAME is told.")
    ] = "",
    reason: Reason = "",
    by: By = "",
    as_json: Json = False,
) -> None:
    """Take back your hold, and the holds of gates that pass again."""
    who = person(by, settings())
    run(_say(operation, "resume", who, as_json, reason=reason, over=over), operation)


app.command("approve", epilog=approving.EXAMPLE)(approving.command)


async def _say(
    operation: str | None,
    verb: Verb,
    by: str,
    as_json: bool,
    *,
    reason: str = "",
    over: str = "",
) -> None:
    operations = await connect()
    name = await pick(operations, operation)
    spoken = await speak(operations, name, verb, by, reason=reason, over=over)
    await tell_answer(operations, spoken, as_json=as_json)


# ---------------------------------------------------------------- hosts that need a person

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[OP] [HOST]...", help="The operation, then hosts by name."),
]
SkipWords = Annotated[
    list[str],
    typer.Argument(metavar="[OP] HOST...", help="The operation, then hosts by name."),
]


@app.command(epilog="Example: guardrail rollout retry consul-1.8.8 cache-007")
def retry(words: Words = None, reason: Reason = "", by: By = "", as_json: Json = False) -> None:
    """Try hosts again that failed or fell silent: those named, or all that need a person."""
    run(_hosts(words or [], "retry", person(by, settings()), reason, as_json))


@app.command(epilog='Example: guardrail rollout skip consul-1.8.8 cache-007 --reason "dead disk"')
def skip(words: SkipWords, reason: NeededReason, by: By = "", as_json: Json = False) -> None:
    """Set hosts aside that need a person: they are not touched any more."""
    run(_hosts(words, "skip", person(by, settings()), reason, as_json))


async def _hosts(words: list[str], verb: Verb, by: str, reason: str, as_json: bool) -> None:
    operations = await connect()
    name, hosts = await pick_with_hosts(operations, words)
    if verb == "skip" and not hosts:
        raise Refused(f"name the hosts to skip: guardrail rollout skip {name} HOST --reason WHY")
    spoken = await speak(operations, name, verb, by, reason=reason, hosts=hosts)
    await tell_answer(operations, spoken, as_json=as_json)


app.command("rollback", epilog=way_back.EXAMPLE)(way_back.command)


# ---------------------------------------------------------------- abort


@app.command(epilog='Example: guardrail rollout abort consul-1.8.8 --reason "wrong version"')
def abort(reason: NeededReason, operation: Op = None, by: By = "", as_json: Json = False) -> None:
    """Stop for good where it stands: done hosts stay done, what is in flight finishes."""
    known = settings()
    run(_abort(operation, person(by, known), reason, known, as_json), operation)


async def _abort(
    operation: str | None, by: str, reason: str, known: Settings, as_json: bool
) -> None:
    operations = await connect()
    name = await pick(operations, operation)
    spoken = await speak(operations, name, "abort", by, reason=reason)
    await stand_still(spoken)
    status = await operations.status(name)
    names = await names_of(known, status.plan)
    if as_json:
        typer.echo(dump(names.named(status)))
        return
    done, flying = names.changed(status), [host.index for host in status.in_flight]
    tell(
        [
            f"{name}: {spoken.said.text}; no host begins any more.",
            f"Done, and left as they are: {_list_of(done)}",
            f"In flight, and finishing: {_list_of([names.of(index) for index in flying])}",
            *([names.missing] if names.missing and (done or flying) else []),
            *sentences(status),
        ]
    )


MOST_NAMES = 500


def _list_of(names: list[str]) -> str:
    """`2 hosts: a, b`; only the first few hundred of very many."""
    if not names:
        return "none"
    more = f" and {len(names) - MOST_NAMES} more (--json: all)" if len(names) > MOST_NAMES else ""
    return f"{len(names)}: {', '.join(names[:MOST_NAMES])}{more}"
