"""What a person sees: right at every width, without colour, and first things first."""

import io
import re
from dataclasses import replace
from datetime import UTC

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from shown import T, finished, held, plan, running, snapshots

from guardrail.cli.fleet_view import hosts_section, sign
from guardrail.cli.text import Look, Span, clean, duration, line, plain, roughly, to_rich, wrap
from guardrail.cli.view import (
    Snapshot,
    Trend,
    needs_a_person,
    screen,
    seconds_left,
    stages,
    trend,
    trends_from,
)
from guardrail.model.messages import DomainCount
from guardrail.model.operation import Hold, Note

ESCAPE = "\x1b"


def shown(snapshot, width=80, *, height=None, encoding="utf-8", planned=True, notice=""):
    look = Look(width, height, encoding, UTC)
    return plain(screen(snapshot, look, plan() if planned else None, notice))


BACK_80 = """\
consul-1.8.8  going back                     4 min 12 s so far, about 2 min left
taking back hosts in wave 2 of 4
consul-agent 1.8.7 to 1.8.8

██████████░░░░░░░░░░░░░░░░░░░░░░  4 of 12 hosts back at the former version (33%)
stages  1  [25%, wave 2 of 4, going back]  50%  100%

Hosts  1 excluded by the plan, 1 of them down
  a  ●●◐○······  2 of 10, 1 back, 1 in flight
  b  ●●●○······  3 of 10, 1 back
  c  ●●○○······  2 of 10, 2 back
  ● changed  ◐ in flight  · waiting  ✖ failed  ? unknown  – set aside  ○ back
  ◐ in flight: cache-007 (4 s)
"""


def going_back():
    """Twelve were changed; the last four are back, and cache-007 is on its way."""
    status = running().status
    (flying,) = status.in_flight
    return Snapshot(
        replace(
            status,
            direction="back",
            sentence="taking back hosts in wave 2 of 4",
            wave=1,
            changed=8,
            reverted=4,
            to_take_back=8,
            changed_hosts=f"{0b000011111111:x}",
            reverted_hosts=f"{0b111100000000:x}",
            in_flight=(replace(flying, index=6, name=""),),
            domains=tuple(
                replace(c, changed=n, in_flight=f, reverted=r)
                for c, n, f, r in zip(status.domains, (2, 3, 2), (1, 0, 0), (1, 1, 2), strict=True)
            ),
            gates=(),
            story=(),
        )
    )


def test_going_back_is_shown_as_that():
    assert "\n".join(shown(going_back())) + "\n" == BACK_80
    ended = Snapshot(replace(going_back().status, phase="rolled_back", in_flight=()))
    assert "stages  1  25%  50%  100%" in "\n".join(shown(ended))
    assert "ROLLED BACK" in "\n".join(shown(ended))


def test_a_wave_that_was_taken_back_waits_for_a_person():
    wave = Hold("rollback:wave", T, ("it is back",), "rollback --scope all, or abort")
    assert needs_a_person(replace(going_back().status, holds=(wave,)))


RUNNING_80 = """\
consul-1.8.8  changing                       4 min 12 s so far, about 3 min left
changing hosts in wave 3 of 4 (to 50%); 12 of 30 hosts changed, 1 in flight
consul-agent 1.8.7 to 1.8.8

████████████████░░░░░░░░░░░░░░░░░░░░░░░░  12 of 30 hosts (40%)
stages  1 ✓  25% ✓  [50%, wave 3 of 4]  100%

Hosts  1 excluded by the plan, 1 of them down
  a  ●●●●◐·····  4 of 10, 1 in flight
  b  ●●●●······  4 of 10
  c  ●●●●······  4 of 10
  ● changed  ◐ in flight  · waiting  ✖ failed  ? unknown  – set aside
  ◐ in flight: cache-013 (4 s)

Gates
  ✓ pass  margin             ▁▁▁▁  0.31  below 0.7
  ✓ pass  hit-ratio             █  0.98  above 0.6

Story  times at +00:00
  23:11:50  started
  23:12:40  wave 3 of 4 begins (to 50%)"""

HELD_40 = """\
consul-1.8.8  HELD
4 min 12 s so far, held
held on gate:margin, host:cache-011; 10
  of 30 hosts changed, 0 in flight
consul-agent 1.8.7 to 1.8.8

! gate:margin since 23:12:38 (42 s)
    0.83 is not below 0.7, in 2 samples
      in a row
    ends by: a person (resume), once the
      gate passes
! host:cache-011 since 23:13:00 (20 s)
    cache-011 is unknown: no answer from
      127.0.20.20 port 2222 in 30 s
    ends by: a person: retry

If nobody acts nothing more is changed.
-> guardrail rollout retry consul-1.8.8

######------------  10 of 30 hosts (33%)
stages  1 +  25% +  [50%, wave 3 of 4]
        100%"""


