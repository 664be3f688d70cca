"""How often did all that matters survive that something died? (tests/crash, by the hundred)"""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from crash.ordeal import NEEDS, SAID, Outcome, full_at_start, ordeal  # noqa: E402
from crash.parts import Rig, rig  # noqa: E402

from guardrail.errors import GuardrailError  # noqa: E402
from prove.rows import CRASH, Row  # noqa: E402

WANTED = {
    "worker": 100,
    "server": 20,
    "both": 10,
    "zombie": 10,
    "prometheus": 10,
    "store": 10,
    "clock": 10,
    "full": 10,
}
"""Blows of each kind."""
HOSTS, BLOWS, TAKES = 40, 4, 0.8
"""Hosts of one operation, blows that it takes, and seconds for which a host is away."""
SHAPES = {"store": (9, 1, 30.0)}
"""The same where it is another: hosts at work for longer than a blocked one is left alone."""
FULL = "plan store full or gone at the start, and room again"


def rows(kind: str, wanted: int, tries: int, say: Callable[[str], None]) -> Iterator[Row]:
    """At least that many blows of a kind, a row for each operation as soon as it has ended.

    Ends early when the parts themselves are lost; their folder is kept when anything was wrong.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"prove-{kind}-"))
    good = True
    with rig(folder / "rig", workers=NEEDS.get(kind, 1)) as parts:
        while good and tries > 0:
            outcome = _one(parts, kind, tries)
            good = not outcome.wrong
            tries -= outcome.blows
            say(_told(outcome) + ("" if good else f"; see {folder}"))
            yield row_of(outcome, wanted)
    if good:
        shutil.rmtree(folder, ignore_errors=True)


def _one(parts: Rig, kind: str, most: int) -> Outcome:
    """One operation to its end; one that came to none is an outcome, too."""
    seed = time.time_ns() % 1_000_000
    hosts, blows, takes = SHAPES.get(kind, (HOSTS, BLOWS, TAKES))
    try:
        if kind == "full":
            wrong = full_at_start(parts, folder_gone=bool(seed % 2))
            return Outcome(kind, f"full-{seed}", seed, 8, blows=1, other=wrong)
        return ordeal(parts, kind, seed, hosts=hosts, blows=min(blows, most), takes=takes)
    except (AssertionError, GuardrailError) as fault:
        said = f"{type(fault).__name__}: {fault}"
        return Outcome(kind, f"{kind}-{seed}", seed, hosts, blows=1, other=[said])


def row_of(outcome: Outcome, wanted: int) -> Row:
    """What one operation adds to the table."""
    survived = not outcome.wrong
    return Row(
        f"{CRASH}{outcome.kind}",
        tries=outcome.blows,
        passed=outcome.blows if survived else 0,
        wanted=wanted,
        figures={
            "operations": 1,
            "twice": len(outcome.twice),
            "limits": len(outcome.limits),
            "lost": len(outcome.lost),
            "held": len(outcome.held),
            "hosts": outcome.hosts,
            "at_work": sum(outcome.in_flight),
            "again": outcome.again,
            "refused": outcome.refused,
        },
        faults=tuple(f"{outcome.operation}: {fault}" for fault in outcome.wrong),
        seconds=outcome.seconds,
        note={**SAID, "full": FULL}[outcome.kind],
    )


def _told(outcome: Outcome) -> str:
    verdict = "survived" if not outcome.wrong else f"NOT SURVIVED: {'; '.join(outcome.wrong)}"
    struck = ", ".join(str(count) for count in outcome.in_flight)
    return f"{outcome.operation}: {outcome.blows} blows ({struck} at work), {verdict}"
