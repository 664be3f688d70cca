"""How is a plan kept, so that its digest says exactly what will be done?

A plan is one head and a window for every 250 hosts, each put into a `PlanStore` by content. The
head has everything but the hosts, and the digest of each window; the head's own digest is the
plan's. So one host of 100,000 is read, and known to be the one that was planned, from two small
pieces:

    plan digest ─▶ head {format, hosts: 600, windows: [sha256:…, sha256:…, sha256:…], plan: {…}}
                                                         └─▶ window [host 250, … host 499]
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Generic, Literal, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from guardrail.errors import Refused
from guardrail.model.plan import Plan, PlannedHost
from guardrail.ports import PlanStore

WINDOW = 250
"""Hosts in a window."""

KEPT = 16
"""Heads, and windows, that `load_host` remembers: what a worker is busy with."""

FORMAT = "guardrail/plan/v"
VERSION = 1
"""The format written, and the newest one read. It rises when an older build could misread a plan;
all that were ever written stay readable."""

T = TypeVar("T")


@checked_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Head:
    """A plan without its hosts, and where they are. hosts: how many there are."""

    hosts: int
    windows: tuple[str, ...]
    plan: Plan
    format: Literal["guardrail/plan/v1"] = "guardrail/plan/v1"


_HEAD: TypeAdapter[Head] = TypeAdapter(Head)
_WINDOW: TypeAdapter[tuple[PlannedHost, ...]] = TypeAdapter(tuple[PlannedHost, ...])


def store_plan(store: PlanStore, plan: Plan) -> str:
    """Keep a plan, and return its digest: the same for the same plan. Raises Unanswered."""
    hosts = plan.hosts
    windows = tuple(
        store.put(_bytes(_WINDOW.dump_python(hosts[at : at + WINDOW], mode="json")))
        for at in range(0, len(hosts), WINDOW)
    )
    head = Head(len(hosts), windows, replace(plan, hosts=()))
    return store.put(_bytes(_HEAD.dump_python(head, mode="json")))


@dataclass(slots=True)
class _Digests:
    """A store that keeps nothing."""

    def put(self, data: bytes) -> str:
        return f"sha256:{hashlib.sha256(data).hexdigest()}"

    def get(self, digest: str) -> bytes:
        raise Refused(f"nothing is kept of {digest}")


def digest_of(plan: Plan) -> str:
    """The digest that a store would name this plan by."""
    return store_plan(_Digests(), plan)


def load_plan(store: PlanStore, digest: str) -> Plan:
    """The whole plan. Raises Unanswered, or Refused when what is stored is no such plan."""
    head = _read_head(store, digest)
    hosts = [host for at in range(len(head.windows)) for host in _read_window(store, head, at)]
    return replace(head.plan, hosts=tuple(hosts))


def load_head(store: PlanStore, digest: str) -> Plan:
    """The plan without its hosts: what does not depend on how many there are."""
    return _heads.get(digest, lambda: _read_head(store, digest)).plan


def load_host(store: PlanStore, digest: str, index: int) -> PlannedHost:
    """One host by plan index, from the head and one window; both are remembered for a while.

    Raises Unanswered, or Refused when the plan has no such host.
    """
    head = _heads.get(digest, lambda: _read_head(store, digest))
    if not 0 <= index < head.hosts:
        raise Refused(f"plan {digest} has {head.hosts} hosts; there is none with index {index}")
    at = index // WINDOW
    window = _windows.get(head.windows[at], lambda: _read_window(store, head, at))
    return window[index % WINDOW]


def known_host(digest: str, index: int) -> PlannedHost | None:
    """That host where it is remembered, without asking any store; None where it is not."""
    head = _heads.known(digest)
    if head is None or not 0 <= index < head.hosts:
        return None
    window = _windows.known(head.windows[index // WINDOW])
    return None if window is None else window[index % WINDOW]


# ---------------------------------------------------------------- bytes


def _bytes(content: Any) -> bytes:
    """One spelling for one content, so that its digest is its name."""
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def _read_head(store: PlanStore, digest: str) -> Head:
    data = store.get(digest)
    _refuse_newer(data, digest)
    head = _parse(_HEAD, data, f"{digest} is no plan that this version can read")
    if len(head.windows) != -(-head.hosts // WINDOW) or head.plan.hosts:
        raise Refused(f"plan {digest} is damaged: {head.hosts} hosts do not fit its windows")
    return head


def _refuse_newer(data: bytes, digest: str) -> None:
    """Say that a plan is newer than its reader before anything in it is found strange."""
    try:
        content = json.loads(data)
    except ValueError:
        return
    named = content.get("format") if isinstance(content, dict) else None
    version = str(named).removeprefix(FORMAT)
    if str(named).startswith(FORMAT) and version.isdecimal() and int(version) > VERSION:
        raise Refused(
            f"plan {digest} was made by a newer guardrail (format {named}; this one reads up to "
            f"{FORMAT}{VERSION}): use that one, or plan again"
        )


def _read_window(store: PlanStore, head: Head, at: int) -> tuple[PlannedHost, ...]:
    digest = head.windows[at]
    window = _parse(_WINDOW, store.get(digest), f"{digest} is no window of a plan")
    if len(window) != min(WINDOW, head.hosts - at * WINDOW):
        raise Refused(f"window {at} of the plan ({digest}) is damaged: it has {len(window)} hosts")
    return window


def _parse(adapter: TypeAdapter[T], data: bytes, otherwise: str) -> T:
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Refused(f"{otherwise}: {where or 'content'}: {first['msg']}; plan again") from error


# ---------------------------------------------------------------- what was read lately


@dataclass(slots=True)
class _Lately(Generic[T]):
    """The values used last, by digest. A digest names its content, whatever store it is in."""

    kept: OrderedDict[str, T]
    lock: Lock

    def known(self, digest: str) -> T | None:
        """What is remembered; None where nothing is."""
        with self.lock:
            if digest not in self.kept:
                return None
            self.kept.move_to_end(digest)
            return self.kept[digest]

    def get(self, digest: str, read: Callable[[], T]) -> T:
        """What is remembered, or what `read` answers. Two may read at once; that does no harm."""
        known = self.known(digest)
        if known is not None:
            return known
        value = read()
        with self.lock:
            self.kept[digest] = value
            while len(self.kept) > KEPT:
                self.kept.popitem(last=False)
        return value


_heads: _Lately[Head] = _Lately(OrderedDict(), Lock())
_windows: _Lately[tuple[PlannedHost, ...]] = _Lately(OrderedDict(), Lock())
