"""How does a person keep everything from beginning for a while? (guardrail freeze ...)"""

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from guardrail.cli.json_out import dump
from guardrail.cli.session import By, Json, end_of, person, run, settings
from guardrail.cli.talk import STILL, tell
from guardrail.decide.freezes import current, ends, in_order, stands, words
from guardrail.edges.freezes import VALID, Commands, Freezes, places_of
from guardrail.edges.temporal import connect
from guardrail.files.freeze import parse_in
from guardrail.model.freeze import Freeze, Frozen, Lift, Lifted
from guardrail.settings import Settings

app = typer.Typer(
    name="freeze",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Keep every host from beginning, everywhere, until a time or until it is lifted.",
    epilog='Example: guardrail freeze on --reason "the site is slow" --until 2h',
)

SETTLED = VALID + STILL
"""Seconds after which no host begins any more: a worker's last look may be so old, then as after a
pause."""

NEXT = 3
"""Freezes to come that are shown."""
NONE = "Nothing is frozen."

Reason = Annotated[str, typer.Option("--reason", help="Why; recorded and shown. Needed.")]


@dataclass(frozen=True, slots=True)
class Shown:
    """All freezes there are, for JSON. unread: places that cannot be read, and why."""

    freezes: tuple[Freeze, ...]
    unread: tuple[str, ...] = ()
    lifted: tuple[Lifted, ...] = ()


# ---------------------------------------------------------------- on


@app.command(epilog='Example: guardrail freeze on --reason "launch day" --until 2026-12-24T08:00Z')
def on(
    *,
    reason: Reason = "",
    until: Annotated[
        str, typer.Option("--until", metavar="WHEN", help="2h, or a time; default: no end.")
    ] = "",
    name: Annotated[
        str, typer.Option("--name", help="What it is called; default: freeze, freeze-2, …")
    ] = "",
    role: Annotated[
        list[str] | None, typer.Option("--role", help="Only hosts of this role (repeatable).")
    ] = None,
    fleet: Annotated[
        list[str] | None, typer.Option("--fleet", help="Only this fleet (repeatable).")
    ] = None,
    allow_rollback: Annotated[
        bool, typer.Option("--allow-rollback", help="Going back need not wait for its end.")
    ] = False,
    by: By = "",
    as_json: Json = False,
) -> None:
    """Freeze: nothing begins, in either direction; hosts in flight finish.

    Operations hold, and go on by themselves after its end, with a bake.
    """
    asked = Freeze(
        name=name,
        reason=reason,
        by=person(by, settings()),
        since=0.0,
        until=end_of(until, time.time()) if until else None,
        roles=tuple(role or ()),
        fleets=tuple(fleet or ()),
        binds_back=not allow_rollback,
    )
    made = run(_on(asked))
    if as_json:
        typer.echo(dump(made))
        return
    tell([f"{made.name}: {words(made)}.", "No host that it concerns begins any more."])
    tell([f"It ends by: {ends(made)}.", f'guardrail freeze off {made.name} --reason "…"'])


async def _on(asked: Freeze) -> Freeze:
    operations = await connect()
    desk = Commands(operations.client, operations.address)
    named = asked if asked.name else _named(asked, await desk.frozen())
    frozen = await desk.on(named)
    await asyncio.sleep(SETTLED)
    return next(one for one in frozen.freezes if one.name == named.name)


def _named(asked: Freeze, frozen: Frozen) -> Freeze:
    """With the first free name."""
    taken = {one.name for one in current(frozen, time.time()).freezes}
    names = ("freeze", *(f"freeze-{number}" for number in range(2, len(taken) + 3)))
    free = next(name for name in names if name not in taken)
    return replace(asked, name=free)


# ---------------------------------------------------------------- off


@app.command(epilog='Example: guardrail freeze off freeze --reason "the site is well again"')
def off(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `freeze status` names it.")],
    reason: Reason = "",
    by: By = "",
    as_json: Json = False,
) -> None:
    """Lift a freeze that was set by command; operations bake and go on."""
    frozen = run(_off(Lift(name, person(by, settings()), reason)))
    if as_json:
        typer.echo(dump(frozen))
        return
    left = [f"Still: {words(one)}" for one in frozen.freezes]
    tell([f"The freeze {name} is lifted.", *left, "guardrail freeze status"])


async def _off(lift: Lift) -> Frozen:
    operations = await connect()
    return await Commands(operations.client, operations.address).off(lift)


# ---------------------------------------------------------------- status


@app.command(epilog="Example: guardrail freeze status --json")
def status(as_json: Json = False) -> None:
    """Show every freeze by command, and what the places say that this environment names.

    A worker may have a file of its own: what it holds is shown by `guardrail rollout explain`.
    """
    shown = run(_status(settings()))
    if as_json:
        typer.echo(dump(shown))
        return
    tell(lines(shown, time.time()))


async def _status(known: Settings) -> Shown:
    operations = await connect()
    frozen = await Commands(operations.client, operations.address).frozen()
    places = places_of(parse_in(known.freeze_timezone), *known.freeze_places)
    elsewhere = await Freezes(places).now()
    by_command = current(frozen, time.time()).freezes
    return Shown(in_order([*by_command, *elsewhere.freezes]), elsewhere.unread, frozen.lifted)


def lines(shown: Shown, at: float) -> list[str]:
    """The freezes in words; of those to come, which can be a calendar of them, the next ones."""
    now = [one for one in shown.freezes if stands(one, at)]
    ahead = sorted((one for one in shown.freezes if at < one.since), key=lambda one: one.since)
    rows = [f"{one.name}: {words(one)}; ends by: {ends(one)}" for one in now] or [NONE]
    rows += [f"to come: {one.name}: {words(one)}" for one in ahead[:NEXT]]
    rows += [f"… and {len(ahead) - NEXT} later ones (--json has all)"] if len(ahead) > NEXT else []
    unread = [f"cannot be read: {why}; after a minute it counts as frozen" for why in shown.unread]
    lifted = [
        f"{gone.freeze.name} was lifted by {gone.by}: {gone.reason}" for gone in shown.lifted[-3:]
    ]
    return [*rows, *unread, *lifted]
