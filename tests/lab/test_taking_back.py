"""Do changed hosts come back, on real parts: which, in what order, and with how many away?

What hosts did is read from their own logs, and whom the operation asked from its journal: hosts are
asked newest first, and of two asked together whichever is ready first begins first.
"""

import contextlib
import itertools
import json
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import httpx
import pytest
from lab.engine_rig import (
    HERE,
    PERMITTED,
    Engine,
    all_pass,
    engine_on,
    events,
    holds,
    now,
    past,
    report,
    servers_see,
    told,
    until,
)
from lab.rig import OFF_PEAK, Lab

from guardrail.lab.layout import LabHost
from guardrail.lab.supervisor import start_part, stop_part
from guardrail.model.messages import Status
from guardrail.model.operation import Direction

pytestmark = pytest.mark.lab

NEW, OLD = "1.8.8", "1.8.7"
TWELVE = "^cache-0(0[1-9]|1[0-2])$"
LIMIT, RECOVER, PACE = 2, 3.0, 0.7
"""Hosts away at once, and seconds, of source_back/policies.yaml."""
TICK = 0.02
"""Seconds by which the hosts' clock (/proc/uptime) and ours may differ."""


@pytest.fixture(scope="module")
def back(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine whose policies go back by themselves, or ask, by the fleet's name."""
    with engine_on(lab, tmp_path_factory.mktemp("back"), HERE / "source_back") as running:
        yield running


# ---------------------------------------------------------------- what the hosts saw


@dataclass(frozen=True, slots=True)
class Work:
    """One host's work in one direction, by its own log; ended is None where it failed."""

    host: str
    version: str
    began: float
    ended: float | None


def works(lab: Lab, operation: str, agent: str = "consul") -> list[Work]:
    """All work of an operation, each from the first step that takes the host away to the end of
    the restart, in the order of time."""
    found = [work for host in lab.hosts for work in _works_on(host, operation, agent)]
    return sorted(found, key=lambda work: work.began)


def _works_on(host: LabHost, operation: str, agent: str) -> Iterator[Work]:
    began, version = None, ""
    for line in events(host, operation, ("keep-registered", "switch", "restart")):
        at, verb, event = float(str(line["mono"])), line["verb"], line["event"]
        assert line["agent"] == agent
        began = at if began is None else began
        version = str(line["version"]) if verb == "switch" else version
        if verb == "restart" and event == "end":
            yield Work(host.name, version, began, at if line["status"] == 0 else None)
            began = None


def most_away(found: Sequence[Work]) -> int:
    """The most hosts that were away at one instant; a failed one is away until it is back."""
    away: dict[str, float] = {}
    most = 0
    moments = [(w.began, 1, w) for w in found] + [(w.ended, 0, w) for w in found if w.ended]
    for at, begins, work in sorted(moments, key=lambda moment: moment[:2]):
        if begins:
            away[work.host] = at
        else:
            away.pop(work.host, None)
        most = max(most, len(away))
    return most


def first_asked(engine: Engine, operation: str, direction: Direction) -> list[int]:
    """The hosts in the order in which each was asked for the first time: places in the plan."""
    return list(dict.fromkeys(index for _, index in engine.asked(operation, direction)))


def as_asked(back: Sequence[Work], asked: Sequence[str], in_vain: int) -> bool:
    """Whether the hosts began to go back as they were asked, as far as LIMIT at once can tell.

    Whoever began as number n was among the first n + LIMIT that were asked, or later by those that
    were asked in vain before.
    """
    begun = [work.host for work in sorted(back, key=lambda work: work.began)]
    ahead = LIMIT + in_vain
    return all(host in asked[: number + ahead] for number, host in enumerate(begun))


def in_plan_order(engine: Engine, file: str) -> list[str]:
    planned = engine("plan", file, "--json")
    assert planned.code == 0, planned.text
    return [host["name"] for host in json.loads(planned.out)["hosts"]]


def all_at(lab: Lab, names: Sequence[str], version: str) -> None:
    """The servers and each host's own agent say so."""

    def seen() -> dict[str, str | None]:
        found = servers_see(lab)
        return {name: found.get(name) for name in names}

    wanted = dict.fromkeys(names, version)
    until(lambda: seen() == wanted, f"the servers see {version} on every host")
    agents = {}
    for name in names:
        answer = httpx.get(f"{lab.layout.host(name).consul_url}/v1/agent/self").json()
        agents[name] = answer["Config"]["Version"]
    assert agents == wanted


@contextlib.contextmanager
def refusing(lab: Lab, names: Sequence[str]) -> Iterator[None]:
    """On these hosts the new version brings a configuration that its agent refuses."""
    folders = [lab.layout.host(name).folder / "consul" / NEW / "consul.d" for name in names]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "bad.json").write_text('{"no_such_key": true}')
    try:
        yield
    finally:
        for folder in folders:
            shutil.rmtree(folder)


