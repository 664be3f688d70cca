"""Where is the journal kept, so that it outlives whoever writes it?

On a local disk: a file for each operation, `OPERATION.jsonl`, in one folder. An append takes the
file's lock (flock), mends a torn end, writes all its lines at once, and answers after fsync. A
writer that is killed anywhere leaves whole lines and perhaps a torn one; the next append moves
the torn bytes to `OPERATION.jsonl.torn`, says so, and goes on.

Anywhere else that fsspec knows (`s3://bucket/journal`, `memory://journal`): nothing can be
appended there, so each batch is an object, `OPERATION/000000000013.jsonl`, named after its first
line and created only if there is none of that name. Both are one chain (decide/chain.py).
"""

import fcntl
import logging
import os
import re
import stat
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import fsspec

from guardrail.decide import chain
from guardrail.decide.chain import Tip
from guardrail.errors import Refused, Unanswered
from guardrail.model.journal import CHECKS, FREEZES, NOTICES, Entry, EntryId, Head
from guardrail.ports import Journal

LOCKED_WITHIN = 5.0
"""Seconds that an append waits for another writer: one that is stopped may never let go."""

TRIES = 50
"""How often an object's name may be taken by other writers before an append gives up."""

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,99}}|{FREEZES}|{NOTICES}|{CHECKS}")
_SUFFIX = ".jsonl"
_log = logging.getLogger("guardrail.journal")


def journal_at(place: str) -> Journal:
    """The journal at a folder or an fsspec URL. Raises Refused when it is no such place."""
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(place)
    except (ValueError, ImportError) as fault:
        raise Refused(f"{place} is no place for a journal: {fault}") from fault
    system, root = found
    protocol = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
    return JournalFolder(Path(root)) if "file" in protocol else JournalObjects(system, root, place)


def _checked(operation: str) -> str:
    """The name, since it names a file. Raises Refused."""
    if _NAME.fullmatch(operation):
        return operation
    raise Refused(
        f"{operation!r} cannot be an operation's name: up to 100 letters, digits, '.', '_' and "
        "'-', beginning with a letter or digit"
    )


def _none_of(operation: str, place: object) -> Refused:
    return Refused(
        f"there is no journal of {operation} at {place}; see which there are: guardrail journal "
        "verify"
    )


# ---------------------------------------------------------------- a file for each operation


@dataclass(frozen=True, slots=True)
class _Known:
    """What this process has seen of a file: its number on the disk, its size, the tip."""

    inode: int
    size: int
    tip: Tip


