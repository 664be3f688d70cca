"""Is it read from every place whether something is frozen, and what counts when it cannot be?"""

import asyncio
import base64
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from http_part import Answer, serving

from guardrail.edges.freezes import File, Freezes, Key, Url, places_of
from guardrail.errors import InvalidFile, Refused, Unanswered
from guardrail.files.freeze import parse
from guardrail.model.freeze import Freeze
from guardrail.settings import Settings

ICE = Freeze("ice", "slow", "ann", 5.0, place="twin")

WHOLE = b"""\
name: holidays
reason: nobody looks
by: ann
since: 2026-12-20T00:00:00Z
until: 2027-01-07T08:00:00+01:00
roles: [memcached]
fleets: [cache]
rollback: warn
"""


# ---------------------------------------------------------------- how it is written


def test_every_key_is_read():
    assert parse(WHOLE, "file:x", 7.0) == (
        Freeze(
            "holidays",
            "nobody looks",
            "ann",
            1797724800.0,
            1799305200.0,
            "file:x",
            ("memcached",),
            ("cache",),
            binds_back=False,
        ),
    )


@pytest.mark.parametrize("text", [b"", b"\n  \n"])
def test_an_empty_document_is_a_freeze_for_no_stated_reason(text):
    (one,) = parse(text, "file:x", 7.0)
    assert (one.reason, one.since, one.until, one.binds_back) == ("", 7.0, None, True)


@pytest.mark.parametrize("text", [b"[]", b'{"freezes": []}', b"freezes: []\n"])
def test_an_empty_list_is_none(text):
    assert parse(text, "x", 7.0) == ()


def test_a_list_in_json_is_read():
    found = parse(b'[{"reason": "a"}, {"name": "two", "reason": "b"}]', "x", 7.0)
    assert [(one.name, one.reason) for one in found] == [("freeze-1", "a"), ("two", "b")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"reson: x\n", "unknown key `reson`"),
        (b"until: tomorrow\n", "x:1:8: a time with its offset is needed"),
        (b"until: 2026-12-20T00:00:00\n", "a time with its offset is needed"),
        (b"- roles: memcached\n", "a list is needed"),
        (b"rollback: never\n", "allowed: `same`, `warn`"),
        (b"just words\n", "a list is needed"),
        (b"{", "x:1"),
        (b"\xff\xfe", "UTF-8"),
    ],
)
def test_what_is_malformed_is_said_with_its_place(text, said):
    with pytest.raises(InvalidFile, match=said.replace("(", r"\(")):
        parse(text, "x", 7.0)


# ---------------------------------------------------------------- a file


async def test_a_file_is_looked_at_each_time(tmp_path):
    path = tmp_path / "freeze.yaml"
    freezes = Freezes((File(path, parse),))
    assert (await freezes.now()).freezes == ()
    path.touch()
    (one,) = (await freezes.now()).freezes
    assert one.place == f"file:{path}"
    assert abs(one.since - time.time()) < 60
    path.write_bytes(WHOLE)
    assert [each.name for each in (await freezes.now()).freezes] == ["holidays"]
    path.unlink()
    assert await freezes.now() == await Freezes(()).now()


async def test_a_folder_that_is_not_there_says_nothing(tmp_path):
    with pytest.raises(Unanswered, match="its folder is not there"):
        await File(tmp_path / "not-mounted" / "freeze.yaml", parse).read()


async def test_a_file_that_cannot_be_opened_says_nothing(tmp_path):
    (tmp_path / "freeze").mkdir()
    with pytest.raises(Unanswered, match="Is a directory"):
        await File(tmp_path / "freeze", parse).read()


# ---------------------------------------------------------------- a URL and a key


async def test_a_url_is_read_and_404_is_none():
    async with serving("127.0.45.1", 8600) as part:
        url = Url(f"{part.url}/freezes?team=cache", parse)
        assert await url.read() == ()
        part.answers["/freezes"] = Answer([{"reason": "launch", "by": "ann"}])
        (one,) = await url.read()
        assert (one.reason, one.place) == ("launch", "url:http://127.0.45.1:8600/freezes")
        assert (await url.read())[0].since == one.since
        for bad in (Answer("", 200), Answer("x", 500), Answer("", 302, {"Location": "/elsewhere"})):
            part.answers["/freezes"] = bad
            with pytest.raises(Unanswered, match="without a document"):
                await url.read()
    with pytest.raises(Unanswered, match="Connection refused"):
        await url.read()


