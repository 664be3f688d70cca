"""What has been tried how often, what came of it, and how is that kept?

A row adds up all tries of one name on one machine with one build: a campaign may be run in slices,
be ended in the middle and gone on with. Tries of another build or machine count anew.
"""

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from guardrail.cli.release import build_id

KEPT_FAULTS = 20
"""Faults that a row names; all are counted."""

CRASH = "crash: "
COLUMNS = {
    "operations": "operations",
    "twice": "hosts changed twice",
    "limits": "limits broken",
    "lost": "answers lost",
    "held": "begun under a pause",
    "hosts": "hosts",
    "at_work": "at work when struck",
    "again": "asked again after a loss",
    "refused": "tokens refused",
}
"""The figures of the crash table, by name, and what stands above them."""


@dataclass(frozen=True, slots=True)
class Row:
    """All tries of one name. figures are added up; faults are the first ones, in words."""

    name: str
    tries: int = 0
    passed: int = 0
    wanted: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    seconds: float = 0.0
    note: str = ""
    machine: str = ""
    build: str = ""
    first: str = ""
    last: str = ""

    @property
    def missing(self) -> int:
        """How many tries are still to be made."""
        return max(0, self.wanted - self.tries)

    @property
    def good(self) -> bool:
        """Whether all that was tried came out right."""
        return self.tries == self.passed and not self.faults


def added(one: Row, more: Row) -> Row:
    """Both together."""
    figures = {
        key: one.figures.get(key, 0) + more.figures.get(key, 0)
        for key in (*one.figures, *(key for key in more.figures if key not in one.figures))
    }
    return replace(
        more,
        tries=one.tries + more.tries,
        passed=one.passed + more.passed,
        figures=figures,
        faults=(*one.faults, *more.faults)[:KEPT_FAULTS],
        seconds=round(one.seconds + more.seconds, 1),
        first=one.first or more.first,
    )


# ---------------------------------------------------------------- where and when


def machine() -> str:
    """Processor, cores, memory, system and Python."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release()}"
    python = f"Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GB, {system}, {python}"


def stamped(row: Row) -> Row:
    """The row with machine, build and date."""
    today = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return replace(row, machine=machine(), build=build_id(), first=today, last=today)


# ---------------------------------------------------------------- keeping


def read(path: Path) -> dict[str, Row]:
    """The rows of a file by name; none where there is no file."""
    if not path.exists():
        return {}
    listed = [
        Row(**{**row, "faults": tuple(row["faults"])})
        for row in json.loads(path.read_text())["rows"]
    ]
    return {row.name: row for row in listed}


def so_far(path: Path, name: str, wanted: int) -> Row:
    """What this machine has tried with this build; a row without tries where that is nothing."""
    known = read(path).get(name)
    if known is None or (known.machine, known.build) != (machine(), build_id()):
        return Row(name, wanted=wanted)
    return replace(known, wanted=wanted)


def keep(path: Path, more: Row) -> Row:
    """Add tries to those that are kept, and write both files anew. The row as it is now."""
    rows = read(path)
    row = added(so_far(path, more.name, more.wanted), stamped(more))
    rows[more.name] = row
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.part")
    listed = [asdict(row) for row in rows.values()]
    fresh.write_text(json.dumps({"rows": listed}, indent=1, ensure_ascii=False) + "\n")
    fresh.replace(path)
    path.with_name("RESULTS.md").write_text(table(rows.values()))
    return row


# ---------------------------------------------------------------- for people

HEAD = """\
# Proofs

Written by `make prove`; each row can be gone on with alone (`python -m prove --list`). A try of the
crash table is one blow at a random moment while hosts are being changed; it is survived when its
operation completed with every host changed exactly once and within every limit, by the hosts' logs.

"""


def table(rows: Iterable[Row]) -> str:
    """The rows for people: the crash table, then the others, a pair for each machine and build."""
    rows = list(rows)
    parts = [HEAD]
    for machine_, build in dict.fromkeys((row.machine, row.build) for row in rows):
        mine = [row for row in rows if (row.machine, row.build) == (machine_, build)]
        parts.append(f"**{machine_}; build {build}**\n\n")
        parts += _crash_table([row for row in mine if row.name.startswith(CRASH)])
        parts += _others([row for row in mine if not row.name.startswith(CRASH)])
        parts += [f"- {row.name}: {fault}\n" for row in mine for fault in row.faults]
    return "".join(parts).rstrip() + "\n"


def _crash_table(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    heads = ["what", "tries", "survived", *COLUMNS.values(), "when"]
    lines = [f"| {' | '.join(heads)} |\n", "|---" * len(heads) + "|\n"]
    for row in rows:
        figures = [f"{row.figures.get(key, 0):g}" for key in COLUMNS]
        cells = [row.note, _of(row), str(row.passed), *figures, row.last]
        lines.append(f"| {' | '.join(cells)} |\n")
    return [*lines, "\n"]


def _others(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    lines = [
        "| what | tries | passed | figures | seconds | when |\n",
        "|---|---|---|---|---|---|\n",
    ]
    for row in rows:
        figures = ", ".join(f"{key} {value:,g}" for key, value in row.figures.items())
        cells = [row.note or row.name, _of(row), f"{row.passed:,}", figures]
        lines.append(f"| {' | '.join(cells)} | {row.seconds:,.0f} | {row.last} |\n")
    return [*lines, "\n"]


def _of(row: Row) -> str:
    return f"{row.tries:,}" + (f" of {row.wanted:,}" if row.missing else "")
