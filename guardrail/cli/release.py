"""Which build of guardrail is installed here, and may it take over? (CONTRIBUTING.md, Releasing)

An operation ends on the build it began with: `decide` runs inside its workflow, and other code
may decide otherwise about what has happened already. So a build takes over only where no operation
of another one is open, or beside that one's own worker.
"""

import hashlib
import importlib.util
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

from guardrail.edges.deployment import current_build, open_operations
from guardrail.edges.temporal import Known, Operations
from guardrail.errors import Refused

PACKAGES = ("guardrail", "guardrail_workflows")
NOT_RUN = frozenset(("cli", "lab", "policies", "__pycache__"))
"""Folders of a package that no worker runs; policies are a worker's source, not its code."""


# ---------------------------------------------------------------- which build is this?


@cache
def build_id() -> str:
    """The version and a digest of all code that a worker runs: the same in every installation.

    Raises Refused where the worker is not installed.
    """
    digest = hashlib.sha256()
    for package in PACKAGES:
        root = _folder(package)
        for path in _code(root):
            name = f"{package}/{path.relative_to(root).as_posix()}"
            digest.update(f"{name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return f"{version('guardrail-orchestrator')}-{digest.hexdigest()[:12]}"


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Refused(f"the package {package} is not installed beside guardrail")
    return Path(next(iter(spec.submodule_search_locations)))


def _code(root: Path) -> Iterator[Path]:
    """The files of a package that a worker runs, in one order everywhere."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not NOT_RUN.intersection(path.relative_to(root).parts):
            yield path


# ---------------------------------------------------------------- may it take over?


async def take_over(operations: Operations, build: str, *, beside: bool) -> list[str]:
    """What a person is told of operations that stay behind with another build.

    Raises Refused when there are any and nobody said `beside`, or when one is bound to no build:
    it would be carried on by this one. Raises Unanswered.
    """
    others = [each for each in await open_operations(operations) if each.build != build]
    if any(not each.build for each in others) or (others and not beside):
        raise Refused(*refusal(others, build, operations.address))
    if not others:
        return []
    return [
        "These end on the build that they began with, and wait for a worker of it:",
        *[_line(each) for each in others],
        f"From that build's installation: {_old_worker(operations.address)}",
    ]


def refusal(others: Sequence[Known], build: str, address: str) -> list[str]:
    """Why a build may not take over, and the ways out."""
    lines = [f"this is build {build}, and operations are open that began on another:"]
    lines += [_line(each) for each in others]
    lines.append(
        "They end on the build that they began with. Start that one (guardrail up, from its "
        "installation) and finish or abort them: guardrail rollout abort NAME --reason WHY"
    )
    if all(each.build for each in others):
        lines.append(
            "Or run both: here guardrail up --beside takes new operations, and from the other "
            f"installation {_old_worker(address)} carries on the old ones"
        )
    return lines


def _line(known: Known) -> str:
    build = f"build {known.build}" if known.build else "no build: begun by a worker without one"
    return f"  {known.operation} ({build}): {known.sentence}"


def _old_worker(address: str) -> str:
    return f"TEMPORAL_ADDRESS={address} guardrail worker"


async def joins(operations: Operations, build: str, *, current: bool) -> tuple[bool, list[str]]:
    """Whether a worker that joins a cluster shall get new operations, and what to tell of it.

    It does when it is asked to, or when no build gets them yet. Raises Refused, Unanswered.
    """
    now = await current_build(operations)
    if current or not now:
        told = await take_over(operations, build, beside=True)
        return True, [f"new operations go to build {build}", *told]
    if now == build:
        return False, []
    return False, [
        f"new operations go to build {now}; this worker carries on those of build {build}",
        "To give new ones to this build: guardrail worker --current",
    ]