async def test_a_key_of_consul_is_read_and_one_that_is_not_there_is_none():
    async with serving("127.0.45.2", 8500) as part:
        key = Key(part.url, "guardrail/freezes", parse)
        part.answers["/v1/kv/guardrail/freezes"] = Answer("", 404)
        assert await key.read() == ()
        told = base64.b64encode(b"reason: launch").decode()
        part.answers["/v1/kv/guardrail/freezes"] = Answer([{"Value": told}])
        assert [one.reason for one in await key.read()] == ["launch"]
        part.answers["/v1/kv/guardrail/freezes"] = Answer([{"Value": None}])
        assert [one.reason for one in await key.read()] == [""]
        for bad in (Answer("no such page", 404), Answer("x", 500)):
            part.answers["/v1/kv/guardrail/freezes"] = bad
            with pytest.raises(Unanswered):
                await key.read()
        part.answers["/v1/kv/guardrail/freezes"] = Answer([{"Value": "%%%"}])
        with pytest.raises(InvalidFile, match="no value in it"):
            await key.read()


CALENDAR = """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//them//EN
BEGIN:VEVENT
UID:night@them
SUMMARY:Nightly batch
DTSTART:20250101T220000Z
DTEND:20250102T040000Z
RRULE:FREQ=DAILY
END:VEVENT
END:VCALENDAR
"""


async def test_what_is_served_as_a_calendar_is_read_as_one():
    async with serving("127.0.45.3", 8600) as part:
        url = Url(f"{part.url}/feed", parse)
        served = {"Content-Type": "text/calendar; charset=utf-8"}
        part.answers["/feed"] = Answer(CALENDAR, 200, served)
        found = await url.read()
        assert 366 <= len(found) <= 368
        assert {one.reason for one in found} == {"Nightly batch"}
        part.answers["/feed"] = Answer("[]", 200, served)
        with pytest.raises(InvalidFile, match="no line of an iCalendar file"):
            await url.read()
        part.answers["/feed"] = Answer("[]", 200)
        assert await url.read() == ()


async def test_a_file_that_is_named_as_a_calendar_is_read_as_one(tmp_path):
    path = tmp_path / "freezes.ics"
    path.write_text(CALENDAR)
    freezes = Freezes((File(path, parse),))
    assert len((await freezes.now()).freezes) >= 366
    path.write_text("")
    assert [one.until for one in (await freezes.now()).freezes] == [None]
    path.write_text(CALENDAR[:-15])
    assert "the file is cut off" in (await Freezes((File(path, parse),)).now()).unread[0]


def test_the_environment_names_the_places(tmp_path, monkeypatch):
    monkeypatch.setenv("GUARDRAIL_FREEZE_FILE", str(tmp_path / "f"))
    monkeypatch.setenv("GUARDRAIL_FREEZE_URL", "https://u:p@status.example/freezes?x=1")
    monkeypatch.setenv("GUARDRAIL_FREEZE_KV", "http://127.0.0.1:8500/guardrail/freezes")
    names = [place.name for place in places_of(parse, *Settings.read().freeze_places)]
    assert names == [
        f"file:{tmp_path}/f",
        "url:https://status.example/freezes",
        "kv:http://127.0.0.1:8500/guardrail/freezes",
    ]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("FREEZE_URL", "status.example"), ("FREEZE_KV", "freezes"), ("FREEZE_KV", "http://c:8500/")],
)
def test_a_place_that_can_be_none_is_refused(variable, value, monkeypatch):
    monkeypatch.setenv(f"GUARDRAIL_{variable}", value)
    with pytest.raises(Refused, match=variable):
        places_of(parse, *Settings.read().freeze_places)


# ---------------------------------------------------------------- all places together


