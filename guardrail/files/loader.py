"""Which documents do these files hold, and what is wrong with them, all at once?

load(["policies", "rollout.yaml"])   # files, or folders of *.yaml and *.yml, subfolders too
parse("apiVersion: …", "rollout.yaml")
"""

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from guardrail.errors import Fault, InvalidFile
from guardrail.files.change import ChangeFormat, to_change
from guardrail.files.channel import ChannelFormat, to_channel
from guardrail.files.checklist import ChecklistFormat, to_checklist
from guardrail.files.documents import Documents
from guardrail.files.faults import choice, faults_of
from guardrail.files.fleet import FleetFormat, to_fleet
from guardrail.files.gate import GateFormat, to_gate
from guardrail.files.place import Place
from guardrail.files.policy import PolicyFormat, to_policy
from guardrail.files.reminder import ReminderFormat, to_reminder
from guardrail.files.revision import revision
from guardrail.files.rollout import RolloutFormat, to_rollout
from guardrail.files.source import SourceFormat, to_source
from guardrail.files.tree import MOST_BYTES, Placed, Spot, read
from guardrail.files.values import Format, shown

API_VERSION = "guardrail/v1"
ENDINGS = (".yaml", ".yml")
MOST_FILES = 5_000


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of document: its format, how it becomes a model, and where that is kept."""

    name: str
    format: type[Format]
    to_model: Callable[[Any, Place], Any]
    field: str


KINDS = {
    kind.name: kind
    for kind in (
        Kind("Fleet", FleetFormat, to_fleet, "fleets"),
        Kind("Change", ChangeFormat, to_change, "changes"),
        Kind("Rollout", RolloutFormat, to_rollout, "rollouts"),
        Kind("Gate", GateFormat, to_gate, "gates"),
        Kind("Policy", PolicyFormat, to_policy, "policies"),
        Kind("Source", SourceFormat, to_source, "sources"),
        Kind("Channel", ChannelFormat, to_channel, "channels"),
        Kind("Reminder", ReminderFormat, to_reminder, "reminders"),
        Kind("Checklist", ChecklistFormat, to_checklist, "checklists"),
    )
}


def load(paths: Iterable[str | os.PathLike[str]]) -> Documents:
    """Every document in these files and folders; the same file given twice counts once.

    Raises InvalidFile with every fault of every file.
    """
    shelf = _Shelf()
    _read_all(paths, shelf)
    return shelf.documents()


def _read_all(paths: Iterable[str | os.PathLike[str]], shelf: "_Shelf") -> None:
    read_once = cache(revision)
    for file, folder in _files(paths, shelf):
        if (content := _content(file, shelf)) is not None:
            shelf.add(content, str(file), partial(read_once, folder))


@dataclass(frozen=True, slots=True)
class Survey:
    """What could be read of some files: the documents that are well formed, every fault of the
    others, and where things stand (by kind and name of the document)."""

    documents: Documents
    faults: tuple[Fault, ...]
    places: dict[tuple[str, str], Placed]


def survey(paths: Iterable[str | os.PathLike[str]]) -> Survey:
    """As `load`, but one bad document does not keep the others back; raises nothing."""
    shelf = _Shelf()
    _read_all(paths, shelf)
    return Survey(shelf.whole(), shelf.in_order(), shelf.places)


def parse(text: str | bytes, filename: str) -> Documents:
    """The documents of one text; paths in it are relative to `filename`'s folder.

    Raises InvalidFile with every fault.
    """
    shelf = _Shelf()
    # A lone surrogate is no text; it becomes bytes that are refused as not UTF-8.
    shelf.add(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text, filename)
    return shelf.documents()


class _Shelf:
    """Collects documents and faults; nothing is given out while there is a fault."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._models: dict[str, list[Any]] = {kind.field: [] for kind in KINDS.values()}
        self._first: dict[tuple[str, str], Fault] = {}
        self.places: dict[tuple[str, str], Placed] = {}

    def say(self, file: str, spot: Spot, message: str) -> None:
        self.faults.append(Fault(file, spot.line, spot.column, message))

    def add(self, content: bytes, file: str, revision_of: Callable[[], str] = str) -> None:
        documents, faults = read(content, file)
        self.faults.extend(faults)
        for placed in documents:
            self._document(Place(placed, revision_of), spoiled=bool(faults))

    def _document(self, place: Place, *, spoiled: bool) -> None:
        placed = place.placed
        kind = self._kind(placed)
        if kind is None:
            return
        try:
            written = kind.format.model_validate(placed.data)
        except ValidationError as error:
            self.faults.extend(faults_of(error, kind.format, placed))
            return
        # A document with a fault of YAML's own is never mapped: its data may be half of it.
        if not spoiled:
            try:
                model = kind.to_model(written, place)
            except InvalidFile as error:  # of a file that the document names
                self.faults.extend(error.faults)
                return
            self._unique(kind, model.name, placed)
            if self.places.setdefault((kind.name, model.name), placed) is placed:
                self._models[kind.field].append(model)

    def _kind(self, placed: Placed) -> Kind | None:
        if not isinstance(placed.data, dict):
            found = shown(placed.data)
            self.say(
                placed.file, placed.spot(()), f"a document is a mapping with `kind`, found {found}"
            )
            return None
        if "kind" not in placed.data:
            self.say(
                placed.file,
                placed.spot(()),
                f"the key `kind` is missing; {choice('', list(KINDS))}",
            )
            return None
        word, spot = placed.data["kind"], placed.spot(("kind",))
        kind = KINDS.get(word) if isinstance(word, str) else None
        if kind is None and ("kind",) not in placed.spoiled:
            known = choice(str(word), list(KINDS))
            self.say(placed.file, spot, f"the kind {shown(word)} is not known; {known}")
        return kind

    def _unique(self, kind: Kind, name: str, placed: Placed) -> None:
        spot = placed.spot(("metadata", "name"))
        here = Fault(
            placed.file, spot.line, spot.column, f"there is a {kind.name} `{name}` already"
        )
        first = self._first.setdefault((kind.name, name), here)
        if first is not here:
            where = f"{first.file}:{first.line}"
            self.say(placed.file, spot, f"there is a {kind.name} `{name}` already, at {where}")

    def documents(self) -> Documents:
        if self.faults:
            raise InvalidFile(self.in_order())
        return self.whole()

    def whole(self) -> Documents:
        return Documents(**{field: tuple(models) for field, models in self._models.items()})

    def in_order(self) -> tuple[Fault, ...]:
        """Every fault once, file by file."""
        order = list(dict.fromkeys(fault.file for fault in self.faults))
        key = {file: n for n, file in enumerate(order)}
        once = dict.fromkeys(self.faults)
        return tuple(sorted(once, key=lambda f: (key[f.file], f.line, f.column)))


