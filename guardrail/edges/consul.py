"""Which hosts does Consul's catalog list, and how do its servers see one of them?

`ConsulHosts` is an inventory: the nodes of one service, whole or refused. `ConsulCatalog` is one
node as the servers know it: what its agent gossips, whether it lives, what runs on it.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from guardrail.edges.consul_api import ConsulApi, Scope, together
from guardrail.edges.consul_ring import read_ring
from guardrail.errors import Refused, Unanswered
from guardrail.model.budget import RingListed
from guardrail.model.fleet import UNKNOWN_DOMAIN, ConsulInventory, Fleet, Host
from guardrail.ports import CatalogEntry

_ALIVE = 1
_MEMBERS_FOR = 0.5  # seconds that one list of members serves everyone who asks

Record = dict[str, Any]


def open_api(source: ConsulInventory) -> ConsulApi:
    """The API of an inventory's Consul; close it at the end."""
    scope = Scope(source.datacenter, source.namespace, source.partition)
    return ConsulApi(source.address, token=source.token, tls=source.tls, scope=scope)


# ---------------------------------------------------------------- the hosts of a fleet


class ConsulHosts:
    """The inventory of a fleet in Consul."""

    async def hosts(self, fleet: Fleet) -> tuple[Host, ...]:
        """All nodes of the fleet's service, sorted by name; critical ones are marked down.

        Roles are the services of the node, labels its metadata. Raises Refused when the answer
        is filtered by ACLs or empty, Unanswered when there is none that can be used.
        """
        source = fleet.inventory
        if not isinstance(source, ConsulInventory):
            raise Refused(f"fleet {fleet.name} does not name Consul as its inventory")
        api = open_api(source)
        try:
            return await _hosts(api, source, fleet)
        except (KeyError, TypeError, AttributeError) as fault:
            reason = f"an answer without its usual fields ({fault!r})"
            raise Unanswered("Consul", api.address, reason) from fault
        finally:
            await api.close()

    async def ring(self, fleet: Fleet) -> RingListed | None:
        """The ring of the fleet's tier; None: it names none. Raises Refused, Unanswered."""
        source = fleet.inventory
        if not isinstance(source, ConsulInventory) or source.ring is None:
            return None
        api = open_api(source)
        try:
            return await read_ring(api, source.ring)
        finally:
            await api.close()


async def _hosts(api: ConsulApi, source: ConsulInventory, fleet: Fleet) -> tuple[Host, ...]:
    meta = [("node-meta", f"{key}:{value}") for key, value in source.node_meta]
    instances = await api.get_list(f"/v1/health/service/{quote(source.service, safe='')}", *meta)
    chosen = await _names_matching(api, source, meta)
    by_node: dict[str, list[Record]] = {}
    for instance in instances:
        name = instance["Node"]["Node"]
        if chosen is None or name in chosen:
            by_node.setdefault(name, []).append(instance)
    if not by_node:
        raise Refused(_empty(source))
    roles = await _roles(api, set(by_node))
    found = (_host(name, by_node[name], roles[name], fleet) for name in by_node)
    return tuple(sorted(found, key=lambda host: host.name))


def _empty(source: ConsulInventory) -> str:
    asked = [f"service {source.service}"]
    asked += [f"filter {source.filter}"] if source.filter else []
    asked += [f"node meta {key}={value}" for key, value in source.node_meta]
    return (
        f"Consul at {source.address} lists no host for {', '.join(asked)}: check them with "
        "`consul catalog nodes`, and that the token may read (an older Consul hides nodes silently)"
    )


async def _names_matching(
    api: ConsulApi, source: ConsulInventory, meta: list[tuple[str, str]]
) -> set[str] | None:
    """The nodes that pass the filter, which speaks of nodes (`Meta.env == "lab"`); None: all."""
    if not source.filter:
        return None
    nodes = await api.get_list("/v1/catalog/nodes", ("filter", source.filter), *meta)
    return {node["Node"] for node in nodes}


async def _roles(api: ConsulApi, names: set[str]) -> dict[str, set[str]]:
    """The services of each node: one request a service, since there are far fewer than nodes."""
    services = sorted(await api.get_record("/v1/catalog/services"))
    paths = [f"/v1/catalog/service/{quote(service, safe='')}" for service in services]
    answers = await together(*(api.get_list(path) for path in paths))
    roles: dict[str, set[str]] = {name: set() for name in names}
    for service, instances in zip(services, answers, strict=True):
        for name in names & {instance["Node"] for instance in instances}:
            roles[name].add(service)
    return roles


