"""guardrail notify list, test and status, in words and as JSON."""

import json

import pytest
from cli_engine import Pretended, connected, line, temporal_server
from receivers import web_hook

from guardrail.cli import notify as cli
from guardrail.decide.chain import check
from guardrail.decide.notices import hear, saying_now
from guardrail.edges.notify import Channels
from guardrail.model.board import Board, Saying, Tiding, Tidings
from guardrail.model.common import Secret
from guardrail.model.journal import NOTICES, NoticeGiven
from guardrail.model.notice import KINDS, Channel, Message, Route
from guardrail_workflows.notifying import Notifying
from guardrail_workflows.worker import make_worker

HELD = Tiding("hold:gate:x", "hold", "is held on gate:x", "are held on gate:x", ("why",))


def test_channels_in_words_with_what_is_wrong_with_them() -> None:
    routes = (Route("mail", ("hold", "finish")), Route("pager", ("hold",), "nobody"))
    shown = cli.Shown(routes, cli.faults(routes))
    assert cli.lines(shown) == [
        "mail: is told of hold, finish",
        "pager: is told of hold; where it fails, nobody",
        "wrong: channel pager: there is no channel `nobody` to go to otherwise",
        "guardrail notify test mail",
    ]
    assert "no channel" in cli.lines(cli.Shown((), ()))[0]


def test_what_stands_in_words() -> None:
    board = Board()
    assert cli.standing(board, 0.0) == ["Nothing stands that somebody has to be told."]
    board = hear(board, Tidings("op-1", "r", 1, 0.0, (HELD,)), 0.0)
    assert cli.standing(board, 600.0) == ["op-1 is held on gate:x, for 10 min; not said yet"]
    saying = Saying("hold:gate:x", Message("hold", "op-1", "c", "s"), ("op-1",), ("op-1",))
    board = saying_now(board, saying, 3.0)
    board = hear(board, Tidings("op-2", "r", 1, 0.0, (HELD,)), 60.0)
    assert cli.standing(board, 600.0) == [
        "2 operations are held on gate:x, for 10 min; said 9 min ago, and 1 operation came since"
    ]


@pytest.fixture
def address(tmp_path):
    with temporal_server(tmp_path) as where:
        yield where


async def test_list_test_and_status(address, tmp_path, monkeypatch):
    client = (await connected(address)).client
    run = line(tmp_path, address)
    none = await run("notify", "status")
    assert (none.code, none.out) == (0, "Nothing stands that somebody has to be told.\n")
    with web_hook() as hook:
        monkeypatch.setenv("HOOK_URL", hook.url("/s3cret"))
        known = [Channel("hook", Secret("env", "HOOK_URL"), tries=1)]
        known += [Channel("away", Secret("env", "NOT_THERE"), otherwise="hook")]
        world = Pretended(f"file://{tmp_path / 'plans'}")
        acts = [*world.activities(), *Notifying(client, Channels(lambda: known)).all]
        async with make_worker(client, acts):
            shown = json.loads((await run("notify", "list", "--json")).out)
            assert [(one["name"], one["otherwise"]) for one in shown["channels"]] == [
                ("away", "hook"),
                ("hook", ""),
            ]
            assert shown["channels"][0]["tells"] == list(KINDS)
            good = await run("notify", "test", "hook", "--by", "ann")
            assert (good.code, good.out) == (0, "hook took the message. Look whether it arrived.\n")
            assert hook.got[0]["title"] == "guardrail: a trial of the channel hook"
            assert hook.got[0]["message"].startswith("ann has tried")
            bad = await run("notify", "test", "away", "--by", "ann")
            assert bad.code == 1
            assert "environment variable NOT_THERE is not set" in bad.err
            assert len(hook.got) == 1  # a trial of one channel does not go on to the next
            hook.answers = [403]
            bad = await run("notify", "test", "hook", "--by", "ann", "--json")
            assert (bad.code, json.loads(bad.out)["answer"]["kind"]) == (1, "failed")
            assert "s3cret" not in bad.out + bad.err
            unknown = await run("notify", "test", "hok", "--by", "ann")
            assert (unknown.code, "there: away, hook" in unknown.err) == (1, True)
    checked = check(world.journal.read(NOTICES), NOTICES)
    assert checked.broken is None
    records = [line.record for line in checked.lines]
    assert [(one.channel, one.sent) for one in records if isinstance(one, NoticeGiven)] == [
        ("hook", True),
        ("away", False),
        ("hook", False),
        ("hok", False),
    ]
