"""`guardrail policy`: are these policies any good, where does each value come from, what may a
document hold?

Exit codes: 0 done (`check`: nothing but warnings), 1 refused, 2 any error in a document, 3 the
inventory does not answer.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from guardrail.cli.gate import address
from guardrail.cli.json_out import dump
from guardrail.cli.plan import SourceFolder, source_folder
from guardrail.cli.session import Json, run, settings
from guardrail.cli.text import Line, Look, Span, clean, line, table, to_rich, wrap
from guardrail.cli.watch import look_of
from guardrail.decide.advice import advice
from guardrail.decide.trace import Traced, traced
from guardrail.edges.compose import edges_of
from guardrail.edges.prometheus import Prometheus
from guardrail.edges.promql_shape import shape
from guardrail.errors import Refused
from guardrail.files import KINDS, Documents, Survey, load, survey
from guardrail.files.schema import text as schema_text
from guardrail.model.advice import Advice, Given, Severity
from guardrail.model.common import Origin
from guardrail.model.fleet import Fleet, Host
from guardrail.model.gate import Gate, Source
from guardrail.planning import each, source_of

app = typer.Typer(
    name="policy",
    no_args_is_help=True,
    help="Check policies and gates, explain where each value comes from, print schemas.",
)

CHECK = "Example: guardrail policy check policies fleets --prometheus http://127.0.20.6:9090"
EXPLAIN = "Example: guardrail policy explain cache examples/consul-agents"
SCHEMA = "Example: guardrail policy schema Policy > policy.json"

AT_ONCE = 8


# ---------------------------------------------------------------- check


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, where it is written. Line and column count from 1.

    rule: what kind of thing; `format` is what no document may say at all.
    """

    file: str
    line: int
    column: int
    severity: Severity
    rule: str
    document: str
    what: str
    do: str = ""

    def __str__(self) -> str:
        about = f"{self.document}: " if self.document else ""
        do = f"; better: {self.do}" if self.do else ""
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {about}{self.what}{do}"


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found, file by file, and what could not be looked at."""

    errors: int
    warnings: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH", help="Files or folders: policies, gates, changes, fleets."),
]


@app.command(epilog=CHECK)
def check(
    paths: Paths,
    prometheus: Annotated[
        str | None,
        typer.Option("--prometheus", metavar="URL", help="Measure scrapes here."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no Prometheus how far apart scrapes are.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Find what is wrong in documents, and what is right and protects nothing.

    Exit 2 on any error, 0 when there are only warnings.
    """
    report = checked(survey(paths), prometheus, time.time(), offline=offline)
    if as_json:
        typer.echo(dump(report))
    else:
        for finding in report.findings:
            typer.echo(str(finding))
        for note in report.notes:
            typer.echo(note, err=True)
        typer.echo(f"{_counted(report.errors, 'error')}, {_counted(report.warnings, 'warning')}")
    raise typer.Exit(2 if report.errors else 0)


def checked(looked: Survey, url: str | None, now: float, *, offline: bool = False) -> Report:
    """What is wrong with these documents. url: a Prometheus instead of their Source documents."""
    documents = looked.documents
    scrapes, notes = ({}, ()) if offline else run(measured(documents, url))
    given = Given(
        policies=documents.policies,
        gates=documents.gates,
        changes=documents.changes,
        fleets=documents.fleets,
        sources=documents.sources,
        channels=documents.channels,
        reminders=documents.reminders,
        checklists=documents.checklists,
        shapes={gate.name: shape(gate.query) for gate in documents.gates},
        zero_shapes={
            gate.name: shape(gate.evidence.zero_when)
            for gate in documents.gates
            if gate.evidence.zero_when is not None
        },
        scrapes=scrapes,
        now=now,
    )
    found = [
        Finding(f.file, f.line, f.column, "error", "format", "", f.message) for f in looked.faults
    ]
    found += [_placed(one, looked) for one in advice(given)]
    found.sort(key=lambda one: (one.file, one.line, one.column))
    errors = sum(1 for one in found if one.severity == "error")
    return Report(errors, len(found) - errors, tuple(found), notes)


def _placed(one: Advice, looked: Survey) -> Finding:
    """With the place of what it is about, or of the nearest thing around that."""
    placed = looked.places[one.kind, one.name]
    spot = placed.spot(one.path)
    document = f"{one.kind.lower()} {one.name}"
    return Finding(
        placed.file, spot.line, spot.column, one.severity, one.rule, document, one.what, one.do
    )


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


async def measured(
    documents: Documents, url: str | None
) -> tuple[dict[str, float], tuple[str, ...]]:
    """How far apart each gate's samples are, where a Prometheus answers; and where none does."""
    named = Source("--prometheus", address(url)) if url else None
    pairs = [
        (gate, source)
        for gate in documents.gates
        if isinstance(source := named or source_of(gate, documents.sources), Source)
    ]
    async with AsyncExitStack() as stack:
        asked = {
            source.name: await stack.enter_async_context(Prometheus(source)) for _, source in pairs
        }

        async def ask(pair: tuple[Gate, Source]) -> float | None:
            gate, source = pair
            return await asked[source.name].scrape_interval(gate.query)

        answers = await each(ask, pairs, at_once=AT_ONCE)
    known = {
        gate.name: seconds
        for (gate, _), seconds in zip(pairs, answers, strict=True)
        if seconds is not None
    }
    silent = [gate.name for gate in documents.gates if gate.name not in known]
    note = f"not compared with real scrapes, since none could be measured: {', '.join(silent)}"
    return known, (note,) if silent else ()


