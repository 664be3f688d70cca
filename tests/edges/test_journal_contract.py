"""Every journal, on a disk, in an object store or in memory: one chain, each entry once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest
from journal_parts import T, batch, entry, ids
from temporalio.contrib.pydantic import pydantic_data_converter

from guardrail.decide.chain import check
from guardrail.edges.journal import JournalFolder, JournalObjects, journal_at
from guardrail.errors import Refused, Unanswered
from guardrail.model.journal import (
    Entry,
    EntryId,
    GateTold,
    Head,
    HoldRaised,
    HostAsked,
    HostTold,
    Turned,
)
from guardrail.ports import Journal
from guardrail.twins import TwinJournal

Open = Callable[[], Journal]
"""The same place, opened once more, as another worker would."""


@pytest.fixture(params=["folder", "url", "objects", "twin"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    twin = TwinJournal()
    places = {
        "folder": lambda: journal_at(str(tmp_path / "state" / "journal")),
        "url": lambda: journal_at(f"file://{tmp_path}/journal"),
        "objects": lambda: journal_at(f"memory://{tmp_path.name}/journal"),
        "twin": lambda: twin,
    }
    yield places[request.param]
    fsspec.filesystem("memory").store.clear()


def sound(journal: Journal, operation: str = "op") -> list:
    checked = check(journal.read(operation), operation)
    assert checked.broken is None, str(checked.broken)
    return [line.id for line in checked.lines]


def test_entries_come_back_in_their_order_and_the_head_is_the_last_one(opened: Open) -> None:
    journal = opened()
    first = journal.append(batch(0, 1))
    second = journal.append(batch(2))
    checked = check(journal.read("op"), "op", first)
    assert checked.broken is None
    assert [line.id for line in checked.lines] == ids(batch(0, 1, 2))
    assert [line.record for line in checked.lines] == [one.record for one in batch(0, 1, 2)]
    assert [line.at for line in checked.lines] == [one.at for one in batch(0, 1, 2)]
    assert (first.sequence, checked.head) == (4, second)
    assert check(journal.read("op"), "op", second).broken is None


@pytest.mark.parametrize("again", [False, True])
def test_what_is_recorded_twice_is_there_once(opened: Open, again: bool) -> None:
    journal = opened()
    head = journal.append(batch(0, 1))
    journal = opened() if again else journal
    assert journal.append(batch(0, 1)) == head
    assert journal.append(batch(1)) == head
    later = journal.append([*batch(1), *batch(2), *batch(2)])
    assert sound(journal) == ids(batch(0, 1, 2))
    assert journal.append(batch(0, 2)) == later


def test_the_same_id_with_other_content_is_refused_and_nothing_is_written(opened: Open) -> None:
    journal = opened()
    journal.append([entry(0, reason="exit 4"), entry(1)])
    before = journal.read("op")
    for strange in ([entry(0, reason="exit 5")], [entry(2), entry(0, reason="exit 5")]):
        with pytest.raises(Refused, match="says something else"):
            journal.append(strange)
    with pytest.raises(Refused, match="says something else"):
        journal.append([entry(3, reason="a"), entry(3, reason="b")])
    assert journal.read("op") == before


def test_ids_may_come_in_any_order(opened: Open) -> None:
    journal = opened()
    for events in ((5,), (2,), (9,), (0, 5, 2)):
        journal.append(batch(*events))
    assert sound(journal) == ids(batch(5, 2, 9, 0))


def test_two_operations_of_one_name_are_told_apart_by_their_run(opened: Open) -> None:
    journal = opened()
    journal.append([entry(0, run="first", reason="a")])
    journal.append([entry(0, run="second", reason="b")])
    assert [id_.run for id_ in sound(journal)] == ["first", "second"]


def test_each_operation_has_a_chain_of_its_own(opened: Open) -> None:
    journal = opened()
    assert journal.operations() == ()
    for operation in ("b", "a.jsonl", "a"):
        journal.append([entry(0, op=operation)])
    assert journal.operations() == ("a", "a.jsonl", "b")
    assert len(sound(journal, "a.jsonl")) == 1
    with pytest.raises(Refused, match="no journal of c"):
        journal.read("c")


@pytest.mark.parametrize("events", [[], [entry(0), entry(1, op="other")]])
def test_a_batch_is_of_one_operation(opened: Open, events: list) -> None:
    with pytest.raises(Refused, match="exactly one operation"):
        opened().append(events)


def test_writers_that_take_turns_make_one_chain(opened: Open) -> None:
    one, other = opened(), opened()
    for event in range(0, 10, 2):
        one.append(batch(event))
        other.append(batch(event, event + 1))
    assert sound(one) == ids(batch(*range(10)))
    assert one.append(batch(9)) == other.append(batch(0))


@pytest.mark.parametrize("at", [float("nan"), float("inf"), 1e30])
def test_a_time_that_is_none_is_refused(opened: Open, at: float) -> None:
    good = entry(0)
    with pytest.raises(Refused, match="no time"):
        opened().append([type(good)("op", good.id, at, good.record)])


@pytest.mark.parametrize("name", ["", "../op", "a/b", ".op", "a" * 101, "a\n"])
def test_a_name_is_never_a_path(tmp_path: Path, name: str) -> None:
    for journal in (journal_at(str(tmp_path)), journal_at("memory://names")):
        with pytest.raises(Refused, match="cannot be an operation's name"):
            journal.append([entry(0, op=name)])
        with pytest.raises(Refused, match="cannot be an operation's name"):
            journal.read(name)
    assert not list(tmp_path.iterdir())


def test_entries_go_through_temporal_unchanged(opened: Open) -> None:
    """What a repeated activity is given is the same to the journal as what the first one was."""
    no_evidence = GateTold("margin", "inconclusive", "stale", None, (), True)
    whole = GateTold("margin", "pass", "", 1.0, ("fine",), True)
    told = HostTold(1, 2, "a", "changed", "", 4, (("running", "2"),))
    held = HoldRaised("host:a", ("why",), "a person", hosts=(1, 2), again=True)
    records = (no_evidence, whole, told, held, HostAsked(1, 2, "back"), Turned("back"))
    made = [Entry("op", EntryId("r", n, 0), T + n, one) for n, one in enumerate(records)]
    (payload,) = pydantic_data_converter.payload_converter.to_payloads([made])
    (back,) = pydantic_data_converter.payload_converter.from_payloads([payload], [list[Entry]])
    assert back == made
    assert opened().append(made) == opened().append(back)


# ---------------------------------------------------------------- object stores


def test_another_writers_object_is_never_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one creates its object after we have looked whether there is one."""
    one = journal_at("memory://race/journal")
    assert isinstance(one, JournalObjects)
    one.append(batch(0))
    look, raced = one.system.exists, []

    def exists(path: str) -> bool:
        there = look(path)
        if not raced:
            raced.append(path)
            journal_at("memory://race/journal").append(batch(7))
        return there

    monkeypatch.setattr(one.system, "exists", exists)
    head = one.append(batch(1))
    monkeypatch.undo()
    assert sound(one) == ids(batch(0, 7, 1))
    assert (raced != [], head.sequence) == (True, 6)
    one.system.store.clear()


