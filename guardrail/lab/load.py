"""Who asks the boot service, and what do they do when it fails?

An open loop: fresh boots arrive at random at a set rate whatever the service answers, and a
failed one is tried again with the same keys, up to three times, 1 to 3 s apart. `POST
/ctl?lam=N` sets the rate.
"""

import asyncio
import itertools
import random

from guardrail.lab.layout import from_arguments
from guardrail.lab.parameters import Parameters, parameters
from guardrail.lab.wire import Client, LoopLag, Query, Reply, Server, run, sample

ANSWER_TIMEOUT = 3.0


class Load:
    """The clients: what they wanted and what they got."""

    def __init__(self, service: Client, numbers: Parameters, rate: float) -> None:
        self._service, self._numbers = service, numbers
        self.rate, self.lag = rate, LoopLag()
        self._changed = asyncio.Event()
        self._clients: set[asyncio.Task[None]] = set()
        self.counts: dict[str, int] = dict.fromkeys(
            ("boots", "boots_ok", "boots_failed", "attempts", "attempts_throttled"), 0
        )
        weights = (r**-numbers.zipf_exponent for r in range(1, numbers.keys + 1))
        self._cumulative = list(itertools.accumulate(weights))
        self._keys = range(1, numbers.keys + 1)

    async def arrive(self) -> None:
        """Fresh boots as a Poisson process; after a stall it catches up, as real clients do."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if self.rate <= 0:
                await self._changed.wait()
                due = loop.time()
            self._changed.clear()
            due += random.expovariate(self.rate) if self.rate > 0 else 0
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            client = asyncio.create_task(self._boot())
            self._clients.add(client)
            client.add_done_callback(self._clients.discard)

    async def _boot(self) -> None:
        numbers = self._numbers
        keys = random.choices(self._keys, cum_weights=self._cumulative, k=numbers.keys_per_boot)
        target = f"/boot?keys={','.join(map(str, keys))}"
        self.counts["boots"] += 1
        for left in range(numbers.retries, -1, -1):
            if await self._attempt(target):
                self.counts["boots_ok"] += 1
                return
            if left:
                await asyncio.sleep(random.uniform(numbers.backoff_least, numbers.backoff_most))
        self.counts["boots_failed"] += 1

    async def _attempt(self, target: str) -> bool:
        self.counts["attempts"] += 1
        try:
            status, _, _ = await self._service.request("GET", target, within=ANSWER_TIMEOUT)
        except OSError:
            return False
        self.counts["attempts_throttled"] += status == 429
        return status == 200

    async def control(self, query: Query) -> Reply:
        rate = float(query["lam"])
        if not 0 <= rate <= 10_000:
            raise ValueError(f"lam is 0 to 10000 boots a second, not {query['lam']}")
        self.rate = rate
        self._changed.set()
        return 200, f"lam {rate:g}\n"

    async def health(self, query: Query) -> Reply:  # noqa: ARG002
        return 200, f"lam {self.rate:g}\n"

    async def metrics(self, query: Query) -> Reply:  # noqa: ARG002
        lines = [sample(f"lab_{name}_total", n) for name, n in self.counts.items()]
        lines.append(sample("lab_lambda", self.rate))
        lines.append(sample("lab_boots_open", len(self._clients)))
        return 200, "\n".join([*lines, *self.lag.lines(), ""])


async def main() -> None:
    """Idle until given a rate, so that nothing is asked before the cache is warm."""
    layout = from_arguments()
    load = Load(Client(layout.address(4), 8000), parameters(layout.slots), rate=0.0)
    routes = {
        "GET /metrics": load.metrics,
        "GET /health": load.health,
        "POST /ctl": load.control,
    }
    server = await Server(routes).listen(layout.address(7), 8002)
    async with server:
        await asyncio.gather(load.arrive(), load.lag.measure(), server.serve_forever())


if __name__ == "__main__":
    run(main)
