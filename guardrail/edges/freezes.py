"""Where is it read whether something is frozen, and how old may that be?

Every place is read by itself; set anywhere is frozen. What was read is good for a second from when
it was asked for (a file is looked at each time). A place that cannot be read keeps what it said
last, for a minute; after that it counts as a freeze of its own, which says why. A place that was
never read is `unread`: nothing begins on a guess.

    command   the workflow of those set by command, in the namespace
    file      GUARDRAIL_FREEZE_FILE on the worker; a file that is not there is no freeze
    url       GUARDRAIL_FREEZE_URL, http or https; 404 is none
    kv        GUARDRAIL_FREEZE_KV, ADDRESS/KEY of a Consul; a key that is not there is none

A file, URL or key whose name ends in .ics is an iCalendar file, and so is what is served as
text/calendar; GUARDRAIL_FREEZE_TIMEZONE names the zone of its times that have none (files/ics.py).
"""

import asyncio
import base64
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
from temporalio.client import Client

from guardrail.decide.freezes import current, in_order
from guardrail.edges.consul_api import ConsulApi, cause
from guardrail.edges.shared import NotThere, Shared
from guardrail.errors import Fault, GuardrailError, InvalidFile, Refused, Unanswered
from guardrail.model.common import Secret
from guardrail.model.freeze import (
    FREEZE_OFF,
    FREEZE_ON,
    FREEZES,
    FREEZES_ID,
    FROZEN,
    Freeze,
    FreezesInput,
    Frozen,
    Lift,
    Seen,
)

GRACE = 60.0
"""Seconds for which a place that cannot be read keeps what it said last."""
VALID = 1.0
"""Seconds, from the question on, for which an answer may be used."""
READ_WITHIN = 2.0
"""Seconds that one reading may take."""
MOST_BYTES = 1_000_000
CALENDAR = "text/calendar"


class Parse(Protocol):
    """How a document is read (files/freeze.py)."""

    def __call__(
        self, text: bytes, place: str, since: float, /, *, calendar: bool = False
    ) -> tuple[Freeze, ...]:
        """Its text, its place, and since when where it does not say so. calendar: it is said to be
        an iCalendar file. Raises InvalidFile."""


class Place(Protocol):
    """One place where a freeze can be set."""

    @property
    def name(self) -> str:
        """What it is called in words: `file:/etc/guardrail/freeze.yaml`."""

    @property
    def valid(self) -> float:
        """Seconds for which an answer may be used."""

    async def read(self) -> tuple[Freeze, ...]:
        """What is set there. Raises GuardrailError when that cannot be told."""


# ---------------------------------------------------------------- by command


@dataclass(frozen=True, slots=True)
class Commands:
    """Those set by command: one workflow of the namespace has them. All calls raise Unanswered."""

    client: Client
    address: str = ""
    name: str = "command"
    valid: float = VALID

    async def read(self) -> tuple[Freeze, ...]:
        """Those that are set now; none where none was ever set."""
        return current(await self.frozen(), time.time()).freezes

    async def frozen(self) -> Frozen:
        """The same with those that were lifted lately."""
        try:
            return await self._list.query(FROZEN, Frozen)
        except NotThere:
            return Frozen()

    async def on(self, freeze: Freeze) -> Frozen:
        """Set one; the workflow is started if it has to be. Raises Refused."""
        given = FreezesInput(time.time(), await self.frozen())
        try:
            return await self._list.start_and_update(FREEZE_ON, freeze, Frozen, given)
        except NotThere:
            why = "the freezes' workflow ended just now; say it again"
            raise self._list.silent(why) from None

    async def off(self, lift: Lift) -> Frozen:
        """Lift one. Raises Refused where there is none of that name."""
        try:
            return await self._list.update(FREEZE_OFF, replace(lift, at=time.time()), Frozen)
        except NotThere:
            raise Refused("no freeze was ever set by command here: there is none to lift") from None

    @property
    def _list(self) -> Shared:
        return Shared(
            self.client,
            self.address or "Temporal",
            FREEZES,
            FREEZES_ID,
            what="The list of freezes",
            summary="when nothing may begin",
        )


# ---------------------------------------------------------------- a file, a URL, a key