def test_a_store_that_cannot_create_only_is_looked_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its `pipe_file` takes no mode, and the other writer's object shows late."""
    one = journal_at("memory://late/journal")
    assert isinstance(one, JournalObjects)
    one.append(batch(0))
    journal_at("memory://late/journal").append(batch(7))
    write, read, late = one.system.pipe_file, one.system.cat_file, []

    def cat(path: str) -> bytes:
        if not late:
            late.append(path)
            raise FileNotFoundError(path)
        return read(path)

    monkeypatch.setattr(one.system, "pipe_file", lambda path, data, **_: write(path, data))
    monkeypatch.setattr(one.system, "cat_file", cat)
    one.append(batch(1))
    monkeypatch.undo()
    assert sound(one) == ids(batch(0, 7, 1))
    one.system.store.clear()


def test_a_store_that_fails_is_unanswered_and_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store takes the object and the answer is lost on the way."""
    journal = journal_at("memory://fails/journal")
    assert isinstance(journal, JournalObjects)
    write = journal.system.pipe_file

    def lose(path: str, data: bytes, **how: object) -> None:
        write(path, data, **how)
        raise TimeoutError("nothing within 10 s")

    monkeypatch.setattr(journal.system, "pipe_file", lose)
    with pytest.raises(Unanswered, match="nothing within 10 s"):
        journal.append(batch(0))
    monkeypatch.undo()
    assert journal.append(batch(0, 1)).sequence == 4
    assert sound(journal) == ids(batch(0, 1))
    journal.system.store.clear()


def test_a_place_that_is_none_is_refused() -> None:
    with pytest.raises(Refused, match="no place for a journal"):
        journal_at("nowhere://x")


def test_a_folder_is_a_folder(tmp_path: Path) -> None:
    assert isinstance(journal_at(str(tmp_path)), JournalFolder)
    assert journal_at(str(tmp_path)).append([entry(0)]) == Head(
        1, check((tmp_path / "op.jsonl").read_bytes()).head.hash
    )
