"""Does a message about a checklist say what is wrong, how it stands and what to do?"""

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide.chain import Tip, check, extend
from guardrail.decide.check_words import (
    MOST,
    message,
    report_of,
    report_record,
    sentence,
    taken_out,
)
from guardrail.decide.checking import unread, worst
from guardrail.model.check import CheckTask
from guardrail.model.checklist import Checked, Report
from guardrail.model.journal import CHECKS, Entry, EntryId
from guardrail.model.occasion import Moment

AT = datetime.fromisoformat("2027-01-04T09:00-08:00").timestamp()
PEAK = Moment("2027", AT + 3600.0, AT + 90_000.0, -480, "back to work", "America/Los_Angeles")
TASK = CheckTask("season", "America/Los_Angeles", ("oncall", "network"))
ROOM = Checked(
    "room", "there is room", "value", "fail", None, 3.0, "above 5", ("3 is not above 5",), "q",
    "http://p", AT,
)  # fmt: skip
LOCK = replace(ROOM, item="lock", title="locked", part="until", bound="locked until x at least")
DARK = replace(
    ROOM, item="quota", title="the quota", verdict="inconclusive", kind="unreachable", value=None,
    reasons=("http://p: refused",),
)  # fmt: skip
FINE = replace(ROOM, item="fine", verdict="pass", value=9.0, reasons=("9 is above 5",))


def report(*items: Checked, peak: Moment | None = None) -> Report:
    return Report("season", AT, worst(each.verdict for each in items), peak, items)


def test_what_fails_is_said_word_by_word() -> None:
    said = message(TASK, report(ROOM, FINE, DARK, LOCK, peak=PEAK), owed=False)
    assert said is not None
    assert (said.kind, said.about, said.cause) == ("check", "season", "check:season")
    assert (said.to, said.at) == (("oncall", "network"), AT)
    assert said.subject == "season: FAIL: room, lock; not known: quota"
    assert said.lines == (
        "season: gone through at 2027-01-04 09:00 UTC-08:00 (America/Los_Angeles).",
        "It is for: back to work, 2027-01-04 10:00 UTC-08:00 (America/Los_Angeles).",
        "- room: there is room: FAIL; needed: above 5; 3 is not above 5",
        "- quota: the quota: not known (unreachable); needed: above 5; http://p: refused",
        "- lock (until): locked: FAIL; needed: locked until x at least; 3 is not above 5",
        "State: FAIL: room, lock; not known: quota.",
        "If nobody acts: the load meets it as it is now; it is said again at the list's next time.",
        "guardrail season report season",
    )


def test_nothing_could_be_asked() -> None:
    said = message(TASK, unread("season", AT, "there is no Gate `x`"), owed=True)
    assert said is not None
    assert said.subject == "season: not known: there is no Gate `x`"
    assert said.lines[1] == "State: not known: there is no Gate `x`."


def test_passing_again_is_said_and_passing_is_not() -> None:
    assert message(TASK, report(FINE), owed=False) is None
    said = message(TASK, report(FINE, FINE), owed=True)
    assert said is not None
    assert said.subject == "season: passes again"
    assert said.lines[1:] == (
        "State: everything on the list passes again (2 readings).",
        "If nobody acts: nothing more is said as long as it passes.",
        "guardrail season report season",
    )


def test_one_that_was_taken_out() -> None:
    said = taken_out(TASK, AT)
    assert said.subject == "season: it is not gone through any more"
    assert said.lines[-1] == "guardrail season report"
    assert said.lines[-2].startswith("If nobody acts: ")


def test_a_long_list_is_told_as_far_as_it_can_be_read() -> None:
    many = [replace(ROOM, item=f"room-{n}") for n in range(MOST + 5)]
    said = message(TASK, report(*many), owed=False)
    assert said is not None
    assert sum(line.startswith("- ") for line in said.lines) == MOST + 1
    assert said.lines[MOST + 1] == "- and 5 more"


def test_an_item_with_a_reading_of_each_kind_fails() -> None:
    both = (replace(LOCK, verdict="inconclusive", kind="stale"), LOCK)
    assert sentence(report(*both)) == "FAIL: lock"


VERDICTS = st.sampled_from([ROOM, DARK, FINE])


@given(st.lists(VERDICTS, max_size=6), st.booleans())
def test_it_is_quiet_only_where_all_passes_and_passed_before(items, owed) -> None:
    found = report(*items)
    said = message(TASK, found, owed=owed)
    passes = bool(items) and all(each.verdict == "pass" for each in items)
    assert (said is None) == (passes and not owed)
    if said is not None:
        state, idle, command = said.lines[-3:]
        assert state.startswith("State: ")
        assert idle.startswith("If nobody acts: ")
        assert command.startswith("guardrail season ")


@pytest.mark.parametrize("peak", [None, replace(PEAK, known_by=("holidays 0.1",))])
def test_the_journal_gives_back_what_it_was_given(peak: Moment | None) -> None:
    made = report(ROOM, DARK, replace(FINE, value=float("inf")), peak=peak)
    entry = Entry(CHECKS, EntryId("r", 0, 0), AT, report_record(made))
    (line,) = check(extend(Tip(), [entry])[0], CHECKS).lines
    kept = (*made.items[:2], replace(made.items[2], value=None))
    assert report_of(line.record, line.at) == replace(made, items=kept)
