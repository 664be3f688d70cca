"""Does the whole chain do on real parts what it promises? (the lab, a real `up`, the CLI)"""

import os
import signal
import time
from pathlib import Path

import httpx
import pytest
from lab.engine_rig import (
    EVERY,
    EXAMPLES,
    LATE,
    PERMITTED,
    TO_AN_END,
    Engine,
    all_pass,
    begun,
    clock_of,
    copied,
    engine_on,
    events,
    holds,
    now,
    past,
    report,
    restarts,
    servers_see,
    told,
    until,
)
from lab.rig import OFF_PEAK, PATIENCE, Lab

from guardrail.lab.supervisor import start_part, stop_part
from guardrail.model.operation import FINAL

pytestmark = pytest.mark.lab

NEW, OLD = "1.8.8", "1.8.7"
EVERY_HOST, NINETEEN = "^cache-", "^cache-0[01]"
BAKE = 3.0
"""Seconds, of the fleets `usual`, `paced` and `asked` (source/policies.yaml)."""
GRACE, RECOVER = 4.0, 5.0
SCRAPE, RATE_WINDOW, FAIL_AFTER, GATE_EVERY = 1.0, 5.0, 2, 1.0
WATCHER = 5.0
"""Seconds until a silent watcher is lost."""
SIGNALLING = 1.0
"""Seconds from a watcher's verdict to the hold, on two busy cores."""


def agent_says(lab: Lab, name: str) -> str:
    """What a host's own agent says it is."""
    answer = httpx.get(f"{lab.layout.host(name).consul_url}/v1/agent/self")
    return str(answer.json()["Config"]["Version"])


def versions(lab: Lab, *names: str) -> dict[str, str]:
    return {name: agent_says(lab, name) for name in names}


def kill_two_caches(lab: Lab) -> float:
    """Two dead caches of 30, which the gate cache-nodes does not bear; when they were killed."""
    for name in ("cache-020", "cache-021"):
        stop_part(lab.state, f"{name}/memcached", signal.SIGKILL)
    return now()


def start_two_caches(lab: Lab) -> None:
    for name in ("cache-020", "cache-021"):
        start_part(lab.state, f"{name}/memcached")


def begun_after(lab: Lab, operation: str, at: float) -> list[str]:
    return [begin.host for begin in begun(lab, operation) if begin.at > at]


def test_a_rollout_at_peak_load_changes_every_host_once(engine: Engine, fresh_lab: Lab) -> None:
    lab, began = fresh_lab, now()
    departures = lab.value("sum(lab_ring_departures_total)")
    name, file = engine.files("usual", EVERY_HOST, stages="1, 25%, 100%")
    planned = engine("plan", file).text
    assert "30 hosts" in planned, planned
    watched = engine("rollout", "start", file, "--watch", limit=TO_AN_END)
    assert watched.code == 0, watched.text
    assert "30 of 30 hosts changed" in watched.text
    names = [host.name for host in lab.hosts]
    seen = servers_see(lab)
    assert {host: seen.get(host) for host in names} == dict.fromkeys(names, NEW)
    assert versions(lab, *names) == dict.fromkeys(names, NEW)
    assert {host.name: restarts(host, began) for host in lab.hosts} == dict.fromkeys(names, 1)
    assert sorted(begin.host for begin in begun(lab, name)) == names
    assert departures is not None
    assert lab.value("sum(lab_ring_departures_total)") == departures
    report(f"30 hosts at peak load, start to completed: {watched.took:.1f} s")


