"""`python -m guardrail.lab up|down|status`: the lab without the rest of the command line."""

import argparse
import json
import sys
from pathlib import Path

from guardrail.errors import GuardrailError
from guardrail.lab.health import LabStatus, status
from guardrail.lab.layout import Layout, default_state
from guardrail.lab.parameters import LOADS
from guardrail.lab.supervisor import down, up


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m guardrail.lab")
    parser.add_argument("command", choices=("up", "down", "status"))
    parser.add_argument("--dir", type=Path, default=default_state(), help="state folder")
    parser.add_argument("--block", type=int, default=20, help="addresses 127.0.BLOCK.x")
    parser.add_argument("--hosts", type=int, default=30, help="cache hosts, a fifth of them spares")
    parser.add_argument("--load", choices=tuple(LOADS), default="peak")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def show(lab: LabStatus) -> str:
    """The status as a table, then the event loops' lag and a count."""
    lines = [
        f"{'ok  ' if part.ok else 'DOWN'} {part.name:20} {part.address:20} "
        f"{part.pid or '-':>8}  {part.health}"
        for part in lab.parts
    ]
    lag = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in lab.lag.items())
    lines.append(f"event-loop lag: {lag or 'no process answers'}")
    bad = sum(not part.ok for part in lab.parts)
    lines.append(
        f"{len(lab.parts)} parts, {bad} down" if bad else f"{len(lab.parts)} parts, all up"
    )
    return "\n".join(lines)


def main() -> int:
    """0 done or healthy, 1 refused or a part is down, 2 usage, 3 could not be started."""
    arguments = _arguments()
    state = arguments.dir.absolute()
    try:
        if arguments.command == "up":
            up(Layout(state, arguments.block, arguments.hosts), arguments.load, _say)
            return 0
        if arguments.command == "down":
            down(state, _say)
            return 0
        lab = status(state)
    except GuardrailError as fault:
        _say(str(fault))
        return fault.exit_code
    except ValueError as fault:
        _say(str(fault))
        return 2
    except KeyboardInterrupt:
        return 130
    print(json.dumps(lab.as_json(), indent=1) if arguments.json else show(lab))
    return 0 if lab.ok else 1


if __name__ == "__main__":
    sys.exit(main())
