"""guardrail season show, ics and check, in words, as JSON, as a feed and by exit code."""

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest
import vobject
from edges.prometheus_parts import (
    StandIn,
    Target,
    Told,
    answered,
    real_prometheus,
    stand_in,
    target,
    until,
)
from typer.testing import CliRunner, Result

from guardrail.cli import app, season
from guardrail.cli.season_view import standing_lines
from guardrail.cli.text import Look
from guardrail.decide.check_words import report_record
from guardrail.decide.checking import unread
from guardrail.edges.journal import journal_at
from guardrail.model.check import Standing
from guardrail.model.journal import CHECKS, Entry, EntryId

REMINDER = """\
apiVersion: guardrail/v1
kind: Reminder
metadata: {name: gateway}
spec:
  prescale: tgw-main, to 50 Gbit/s
  occasion:
    timezone: America/Los_Angeles
    at: "06:00"
    lasts: 5d
    workingDay: {after: new-year, region: US}
  leads: {ticket: [30d]}
  people: {owner: ann, deputy: bob, channel: oncall}
  steps:
    - {name: ask, title: ask the provider, request: ticket, evidence: {ticket: "CASE-[0-9]+"}}
---
apiVersion: guardrail/v1
kind: Policy
metadata: {name: holidays}
spec:
  match: {}
  windows:
    timezone: America/Los_Angeles
    deny: [{dates: [2026-12-18/2027-01-04], settleBefore: 1h, reason: holiday freeze}]
"""

