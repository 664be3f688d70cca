"""Does each notation mean what it says, and only that?"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardrail.files.values import age, amount, seconds, share, stage
from guardrail.model.common import Amount
from guardrail.model.gate import Age


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("10m", 600),
        ("5s", 5),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("2d", 172_800),
        ("1m500ms", 60.5),
        ("0.5s", 0.5),
        ("0s", 0),
        (30, 30),
        (0, 0),
        (1.5, 1.5),
        ("1d2h3m4s5ms", 93_784.005),
    ],
)
def test_durations(written: object, meant: float) -> None:
    assert seconds(written) == pytest.approx(meant)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "5",
        "5 s",
        "s",
        "30m1h",
        "1m1m",
        "-5s",
        "5min",
        "1e3s",
        "٣s",
        "5s\n",
        True,
        None,
        [5],
        -1,
        4e7,
    ],
)
def test_what_is_no_duration(written: object) -> None:
    with pytest.raises(ValueError, match="a duration is"):
        seconds(written)


@given(
    days=st.integers(0, 300),
    hours=st.integers(0, 99),
    minutes=st.integers(0, 99),
    rest=st.integers(0, 999),
)
def test_a_duration_is_the_sum_of_its_parts(days: int, hours: int, minutes: int, rest: int) -> None:
    written = f"{days}d{hours}h{minutes}m{rest}s"
    assert seconds(written) == days * 86_400 + hours * 3_600 + minutes * 60 + rest


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (1, Amount(1)),
        (300, Amount(300)),
        ("25%", Amount(25, percent=True)),
        ("0.5%", Amount(0.5, percent=True)),
    ],
)
def test_amounts(written: object, meant: Amount) -> None:
    assert amount(written) == stage(written) == meant


@pytest.mark.parametrize(
    "written", [0, -1, 1.5, "1", "0%", "101%", "%", "25 %", "-5%", "٢٥%", True, None, "some"]
)
def test_what_is_no_amount(written: object) -> None:
    with pytest.raises(ValueError, match="a number of hosts from 1 on"):
        amount(written)


def test_all_is_a_stage_and_no_amount() -> None:
    assert stage("all") == Amount(100, percent=True)
    with pytest.raises(ValueError, match="`all`"):
        amount("all")


@pytest.mark.parametrize(("written", "meant"), [("0%", 0.0), ("98%", 98.0), ("100%", 100.0)])
def test_shares(written: str, meant: float) -> None:
    assert share(written) == Amount(meant, percent=True)


@pytest.mark.parametrize("written", ["101%", 1, 0.98, "x", True])
def test_what_is_no_share(written: object) -> None:
    with pytest.raises(ValueError, match="a share from 0% to 100%"):
        share(written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("3 scrapes", Age(scrapes=3)),
        ("1 scrape", Age(scrapes=1)),
        ("1.5 scrapes", Age(scrapes=1.5)),
        ("10s", Age(seconds=10)),
        (10, Age(seconds=10)),
        ("2m", Age(seconds=120)),
    ],
)
def test_ages(written: object, meant: Age) -> None:
    assert age(written) == meant


@pytest.mark.parametrize(
    "written",
    ["0 scrapes", "0.5 scrapes", "1.2.3 scrapes", ". scrapes", "3scrapes", "0s", 0, "x", True],
)
def test_what_is_no_age(written: object) -> None:
    with pytest.raises(ValueError, match=re.compile("an age is needed|at least 1 scrape|above 0")):
        age(written)
