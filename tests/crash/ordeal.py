"""What is lost while an operation runs, and was everything that matters kept nevertheless?

An ordeal is one operation on hosts of its own, struck several times by one kind of blow, each at a
random moment while hosts are being changed; now and then a person pauses and resumes it. What is
then judged is the hosts' own logs and the operation's end. Tests run a few, `make prove` many.
"""

import random
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from crash.fleet import (
    NEW,
    HostFleet,
    begun_between,
    changed_twice,
    limits_broken,
    now,
)
from crash.parts import EVERY, Rig, until

from guardrail.model.messages import Say, Status
from guardrail.model.operation import FINAL

OUTAGE = 8.0
"""Seconds for which what is lost and not restarted at once stays away: past every heartbeat."""
PERMITTED = 1.3
"""Seconds after a pause in which a host may still begin (design.md §5)."""
END_WITHIN = 240.0
"""Seconds an operation may take to its end after the last blow."""
JUMP = signal.SIGUSR1
"""What makes a test's worker jump an hour ahead (odd_worker.py)."""


# ---------------------------------------------------------------- blows


def kill_worker(rig: Rig, chance: random.Random) -> None:
    worker = chance.choice(rig.workers)
    worker.kill()
    time.sleep(chance.choice((0.0, 1.0)))  # at once, or as `guardrail up` does
    worker.start()


def kill_server(rig: Rig, chance: random.Random) -> None:
    rig.server.kill()
    time.sleep(chance.uniform(0.0, 2.0))
    rig.server.start()


def kill_both(rig: Rig, chance: random.Random) -> None:
    """Either first, the other within half a second; then both again, in any order."""
    parts = [rig.server, chance.choice(rig.workers)]
    chance.shuffle(parts)
    parts[0].kill()
    time.sleep(chance.uniform(0.0, 0.5))
    parts[1].kill()
    chance.shuffle(parts)
    for part in parts:
        time.sleep(chance.uniform(0.0, 1.0))
        part.start()


def make_zombie(rig: Rig, chance: random.Random) -> None:
    """A worker stands still past its heartbeat, another takes over, and then it goes on.

    It is one that prepares a host: what it does when it is back is to ask for the change.
    """
    worker = max(rig.workers, key=lambda each: each.children())
    worker.send(signal.SIGSTOP)
    time.sleep(chance.uniform(OUTAGE, OUTAGE + 4))
    worker.send(signal.SIGCONT)


def lose_prometheus(rig: Rig, chance: random.Random) -> None:
    rig.prometheus.end()
    time.sleep(chance.uniform(0.5, OUTAGE))
    rig.prometheus.start(rig.exporter)


def lose_store(rig: Rig, chance: random.Random) -> None:
    """The plan store goes, and with it every worker that had read the plan already."""
    rig.lose_store()
    for worker in rig.workers:
        worker.kill()
    for worker in rig.workers:
        worker.start()
    time.sleep(chance.uniform(OUTAGE, OUTAGE + 4))
    rig.find_store()


def jump_clock(rig: Rig, chance: random.Random) -> None:
    chance.choice(rig.workers).send(JUMP)


BLOWS: dict[str, Callable[[Rig, random.Random], None]] = {
    "worker": kill_worker,
    "server": kill_server,
    "both": kill_both,
    "zombie": make_zombie,
    "prometheus": lose_prometheus,
    "store": lose_store,
    "clock": jump_clock,
}
NEEDS = {"zombie": 2}
"""How many workers a blow needs, where it is not one."""
SAID = {
    "worker": "worker killed (-9)",
    "server": "Temporal server killed (-9), same database again",
    "both": "worker and server killed (-9)",
    "zombie": "worker stopped past its heartbeat, and back as a zombie",
    "prometheus": "Prometheus killed and started again",
    "store": "plan store gone, and every worker that had read the plan",
    "clock": "worker's clock jumps an hour",
}


# ---------------------------------------------------------------- what came of it


@dataclass(slots=True)
class Outcome:
    """What came of one ordeal. `blows` are tries in the table; the lists name what is wrong."""

    kind: str
    operation: str
    seed: int
    hosts: int
    blows: int = 0
    in_flight: list[int] = field(default_factory=list)  # hosts being changed, at each blow
    phase: str = ""
    twice: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    refused: int = 0
    again: int = 0
    commands: int = 0
    seconds: float = 0.0

    @property
    def wrong(self) -> list[str]:
        """Everything that must not be, in words; empty: it was survived."""
        return [
            *(f"changed twice: {host}" for host in self.twice),
            *(f"limit broken at {at}" for at in self.limits),
            *(f"lost: {what}" for what in self.lost),
            *(f"began under a hold: {host}" for host in self.held),
            *self.other,
        ]


def ordeal(
    rig: Rig, kind: str, seed: int, *, hosts: int = 40, blows: int = 4, takes: float = 0.8
) -> Outcome:
    """Run one operation through that many blows of a kind, and judge it. Same seed, same plan."""
    chance = random.Random(seed)
    staging = 1.5 if kind == "zombie" else 0.2
    name = f"{kind}-{seed}-{uuid.uuid4().hex[:4]}"
    fleet = HostFleet(name, rig.hosts, hosts, takes, staging)
    outcome = Outcome(kind, fleet.name, seed, hosts)
    began = now()
    person = Person(rig, fleet, outcome)
    rig.start(fleet)
    until(fleet.aways, 60, f"{fleet.name} begins; see {rig.folder}")
    for number in range(blows):
        if not strike(rig, fleet, outcome, chance):
            break
        if number % 2 == 0:
            person.pause_and_resume()
    status = until_ended(rig, fleet.name)
    outcome.seconds = round(now() - began, 1)
    judge(rig, fleet, status, outcome)
    person.judge(status)
    return outcome