def test_a_running_operation_on_80_columns():
    assert shown(running()) == RUNNING_80.splitlines()


def test_a_held_operation_on_40_columns_in_ascii():
    text = "\n".join(shown(held(), 40, encoding="ascii"))
    assert text.startswith(HELD_40)
    assert text.isascii()


def test_what_is_held_and_what_to_do_come_before_the_rest():
    rows = shown(held(), 120, notice="no worker answers, as of 23:13:00")
    first = [
        next(n for n, row in enumerate(rows) if word in row)
        for word in (
            "no worker answers",
            "HELD",
            "gate:margin since",
            "rollout retry",
            "stages",
            "Hosts",
            "Gates",
        )
    ]
    assert first == sorted(first)
    assert first[0] == 0


@pytest.mark.parametrize("height", [24, 30, 40])
def test_a_low_screen_keeps_what_matters_and_fits(height):
    rows = shown(held(), 80, height=height)
    assert len(rows) <= height
    assert any("guardrail rollout retry" in row for row in rows)
    assert any("FAIL" in row and "margin" in row for row in rows)


def test_a_very_low_screen_says_that_there_is_more():
    rows = shown(held(), 40, height=6)
    assert len(rows) == 6
    assert rows[0].startswith("consul-1.8.8  HELD")
    assert "more lines on a higher screen" in rows[-1]


def test_every_host_keeps_its_place():
    rows = shown(held())
    assert (
        next(row for row in rows if row.startswith("  b ")) == "  b  ●●●?······  3 of 10, 1 unknown"
    )
    assert next(row for row in rows if row.startswith("  c ")).startswith("  c  ●–●●······")


def test_without_a_plan_domains_and_hosts_have_numbers():
    rows = shown(running(), planned=False)
    assert "  domain 0  ●●●●◐·····  4 of 10, 1 in flight" in rows
    assert "  ◐ in flight: host 13 (4 s)" in rows


def test_names_are_shown_in_full():
    long = "cache-with-a-very-long-name-" * 4
    snapshot = running()
    status = snapshot.status
    flight = (replace(status.in_flight[0], name=long),)
    rows = shown(Snapshot(replace(status, in_flight=flight, operation=long)), 40)
    assert "".join(row.strip() for row in rows).count(long) == 2


def test_a_large_fleet_is_bars_and_many_domains_are_summed_up():
    status = running().status
    domains = [DomainCount(n, 100, 50, 0, 0, 0, 0) for n in range(40)]
    domains[33] = DomainCount(33, 100, 50, 0, 0, 2, 0)
    status = replace(status, hosts=4000, changed=2000, domains=tuple(domains))
    rows = plain(hosts_section(status, None, Look(80), brief=False))
    assert "  domain 33  ██████████░░░░░░░░░░  50 of 100, 2 unknown" in rows
    assert "  and 24 more failure domains: 1,200 of 2,400 hosts changed" in rows


def test_the_bar_is_full_only_at_the_end():
    almost = replace(running().status, hosts=100_000, changed=99_999)
    assert "░  99,999 of 100,000 hosts (99%)" in "\n".join(shown(Snapshot(almost)))
    assert "░" not in "\n".join(shown(finished()))


def test_states_differ_without_colour():
    for look in (Look(80), Look(80, encoding="ascii")):
        states = ("changed", "in flight", "waiting", "failed", "unknown", "set aside")
        assert len({sign(state, look) for state in states}) == len(states)


def test_a_hold_shared_by_many_hosts_does_not_fill_the_screen():
    many = Hold("host:x", T, tuple(f"cache-{n} is unknown" for n in range(500)), "a person: retry")
    rows = shown(Snapshot(replace(held().status, holds=(many,))))
    assert any("and 496 more reasons" in row for row in rows)
    assert len(rows) < 60


# ---------------------------------------------------------------- gates


def test_readings_beyond_the_bound_stand_out():
    drawn = trend((0.1, 0.3, 0.7, 0.9), "below 0.7", Look())
    levels = [Look().symbols.trend.index(letter) for letter in drawn]
    assert levels == sorted(set(levels))


def test_a_missing_reading_is_a_gap():
    assert trend((1.0, None, float("nan"), 1.0), "above 0.5", Look())[1:3] == "╌╌"


def test_a_gate_that_was_not_judged_does_not_look_like_a_pass():
    status = running().status
    gates = (replace(status.gates[0], judgement=None),)
    row = next(row for row in shown(Snapshot(replace(status, gates=gates))) if "margin" in row)
    assert "not judged" in row
    assert "pass" not in row


