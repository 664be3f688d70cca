"""What does a plan rest on: the worker's source, the inventory, and what the hosts said?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from guardrail.decide.terms import Resolved
from guardrail.model.budget import RingListed
from guardrail.model.change import Change
from guardrail.model.common import Origin
from guardrail.model.fleet import Host, Leading
from guardrail.model.gate import Gate
from guardrail.model.plan import Excluded
from guardrail.model.policy import Policy

NAMED = 50
"""So many hosts are named in one message; above that, the number of the others."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found on one host. trouble: why it could not be looked at; empty if it was.

    leaves: whether a SIGTERM takes its Consul agent out of the catalog; empty where the agent
    is no Consul agent. no_old, no_new: what was said against bringing the old and the new version
    there; empty where that is possible, or cannot be asked.
    """

    installed: str | None = None
    running: str | None = None
    trouble: str = ""
    leaves: Literal["", "yes", "no", "unknown"] = ""
    no_old: str = ""
    no_new: str = ""


@dataclass(frozen=True, slots=True)
class Watching:
    """How a gate is read. scrape: measured seconds between samples, None if that is not known;
    timeout: seconds that one read may take."""

    scrape: float | None = None
    timeout: float = 2.0


@dataclass(frozen=True, slots=True)
class Found:
    """The worker's source, the inventory and the hosts, as they were found.

    hosts: all of the fleet. seen: by host name, of those that are not down. change: None when
    the source has none of that name; `changes` are the names it has. added: the names of those
    policies that are the caller's, not the source's. watching: by gate. ring: of
    the fleet's tier, where it has one. leading: who leads the servers among them, or why
    that cannot be told.
    """

    hosts: tuple[Host, ...]
    seen: Mapping[str, Seen]
    change: Change | None
    changes: tuple[str, ...] = ()
    policies: tuple[Policy, ...] = ()
    added: frozenset[str] = frozenset()
    gates: tuple[Gate, ...] = ()
    watching: Mapping[str, Watching] = field(default_factory=dict)
    leading: Leading | str = "nobody was asked"
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    ring: RingListed | None = None

    def at(self, name: str) -> Seen:
        """What was seen of a host; one that nobody looked at is in trouble."""
        return self.seen.get(name, Seen(trouble="was not looked at"))


def gates_asked(
    care: Resolved, also: Sequence[str], rollout: str
) -> tuple[tuple[str, Origin], ...]:
    """The gates that policies require, then the ones that the rollout names besides."""
    required = {stated.value: stated.origin for stated in care.gates}
    own = {name: Origin(f"rollout {rollout}", "", 0) for name in also if name not in required}
    return tuple((required | own).items())


def down_by_domain(excluded: Sequence[Excluded]) -> Counter[str]:
    """How many hosts of each failure domain were down before the operation."""
    return Counter(host.failure_domain for host in excluded if host.down)


def counted(count: int, what: str = "host") -> str:
    """`1 host`, `3 hosts`, `2 changed hosts`, for people."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def are(count: int) -> str:
    """`1 host is`, `3 hosts are`."""
    return f"{counted(count)} {'is' if count == 1 else 'are'}"


def named(names: Sequence[str]) -> str:
    """The names, or the first of them and how many there are besides."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
