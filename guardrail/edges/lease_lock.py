"""How do others, who do not know this program, see that a role is leased? By a lock in Consul.

Where the settings ask for it (GUARDRAIL_LEASE_KV), each exclusive role of a lease is a key of
Consul's as well, locked by a session as `consul lock` and others do it: whoever has locked it keeps
our operation waiting, and the other way round. Roles that operations share have no lock: a lock has
one holder.

The session is made on the server side: on a server's node, without checks and without an expiry.
So it neither dies with an agent that the rollout restarts nor frees the role while its holder is
silent: a lease is orphaned then, not free (design.md §8). It is destroyed with the lease.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from temporalio.client import Client

from guardrail.edges.consul_api import ConsulApi
from guardrail.edges.leases import Desk
from guardrail.errors import Refused, Unanswered
from guardrail.model.common import Secret
from guardrail.model.lease import Answer, Break, Done, Holder, Table, Wanted

LIMIT = 2.0
"""Seconds of silence before Consul counts as silent: a keeper must show life every few seconds."""
SHOWN = 200
"""Characters of a stranger's value that are shown."""


@dataclass(frozen=True, slots=True)
class ConsulLocks:
    """The keys `PREFIX/ROLE` of one Consul. space: tells the sessions of several Temporal
    namespaces apart. Every call raises Unanswered."""

    address: str
    prefix: str
    space: str
    token: Secret | None = None

    async def hold(self, holder: Holder, roles: Sequence[str]) -> tuple[str, ...]:
        """Lock all of these roles, or none that is not locked yet; who stands in the way."""
        async with _Asking(self) as asking:
            return await asking.hold(holder, roles)

    async def barred(self, holder: Holder, roles: Sequence[str]) -> tuple[str, ...]:
        """Who stands in the way now; nothing is changed."""
        async with _Asking(self) as asking:
            own = await asking.own(holder.operation)
            found = [(role, await asking.key(role)) for role in roles]
            return tuple([await asking.words(r, k) for r, k in found if _foreign(k, own)])

    async def free(self, operation: str) -> None:
        """Unlock all that this operation has locked."""
        async with _Asking(self) as asking:
            for session in await asking.own(operation):
                await asking.end(session)

    def named(self, operation: str) -> str:
        """The name of an operation's session."""
        return f"guardrail {self.space} {operation}"


@dataclass(slots=True)
class _Asking:
    """One connection, for one question or a few."""

    locks: ConsulLocks
    api: ConsulApi = field(init=False)

    async def __aenter__(self) -> "_Asking":
        self.api = ConsulApi(self.locks.address, token=self.locks.token, limit=LIMIT)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.api.close()

    async def hold(self, holder: Holder, roles: Sequence[str]) -> tuple[str, ...]:
        own = await self.own(holder.operation)
        session = own[0] if own else await self._made(holder.operation)
        fresh, why = [], []
        for role in roles:
            before = await self.key(role)
            if before.get("Session") in own:
                continue
            if await self._put(role, _value(holder), acquire=session):
                fresh.append(role)
            else:
                why.append(await self.words(role, await self.key(role)))
        if why:
            for role in fresh:
                await self._put(role, None, release=session)
            if not own:
                await self.api.put(f"/v1/session/destroy/{session}")
        return tuple(why)

    async def own(self, operation: str) -> list[str]:
        name = self.locks.named(operation)
        sessions = await self.api.get_list("/v1/session/list")
        return sorted(one["ID"] for one in sessions if one.get("Name") == name)

    async def _made(self, operation: str) -> str:
        servers = await self.api.get_list("/v1/catalog/service/consul")
        if not servers:
            raise self._silent("its catalog lists no server (service consul) to make a session on")
        made = await self.api.put(
            "/v1/session/create",
            {
                "Name": self.locks.named(operation),
                "Node": min(server["Node"] for server in servers),
                "Checks": [],
                "NodeChecks": [],
                "Behavior": "release",
                "LockDelay": "1s",
            },
        )
        if not isinstance(made, dict) or not isinstance(made.get("ID"), str):
            raise self._silent("it made a session and does not say which")
        return str(made["ID"])

    async def end(self, session: str) -> None:
        """Unlock first: a session that is destroyed leaves a delay before the next lock."""
        keys = await self.api.get_if_there(f"/v1/kv/{self._path('')}", ("recurse", ""))
        for key in keys or []:
            if key.get("Session") == session:
                await self.api.put(f"/v1/kv/{quote(key['Key'])}", None, ("release", session))
        await self.api.put(f"/v1/session/destroy/{session}")

    async def key(self, role: str) -> dict[str, Any]:
        """The key of a role; empty where there is none."""
        found = await self.api.get_if_there(f"/v1/kv/{self._path(role)}")
        return dict(found[0]) if found else {}

    async def words(self, role: str, key: dict[str, Any]) -> str:
        """Who has locked it, as far as the key and its session say."""
        where = f"{role} is locked in Consul ({self.locks.prefix}/{role})"
        session = key.get("Session")
        if not session:
            return f"{where}: it was unlocked just now, and may be locked again in a moment"
        found = await self.api.get_list(f"/v1/session/info/{session}")
        name = found[0].get("Name") or "without a name" if found else "that is gone"
        return f"{where} by {_said(key)}, session {name} ({session})"

    async def _put(self, role: str, body: object, **how: str) -> bool:
        return await self.api.put(f"/v1/kv/{self._path(role)}", body, *how.items()) is True

    def _path(self, role: str) -> str:
        return f"{quote(self.locks.prefix)}/{quote(role, safe='')}"

    def _silent(self, reason: str) -> Unanswered:
        return Unanswered("Consul", self.api.address, reason)