def _host(name: str, instances: list[Record], roles: set[str], fleet: Fleet) -> Host:
    node = instances[0]["Node"]
    meta: dict[str, str] = node.get("Meta") or {}
    critical = _critical(check for instance in instances for check in instance["Checks"])
    return Host(
        inventory=_inventory(node, fleet),
        name=name,
        address=node["Address"],
        failure_domain=_domain(meta, fleet),
        roles=tuple(sorted(roles | {instance["Service"]["Service"] for instance in instances})),
        labels=tuple(sorted((key, value) for key, value in meta.items() if value)),
        down=bool(critical),
        down_reason="; ".join(critical),
    )


def _inventory(node: Record, fleet: Fleet) -> str:
    """Two fleets that find one node must agree that it is one host."""
    partition = node.get("Partition") or getattr(fleet.inventory, "partition", None)
    parts = ["consul", node.get("Datacenter") or "", *([partition] if partition else [])]
    return "/".join(part for part in parts if part)


def _domain(meta: dict[str, str], fleet: Fleet) -> str:
    key = fleet.failure_domain.node_meta or fleet.failure_domain.label
    return meta.get(key) or UNKNOWN_DOMAIN if key else UNKNOWN_DOMAIN


def _critical(checks: Iterable[Record]) -> list[str]:
    """The checks that are critical, each with the start of what it says."""
    found = {}
    for check in checks:
        if check["Status"] == "critical":
            said = " ".join((check.get("Output") or "").split())[:120]
            name = check["CheckID"]
            found[name] = f"{name} is critical: {said}" if said else f"{name} is critical"
    return [found[name] for name in sorted(found)]


def refuse_shrunken(expected: Iterable[str], hosts: Iterable[Host]) -> None:
    """Raises Refused when hosts that were listed before are listed no more, and names them."""
    missing = sorted(set(expected) - {host.name for host in hosts})
    if missing:
        shown = ", ".join(missing[:10]) + (" …" if len(missing) > 10 else "")
        raise Refused(
            f"the inventory has lost {len(missing)} hosts since the plan: {shown}; find out "
            "whether they left or are hidden (ACLs, another datacenter), then plan again"
        )


# ---------------------------------------------------------------- one node, as the servers see it


class ConsulCatalog:
    """The catalog of an inventory's Consul, asked at the address of its servers."""

    def __init__(self, api: ConsulApi) -> None:
        self.api = api
        self._members: dict[str, Record] = {}
        self._members_until = 0.0
        self._alone = asyncio.Lock()

    async def entry(self, node: str) -> CatalogEntry | None:
        """One node; None when the catalog does not have it. Raises Unanswered, Refused.

        `version` is the serf tag `build` that the node's agent gossips, not what its own API says.
        """
        name = quote(node, safe="")
        try:
            record = await self.api.get_record(f"/v1/catalog/node/{name}")
            checks = await self.api.get_list(f"/v1/health/node/{name}")
            member = await self._member(node)
            return _entry(record, checks, member) if record else None
        except (KeyError, TypeError, AttributeError) as fault:
            reason = f"an answer without its usual fields ({fault!r})"
            raise Unanswered("Consul", self.api.address, reason) from fault

    async def close(self) -> None:
        """Close the connections."""
        await self.api.close()

    async def _member(self, node: str) -> Record | None:
        # The list is of the whole datacenter: hosts that are verified together share one.
        async with self._alone:
            if time.monotonic() >= self._members_until:
                asked = time.monotonic()
                members = await self.api.get_list("/v1/agent/members")
                # A node that came back under its name may be listed as left, too.
                members.sort(key=lambda member: bool(member["Status"] == _ALIVE))
                self._members = {member["Name"]: member for member in members}
                self._members_until = asked + _MEMBERS_FOR
        return self._members.get(node)


def _entry(record: Record, checks: list[Record], member: Record | None) -> CatalogEntry:
    services = {service["Service"] for service in (record.get("Services") or {}).values()}
    failing = tuple(sorted(c["CheckID"] for c in checks if c["Status"] == "critical"))
    build = ((member or {}).get("Tags") or {}).get("build") or ""
    return CatalogEntry(
        node=record["Node"]["Node"],
        address=record["Node"]["Address"],
        version=build.split(":")[0] or None,
        alive=bool(member and member["Status"] == _ALIVE) and "serfHealth" not in failing,
        services=tuple(sorted(services)),
        failing=failing,
    )
