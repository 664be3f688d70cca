"""Whatever dies while hosts are changed: each is changed once and within limits, all in the end.

A few of the ordeals that `make prove` runs by the hundred, on real parts and with hosts that are
processes of this machine. `in_flight` of an outcome says how many hosts each blow met.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
from crash.fleet import UNAVAILABLE, Away, begun_between, changed_twice, limits_broken
from crash.ordeal import full_at_start, ordeal
from crash.parts import Rig, rig
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from guardrail import twins
from guardrail.edges.exec import ExecDriver
from guardrail.errors import Unanswered
from guardrail.model.fleet import Host
from guardrail.model.messages import HostTask
from guardrail.ports import StepRequest, Token
from guardrail_workflows import activities

pytestmark = [pytest.mark.real, pytest.mark.second]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("crash") / "rig", workers=2) as made:
        yield made


@pytest.mark.parametrize(
    ("kind", "hosts", "blows"),
    [
        ("worker", 8, 2),
        ("server", 6, 1),
        ("both", 6, 1),
        ("prometheus", 6, 1),
        ("store", 6, 1),
        ("clock", 6, 1),
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
    """A zombie may find its host done already and ask nothing: then another one is made."""
    refused = 0
    for seed in (3, 4, 5, 6):
        outcome = ordeal(parts, "zombie", seed=seed, hosts=6, blows=1)
        sys.stdout.write(f"\nmeasured: {outcome}\n")
        assert outcome.wrong == []
        refused += outcome.refused
        if refused:
            return
    pytest.fail("no token was refused: it was no zombie that asked")


class NoStore:
    """A plan store that does not answer."""

    def put(self, data: bytes) -> str:
        raise Unanswered("the plan store", "nowhere", "it is away")

    def get(self, digest: str) -> bytes:
        raise Unanswered("the plan store", "nowhere", "it is away")


@pytest.mark.parametrize(("attempt", "outcome"), [(1, "blocked"), (2, "unknown")])
async def test_a_host_that_may_be_at_work_is_never_called_untouched(
    attempt: int, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called blocked it is asked anew, and changed twice (python -m prove crash-store shows it)."""
    monkeypatch.setattr(activities, "STORE_PATIENCE", 0.0)
    nobody = cast("Client", None)
    here = activities.Activities(nobody, tmp_path, NoStore(), twins.TwinJournal())
    environment = ActivityEnvironment()
    environment.info = replace(
        environment.info, attempt=attempt, start_to_close_timeout=timedelta(seconds=0)
    )
    task = HostTask("op", f"sha256:{attempt:064x}", 0, 7, "forward")
    said = await environment.run(here.change_host, task)
    assert (said.outcome, said.turn) == (outcome, 7)
    assert "the plan store at nowhere" in said.reason


def test_without_room_for_the_plan_nothing_is_begun_and_it_says_why(parts: Rig) -> None:
    assert full_at_start(parts) == []


async def test_a_host_without_room_never_says_that_begun_steps_were_not(tmp_path: Path) -> None:
    """The second attempt of a turn, on a host that can write nothing any more."""
    driver = ExecDriver(tmp_path / "state")
    host = Host("fleet", "h1", "127.0.0.1", "a", (), ())
    count = tmp_path / "count"
    step = ("sh", "-c", 'echo x >>"$1"', "sh", str(count))

    async def yes() -> bool:
        return True

    def asked(attempt: int) -> StepRequest:
        return StepRequest("op", "agent", "forward", Token(0, 1, attempt), (step,), 5.0)

    assert (await driver.apply(host, asked(1), yes)).kind == "done"
    mine = tmp_path / "state" / "h1" / "runs" / "op" / "h1"
    (mine / "token.lock").unlink()
    (mine / "token.lock").mkdir()  # what no user can write, the superuser neither
    assert (await driver.apply(host, asked(2), yes)).kind == "done"
    (mine / "forward-1" / "status").unlink()
    assert (await driver.apply(host, asked(2), yes)).kind == "running"
    (mine / "forward-1" / "begun").unlink()
    assert (await driver.apply(host, asked(2), yes)).kind == "blocked"
    assert count.read_text() == "x\n"


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