CHECKLIST = """\
apiVersion: guardrail/v1
kind: Checklist
metadata: {name: wave}
spec:
  schedule: {cron: "0 9 * * mon-fri", timezone: America/Los_Angeles}
  peak:
    timezone: America/Los_Angeles
    at: "06:00"
    lasts: 5d
    workingDay: {after: new-year, region: US}
  source: first
  items:
    - {name: files, title: files are enough, query: room, pass: {above: 20000}, maxAge: AGE}
    - {name: quota, title: the quota is there, gate: quota}
    - name: lock
      title: nothing is scaled down
      locked: {since: begun, until: ends, before: 2h, tail: 6h}
      maxAge: AGE
    - name: second
      title: the second answers
      answers: {first: first, second: second, query: up, pass: {above: 0}}
      maxAge: AGE
---
apiVersion: guardrail/v1
kind: Gate
metadata: {name: quota}
spec:
  title: What is left of the quota
  class: safety
  query: quota
  pass: {above: 100}
  every: 5s
  source: first
  evidence: {maxAge: AGE}
---
apiVersion: guardrail/v1
kind: Source
metadata: {name: first}
spec: {address: "FIRST", timeout: 2s}
---
apiVersion: guardrail/v1
kind: Source
metadata: {name: second}
spec: {address: "SECOND", timeout: 2s}
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["season", *map(str, words)])


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    for name in ("SOURCE", "FREEZE_FILE", "FREEZE_URL", "FREEZE_KV", "FREEZE_TIMEZONE"):
        monkeypatch.delenv(f"GUARDRAIL_{name}", raising=False)


# ---------------------------------------------------------------- the calendar


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "all.yaml").write_text(REMINDER)
    freeze = tmp_path / "freeze.yaml"
    freeze.write_text(
        "name: audit\nreason: the auditors are here\nby: ann\nroles: [memcached]\n"
        "since: 2026-11-02T00:00:00Z\nuntil: 2026-11-07T00:00:00Z\n"
    )
    monkeypatch.setenv("GUARDRAIL_FREEZE_FILE", str(freeze))
    return tmp_path / "source"


DAYS = ("--from", "2026-10-01", "--to", "2027-02-01", "--offline")


def test_show_has_everything_in_order(source: Path) -> None:
    done = run("show", source, *DAYS)
    assert done.exit_code == 0, done.output
    heads = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert heads == [
        (
            "2026-11-02 00:00+00:00 to 2026-11-07 00:00+00:00 freeze: "
            "the auditors are here, for memcached"
        ),
        "2026-12-05 14:00+00:00 reminder: gateway: ticket, 30 d before",
        "2026-12-18 08:00+00:00 to 2027-01-04 08:00+00:00 window: holiday freeze",
        (
            "2027-01-04 14:00+00:00 to 2027-01-09 14:00+00:00 occasion: "
            "first working day after New Year in US"
        ),
    ]
    said = json.loads(run("show", source, *DAYS, "--json").stdout)
    assert [each["kind"] for each in said["entries"]] == [
        "freeze",
        "reminder",
        "window",
        "occasion",
    ]
    assert said["entries"][3]["beginsAt"] == "2027-01-04T14:00:00.000Z"
    assert (said["beginsAt"], said["unread"]) == ("2026-10-01T00:00:00.000Z", [])


def test_the_feed_is_written_whole_and_reads_elsewhere(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "season.ics"
    done = run("ics", source, *DAYS, "-o", out)
    assert (done.exit_code, done.stdout) == (
        0,
        f"4 entries are in {out}; publish it, or import it.\n",
    )
    calendar = vobject.readOne(out.read_text())
    assert calendar.validate(raiseException=True)
    assert [event.uid.value for event in calendar.vevent_list] == [
        f"freeze/file:{tmp_path}/freeze.yaml/audit@guardrail",
        "reminder/gateway/2027/ticket/2592000@guardrail",
        "window/holidays/2026-12-18 00:00 UTC-08:00@guardrail",
        "occasion/gateway/2027@guardrail",
    ]
    printed = run("ics", source, *DAYS)
    assert printed.stdout == out.read_text()
    nowhere = run("ics", source, *DAYS, "-o", tmp_path / "no" / "season.ics")
    assert (nowhere.exit_code, "cannot be written" in nowhere.stderr) == (1, True)


def test_what_cannot_be_read_is_not_left_out_in_silence(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUARDRAIL_FREEZE_FILE", str(tmp_path / "gone" / "freeze.yaml"))
    shown = run("show", source, *DAYS)
    assert shown.exit_code == 3
    assert "cannot be read: file:" in shown.stdout.splitlines()[-1]
    out = tmp_path / "season.ics"
    fed = run("ics", source, *DAYS, "-o", out)
    assert (fed.exit_code, out.exists()) == (3, False)
    assert "its folder is not there" in fed.stderr


def test_without_temporal_freezes_by_command_are_not_known(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", "/nonexistent/temporal.toml")
    done = run("ics", source, "--from", "2026-10-01")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "--offline leaves these out" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "soon"), "--from is a day"),
        (("--from", "2027-01-01", "--to", "2027-01-01"), "--to is a day after --from"),
        (("--from", "2027-01-01", "--to", "2037-01-01"), "at most five years"),
    ],
)
def test_days_that_are_none_are_a_mistake_of_usage(
    source: Path, words: tuple[str, ...], said: str
) -> None:
    done = run("show", source, *words, "--offline")
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())


# ---------------------------------------------------------------- a checklist

FAR = {"room": 30_000.0, "quota": 120.0, "begun": 1.5e9, "ends": 6e10, "up": 1.0}


@pytest.fixture
def two() -> Iterator[tuple[StandIn, StandIn]]:
    with stand_in(lambda _: Told(500)) as first, stand_in(lambda _: Told(500)) as second:
        say(first, FAR)
        say(second, FAR)
        yield first, second


def say(server: StandIn, values: dict[str, float]) -> None:
    """Each query answers by the metric in it."""

    def answer(query: str) -> Told:
        named = next(name for name in values if name in query)
        return answered(values[named], newest=999.0)

    server.answer = answer


def written(folder: Path, first: str, second: str, age: str = "5s") -> Path:
    path = folder / "checklist.yaml"
    text = CHECKLIST.replace("FIRST", first).replace("SECOND", second).replace("AGE", age)
    path.write_text(text)
    return path


def test_a_list_on_which_all_is_well(tmp_path: Path, two: tuple[StandIn, StandIn]) -> None:
    path = written(tmp_path, *(each.address for each in two))
    done = run("check", path)
    assert done.exit_code == 0, done.output
    rows = done.stdout.splitlines()
    assert rows[0].startswith("wave: pass at ")
    assert rows[1].startswith("for first working day after New Year in US: ")
    assert "  pass files: files are enough" in rows
    assert rows[3].strip() == "needed: above 20000; 30000 is above 20000; samples 1.0 s old"
    assert rows[-1] == "Everything on the list is as it must be."


@pytest.mark.parametrize(
    ("values", "bad", "code"),
    [
        ({"room": 100.0}, {"files": "fail"}, 1),
        ({"quota": 1.0}, {"quota": "fail"}, 1),
        ({"begun": 5e9}, {"lock": "fail"}, 1),
        ({"ends": 1.5e9}, {"lock": "fail"}, 1),
        ({"up": 0.0}, {"second": "fail"}, 1),
    ],
)
def test_one_bad_answer_fails_the_list(
    tmp_path: Path,
    two: tuple[StandIn, StandIn],
    values: dict[str, float],
    bad: dict[str, str],
    code: int,
) -> None:
    for each in two:
        say(each, FAR | values)
    path = written(tmp_path, *(each.address for each in two))
    done = run("check", path, "--json")
    said = json.loads(done.stdout)
    assert done.exit_code == code
    wrong = {each["item"]: each["verdict"] for each in said["items"] if each["verdict"] != "pass"}
    assert (said["verdict"], wrong) == ("fail", bad)
    assert {"value", "bound", "reasons", "query", "source", "takenAt"} <= set(said["items"][0])


def test_a_first_that_is_dark_leaves_the_second_and_passes_nothing_of_its_own(
    tmp_path: Path, two: tuple[StandIn, StandIn]
) -> None:
    two[0].answer = lambda _: Told(500)
    path = written(tmp_path, *(each.address for each in two))
    done = run("check", path, "--json")
    said = {each["item"]: each for each in json.loads(done.stdout)["items"]}
    assert done.exit_code == 3
    assert said["second"]["verdict"] == "pass"
    assert said["second"]["reasons"][-1].startswith("the first is dark: ")
    assert {said[name]["kind"] for name in ("files", "quota", "lock")} == {"unreachable"}
    words = run("check", path).stdout.splitlines()
    assert words[-3:] == [
        "Not as it must be, or not known: files, lock, quota.",
        "If nobody acts, the load meets it as it is now.",
        "When it is mended: guardrail season check",
    ]


def test_two_names_of_one_address_stand_in_for_nothing(
    tmp_path: Path, two: tuple[StandIn, StandIn]
) -> None:
    path = written(tmp_path, two[0].address, two[0].address)
    done = run("check", path)
    assert done.exit_code == 1
    assert "when the first is dark, so is the second" in done.stderr
    assert two[0].forms == []


def test_a_name_that_means_nothing_is_refused_before_anything_is_asked(
    tmp_path: Path, two: tuple[StandIn, StandIn]
) -> None:
    path = written(tmp_path, *(each.address for each in two))
    path.write_text(path.read_text().replace("gate: quota}", "gate: qouta}"))
    done = run("check", path)
    assert (done.exit_code, "`quota`" in done.stderr) == (1, True)
    assert run("check", path, "--checklist", "wvae").exit_code == 1
    assert two[0].forms == []


REPORT = unread("wave", 1_796_000_000.0, "there is no Gate `x`")
PASSED = replace(REPORT, verdict="pass", problem="")
STANDINGS = {
    "its time has not come": (
        Standing("wave", False, "", 1_796_050_000.0),
        ["wave: has not been gone through yet", "next: 2026-11-30 14:46+00:00"],
    ),
    "nothing could be asked": (
        Standing("wave", False, "", None, 9.0, REPORT),
        [
            "wave: inconclusive at 2026-11-30 00:53+00:00",
            "  not known: there is no Gate `x`",
            "Not as it must be, or not known: all of it.",
            "If nobody acts, the load meets it as it is now.",
            "When it is mended: guardrail season check",
            "next: never",
        ],
    ),
    "nobody ends it": (
        Standing("wave", True, "we move", 1_796_050_000.0, 9.0, None, "of now: it has not ended"),
        [
            "wave: not known of now: it has not ended",
            "paused: we move; to go on: temporal schedule toggle --unpause -s guardrail-check/wave",
        ],
    ),
}


@pytest.mark.parametrize("name", STANDINGS)
def test_what_is_known_of_a_schedule_in_words(name: str) -> None:
    standing, lines = STANDINGS[name]
    assert standing_lines(standing, Look(zone=UTC)) == lines


@pytest.mark.parametrize(
    ("standing", "verdict"),
    [
        (Standing("w", False, "", None), "inconclusive"),
        (Standing("w", False, "", None, 9.0, PASSED), "pass"),
        (Standing("w", False, "", None, 9.0, PASSED, "late"), "inconclusive"),
        (Standing("w", False, "", None, 9.0, replace(REPORT, verdict="fail"), "late"), "fail"),
    ],
)
def test_an_old_pass_is_none_where_a_later_time_has_not_ended(standing, verdict) -> None:
    assert season._verdict(standing) == verdict


@pytest.mark.parametrize(
    ("begun_at", "verdict"),
    [(PASSED.at - 1.0, "pass"), (PASSED.at + 1.0, "inconclusive"), (None, "inconclusive")],
)
def test_the_journals_report_counts_where_it_is_of_the_last_time(
    begun_at: float | None, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUARDRAIL_JOURNAL", f"file://{tmp_path}/journal")
    standing = Standing("wave", False, "", None, begun_at, None, "of then: let go of")
    assert season._from_journal(standing) == standing  # there is no journal
    for number, made in enumerate(
        (replace(PASSED, at=1.0), PASSED, replace(PASSED, checklist="x"))
    ):
        entry = Entry(CHECKS, EntryId("r", number, 0), made.at, report_record(made))
        journal_at(f"file://{tmp_path}/journal").append([entry])
    found = season._from_journal(standing)
    assert found.report == (PASSED if begun_at is not None else None)
    assert season._verdict(found) == verdict


@pytest.fixture
def fleet() -> Iterator[Target]:
    text = "room 30000\nquota 120\nbegun 1.5e9\nends 6e10\n"
    with target(text) as made:
        yield made


@pytest.mark.real
def test_the_second_real_prometheus_answers_when_the_first_is_dark(
    tmp_path: Path, fleet: Target
) -> None:
    with real_prometheus(tmp_path / "a") as first, real_prometheus(tmp_path / "b") as second:
        first.start(fleet)
        second.start(fleet)
        path = written(tmp_path, first.address, second.address, age="3 scrapes")
        until(lambda: run("check", path).exit_code == 0)
        first.end(signal.SIGKILL)
        done = run("check", path, "--json")
        said = {each["item"]: each for each in json.loads(done.stdout)["items"]}
        assert done.exit_code == 3
        assert (said["second"]["verdict"], said["files"]["verdict"]) == ("pass", "inconclusive")
        assert "the first is dark" in said["second"]["reasons"][-1]
        first.start(fleet)
        second.end(signal.SIGKILL)
        until(lambda: "second" in bad_of(path) and len(bad_of(path)) == 1)


def bad_of(path: Path) -> set[str]:
    """The items that do not pass now."""
    items = json.loads(run("check", path, "--json").stdout)["items"]
    return {each["item"] for each in items if each["verdict"] != "pass"}
