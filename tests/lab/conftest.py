"""One lab for the whole test session, on its own addresses and in its own folder."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from lab.engine_rig import Engine, engine_on
from lab.rig import Lab

from guardrail.lab.layout import Layout
from guardrail.lab.supervisor import down, up

# Not the block of a lab that a person has up, which a test must never meet.
SESSION_BLOCK = int(os.environ.get("GUARDRAIL_TEST_BLOCK", "40"))

_WATCHDOG = """
import sys
from pathlib import Path
from guardrail.lab.supervisor import down
sys.stdin.read()
down(Path(sys.argv[1]), lambda line: None)
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs no lab comes before there is one, and what is measured of a fresh lab is measured
    first, whatever other files are called."""
    items.sort(
        key=lambda item: (
            item.get_closest_marker("lab") is not None,
            item.path.name != "test_lab.py",
        )
    )


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab at peak load, stopped at the end whatever happens, even if this process is killed."""
    layout = Layout(tmp_path_factory.mktemp("lab") / "state", SESSION_BLOCK)
    with subprocess.Popen(
        [sys.executable, "-c", _WATCHDOG, str(layout.state)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    ) as watchdog:
        try:
            up(layout)
            yield Lab(layout)
        finally:
            down(layout.state)
            assert watchdog.stdin
            watchdog.stdin.close()


@pytest.fixture
def fresh_lab(lab: Lab) -> Iterator[Lab]:
    """The session's lab, put back into its first state after the test."""
    yield lab
    lab.restore()


@pytest.fixture(scope="session")
def engine(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A real `guardrail up` on the session's lab, with the source of tests/lab/source."""
    with engine_on(lab, tmp_path_factory.mktemp("engine")) as running:
        yield running
