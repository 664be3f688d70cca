"""What is proved by running other programs: lab scenarios again and again, and the simulation."""

import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from guardrail.cli import tied
from prove.rows import Row

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = "tests/lab/test_scenarios.py"
AT_ONCE = 10
"""Repetitions of a scenario in one session, on one lab."""
SEEDS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """A test that is repeated: `wanted` times in all."""

    test: str
    wanted: int
    what: str


LAB = {
    "lab-pause": Scenario(
        f"{SCENARIOS}::test_no_host_begins_once_pause_has_said_so",
        20,
        "lab: after `pause` has said so no host begins (5 pauses a try)",
    ),
    "lab-worker": Scenario(
        f"{SCENARIOS}::test_a_killed_worker_changes_no_host_twice",
        20,
        "lab: worker killed while a host's agent restarts",
    ),
    "lab-server": Scenario(
        f"{SCENARIOS}::test_operations_outlive_a_killed_temporal_server",
        10,
        "lab: Temporal server killed while a host's agent restarts",
    ),
    "lab-evidence": Scenario(
        f"{SCENARIOS}::test_missing_evidence_holds_until_it_was_good_for_a_while",
        10,
        "lab: Prometheus killed, held, and on once evidence is good",
    ),
    "lab-gate": Scenario(
        f"{SCENARIOS}::test_two_dead_caches_hold_it_and_a_resume_bakes_first",
        10,
        "lab: a gate fails, held, resume bakes first",
    ),
}
SIMULATION = 200_000
"""Seeds of the simulation."""


def scenario_rows(name: str, tries: int) -> Iterator[Row]:
    """A scenario that many times, a row for each session."""
    while tries > 0:
        times = min(tries, AT_ONCE)
        yield _session(name, LAB[name], times)
        tries -= times


def _session(name: str, scenario: Scenario, times: int) -> Row:
    with tempfile.TemporaryDirectory(prefix="prove-") as folder:
        report, began = Path(folder) / "report.xml", time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "prove.repeat", scenario.test]
        environment = {**os.environ, "PROVE_TIMES": str(times)}
        _run([*command, f"--junitxml={report}"], environment)
        took = round(time.monotonic() - began, 1)
        faults = _faults(report, times)
    return Row(
        name,
        tries=times,
        passed=max(0, times - len(faults)),
        wanted=scenario.wanted,
        faults=tuple(faults),
        seconds=took,
        note=scenario.what,
    )


def _run(command: list[str], environment: dict[str, str]) -> None:
    """Run it to its end, which comes with ours; what came of it is in its report."""
    tie = [sys.executable, "-I", "-S", str(Path(tied.__file__)), str(os.getpid())]
    subprocess.run([*tie, *command], cwd=ROOT, env=environment, check=False)


def _faults(report: Path, times: int) -> list[str]:
    """What did not pass, in words; a session without a report is one fault."""
    if not report.exists():
        return ["pytest ended without a report"]
    found, ran = [], 0
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - pytest has just written it
        ran += 1
        for kind in ("failure", "error", "skipped"):
            if (why := case.find(kind)) is not None:
                found.append(f"{case.get('name')}: {(why.get('message') or kind)[:300]}")
                break
    missing = times - ran  # a test that is not there does not pass
    return [*found, *["it did not run"] * missing]


# ---------------------------------------------------------------- the simulation


def simulation_rows(first: int, seeds: int) -> Iterator[Row]:
    """That many seeds from `first` on, a row for each slice; with the last one planted faults."""
    while seeds > 0:
        count = min(seeds, SEEDS_AT_ONCE)
        yield _simulated(first, count, plant=count == seeds)
        first, seeds = first + count, seeds - count


def _simulated(first: int, count: int, *, plant: bool) -> Row:
    with tempfile.TemporaryDirectory(prefix="prove-") as folder:
        out = Path(folder) / "report.json"
        words = ["--seeds", str(count), "--from", str(first), "--json", str(out)]
        words += [] if plant else ["--no-faults"]
        command = [sys.executable, "-m", "guardrail.simulation.campaign", *words]
        _run(command, dict(os.environ))
        report = json.loads(out.read_text()) if out.exists() else None
    name, what = "simulation", "simulated operations in which every rule of design.md §4 held"
    if report is None:
        return Row(name, tries=count, wanted=SIMULATION, faults=("no report",), note=what)
    broken = [f"seed {each['seed']}: {each['rule']}, {each['what']}" for each in report["broken"]]
    missed = [
        f"not found within its seeds: {each['fault']} ({each['rule']})"
        for each in report["faults"]
        if each["seedsNeeded"] is None
    ]
    # A planted fault that is not found is no seed that failed, and a row with it is not good.
    return Row(
        name,
        tries=report["seeds"],
        passed=report["seeds"] - len(broken),
        wanted=SIMULATION,
        figures={
            "events": report["events"],
            "faults planted": report["faultsPlanted"],
            "found": report["faultsFound"],
        },
        faults=(*broken, *missed),
        seconds=report["tookSeconds"],
        note=what,
    )
