"""Where is a plan kept, so that what is run is what was shown?

Content-addressed: bytes are found under their own digest and are checked on every read. A place
is an fsspec URL (`s3://bucket/plans`, `memory://plans`) or a folder, the XDG state folder's
`guardrail/plans` when none is named.
"""

import hashlib
import json
import os
import re
import uuid
from pathlib import Path
from typing import Any

import fsspec

from guardrail.errors import Refused, Unanswered
from guardrail.model.fleet import KnownFleet

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def default_place() -> str:
    """The local folder for plans."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return str(Path(base) / "guardrail" / "plans")


def digest_of(data: bytes) -> str:
    """The name of these bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class PlanFolder:
    """A PlanStore at any place that fsspec knows."""

    def __init__(self, place: str | None = None) -> None:
        self.place = place or default_place()
        try:
            found: tuple[Any, str] = fsspec.core.url_to_fs(self.place)
        except (ValueError, ImportError) as fault:
            raise Refused(f"{self.place} is no place for plans: {fault}") from fault
        self._system, self._root = found

    def put(self, data: bytes) -> str:
        """Store, and return the digest. Written whole or not at all. Raises Unanswered."""
        digest = digest_of(data)
        path = self._path(digest)
        try:
            if not self._holds(path, data):
                self._write(path, data)
        except Exception as fault:  # each file system of fsspec has its own errors
            raise Unanswered("the plan store", self.place, f"{fault}") from fault
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes of that digest. Raises Unanswered, or Refused when they are not those."""
        if not _DIGEST.fullmatch(digest):
            raise Refused(f"a plan's digest is sha256: and 64 hexadecimal digits, not {digest!r}")
        try:
            data: bytes = self._system.cat_file(self._path(digest))
        except FileNotFoundError:
            raise Unanswered("the plan store", self.place, f"it has no {digest}") from None
        except Exception as fault:
            raise Unanswered("the plan store", self.place, f"{fault}") from fault
        if digest_of(data) != digest:
            raise Refused(
                f"{self._path(digest)} is not what its name says: it was changed after it was "
                "written; plan again, and find out who can write there"
            )
        return data

    def recall(self, key: str) -> KnownFleet | None:
        """The hosts of a fleet when a rollout on it was planned last. Raises Unanswered."""
        try:
            data: bytes = self._system.cat_file(self._fleet(key))
        except FileNotFoundError:
            return None
        except Exception as fault:
            raise Unanswered("the plan store", self.place, f"{fault}") from fault
        try:
            found = json.loads(data)
            return KnownFleet(str(found["fleet"]), tuple(found["hosts"]), float(found["at"]))
        except (ValueError, TypeError, KeyError):
            return None  # as if never planned: it is only a help

    def remember(self, key: str, known: KnownFleet) -> None:
        """Keep the hosts of a fleet for the next time. Raises Unanswered."""
        data = json.dumps({"fleet": known.fleet, "hosts": known.hosts, "at": known.at}).encode()
        try:
            self._write(self._fleet(key), data)
        except Exception as fault:
            raise Unanswered("the plan store", self.place, f"{fault}") from fault

    def _fleet(self, key: str) -> str:
        return f"{self._root.rstrip('/')}/fleets/{digest_of(key.encode())[7:]}.json"

    def _path(self, digest: str) -> str:
        value = digest.removeprefix("sha256:")
        return f"{self._root.rstrip('/')}/{value[:2]}/{value}"

    def _holds(self, path: str, data: bytes) -> bool:
        """Whether it is there already, and whole: what is damaged is written again."""
        try:
            return bool(self._system.cat_file(path) == data)
        except FileNotFoundError:
            return False

    def _write(self, path: str, data: bytes) -> None:
        self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
        part = f"{path}.{uuid.uuid4().hex}.part"
        if _is_local(self._system):
            _write_durably(Path(part), data)
        else:
            self._system.pipe_file(part, data)
        self._system.mv(part, path)


def _is_local(system: Any) -> bool:
    protocol = system.protocol
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
