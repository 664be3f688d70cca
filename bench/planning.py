"""How long does it take to put policies together and to make, keep and read a plan?"""

import asyncio
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench.parts import Shape
from bench.rows import Row, spread
from bench.twins import change, hosts
from guardrail.decide.found import Found, Seen
from guardrail.decide.merge import resolve, terms_of
from guardrail.decide.plan import course_of, make_plan
from guardrail.edges.store import PlanFolder
from guardrail.files import load, shipped_policies
from guardrail.files.planfile import load_plan, store_plan
from guardrail.model.plan import Course, Plan

FLEETS = (1_000, 10_000, 100_000)
TRIES = 3

T = TypeVar("T")


async def rows() -> list[Row]:
    """Each fleet in turn; nothing here awaits anything."""
    return [row for count in FLEETS for row in await asyncio.to_thread(of_fleet, count)]


def of_fleet(count: int) -> list[Row]:
    """The rows of one fleet, with the shipped policies."""
    fleet, policies = hosts(count), load([shipped_policies()]).policies
    seen = {host.name: Seen("1", "1") for host in fleet}
    request = Shape(count).request("bench")
    found = Found(fleet, seen, change(), ("twin",), policies)
    merged = _timed(lambda: resolve(terms_of(policies, "twins", "twin", fleet)))[0]
    planned, plan = _timed(lambda: make_plan(request, found, now=0.0))
    name = f"{count:,} hosts"
    return [
        spread(f"merge of {len(policies)} policies, {name}", merged, "s"),
        spread(f"plan, {name}", planned, "s"),
        *_kept(name, plan),
    ]


def _kept(name: str, plan: Plan) -> list[Row]:
    """A plan in the plan store: written, read whole as the engine does, and its size."""
    stored: list[float] = []
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="guardrail-bench-") as folder:
            store = PlanFolder(folder)
            began = time.perf_counter()
            digest = store_plan(store, plan)
            stored.append(time.perf_counter() - began)
            loaded = _timed(lambda at=store, of=digest: _course(at, of))[0]  # type: ignore[misc]
            files = [path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    note = f"{len(files):,} files, {sum(files) / 1e6:.1f} MB; the process at most {memory:.0f} MB"
    return [
        spread(f"plan stored, {name}", stored, "s", note=note),
        spread(f"plan read and its course made, {name}", loaded, "s"),
    ]


def _course(store: PlanFolder, digest: str) -> Course:
    return course_of(load_plan(store, digest), digest)


def _timed(work: Callable[[], T]) -> tuple[list[float], T]:
    """Seconds of each try, and the last answer."""
    times = []
    for _ in range(TRIES):
        began = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - began)
    return times, answer
