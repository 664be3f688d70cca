"""A window that closes in the middle of a wave, on real parts."""

import math
import time
from pathlib import Path

import pytest
from lab.engine_rig import LATE, PERMITTED, Engine, begun, clock_of, report, told
from lab.rig import Lab

pytestmark = [pytest.mark.lab, pytest.mark.second]

LONGEST, BAKE = 20.0, 3.0
"""Seconds: the time limit of a host's change, and the bake."""
OPEN = 25.0
"""Seconds in which hosts begin before the rest have to wait."""

SOURCE = """\
apiVersion: guardrail/v1
kind: Policy
metadata: {{name: windowed, owners: [tests]}}
spec:
  match: {{fleets: [windowed]}}
  limits: {{unavailable: 2, pace: {{between: 1s}}}}
  bake: {{for: {bake:g}s}}
  windows:
    timezone: UTC
    allow:
      - {{from: "{begin}", to: "{gap}", settleBefore: {settle}s, reason: before the tests' gap}}
      - {{from: "{gap}", to: "{end}"}}
---
apiVersion: guardrail/v1
kind: Change
metadata: {{name: keep-registered-soon}}
spec:
  agent: consul
  driver: ssh
  installed: {{run: [consul, version], match: 'Consul v(\\S+)'}}
  running: {{consulAgent: {{}}}}
  prepare: [[lab-host, stage, consul, "{{to}}"]]
  apply:
    - [lab-host, keep-registered, consul]
    - [lab-host, switch, consul, "{{to}}"]
    - [lab-host, restart, consul]
  undo: same
  keepsRegistered: true
  verify: {{consulCatalog: {{within: 15s}}}}
  timeout: {longest:g}s
"""


def clock(epoch: float) -> str:
    return time.strftime("%H:%M", time.gmtime(epoch))


def closes_soon(source: Path) -> tuple[float, float]:
    """Close the fleet `windowed`, so that the last host may begin in OPEN seconds; from when to
    when it is closed. Windows are written in minutes: the settling before makes seconds of it."""
    closes = time.time() + OPEN + LONGEST + BAKE
    opens = math.ceil((closes + 10) / 60) * 60.0
    settle = round(opens - closes)
    text = SOURCE.format(
        bake=BAKE, longest=LONGEST, settle=settle, gap=clock(opens),
        begin=clock(opens - 1800), end=clock(opens + 1800),
    )  # fmt: skip
    (source / "windowed.yaml").write_text(text)
    return opens - settle, opens


def test_hosts_in_flight_finish_the_rest_wait_and_reopening_bakes_first(
    engine: Engine, fresh_lab: Lab
) -> None:
    lab = fresh_lab
    name, file = engine.files("windowed", "^cache-", stages="100%", change="keep-registered-soon")
    closes_soon(engine.source)
    plan = engine("plan", file)
    assert "outside the allowed time (before the tests' gap)" in plan.text, plan.text
    closes, opens = closes_soon(engine.source)
    started = engine("rollout", "start", file)
    assert started.code == 0, started.text

    hold = engine.until_held(name, "window")
    held = clock_of(hold.since)
    last = clock_of(closes - LONGEST - BAKE)
    report(f"held {held - last:.2f} s after the last moment at which a host may begin")
    assert -0.02 <= held - last < LATE, hold  # two clocks
    # Once nothing is in flight any more the bake that will come first is counted in, too.
    first = next(held for _, held in engine.journal(name, "hold") if held["name"] == "window")
    assert "a host takes up to 20 s + bake 3 s = 23 s; it closes at" in first["reasons"][0]
    status = engine.until(name, lambda s: not s.in_flight, "nothing in flight")
    before = begun(lab, name)
    assert 1 < len(before) < 30
    assert max(begin.at for begin in before) <= held + PERMITTED
    assert status.changed == len(before)
    told_so = engine("rollout", "explain", name).text
    assert "windowed.yaml:" in told_so
    assert "the windows open at" in told_so

    engine.until(name, lambda s: s.as_of >= closes and s.holds, "closed", opens - time.time())
    end = engine.until_ended(name)
    assert (end.phase, end.changed) == ("completed", 30)
    (cleared,) = told(end, "hold window cleared")
    later = min(b.at for b in begun(lab, name) if b.at > held + PERMITTED)
    opened = cleared - clock_of(opens)
    report(f"cleared {opened:.2f} s after it opened, begun {later - cleared:.2f} s after that")
    assert -0.001 <= opened < LATE  # times are told in microseconds
    assert later - cleared >= BAKE
