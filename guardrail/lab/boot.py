"""What does the boot service do with a request, and where does a cache miss turn into load?

A boot reads its keys from the ring's nodes, one multi-get a node. If any key is missing the
whole read scatters to every shard, all of which must answer within a second; then the missing
keys are filled. `POST /ctl?cap=N` admits at most N boots a second (`none` lifts it); `POST
/prewarm?lam=N` puts the cache into the long-run state of that load, so that no warm-up is
waited for.
"""

import asyncio
import base64
import json
import random
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from guardrail.lab.database import Database, QueueFull
from guardrail.lab.layout import MEMCACHED_PORT, RING_KEY, Layout, from_arguments
from guardrail.lab.memcache import Memcached
from guardrail.lab.parameters import Parameters, parameters
from guardrail.lab.wire import Client, LoopLag, Query, Reply, Server, consul_read, run, sample

VALUE = "v" * 100


@dataclass(slots=True)
class Admission:
    """A token bucket; without a cap everything is admitted."""

    cap: float | None = None
    _tokens: float = 0.0
    _at: float = field(default_factory=time.monotonic)

    def set(self, cap: float | None) -> None:
        self.cap, self._tokens, self._at = cap, 0.0, time.monotonic()

    def admit(self) -> bool:
        if self.cap is None:
            return True
        now = time.monotonic()
        most = max(1.0, self.cap * 0.2)
        self._tokens = min(most, self._tokens + (now - self._at) * self.cap)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Cache:
    """The ring as last read from Consul, and a connection to each of its nodes."""

    def __init__(self) -> None:
        self.slots: list[str | None] = []
        self.version = 0
        self._addresses: dict[str, str] = {}
        self._nodes: dict[str, Memcached] = {}

    def follow(self, ring: dict[str, object]) -> None:
        self.slots = list(ring["slots"])  # type: ignore[call-overload]
        self._addresses = dict(ring["addresses"])  # type: ignore[call-overload]
        self.version = int(str(ring["version"]))

    def by_node(self, keys: Iterable[int]) -> dict[str, list[int]]:
        """Keys by the node that should hold them; those of an empty slot under ""."""
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for key in keys:
            slot = zlib.crc32(b"k%d" % key) % len(self.slots) if self.slots else 0
            groups[(self.slots[slot] or "") if self.slots else ""].append(key)
        return groups

    def node(self, name: str) -> Memcached:
        address = self._addresses[name]
        if address not in self._nodes:
            self._nodes[address] = Memcached(address, MEMCACHED_PORT)
        return self._nodes[address]

    async def held(self, keys: list[int]) -> set[int]:
        """The keys that the cache holds; a node that does not answer holds none."""
        groups = self.by_node(keys)
        found = await asyncio.gather(*(self._held(name, part) for name, part in groups.items()))
        return set().union(*found)

    async def _held(self, name: str, keys: list[int]) -> set[int]:
        if not name:
            return set()
        try:
            names = await self.node(name).get([f"k{key}" for key in keys])
        except OSError:
            return set()
        return {key for key in keys if f"k{key}" in names}

    async def fill(self, keys: Iterable[int], ttl_mean: float) -> int:
        """Store these keys, each for an exponential time; how many were sent off."""
        sent = 0
        for name, part in self.by_node(keys).items():
            if not name:
                continue
            entries = [(f"k{key}", int(random.expovariate(1 / ttl_mean))) for key in part]
            try:
                await self.node(name).set(entries, VALUE)
            except OSError:
                continue
            sent += len(part)
        return sent


