"""How is one test run many times in one session? (a pytest plugin: -p prove.repeat)

Every test that is selected runs PROVE_TIMES times, on the same lab.
"""

import os

import pytest

NUMBER = "prove_number"


@pytest.fixture
def prove_number(request: pytest.FixtureRequest) -> int:
    """Which of the repetitions it is, from 0."""
    return int(request.param)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One more parameter for every test."""
    metafunc.fixturenames.append(NUMBER)
    times = int(os.environ["PROVE_TIMES"])
    metafunc.parametrize(NUMBER, range(times), indirect=True)
