"""Who may spend a role's limits now, how much of them, and until when?

A lease is the right of one operation to have hosts of some roles away. Roles that are
cache-critical go to one operation at a time; others are shared, and what all together have out
stays within the strictest limit that any of them has. The table of all leases is one small record
in one workflow (decide/leases.py says what becomes of it). Times are seconds since the epoch.
"""

from dataclasses import dataclass, fields
from typing import Literal

LEASES = "Leases"
"""The workflow type of the table; there is one in a namespace."""
LEASES_ID = "leases"
ASK_LEASE = "ask_lease"
GIVE_BACK = "give_back"
BREAK_LEASE = "break_lease"
"""Updates: `Wanted` is answered by `Answer`, `Done` and `Break` by a `Table`."""
TABLE = "table"
LOOK_LEASE = "look_lease"
"""Queries: `Table`; a `Wanted` is answered by what asking now would be answered."""

Priority = Literal["normal", "urgent"]
Word = Literal["granted", "waits", "wanted", "broken", "lost", "superseded"]

LAST_FOR = 30.0
"""Seconds that a lease lasts after its holder has last been heard."""
RENEW_EVERY = 8.0
"""Seconds between two renewals."""


# ---------------------------------------------------------------- how much


@dataclass(frozen=True, slots=True)
class Share:
    """How many hosts may be away: in all, in one failure domain, and in how many domains."""

    hosts: int
    per_domain: int
    domains: int

    @property
    def empty(self) -> bool:
        """Whether no host at all may be away."""
        return min(self.hosts, self.per_domain, self.domains) < 1

    def least(self, other: "Share") -> "Share":
        """Field by field the smaller one."""
        return Share(
            min(self.hosts, other.hosts),
            min(self.per_domain, other.per_domain),
            min(self.domains, other.domains),
        )

    def less(self, other: "Share") -> "Share":
        """What is left of it, field by field."""
        return Share(
            self.hosts - other.hosts,
            self.per_domain - other.per_domain,
            self.domains - other.domains,
        )

    def __str__(self) -> str:
        words = ("hosts", "a domain", "domains")
        numbers = (getattr(self, each.name) for each in fields(self))
        return ", ".join(f"{n} {word}" for n, word in zip(numbers, words, strict=True))


@dataclass(frozen=True, slots=True)
class Need:
    """A role that hosts of a plan have. hosts: which ones, a hex number over plan indexes.
    exclusive: a cache-critical policy is about it."""

    role: str
    exclusive: bool
    hosts: str


@dataclass(frozen=True, slots=True)
class Claim:
    """What a wave needs of one role. ask: what it can use; limit: what all together may have out,
    by its policies, where others have hosts of the role away as well."""

    role: str
    exclusive: bool
    ask: Share
    limit: Share


# ---------------------------------------------------------------- what an operation knows of it


@dataclass(frozen=True, slots=True)
class Grant:
    """What an operation has: `share` is the least of its roles' shares."""

    token: int
    share: Share
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """What an operation asks for, or keeps, for a wave (from 0). most: its own limits then.

    keep: hosts of it are away or cold, so that what it has stays its own until it has this.
    """

    wave: int
    claims: tuple[Claim, ...]
    most: Share
    keep: bool = False

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that are asked for, sorted."""
        return tuple(sorted(claim.role for claim in self.claims))


# ---------------------------------------------------------------- the table


@dataclass(frozen=True, slots=True)
class Holder:
    """An operation, who asked for it, and why."""

    operation: str
    person: str
    reason: str
    priority: Priority = "normal"
    plan: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One role of a lease: what was granted of it, and the limit that its holder brings."""

    role: str
    exclusive: bool
    share: Share
    limit: Share


@dataclass(frozen=True, slots=True)
class Lease:
    """What one operation holds. turn: of its last ask. broken_by: who broke it; it is free once
    its holder has given it back, or has been silent for too long."""

    holder: Holder
    turn: int
    token: int
    parts: tuple[Part, ...]
    since: float
    expires_at: float
    broken_by: str = ""
    broken_because: str = ""

    @property
    def roles(self) -> tuple[str, ...]:
        """Its roles, sorted."""
        return tuple(part.role for part in self.parts)

    def part(self, role: str) -> Part | None:
        """What it has of a role."""
        return next((part for part in self.parts if part.role == role), None)

    def orphaned(self, now: float) -> bool:
        """Whether nobody has renewed it in time. It still blocks: its hosts may be away."""
        return now > self.expires_at


@dataclass(frozen=True, slots=True)
class Waiting:
    """An operation that waits for roles; forgotten when it has not asked again in time.

    token: of the lease that it says it has, with hosts away; 0: none.
    """

    holder: Holder
    turn: int
    claims: tuple[Claim, ...]
    since: float
    until: float
    token: int = 0


@dataclass(frozen=True, slots=True)
class Broken:
    """A lease that was broken: whose, which roles, by whom, why and when."""

    operation: str
    token: int
    roles: tuple[str, ...]
    by: str
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class Table:
    """All leases.

    last: the highest token given. ended: the last turn of an operation that is over (given back,
    or replaced by a later one) and since when, so that an ask that comes late is known to be late.
    careful_until: a table that was lost knows no holders; until then they say so, and nobody gets
    a lease.
    """

    last: int = 0
    leases: tuple[Lease, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    ended: tuple[tuple[str, int, float], ...] = ()
    broken: tuple[Broken, ...] = ()
    careful_until: float = 0.0

    def of(self, operation: str) -> Lease | None:
        """What that operation holds."""
        return next((x for x in self.leases if x.holder.operation == operation), None)


# ---------------------------------------------------------------- what is said to it


@dataclass(frozen=True, slots=True)
class Wanted:
    """An operation asks for roles, all or none; asked again with the same turn, it is renewed.

    keep: see `Ask`. token: of the lease that it believes to have; 0: none.
    """

    holder: Holder
    turn: int
    claims: tuple[Claim, ...]
    keep: bool = False
    token: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Done:
    """An operation gives back what it asked for up to this turn, and waits for nothing."""

    operation: str
    turn: int
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Break:
    """The leases on a role are broken. operation: only that one's; empty: all. orphaned: only
    those that nobody renews any more."""

    role: str
    by: str
    reason: str
    operation: str = ""
    orphaned: bool = False
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What asking came to. anew: it had been lost meanwhile, so hosts may have been unwatched.

    granted: `grant` is there. waits: for what `reasons` say. wanted: granted, and somebody urgent
    waits for it. broken: by a person, and what for. superseded: a later ask has been made.
    """

    word: Word
    reasons: tuple[str, ...] = ()
    grant: Grant | None = None
    anew: bool = False
    by: str = ""


# ---------------------------------------------------------------- from one run to the next


@dataclass(frozen=True, slots=True)
class LeasesInput:
    """The workflow's argument. careful: there was a table before, and it was lost (terminated):
    who held leases must say so first. at: when it was started. run_events: see RolloutInput."""

    careful: bool = False
    at: float = 0.0
    table: Table | None = None
    run_events: int = 4_000