# ---------------------------------------------------------------- explain


@app.command(epilog=EXPLAIN)
def explain(
    target: Annotated[str, typer.Argument(metavar="FLEET|HOST", help="A fleet, or one host.")],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Where the Fleet documents are.")
    ] = None,
    source: SourceFolder = None,
    agent: Annotated[
        str, typer.Option("--agent", metavar="NAME", help="What is to be changed there.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Show each value, the file and line it comes from, and what it would be without that policy.

    The policies are those of the source, and the hosts those of the inventory, as they are now.
    """
    folder = source_folder(source or settings().source)
    documents = load([folder])
    given = load(files) if files else documents
    changed = agent or _agent(given, documents)
    fleet, hosts, host = run(_found(target, given))
    rows = traced(documents.policies, fleet.name, changed, hosts, host)
    if as_json:
        typer.echo(dump(rows))
        return
    about = f"host {host} of fleet {fleet.name}" if host else f"fleet {fleet.name}"
    console = Console(highlight=False)
    head = f"{about}, {_counted(len(hosts), 'host')}, agent {changed}, policies of {folder}"
    console.print(to_rich(rows_of(head, rows, look_of(console, whole=True))), end="")


def _agent(given: Documents, source: Documents) -> str:
    """What is changed: by the one rollout that was given, or the only agent that there is."""
    known = {change.name: change.agent for change in (*source.changes, *given.changes)}
    named = {known.get(rollout.change.name, "") for rollout in given.rollouts} - {""}
    agents = named or set(known.values())
    if len(agents) == 1:
        return agents.pop()
    raise Refused(
        f"which agent is changed? Policies may depend on it: pass --agent "
        f"({', '.join(sorted(agents)) or 'none is known from changes here'})"
    )


async def _found(target: str, given: Documents) -> tuple[Fleet, tuple[Host, ...], str]:
    """The fleet of that name with its hosts; or the one with a host of that name, and the host.

    Raises Refused when there is neither, Unanswered when an inventory is silent.
    """
    if any(fleet.name == target for fleet in given.fleets):
        fleet = given.fleet(target)
        return fleet, await _hosts(fleet), ""
    looked: list[str] = []
    for fleet in given.fleets:
        hosts = await _hosts(fleet)
        if any(host.name == target for host in hosts):
            return fleet, hosts, target
        looked.append(f"{fleet.name} ({_counted(len(hosts), 'host')})")
    raise Refused(
        f"there is no fleet and no host `{target}`; fleets in the files given: "
        f"{', '.join(looked) or 'none: pass the file of the Fleet'}"
    )


async def _hosts(fleet: Fleet) -> tuple[Host, ...]:
    async with edges_of(fleet, None) as edges:
        return await edges.inventory.hosts(fleet)


def rows_of(head: str, rows: Sequence[Traced], look: Look) -> list[Line]:
    """The values as a table: what, how much, from where, and what without."""
    cells = [
        [
            Span(clean(row.name, look)),
            Span(clean(row.value, look), "strong"),
            Span(clean(place(row.origin), look), "quiet"),
            Span(clean(without(row), look)),
        ]
        for row in rows
    ]
    drawn = [each for row in table(cells, look.width) for each in row]
    files = {row.origin.file for row in rows if row.origin.line}
    end = f"{len(rows)} values from {len(files)} files"
    return [*wrap(line(Span(clean(head, look), "strong")), look.width, 2), *drawn, line(end)]


def place(origin: Origin) -> str:
    """`cache-critical cache-critical.yaml:15 @1a2b3c4d5e6f`."""
    if not origin.line:
        return origin.document
    by = f" @{origin.revision}" if origin.revision else ""
    return f"{origin.document} ({origin.file}:{origin.line}{by})"


def without(row: Traced) -> str:
    """`without it 14 hosts (policy base)`."""
    if not row.without:
        return ""
    by = f" ({row.without_origin.document})" if row.without_origin else ""
    return f"without it: {row.without}{by}"


# ---------------------------------------------------------------- schema


@app.command(epilog=SCHEMA)
def schema(
    kind: Annotated[
        str, typer.Argument(metavar="[KIND]", help=f"One of {', '.join(KINDS)}.")
    ] = "Policy",
) -> None:
    """Print the JSON Schema of a kind of document, for editors and other tools."""
    known = {name.lower(): name for name in KINDS}
    if kind.lower() not in known:
        print(f"there is no kind `{kind}`; kinds: {', '.join(KINDS)}", file=sys.stderr)
        raise typer.Exit(2)
    typer.echo(schema_text(known[kind.lower()]), nl=False)