def test_two_dead_caches_hold_it_and_a_resume_bakes_first(engine: Engine, fresh_lab: Lab) -> None:
    lab = fresh_lab
    lab.set_load(OFF_PEAK)
    name = engine.start("paced", NINETEEN)
    engine.until_begun(name, 3)
    killed = kill_two_caches(lab)
    hold = engine.until_held(name, "gate:")
    held = clock_of(hold.since)
    report(f"two caches killed, hold {hold.name} after {held - killed:.2f} s (bound 9)")
    bound = SCRAPE + RATE_WINDOW + FAIL_AFTER * GATE_EVERY
    assert 0 < held - killed < bound + SIGNALLING
    engine.until(name, lambda status: not status.in_flight, "nothing in flight")
    start_two_caches(lab)
    engine.until(name, all_pass, "every gate passes")
    assert engine.status(name).holds, "a gate of a cache-critical fleet waits for a person"
    assert begun_after(lab, name, held + PERMITTED) == []
    assert len(begun(lab, name)) < 19, "it was held in the middle"

    resumed = engine("rollout", "resume", name, "--by", "ann")
    assert resumed.code == 0, resumed.text
    status = engine.until_ended(name)
    assert status.phase == "completed"
    (cleared,) = told(status, f"hold {hold.name} cleared")
    late = [begin.at for begin in begun(lab, name) if begin.at > held + PERMITTED]
    report(f"first begin {min(late) - cleared:.2f} s after the resume, of a bake of {BAKE:g} s")
    assert min(late) - cleared >= BAKE
    assert status.changed == 19


def passing_since(engine: Engine, operation: str, gate: str, at: float) -> float:
    """Since when the gate had passed then, without a break, as the operation was told."""
    told_of = [(when, one) for when, one in engine.journal(operation, "gate") if when <= at]
    when, last = [each for each in told_of if each[1]["gate"] == gate and each[1]["counted"]][-1]
    assert last["verdict"] == "pass"
    return when


def test_missing_evidence_holds_until_it_was_good_for_a_while(
    engine: Engine, fresh_lab: Lab
) -> None:
    lab = fresh_lab
    name = engine.start("paced", "^cache-00[1-8]$")
    engine.until_begun(name, 3)
    stop_part(lab.state, "prometheus", signal.SIGKILL)
    stopped = now()
    held = clock_of(engine.until_held(name, "evidence:").since)
    report(f"Prometheus killed, first evidence hold after {held - stopped:.2f} s (bound 9)")
    assert held - stopped < WATCHER + GRACE + SIGNALLING
    engine.until(name, lambda s: len(holds(s, "evidence:")) == 3, "all three hold")
    assert begun_after(lab, name, held + PERMITTED) == []

    start_part(lab.state, "prometheus")
    status = engine.until_ended(name)
    assert status.phase == "completed"
    cleared = {
        gate.name: told(status, f"hold evidence:{gate.name} cleared")[-1] for gate in status.gates
    }
    waits = [at - passing_since(engine, name, gate, at) for gate, at in cleared.items()]
    report(f"holds cleared {min(waits):.2f} to {max(waits):.2f} s after the first good verdict")
    assert min(waits) >= RECOVER - 0.05
    assert max(waits) < RECOVER + LATE
    late = [begin.at for begin in begun(lab, name) if begin.at > held + PERMITTED]
    assert min(late) - max(cleared.values()) >= BAKE


def test_a_silent_host_is_unknown_and_waits_for_a_person(engine: Engine, fresh_lab: Lab) -> None:
    lab, names = fresh_lab, ["cache-001", "cache-002", "cache-003", "cache-006"]
    name = engine.start("single", "^cache-00[1236]$")  # one by one: each has a hold of its own
    for silent in ("cache-003", "cache-006"):
        stop_part(lab.state, f"{silent}/sshd")
    engine.until_held(name, "host:cache-003")
    shown, why = engine("rollout", "status", name), engine("rollout", "explain", name)
    for said in (shown, why):
        assert said.code == 0
        assert "cache-003" in said.text
        assert "unknown" in said.text
        assert f"guardrail rollout retry {name}" in said.text
    assert engine("rollout", "watch", name).code == 1, "a watch off a terminal ends when held"

    start_part(lab.state, "cache-003/sshd")
    retried = engine("rollout", "retry", name, "cache-003", "--by", "ann")
    assert retried.code == 0, retried.text
    engine.until_held(name, "host:cache-006")
    assert agent_says(lab, "cache-003") == NEW
    skipped = engine("rollout", "skip", name, "cache-006", "--reason", "dead", "--by", "ann")
    assert skipped.code == 0, skipped.text
    status = engine.until_ended(name)
    assert status.phase == "completed"
    assert "left out: cache-006" in " ".join(status.finish_reasons)
    assert versions(lab, *names) == {**dict.fromkeys(names, NEW), "cache-006": OLD}


