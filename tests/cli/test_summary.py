"""The page that is kept: how it ended, what was left out, and nothing that Markdown acts upon."""

from dataclasses import replace
from datetime import UTC

import pytest
from hypothesis import given, settings
from shown import T, finished, held, plan, running, snapshots

from guardrail.cli.summary import newest, safe, summary
from guardrail.edges.temporal import Known
from guardrail.errors import Refused
from guardrail.model.operation import Note


def page(snapshot, planned=True):
    return summary(snapshot.status, plan() if planned else None, UTC)


def test_a_completed_operation():
    text = page(finished())
    assert text.startswith("# consul-1.8.8: completed\n\n30 of 30 hosts changed.\n")
    for row in (
        "| Hosts | 30 of 30 changed |",
        "| Change | consul-agent 1.8.7 to 1.8.8 on fleet cache |",
        "| Asked for by | ana (unverified) |",
        "| Ended | 2025-11-29 23:13:20+00:00 |",
        "| Took | 4 min 12 s, 5 min 00 s expected |",
        "| margin | below 0.7 | pass | 0.31 | fine |",
        "| 4 | to 100% | 15 hosts | done |",
        "| unavailable | 3 hosts | 10% | policy cache (policies/cache.yaml:12) |",
        "- 23:11:50 started",
    ):
        assert row in text.splitlines()
    assert "Held on" not in text
    assert "Hosts that were changed" not in text


def test_an_aborted_operation_names_what_was_done_and_what_was_not():
    status = replace(held().status, phase="aborted", holds=(), finished_at=T)
    text = summary(status, plan(), UTC)
    assert "10 of 30 changed, 1 unknown, 1 set aside, 18 not changed" in text
    assert "| cache-011 | unknown | no answer from 127.0.20.20 port 2222 in 30 s |" in text
    changed = text.split("## Hosts that were changed\n\n")[1].splitlines()[0].split(", ")
    assert changed == [f"cache-{n:03d}" for n in range(1, 13) if n not in (6, 11)]
    assert "| 3 | to 50% | 8 hosts | in it |" in text
    assert "| 4 | to 100% | 15 hosts | not begun |" in text


def test_a_held_operation_says_on_what():
    text = page(held())
    assert "## Held on" in text
    assert "a person (resume), once the gate passes" in text


def test_text_from_elsewhere_stays_text():
    evil = "x | y <script> `z` [a](b) \x1b[2J\nnext"
    status = replace(running().status, story=(Note(T, evil),), operation=evil)
    text = summary(status, plan(), UTC)
    assert "\x1b" not in text
    assert r"\<script\>" in text
    assert r"x \| y" in text
    assert safe("a_b") == r"a\_b"


@given(snapshots())
@settings(max_examples=40)
def test_it_can_always_be_written(snapshot):
    for text in (page(snapshot), page(snapshot, planned=False)):
        assert text.startswith("# ")
        assert "\x1b" not in text


class Listed:
    """Temporal's list of operations."""

    def __init__(self, *known: Known) -> None:
        self.known = known

    async def all(self, ended: int) -> tuple[Known, ...]:
        over = [known for known in self.known if not known.open]
        return (*(known for known in self.known if known.open), *over[:ended])


def known(name: str, *, is_open: bool) -> Known:
    return Known(name, "", "running", False, is_open, "", "cache", T, None)


async def test_without_a_name_the_open_or_the_last_one_is_meant():
    old, older = known("b", is_open=False), known("a", is_open=False)
    assert await newest(Listed(known("c", is_open=True), old)) == "c"
    assert await newest(Listed(old, older)) == "b"
    with pytest.raises(Refused, match="name one: c, d"):
        await newest(Listed(known("c", is_open=True), known("d", is_open=True)))
    with pytest.raises(Refused, match="rollout start"):
        await newest(Listed())
