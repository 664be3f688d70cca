"""Do calendars of other people close a policy's windows? Is an unread one no open time?"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from guardrail.decide.calendar import closed_at, expand, fits, next_close, shut_at
from guardrail.errors import InvalidFile
from guardrail.files import load
from guardrail.files.loader import survey
from guardrail.model.policy import Policy

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
NIGHT = TODAY + timedelta(days=3, hours=22)
HOUR = 3600.0

POLICY = """\
apiVersion: guardrail/v1
kind: Policy
metadata: {name: payments}
spec:
  match: {}
  windows:
    timezone: Pacific/Auckland
    deny:
      - ENTRY
    rollback: same
"""
ENTRY = "{calendar: payments.ics, settleBefore: 30m, reason: closing}"


def event(begin: str, *more: str) -> str:
    body = "\n".join(("UID:closing@payments", begin, *more))
    calendar = f"VERSION:2.0\nPRODID:-//p//EN\nBEGIN:VEVENT\n{body}\nEND:VEVENT"
    return f"BEGIN:VCALENDAR\n{calendar}\nEND:VCALENDAR\n"


NIGHTLY = event(f"DTSTART:{NIGHT:%Y%m%dT%H%M%SZ}", "DURATION:PT6H", "RRULE:FREQ=DAILY")


def policy(folder: Path, text: str | None, entry: str = ENTRY) -> Policy:
    (folder / "policy.yaml").write_text(POLICY.replace("ENTRY", entry))
    if text is not None:
        (folder / "payments.ics").write_text(text)
    return load([folder]).policy("payments")


def test_its_events_close_with_the_time_to_settle(tmp_path: Path) -> None:
    found = policy(tmp_path, NIGHTLY)
    assert found.windows is not None
    (window,) = found.windows.deny
    assert str(window) == "as payments.ics says"
    calendar = expand([found.windows], TODAY.timestamp())
    assert calendar is not None
    assert 56 <= len(calendar.closed) <= 58
    first = NIGHT.timestamp()
    assert next_close(calendar, TODAY.timestamp()) == first - 0.5 * HOUR
    shut = shut_at(calendar, first)
    assert shut is not None
    assert shut.opens_at == first + 6 * HOUR
    (why,) = closed_at(calendar, first)
    assert str(calendar.rules[why.by]) == "closing"
    assert calendar.rules[why.by].binds_back


def test_no_host_begins_that_would_not_be_done_before(tmp_path: Path) -> None:
    found = policy(tmp_path, NIGHTLY)
    assert found.windows is not None
    calendar = expand([found.windows], TODAY.timestamp())
    assert calendar is not None
    closes = NIGHT.timestamp() - 0.5 * HOUR
    assert fits(calendar, closes - HOUR, HOUR - 1)
    assert not fits(calendar, closes - HOUR, HOUR)


def test_its_days_are_those_of_the_policys_zone(tmp_path: Path) -> None:
    day = (TODAY + timedelta(days=5)).date()
    found = policy(tmp_path, event(f"DTSTART;VALUE=DATE:{day:%Y%m%d}"))
    assert found.windows is not None
    ((since, until),) = found.windows.deny[0].spans
    assert until - since == 24 * HOUR
    begins = datetime.fromtimestamp(since, UTC)
    assert begins.date() == day - timedelta(days=1)
    assert begins.hour in (11, 12)


def test_what_is_in_it_is_part_of_the_digest(tmp_path: Path) -> None:
    one = policy(tmp_path, NIGHTLY)
    assert policy(tmp_path, NIGHTLY).digest == one.digest
    assert policy(tmp_path, NIGHTLY.replace("PT6H", "PT5H")).digest != one.digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "policy.yaml:9:20: the calendar `payments.ics` cannot be read: there is no such"),
        (NIGHTLY[:-15], "payments.ics:1:1: BEGIN:VCALENDAR has no END: the file is cut off"),
        (NIGHTLY.replace("DURATION:PT6H", "DURATION:PT0H"), "payments.ics:4:1: this event has no"),
    ],
)
def test_one_that_cannot_be_read_makes_the_policy_invalid(
    tmp_path: Path, text: str | None, said: str
) -> None:
    with pytest.raises(InvalidFile) as refused:
        policy(tmp_path, text)
    assert said in str(refused.value)
    found = survey([tmp_path])
    assert found.documents.policies == ()
    assert said in "\n".join(map(str, found.faults))


def test_a_pipe_is_no_calendar(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "payments.ics")
    with pytest.raises(InvalidFile, match="there is no such file"):
        policy(tmp_path, None)


@pytest.mark.parametrize(
    "entry",
    [
        "{calendar: payments.ics, days: sat}",
        '{calendar: payments.ics, from: "05:30", to: "10:00"}',
        "{calendar: payments.ics, dates: [2026-12-18]}",
        "{calendar: payments.ics, peak: true}",
    ],
)
def test_a_calendar_says_when_by_itself(tmp_path: Path, entry: str) -> None:
    with pytest.raises(InvalidFile, match="it says when by itself"):
        policy(tmp_path, NIGHTLY, entry)