def test_no_host_begins_once_pause_has_said_so(engine: Engine, fresh_lab: Lab) -> None:
    """Ten may be away at once, and each takes 3 s from being asked to being ready.

    So a pause finds hosts that were asked already, and only the permit keeps them from beginning.
    """
    lab = fresh_lab
    name = engine.start("wide", EVERY_HOST, stages="100%", change="slow-to-prepare")
    engine.until_begun(name, 1)
    asked: list[int] = []
    for delay in (0.0, 0.6, 1.2):
        if asked:
            resumed = engine("rollout", "resume", name)
            assert resumed.code == 0, resumed.text
        time.sleep(delay)  # the next pause comes at another moment; nothing is waited for
        at, said = engine.heard("begins any more", "rollout", "pause", name)
        asked.append(int(said.partition("at most ")[2].split()[0]))
        past(at + 5.0)
        assert begun_after(lab, name, at) == []
    report(f"3 pauses, watched for 5 s each in 30 hosts' logs; in flight when said: {asked}")
    assert any(count > 1 for count in asked), "no pause met a burst"
    aborted = engine("rollout", "abort", name, "--reason", "seen enough")
    assert aborted.code == 0, aborted.text
    status = engine.until_ended(name)
    assert (status.phase, status.failed, status.unknown) == ("aborted", 0, 0)
    assert begun_after(lab, name, aborted.at) == []


def test_abort_leaves_done_hosts_done_and_names_them(engine: Engine, fresh_lab: Lab) -> None:
    lab = fresh_lab
    name = engine.start("paced", NINETEEN)
    engine.until(name, lambda status: status.changed >= 3, "three are done")
    aborted = engine("rollout", "abort", name, "--reason", "enough", "--by", "ann")
    assert aborted.code == 0, aborted.text
    status = engine.until_ended(name)
    assert status.phase == "aborted"
    began = {begin.host for begin in begun(lab, name)}
    asked = next(note for note in status.story if note.text.startswith("abort by ann"))
    assert begun_after(lab, name, clock_of(asked.at) + PERMITTED) == []
    assert 3 <= len(began) < 19
    done = {f"cache-{n:03d}" for n in range(1, 20) if agent_says(lab, f"cache-{n:03d}") == NEW}
    assert done == began
    named = {word for word in done if word in aborted.text}
    assert named == done, "abort says which are done or in flight"
    assert engine("rollout", "watch", name).code == 1
    summary = engine("rollout", "summary", name)
    assert "aborted by ann: enough" in summary.text
    assert {word for word in done if word in summary.text} == done


def in_the_middle(lab: Lab, operation: str, names: list[str]) -> str:
    """A host whose restart has begun and not ended, by its own log; empty: none now."""
    for host in map(lab.layout.host, names):
        seen = [x["event"] for x in events(host, operation, ("restart",))]
        if seen == ["begin"]:
            return host.name
    return ""


