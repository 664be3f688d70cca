"""`guardrail journal`: what it finds by exit code, and the story in words and in one's own zone."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from guardrail.cli import app
from guardrail.cli.journal import moment_of
from guardrail.cli.journal_story import WORDS, story
from guardrail.cli.text import Look
from guardrail.decide.chain import Tip, check, extend
from guardrail.edges.journal import journal_at
from guardrail.model.journal import (
    RECORDS,
    CommandSaid,
    Ended,
    Entry,
    EntryId,
    FreezeLifted,
    FreezeSet,
    GateTold,
    GonePast,
    Head,
    HoldCleared,
    HoldRaised,
    HostAsked,
    HostsReread,
    HostTold,
    LeaseBroken,
    NoticeGiven,
    PlanFixed,
    ReportMade,
    Turned,
    WatchBegun,
    WaveBegun,
)

T = 1_764_458_110.0  # 2025-11-29 23:15:10 UTC
OP = "consul-1.8.8"
FACTS = (("change", "consul-agent"), ("from", "1.8.7"), ("to", "1.8.8"))
PLAN = PlanFixed(
    "sha256:ab", "ana", 30, ("1", "100%"), (("unavailable", "3"),), (("margin", "sha256:c"),),
    (("start", "1"),), FACTS,
)  # fmt: skip
WHY = "0.83 is not below 0.7, in 2 samples in a row"
RECORDED = (
    PLAN,
    WaveBegun(1, 2, "1", 1, "forward"),
    HoldRaised("approval:start", ("0 of 1 approvals",), "1 more people"),
    CommandSaid("approve", "bob", point="start"),
    HoldCleared("approval:start", "approved by bob", "bob"),
    GateTold("margin", "pass", "", 0.31, ("fine",), True),
    HostAsked(0, 1, "forward"),
    HostTold(0, 1, "cache-001", "changed", "", 4, (("running", "1.8.8"),)),
    HostAsked(1, 2, "forward"),
    GateTold("margin", "fail", "", 0.83, (WHY,), True),
    HoldRaised("gate:margin", (WHY,), "a person (resume), once the gate passes"),
    WatchBegun(2, "heartbeat"),
    GateTold("margin", "inconclusive", "stale", None, (), False),
    HostTold(1, 2, "cache-002", "unknown", "no answer in 30 s", None),
    CommandSaid("resume", "cid", "\x1b[2J", over="bob", refusal="bob holds nothing here"),
    CommandSaid("rollback", "ana", options=(("scope", "wave"),)),
    Turned("back"),
    WaveBegun(1, 2, "1", 1, "back"),
    HostAsked(0, 3, "back"),
    HostTold(0, 3, "cache-001", "changed", "", 61),
    HostAsked(2, 4, "back"),
    Ended("rolled_back", ("1 of 1 hosts are back",), 0, 30),
)
BROKEN = LeaseBroken(("memcached",), 7, "bob", "ann's worker is gone")
PAST = GonePast("start", 2, "policy care (care.yaml:9)")
FREEZES = (
    FreezeSet("ice", "ann", "the site is slow", 1e9, ("memcached",), ("cache",), binds_back=False),
    FreezeSet("snow", "ann", "x", None),
    FreezeLifted("snow", "ann", "bob", "well again"),
)
NOTICES = (
    NoticeGiven("pager", "hold", "hold:gate:m", "guardrail: op is held", False, "it hung up", 4),
    NoticeGiven("mail", "hold", "hold:gate:m", "guardrail: 3 operations are held", True, "", 1, 3),
)
REPORTS = (
    ReportMade("season", "fail", (), (("room", "t", "since", "fail", "", 1.0),) * 2),
    ReportMade("season", "pass", (), (("room", "t", "value", "pass", "", 9.0),)),
    ReportMade("season", "inconclusive", (), (), "there is no Gate `x`"),
)
READINGS = (
    HostsReread(1),
    HostsReread(30, (("cache-001", "at 1.8.7"),), 2),
    HostsReread(0, problem="no plan store"),
)
STORY = """\
2025-11-29 23:15:10+00:00 ana begins consul-agent 1.8.7 to 1.8.8 on 30 hosts in 2 waves (1, 100%); \
plan sha256:ab; limits: unavailable 3; gates: margin; approvals: 1 at start
2025-11-29 23:15:11+00:00 wave 1 of 2 begins: to 1, 1 host
2025-11-29 23:15:12+00:00 held on approval:start: 0 of 1 approvals; ends by: 1 more people
2025-11-29 23:15:13+00:00 bob says approve at start
2025-11-29 23:15:14+00:00 no longer held on approval:start: approved by bob
2025-11-29 23:15:15+00:00 gate margin: pass, 0.31: fine
2025-11-29 23:15:16+00:00 cache-001 is asked to change (turn 1)
2025-11-29 23:15:17+00:00 cache-001 changed after 4 s (running 1.8.8)
2025-11-29 23:15:18+00:00 cache-002 is asked to change (turn 2)
2025-11-29 23:15:19+00:00 gate margin: fail, 0.83: 0.83 is not below 0.7, in 2 samples in a row
2025-11-29 23:15:20+00:00 held on gate:margin: 0.83 is not below 0.7, in 2 samples in a row; \
ends by: a person (resume), once the gate passes
2025-11-29 23:15:21+00:00 the gates are watched anew (watch 2): the last watch was lost, heartbeat
2025-11-29 23:15:22+00:00 gate margin: inconclusive (stale) (of an earlier watch: it does not count)
2025-11-29 23:15:23+00:00 cache-002 unknown: no answer in 30 s \
(nobody waits for this answer any more)
2025-11-29 23:15:24+00:00 cid says resume over bob: \\x1b[2J; refused, bob holds nothing here
2025-11-29 23:15:25+00:00 ana says rollback (scope wave)
2025-11-29 23:15:26+00:00 it goes back from here
2025-11-29 23:15:27+00:00 wave 1 of 2 goes back
2025-11-29 23:15:28+00:00 cache-001 is asked to go back (turn 3)
2025-11-29 23:15:29+00:00 cache-001 is back after 1 min 01 s
2025-11-29 23:15:30+00:00 host #2 is asked to go back (turn 4)
2025-11-29 23:15:31+00:00 rolled back: 1 of 1 hosts are back
"""


def recorded(operation: str = OP) -> list[Entry]:
    return [
        Entry(operation, EntryId("r", n, 0), T + n, record) for n, record in enumerate(RECORDED)
    ]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUARDRAIL_STATE", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("GUARDRAIL_JOURNAL", raising=False)
    journal_at(str(tmp_path / "journal")).append(recorded())
    return tmp_path / "journal" / f"{OP}.jsonl"


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["journal", *(str(word) for word in words)])


def head(place: Path) -> Head:
    return check(place.read_bytes()).head


# ---------------------------------------------------------------- verify


def test_a_sound_journal_is_0_and_tells_its_head(place: Path) -> None:
    said = run("verify", OP)
    assert (said.exit_code, said.stdout) == (0, f"{OP}: 22 sound entries, head {head(place)}\n")
    assert run("verify").stdout == said.stdout
    assert run("verify", OP, "--head", head(place)).exit_code == 0


def test_the_first_broken_line_is_named_and_is_1(place: Path) -> None:
    lines = place.read_bytes().splitlines(keepends=True)
    known = head(place)
    for data, words in (
        ([*lines[:4], lines[4].replace(b"bob", b"eve"), *lines[5:]], "line 5 is broken (changed)"),
        ([*lines[:4], *lines[6:]], "line 5 is broken (removed): entries 5 to 6 are missing"),
        ([*lines[:4], lines[5], lines[4], *lines[6:]], "line 5 is broken (reordered)"),
        ([*lines, lines[3]], "line 23 is broken (inserted)"),
        ([*lines[:-1], lines[-1][:-9]], "line 22 is broken (torn)"),
    ):
        place.write_bytes(b"".join(data))
        said = run("verify")
        assert said.exit_code == 1
        assert words in said.stdout
    place.write_bytes(b"".join(lines[:20]))
    assert run("verify", OP).exit_code == 0
    said = run("verify", OP, "--head", known)
    assert (said.exit_code, "entries 21 to 22 are missing" in said.stdout) == (1, True)


def test_one_broken_journal_among_sound_ones(place: Path) -> None:
    journal_at(str(place.parent)).append(recorded("a"))
    place.write_bytes(place.read_bytes()[:-3])
    said = run("verify")
    assert said.exit_code == 1
    assert said.stdout.splitlines()[0].startswith("a: 22 sound entries, head ")
    assert said.stdout.splitlines()[1].startswith(f"{OP}: 21 sound entries, then line 22")


def test_torn_bytes_that_were_moved_away_are_told(place: Path) -> None:
    place.write_bytes(place.read_bytes()[:-3])
    journal_at(str(place.parent)).append(recorded())
    said = run("verify")
    assert said.exit_code == 0
    assert "torn bytes lie beside it" in said.stdout


def test_verify_as_json(place: Path) -> None:
    whole = json.loads(run("verify", "--json").stdout)
    last = head(place)
    assert whole == [
        {
            "operation": OP,
            "entries": 22,
            "head": {"sequence": 22, "hash": last.hash},
            "broken": None,
            "tornBytes": 0,
        }
    ]
    place.write_bytes(place.read_bytes().replace(b"cid", b"eve"))
    (broken,) = json.loads(run("verify", "--json").stdout)
    assert (broken["broken"]["line"], broken["broken"]["wrong"]) == (15, "changed")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["verify", "none"], 1),
        (["verify", "../x"], 1),
        (["verify", OP, "--head", "22"], 2),
        (["verify", OP, "--head", "0:" + "0" * 64], 2),
        (["verify", OP, "a", "--head", "1:" + "0" * 64], 2),
        (["verify", OP, "--head", "1:" + "0" * 64], 1),
        (["verify", "--place", "nowhere://x"], 1),
        (["show", "none"], 1),
        (["show", OP, "--since", "soon"], 2),
        (["show"], 2),
    ],
)
def test_what_cannot_be_done_ends_with_its_code(place: Path, words: list[str], code: int) -> None:
    assert place.exists()
    said = run(*words)
    assert said.exit_code == code
    assert said.output.strip()


def test_no_journal_at_all_is_no_good_news(tmp_path: Path) -> None:
    said = run("verify", "--place", tmp_path / "none")
    assert (said.exit_code, "there is no journal at" in said.output) == (1, True)


def test_a_place_that_cannot_be_read_is_3(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run("verify", "--place", tmp_path / "file").exit_code == 3


# ---------------------------------------------------------------- show


def test_the_story_in_words() -> None:
    lines = check(extend(Tip(), recorded())[0]).lines
    assert "\n".join(story(lines, Look(zone=UTC))) + "\n" == STORY
    made = (*RECORDED, *READINGS, BROKEN, PAST, *FREEZES, *NOTICES, *REPORTS)
    assert {type(record) for record in made} == set(RECORDS) == set(WORDS)


def test_messages_in_words() -> None:
    entries = [Entry(OP, EntryId("n", at, 0), T, given) for at, given in enumerate(NOTICES)]
    lines = check(extend(Tip(), entries)[0]).lines
    assert [told[26:] for told in story(lines, Look(zone=UTC))] == [
        "channel pager did not take the message, it hung up: guardrail: op is held, at try 4",
        "channel mail took the message: guardrail: 3 operations are held (about 3 operations)",
    ]


def test_reports_of_checklists_in_words() -> None:
    entries = [Entry(OP, EntryId("n", at, 0), T, made) for at, made in enumerate(REPORTS)]
    lines = check(extend(Tip(), entries)[0]).lines
    assert [told[26:] for told in story(lines, Look(zone=UTC))] == [
        "checklist season was gone through: fail: room",
        "checklist season was gone through: pass",
        "checklist season was gone through: inconclusive: there is no Gate `x`",
    ]


def test_an_approval_that_a_shadow_goes_past_in_words() -> None:
    lines = check(extend(Tip(), [Entry(OP, EntryId("r", 0, 0), T, PAST)])[0]).lines
    (told,) = story(lines, Look(zone=UTC))
    assert told[26:] == (
        "it goes past the approval at start: 2 people would have had to agree "
        "(policy care (care.yaml:9)), and a shadow asks nobody"
    )


def test_freezes_in_words() -> None:
    entries = [Entry(OP, EntryId("r", n, 0), T, record) for n, record in enumerate(FREEZES)]
    lines = story(check(extend(Tip(), entries)[0]).lines, Look(zone=UTC))
    assert [line[26:] for line in lines] == [
        (
            "ann sets the freeze ice for memcached, fleet cache until 2001-09-09 01:46:40Z; "
            "going back need not wait: the site is slow"
        ),
        "ann sets the freeze snow: x",
        "bob lifts the freeze snow of ann: well again",
    ]


def test_a_reading_of_changed_hosts_in_words() -> None:
    entries = [Entry(OP, EntryId("r", n, 0), T, record) for n, record in enumerate(READINGS)]
    lines = story(check(extend(Tip(), entries)[0]).lines, Look(zone=UTC))
    assert [line[26:] for line in lines] == [
        "1 changed host read again: all as they should be",
        "30 changed hosts read again: cache-001: at 1.8.7; 2 more",
        "changed hosts could not be read again: no plan store",
    ]


def test_a_broken_lease_in_words() -> None:
    entry = Entry(OP, EntryId("r", 0, 0), T, BROKEN)
    (line,) = story(check(extend(Tip(), [entry])[0]).lines, Look(zone=UTC))
    assert line[26:] == "bob breaks its lease on memcached: ann's worker is gone"


def test_times_are_in_the_users_zone() -> None:
    lines = check(extend(Tip(), recorded())[0]).lines
    there = timezone(timedelta(hours=-8))
    assert story(lines, Look(zone=there))[0].startswith("2025-11-29 15:15:10-08:00 ana begins")


def test_show_tells_all_of_it_or_what_came_since(place: Path) -> None:
    assert place.exists()
    assert len(run("show", OP).stdout.splitlines()) == 22
    late = run("show", OP, "--since", "2025-11-29T23:15:29Z")
    assert [line[26:] for line in late.stdout.splitlines()] == [
        "cache-001 is back after 1 min 01 s",
        "host #2 is asked to go back (turn 4)",
        "rolled back: 1 of 1 hosts are back",
    ]
    assert run("show", OP, "--since", "1h").stdout == ""


def test_since_is_a_duration_or_a_time() -> None:
    assert moment_of("2h", T) == T - 7200
    assert moment_of("2025-11-29T23:15:10Z", 0.0) == T
    assert moment_of("2025-11-29 23:15:10+00:00", 0.0) == T
    local = datetime.fromtimestamp(T)  # noqa: DTZ006 - what a person types has no zone
    assert moment_of(f"{local:%Y-%m-%d %H:%M:%S}", 0.0) == T


def test_show_as_json(place: Path) -> None:
    said = json.loads(run("show", OP, "--json", "--since", "2025-11-29T23:15:31Z").stdout)
    assert said["operation"] == OP
    assert said["head"]["sequence"] == 22
    assert said["entries"] == [
        {
            "sequence": 22,
            "run": "r",
            "event": 21,
            "part": 0,
            "at": "2025-11-29T23:15:31.000Z",
            "kind": "end",
            "record": {
                "phase": "rolled_back",
                "reasons": ["1 of 1 hosts are back"],
                "changed": 0,
                "hosts": 30,
            },
        }
    ]
    assert place.exists()


def test_a_broken_journal_is_shown_as_far_as_it_goes(place: Path) -> None:
    place.write_bytes(place.read_bytes().replace(b"cid", b"eve"))
    said = run("show", OP)
    assert said.exit_code == 1
    assert len(said.stdout.splitlines()) == 14
    assert "line 15 is broken (changed)" in said.stderr
    assert json.loads(run("show", OP, "--json").stdout)["broken"]["line"] == 15


def test_a_record_of_a_newer_guardrail_is_shown_as_it_is() -> None:
    (line,) = check(extend(Tip(), recorded()[:1])[0]).lines
    newer = replace(line, kind="lease", record=None, fields={"holder": "ana"})
    assert story([newer], Look(zone=UTC))[0].endswith('lease: {"holder": "ana"}')