@dataclass(frozen=True, slots=True)
class File:
    """A file on this machine. Its folder must be there: a folder that is not mounted says
    nothing."""

    path: Path
    parse: Parse
    valid: float = 0.0
    hand: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), compare=False)
    """A thread of its own: a file system that hangs must not keep others from theirs."""

    @property
    def name(self) -> str:
        """See Place."""
        return f"file:{self.path}"

    async def read(self) -> tuple[Freeze, ...]:
        """See Place."""
        return await asyncio.get_running_loop().run_in_executor(self.hand, self._read)

    def _read(self) -> tuple[Freeze, ...]:
        try:
            with self.path.open("rb") as file:
                text = file.read(MOST_BYTES + 1)
            written = self.path.stat().st_mtime
        except FileNotFoundError:
            if self.path.parent.is_dir():
                return ()
            raise Unanswered("The file", str(self.path), "its folder is not there") from None
        except OSError as error:
            raise Unanswered("The file", str(self.path), error.strerror or str(error)) from None
        return self.parse(_bounded(text, self.name), self.name, min(written, time.time()))


@dataclass(frozen=True, slots=True)
class Url:
    """A document at a URL. The environment's proxies are not used, no redirect is followed."""

    url: str
    parse: Parse
    first_seen: dict[bytes, float] = field(default_factory=dict)
    valid: float = VALID

    @property
    def name(self) -> str:
        """See Place; without what may be secret in it."""
        parts = urlsplit(self.url)
        return f"url:{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    async def read(self) -> tuple[Freeze, ...]:
        """See Place."""
        try:
            async with httpx.AsyncClient(timeout=READ_WITHIN, trust_env=False) as client:
                response = await client.get(self.url)
        except httpx.TimeoutException:
            raise self._silent(f"nothing within {READ_WITHIN:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as fault:
            raise self._silent(cause(fault)) from None
        if response.status_code == httpx.codes.NOT_FOUND:
            return ()
        if response.status_code != httpx.codes.OK or not response.content.strip():
            raise self._silent(f"HTTP {response.status_code} without a document")
        text = _bounded(response.content, self.name)
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return await _apart(self.parse, text, self.name, self.first_seen, kind == CALENDAR)

    def _silent(self, reason: str) -> Unanswered:
        return Unanswered("The URL", self.name.removeprefix("url:"), reason)


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a Consul, whose value is a document."""

    address: str
    key: str
    parse: Parse
    token: Secret | None = None
    first_seen: dict[bytes, float] = field(default_factory=dict)
    valid: float = VALID

    @property
    def name(self) -> str:
        """See Place."""
        return f"kv:{self.address}/{self.key}"

    async def read(self) -> tuple[Freeze, ...]:
        """See Place."""
        api = ConsulApi(self.address, token=self.token, limit=READ_WITHIN)
        try:
            found = await api.get_if_there(f"/v1/kv/{self.key}")
        finally:
            await api.close()
        if found is None:
            return ()
        try:
            text = base64.b64decode(found[0]["Value"] or "", validate=True)
        except (LookupError, TypeError, ValueError):
            raise _malformed(self.name, "Consul's answer has no value in it") from None
        return await _apart(self.parse, _bounded(text, self.name), self.name, self.first_seen)


async def _apart(
    parse: Parse, text: bytes, place: str, seen: dict[bytes, float], calendar: bool = False
) -> tuple[Freeze, ...]:
    """Read a document in a thread: a large calendar must not keep permits from being asked for."""
    read = partial(parse, text, place, _first_seen(seen, text), calendar=calendar)
    return await asyncio.to_thread(read)


def _malformed(place: str, what: str) -> InvalidFile:
    return InvalidFile((Fault(place, 1, 1, what),))


def _bounded(text: bytes, place: str) -> bytes:
    if len(text) > MOST_BYTES:
        raise _malformed(place, f"more than {MOST_BYTES:,} bytes: this is no list of freezes")
    return text


def _first_seen(seen: dict[bytes, float], text: bytes) -> float:
    """When this text was read first: who only says that it is frozen does not say since when."""
    if text not in seen:
        seen.clear()
        seen[text] = time.time()
    return seen[text]


def places_of(
    parse: Parse, file: Path | None, url: str, kv: str, token_file: Path | None
) -> tuple[Place, ...]:
    """The places that the settings name, besides the command. Raises Refused."""
    found: list[Place] = [] if file is None else [File(file, parse)]
    if url:
        _http(url, "GUARDRAIL_FREEZE_URL")
        found.append(Url(url, parse))
    if kv:
        found.append(_key(kv, parse, token_file))
    return tuple(found)


def _key(kv: str, parse: Parse, token_file: Path | None) -> Key:
    parts = _http(kv, "GUARDRAIL_FREEZE_KV")
    address, _, key = kv.partition(f"{parts.netloc}/")
    if not key.strip("/"):
        raise Refused("GUARDRAIL_FREEZE_KV is ADDRESS/KEY, such as http://consul:8500/freezes")
    token = Secret("file", str(token_file)) if token_file is not None else None
    return Key(f"{address}{parts.netloc}", key.strip("/"), parse, token)


def _http(url: str, variable: str) -> Any:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        fine = False
    if not fine:
        raise Refused(f"{variable} is an http or https address, not {url!r}")
    return parts


# ---------------------------------------------------------------- all of them


@dataclass(slots=True)
class _Read:
    """What is known of one place. Times are of a clock that only goes forward."""

    place: Place
    freezes: tuple[Freeze, ...] | None = None
    asked_at: float = -1e9
    good_at: float = -1e9
    silent_since: float | None = None
    wall: float = 0.0
    problem: str = ""
    question: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Freezes:
    """All places of one worker. clock: monotonic, wall: epoch, both in seconds."""

    places: Sequence[Place]
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    grace: float = GRACE
    _known: list[_Read] = field(init=False)

    def __post_init__(self) -> None:
        self._known = [_Read(place) for place in self.places]

    async def now(self) -> Seen:
        """What every place says, none of it older than its place allows. Raises nothing."""
        await asyncio.gather(*(self._fresh(known) for known in self._known))
        freezes = [one for known in self._known for one in self._of(known)]
        unread = [
            f"{known.place.name}: {known.problem}"
            for known in self._known
            if not self._usable(known) and not self._too_long(known)
        ]
        return Seen(in_order(freezes), tuple(unread))

    async def _fresh(self, known: _Read) -> None:
        """Read it, unless it was asked a moment ago; all who ask share one question."""
        running = known.question is not None and not known.question.done()
        if not running and self.clock() < known.asked_at + known.place.valid:
            return
        if not running or known.question is None:
            known.question = asyncio.create_task(self._read(known))
        await asyncio.wait({known.question}, timeout=READ_WITHIN + 0.5)

    async def _read(self, known: _Read) -> None:
        asked = self.clock()
        try:
            found = await asyncio.wait_for(known.place.read(), READ_WITHIN)
        except GuardrailError as error:
            self._failed(known, " ".join(str(error).split()))
        except TimeoutError:
            self._failed(known, f"nothing within {READ_WITHIN:g} s")
        except Exception as error:  # whatever it is, it is no word that nothing is frozen
            self._failed(known, f"{type(error).__name__}: {error}")
        else:
            known.freezes, known.good_at = found, asked
            known.silent_since, known.problem = None, ""
        known.asked_at = asked

    def _failed(self, known: _Read, problem: str) -> None:
        if known.silent_since is None:
            known.silent_since, known.wall = self.clock(), self.wall()
        known.problem = problem

    def _too_long(self, known: _Read) -> bool:
        since = known.silent_since
        return since is not None and self.clock() - since > self.grace

    def _usable(self, known: _Read) -> bool:
        """Whether what it said last counts: it was read just now, or silent for a moment only."""
        recent = known.silent_since is None or self.clock() - known.good_at <= self.grace
        return known.freezes is not None and recent

    def _of(self, known: _Read) -> tuple[Freeze, ...]:
        if not self._too_long(known):
            return known.freezes or ()
        why = f"{known.problem}; what cannot be read for {self.grace:g} s counts as frozen"
        return (Freeze("unreadable", why, "", known.wall, place=known.place.name, unreadable=True),)

    async def close(self) -> None:
        """Wait for no answer any more."""
        for known in self._known:
            if known.question is not None:
                known.question.cancel()
                with contextlib.suppress(asyncio.CancelledError, GuardrailError):
                    await known.question
