"""Which nodes have a service now, and when does that change? Consul's own answer, as it changes.

A blocking query: Consul answers when the service has changed since the number given, or after a few
seconds without a change. All nodes of the service are listed, whatever filter the fleet has: the
fleet may be a part of a tier, and what leaves the tier counts. Where the tier is a ring, who serves
its slots is read with each answer.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from guardrail.edges.consul import open_api
from guardrail.edges.consul_api import ConsulApi
from guardrail.edges.consul_ring import read_ring
from guardrail.errors import Unanswered
from guardrail.model.budget import Listed, Listing
from guardrail.model.fleet import ConsulInventory

WAIT = 3
"""Seconds that Consul may keep a question open; below the time after which it counts as silent."""


class ConsulListings:
    """The nodes of an inventory's service, each time they change."""

    def __init__(self, api: ConsulApi, source: ConsulInventory) -> None:
        self.api = api
        self._path = f"/v1/health/service/{quote(source.service, safe='')}"
        self._ring = source.ring
        self._meta = [("node-meta", f"{key}:{value}") for key, value in source.node_meta]
        self._index = 0

    async def next(self) -> Listing:
        """The nodes once they have changed, or after a few seconds; at once the first time.

        Raises Unanswered, or Refused when a part is hidden by ACLs. The next call then answers at
        once, since nobody knows what has changed meanwhile.
        """
        since, self._index = self._index, 0
        wait = [("index", str(since)), ("wait", f"{WAIT}s")] if since else []
        index, answer = await self.api.get_numbered(self._path, *self._meta, *wait)
        listing = self._listing(index, answer)
        if self._ring is not None:
            listing = replace(listing, ring=await read_ring(self.api, self._ring))
        self._index = index if index >= since else 0  # it counts anew: ask anew
        return listing

    def _listing(self, index: int, answer: Any) -> Listing:
        nodes: dict[str, Listed] = {}
        try:
            for instance in answer or []:
                name, one = instance["Node"]["Node"], _listed(instance)
                nodes[name] = _together(nodes.get(name), one)
        except (KeyError, TypeError, AttributeError) as fault:
            reason = f"an answer without its usual fields ({fault!r})"
            raise Unanswered("Consul", self.api.address, reason) from fault
        return Listing(index, nodes)


def _listed(instance: dict[str, Any]) -> Listed:
    failing = tuple(
        f"{check['CheckID']} is critical"
        for check in instance["Checks"]
        if check["Status"] == "critical"
    )
    return Listed(int(instance["Service"]["CreateIndex"]), failing)


def _together(known: Listed | None, one: Listed) -> Listed:
    """A node with several instances has left only if all of them have."""
    if known is None:
        return one
    failing = tuple(sorted({*known.failing, *one.failing}))
    return Listed(min(known.created, one.created), failing)


@asynccontextmanager
async def listings_of(source: ConsulInventory) -> AsyncIterator[ConsulListings]:
    """The listings of an inventory, with a connection of their own: a question that is kept open
    must not keep others waiting."""
    api = open_api(source)
    try:
        yield ConsulListings(api, source)
    finally:
        await api.close()
