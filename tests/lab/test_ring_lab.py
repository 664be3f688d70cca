"""Does the lab's ring say what is cold: slots that have no warm server, whoever made them so?"""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
from lab.engine_rig import Engine, begun, engine_with, now, report, until
from lab.rig import OFF_PEAK, Lab, connected

from guardrail.lab.layout import RING_KEY

pytestmark = [pytest.mark.lab, pytest.mark.second]

POLICIES = """
---
# One slot cold at a time, however many hosts may be away; who takes a slot shows that it is warm.
apiVersion: guardrail/v1
kind: Policy
metadata: {name: ringed, owners: [tests]}
spec:
  match: {fleets: [ringed]}
  limits: {coldCapacity: 1, unavailable: 3, unavailablePerDomain: 3, spares: 2}
  warmUp: {gate: hits-again, within: 60s}
---
apiVersion: guardrail/v1
kind: Policy
metadata: {name: many-spares, owners: [tests]}
spec:
  match: {fleets: [many-spares]}
  limits: {spares: 9}
"""

GATE = """
---
# A host that nobody asks anything has no hits, and never passes.
apiVersion: guardrail/v1
kind: Gate
metadata: {name: hits-again}
spec:
  title: Hits over gets of this host
  class: safety
  query: >-
    rate(memcached_get_hits{host="{host}"}[5s])
    / (rate(memcached_get_hits{host="{host}"}[5s]) + rate(memcached_get_misses{host="{host}"}[5s]))
  pass: {above: 0.5}
  every: 1s
  failAfter: 2
  passAfter: 2
  evidence: {maxAge: 5s}
"""


@pytest.fixture(scope="module")
def ringed(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine whose policies speak of the ring."""
    folder = tmp_path_factory.mktemp("ringed")
    with engine_with(lab, folder, policies=POLICIES, gates=GATE) as running:
        yield running


class Slots:
    """Who takes a slot and when, as the ring's key shows it."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.taken, self._stop = lab, [], threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> "Slots":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        before = set(self.lab.ring()["slots"])
        while not self._stop.is_set():
            slots = set(self.lab.ring()["slots"])
            self.taken += [(now(), name) for name in sorted(slots - before)]
            before = slots
            time.sleep(0.1)


def test_a_restart_costs_its_slot_until_the_spare_that_took_it_is_warm(
    ringed: Engine, fresh_lab: Lab
) -> None:
    lab, ring = fresh_lab, fresh_lab.ring()
    lab.set_load(OFF_PEAK)
    serving, spare = ring["slots"][:3], ring["spares"][-1]
    with Slots(lab) as slots:
        name = ringed.start(
            "ringed",
            f"^({'|'.join([*serving, spare])})$",
            stages="100%",
            change="default-leave",
            ring=RING_KEY,
        )
        status = ringed.until_ended(name)
    # Three of four end as spares, whom nobody asks anything: they need not show to be warm.
    assert (status.phase, status.changed) == ("completed", 4)
    times = {begin.host: begin.at for begin in begun(lab, name)}
    _, second, third = sorted(times[host] for host in serving)
    assert times[spare] < second, "a spare takes nothing up"
    gaps = [later - taken for later, (taken, _) in zip((second, third), slots.taken, strict=False)]
    report(f"a host begins {min(gaps):.1f} to {max(gaps):.1f} s after the slot before was taken")
    assert min(gaps) > 2, "two readings of the spare, one second apart, and the window before"
    assert len(slots.taken) >= 3


def test_a_slot_that_somebody_else_made_cold_counts(ringed: Engine, fresh_lab: Lab) -> None:
    lab, ring = fresh_lab, fresh_lab.ring()
    lab.set_load(OFF_PEAK)
    serving, other = ring["slots"][:2], ring["slots"][5]

    async def begun_and_the_other_too() -> str:
        # Connected before, so that the other one leaves as soon as the first host does.
        async with connected(lab, lab.layout.host(other)) as shell:
            name = ringed.start(
                "ringed",
                f"^({'|'.join(serving)})$",
                stages="100%",
                change="default-leave",
                ring=RING_KEY,
            )
            ringed.until_begun(name, 1)
            done = await shell.run("lab-host restart consul")
            assert done.exit_status == 0, done.stderr
        return name

    with Slots(lab) as slots:
        name = asyncio.run(begun_and_the_other_too())
        until(lambda: len(slots.taken) >= 2, "two slots are taken")
        status = ringed.until_ended(name)
    assert (status.phase, status.changed) == ("completed", 2)
    first, second = [begin.at for begin in begun(lab, name)]
    both = max(at for at, _ in slots.taken[:2])
    assert first < both < second
    report(f"the second host begins {second - both:.1f} s after the second slot was taken")
    assert second - both > 2


def test_too_few_spares_are_a_refusal_that_counts_them(ringed: Engine, lab: Lab) -> None:
    _, file = ringed.files("many-spares", "^cache-001$", change="default-leave", ring=RING_KEY)
    refused = ringed("plan", file)
    assert refused.code == 1, refused.text
    count = len(lab.ring()["spares"])
    assert f"slots and {count} spares, and at least 9 must be there" in refused.text
    assert "policy many-spares" in refused.text
