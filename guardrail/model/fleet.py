"""Which hosts may one operation touch, and how are they reached?"""

from dataclasses import dataclass, field

from guardrail.model.common import Secret, Tls

UNKNOWN_DOMAIN = "unknown"
"""The failure domain of hosts that do not say theirs; all of them together are one."""


@dataclass(frozen=True, slots=True)
class Host:
    """One machine that can be changed and reverted on its own; its key is (inventory, name).

    `down` says that the inventory lists it as not serving; `down_reason` says why.
    """

    inventory: str
    name: str
    address: str
    failure_domain: str
    roles: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    down: bool = False
    down_reason: str = ""

    def label(self, key: str) -> str | None:
        """The value of one label, or None."""
        return dict(self.labels).get(key)


@dataclass(frozen=True, slots=True)
class ConsulInventory:
    """Hosts are the nodes of one service in Consul's catalog, as its servers see it.

    ring: the key under which the tier's control plane keeps which node serves which slot.
    """

    address: str
    service: str
    filter: str | None = None
    datacenter: str | None = None
    namespace: str | None = None
    partition: str | None = None
    node_meta: tuple[tuple[str, str], ...] = ()
    token: Secret | None = None
    tls: Tls | None = None
    ring: str | None = None


@dataclass(frozen=True, slots=True)
class HostList:
    """Hosts are the ones listed in the fleet document itself."""

    hosts: tuple[Host, ...]


@dataclass(frozen=True, slots=True)
class FailureDomain:
    """Where a host's failure domain is read: a node meta key, or a label (one of them)."""

    node_meta: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class SshReach:
    """How the `ssh` driver reaches a host. Host keys are always checked."""

    user: str | None = None
    port: int | None = None
    identity: Secret | None = None
    certificate: Secret | None = None
    known_hosts: Secret | None = None
    jump: str | None = None
    config: str | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """The ways to reach hosts of a fleet; a driver takes the part it needs."""

    ssh: SshReach | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """The document `Fleet`: an inventory, failure domains and a way to reach the hosts."""

    name: str
    inventory: ConsulInventory | HostList
    failure_domain: FailureDomain = field(default_factory=FailureDomain)
    reach: Reach = field(default_factory=Reach)
    description: str = ""


@dataclass(frozen=True, slots=True)
class Leading:
    """Who leads servers that choose a leader among them. host: its name.

    unwell: what they themselves say is wrong with them, in words; empty: all of them are well.
    """

    host: str
    unwell: str = ""


@dataclass(frozen=True, slots=True)
class KnownFleet:
    """The hosts that a fleet had when a rollout on it was planned last; at: seconds since 1970."""

    fleet: str
    hosts: tuple[str, ...]
    at: float