def came_back(engine: Engine, status: Status, found: Sequence[Work], order: Sequence[str]) -> str:
    """The rules that every way back keeps; a line of figures."""
    asked = first_asked(engine, status.operation, "back")
    assert asked == sorted(asked, reverse=True), "newest first"
    forth = [work for work in found if work.version != _former(found)]
    back = [work for work in found if work.version == _former(found)]
    assert status.phase == "rolled_back", status.sentence
    assert status.changed == 0
    assert sorted(w.host for w in back) == sorted(w.host for w in forth), "all of them, once each"
    assert {order[index] for index in asked} == {work.host for work in back}
    in_vain = len(engine.asked_in_vain(status.operation, "back"))
    begun = [work.host for work in back]
    assert as_asked(back, [order[index] for index in asked], in_vain), begun
    assert min(w.began for w in back) > max(w.began for w in forth)
    most = most_away(found)
    assert most <= LIMIT
    took = max(w.ended or 0 for w in back) - min(w.began for w in back)
    names = ", ".join(work.host.removeprefix("cache-") for work in back)
    return f"{len(back)} hosts back in {took:.1f} s, most away {most}, order {names}"


def _former(found: Sequence[Work]) -> str:
    return min(work.version for work in found)


# ---------------------------------------------------------------- by policy


def test_a_version_that_refuses_its_configuration_is_taken_back(
    back: Engine, fresh_lab: Lab
) -> None:
    lab = fresh_lab
    lab.set_load(OFF_PEAK)  # agents that are down leave slots to cold spares
    name, file = back.files("auto", TWELVE, stages="4, 100%")
    order = in_plan_order(back, file)
    with refusing(lab, order[4:]):
        assert back("rollout", "start", file).code == 0
        status = back.until_ended(name)
    found = works(lab, name)
    figures = came_back(back, status, found, order)
    # Two of the second wave are asked together: whichever is ready first begins and fails, and the
    # other one may then begin no more. One that was asked in vain makes room for the next.
    asked = first_asked(back, name, "forward")
    assert asked == list(range(len(asked))), "in the plan's order"
    failed = {work.host for work in found if work.ended is None}
    assert 1 <= len(failed) <= LIMIT, "a failed host keeps its place among those away"
    assert {work.host for work in found} == set(order[:4]) | failed
    second = {order[index] for index in asked[4:]}
    assert failed <= second
    assert second - failed <= {order[index] for index in back.asked_in_vain(name, "forward")}
    (turned,) = told(status, "rollback of ")
    first = min(work.began for work in found if work.version == OLD)
    assert first - turned >= RECOVER - TICK, "every safety gate was good for a while before"
    assert all_pass(status)
    all_at(lab, order, OLD)
    report(f"{figures}; first one {first - turned:.2f} s after it turned")


def test_a_version_that_its_health_gate_judges_bad_is_taken_back(
    back: Engine, fresh_lab: Lab
) -> None:
    """Six hosts are too many for it, which shows after two waves; the gate fails all the while."""
    lab = fresh_lab
    name, file = back.files(
        "auto-health", TWELVE, stages="2, 6, 100%", change="exporter", old="1.0.0", new="1.1.0"
    )
    order = in_plan_order(back, file)
    assert back("rollout", "start", file).code == 0
    status = back.until_ended(name)
    found = works(lab, name, "exporter")
    figures = came_back(back, status, found, order)
    assert len(found) >= 2 * 6
    (turned,) = told(status, "by policy: gate:few-new-exporters")
    first = min(work.began for work in found if work.version == "1.0.0")
    assert first - turned >= RECOVER - TICK
    for host in order:
        assert 'version="1.0.0"' in httpx.get(f"{lab.layout.host(host).exporter_url}/metrics").text
    report(f"{figures}; first one {first - turned:.2f} s after it turned")


# ---------------------------------------------------------------- by a person


