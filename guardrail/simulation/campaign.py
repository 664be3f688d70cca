"""Do the rules hold over very many seeds, and is each planted fault found?

    python -m guardrail.simulation.campaign --seeds 200000 --json OUT

Seeds are spread over every core; what is stated is what was run.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from guardrail.simulation.faults import FAULTS, Fault, planted
from guardrail.simulation.from_seed import story
from guardrail.simulation.rule import Broken
from guardrail.simulation.story import Story, in_words, shrink
from guardrail.simulation.world import World

CHUNK = 500
MOST_SEEDS = 20_000
"""Seeds within which a planted fault has to be found."""
LINES = 60


@dataclass(frozen=True, slots=True)
class Found:
    """A seed whose story breaks a rule, and how. rule: `error` where the engine fell over."""

    seed: int
    rule: str
    what: str


@dataclass(frozen=True, slots=True)
class Tally:
    """What some seeds came to. phases: how the operations ended, by phase."""

    seeds: int
    operations: int
    events: int
    phases: tuple[tuple[str, int], ...]
    found: tuple[Found, ...] = ()


def broken(told: Story, only: tuple[str, ...] | None = None) -> Found | None:
    """How this story breaks a rule; None when it does not."""
    return _run(World(told, only=only))


def _run(world: World) -> Found | None:
    try:
        world.run()
    except Broken as found:
        return Found(world.story.seed, found.rule, f"at {found.at:g} s: {found.what}")
    except Exception as error:  # the engine fell over: that breaks every rule
        return Found(world.story.seed, "error", f"{type(error).__name__}: {error}")
    return None


def run_seeds(first: int, count: int) -> Tally:
    """Tell the stories of `count` seeds from `first` on, one after another."""
    phases: Counter[str] = Counter()
    found: list[Found] = []
    events = 0
    for seed in range(first, first + count):
        world = World(story(seed))
        bad = _run(world)
        found += [bad] if bad else []
        events += world.events
        phases.update(running.state.phase for running in world.running)
    return Tally(count, phases.total(), events, tuple(sorted(phases.items())), tuple(found))


def added(one: Tally, other: Tally) -> Tally:
    """Both together."""
    phases = Counter(dict(one.phases)) + Counter(dict(other.phases))
    return Tally(
        one.seeds + other.seeds,
        one.operations + other.operations,
        one.events + other.events,
        tuple(sorted(phases.items())),
        one.found + other.found,
    )


NOTHING = Tally(0, 0, 0, ())


def readable(found: Found) -> tuple[str, ...]:
    """The story behind it, shrunk while the same rule still breaks, in words."""
    small = shrink(story(found.seed), partial(_breaks, found.rule))
    world = World(small, lines=[])
    last = _run(world) or found
    told = (world.lines or [])[-LINES:]
    return (
        *in_words(small),
        "what happened:",
        *told,
        f"broken: {last.rule} {last.what}",
        f"again: guardrail simulate --from {found.seed} --seeds 1",
    )


def _breaks(rule: str, told: Story) -> bool:
    found = broken(told)
    return found is not None and found.rule == rule


# ---------------------------------------------------------------- planted faults


def seeds_needed(fault: Fault, most: int = MOST_SEEDS) -> int | None:
    """Seeds (from 0) until the fault's own rule breaks, looking at nothing else; None: never."""
    with planted(fault):
        for seed in range(most):
            if broken(story(seed), (fault.rule,)) is not None:
                return seed + 1
    return None


# ---------------------------------------------------------------- on every core


def tallies(first: int, count: int, cores: int) -> Iterator[Tally]:
    """One tally a chunk, as they come."""
    starts = range(first, first + count, CHUNK)
    chunks = [(start, min(CHUNK, first + count - start)) for start in starts]
    if cores == 1:
        yield from (run_seeds(*chunk) for chunk in chunks)
        return
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        yield from pool.imap_unordered(_chunk, chunks)


def _chunk(chunk: tuple[int, int]) -> Tally:
    return run_seeds(*chunk)


def _needed(number: int) -> int | None:
    return seeds_needed(FAULTS[number])


def faults_found(cores: int) -> list[tuple[Fault, int | None]]:
    """How many seeds each planted fault needed."""
    if cores == 1:
        return [(fault, seeds_needed(fault)) for fault in FAULTS]
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        return list(zip(FAULTS, pool.map(_needed, range(len(FAULTS)), chunksize=1), strict=True))


def campaign(
    seeds: int, first: int, cores: int, say: Callable[[str], None], *, plant: bool = True
) -> dict[str, Any]:
    """Run it all; the report as it is written. plant: faults are planted, too."""
    began, total = time.monotonic(), NOTHING
    for tally in tallies(first, seeds, cores):
        total = added(total, tally)
        named = "".join(f"; seed {found.seed}: {found.rule}" for found in total.found[:5])
        say(f"{total.seeds} of {seeds} seeds, {len(total.found)} broken{named}")
    took = time.monotonic() - began
    say(f"{len(FAULTS) if plant else 'no'} planted faults")
    needed = faults_found(cores) if plant else []
    return {
        "from": first,
        "seeds": total.seeds,
        "operations": total.operations,
        "events": total.events,
        "phases": dict(total.phases),
        "cores": cores,
        "tookSeconds": round(took, 1),
        "seedsPerSecond": round(total.seeds / max(took, 1e-9), 1),
        "broken": [{"seed": f.seed, "rule": f.rule, "what": f.what} for f in total.found],
        "faults": [
            {"rule": fault.rule, "fault": fault.what, "seedsNeeded": count}
            for fault, count in needed
        ],
        "faultsFound": sum(count is not None for _, count in needed),
        "faultsPlanted": len(needed),
    }


def main() -> int:
    """The command; 1 when a rule is broken or a fault is not found."""
    parser = argparse.ArgumentParser(prog="python -m guardrail.simulation.campaign")
    parser.add_argument("--seeds", type=int, default=200_000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--cores", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--no-faults", action="store_false", dest="plant")
    asked = parser.parse_args()
    report = campaign(asked.seeds, asked.first, asked.cores, _progress, plant=asked.plant)
    asked.json.write_text(json.dumps(report, indent=1) + "\n")
    for seed in [each["seed"] for each in report["broken"]][:3]:
        found = broken(story(seed))
        sys.stdout.write("\n".join(readable(found) if found else ()) + "\n")
    good = not report["broken"] and report["faultsFound"] == report["faultsPlanted"]
    return 0 if good else 1


def _progress(text: str) -> None:
    sys.stderr.write(f"\r{text}   ")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