def test_missing_evidence_has_its_kind():
    assert any("stale: the sample is 14 s old" in row for row in shown(held()))


def test_trends_come_from_heartbeat_details():
    record = {"gate": "margin", "verdict": "fail", "kind": None, "values": [0.5, None, 1]}
    known = (Trend("margin", "fail", None, (0.5, None, 1.0)),)
    assert trends_from([[record]]) == trends_from([record]) == trends_from(known) == known
    strange = ["x", 3, {"gate": "a"}, {"gate": "a", "values": "no"}, None]
    assert trends_from(strange) == ()


# ---------------------------------------------------------------- time


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (252, "4 min 12 s"), (3900, "1 h 05 min"), (180_000, "2 d 2 h")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_a_guess_is_no_finer_than_it_is_good_for():
    assert [roughly(s) for s in (10, 61, 3599, 3700)] == [
        "under 1 min",
        "2 min",
        "1 h 00 min",
        "1 h 10 min",
    ]


def test_time_left_counts_bakes_and_hosts():
    # 18 of 30 hosts left at (300 - 4 x 20) / 30 s each, and the bakes of waves 3 and 4.
    assert seconds_left(running().status, plan()) == pytest.approx(18 * 220 / 30 + 40)


def test_a_held_operation_promises_no_end():
    assert any("so far, held" in row for row in shown(held()))


def test_a_stage_of_several_waves_is_passed_at_its_last():
    waves = (*plan().waves[:2], replace(plan().waves[2], stage="25%"), plan().waves[3])
    status = replace(running().status, waves=waves, wave=2)
    words = "".join(span.text for span in stages(status, Look()))
    assert words == "stages  1 ✓  [25%, wave 3 of 4]  100%"


def test_who_must_act():
    def with_hold(name, clears):
        return replace(running().status, holds=(Hold(name, T, (), clears),))

    assert needs_a_person(with_hold("gate:m", "a person (resume), once the gate passes"))
    assert needs_a_person(with_hold("approval:start", "1 more people"))
    assert needs_a_person(with_hold("operator:ana", "ana (resume)"))
    assert not needs_a_person(with_hold("gate:m", "evidence good for 60 s"))
    assert not needs_a_person(with_hold("evidence:m", "evidence back and good for 60 s"))
    assert not needs_a_person(running().status)


# ---------------------------------------------------------------- any text, any screen


@given(
    snapshots(), st.integers(20, 130), st.sampled_from(["utf-8", "ascii", "latin-1"]), st.booleans()
)
@settings(max_examples=60)
def test_nothing_is_ever_wider_than_the_screen(snapshot, width, encoding, planned):
    rows = shown(snapshot, width, encoding=encoding, planned=planned)
    assert all(cell_len(row) <= width for row in rows)
    assert all(ESCAPE not in row and "\n" not in row for row in rows)
    "\n".join(rows).encode(encoding)


@given(snapshots(), st.integers(4, 40))
@settings(max_examples=30)
def test_nothing_is_ever_higher_than_the_screen(snapshot, height):
    assert len(shown(snapshot, 60, height=height)) <= height


@given(st.lists(st.text(), max_size=5), st.integers(20, 60), st.integers(0, 8))
def test_wrapping_loses_no_letter(texts, width, hang):
    look = Look(width)
    row = tuple(Span(clean(text, look)) for text in texts)
    rows = wrap(row, width, hang)
    assert all(cell_len(words) <= width for words in plain(rows))
    kept = re.sub(r"\s", "", "".join(plain(rows)))
    assert kept == re.sub(r"\s", "", "".join(plain([row])))


def test_a_hosts_output_cannot_speak_to_the_terminal():
    evil = Note(T, "cache-1: failed, \x1b[2J\x1b]0;owned\x07 \u202egnp.exe\r\nnext")
    text = "\n".join(shown(Snapshot(replace(running().status, story=(evil,)))))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert r"\x1b[2J" in text


def test_colour_adds_nothing_but_colour():
    rows = screen(held(), Look(80, zone=UTC), plan())
    colours, none = io.StringIO(), io.StringIO()
    Console(file=colours, force_terminal=True, width=80, color_system="standard").print(
        to_rich(rows), end=""
    )
    Console(file=none, force_terminal=True, width=80, no_color=True).print(to_rich(rows), end="")
    bare = re.sub(r"\x1b\[[0-9;]*m", "", colours.getvalue())
    assert ESCAPE in colours.getvalue()
    assert [row.rstrip() for row in bare.splitlines()] == plain(rows)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", none.getvalue())


def test_a_line_is_made_of_words_and_spans():
    assert plain([line("a ", Span("b", "bad"))]) == ["a b"]