@dataclass(slots=True)
class JournalFolder:
    """A journal in a local folder, which is made when the first entry comes."""

    folder: Path
    _known: dict[str, _Known] = field(default_factory=dict)

    def append(self, entries: Sequence[Entry]) -> Head:
        """See `ports.Journal`. Torn bytes of a killed writer are moved away first, and told."""
        operation = _checked(chain.operation_of(entries))
        path = self._path(operation)
        try:
            with _locked(path) as fd:
                known = self._catch_up(fd, operation)
                new = chain.new_among(entries, known.tip, lambda ids: _find(fd, ids))
                data, tip = chain.extend(known.tip, new)
                _write(fd, known.size, data)  # syncs what a killed writer left, too
                if operation not in self._known:
                    _sync_folders(path.parent, path.parent.parent)
                self._known[operation] = _Known(known.inode, known.size + len(data), tip)
                return tip.head
        except OSError as fault:
            raise self._unanswered(fault) from fault

    def read(self, operation: str) -> bytes:
        """See `ports.Journal`. An append that is under way is waited for: it is no torn end."""
        try:
            return _read(self._path(_checked(operation)))
        except FileNotFoundError:
            raise _none_of(operation, self.folder) from None
        except OSError as fault:
            raise self._unanswered(fault) from fault

    def operations(self) -> tuple[str, ...]:
        """See `ports.Journal`."""
        try:
            found = [entry.name for entry in os.scandir(self.folder) if entry.is_file()]
        except FileNotFoundError:
            return ()
        except OSError as fault:
            raise self._unanswered(fault) from fault
        return tuple(sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)))

    def torn(self, operation: str) -> int:
        """How many torn bytes of this operation have been moved away so far."""
        with suppress(OSError):
            return _torn_path(self._path(_checked(operation))).stat().st_size
        return 0

    def _path(self, operation: str) -> Path:
        return self.folder / f"{operation}{_SUFFIX}"

    def _unanswered(self, fault: OSError) -> Unanswered:
        return Unanswered("the journal", str(self.folder), fault.strerror or str(fault))

    def _catch_up(self, fd: int, operation: str) -> _Known:
        """What the file holds now, with a torn end moved away. Raises Refused for a strange one."""
        now, before = os.fstat(fd), self._known.get(operation)
        if before is not None and (before.inode, before.size) == (now.st_ino, now.st_size):
            return before
        same = before is not None and before.inode == now.st_ino and before.size <= now.st_size
        start = before if before is not None and same else _Known(now.st_ino, 0, Tip())
        if before is not None and not same:
            self._must_still_have(fd, before.tip.head, operation)
        lines = _Lines(fd, start.size)
        tip = chain.follow(start.tip, lines)
        if lines.torn:
            _move_away(fd, self._path(operation), lines.end, lines.torn)
        return _Known(now.st_ino, lines.end, tip)

    def _must_still_have(self, fd: int, head: Head, operation: str) -> None:
        """Refuse to go on in a file that has lost what this process has written to it."""
        end = f'"hash":"{head.hash}"}}'.encode()
        if head.sequence and not any(line.endswith(end) for line in _Lines(fd, 0)):
            raise Refused(
                f"the journal of {operation} in {self.folder} has lost its lines up to {head}: it "
                "was cut or replaced while it was in use. Put the whole one back, or keep what is "
                "left of it elsewhere and restart the worker to begin another"
            )


@dataclass(slots=True)
class _Lines:
    """The whole lines of a file from an offset on; after them, where they end and what is torn."""

    fd: int
    end: int
    torn: bytes = b""

    def __iter__(self) -> Iterator[bytes]:
        with open(self.fd, "rb", closefd=False) as file:
            file.seek(self.end)
            for line in file:
                if not line.endswith(b"\n"):
                    self.torn = line
                    return
                self.end += len(line)
                yield line[:-1]


def _find(fd: int, ids: Collection[EntryId]) -> Mapping[EntryId, str]:
    return chain.contents(_Lines(fd, 0), ids)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file, open and ours alone; made with its folder where it is not there."""
    until = time.monotonic() + LOCKED_WITHIN
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        try:
            _must_be_a_file(fd, path)
            _lock(fd, until)
            if _is_still(fd, path):
                yield fd
                return
        finally:
            os.close(fd)


def _read(path: Path) -> bytes:
    """All bytes, between appends; as they are where a stopped writer keeps its lock."""
    with path.open("rb") as file:
        _must_be_a_file(file.fileno(), path)
        with suppress(_Locked):
            _lock(file.fileno(), time.monotonic() + LOCKED_WITHIN, fcntl.LOCK_SH)
        return file.read()


class _Locked(OSError):
    """Another writer has kept the lock too long."""


def _must_be_a_file(fd: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(0, f"{path} is not a file that lines can be appended to")


def _lock(fd: int, until: float, how: int = fcntl.LOCK_EX) -> None:
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                why = f"another writer has kept it locked for {LOCKED_WITHIN:g} s"
                raise _Locked(0, f"{why}; is a worker stopped?") from None
            time.sleep(0.005)
        else:
            return


def _is_still(fd: int, path: Path) -> bool:
    """Whether the path still names this file: it may have been replaced before we had the lock."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _write(fd: int, end: int, data: bytes) -> None:
    """Write all of it at `end`, durably, or as good as nothing. Raises OSError."""
    try:
        done = 0
        while done < len(data):
            done += os.pwrite(fd, data[done:], end + done)
        os.fsync(fd)
    except OSError:
        with suppress(OSError):
            os.ftruncate(fd, end)
        raise


def _torn_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.torn")


