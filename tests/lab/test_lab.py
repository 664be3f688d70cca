"""Does the lab behave as the system of the incident does?"""

import asyncio
import json
import shutil
import signal
import time
from pathlib import Path

import pytest
from lab.rig import CATALOG, CatalogWatch, Lab, begins, on_host

from guardrail.lab.health import LAG_LIMIT, fetch, loop_lag, status
from guardrail.lab.layout import LabHost
from guardrail.lab.ready import DEMAND, SUCCESS
from guardrail.lab.register import read_register
from guardrail.lab.supervisor import start_part, stop_part, up
from guardrail.lab.warm import is_untouched

pytestmark = pytest.mark.lab

HIT_RATIO = "sum(rate(lab_hits_total[5s])) / sum(rate(lab_gets_total[5s]))"
FLUSHES = 'memcached_cmd_flush{{host="{}"}}'
TIMEOUTS = "sum(increase(lab_boot_timeouts_total[5s]))"
LAG = "max(max_over_time(lab_event_loop_lag_seconds[6s]))"
"""What was measured while an event loop of the lab lagged by LAG_LIMIT is void."""


def test_every_part_is_up_and_answers(lab: Lab) -> None:
    found = status(lab.state)
    assert [part for part in found.parts if not part.ok] == []
    assert len(found.parts) == 4 * 30 + 6
    assert set(found.lag) == {"boot", "load", "ring"}
    assert found.ok
    assert lab.wait_for(lambda: max(loop_lag(lab.layout).values()) < LAG_LIMIT)


def test_up_twice_says_so_and_starts_nothing(lab: Lab) -> None:
    before = read_register(lab.state).running()
    said: list[str] = []
    assert up(lab.layout, report=said.append) is False
    assert "up already" in said[0]
    assert read_register(lab.state).running() == before


