"""What is a measured figure, and how is it kept?

A row says what was measured, its median, the spread over repetitions, what it is compared with,
and on which machine and when; whether the machine was busy with other things is part of the row.
"""

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

QUIET = 0.15
"""The share of all cores that others may use before a row for the machine to count as quiet."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. value: the median where there are several tries; low, high: the extremes.

    peer: the same figure of what it is compared with. at_most: what was promised; None: nothing.
    group: the name under which `python -m bench` measures it.
    """

    name: str
    value: float
    unit: str
    tries: int = 1
    low: float | None = None
    high: float | None = None
    peer: float | None = None
    peer_name: str = ""
    at_most: float | None = None
    note: str = ""
    quiet: bool = True
    date: str = ""
    machine: str = ""
    group: str = ""

    @property
    def kept(self) -> bool | None:
        """Whether the promise was kept; None: there was none."""
        return None if self.at_most is None else self.value <= self.at_most


def spread(name: str, values: Sequence[float], unit: str, **more: object) -> Row:
    """The median of several tries, with their extremes."""
    row = Row(name, median(values), unit, len(values), min(values), max(values))
    return replace(row, **more)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the machine


def machine() -> str:
    """Processor, cores, memory, system and Python: what the figures depend on."""
    model = platform.processor() or platform.machine()
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = os.cpu_count()
    system = f"{platform.system()} {platform.release()}"
    return f"{model}, {cores} cores, {memory:.0f} GB, {system}, Python {platform.python_version()}"


def busy(seconds: float = 1.0) -> float:
    """The share of all cores that is in use now, by whomever, over so many seconds."""
    used, total = _ticks()
    time.sleep(seconds)
    used_after, total_after = _ticks()
    return (used_after - used) / max(1, total_after - total)


def _ticks() -> tuple[int, int]:
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def stamped(row: Row, others: float) -> Row:
    """The row with the machine, the date, and whether `others` left the machine to us."""
    today = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return replace(row, machine=machine(), date=today, quiet=others <= QUIET)


# ---------------------------------------------------------------- keeping


def keep(path: Path, rows: Sequence[Row], group: str = "") -> list[Row]:
    """Write the rows beside those that are there already; one of the same name replaces its old.

    group: what was measured to get them: its rows of another name, from before a change of the
    bench, go.
    """
    named = [replace(row, group=group) for row in rows]
    names = {row.name for row in named}
    before = [row for row in read(path) if row.name in names or not group or row.group != group]
    kept = {row.name: row for row in (*before, *named)}  # a replaced one keeps its place
    listed = [asdict(row) for row in kept.values()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rows": listed}, indent=1, ensure_ascii=False) + "\n")
    path.with_name("RESULTS.md").write_text(table(list(kept.values())))
    return list(kept.values())


def read(path: Path) -> list[Row]:
    """The rows of a file; none where there is no file."""
    if not path.exists():
        return []
    return [Row(**row) for row in json.loads(path.read_text())["rows"]]


HEAD = """\
# Results

Written by `make bench`; each row can be measured again alone (`python -m bench --list`). The value
is the median of its tries; a row in *italics* was measured while the machine was busy with other
work as well.

"""


def table(rows: Sequence[Row]) -> str:
    """The rows for people, one table a machine."""
    parts = [HEAD]
    for name in dict.fromkeys(row.machine for row in rows):
        parts.append(
            f"**{name}**\n\n| what | value | min to max | tries | promised | peer | when |\n"
        )
        parts.append("|---|---|---|---|---|---|---|\n")
        parts += [_line(row) for row in rows if row.machine == name]
        parts.append("\n")
    return "".join(parts)


def _line(row: Row) -> str:
    name = row.name if row.quiet else f"*{row.name}*"
    note = f"<br>{row.note}" if row.note else ""
    ends = "" if row.low is None or row.high is None else f"{shown(row.low)} to {shown(row.high)}"
    promised = ""
    if row.at_most is not None:
        promised = f"≤ {shown(row.at_most)}: {'kept' if row.kept else '**not kept**'}"
    peer = "" if row.peer is None else f"{shown(row.peer)} ({row.peer_name})"
    value = f"{shown(row.value)} {row.unit}"
    cells = (f"{name}{note}", value, ends, str(row.tries), promised, peer, row.date)
    return f"| {' | '.join(cells)} |\n"


def shown(value: float) -> str:
    """Three significant digits, and no exponent."""
    if value and abs(value) < 100:
        return f"{value:.3g}"
    return f"{value:,.0f}"
