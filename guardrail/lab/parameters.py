"""With which numbers does the lab reproduce the incident?

The reference set (30 hosts) was found by measurement: demand tips over after 8 to 11 restarts 6
s apart and stays down. What makes it metastable is a client-pool queue longer than the request
time-out (120 queries, 3 s, against 1 s) whose timed-out queries are still executed. With fewer
hosts a cold slot is a larger share of the keys, so keys per request and the key space shrink
with the ring.
"""

from dataclasses import dataclass
from typing import Literal

Load = Literal["peak", "off-peak"]

REFERENCE_SLOTS = 24
LOADS: dict[Load, float] = {"peak": 70.0, "off-peak": 24.0}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Rates are per second, times in seconds."""

    slots: int
    keys: int
    keys_per_boot: int
    zipf_exponent: float = 1.0
    shards: int = 6
    pool: int = 2
    query_time: float = 0.05
    queue_bound: int = 120
    timeout: float = 1.0
    retries: int = 3
    backoff_least: float = 1.0
    backoff_most: float = 3.0
    ttl_mean: float = 3600.0

    @property
    def shard_capacity(self) -> float:
        """Queries per second that one shard completes: 40."""
        return self.pool / self.query_time


def parameters(slots: int) -> Parameters:
    """The set for a ring of this many slots; 24 gives the measured reference."""
    keys_per_boot = max(2, round(10 * slots / REFERENCE_SLOTS))
    # Refill time of a slot is keys / (keys per boot x rate): kept as it is in the reference.
    keys = round(20_000 * slots / REFERENCE_SLOTS * keys_per_boot / 10)
    return Parameters(slots=slots, keys=keys, keys_per_boot=keys_per_boot)