def test_nothing_listens_outside_loopback(lab: Lab) -> None:
    sockets = {}
    for name, process in read_register(lab.state).running().items():
        for fd in Path(f"/proc/{process.pid}/fd").iterdir():
            try:
                target = str(fd.readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                sockets[target[8:-1]] = name
    places = {}
    for table in ("tcp", "udp", "tcp6", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in sockets:
                places.setdefault(fields[1].split(":")[0], sockets[fields[9]])
    assert len(places) > 30
    # /proc writes an address as a little-endian number: 127 is its last byte.
    assert {place: name for place, name in places.items() if not place.endswith("7F")} == {}


def test_baseline_is_the_measured_one(lab: Lab) -> None:
    """By readings of a lab that keeps up: those during a lag of its event loops are void."""
    asked = (DEMAND, HIT_RATIO, SUCCESS, TIMEOUTS)
    readings: dict[float, tuple[float, ...]] = {}

    def enough() -> bool:
        taken, lag = lab.value("max(timestamp(lab_boots_total))"), lab.value(LAG)
        found = [value for query in asked if (value := lab.value(query)) is not None]
        if taken is not None and lag is not None and lag < LAG_LIMIT and len(found) == len(asked):
            readings[taken] = tuple(found)
        return len(readings) >= 15

    assert lab.wait_for(enough)
    demands, hits, successes, timeouts = zip(*readings.values(), strict=True)
    assert max(demands) < 0.3
    assert 0.08 < sum(demands) / len(demands) < 0.2
    assert min(hits) > 0.98
    # A boot under way is counted as begun and not yet as served: next time it is the other way.
    assert sum(successes) / len(successes) > 0.95
    assert max(timeouts) == 0
    assert lab.wait_for(lambda: lab.value('count(up{job="memcached"} == 1)') == 30)


async def test_default_leave_costs_a_slot_and_promotes_a_spare(fresh_lab: Lab) -> None:
    lab, ring = fresh_lab, fresh_lab.ring()
    host = lab.layout.host(ring["slots"][0])
    registered = _registered(lab, host)
    both = (ring["spares"][0], host.name)
    emptied = {name: lab.value(FLUSHES.format(name)) for name in both}
    with CatalogWatch(lab, host.name) as watch:
        commands = ("lab-host stage consul 1.8.8", "lab-host switch consul 1.8.8")
        done = await on_host(lab, host, *commands, "lab-host restart consul", "consul version")
    assert [result.exit_status for result in done] == [0, 0, 0, 0]
    assert done[-1].stdout.splitlines()[0] == "Consul v1.8.8"
    assert watch.absences > 0
    assert await asyncio.to_thread(lab.wait_for, lambda: host.name in lab.ring()["spares"])
    assert _registered(lab, host) > registered
    assert lab.ring()["slots"][0] == ring["spares"][0]
    assert lab.ring()["spares"] == [*ring["spares"][1:], host.name]

    # Both were emptied: the spare before it took the slot, the host when it came back.
    def once_more() -> bool:
        found = {name: lab.value(FLUSHES.format(name)) for name in both}
        return found == {name: (count or 0) + 1 for name, count in emptied.items()}

    assert await asyncio.to_thread(lab.wait_for, once_more)


async def test_the_first_restart_onto_keep_registered_keeps_it_registered(fresh_lab: Lab) -> None:
    lab, ring = fresh_lab, fresh_lab.ring()
    host = lab.layout.host(ring["slots"][1])
    registered = _registered(lab, host)
    with CatalogWatch(lab, host.name) as watch:
        steps = ("lab-host stage consul 1.8.8", "lab-host switch consul 1.8.8")
        done = await on_host(
            lab,
            host,
            "lab-host keep-registered consul",
            *steps,
            "lab-host restart consul",
            "lab-host restart consul",
        )
        assert [result.exit_status for result in done] == [0] * 5
        assert await asyncio.to_thread(lab.wait_for, lambda: _build(lab, host) == "1.8.8")
    assert watch.seen
    assert watch.absences == 0
    assert _registered(lab, host) == registered, "not between two looks either"
    assert lab.ring()["slots"] == ring["slots"]
    me = json.loads(fetch(host.address, 8500, "/v1/agent/self"))
    assert me["Config"]["Version"] == "1.8.8"
    assert me["DebugConfig"]["LeaveOnTerm"] is False


def _registered(lab: Lab, host: LabHost) -> int:
    """Which registration of its service the catalog has: one after a departure is a later one."""
    (entry,) = (entry for entry in lab.consul(CATALOG) if entry["Node"] == host.name)
    return int(entry["CreateIndex"])


def _build(lab: Lab, host: LabHost) -> str:
    """The version that the servers' member list gives for this host."""
    (member,) = (m for m in lab.consul("/v1/agent/members") if m["Name"] == host.name)
    return str(member["Tags"]["build"]).partition(":")[0]


async def test_the_host_writes_what_began_and_for_whom(fresh_lab: Lab) -> None:
    host = fresh_lab.hosts[10]
    (done,) = await on_host(
        fresh_lab, host, "GUARDRAIL_OPERATION=op-7 lab-host stage exporter 1.1.0"
    )
    assert done.exit_status == 0
    last = begins(host, "stage")[-1]
    assert (last["host"], last["agent"], last["version"]) == (host.name, "exporter", "1.1.0")
    assert last["operation"] == "op-7"
    assert abs(time.time() - float(last["wall"])) < 60
    assert abs(time.monotonic() - float(last["mono"])) < 60


async def test_the_exporter_is_upgraded_by_the_same_verbs(fresh_lab: Lab) -> None:
    host = fresh_lab.hosts[11]
    steps = ("stage exporter 1.1.0", "switch exporter 1.1.0", "restart exporter")
    done = await on_host(
        fresh_lab, host, *(f"lab-host {step}" for step in steps), "exporter --version"
    )
    assert [result.exit_status for result in done] == [0] * 4
    assert done[-1].stdout == "exporter, version 1.1.0\n"
    assert 'version="1.1.0"' in fetch(host.address, 9100, "/metrics")


async def test_load_goes_on_while_a_lab_is_restored_whose_cache_nobody_touched(lab: Lab) -> None:
    """Agents are as good as new; a cache that was killed counts as touched until it is warmed."""
    never_stopped = "min_over_time(lab_lambda[10s]) > 0"
    lab.restore()
    assert lab.wait_for(lambda: lab.value(never_stopped) is not None)
    host = lab.hosts[11]
    steps = ("stage exporter 1.1.0", "switch exporter 1.1.0", "restart exporter")
    await on_host(lab, host, *(f"lab-host {step}" for step in steps))
    assert lab.wait_for(lambda: is_untouched(read_register(lab.state)))
    lab.restore()
    assert lab.value(never_stopped) is not None
    assert 'version="1.1.0"' not in fetch(host.address, 9100, "/metrics")
    stop_part(lab.state, f"{host.name}/memcached", signal.SIGKILL)
    start_part(lab.state, f"{host.name}/memcached")
    assert not is_untouched(read_register(lab.state))
    lab.restore()
    assert lab.wait_for(lambda: is_untouched(read_register(lab.state)))


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ("lab-host stage consul 9.9.9", 4, "the repository has no consul 9.9.9"),
        ("lab-host has consul 9.9.9", 4, "the repository has no consul 9.9.9"),
        ("lab-host unstage consul 1.8.7", 10, "1.8.7 is switched to"),
        ("lab-host switch consul 1.8.9", 5, "run: lab-host stage consul 1.8.9"),
        ("lab-host stage consul ../1.8.8", 2, "needs a version"),
        ("lab-host paint consul", 2, "the verbs are"),
        ("lab-host restart sshd", 2, "AGENT is"),
    ],
)
async def test_what_cannot_be_done_is_said(lab: Lab, command: str, status: int, words: str) -> None:
    (done,) = await on_host(lab, lab.hosts[12], command)
    assert done.exit_status == status
    assert words in done.stderr


