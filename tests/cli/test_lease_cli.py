"""guardrail lease list and break, in words and as JSON."""

import json

import pytest
from cli_engine import Pretended, connected, line, temporal_server, working

from guardrail.cli import lease as cli
from guardrail.cli.json_out import dump
from guardrail.decide import leases
from guardrail.model.lease import Break, Claim, Holder, Share, Table, Wanted

ONE = Share(1, 1, 1)


def table():
    """a has the cache, b and urgent u wait for it; w has one of four web hosts."""
    cache, web = Claim("memcached", True, ONE, ONE), Claim("web", False, ONE, Share(4, 2, 2))
    known = Table()
    for name, claim, priority in (
        ("a", cache, "normal"),
        ("b", cache, "normal"),
        ("u", cache, "urgent"),
        ("w", web, "normal"),
    ):
        holder = Holder(name, "ann", "CHG-1", priority)
        known, _ = leases.ask(known, Wanted(holder, 1, (claim,)), 1000.0)
    return known


def test_who_holds_and_who_waits_in_the_order_they_are_served():
    cache, web, *waiting = cli.lines(cli.shown(table(), 1010.0), 1010.0)
    held = "since 00:16:40Z; lasts 20 s unless renewed; token"
    assert cache == f"memcached: a (ann: CHG-1) has all of it {held} 1000000"
    assert web == f"web: w (ann: CHG-1) has 1 hosts, 1 a domain, 1 domains {held} 1000001"
    assert waiting == [
        "u (urgent, ann: CHG-1) waits for memcached since 00:16:40Z",
        "b (ann: CHG-1) waits for memcached since 00:16:40Z",
    ]


def test_an_orphaned_lease_is_told_with_the_command_that_ends_it():
    told = cli.lines(cli.shown(table(), 2000.0), 2000.0)
    assert "ORPHANED, not renewed since 00:16:40Z" in told[0]
    assert told[-1] == 'guardrail lease break memcached --operation a --reason "…"'
    assert not any("waits for" in each for each in told)  # they have not asked since


def test_as_json_times_are_times():
    shown = json.loads(dump(cli.shown(table(), 1010.0)))
    first = shown["leases"][0]
    assert (first["role"], first["state"], first["token"]) == ("memcached", "held", 1_000_000)
    assert (first["since"], first["expiresAt"]) == (
        "1970-01-01T00:16:40.000Z",
        "1970-01-01T00:17:10.000Z",
    )
    assert [each["operation"] for each in shown["waiting"]] == ["u", "b"]


def test_what_a_break_came_to():
    said = Break("memcached", "cid", "looked")
    live = leases.broken(table(), said, 1010.0)
    assert cli.broken_lines(live, said)[0].startswith("The lease on memcached is broken: a begins")
    assert cli.broken_lines(live, said)[1] == "guardrail rollout resume a"
    assert "broken by cid" in cli.lines(cli.shown(live, 1010.0), 1010.0)[0]
    gone = leases.broken(table(), said, 2000.0)
    assert cli.broken_lines(gone, said) == ["The lease on memcached is broken: it is free."]


def test_no_lease_at_all():
    assert cli.lines(cli.shown(Table(), 0.0), 0.0) == [
        "Nobody holds a lease, and nobody waits for one."
    ]


@pytest.fixture
def address(tmp_path):
    with temporal_server(tmp_path) as where:
        yield where


async def test_the_command_asks_the_table_and_breaks_what_is_orphaned(
    address, tmp_path, monkeypatch
):
    monkeypatch.setattr(leases, "LAST_FOR", 0.2)
    operations = await connected(address)
    run = line(tmp_path, address)
    empty = await run("lease", "list")
    assert (empty.code, empty.out.strip()) == (
        0,
        "Nobody holds a lease, and nobody waits for one.",
    )
    nothing = await run("lease", "break", "memcached", "--reason", "looked")
    assert nothing.code == 1
    async with working(address, Pretended(str(tmp_path / "plans"))):
        claim = Claim("memcached", True, ONE, ONE)
        desk = cli.Desk(operations.client, address)
        answer = await desk.ask(Wanted(Holder("dead", "ann", "CHG-1"), 1, (claim,)))
        assert answer.word == "granted"
        listed = await run("lease", "list", "--json")
        assert json.loads(listed.out)["leases"][0]["state"] == "orphaned"
        for words, said in (
            (("web", "--reason", "x"), "nobody holds web; held are: memcached"),
            (("memcached",), "breaking a lease needs --reason"),
        ):
            refused = await run("lease", "break", *words)
            assert refused.code == 1
            assert said in refused.err
        done = await run("lease", "break", "memcached", "--reason", "looked")
        assert (done.code, done.out.strip()) == (
            0,
            "The lease on memcached is broken: it is free.",
        )
        assert (await desk.table()).leases == ()
