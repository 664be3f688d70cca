"""How does a test see inside a real worker, and set its clock? (run as a script)

    python odd_worker.py WORKER_ARGUMENT...

The worker as `python -m guardrail_workflows.worker` runs it, with three additions. Every answer
that a host's runner gives is written down, one JSON line each, in the file CRASH_SEEN: only there
a refused token can be seen, since the worker that was refused has nobody left to tell. Each SIGUSR1
sets the clock an hour ahead for all that asks `time.time`, as a clock that jumps does. And work on
a host does not hear that it was cancelled, as that of a worker cut off from Temporal, but not from
the hosts, does not: then only the host itself can refuse it.
"""

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

JUMP = 3600.0

true_time = time.time
jumps: list[int] = []


def jumped_time() -> float:
    return true_time() + JUMP * len(jumps)


time.time = jumped_time  # before anything could have kept the true one

from guardrail.edges import exec as exec_driver  # noqa: E402
from guardrail_workflows import activities  # noqa: E402
from guardrail_workflows.worker import main  # noqa: E402

run_steps = exec_driver.run_steps  # type: ignore[attr-defined]


async def seen(open_shell: Any, host: Any, request: Any, permit: Any) -> Any:
    result = await run_steps(open_shell, host, request, permit)
    token = [request.token.turn, request.token.attempt]
    line = {"host": host.name, "token": token, "kind": result.kind, "reason": result.reason}
    note(json.dumps(line))
    return result


def note(line: str) -> None:
    with Path(os.environ["CRASH_SEEN"]).open("a") as file:
        file.write(f"{line}\n")


exec_driver.run_steps = seen  # type: ignore[attr-defined]

change_host = activities.change_host  # type: ignore[attr-defined]
deaf: set[asyncio.Task[Any]] = set()


async def stubborn(*given: Any, **named: Any) -> Any:
    task = asyncio.create_task(change_host(*given, **named))
    deaf.add(task)
    task.add_done_callback(deaf.discard)
    return await asyncio.shield(task)


activities.change_host = stubborn  # type: ignore[attr-defined]

if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, lambda number, _: jumps.append(number))
    main()
