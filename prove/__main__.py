"""What is to be proved? `python -m prove [NAME...] [--tries N]`; no names: all that is missing.

Tries are added to those that are kept for this machine and build, so a campaign can be run in
slices: `python -m prove crash --tries 20` makes 20 more of each kind of blow. Without --tries as
many are made as are still missing. Ends with 1 when anything that was tried went wrong.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from prove import crash, runs
from prove.rows import CRASH, Row, keep, so_far

CRASHES = {f"crash-{kind}": kind for kind in crash.WANTED}
GROUPS = {"crash": list(CRASHES), "lab": list(runs.LAB), "simulation": ["simulation"]}
NAMES = [name for names in GROUPS.values() for name in names]


def main() -> int:
    """Try, keep, and tell."""
    given = _arguments()
    if given.list:
        for name in NAMES:
            row = _so_far(given.out, name)
            print(f"{name}: {row.tries} of {row.wanted}, {row.passed} passed")  # noqa: T201
        return 0
    bad = False
    for name in [each for asked in given.names or GROUPS for each in GROUPS.get(asked, [asked])]:
        known = _so_far(given.out, name)
        tries = known.missing if given.tries is None else given.tries
        _say(f"{name}: {known.tries} of {known.wanted} so far, {tries} more")
        for row in _rows(name, known, tries):
            bad |= not row.good
            kept = keep(given.out, row)
            _say(f"  {name}: {kept.passed} of {kept.tries}; {kept.missing} missing")
    return 1 if bad else 0


def _so_far(out: Path, name: str) -> Row:
    if name in CRASHES:
        kind = CRASHES[name]
        return so_far(out, f"{CRASH}{kind}", crash.WANTED[kind])
    wanted = runs.SIMULATION if name == "simulation" else runs.LAB[name].wanted
    return so_far(out, name, wanted)


def _rows(name: str, known: Row, tries: int) -> Iterator[Row]:
    if tries <= 0:
        return iter(())
    if name in CRASHES:
        return crash.rows(CRASHES[name], known.wanted, tries, lambda line: _say(f"  {line}"))
    if name == "simulation":
        return runs.simulation_rows(known.tries, tries)
    return runs.scenario_rows(name, tries)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m prove", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*GROUPS, *NAMES]))
    parser.add_argument("--tries", type=int, help="so many more of each, whatever is missing")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    parser.add_argument("--list", action="store_true", help="say what there is, and what is tried")
    given = parser.parse_args()
    if strange := [name for name in given.names if name not in (*GROUPS, *NAMES)]:
        parser.error(f"there is no {', '.join(strange)}; there is: {', '.join([*GROUPS, *NAMES])}")
    return given


if __name__ == "__main__":
    sys.exit(main())
