"""Who holds a lease, and how is one ended that its holder does not end? (guardrail lease ...)"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from guardrail.cli.json_out import dump
from guardrail.cli.session import By, Json, person, run, settings
from guardrail.cli.talk import tell
from guardrail.decide.leases import clock
from guardrail.edges.lease_lock import desk_of
from guardrail.edges.leases import Desk
from guardrail.edges.temporal import connect
from guardrail.model.lease import LAST_FOR, Break, Lease, Share, Table, Waiting

app = typer.Typer(
    name="lease",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="See who holds which role's limits, and break a lease that its holder cannot give back.",
    epilog="Example: guardrail lease list",
)

State = Literal["held", "orphaned", "broken"]


@dataclass(frozen=True, slots=True)
class Held:
    """One role of a lease, for JSON. exclusive: all of the role is its holder's."""

    role: str
    exclusive: bool
    state: State
    operation: str
    person: str
    reason: str
    priority: str
    token: int
    share: Share
    since: float
    expires_at: float
    broken_by: str = ""


@dataclass(frozen=True, slots=True)
class Waits:
    """An operation that waits for roles, for JSON."""

    operation: str
    person: str
    reason: str
    priority: str
    roles: tuple[str, ...]
    since: float


@dataclass(frozen=True, slots=True)
class Leases:
    """All leases, by role, and who waits, in the order in which they are served."""

    leases: tuple[Held, ...]
    waiting: tuple[Waits, ...]


# ---------------------------------------------------------------- list


@app.command("list", epilog="Example: guardrail lease list --json")
def list_leases(as_json: Json = False) -> None:
    """Show every lease with its holder, and who waits. An orphaned one still blocks others."""
    table, now = run(_table()), time.time()
    if as_json:
        typer.echo(dump(shown(table, now)))
        return
    tell(lines(shown(table, now), now))


async def _table() -> Table:
    operations = await connect()
    return await Desk(operations.client, operations.address).table()


def shown(table: Table, now: float) -> Leases:
    """The table as it is shown; `now` is in seconds since the epoch."""
    held = [row for lease in table.leases for row in _rows(lease, now)]
    queue = sorted(
        (w for w in table.waiting if w.until >= now),
        key=lambda w: (w.holder.priority != "urgent", w.since),
    )
    return Leases(tuple(sorted(held, key=lambda row: row.role)), tuple(map(_waits, queue)))


def state_of(lease: Lease, now: float) -> State:
    """What has become of a lease."""
    if lease.broken_by:
        return "broken"
    return "orphaned" if lease.orphaned(now) else "held"


def _rows(lease: Lease, now: float) -> list[Held]:
    holder = lease.holder
    return [
        Held(
            role=part.role,
            exclusive=part.exclusive,
            state=state_of(lease, now),
            operation=holder.operation,
            person=holder.person,
            reason=holder.reason,
            priority=holder.priority,
            token=lease.token,
            share=part.share,
            since=lease.since,
            expires_at=lease.expires_at,
            broken_by=lease.broken_by,
        )
        for part in lease.parts
    ]


def _waits(waiting: Waiting) -> Waits:
    holder, roles = waiting.holder, tuple(sorted(claim.role for claim in waiting.claims))
    return Waits(
        holder.operation, holder.person, holder.reason, holder.priority, roles, waiting.since
    )


def lines(all_: Leases, now: float) -> list[str]:
    """The leases in words."""
    if not all_.leases and not all_.waiting:
        return ["Nobody holds a lease, and nobody waits for one."]
    rows = [_line(row, now) for row in all_.leases]
    for waits in all_.waiting:
        urgent = "urgent, " if waits.priority == "urgent" else ""
        why = f"{urgent}{waits.person}: {waits.reason}"
        since = clock(waits.since)
        rows.append(f"{waits.operation} ({why}) waits for {', '.join(waits.roles)} since {since}")
    return [*rows, *_advice(all_.leases)]


def _line(row: Held, now: float) -> str:
    share = "all of it" if row.exclusive else str(row.share)
    state = {
        "held": f"lasts {row.expires_at - now:.0f} s unless renewed",
        "orphaned": f"ORPHANED, not renewed since {clock(row.expires_at - LAST_FOR)}",
        "broken": f"broken by {row.broken_by}; free once its hosts in flight have answered",
    }[row.state]
    who = f"{row.operation} ({row.person}: {row.reason})"
    return f"{row.role}: {who} has {share} since {clock(row.since)}; {state}; token {row.token}"


def _advice(held: Sequence[Held]) -> list[str]:
    """What to do about an orphaned one."""
    orphan = next((row for row in held if row.state == "orphaned"), None)
    if orphan is None:
        return []
    why = (
        f"{orphan.operation} does not renew its lease on {orphan.role}: its hosts may be away, so "
        "it blocks others until it is carried on, or a person has looked and breaks it."
    )
    return [
        why,
        f'guardrail lease break {orphan.role} --operation {orphan.operation} --reason "…"',
    ]


# ---------------------------------------------------------------- break


@app.command("break", epilog='Example: guardrail lease break memcached --reason "cid looked: up"')
def break_lease(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="As `lease list` names it.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; recorded, shown. Needed.")] = "",
    operation: Annotated[
        str, typer.Option("--operation", metavar="OP", help="Only this one's; default: all.")
    ] = "",
    by: By = "",
    as_json: Json = False,
) -> None:
    """End the leases on a role. Look at its hosts first: what they took away may be away still.

    An orphaned lease is free at once. A live one's holder begins nothing more, and it is free when
    the holder's hosts in flight have answered; the holder goes on when a person resumes it.
    """
    said = Break(role, person(by, settings()), reason, operation)
    table, now = run(_break(said)), time.time()
    if as_json:
        typer.echo(dump(shown(table, now)))
        return
    tell(broken_lines(table, said))


async def _break(said: Break) -> Table:
    operations = await connect()
    locks = settings().lease_locks
    return await desk_of(operations.client, operations.address, *locks).break_lease(said)


def broken_lines(table: Table, said: Break) -> list[str]:
    """What became of it, and what happens next."""
    left = [lease for lease in table.leases if lease.part(said.role) and lease.broken_by]
    if not left:
        return [f"The lease on {said.role} is broken: it is free."]
    names = ", ".join(lease.holder.operation for lease in left)
    what = (
        f"The lease on {said.role} is broken: {names} begins nothing more. It is free when the "
        f"hosts in flight have answered, or after {LAST_FOR:g} s of silence."
    )
    return [what, *(f"guardrail rollout resume {lease.holder.operation}" for lease in left)]
