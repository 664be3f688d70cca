"""Does what ships hold together: the lock, the wheel, names, make's targets, CI's own check?"""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from temporalio import activity, workflow

from guardrail.model import board, lease, messages, notice
from guardrail_workflows.activities import Activities
from guardrail_workflows.identity import Identity
from guardrail_workflows.leases import LeasesWorkflow, UpgradedLeasesWorkflow
from guardrail_workflows.notices import NoticesWorkflow, UpgradedNoticesWorkflow
from guardrail_workflows.notifying import Notifying, notices_due
from guardrail_workflows.rollout import RolloutWorkflow
from guardrail_workflows.shadow import ShadowWorkflow

TOP = Path(__file__).resolve().parent.parent
PACKAGES = {
    "guardrail/": "guardrail/",
    "workflows/guardrail_workflows/": "guardrail_workflows/",
    "policies/": "guardrail/policies/",
}
DISTRIBUTION = "guardrail-orchestrator"
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())


def tracked() -> list[str]:
    """What git knows and the folder still holds."""
    said = subprocess.run(
        ["git", "ls-files", "-z"], cwd=TOP, check=True, capture_output=True, text=True
    ).stdout
    return [name for name in said.split("\0") if (TOP / name).is_file()]


# ---------------------------------------------------------------- what has no place in the tree

# Written so that these lines do not match themselves.
ELSEWHERE = re.compile(
    r"https?://[A-Za-z0-9.-]*(?:debian|pyp[i]|pythonhost|npm)[A-Za-z0-9.-]*"
    r"|\b(?:[a-z0-9-]+\.)+(?:debian|pyp[i]|pythonhosted|npmjs)\.(?:org|com)\b"
    r"|(?:^|[^A-Za-z0-9_.])/(?:work|farm)/",
    re.MULTILINE,
)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("deb http://ftp.deb" + "ian.org/x bookworm main", True),
        ("curl files.python" + "hosted.org", True),
        ("cd /wo" + "rk/main", True),
        ("http://one.invalid/debian", False),
        ("a network/work/day", False),
        ("the PyPI package", False),
    ],
)
def test_the_pattern_finds_what_it_is_for(text: str, wrong: bool) -> None:
    assert bool(ELSEWHERE.search(text)) == wrong


