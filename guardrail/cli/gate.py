"""`guardrail gate`: what does this gate say, now, from now on, or within five minutes?

For other people's tools it answers by exit code: 0 pass, 1 fail, 2 a file or a word is wrong,
3 inconclusive.
"""

import asyncio
import json
import sys
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.live import Live

from guardrail.cli.text import Look, Meaning, Span, clean, line, stamp, to_rich, wrap
from guardrail.cli.view import number_in_words, trend
from guardrail.decide.judge import Track, judge_once, pending
from guardrail.edges.gate_reader import GateReader, follow
from guardrail.edges.promapi import shown
from guardrail.edges.prometheus import Prometheus
from guardrail.edges.promql import fill, unfilled
from guardrail.errors import GuardrailError, Refused
from guardrail.files import Documents, load, shipped_policies
from guardrail.files.values import seconds
from guardrail.model.gate import Gate, Judgement, Source, Verdict
from guardrail.settings import Settings

T = TypeVar("T")
EXIT: dict[Verdict | None, int] = {"pass": 0, "fail": 1, "inconclusive": 3, None: 3}
_MEANING: dict[Verdict | None, Meaning] = {"pass": "good", "fail": "bad", "inconclusive": "warn"}

app = typer.Typer(
    name="gate",
    no_args_is_help=True,
    help="Read, watch and wait for gates. Exit 0 pass, 1 fail, 3 inconclusive; 2 invalid.",
)

