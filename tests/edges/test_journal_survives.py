"""A journal on a disk survives its writers: kills at any moment, full disks, other writers."""

import errno
import fcntl
import logging
import os
import random
import resource
import signal
import stat
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_parts import batch, child, ended, entry, heard, ids, kill

from guardrail.decide.chain import check
from guardrail.edges import journal as module
from guardrail.edges.journal import JournalFolder
from guardrail.errors import Refused, Unanswered
from guardrail.model.journal import EntryId


def sound(folder: Path) -> list[EntryId]:
    checked = check((folder / "op.jsonl").read_bytes(), "op")
    assert checked.broken is None, str(checked.broken)
    return [line.id for line in checked.lines]


@pytest.fixture
def small(tmp_path: Path) -> tuple[Path, bytes]:
    """A journal of six lines, and its bytes."""
    JournalFolder(tmp_path).append(batch(0, 1, 2))
    return tmp_path / "op.jsonl", (tmp_path / "op.jsonl").read_bytes()


# ---------------------------------------------------------------- torn ends


def test_it_goes_on_from_a_cut_at_any_byte(
    small: tuple[Path, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = small
    torn_path = path.with_name("op.jsonl.torn")
    monkeypatch.setattr(
        os, "fsync", lambda _: None
    )  # 2,000 journals; what is synced is another test
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        torn_path.unlink(missing_ok=True)
        head = JournalFolder(path.parent).append(batch(0, 1, 2, 3))
        torn = whole[:cut].rpartition(b"\n")[2]
        assert sound(path.parent) == ids(batch(0, 1, 2, 3))
        assert path.read_bytes().startswith(whole), cut
        assert head.sequence == 8
        assert (torn_path.read_bytes() if torn else b"") == (torn + b"\n" if torn else b"")


def test_a_torn_end_is_told_and_kept(
    small: tuple[Path, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    path, whole = small
    path.write_bytes(whole[:-40])
    broken = check(path.read_bytes()).broken
    assert broken is not None
    assert (broken.line, broken.wrong) == (6, "torn")
    journal = JournalFolder(path.parent)
    with caplog.at_level(logging.WARNING, "guardrail.journal"):
        journal.append(batch(3))
    assert "torn bytes" in caplog.text
    assert "op.jsonl.torn" in caplog.text
    assert journal.torn("op") == len(whole) - len(whole[:-40].rpartition(b"\n")[0]) - 40
    assert sound(path.parent) == [*ids(batch(0, 1, 2))[:5], *ids(batch(3))]
    assert journal.operations() == ("op",)


def test_a_torn_end_of_another_writer_is_mended_while_ours_goes_on(
    small: tuple[Path, bytes],
) -> None:
    path, whole = small
    journal = JournalFolder(path.parent)
    journal.append(batch(3))
    with path.open("ab") as file:
        file.write(whole[:100])
    journal.append(batch(4))
    assert sound(path.parent) == ids(batch(0, 1, 2, 3, 4))


def test_nothing_is_chained_to_a_last_line_that_was_changed(small: tuple[Path, bytes]) -> None:
    path, whole = small
    path.write_bytes(whole[:-30] + b"0" + whole[-29:])
    with pytest.raises(Refused, match="last line does not have the hash"):
        JournalFolder(path.parent).append(batch(3))


def test_a_file_that_lost_what_we_wrote_is_refused(small: tuple[Path, bytes]) -> None:
    path, whole = small
    journal = JournalFolder(path.parent)
    journal.append(batch(3))
    path.write_bytes(whole)  # whole lines, so nothing looks torn
    with pytest.raises(Refused, match="has lost its lines up to 8:"):
        journal.append(batch(4))
    path.unlink()
    with pytest.raises(Refused, match="has lost its lines"):
        journal.append(batch(4))


def test_a_file_that_was_copied_back_whole_is_gone_on_with(small: tuple[Path, bytes]) -> None:
    path, _ = small
    journal = JournalFolder(path.parent)
    journal.append(batch(3))
    other = path.with_name("copy")
    other.write_bytes(path.read_bytes())
    other.replace(path)
    journal.append(batch(4))
    assert sound(path.parent) == ids(batch(0, 1, 2, 3, 4))


def test_a_file_that_is_replaced_while_we_wait_for_its_lock_is_left_alone(
    small: tuple[Path, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = small
    lock, waited = module._lock, []

    def replaced(fd: int, until: float) -> None:
        if not waited:
            path.rename(path.with_name("moved"))
            path.write_bytes(whole)
        waited.append(fd)
        lock(fd, until)

    monkeypatch.setattr(module, "_lock", replaced)
    JournalFolder(path.parent).append(batch(3))
    assert len(waited) == 2
    assert path.with_name("moved").read_bytes() == whole
    assert sound(path.parent) == ids(batch(0, 1, 2, 3))


# ---------------------------------------------------------------- kills


def write_on(folder: Path, start: int, pipe: int) -> None:
    """Append without end, and say what was answered for."""
    journal, rng, at = JournalFolder(folder), random.Random(start), start
    while True:
        size = rng.choice([1, 3, 40])
        again = max(0, at - rng.choice([0, 0, 2]))
        journal.append(batch(*range(again, at + size)))
        at += size
        os.write(pipe, f"{at}\n".encode())


def die_writing(seed: int) -> None:
    """From now on: kill -9 of this process in the middle of some write, or just around a sync.

    The disk takes some bytes at a time, as it may; a write in one piece is hardly ever torn.
    """
    rng, write, sync, cut = random.Random(seed), os.pwrite, os.fsync, os.ftruncate

    def maybe(odds: float) -> None:
        if rng.random() < odds:
            os.kill(os.getpid(), signal.SIGKILL)

    def pwrite(fd: int, data: bytes, at: int) -> int:
        done = write(fd, data[: rng.randint(1, 600)], at)
        maybe(0.05)
        return done

    def fsync(fd: int) -> None:
        maybe(0.05)
        sync(fd)
        maybe(0.05)

    def ftruncate(fd: int, size: int) -> None:
        maybe(0.1)
        cut(fd, size)
        maybe(0.1)

    os.pwrite, os.fsync, os.ftruncate = pwrite, fsync, ftruncate


def nothing_lost_or_doubled(folder: Path, answered: int) -> None:
    JournalFolder(folder).append(batch(answered))
    there = sound(folder)
    assert len(there) == len(set(there))
    assert there[: 2 * answered] == ids(batch(*range(answered)))


def test_kill_9_at_random_moments_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rng, at, kills = random.Random(7), 0, 60
    for _ in range(kills):
        begin = at
        pid, pipe = child(lambda out, begin=begin: write_on(tmp_path, begin, out))
        time.sleep(rng.uniform(0.0, 0.03))  # the moment of the kill is what is varied
        kill(pid)
        answered = heard(pipe).split()
        at = int(answered[-1]) if answered else at
    assert at > kills
    nothing_lost_or_doubled(tmp_path, at)


def test_kill_9_in_the_middle_of_writes_loses_and_doubles_nothing(tmp_path: Path) -> None:
    at, torn = 0, 0
    for seed in range(120):

        def write(pipe: int, seed: int = seed, begin: int = at) -> None:
            die_writing(seed)
            write_on(tmp_path, begin, pipe)

        pid, pipe = child(write)
        assert ended(pid) == -signal.SIGKILL
        answered = heard(pipe).split()
        at = int(answered[-1]) if answered else at
        path = tmp_path / "op.jsonl"
        torn += path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")
    assert torn > 20
    assert at > 120
    nothing_lost_or_doubled(tmp_path, at)


# ---------------------------------------------------------------- several writers


def test_two_workers_at_once_make_one_chain(tmp_path: Path) -> None:
    """Each has entries of its own, and both record the same ones (a repeated activity)."""

    def write(run: str, other: str, pipe: int) -> None:
        journal, event, met = JournalFolder(tmp_path), 0, False
        while event < 40 or (not met and event < 5_000):
            journal.append([*batch(event, run=run), *batch(event, run="both")])
            met = met or f'"run":"{other}"'.encode() in journal.read("op")
            event += 1
        os.write(pipe, f"{event} {met}".encode())

    runs = (("a", "b"), ("b", "a"))
    children = [child(lambda out, two=two: write(*two, out)) for two in runs]
    assert [ended(pid) for pid, _ in children] == [0, 0]
    told = [heard(pipe).decode().split() for _, pipe in children]
    assert [met for _, met in told] == ["True", "True"], "they did not write at the same time"
    there = sound(tmp_path)
    wrote = {run: int(events) for (run, _), (events, _) in zip(runs, told, strict=True)}
    for run, events in (*wrote.items(), ("both", max(wrote.values()))):
        assert [id_ for id_ in there if id_.run == run] == ids(batch(*range(events), run=run))
    assert len(there) == len(set(there))


def test_a_writer_that_never_lets_go_is_an_answer_not_a_hang(
    small: tuple[Path, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = small
    monkeypatch.setattr(module, "LOCKED_WITHIN", 0.05)
    with path.open("rb") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        with pytest.raises(Unanswered, match="is a worker stopped"):
            JournalFolder(path.parent).append(batch(3))
        assert JournalFolder(path.parent).read("op") == whole
    assert path.read_bytes() == whole
    JournalFolder(path.parent).append(batch(3))


def test_an_append_under_way_is_never_read_as_torn(tmp_path: Path) -> None:
    def write(pipe: int) -> None:
        slow, journal = os.pwrite, JournalFolder(tmp_path)
        os.pwrite = lambda fd, data, at: slow(fd, data[:3], at)
        for event in range(40):
            journal.append(batch(event))
            os.write(pipe, b".")

    pid, pipe = child(write)
    assert os.read(pipe, 1) == b"."
    lines, state = 0, Path(f"/proc/{pid}/stat")
    while lines < 80 and state.read_text().rpartition(")")[2].split()[0] != "Z":
        checked = check(JournalFolder(tmp_path).read("op"))
        assert checked.broken is None, str(checked.broken)
        lines = len(checked.lines)
    assert ended(pid) == 0
    heard(pipe)
    assert sound(tmp_path) == ids(batch(*range(40)))


# ---------------------------------------------------------------- disks


def test_a_full_disk_is_unanswered_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    def fill(pipe: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        journal, event = JournalFolder(tmp_path), 0
        try:
            while True:
                journal.append(batch(event, event + 1, event + 2))
                event += 3
                os.write(pipe, f"{event}\n".encode())
        except Unanswered as full:
            os.write(pipe, f"{full}".encode())

    pid, pipe = child(fill)
    assert ended(pid) == 0
    *answered, why = heard(pipe).decode().splitlines()
    assert "File too large" in why
    at = int(answered[-1])
    assert at >= 9
    assert sound(tmp_path) == ids(batch(*range(at)))
    assert not (tmp_path / "op.jsonl.torn").exists()
    JournalFolder(tmp_path).append(batch(at, at + 1, at + 2))
    assert sound(tmp_path) == ids(batch(*range(at + 3)))


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_a_disk_that_fails_takes_back_what_was_half_written(
    small: tuple[Path, bytes], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path, whole = small
    journal = JournalFolder(path.parent)
    journal.append(batch(2))
    write = os.pwrite

    def fail(fd: int, *rest: object) -> int:
        if rest and len(rest[0]) > 50:
            return write(fd, rest[0][:50], rest[1])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(Unanswered, match="No space left on device"):
        journal.append(batch(3))
    monkeypatch.undo()
    assert path.read_bytes() == whole
    journal.append(batch(3))
    assert sound(path.parent) == ids(batch(0, 1, 2, 3))


def test_it_answers_only_after_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for lines that a killed writer left, which nobody has synced."""
    synced: list[int] = []
    sync = os.fsync

    def watch(fd: int) -> None:
        synced.append(os.fstat(fd).st_size if not stat.S_ISDIR(os.fstat(fd).st_mode) else -1)
        sync(fd)

    monkeypatch.setattr(os, "fsync", watch)
    for journal in (JournalFolder(tmp_path), JournalFolder(tmp_path)):
        synced.clear()
        journal.append(batch(0))
        assert (tmp_path / "op.jsonl").stat().st_size in synced
        assert -1 in synced, "the folder has to know the file"


def test_a_folder_that_may_not_be_used_is_unanswered(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    JournalFolder(folder).append(batch(0))

    def try_it(pipe: int) -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        for work in (
            lambda: JournalFolder(folder).append(batch(1)),
            lambda: JournalFolder(folder).read("op"),
            lambda: JournalFolder(folder).operations(),
        ):
            try:
                work()
            except Unanswered as why:
                os.write(pipe, f"{why}\n".encode())

    folder.chmod(0)
    pid, pipe = child(try_it)
    assert ended(pid) == 0
    folder.chmod(0o700)
    assert heard(pipe).decode().count("Permission denied") == 3
    assert sound(folder) == ids(batch(0))


def test_a_place_where_no_file_can_be_is_unanswered(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unanswered):
        JournalFolder(tmp_path / "file").append(batch(0))
    with pytest.raises(Unanswered):
        JournalFolder(tmp_path / "file").operations()
    for name in ("/dev/full", "/dev/null"):
        place = tmp_path / name.replace("/", "_")
        place.mkdir()
        (place / "op.jsonl").symlink_to(name)
        with pytest.raises(Unanswered, match="not a file"):
            JournalFolder(place).append(batch(0))
    (tmp_path / "op.jsonl").mkdir()
    with pytest.raises(Unanswered):
        JournalFolder(tmp_path).append(batch(0))


# ---------------------------------------------------------------- anything at all

steps = st.lists(
    st.tuples(
        st.lists(st.integers(0, 12), min_size=1, max_size=4),  # events: new ones and repeats
        st.none() | st.floats(0, 1),  # crash: after this share of what is written
        st.booleans(),  # another worker goes on
    ),
    max_size=10,
)


@given(steps)
@settings(max_examples=150)
def test_appends_crashes_and_repeats_leave_each_answered_entry_once(steps) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path, journal = folder / "op.jsonl", JournalFolder(folder)
        answered: set[EntryId] = set()
        for events, crash, other in steps:
            before = path.stat().st_size if path.exists() else 0
            head = journal.append(batch(*events))
            if crash is None:
                answered |= set(ids(batch(*events)))
                assert check(path.read_bytes(), "op", head).broken is None
            else:  # the writer dies: nothing of this batch was answered for
                written = path.stat().st_size - before
                os.truncate(path, before + int(written * crash))
            if crash is not None or other:
                journal = JournalFolder(folder)
        journal.append([entry(99)])
        there = sound(folder)
        assert len(there) == len(set(there))
        assert answered <= set(there)