def test_a_killed_worker_changes_no_host_twice(engine: Engine, fresh_lab: Lab) -> None:
    lab, began = fresh_lab, now()
    names = [f"cache-{n:03d}" for n in range(1, 5)]
    name = engine.start("single", "^cache-00[1-4]$", stages="100%")
    victim = until(lambda: in_the_middle(lab, name, names), "a host is being restarted")
    worker = engine.worker()
    os.kill(worker, signal.SIGKILL)
    killed = now()
    status = engine.status(name)
    report(f"worker killed while {victim} restarts: status again {now() - killed:.2f} s later")
    assert len(status.in_flight) == 1
    first = status.in_flight[0].index
    while status.phase not in FINAL:
        assert len(status.in_flight) <= 1, status.in_flight
        if not status.changed:
            assert [flight.index for flight in status.in_flight] in ([first], [])
        assert now() < killed + TO_AN_END, status.sentence
        time.sleep(EVERY)
        status = engine.status(name)
    assert engine.worker() != worker
    assert (status.phase, status.changed) == ("completed", 4)
    assert {x: restarts(lab.layout.host(x), began) for x in names} == dict.fromkeys(names, 1)
    assert versions(lab, *names) == dict.fromkeys(names, NEW)
    report(f"completed {now() - killed:.1f} s after the kill; each host restarted once")


def test_operations_outlive_a_killed_temporal_server(engine: Engine, fresh_lab: Lab) -> None:
    lab, began = fresh_lab, now()
    names = [f"cache-{n:03d}" for n in range(1, 7)]
    name = engine.start("usual", "^cache-00[1-6]$")
    until(lambda: in_the_middle(lab, name, names), "a host is being restarted")
    os.kill(engine.server(), signal.SIGKILL)
    killed = now()
    assert engine.process is not None
    assert engine.process.wait(PATIENCE) == 3
    engine.up()
    report(f"Temporal killed: up again on the same database after {now() - killed:.1f} s")
    status = engine.until_ended(name)
    assert (status.phase, status.changed) == ("completed", 6), engine("rollout", "status", name).out
    assert {x: restarts(lab.layout.host(x), began) for x in names} == dict.fromkeys(names, 1)
    report(f"completed {now() - killed:.1f} s after the kill; each host restarted once")


def test_an_approval_is_somebody_elses_and_opens_no_held_gate(
    engine: Engine, fresh_lab: Lab
) -> None:
    lab = fresh_lab
    lab.set_load(OFF_PEAK)
    name = engine.start("asked", "^cache-00[1-3]$")
    engine.until_held(name, "approval:start")
    own = engine("rollout", "approve", name, "--point", "start")
    assert own.code == 1
    assert "ann asked for this operation" in own.text
    kill_two_caches(lab)
    engine.until_held(name, "gate:cache-nodes")
    late = engine("rollout", "approve", name, "--point", "start", "--by", "bob")
    assert late.code == 0, late.text
    assert "still held: gate:cache-nodes" in late.text
    start_two_caches(lab)
    engine.until(name, all_pass, "every gate passes")
    assert begun(lab, name) == []
    resumed = engine("rollout", "resume", name)
    assert resumed.code == 0, resumed.text
    status = engine.until_ended(name)
    assert (status.phase, status.changed) == ("completed", 3)


def test_the_same_format_upgrades_a_node_exporter(
    engine: Engine, fresh_lab: Lab, tmp_path: Path
) -> None:
    lab, began = fresh_lab, now()
    example = copied(lab, EXAMPLES / "node-exporter", tmp_path / "example")
    policy = example / "source" / "policy.yaml"
    policy.write_text(policy.read_text().replace("unavailable: 10%", "unavailable: 30%"))  # quicker
    with engine_on(lab, tmp_path / "engine", example / "source") as own:
        files = [str(example / "fleet.yaml"), str(example / "rollout.yaml")]
        watched = own("rollout", "start", *files, "--watch", limit=TO_AN_END)
    assert watched.code == 0, watched.text
    assert "30 of 30 hosts changed" in watched.text
    for host in lab.hosts:
        metrics = httpx.get(f"{host.exporter_url}/metrics").text
        assert 'version="1.1.0"' in metrics
        assert restarts(host, began, "exporter") == 1
    report(f"30 node exporters, start to completed: {watched.took:.1f} s")