Target = Annotated[
    str, typer.Argument(metavar="FILE|NAME", help="A gate's file, or its name in --source.")
]
PrometheusUrl = Annotated[
    str | None,
    typer.Option("--prometheus", metavar="URL", help="Ask here instead of the Source document."),
]
SourceFolder = Annotated[
    Path | None,
    typer.Option(
        "--source",
        metavar="DIR",
        help="Folder of gates and Source documents [GUARDRAIL_SOURCE, or the shipped policies].",
    ),
]
GateName = Annotated[
    str | None, typer.Option("--gate", metavar="NAME", help="Which gate, if FILE has several.")
]
HostName = Annotated[
    str | None, typer.Option("--host", metavar="HOST", help="What {host} in the query stands for.")
]
ExpectedTargets = Annotated[
    int | None,
    typer.Option(
        "--expected", min=0, metavar="N", help="How many targets there should be; else at least 1."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


@dataclass(frozen=True, slots=True)
class Asked:
    """One gate and where to ask about it."""

    gate: Gate
    source: Source
    expected: int | None

    @property
    def address(self) -> str:
        return shown(self.source.address)

    def reader(self, prometheus: Prometheus) -> GateReader:
        async def expected() -> int | None:
            return self.expected

        limit = self.source.timeout
        return GateReader(self.gate, prometheus, limit, expected, self.address)


@app.command(epilog="Example: guardrail gate read margin.yaml --prometheus http://127.0.20.6:9090")
def read(
    target: Target,
    *,
    prometheus: PrometheusUrl = None,
    source: SourceFolder = None,
    gate: GateName = None,
    host: HostName = None,
    expected: ExpectedTargets = None,
    as_json: Json = False,
) -> None:
    """Read a gate once, and judge the reading by the gate's bound.

    failAfter and passAfter do not apply to one reading: `gate watch` and `gate wait` count.
    """
    asked = _asked(Words(target, prometheus, source, gate, host, expected))
    judged = _run(_read(asked))
    print(_json(asked, judged) if as_json else _paragraph(asked, judged))
    raise typer.Exit(EXIT[judged.verdict])


@app.command(epilog="Example: guardrail gate watch database-margin --readings 30")
def watch(
    target: Target,
    *,
    prometheus: PrometheusUrl = None,
    source: SourceFolder = None,
    gate: GateName = None,
    host: HostName = None,
    expected: ExpectedTargets = None,
    readings: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after so many, exit by verdict.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read a gate again and again, and show the trend; one line a reading on a pipe.

    The verdict counts failAfter and passAfter over readings of distinct samples.
    """
    asked = _asked(Words(target, prometheus, source, gate, host, expected))
    on_screen = sys.stdout.isatty() and not as_json
    raise typer.Exit(_run(_watch(asked, readings, _Screen(asked) if on_screen else None, as_json)))


@app.command(epilog="Example: guardrail gate wait cache-warm --host cache-7 --for pass --within 5m")
def wait(
    target: Target,
    *,
    prometheus: PrometheusUrl = None,
    source: SourceFolder = None,
    gate: GateName = None,
    host: HostName = None,
    expected: ExpectedTargets = None,
    wanted: Annotated[
        Literal["pass", "fail"], typer.Option("--for", help="The verdict to wait for.")
    ] = "pass",
    within: Annotated[
        str, typer.Option(metavar="DURATION", help="How long at most, as 30s or 5m.")
    ] = "5m",
    as_json: Json = False,
) -> None:
    """Wait until a gate's verdict is the one wanted: exit 0.

    When the time is up, exit 1 on the other verdict, and 3 where there is none or it is
    inconclusive. The verdict counts failAfter and passAfter over readings of distinct samples.
    """
    asked = _asked(Words(target, prometheus, source, gate, host, expected))
    try:
        limit = seconds(within)
    except ValueError as error:
        _refuse(f"--within: {error}")
    track, judged = _run(_wait(asked, wanted, limit))
    print(_json(asked, judged, track) if as_json else _paragraph(asked, judged, track))
    verdict = judged.verdict if judged else None
    raise typer.Exit(0 if verdict == wanted else 1 if verdict in ("pass", "fail") else 3)


# ---------------------------------------------------------------- what is asked


@dataclass(frozen=True, slots=True)
class Words:
    """The command line's words, as they were given."""

    target: str
    url: str | None
    folder: Path | None
    name: str | None
    host: str | None
    expected: int | None


def _asked(words: Words) -> Asked:
    """Every fault of the files or the words is said on standard error: exit 2."""
    try:
        documents = _documents(words)
        gate = documents.gate(words.name if _is_path(words.target) else words.target)
        if words.host is not None:
            if unfilled(gate.query) is None:
                raise Refused(f"{gate.name} asks about no {{host}}: leave --host out")
            gate = replace(gate, query=fill(gate.query, {"host": words.host}))
        return Asked(gate, _source(gate, words, documents), words.expected)
    except GuardrailError as error:
        _refuse(str(error))


def _documents(words: Words) -> Documents:
    if _is_path(words.target):
        return load([words.target])
    if words.name is not None:
        raise Refused(f"--gate chooses within a FILE, and `{words.target}` is a gate's name")
    return load([words.folder or Settings.read().source or shipped_policies()])


def _is_path(target: str) -> bool:
    return "/" in target or target.endswith((".yaml", ".yml")) or Path(target).exists()


def _source(gate: Gate, words: Words, documents: Documents) -> Source:
    if words.url is not None:
        return Source("--prometheus", address(words.url))
    if documents.sources:
        return documents.source(gate.source)
    if (folder := words.folder or Settings.read().source) is not None:
        return load([folder]).source(gate.source)
    raise Refused(
        f"where is {gate.name} to be read? There is no Source document beside it: "
        "pass --prometheus URL, or --source DIR"
    )


def address(url: str) -> str:
    """The address that --prometheus gave. Raises Refused when it is none."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise Refused(f"--prometheus takes an address such as http://127.0.0.1:9090, not {url!r}")
    return url


# ---------------------------------------------------------------- doing it


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


async def _read(asked: Asked) -> Judgement:
    async with Prometheus(asked.source) as prometheus:
        reading = await asked.reader(prometheus).read()
    return judge_once(asked.gate, reading, asked.address)


async def _watch(asked: Asked, most: int | None, screen: "_Screen | None", as_json: bool) -> int:
    async with (
        Prometheus(asked.source) as prometheus,
        aclosing(follow(asked.reader(prometheus))) as found,
    ):
        number = 0
        with screen or _Quiet():
            async for track, judged in found:
                number += 1
                if screen:
                    screen.show(track, judged)
                else:
                    said = _json(asked, judged, track) if as_json else _row(asked, judged, track)
                    print(said, flush=True)
                if number == most:
                    return EXIT[judged.verdict if judged else None]
    return EXIT[None]


async def _wait(asked: Asked, wanted: str, limit: float) -> tuple[Track, Judgement | None]:
    track: Track = Track()
    judged: Judgement | None = None
    try:
        async with (
            asyncio.timeout(limit),
            Prometheus(asked.source) as prometheus,
            aclosing(follow(asked.reader(prometheus))) as found,
        ):
            async for newest in found:
                track, judged = newest
                if judged and judged.verdict == wanted:
                    break
    except TimeoutError:
        return track, judged
    return track, judged


# ---------------------------------------------------------------- saying it


def _refuse(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(2)


def _json(asked: Asked, judged: Judgement | None, track: Track | None = None) -> str:
    """The shape of design.md §10. A verdict of null: too few readings so far."""
    readings = judged.readings if judged else (track or Track()).readings
    newest = readings[-1] if readings else None
    return json.dumps(
        {
            "gate": asked.gate.name,
            "verdict": judged.verdict if judged else None,
            "kind": judged.kind if judged else None,
            "value": newest.value if newest else None,
            "query": asked.gate.query,
            "source": asked.address,
            "takenAt": _utc(newest.taken_at) if newest else None,
            "reasons": list(_reasons(asked, judged, track)),
        },
        ensure_ascii=False,
        allow_nan=False,
    )


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _reasons(asked: Asked, judged: Judgement | None, track: Track | None) -> tuple[str, ...]:
    if judged:
        return judged.reasons
    return (f"no verdict yet: {pending(asked.gate, track or Track())}",)


def _paragraph(asked: Asked, judged: Judgement | None, track: Track | None = None) -> str:
    reasons = "; ".join(_reasons(asked, judged, track))
    return clean(
        f"{asked.gate.name}: {judged.verdict if judged else 'no verdict'} — {reasons}", _look()
    ) + _details(("query", asked.gate.query), ("source", asked.address))


def _details(*pairs: tuple[str, str]) -> str:
    return "".join(f"\n  {name:8}{clean(words, _look())}" for name, words in pairs)


def _row(asked: Asked, judged: Judgement | None, track: Track) -> str:
    newest = track.readings[-1]
    verdict = judged.verdict if judged else "pending"
    words = f"{number_in_words(newest.value)}  {'; '.join(_reasons(asked, judged, track))}"
    return f"{stamp(newest.taken_at, None)} {verdict:12} {clean(words, _look())}"


def _look() -> Look:
    return Look(encoding=sys.stdout.encoding or "utf-8")


class _Quiet:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class _Screen:
    """A few lines that are drawn again for each reading."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.console = Console()
        self.live = Live(console=self.console, auto_refresh=False)

    def __enter__(self) -> None:
        self.live.start()

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def show(self, track: Track, judged: Judgement | None) -> None:
        gate, newest = self.asked.gate, track.readings[-1]
        look = Look(width=self.console.width, encoding=self.console.encoding)
        verdict = judged.verdict if judged else None
        values = [reading.value for reading in track.readings]
        head = line(
            Span(gate.name, "strong"),
            " ",
            Span(verdict or "pending", _MEANING.get(verdict, "quiet")),
            f" {trend(values, str(gate.bound), look)} {number_in_words(newest.value)}",
            f" ({gate.bound})",
        )
        told = [clean(reason, look) for reason in _reasons(self.asked, judged, track)]
        rows = [head]
        for words in told:
            rows += wrap(line(f"  {words}"), look.width, 4)
        self.live.update(to_rich(rows), refresh=True)