class Boot:
    """The service: its counters are what the gates read."""

    def __init__(self, layout: Layout, numbers: Parameters) -> None:
        self._layout, self._numbers = layout, numbers
        self.cache, self.database = Cache(), Database(numbers)
        self.admission, self.lag = Admission(), LoopLag()
        self.counts: dict[str, int] = dict.fromkeys(
            ("gets", "hits", "fills", "admitted", "throttled", "boot_timeouts", "boot_rejects"), 0
        )
        self.counts["boot_errors"] = 0

    async def boot(self, query: Query) -> Reply:
        """One boot attempt: 200, 429 throttled, 503 with the reason."""
        if not self.admission.admit():
            self.counts["throttled"] += 1
            return 429, "throttled\n"
        self.counts["admitted"] += 1
        keys = list(dict.fromkeys(int(key) for key in query["keys"].split(",")))
        held = await self.cache.held(keys)
        self.counts["gets"] += len(keys)
        self.counts["hits"] += len(held)
        missing = [key for key in keys if key not in held]
        return await self._read(keys, missing) if missing else (200, "ok\n")

    async def _read(self, keys: list[int], missing: list[int]) -> Reply:
        try:
            await self.database.scatter(keys)
        except TimeoutError:
            self.counts["boot_timeouts"] += 1
            return 503, "the database timed out\n"
        except QueueFull:
            self.counts["boot_rejects"] += 1
            return 503, "the database is full\n"
        except Exception as fault:
            self.counts["boot_errors"] += 1
            return 503, f"the database failed: {fault}\n"
        self.counts["fills"] += await self.cache.fill(missing, self._numbers.ttl_mean)
        return 200, "ok\n"

    async def control(self, query: Query) -> Reply:
        word = query["cap"]
        cap = None if word == "none" else float(word)
        if cap is not None and not 0 <= cap < float("inf"):
            raise ValueError(f"cap is a rate of 0 or more, or none, not {word}")
        self.admission.set(cap)
        return 200, f"cap {word}\n"

    async def prewarm(self, query: Query) -> Reply:
        """Each key is there with the probability that it has in the long run at this load."""
        reads = self._numbers.keys_per_boot * float(query["lam"]) * self._numbers.ttl_mean
        weights = [r**-self._numbers.zipf_exponent for r in range(1, self._numbers.keys + 1)]
        scale = reads / sum(weights)
        warm = [
            key
            for key, weight in enumerate(weights, start=1)
            if random.random() < (y := scale * weight) / (1 + y)
        ]
        sent = await self.cache.fill(warm, self._numbers.ttl_mean)
        # A reply on the same connection means that what was sent before it is stored.
        await self.cache.held(warm[:2000])
        return 200, f"{sent}\n"

    async def health(self, query: Query) -> Reply:  # noqa: ARG002
        """Good once the ring is known and every shard has its connections."""
        if not self.cache.slots:
            return 503, "no ring yet\n"
        return 200, f"ring version {self.cache.version}\n"

    async def metrics(self, query: Query) -> Reply:  # noqa: ARG002
        lines = [sample(f"lab_{name}_total", n) for name, n in self.counts.items()]
        cap = self.admission.cap
        lines.append(sample("lab_admission_cap", float("inf") if cap is None else cap))
        lines.append(sample("lab_ring_version", self.cache.version))
        return 200, "\n".join([*lines, *self.database.lines(), *self.lag.lines(), ""])

    async def follow_ring(self) -> None:
        """Long-poll the ring's key; when Consul is silent the last ring stands."""
        consul = Client(self._layout.consul_address, 8500)
        index = 0
        while True:
            try:
                index, entries = await consul_read(consul, f"/v1/kv/{RING_KEY}", index)
                if entries:
                    self.cache.follow(json.loads(base64.b64decode(entries[0]["Value"])))
            except (OSError, ValueError, KeyError):
                index = 0
                await asyncio.sleep(0.5)
            if not self.cache.slots:
                await asyncio.sleep(0.05)


async def main() -> None:
    """Serve until told to stop."""
    layout = from_arguments()
    service = Boot(layout, parameters(layout.slots))
    await service.database.open(layout.database_address)
    routes = {
        "GET /boot": service.boot,
        "GET /metrics": service.metrics,
        "GET /health": service.health,
        "POST /ctl": service.control,
        "POST /prewarm": service.prewarm,
    }
    server = await Server(routes).listen(layout.address(4), 8000)
    async with server:
        await asyncio.gather(service.follow_ring(), service.lag.measure(), server.serve_forever())


if __name__ == "__main__":
    run(main)