def test_no_file_names_a_package_host_or_a_path_of_this_machine() -> None:
    found = [
        f"{name}: {hit[0].strip()}"
        for name in tracked()
        for hit in ELSEWHERE.finditer((TOP / name).read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []


# ---------------------------------------------------------------- the lock


@dataclass(frozen=True, slots=True)
class Pin:
    """One requirement of a lock."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        (specifier,) = self.requirement.specifier
        assert specifier.operator == "==", f"{self.requirement} is no pin"
        return specifier.version


def pins(lock: Path) -> Iterator[Pin]:
    """Every requirement; an option, an address or anything else that is not one fails."""
    for line in lock.read_text().replace("\\\n", " ").splitlines():
        text, *hashes = re.split(r"\s+--hash=", line.strip())
        if text and not text.startswith("#"):
            yield Pin(Requirement(text), tuple(value.strip() for value in hashes))


LOCKS = [TOP / "requirements.lock", TOP / "scripts" / "requirements-lock.txt"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_line_of_a_lock_is_a_pin_with_hashes(lock: Path) -> None:
    found = list(pins(lock))
    assert found
    for pin in found:
        assert pin.version, pin
        assert pin.requirement.url is None, pin
        assert pin.hashes, f"{pin.name} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in pin.hashes), pin.name


def direct() -> list[Requirement]:
    project = PROJECT["project"]
    texts = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    texts += [text for extra in project["optional-dependencies"].values() for text in extra]
    return [Requirement(text) for text in texts]


def test_the_lock_pins_every_direct_dependency_within_its_range() -> None:
    locked = {pin.name: pin.version for pin in pins(LOCKS[0])}
    for wanted in direct():
        version = locked.get(canonicalize_name(wanted.name))
        assert version is not None, f"{wanted.name} is not in the lock: make lock"
        assert wanted.specifier.contains(version), f"{wanted} does not admit the locked {version}"


def test_the_version_is_the_changelogs_newest() -> None:
    newest = re.search(r"^## \[?(\d+\.\d+\.\d+)\b", (TOP / "CHANGELOG.md").read_text(), re.M)
    assert newest
    assert newest[1] == PROJECT["project"]["version"]


# ---------------------------------------------------------------- the wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by hatchling from this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=TOP,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def shipped(name: str) -> str | None:
    """Where a file of the checkout lies in the wheel; None when it does not."""
    for source, target in PACKAGES.items():
        if name.startswith(source):
            return target + name.removeprefix(source)
    return None


def test_the_wheel_holds_the_packages_and_the_policies_whole(wheel: Path) -> None:
    expected = {there for name in tracked() if (there := shipped(name))}
    for needed in (
        "guardrail/py.typed",
        "guardrail/edges/runner.sh",
        "guardrail/lab/lab-host.sh",
        "guardrail/policies/cache-critical.yaml",
        "guardrail/policies/schema/policy.json",
        "guardrail_workflows/py.typed",
        "guardrail_workflows/rollout.py",
    ):
        assert needed in expected, f"{needed} is not under version control"
    with zipfile.ZipFile(wheel) as archive:
        assert expected - set(archive.namelist()) == set()


def test_the_wheel_brings_two_names_that_no_other_distribution_has(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    names = {top for top in tops if not top.endswith(".dist-info")}
    assert names == {"guardrail", "guardrail_workflows"}
    owners = packages_distributions()
    assert {owner for name in names for owner in owners.get(name, ())} <= {DISTRIBUTION}


_LOOK = """
import json, guardrail, guardrail_workflows
from guardrail.edges import runner
from guardrail.files import load, shipped_policies
documents = load([shipped_policies()])
print(json.dumps({
    "at": [guardrail.__file__, guardrail_workflows.__file__, str(shipped_policies())],
    "policies": len(documents.policies), "changes": len(documents.changes),
    "gates": len(documents.gates),
}))
"""


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; dependencies are this environment's, by a path file."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--quiet", "--disable-pip-version-check", wheel], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_an_installed_wheel_finds_its_policies(installed: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.run(
        [installed / "bin" / "python", "-c", _LOOK],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = json.loads(said)
    assert all(Path(place).is_relative_to(installed) for place in found["at"]), found["at"]
    assert found["policies"] >= 2
    assert found["changes"] >= 3
    assert found["gates"] >= 4


def test_an_installed_wheel_has_the_command(installed: Path, tmp_path: Path) -> None:
    said = subprocess.run(
        [installed / "bin" / "guardrail", "--version"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert PROJECT["project"]["version"] in said


# ---------------------------------------------------------------- names on both sides


def constants() -> dict[str, str]:
    """The names by which the library addresses workflows."""
    elsewhere = {"TASK_QUEUE", "DEPLOYMENT", "MEMO_SUMMARY", "MEMO_AS_OF"}
    return {
        name: value
        for name, value in vars(messages).items()
        if name.isupper() and isinstance(value, str) and name not in elsewhere
    }


def registered() -> dict[str, set[str | None]]:
    """The names under which they answer, as Temporal has them."""
    definition: Any = workflow._Definition.must_from_class(RolloutWorkflow)
    activities = [
        found.name
        for kind in (Activities, Identity)
        for _, method in inspect.getmembers(kind, inspect.isfunction)
        if (found := activity._Definition.from_callable(method))
    ]
    return {
        "workflows": {
            workflow._Definition.must_from_class(kind).name
            for kind in (RolloutWorkflow, ShadowWorkflow)
        },
        "updates": set(definition.updates),
        "signals": set(definition.signals),
        "queries": set(definition.queries),
        "activities": set(activities),
    }


def test_the_names_the_library_uses_are_the_registered_ones() -> None:
    found = registered()
    activities = found.pop("activities")
    assert found == {
        "workflows": {messages.ROLLOUT, messages.SHADOW},
        "updates": {messages.UPDATE},
        "signals": {
            messages.JUDGED,
            messages.LEASED,
            messages.FLEET_SEEN,
            messages.FREEZES_SEEN,
            messages.WARMING,
        },
        "queries": {messages.STATUS, messages.EXPLAIN, messages.MAY_BEGIN, messages.WAY_BACK},
    }
    assert activities == set(constants().values()).difference(*found.values())
    assert messages.CHANGE_HOST in activities


@pytest.mark.parametrize("kind", [NoticesWorkflow, UpgradedNoticesWorkflow])
def test_the_notices_answer_to_the_names_the_library_uses(kind: type) -> None:
    definition: Any = workflow._Definition.must_from_class(kind)
    assert definition.name == board.NOTICES
    assert set(definition.signals) == {board.HEAR}
    assert set(definition.queries) == {board.BOARD}
    methods = [method for _, method in inspect.getmembers(Notifying, inspect.isfunction)]
    named = [activity._Definition.from_callable(each) for each in (*methods, notices_due)]
    names = {found.name for found in named if found is not None}
    assert names == {board.TELL, board.DUE, board.DELIVER, notice.SEND, notice.ROUTES}


@pytest.mark.parametrize("kind", [LeasesWorkflow, UpgradedLeasesWorkflow])
def test_the_table_of_leases_answers_to_the_names_the_library_uses(kind: type) -> None:
    definition: Any = workflow._Definition.must_from_class(kind)
    assert definition.name == lease.LEASES
    assert set(definition.updates) == {lease.ASK_LEASE, lease.GIVE_BACK, lease.BREAK_LEASE}
    assert set(definition.queries) == {lease.TABLE, lease.LOOK_LEASE}


# ---------------------------------------------------------------- make, set-up and CI

PAGES = [name for name in tracked() if name.endswith(".md")]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (TOP / "Makefile").read_text(), re.M))


def test_every_make_target_that_a_page_or_the_help_names_is_there() -> None:
    helped = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=TOP,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    named = set(re.findall(r"\bmake ([a-z]+) ", helped))
    for page in PAGES:
        named |= set(re.findall(r"(?:^\s*\$?\s*|`)make ([a-z]+)", (TOP / page).read_text(), re.M))
    assert {"demo", "test", "lint", "lock", "clean"} <= named
    assert named - targets() == set()


@pytest.mark.parametrize("script", ["scripts/setup", ".ci/run"])
def test_a_script_is_whole(script: str) -> None:
    shell = "bash" if script == ".ci/run" else "sh"
    subprocess.run([shell, "-n", TOP / script], check=True)


def test_what_fetches_pip_needs_no_package_itself() -> None:
    fetch = [sys.executable, "-S", "-c", "import guardrail.lab.apt"]
    subprocess.run(fetch, cwd=TOP, check=True)


def test_what_the_callers_shell_says_about_python_does_not_reach_ours(tmp_path: Path) -> None:
    """Without asserts, for one, no test can fail."""
    text = (TOP / "Makefile").read_text() + "\nshown:\n\t@env\n"
    (tmp_path / "Makefile").write_text(text)
    strange = {"PYTHONOPTIMIZE": "2", "PYTHONPATH": "/else", "VIRTUAL_ENV": "/else"}
    said = subprocess.run(
        ["make", "--no-print-directory", "shown"],
        cwd=tmp_path,
        env={**os.environ, **strange},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "PATH=" in said
    assert [line for line in said.splitlines() if line.partition("=")[0] in strange] == []


def run_ci(folder: Path, test_recipe: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of .ci/run in a checkout whose tests are this recipe."""
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(TOP / ".ci" / "run", folder / ".ci" / "run")
    (folder / "Makefile").write_text(f'lint:\n\t@test -z "$$(cat)"\ntest:\n\t@{test_recipe}\n')
    made = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")  # we may be run by make ourselves; this one is not
    return subprocess.run(
        ["bash", folder / ".ci" / "run"],
        env={key: value for key, value in os.environ.items() if key not in made},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_ci_passes_what_passes(tmp_path: Path) -> None:
    done = run_ci(tmp_path / "a checkout", "echo 3 passed")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "3 passed"


def test_ci_fails_what_fails(tmp_path: Path) -> None:
    assert run_ci(tmp_path / "a checkout", "echo 1 failed; exit 1").returncode != 0


def test_ci_names_and_ends_what_a_test_left_running(tmp_path: Path) -> None:
    kept = tmp_path / "pid"
    recipe = f"setsid sh -c 'echo $$$$ >\"{kept}\"; exec sleep 60' >/dev/null 2>&1 & "
    recipe += f'until test -s "{kept}"; do :; done; echo 3 passed'
    done = run_ci(tmp_path / "a checkout", recipe)
    pid = kept.read_text().strip()
    assert done.returncode == 1, done.stdout
    assert f"left running: {pid} sleep 60" in done.stderr
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().rpartition(") ")[2].startswith("Z")
