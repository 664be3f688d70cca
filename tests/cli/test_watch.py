"""Following an operation: to its end, through silence, and never a word twice."""

import io
import re
from dataclasses import replace
from datetime import UTC

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from shown import NAME, T, finished, held, plan, running, snapshots

from guardrail.cli.plain import changes, first_lines, new_notes
from guardrail.cli.text import Look
from guardrail.cli.view import Snapshot
from guardrail.cli.watch import LiveScreen, PlainLines, look_of, show_for, watch
from guardrail.errors import Refused, Unanswered
from guardrail.model.operation import Hold, Note

LOOK = Look(zone=UTC)
SILENCE = Unanswered("Temporal", "127.0.0.1:7233", "connection refused")


class Told:
    """A scripted operation: what each question is answered with, and how long was waited."""

    def __init__(self, *answers: Snapshot | Exception) -> None:
        self.answers = list(answers)
        self.waited: list[float] = []

    async def fetch(self) -> Snapshot:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def pause(self, seconds: float) -> None:
        self.waited.append(seconds)


class Terminal(io.StringIO):
    """A pipe, as far as anybody can tell."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"


def later(snapshot: Snapshot, **fields: object) -> Snapshot:
    return replace(snapshot, status=replace(snapshot.status, **fields))


async def lines_of(
    *answers: Snapshot | Exception, until_held: bool = False
) -> tuple[int, list[str]]:
    out, told = Terminal(), Told(*answers)
    show = PlainLines(out, plan(), LOOK, now=lambda: T)
    code = await watch(told.fetch, show, until_held=until_held, pause=told.pause, zone=UTC)
    assert not told.answers
    return code, out.getvalue().splitlines()


async def test_it_ends_with_the_operation():
    assert (await lines_of(running(), finished()))[0] == 0
    assert (await lines_of(running(), finished("aborted")))[0] == 1
    assert (await lines_of(running(), finished("rolled_back")))[0] == 1


async def test_it_asks_about_once_a_second():
    told = Told(running(), running(), finished())
    await watch(told.fetch, PlainLines(Terminal(), look=LOOK), pause=told.pause)
    assert told.waited == [1.0, 1.0]


async def test_a_hold_ends_it_only_when_asked_and_only_a_person_can_help():
    assert (await lines_of(running(), held(), until_held=True))[0] == 1
    assert (await lines_of(running(), held(), finished()))[0] == 0
    by_itself = Hold("evidence:m", T, ("no data",), "evidence back and good for 60 s")
    waits = later(running(), holds=(by_itself,), in_flight=())
    assert (await lines_of(waits, finished(), until_held=True))[0] == 0


async def test_a_hold_waits_for_the_hosts_in_flight():
    flying = later(held(), in_flight=running().status.in_flight)
    assert (await lines_of(flying, held(), until_held=True))[0] == 1


async def test_silence_is_told_once_and_is_not_the_end():
    code, lines = await lines_of(running(), SILENCE, SILENCE, SILENCE, SILENCE, finished())
    told = [line for line in lines if "no worker answers, as of 23:13:20" in line]
    assert len(told) == 1
    assert "connection refused" in told[0]
    assert any("answers again" in line for line in lines)
    assert code == 0


async def test_one_missed_answer_is_no_news():
    _, lines = await lines_of(running(), SILENCE, running(), finished())
    assert not any("answer" in line for line in lines)


async def test_nobody_there_from_the_start_is_an_error():
    told = Told(SILENCE, SILENCE, SILENCE)
    with pytest.raises(Unanswered, match="connection refused"):
        await watch(told.fetch, PlainLines(Terminal()), pause=told.pause)


async def test_a_late_first_answer_is_fine():
    assert (await lines_of(SILENCE, SILENCE, finished()))[0] == 0


async def test_an_operation_that_does_not_exist_ends_it():
    told = Told(Refused("there is no operation x"))
    with pytest.raises(Refused):
        await watch(told.fetch, PlainLines(Terminal()), pause=told.pause)


# ---------------------------------------------------------------- plain lines


async def test_who_comes_while_a_host_is_in_flight_is_told_of_it():
    status = running().status
    (name, *_) = [plan().hosts[host.index].name for host in status.in_flight]
    assert any(f"in flight: {name}" in line for line in first_lines(running(), LOOK, plan()))
    back = later(running(), direction="back")
    assert any(f"goes back: {name}" in line for line in first_lines(back, LOOK, plan()))
    quiet = later(running(), in_flight=())
    assert not any("in flight: " in line for line in first_lines(quiet, LOOK, plan()))


async def test_a_line_a_change_and_no_repeats():
    more = later(running(), changed=13, as_of=T + 5)
    stuck, over = later(held(), as_of=T + 9), later(finished(), as_of=T + 20)
    _, lines = await lines_of(running(), running(), more, more, stuck, stuck, over)
    assert len(lines) == len(set(lines))
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00 \S", line) for line in lines)
    assert lines[0].endswith(f"{NAME}: {running().status.sentence}")
    assert any(line.endswith("13 of 30 hosts changed, 1 in flight") for line in lines)
    assert any("hold gate:margin: 0.83 is not below 0.7" in line for line in lines)
    assert any("gate hit-ratio: inconclusive (stale)" in line for line in lines)
    assert any(line.endswith("guardrail rollout retry consul-1.8.8") for line in lines)
    assert any(line.endswith(" completed: 30 of 30 hosts changed") for line in lines)


def test_the_same_again_is_nothing():
    assert changes(held(), held(), LOOK, plan()) == []
    assert changes(running(), later(running(), as_of=T + 9, baked=3.0), LOOK) == []


def test_a_host_that_begins_is_named():
    flight = (*running().status.in_flight, replace(running().status.in_flight[0], index=13))
    lines = changes(running(), later(running(), in_flight=flight), LOOK, plan())
    assert lines == ["2025-11-29 23:13:20+00:00 begun: cache-014"]


notes = st.lists(st.builds(Note, st.sampled_from([1.0, 2.0]), st.sampled_from("ab")), max_size=8)


@given(notes, notes, st.integers(1, 10))
def test_every_note_is_told_once(before, added, kept):
    # The story keeps its last lines only; here so few that the oldest fall out.
    old = replace(running().status, story=tuple(before[-kept:]))
    new = replace(running().status, story=tuple([*before, *added][-kept:]))
    told = new_notes(old, new)
    assert new.story[len(new.story) - len(told) :] == told
    assert len(told) <= len(added)
    if len(set(before + added)) == len(before + added) <= kept:
        assert told == tuple(added)


@given(snapshots(), snapshots())
@settings(max_examples=25)
def test_a_pipe_never_sees_a_code(before, after):
    lines = [*first_lines(before, LOOK), *changes(before, after, LOOK, plan())]
    assert not [line for line in lines if re.search(r"[\x00-\x1f\x7f-\x9f]", line)]


# ---------------------------------------------------------------- where it is shown


def console(**fields: object) -> Console:
    return Console(file=Terminal(), width=80, height=30, **fields)  # type: ignore[arg-type]


def test_only_a_terminal_that_can_redraw_gets_a_screen(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(show_for(console(force_terminal=True)), LiveScreen)
    assert isinstance(show_for(console()), PlainLines)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(show_for(console(force_terminal=True)), PlainLines)


async def test_the_last_state_stays_on_the_terminal():
    there = console(force_terminal=True)
    told = Told(running(), held(), finished())
    assert await watch(told.fetch, LiveScreen(there, plan()), pause=told.pause) == 0
    text = there.file.getvalue()  # type: ignore[attr-defined]
    *drawn, last = text.split("\x1b[?1049l")
    assert "HELD" in "".join(drawn)
    assert "COMPLETED" in last
    assert "HELD" not in last


def test_a_screen_says_when_nobody_answers():
    there = console(force_terminal=True)
    with LiveScreen(there, plan()) as show:
        show.snapshot(running())
        show.silence("no worker answers, as of 23:13:20")
    assert "no worker answers, as of 23:13:20" in there.file.getvalue().split("\x1b[?1049l")[-1]  # type: ignore[attr-defined]


def test_the_look_follows_the_terminal():
    assert look_of(console()).width == 80
    assert look_of(console()).height == 30
    assert look_of(console(), whole=True).height is None