async def test_what_was_staged_is_taken_away_again(lab: Lab) -> None:
    host = lab.hosts[14]
    lines = len(host.log.read_text().splitlines())
    verbs = ("has", "stage", "unstage", "unstage")
    done = await on_host(lab, host, *(f"lab-host {verb} exporter 1.1.0" for verb in verbs))
    assert [result.exit_status for result in done] == [0] * 4
    assert not (host.folder / "exporter" / "1.1.0").exists()
    assert len(host.log.read_text().splitlines()) == lines + 6, "a question is not logged"


async def test_a_version_may_bring_a_configuration_of_its_own(fresh_lab: Lab) -> None:
    """One that its agent refuses is gone with the version: the former one starts again."""
    host = fresh_lab.hosts[15]
    own = host.folder / "consul" / "1.8.8" / "consul.d"
    own.mkdir(parents=True)
    (own / "bad.json").write_text('{"no_such_key": true}')
    try:
        steps = "lab-host stage consul {0} && lab-host switch consul {0} && lab-host restart consul"
        new, old = await on_host(fresh_lab, host, steps.format("1.8.8"), steps.format("1.8.7"))
    finally:
        shutil.rmtree(own)
    assert new.exit_status == 7
    assert "consul did not stay up" in new.stderr
    assert old.exit_status == 0


async def test_an_agent_that_does_not_start_fails_the_restart(fresh_lab: Lab) -> None:
    host = fresh_lab.hosts[29]
    (host.config / "bad.json").write_text('{"no_such_key": true}')
    (done,) = await on_host(fresh_lab, host, "lab-host restart consul")
    assert done.exit_status == 7
    assert "consul did not stay up" in done.stderr
    assert not next(p for p in status(fresh_lab.state).parts if p.name == f"{host.name}/consul").ok


async def test_an_agent_that_falls_over_late_fails_the_restart_too(fresh_lab: Lab) -> None:
    host = fresh_lab.hosts[28]
    own = host.folder / "consul" / "1.8.9"
    own.mkdir()
    (own / "consul").write_text("#!/bin/sh\nsleep 1\necho too late\nexit 1\n")
    (own / "consul").chmod(0o755)
    try:
        (done,) = await on_host(
            fresh_lab, host, "lab-host switch consul 1.8.9 && lab-host restart consul"
        )
    finally:
        shutil.rmtree(own)
    assert done.exit_status == 7
    assert "consul did not stay up: too late" in done.stderr


async def test_an_agent_does_not_inherit_its_callers_lock(fresh_lab: Lab) -> None:
    host = fresh_lab.hosts[13]
    held, free = await on_host(
        fresh_lab,
        host,
        'exec 8>"$HOME/tmp/lock"; flock 8; lab-host restart exporter',
        'flock -n "$HOME/tmp/lock" true',
    )
    assert (held.exit_status, free.exit_status) == (0, 0)


async def test_two_hosts_do_not_share_a_home(lab: Lab) -> None:
    homes = [
        (await on_host(lab, host, 'echo "$HOME $LAB_HOST_NAME"'))[0].stdout.split()
        for host in lab.hosts[:2]
    ]
    assert homes == [[str(host.folder), host.name] for host in lab.hosts[:2]]


def test_a_stopped_part_is_down_and_comes_back(fresh_lab: Lab) -> None:
    names = ("cache-020/sshd", "cache-021/memcached", "prometheus")
    for name in names:
        stop_part(fresh_lab.state, name, signal.SIGKILL)
    found = status(fresh_lab.state)
    assert not found.ok
    assert {part.name for part in found.parts if not part.ok} == set(names)
    for name in names:
        start_part(fresh_lab.state, name)
    assert status(fresh_lab.state).ok


def test_a_dead_memcached_is_missing_from_the_targets(fresh_lab: Lab) -> None:
    stop_part(fresh_lab.state, "cache-022/memcached", signal.SIGKILL)
    targets = 'count(up{job="memcached"} == 1)'
    assert fresh_lab.wait_for(lambda: fresh_lab.value(targets) == 29)