def _foreign(key: dict[str, Any], own: Sequence[str]) -> bool:
    return bool(key.get("Session")) and key["Session"] not in own


def _value(holder: Holder) -> dict[str, str]:
    return {"operation": holder.operation, "person": holder.person, "reason": holder.reason}


def _said(key: dict[str, Any]) -> str:
    """What the holder wrote there: one of ours in our words, a stranger's as it is."""
    text = base64.b64decode(key.get("Value") or "").decode(errors="replace")
    try:
        told = json.loads(text)
        return f"{told['operation']} ({told['person']}: {told['reason']})"
    except (ValueError, KeyError, TypeError):
        return " ".join(text.split())[:SHOWN] or "somebody who does not say who"


# ---------------------------------------------------------------- beside the table


@dataclass(frozen=True, slots=True)
class MirroredDesk(Desk):
    """The table of leases, and a lock for each exclusive role that the table has granted.

    A lock that somebody else has, or that cannot be asked for, is a lease that waits.
    """

    locks: ConsulLocks | None = None

    async def ask(self, wanted: Wanted) -> Answer:
        """See Desk."""
        return await self._with_locks(wanted, await Desk.ask(self, wanted), look=False)

    async def look(self, wanted: Wanted) -> Answer:
        """See Desk."""
        return await self._with_locks(wanted, await Desk.look(self, wanted), look=True)

    async def give_back(self, done: Done) -> None:
        """See Desk. What Consul does not hear is said again: the table has it by then."""
        held = (await self.table()).of(done.operation)
        over = held is None or held.turn <= done.turn
        try:
            if self.locks is not None and over:
                await self.locks.free(done.operation)
        finally:
            await Desk.give_back(self, done)

    async def break_lease(self, said: Break) -> Table:
        """See Desk. One that is live is unlocked once its holder has given it back."""
        before = await self.table()
        after = await Desk.break_lease(self, said)
        for lease in before.leases:
            if self.locks is not None and after.of(lease.holder.operation) is None:
                await self.locks.free(lease.holder.operation)
        return after

    async def _with_locks(self, wanted: Wanted, answer: Answer, *, look: bool) -> Answer:
        roles = sorted(claim.role for claim in wanted.claims if claim.exclusive)
        if self.locks is None or not roles or answer.word not in ("granted", "wanted"):
            return answer
        ask = self.locks.barred if look else self.locks.hold
        try:
            why = await ask(wanted.holder, roles)
        except (Unanswered, Refused) as error:
            named = ", ".join(roles)
            why = (f"whether {named} can be locked in Consul is not known: {error}",)
        return Answer("waits", why) if why else answer


def desk_of(client: Client, address: str, kv: str = "", token_file: Path | None = None) -> Desk:
    """The table of leases, with locks in Consul where the settings say so. Raises Refused."""
    if not kv:
        return Desk(client, address)
    parts = urlsplit(kv)
    prefix = parts.path.strip("/")
    if parts.scheme not in ("http", "https") or not parts.hostname or not prefix:
        raise Refused("GUARDRAIL_LEASE_KV is ADDRESS/PREFIX, such as http://consul:8500/leases")
    token = Secret("file", str(token_file)) if token_file is not None else None
    at = f"{parts.scheme}://{parts.netloc}"
    return MirroredDesk(client, address, ConsulLocks(at, prefix, client.namespace, token))