def _move_away(fd: int, path: Path, end: int, torn: bytes) -> None:
    """Keep torn bytes beside the journal, and cut them off it."""
    kept = _torn_path(path)
    with kept.open("ab") as file:
        file.write(torn + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.ftruncate(fd, end)
    os.fsync(fd)
    _log.warning(
        "%s ended in %d torn bytes: its writer was killed before it had answered for them; they "
        "are in %s now, and the chain goes on",
        *(path, len(torn), kept),
    )


def _sync_folders(*folders: Path) -> None:
    """Make the names in these folders durable."""
    for folder in folders:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


# ---------------------------------------------------------------- an object for each batch


@dataclass(slots=True)
class JournalObjects:
    """A journal in an object store; what is once there is never written again."""

    system: Any
    root: str
    place: str
    _known: dict[str, Tip] = field(default_factory=dict)
    _one: Lock = field(default_factory=Lock)

    def append(self, entries: Sequence[Entry]) -> Head:
        """See `ports.Journal`. Another writer's batch that came first is followed."""
        operation = _checked(chain.operation_of(entries))
        try:
            with self._one:
                return self._append(operation, entries)
        except (Refused, Unanswered):
            raise
        except Exception as fault:  # each file system of fsspec has its own errors
            raise Unanswered("the journal", self.place, f"{fault}") from fault

    def _append(self, operation: str, entries: Sequence[Entry]) -> Head:
        for _ in range(TRIES):
            tip = self._known[operation] = self._catch_up(operation)
            new = chain.new_among(entries, tip, lambda ids: self._find(operation, ids))
            data, after = chain.extend(tip, new)
            if not new or self._create(self._object(operation, tip.head.sequence + 1), data):
                self._known[operation] = after
                return after.head
        raise Unanswered("the journal", self.place, f"other writers came first {TRIES} times")

    def read(self, operation: str) -> bytes:
        """See `ports.Journal`."""
        _checked(operation)
        try:
            data = b"".join(self.system.cat_file(path) for path in self._objects(operation))
        except Exception as fault:
            raise Unanswered("the journal", self.place, f"{fault}") from fault
        if not data:
            raise _none_of(operation, self.place)
        return data

    def operations(self) -> tuple[str, ...]:
        """See `ports.Journal`."""
        try:
            return tuple(path.rpartition("/")[2] for path in self._inside(self.root))
        except Exception as fault:
            raise Unanswered("the journal", self.place, f"{fault}") from fault

    def _catch_up(self, operation: str) -> Tip:
        """What is there now: by its list at first, then by looking whether the next one is."""
        tip = self._known.get(operation)
        if tip is None:
            tip = Tip()
            for path in self._objects(operation):
                tip = chain.follow(tip, self.system.cat_file(path).splitlines())
        while (data := self._next(operation, tip)) is not None:
            tip = chain.follow(tip, data.splitlines())
        return tip

    def _next(self, operation: str, tip: Tip) -> bytes | None:
        try:
            data: bytes = self.system.cat_file(self._object(operation, tip.head.sequence + 1))
        except FileNotFoundError:
            return None
        if not data:
            raise Refused(f"{self._object(operation, tip.head.sequence + 1)} is empty; remove it")
        return data

    def _find(self, operation: str, ids: Collection[EntryId]) -> Mapping[EntryId, str]:
        return chain.contents(self.read(operation).splitlines(), ids)

    def _create(self, path: str, data: bytes) -> bool:
        """Create the object; False when there is one. Not every store knows `mode="create"`."""
        if self.system.exists(path):
            return False
        try:
            self.system.pipe_file(path, data, mode="create")
        except FileExistsError:
            return False
        return True

    def _object(self, operation: str, sequence: int) -> str:
        return f"{self.root.rstrip('/')}/{operation}/{sequence:012d}{_SUFFIX}"

    def _objects(self, operation: str) -> list[str]:
        inside = self._inside(f"{self.root.rstrip('/')}/{operation}")
        return [path for path in inside if path.endswith(_SUFFIX)]

    def _inside(self, path: str) -> list[str]:
        """What is right below that path, sorted; nothing where there is no such path."""
        self.system.invalidate_cache()
        try:
            return sorted(found.rstrip("/") for found in self.system.ls(path, detail=False))
        except FileNotFoundError:
            return []