def strike(rig: Rig, fleet: HostFleet, outcome: Outcome, chance: random.Random) -> bool:
    """One blow, soon after another host has begun; False when there is none left to begin.

    A worker that is to be a zombie is struck while hosts are prepared.
    """
    verb = "stage" if outcome.kind == "zombie" else "switch"
    before = {away.begin for away in fleet.aways(verb)}
    if len(before) >= fleet.count:
        return False
    limit = now() + END_WITHIN
    while all(away.begin in before for away in fleet.aways(verb)):
        status = rig.status(fleet.name)
        assert status.phase not in FINAL, status.sentence
        assert now() < limit, f"no more hosts begin: {status.sentence}; see {rig.folder}"
        time.sleep(EVERY)
    time.sleep(chance.choice((0.0, chance.uniform(0.0, 1.5))))
    outcome.in_flight.append(len(fleet.in_the_middle(verb)))
    BLOWS[outcome.kind](rig, chance)
    outcome.blows += 1
    return True


def until_ended(rig: Rig, operation: str) -> Status:
    """The status at the end, or as it was when time was up."""
    give_up = now() + END_WITHIN
    while True:
        status = rig.status(operation)
        if status.phase in FINAL or now() > give_up:
            return status
        time.sleep(EVERY)


def judge(rig: Rig, fleet: HostFleet, status: Status, outcome: Outcome) -> None:
    """Compare the operation's end with what the hosts themselves wrote down."""
    aways, seen = fleet.aways(), rig.seen(fleet)
    outcome.phase = status.phase
    outcome.twice = changed_twice(aways)
    outcome.limits = limits_broken(aways)
    done = {away.host for away in aways if away.end < float("inf")}
    counted = int(status.changed_hosts, 16).bit_count()
    if counted < len(done):
        outcome.lost.append(f"{len(done)} hosts are done, {counted} count as changed")
    if status.phase != "completed":
        outcome.other.append(f"it did not complete: {status.sentence}")
    if fleet.versions() != {NEW: fleet.count}:
        outcome.other.append(f"versions: {dict(fleet.versions())}")
    outcome.other += [f"{part} ended by itself; see {rig.folder}" for part in rig.alive]
    outcome.refused = sum(line["kind"] == "refused" for line in seen)
    outcome.again = sum(line["token"][1] > 1 for line in seen)


# ---------------------------------------------------------------- a person in between


@dataclass(slots=True)
class Person:
    """Pauses and resumes, each answered command to be found in the story exactly once."""

    rig: Rig
    fleet: HostFleet
    outcome: Outcome
    names: list[str] = field(default_factory=list)

    def pause_and_resume(self) -> None:
        """Pause; see that nothing begins once that is sure; resume."""
        name = f"person{len(self.names) + 1}"
        operation = self.fleet.name
        status = self.rig.status(operation)
        if status.phase in FINAL:
            return
        self.rig.say(operation, Say(uuid.uuid4().hex, "pause", name, "a look"))
        sure = now() + PERMITTED
        time.sleep(PERMITTED + 1.0)
        self.outcome.held += begun_between(self.fleet.aways(), sure, now())
        self.rig.say(operation, Say(uuid.uuid4().hex, "resume", name))
        self.names.append(name)
        self.outcome.commands += 2

    def judge(self, status: Status) -> None:
        """What was answered must be in the story, once."""
        story = [note.text for note in status.story]
        for name in self.names:
            for words in (f"hold operator:{name}:", f"hold operator:{name} cleared"):
                count = sum(text.startswith(words) for text in story)
                if count != 1:
                    self.outcome.lost.append(f"{words!r} stands {count} times in the story")


# ---------------------------------------------------------------- a store that is full at the start


def full_at_start(rig: Rig, folder_gone: bool = False) -> list[str]:
    """Start while the plan cannot be kept, and again when it can; what is wrong, in words."""
    lose, find = (
        (rig.lose_store, rig.find_store) if folder_gone else (rig.fill_store, rig.empty_store)
    )
    fleet = HostFleet(f"full-{uuid.uuid4().hex[:4]}", rig.hosts, 4)
    lose()
    try:
        rig.start(fleet)
        until(lambda: not rig.known(fleet.name).open, 60, f"{fleet.name} ends; see {rig.folder}")
    finally:
        find()
    reasons = " ".join(rig.refusals(fleet.name))
    wrong = [] if "plan store" in reasons else [f"the store is not named: {reasons}"]
    wrong += [f"{away.host} was touched" for away in fleet.aways()]
    again = HostFleet(f"{fleet.name}b", rig.hosts, 4)
    rig.start(again)
    until(again.aways, 60, f"{again.name} begins; see {rig.folder}")
    status = until_ended(rig, again.name)
    if (status.phase, again.versions()) != ("completed", {NEW: 4}):
        wrong.append(f"with room again: {status.sentence}")
    return wrong


def new_folder(base: Path, name: str) -> Path:
    """A folder for a rig that is nobody else's."""
    return base / f"{name}-{uuid.uuid4().hex[:6]}"
