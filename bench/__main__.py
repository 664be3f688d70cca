"""Which figures are wanted? `python -m bench [NAME...] [--out FILE]`; without names, all.

Figures are kept after each name, so that an end in the middle loses little.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from bench import ansible, breach, engine, pause, planning
from bench.rows import Row, busy, keep, shown, stamped

Measure = Callable[[], Coroutine[Any, Any, list[Row]]]

WANTED: dict[str, Measure] = {
    "plan": planning.rows,
    "ansible": ansible.rows,
    "breach": breach.rows,
    "pause-100": lambda: pause.rows(100),
    "pause-1000": lambda: pause.rows(1000),
    "pause-stopped": pause.stopped,
    "killed": pause.killed,
    "list": engine.past,
    **{f"engine-{n}": lambda n=n: engine.measure(n) for n in engine.FLEETS},  # type: ignore[misc]
}
"""What can be measured, by name, in the order in which all of it is."""


def main() -> int:
    """Measure, keep, and show."""
    given = _arguments()
    if given.list:
        print("\n".join(WANTED))  # noqa: T201
        return 0
    broken = False
    for name in given.names or WANTED:
        others = busy()
        _say(f"{name} … ({others:.0%} of the machine is in use by others)")
        began = time.monotonic()
        rows = [stamped(row, others) for row in asyncio.run(WANTED[name]())]
        rows += engine.growth(keep(given.out, rows, name)) if name.startswith("engine-") else []
        keep(given.out, rows, name)
        for row in rows:
            broken |= row.kept is False
            _say(f"  {row.name}: {shown(row.value)} {row.unit}{_against(row)}")
        _say(f"  ({time.monotonic() - began:.0f} s)")
    return 1 if broken and given.strict else 0


def _against(row: Row) -> str:
    peer = "" if row.peer is None else f"; {row.peer_name}: {shown(row.peer)}"
    if row.at_most is None:
        return peer
    return f"{peer}; promised at most {shown(row.at_most)}: {'kept' if row.kept else 'NOT KEPT'}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(WANTED))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    parser.add_argument("--list", action="store_true", help="say what can be measured")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a promise is not kept")
    given = parser.parse_args()
    if strange := [name for name in given.names if name not in WANTED]:
        parser.error(f"there is no {', '.join(strange)}; there is: {', '.join(WANTED)}")
    return given


if __name__ == "__main__":
    sys.exit(main())
