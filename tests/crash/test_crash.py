"""Whatever dies while hosts are changed: each is changed once and within limits, all in the end.

A few of the ordeals that `make prove` runs by the hundred, on real parts and with hosts that are
processes of this machine. `in_flight` of an outcome says how many hosts each blow met.
"""

import sys
from collections.abc import Iterator

import pytest
from crash.fleet import UNAVAILABLE, Away, begun_between, changed_twice, limits_broken
from crash.ordeal import full_at_start, ordeal
from crash.parts import Rig, rig

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("crash") / "rig", workers=2) as made:
        yield made


@pytest.mark.parametrize(
    ("kind", "hosts", "blows"),
    [
        ("worker", 12, 2),
        ("server", 8, 1),
        ("both", 8, 1),
        ("prometheus", 8, 1),
        ("clock", 8, 2),
    ],
)
def test_every_host_is_changed_once_and_within_limits(
    parts: Rig, kind: str, hosts: int, blows: int
) -> None:
    outcome = ordeal(parts, kind, seed=hosts, hosts=hosts, blows=blows)
    sys.stdout.write(f"\nmeasured: {outcome}\n")
    assert outcome.wrong == []
    assert outcome.blows == blows
    assert outcome.commands >= 2


def test_a_worker_that_comes_back_is_refused_by_the_hosts(parts: Rig) -> None:
    outcome = ordeal(parts, "zombie", seed=3, hosts=8, blows=1)
    sys.stdout.write(f"\nmeasured: {outcome}\n")
    assert outcome.wrong == []
    assert outcome.refused >= 1, "no token was refused: it was no zombie that asked"


def test_a_lost_plan_store_never_makes_a_host_that_is_at_work_look_untouched(parts: Rig) -> None:
    """The hosts are at work for longer than a blocked one is left alone: asked anew, it shows."""
    outcome = ordeal(parts, "store", seed=5, hosts=6, blows=1, takes=15.0)
    sys.stdout.write(f"\nmeasured: {outcome}\n")
    assert outcome.wrong == []
    assert outcome.again >= 1, "no second attempt: the blow met nobody at work"


@pytest.mark.parametrize("gone", [False, True], ids=["full", "gone"])
def test_without_room_for_the_plan_nothing_is_begun_and_it_says_why(parts: Rig, gone: bool) -> None:
    assert full_at_start(parts, folder_gone=gone) == []


# ---------------------------------------------------------------- the judge itself can say no


def away(host: str, begin: float, end: float, domain: str = "a") -> Away:
    return Away(host, domain, begin, end, "2.0.0", "op")


def test_the_judge_sees_a_host_that_was_changed_twice() -> None:
    assert changed_twice([away("x", 1, 2), away("y", 1, 2), away("x", 3, 4)]) == ["x"]
    assert changed_twice([away("x", 1, 2), away("y", 1, 2)]) == []


def test_the_judge_sees_each_limit_broken_and_none_that_is_met() -> None:
    most = UNAVAILABLE
    many = [away(str(n), n, 100, str(n)) for n in range(most + 1)]
    assert limits_broken(many[:-1]) == []
    assert limits_broken(many) == [f"{most}.00: {most + 1} away, {most} allowed"]
    assert limits_broken([away("x", 1, 3), away("y", 1, 3), away("z", 3, 4)]) == []
    (said,) = limits_broken([away("x", 1, 3), away("y", 1, 3), away("z", 2, 4)])
    assert said.startswith("2.00, domain a: 3 away")
    unended = float("inf")
    assert limits_broken([away("x", 1, unended), away("y", 1, unended), away("z", 99, 100)])


def test_the_judge_sees_a_begin_under_a_pause() -> None:
    begins = [away("x", 1, 2), away("y", 5, 6), away("z", 9, 10)]
    assert begun_between(begins, 2, 8) == ["y"]
