"""Does the harness of `make bench` measure, keep and judge what it says? (Not: is it fast.)"""

import asyncio
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # bench is no part of the installed program

from bench import __main__ as command  # noqa: E402
from bench import engine, pause, planning  # noqa: E402
from bench.parts import Shape, running, shape_of  # noqa: E402
from bench.rows import Row, keep, read, shown, spread, stamped  # noqa: E402


def test_a_row_has_the_median_and_the_extremes():
    row = spread("x", [3.0, 1.0, 2.0], "s", at_most=2.0)
    assert (row.value, row.low, row.high, row.tries, row.kept) == (2.0, 1.0, 3.0, 3, True)
    assert spread("x", [3.0], "s", at_most=2.0).kept is False
    assert Row("x", 3.0, "s").kept is None


def test_rows_are_kept_by_name_and_told_as_a_table(tmp_path):
    path = tmp_path / "results.json"
    keep(path, [stamped(Row("a", 1.0, "s"), 0.0), stamped(Row("b", 2.0, "s", at_most=1.0), 0.9)])
    keep(path, [stamped(Row("a", 3.0, "s", peer=9.0, peer_name="other"), 0.0)])
    assert [(row.name, row.value, row.quiet) for row in read(path)] == [
        ("a", 3.0, True),
        ("b", 2.0, False),
    ]
    assert {"name", "value", "unit", "peer"} <= set(json.loads(path.read_text())["rows"][0])
    table = (tmp_path / "RESULTS.md").read_text()
    assert "| a | 3 s |" in table
    assert "9 (other)" in table
    assert "| *b* | 2 s |" in table
    assert "**not kept**" in table


@pytest.mark.parametrize(("value", "text"), [(0.01234, "0.0123"), (123.4, "123"), (0.0, "0")])
def test_numbers_are_short(value, text):
    assert shown(value) == text


def test_growth_is_told_only_where_both_fleets_met_a_quiet_machine():
    times = [Row("engine, 10,000 hosts: time", 30.0, "s")]
    assert engine.growth(times) == []
    large = Row("engine, 100,000 hosts: time", 360.0, "s")
    (row,) = engine.growth([*times, large])
    assert (row.value, row.kept) == (12.0, False)
    assert engine.growth([*times, stamped(large, 0.9)]) == []


def test_a_shape_travels_in_the_request():
    shape = Shape(10, stages=("50%", "100%"), takes=0.5)
    assert shape_of(shape.request("op").rollout) == shape


def test_plans_are_measured():
    rows = planning.of_fleet(300)
    assert [row.unit for row in rows] == ["s"] * 4
    assert all(row.value > 0 for row in rows)


def test_an_unknown_name_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench", "nothing"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "there is no nothing" in capsys.readouterr().err


def test_every_name_measures_something():
    assert all(
        asyncio.iscoroutinefunction(measure) or callable(measure)
        for measure in command.WANTED.values()
    )
    assert {f"engine-{n}" for n in engine.FLEETS} <= set(command.WANTED)


@pytest.mark.real
async def test_an_operation_over_made_up_hosts_is_measured():
    rows = {row.name: row for row in await engine.measure(60)}
    assert rows["engine, 60 hosts: time"].value > 0
    assert rows["engine, 60 hosts: longest history"].value > 100
    assert rows["engine, 60 hosts: worker's memory"].value > 20


@pytest.mark.real
async def test_begins_after_a_pause_are_seen(monkeypatch):
    monkeypatch.setattr(pause, "AFTER", 1.5)
    async with running() as bench:
        await bench.begin("op", Shape(5_000, in_flight=10, takes=0.2, stages=("100%",)))
        tried = await pause._pause(bench, 10)
        assert tried.late == 0
        assert 0 < tried.answer < 5
        count = len(pause._tail(bench))
        await pause._until_flying(bench, 10)
        assert len(pause._tail(bench)) > count
