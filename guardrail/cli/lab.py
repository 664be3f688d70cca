"""`guardrail lab`: the incident's system, from real parts, on this machine's loopback addresses.

The lab itself is guardrail/lab; here it is only started, stopped and shown. Its parts need the
`lab` extra; without it these commands say so, and everything else works.
"""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from guardrail.cli.json_out import dump
from guardrail.cli.session import Json
from guardrail.cli.text import Line, Look, Span, clean, line, plain, table, to_rich, wrap
from guardrail.cli.watch import look_of
from guardrail.errors import Refused

if TYPE_CHECKING:
    from guardrail.lab.health import LabStatus, PartStatus

EXTRA = ("uvloop", "asyncmy", "prometheus_client")
"""The modules of the `lab` extra."""

app = typer.Typer(
    name="lab",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Start, look at and stop a fleet of real parts on this machine.",
    epilog="Example: guardrail lab up, then: guardrail lab status",
)

Folder = Annotated[
    Path | None,
    typer.Option(
        "--dir", metavar="DIR", help="State folder; default: lab in the XDG state folder."
    ),
]


@app.command(epilog="Example: guardrail lab up --hosts 10 --load off-peak")
def up(
    hosts: Annotated[
        int, typer.Option("--hosts", metavar="N", help="Cache hosts, a fifth of them spares.")
    ] = 30,
    load: Annotated[
        Literal["peak", "off-peak"], typer.Option("--load", help="Boots a second.")
    ] = "peak",
    block: Annotated[
        int, typer.Option("--block", metavar="B", help="Use the addresses 127.0.B.x.")
    ] = 20,
    folder: Folder = None,
) -> None:
    """Start the lab, and return when it is warm and under load."""
    needs_the_extra()
    from guardrail.lab.layout import Layout
    from guardrail.lab.supervisor import up as start

    try:
        layout = Layout(state_folder(folder), block, hosts)
    except ValueError as fault:
        raise typer.BadParameter(str(fault)) from None
    start(layout, load, say)


@app.command(epilog="Example: guardrail lab status --json")
def status(folder: Folder = None, as_json: Json = False) -> None:
    """Show every part: address, process, health; exit 1 when something is down."""
    needs_the_extra()
    from guardrail.lab.health import status as ask

    found = ask(state_folder(folder))
    if as_json:
        typer.echo(dump(found.as_json()))
    else:
        console = Console(highlight=False)
        console.print(to_rich(status_rows(found, look_of(console, whole=True))), end="")
    raise typer.Exit(0 if found.ok else 1)


@app.command(epilog="Example: guardrail lab down")
def down(folder: Folder = None) -> None:
    """Stop everything that the lab started, and nothing else."""
    needs_the_extra()
    from guardrail.lab.supervisor import down as stop

    stop(state_folder(folder), say)


def needs_the_extra() -> None:
    """Raises Refused when the lab's own modules are not installed."""
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise Refused(
            f"the lab needs {', '.join(missing)}; install the extra: "
            "pip install 'guardrail-orchestrator[lab]'"
        )


def state_folder(named: Path | None) -> Path:
    """The lab's state folder, absolute."""
    from guardrail.lab.layout import default_state

    return (named or default_state()).expanduser().absolute()


def say(words: str) -> None:
    """A line about what is going on: to standard error."""
    typer.echo(words, err=True)


# ---------------------------------------------------------------- what is shown


def status_rows(lab: "LabStatus", look: Look) -> list[Line]:
    """What is down first, then every part, then the event loops' lag."""
    bad = sum(not part.ok for part in lab.parts)
    words = (
        f"{bad} of {len(lab.parts)} parts are down" if bad else f"{len(lab.parts)} parts, all up"
    )
    where = f"{lab.load} load, 127.0.{lab.block}.x, state in {lab.state}"
    rows = wrap(
        line(Span(words, "bad" if bad else "good"), f"; {clean(where, look)}"), look.width, 2
    )
    return [*rows, (), *_parts(lab, look), (), *_lag(lab, look)]


def _parts(lab: "LabStatus", look: Look) -> list[Line]:
    drawn = table([_cells(part, look) for part in lab.parts], look.width, 8)
    return [row for rows in drawn for row in rows]


def _cells(part: "PartStatus", look: Look) -> list[Span]:
    return [
        Span("ok" if part.ok else "DOWN", "good" if part.ok else "bad"),
        Span(clean(part.name, look)),
        Span(part.address, "quiet"),
        Span(f"pid {part.pid}" if part.pid else "no process", "quiet"),
        Span(clean(part.health, look), "quiet" if part.ok else "bad"),
    ]


def _lag(lab: "LabStatus", look: Look) -> list[Line]:
    """The lag of each event loop; above the limit, what was measured is void."""
    from guardrail.lab.health import LAG_LIMIT

    if not lab.lag:
        return [line(Span("event-loop lag: no process answers", "bad"))]
    words = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in lab.lag.items())
    late = [name for name, seconds in lab.lag.items() if seconds > LAG_LIMIT]
    rows = wrap(line("event-loop lag: ", words), look.width, 2)
    if late:
        told = f"above {LAG_LIMIT * 1000:g} ms ({', '.join(late)}): what is measured now is void"
        rows += wrap(line(Span(told, "bad")), look.width, 2)
    return rows


def status_text(lab: "LabStatus", look: Look) -> str:
    """The same without colour, for files and pipes."""
    return "\n".join(plain(status_rows(lab, look)))
