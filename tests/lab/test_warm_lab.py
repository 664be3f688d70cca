"""Is a host of the lab done once the gate about it passes, and not before? (the lab)"""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from lab.engine_rig import Engine, begun, engine_with, report
from lab.rig import Lab

pytestmark = [pytest.mark.lab, pytest.mark.second]

SHOWN = 2.0
"""Seconds that three readings, one second apart, take at least."""

POLICIES = """
---
# One cold at a time; each shows that its cache answers before the next one begins.
apiVersion: guardrail/v1
kind: Policy
metadata: {name: warmed, owners: [tests]}
spec:
  match: {fleets: [warmed]}
  limits: {coldCapacity: 1}
  warmUp: {gate: cache-answers, within: 2m}
---
# Nobody is ever warm enough here.
apiVersion: guardrail/v1
kind: Policy
metadata: {name: chilled, owners: [tests]}
spec:
  match: {fleets: [chilled]}
  limits: {coldCapacity: 1}
  warmUp: {gate: never-warm, within: 4s}
"""

GATE = """
---
apiVersion: guardrail/v1
kind: Gate
metadata: {name: NAME}
spec:
  title: The cache of this host answers
  class: safety
  query: 'up{job="memcached", host="{host}"}'
  pass: {above: ABOVE}
  every: 1s
  failAfter: 2
  passAfter: 3
  evidence: {maxAge: 5s}
"""


@pytest.fixture(scope="module")
def warming(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with policies that wait for hosts to be warm."""
    answers = GATE.replace("NAME", "cache-answers").replace("ABOVE", "0.5")
    never = GATE.replace("NAME", "never-warm").replace("ABOVE", "2")
    folder = tmp_path_factory.mktemp("warming")
    with engine_with(lab, folder, policies=POLICIES, gates=answers + never) as running:
        yield running


def test_the_next_host_begins_once_the_last_one_is_warm(warming: Engine, fresh_lab: Lab) -> None:
    lab = fresh_lab
    name = warming.start("warmed", "^cache-00[1-3]$", stages="100%")
    status = warming.until_ended(name)
    assert (status.phase, status.changed) == ("completed", 3)
    times = [begin.at for begin in begun(lab, name)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    report(f"three hosts, each warm before the next: gaps of {min(gaps):.1f} to {max(gaps):.1f} s")
    assert min(gaps) > SHOWN


def test_a_host_that_is_not_warm_in_time_holds_and_says_so(warming: Engine, fresh_lab: Lab) -> None:
    lab = fresh_lab
    name = warming.start("chilled", "^cache-00[1-2]$", stages="100%")
    hold = warming.until_held(name, "host:")
    assert "gate never-warm has not passed within 4 s" in " ".join(hold.reasons)
    assert [f"host:{begin.host}" for begin in begun(lab, name)] == [hold.name]
    aborted = warming("rollout", "abort", name, "--reason", "seen enough")
    assert aborted.code == 0, aborted.text
    status = warming.until_ended(name)
    assert (status.phase, status.unknown) == ("aborted", 1)