def _files(paths: Iterable[str | os.PathLike[str]], shelf: _Shelf) -> list[tuple[Path, Path]]:
    """Each file, and the folder that it was found in or lies in."""
    found: dict[Path, tuple[Path, Path]] = {}
    for given in paths:
        path = Path(given)
        try:
            folder = path if path.is_dir() else path.parent
            several = _in_folder(path, shelf) if path.is_dir() else [path]
            for file in several:
                found.setdefault(file.resolve(), (file, folder))
        except (OSError, ValueError, RuntimeError) as error:
            shelf.say(str(path), Spot(1, 1), f"cannot be read: {_reason(error)}")
    return list(found.values())


def _in_folder(folder: Path, shelf: _Shelf) -> list[Path]:
    files = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in inside.parts)
        if path.suffix in ENDINGS and not hidden and path.is_file():
            files.append(path)
    if not files:
        shelf.say(str(folder), Spot(1, 1), "no *.yaml or *.yml file is in this folder")
    if len(files) > MOST_FILES:
        shelf.say(str(folder), Spot(1, 1), f"more than {MOST_FILES:,} files are in this folder")
        return []
    return files


def _content(file: Path, shelf: _Shelf) -> bytes | None:
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            # A pipe or a device might never end.
            shelf.say(str(file), Spot(1, 1), "this is not a regular file")
            return None
        with file.open("rb") as stream:
            return stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        shelf.say(str(file), Spot(1, 1), f"cannot be read: {_reason(error)}")
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)
