"""What are the hosts of a crash test, and what do their own logs say of what was done to them?

A host is a folder: its versions, its log, and a small script (host.sh) that changes it. The `exec`
driver runs that script through the same host-side runner as everywhere. Only the host writes its
log, so what stands there happened. Times are seconds since boot, as in /proc/uptime.
"""

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
OLD, NEW = "1.0.0", "2.0.0"
DOMAINS = ("a", "b", "c", "d")

UNAVAILABLE, PER_DOMAIN = 6, 2
"""The limits of the policy below: hosts away at once, in all and in each failure domain."""

SOURCE = """\
apiVersion: guardrail/v1
kind: Source
metadata: {{name: prometheus}}
spec: {{address: "{prometheus}", timeout: 2s}}
---
apiVersion: guardrail/v1
kind: Gate
metadata: {{name: fleet-serves}}
spec:
  title: The share of requests that the fleet answers
  class: safety
  query: fleet_serves
  pass: {{above: 0.5}}
  every: 500ms
  failAfter: 2
  passAfter: 2
  evidence: {{maxAge: 4s}}
---
apiVersion: guardrail/v1
kind: Policy
metadata: {{name: crash, owners: [tests]}}
spec:
  match: {{}}
  limits:
    unavailable: {unavailable}
    unavailablePerDomain: {per_domain}
    domainsAtOnce: 4
    failures: {{hosts: 0}}
  gates: {{require: [fleet-serves]}}
  evidence: {{maxAge: 4s, grace: 2s}}
  bake: {{for: 500ms}}
  recover: {{by: evidence, for: 1s}}
---
apiVersion: guardrail/v1
kind: Change
metadata: {{name: agent}}
spec:
  agent: agent
  driver: exec
  installed: {{run: [cat, "{hosts}/{{host}}/installed"], match: '(\\S+)'}}
  running: {{run: [cat, "{hosts}/{{host}}/running"], match: '(\\S+)'}}
  prepare: [[sh, "{script}", "{hosts}/{{host}}", stage, "{{to}}"]]
  apply: [[sh, "{script}", "{hosts}/{{host}}", switch, "{{to}}"]]
  undo: same
  timeout: 1m
"""

ROLLOUT = """\
apiVersion: guardrail/v1
kind: Fleet
metadata: {{name: {name}}}
spec:
  inventory:
    hosts:
{hosts}
---
apiVersion: guardrail/v1
kind: Rollout
metadata: {{name: {name}}}
spec:
  fleet: {name}
  change: {{name: agent, from: {old}, to: {new}}}
  stages: [1, 50%, 100%]
"""


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write_source(folder: Path, hosts: Path, prometheus: str) -> None:
    """The worker's folder of documents."""
    folder.mkdir(parents=True, exist_ok=True)
    text = SOURCE.format(
        prometheus=prometheus,
        unavailable=UNAVAILABLE,
        per_domain=PER_DOMAIN,
        hosts=hosts,
        script=HERE / "host.sh",
    )
    (folder / "source.yaml").write_text(text)


# ---------------------------------------------------------------- what the hosts saw


@dataclass(frozen=True, slots=True)
class Away:
    """One time that a host was being changed; `end` is infinite if its log has none."""

    host: str
    domain: str
    begin: float
    end: float
    version: str
    operation: str


@dataclass(frozen=True, slots=True)
class HostFleet:
    """The hosts of one operation, which are nobody else's. `root` has a folder for each.

    takes: seconds for which each is away; staging: seconds that it prepares before.
    """

    name: str
    root: Path
    count: int
    takes: float = 0.8
    staging: float = 0.2

    @property
    def hosts(self) -> list[str]:
        return [f"{self.name}-{number:02d}" for number in range(1, self.count + 1)]

    def domain(self, host: str) -> str:
        return DOMAINS[int(host.rpartition("-")[2]) % len(DOMAINS)]

    def make(self) -> str:
        """The folders, all at the old version; the text of the fleet and its rollout."""
        lines = []
        for host in self.hosts:
            folder = self.root / host
            folder.mkdir(parents=True)
            (folder / "log").touch()
            (folder / "switch-takes").write_text(f"{self.takes}\n")
            (folder / "stage-takes").write_text(f"{self.staging}\n")
            for what in ("installed", "running"):
                (folder / what).write_text(f"{OLD}\n")
            where = f"address: 127.0.0.1, failureDomain: {self.domain(host)}"
            lines.append(f"      - {{name: {host}, {where}, roles: [web]}}")
        return ROLLOUT.format(name=self.name, hosts="\n".join(lines), old=OLD, new=NEW)

    def aways(self, verb: str = "switch") -> list[Away]:
        """Every time that a host was changed, by the hosts' own logs, in the order of time."""
        found = [away for host in self.hosts for away in self._of(host, verb)]
        return sorted(found, key=lambda away: away.begin)

    def _of(self, host: str, verb: str) -> Iterator[Away]:
        text = (self.root / host / "log").read_text()
        lines = [line.split() for line in text.splitlines()]
        mine = [line for line in lines if line[2] == verb]
        # A host has one lock: what begins after another begin has ended it, or never ends.
        for line, after in itertools.zip_longest(mine, mine[1:]):
            if line[1] == "begin":
                end = float(after[0]) if after and after[1] == "end" else float("inf")
                yield Away(host, self.domain(host), float(line[0]), end, line[3], line[4])

    def in_the_middle(self, verb: str = "switch") -> list[str]:
        """The hosts that are being changed (or prepared) just now."""
        return [away.host for away in self.aways(verb) if away.end == float("inf")]

    def versions(self) -> Counter[str]:
        """How many hosts have which version running; "none" where nothing runs."""
        files = [self.root / host / "running" for host in self.hosts]
        return Counter(file.read_text().strip() if file.exists() else "none" for file in files)


# ---------------------------------------------------------------- what must be true of it


def changed_twice(aways: list[Away]) -> list[str]:
    """The hosts whose change took effect more than once."""
    counts = Counter(away.host for away in aways)
    return sorted(host for host, count in counts.items() if count > 1)


def limits_broken(aways: list[Away]) -> list[str]:
    """Each begin at which more hosts were away than the limits allow, in words."""
    broken = []
    for away in aways:
        gone = [other for other in aways if other.begin <= away.begin < other.end]
        here = [other for other in gone if other.domain == away.domain]
        if len(gone) > UNAVAILABLE:
            broken.append(f"{away.begin:.2f}: {len(gone)} away, {UNAVAILABLE} allowed")
        if len(here) > PER_DOMAIN:
            at = f"{away.begin:.2f}, domain {away.domain}"
            broken.append(f"{at}: {len(here)} away, {PER_DOMAIN} allowed")
    return broken


def begun_between(aways: list[Away], after: float, before: float) -> list[str]:
    """The hosts that began in that time."""
    return [away.host for away in aways if after < away.begin < before]