def test_under_ask_it_waits_and_says_what_it_would_do(back: Engine, fresh_lab: Lab) -> None:
    lab = fresh_lab
    lab.set_load(OFF_PEAK)  # agents that are down leave slots to cold spares
    name, file = back.files("ask", TWELVE, stages="4, 100%")
    order = in_plan_order(back, file)
    with refusing(lab, order[4:]):
        assert back("rollout", "start", file).code == 0
        back.until_held(name, "limit:failures")
        status = back.until(name, lambda s: not s.in_flight, "nothing in flight")
        before = works(lab, name)
        # Those of the second wave that have begun need not be the first of it.
        newest = sorted({work.host for work in before}, key=order.index, reverse=True)
        count = len(newest)
        assert 4 < count <= 4 + LIMIT
        told_of = f"takes {count} hosts back to the former version, newest first"
        for words in (("explain", name), ("rollback", name, "--dry-run")):
            said = back("rollout", *words)
            assert said.code == 0, said.text
            for part in (told_of, "at most 2 hosts away or down at once", "boot-success"):
                assert part in said.text
        assert f"In this order: {', '.join(newest)} Nothing" in said.text
        assert status.direction == "forward"
        assert works(lab, name) == before, "it has only said so"

        asked = back("rollout", "rollback", name, "--reason", "bad configuration")
        assert asked.code == 0, asked.text
        status = back.until_ended(name)
    report(came_back(back, status, works(lab, name), order))
    all_at(lab, order, OLD)
    shown = back("rollout", "status", name)
    assert f"{count} hosts are back at the former version" in shown.text


def test_a_safety_gate_holds_the_way_back_until_it_has_recovered(
    back: Engine, fresh_lab: Lab
) -> None:
    lab = fresh_lab
    lab.set_load(OFF_PEAK)  # dead caches at the peak are the database's matter, not this test's
    name, file = back.files("paced", TWELVE, stages="4, 100%")
    order = in_plan_order(back, file)
    assert back("rollout", "start", file).code == 0
    back.until_begun(name, 3)  # early: it must not be over before the gate has seen it
    dead = ("cache-020", "cache-021")
    for host in dead:
        stop_part(lab.state, f"{host}/memcached", signal.SIGKILL)
    back.until_held(name, "gate:cache-nodes")
    asked = back("rollout", "rollback", name)
    assert asked.code == 0, asked.text
    assert "held on gate:cache-nodes" in asked.text
    back.until(name, lambda s: not s.in_flight, "nothing in flight")
    past(now() + RECOVER + PERMITTED)
    assert [w for w in works(lab, name) if w.version == OLD] == []
    started = now()  # with the first of the two the gate passes
    for host in dead:
        start_part(lab.state, f"{host}/memcached")
    status = back.until_ended(name)
    found = works(lab, name)
    figures = came_back(back, status, found, order)
    times = [at for at, _ in back.asked(name, "back")]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert times[0] - started >= RECOVER
    assert min(gaps) >= 2 * PACE - TICK, "half the pace"
    assert most_away([w for w in found if w.version == OLD]) <= LIMIT // 2
    assert told(status, "on at half the pace")
    all_at(lab, order, OLD)
    report(f"{figures}; first {times[0] - started:.1f} s after the caches, gaps {min(gaps):.2f} s")


def test_hosts_that_cannot_be_reached_on_the_way_back_are_unknown_and_hold(
    back: Engine, fresh_lab: Lab
) -> None:
    """nomad#3525: every revert fails. One attempt each, within the limit; no loop."""
    lab = fresh_lab
    name, file = back.files("ask", TWELVE, stages="4, 100%")
    order = in_plan_order(back, file)
    assert back("rollout", "start", file).code == 0
    back.until(name, lambda s: s.changed >= 3, "three are changed")
    back.pause(name)
    back.until(name, lambda s: not s.in_flight, "nothing in flight")
    changed = sorted({work.host for work in works(lab, name)})
    for host in changed:
        stop_part(lab.state, f"{host}/sshd")
    assert back("rollout", "rollback", name).code == 0
    assert back("rollout", "resume", name).code == 0
    hold = back.until_held(name, "host:")
    status = back.until(name, lambda s: not s.in_flight, "nothing in flight")
    past(now() + 2.5)
    later = back.status(name)
    assert later.unknown == status.unknown
    assert 1 <= later.unknown <= LIMIT
    assert (later.failed, later.reverted, later.phase) == (0, 0, "running")
    assert len(holds(later, "host:")) == 1, "hosts failing alike share one hold"
    assert len(told(later, "rollback of ")) == 1
    tried = [index for _, index in back.asked(name, "back")]
    assert len(tried) == len(set(tried)) == later.unknown, "nothing is tried again by itself"
    again = back("rollout", "rollback", name)
    assert again.code == 1
    assert "there is one rollback an operation" in again.text
    asked = len(told(later, ": unknown, "))
    assert asked == later.unknown

    for host in changed:
        start_part(lab.state, f"{host}/sshd")
    retried = back("rollout", "retry", name)
    assert retried.code == 0, retried.text
    status = back.until_ended(name)
    report(f"{came_back(back, status, works(lab, name), order)}; {asked} unknown, {hold.name}")
    all_at(lab, order, OLD)