@dataclass
class Twin:
    """A place that says, or does not say, what a test wants; on a clock of its own."""

    says: tuple[Freeze, ...] | Exception = ()
    name: str = "twin"
    valid: float = 1.0
    reads: int = 0
    hangs: asyncio.Event | None = None
    time: list[float] = field(default_factory=lambda: [0.0])

    async def read(self):
        self.reads += 1
        if self.hangs is not None:
            await self.hangs.wait()
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def freezes(self, *others):
        return Freezes((self, *others), clock=lambda: self.time[0], wall=lambda: 900.0)


SILENT = Unanswered("The URL", "http://x", "refused")


async def test_an_answer_is_used_for_a_second_and_all_share_one_question():
    twin = Twin((ICE,))
    freezes = twin.freezes()
    await asyncio.gather(*(freezes.now() for _ in range(50)))
    assert twin.reads == 1
    twin.says, twin.time[0] = (), 0.99
    assert (await freezes.now()).freezes == (ICE,)
    twin.time[0] = 1.0
    assert (await freezes.now()).freezes == ()
    assert twin.reads == 2


async def test_set_anywhere_is_frozen():
    other = Freeze("b", "x", "", 1.0, place="a")
    seen = await Twin((ICE,)).freezes(Twin((other,)), Twin(())).now()
    assert seen.freezes == (other, ICE)


async def test_a_place_that_was_never_read_is_not_taken_for_one_that_says_nothing():
    twin = Twin(SILENT)
    seen = await twin.freezes().now()
    assert seen.freezes == ()
    assert seen.unread == ("twin: The URL at http://x did not answer: refused",)


@pytest.mark.parametrize("before", [(), (ICE,)])
async def test_what_cannot_be_read_keeps_its_word_for_a_minute_and_then_is_frozen(before):
    twin = Twin(before)
    freezes = twin.freezes()
    await freezes.now()
    twin.says = SILENT
    for at in (1.0, 30.0, 60.0):
        twin.time[0] = at
        assert (await freezes.now()).freezes == before
    twin.time[0] = 61.5
    seen = await freezes.now()
    (one,) = seen.freezes
    assert (one.unreadable, one.since, one.place, seen.unread) == (True, 900.0, "twin", ())
    assert "refused; what cannot be read for 60 s counts as frozen" in one.reason
    twin.says, twin.time[0] = (), 70.0
    assert (await freezes.now()).freezes == ()


async def test_old_knowledge_of_a_place_that_falls_silent_is_none():
    twin = Twin(())
    freezes = twin.freezes()
    await freezes.now()
    twin.says, twin.time[0] = SILENT, 3600.0
    assert (await freezes.now()).unread != ()


async def test_whatever_goes_wrong_is_no_word_that_nothing_is_frozen():
    twin = Twin(ZeroDivisionError("oh"))
    freezes = twin.freezes()
    assert (await freezes.now()).unread == ("twin: ZeroDivisionError: oh",)
    twin.time[0] = 60.5
    assert [one.unreadable for one in (await freezes.now()).freezes] == [True]


async def test_a_place_that_hangs_keeps_nobody_waiting_for_long(monkeypatch):
    monkeypatch.setattr("guardrail.edges.freezes.READ_WITHIN", 0.05)
    twin = Twin((), hangs=asyncio.Event())
    seen = await twin.freezes(Twin((ICE,))).now()
    assert seen.freezes == (ICE,)
    assert "nothing within" in seen.unread[0]


async def test_a_malformed_file_is_frozen_beyond_the_grace(tmp_path):
    path = tmp_path / "freeze.yaml"
    path.write_text("until: soon\n")
    os.utime(path, (5, 5))
    now = [0.0]
    freezes = Freezes((File(path, parse),), clock=lambda: now[0])
    assert "a time with its offset is needed" in (await freezes.now()).unread[0]
    now[0] = 61.0
    (one,) = (await freezes.now()).freezes
    assert one.unreadable
    assert "a time with its offset is needed" in one.reason


def test_the_document_in_the_docs_is_read_as_it_says():
    page = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
    text = page.split("## Freezes")[1].split("```yaml\n")[1].split("```")[0]
    (one,) = parse(text.encode(), "docs", 7.0)
    assert (one.name, one.roles, one.fleets, one.binds_back) == (
        "holidays",
        ("memcached",),
        ("cache",),
        False,
    )
