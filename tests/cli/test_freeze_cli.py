"""guardrail freeze on, off and status, in words and as JSON."""

import json
import time

import pytest
import typer
from cli_engine import Pretended, connected, line, temporal_server, working

from guardrail.cli import freeze as cli
from guardrail.cli.json_out import dump
from guardrail.model.freeze import Freeze, Lifted

ICE = Freeze("ice", "slow", "ann", 1000.0, until=90_000.0)


def test_every_freeze_is_told_with_what_ends_it():
    file = Freeze("holidays", "", "", 1000.0, place="file:/etc/freeze", fleets=("cache",))
    shown = cli.Shown((ICE, file), ("url:http://x: refused",), (Lifted(ICE, "bob", "ok", 5.0),))
    assert cli.lines(shown, 2000.0) == [
        (
            "ice: frozen since 1970-01-01 00:16:40Z by ann until 1970-01-02 01:00:00Z: slow "
            "(command, ice); ends by: its end at 1970-01-02 01:00:00Z (or guardrail freeze off ice)"
        ),
        (
            "holidays: frozen since 1970-01-01 00:16:40Z: no reason given (file:/etc/freeze), "
            "for fleet cache; ends by: at file:/etc/freeze"
        ),
        "cannot be read: url:http://x: refused; after a minute it counts as frozen",
        "ice was lifted by bob: ok",
    ]


def test_of_a_calendar_to_come_the_next_ones_are_told():
    nights = [Freeze(f"night/{n}", "batch", "", n * 1e4, n * 1e4 + 9.0, "x.ics") for n in range(9)]
    told = cli.lines(cli.Shown(tuple(nights)), 15_000.0)
    assert [line.partition(":")[0] for line in told] == ["Nothing is frozen."] + ["to come"] * 3 + [
        "… and 4 later ones (--json has all)"
    ]
    assert told[1].startswith("to come: night/2: frozen since 1970-01-01 05:33:20Z until")


def test_as_json_times_are_times():
    (one,) = json.loads(dump(cli.Shown((ICE,))))["freezes"]
    assert (one["since"], one["until"]) == ("1970-01-01T00:16:40.000Z", "1970-01-02T01:00:00.000Z")


@pytest.mark.parametrize(
    ("text", "at"),
    [("2h", 7300.0), ("1970-01-01T03:00:00Z", 10800.0), ("1970-01-01T03:00+01:00", 7200.0)],
)
def test_an_end_is_so_long_from_now_or_a_time(text, at):
    assert cli.end_of(text, 100.0) == at


def test_another_end_is_a_mistake_of_usage():
    with pytest.raises(typer.BadParameter, match="a duration"):
        cli.end_of("tomorrow", 0.0)


@pytest.fixture
def address(tmp_path):
    with temporal_server(tmp_path) as where:
        yield where


async def test_on_off_and_status(address, tmp_path):
    await connected(address)
    file = tmp_path / "freeze.yaml"
    run = line(tmp_path, address, GUARDRAIL_FREEZE_FILE=str(file))
    none = await run("freeze", "status")
    assert (none.code, none.out) == (0, "Nothing is frozen.\n")
    early = await run("freeze", "off", "ice", "--reason", "x")
    assert (early.code, "there is none to lift" in early.err) == (1, True)
    async with working(address, Pretended(f"file://{tmp_path / 'plans'}")):
        assert "--reason" in (await run("freeze", "on")).err
        began = time.monotonic()
        words = ("--reason", "slow", "--until", "2h", "--role", "memcached", "--allow-rollback")
        made = await run("freeze", "on", *words)
        assert made.code == 0, made.err
        assert "No host that it concerns begins any more." in made.out
        assert time.monotonic() - began >= cli.SETTLED
        assert 'guardrail freeze off freeze --reason "…"' in made.out
        file.write_text("reason: this machine moves\n")
        shown = json.loads((await run("freeze", "status", "--json")).out)
        assert [(one["name"], one["reason"], one["bindsBack"]) for one in shown["freezes"]] == [
            ("freeze", "slow", False),
            ("freeze-1", "this machine moves", True),
        ]
        lifted = await run("freeze", "off", "freeze", "--reason", "well")
        assert (lifted.code, lifted.out.splitlines()[0]) == (0, "The freeze freeze is lifted.")
        again = await run("freeze", "off", "freeze", "--reason", "well")
        assert "there is no freeze freeze by command; there: none" in again.err
