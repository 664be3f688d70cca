"""Which cache node serves which slot, and what happens when one leaves the catalog?

The control plane of the incident: it follows the catalog, and a node that leaves loses its slot
at once to the first spare, which is emptied first; a node that comes back is emptied and
becomes a spare. It cannot tell a restart of an agent from the death of a cache. It also exports
memcached's counters, one node a probe, so that each cache host is its own target in Prometheus.
"""

import asyncio
import json
from dataclasses import dataclass, field

from guardrail.lab.layout import MEMCACHED_PORT, RING_KEY, SERVICE, Layout, from_arguments
from guardrail.lab.memcache import Memcached
from guardrail.lab.wire import Client, LoopLag, Query, Reply, Server, consul_read, run, sample

EXPORTED = ("get_hits", "get_misses", "curr_items", "uptime", "cmd_flush", "evictions")


@dataclass(slots=True)
class Ring:
    """Slots and spares by node name. Pure: who joined and who left decide it alone."""

    slots: list[str | None] = field(default_factory=list)
    spares: list[str] = field(default_factory=list)

    def form(self, names: list[str], slots: int) -> None:
        """The first ring, once every node has registered."""
        self.slots, self.spares = list(names[:slots]), names[slots:]

    def leave(self, name: str) -> str | None:
        """The spare that takes the slot of a node that left; None when no slot was lost."""
        if name in self.spares:
            self.spares.remove(name)
        if name not in self.slots:
            return None
        spare = self.spares.pop(0) if self.spares else None
        self.slots[self.slots.index(name)] = spare
        return spare

    def join(self, name: str) -> None:
        """A node that came back is a spare, unless a slot has nobody."""
        if None in self.slots:
            self.slots[self.slots.index(None)] = name
        else:
            self.spares.append(name)


class Controller:
    """Carries the catalog's changes into the ring, and the ring into Consul's key-value store."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._consul = Client(layout.consul_address, 8500)
        self._writer = Client(layout.consul_address, 8500)
        self.ring, self.version, self.lag = Ring(), 0, LoopLag()
        self.members: dict[str, str] = {}
        self.counts = dict.fromkeys(("promotions", "departures", "joins"), 0)
        self._nodes = {h.name: Memcached(h.address, MEMCACHED_PORT) for h in layout.hosts}

    async def follow_catalog(self) -> None:
        """Blocking queries until cancelled; a silent or empty catalog changes nothing."""
        index = 0
        while True:
            try:
                path = f"/v1/catalog/service/{SERVICE}"
                index, entries = await consul_read(self._consul, path, index)
                await self._update({e["Node"]: e["Address"] for e in entries})
            except (OSError, ValueError, KeyError) as fault:
                print(f"ring: {fault}", flush=True)
                index = 0
                await asyncio.sleep(0.5)

    async def _update(self, now: dict[str, str]) -> None:
        if not self.ring.slots:
            if len(now) < self._layout.count:
                return  # a ring formed too early would count hosts of the fleet as spares
            self.ring.form(sorted(now), self._layout.slots)
            self.members = now
            await self._publish()
            return
        gone, new = sorted(self.members.keys() - now.keys()), sorted(now.keys() - self.members)
        if now and (gone or new):
            await self._change(gone, new, now)

    async def _change(self, gone: list[str], new: list[str], now: dict[str, str]) -> None:
        for name in gone:
            self.counts["departures"] += 1
            if spare := self.ring.leave(name):
                self.counts["promotions"] += 1
                await self._flush(spare)
        for name in new:
            self.counts["joins"] += 1
            await self._flush(name)
            self.ring.join(name)
        self.members = now
        await self._publish()

    async def _flush(self, name: str) -> None:
        try:
            await self._nodes[name].flush()
        except OSError as fault:
            print(f"ring: {name} was not emptied: {fault}", flush=True)

    async def _publish(self) -> None:
        self.version += 1
        addresses = {host.name: host.address for host in self._layout.hosts} | self.members
        ring = {
            "version": self.version,
            "slots": self.ring.slots,
            "spares": self.ring.spares,
            "addresses": addresses,
        }
        body = json.dumps(ring).encode()
        status, _, answer = await self._writer.request("PUT", f"/v1/kv/{RING_KEY}", body)
        if status != 200 or answer.strip() != b"true":
            raise OSError(f"consul did not store the ring: {status} {answer[:80]!r}")

    async def health(self, query: Query) -> Reply:  # noqa: ARG002
        """Good once the ring has been formed."""
        if not self.ring.slots:
            return 503, f"{len(self.members)} of {self._layout.count} nodes registered\n"
        return 200, f"ring version {self.version}\n"

    async def metrics(self, query: Query) -> Reply:  # noqa: ARG002
        lines = [sample(f"lab_ring_{name}_total", n) for name, n in self.counts.items()]
        lines += [
            sample("lab_ring_slots", len(self.ring.slots)),
            sample("lab_ring_spares", len(self.ring.spares)),
            sample("lab_ring_starved", self.ring.slots.count(None)),
            sample("lab_ring_version", self.version),
        ]
        return 200, "\n".join([*lines, *self.lag.lines(), ""])

    async def probe(self, query: Query) -> Reply:
        """memcached's counters of one host; 503 when it does not answer, so that `up` is 0."""
        name = query["target"]
        if name not in self._nodes:
            raise ValueError(f"no host {name}")
        try:
            stats = await self._nodes[name].stats()
        except OSError as fault:
            return 503, f"{fault}\n"
        lines = [sample(f"memcached_{key}", float(stats[key])) for key in EXPORTED]
        return 200, "\n".join([*lines, ""])


async def main() -> None:
    """Serve until told to stop."""
    layout = from_arguments()
    controller = Controller(layout)
    routes = {
        "GET /metrics": controller.metrics,
        "GET /health": controller.health,
        "GET /probe": controller.probe,
    }
    server = await Server(routes).listen(layout.address(5), 8001)
    async with server:
        await asyncio.gather(
            controller.follow_catalog(), controller.lag.measure(), server.serve_forever()
        )


if __name__ == "__main__":
    run(main)
