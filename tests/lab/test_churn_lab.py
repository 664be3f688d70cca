"""Does an agent that a person restarts count against the budget, on a real catalog? (the lab)"""

import asyncio
from collections.abc import Iterator

import pytest
from lab.engine_rig import (
    LATE,
    PERMITTED,
    Engine,
    begun,
    clock_of,
    engine_with,
    holds,
    now,
    report,
    told,
)
from lab.rig import OFF_PEAK, Lab, on_host

pytestmark = [pytest.mark.lab, pytest.mark.second]

WINDOW, BAKE = 30.0, 3.0
SEEN = 3.0
"""Seconds from a node's leaving the catalog to the hold: the watch's look, and its signal."""
LEAVES = 10.0
"""Seconds that an agent takes at most to leave, once it is told to restart."""

POLICY = """
---
# Two may leave the catalog within half a minute, whoever takes them out.
apiVersion: guardrail/v1
kind: Policy
metadata: {name: churned, owners: [tests]}
spec:
  match: {fleets: [churned]}
  limits: {unavailable: 2, pace: {between: 1s}, churn: {departures: 2, per: 30s}}
  bake: {for: 3s}
"""


@pytest.fixture(scope="module")
def counting(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with a policy that limits churn."""
    with engine_with(lab, tmp_path_factory.mktemp("counting"), policies=POLICY) as running:
        yield running


def restart_by_hand(lab: Lab, *names: str) -> float:
    """Restart agents as a person would, on their hosts, which takes them out of the catalog."""

    async def restart(name: str) -> None:
        (done,) = await on_host(lab, lab.layout.host(name), "lab-host restart consul")
        assert done.exit_status == 0, done.stderr

    async def together() -> None:
        await asyncio.gather(*map(restart, names))

    asked = now()
    asyncio.run(together())
    return asked


def test_agents_restarted_by_hand_hold_a_rollout_that_restarts_none_of_them(
    counting: Engine, fresh_lab: Lab
) -> None:
    """The rollout's own change keeps nodes registered, and it touches none of these two hosts."""
    lab = fresh_lab
    lab.set_load(OFF_PEAK)  # two cold slots at the peak are the database's matter, not this test's
    name = counting.start("churned", "^cache-0[01]")
    counting.until_begun(name, 3)
    asked = restart_by_hand(lab, "cache-027", "cache-028")
    hold = counting.until_held(name, "limit:churn")
    held = clock_of(hold.since)
    report(f"two agents restarted by hand, held {held - asked:.2f} s after the first was told to")
    assert held - asked < 2 * LEAVES + SEEN
    (reason,) = hold.reasons
    for word in ("cache-027 at ", "cache-028 at ", "2 nodes left the catalog within 30 s"):
        assert word in reason
    shown = counting("rollout", "status", name)
    assert "limit:churn" in shown.text
    assert "by itself" in shown.text

    counting.until(name, lambda s: not holds(s, "limit:churn"), "room again")
    status = counting.until_ended(name)
    assert (status.phase, status.changed) == ("completed", 19)
    (cleared,) = told(status, "hold limit:churn cleared")
    assert held + WINDOW - LEAVES < cleared < held + WINDOW + LATE
    late = [begin.at for begin in begun(lab, name) if begin.at > held + PERMITTED]
    assert late, "it was held in the middle"
    assert min(late) > cleared + BAKE - 0.1
    report(f"held for {cleared - held:.1f} s, first begin {min(late) - cleared:.1f} s after")


def test_a_rollout_that_takes_nodes_out_keeps_within_its_budget(
    counting: Engine, fresh_lab: Lab
) -> None:
    """Each host leaves the catalog: two, then a wait, then two more; nobody holds it for good."""
    lab = fresh_lab
    lab.set_load(OFF_PEAK)  # four cold slots at the peak are the database's matter, not this test's
    began = now()
    name = counting.start("churned", "^cache-00[1-4]$", stages="100%", change="default-leave")
    status = counting.until_ended(name)
    assert (status.phase, status.changed) == ("completed", 4)
    times = [begin.at for begin in begun(lab, name)]
    assert len(times) == 4
    gaps = [later - earlier for earlier, later in zip(times, times[2:], strict=False)]
    report(f"four hosts that leave, two in {WINDOW:g} s: {now() - began:.1f} s; gaps {gaps}")
    assert min(gaps) > WINDOW - LEAVES
    assert told(status, "hold limit:churn"), "two that left are all that may"
