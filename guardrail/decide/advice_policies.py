"""Does a policy cover any host, can work ever go on under it, and what does it let through?"""

from collections.abc import Callable, Iterator, Sequence

from guardrail.decide.advice_gates import near, too_young
from guardrail.decide.calendar import expand, longest_open
from guardrail.decide.found import counted
from guardrail.decide.merge import matches
from guardrail.model.advice import Advice, Given, Path, Severity
from guardrail.model.fleet import Host, HostList
from guardrail.model.policy import Policy

YEAR = 366 * 86_400.0
HALF, WHOLE = 50.0, 100.0
LIMITS: Path = ("spec", "limits")


# ---------------------------------------------------------------- whom it covers


def unreachable(policy: Policy, given: Given) -> Iterator[Advice]:
    """Whether any host that is known could be covered."""
    match, do = policy.match, "mend the word, or remove the policy: it protects nothing"
    agents = sorted({change.agent for change in given.changes})
    fleets = [fleet.name for fleet in given.fleets]
    for key, words, known in (("fleets", match.fleets, fleets), ("agents", match.agents, agents)):
        if words and known and not set(words) & set(known):
            what = f"no {key[:-1]} is called {' or '.join(words)} ({near(words[0], known)})"
            yield Advice(("spec", "match", key), "unreachable", f"it covers no host: {what}", do)
            return
    hosts = all_hosts(given)
    if hosts is None or any(_covers(policy, fleet, host, agents) for fleet, host in hosts):
        return
    where, why = _why_not(policy, hosts)
    what = f"it covers none of the {counted(len(hosts))} that the fleets list: {why}"
    yield Advice(("spec", "match", *where), "unreachable", what, do)


def all_hosts(given: Given) -> list[tuple[str, Host]] | None:
    """Every host with its fleet's name; None where an inventory would have to be asked."""
    lists = [(f.name, f.inventory) for f in given.fleets if isinstance(f.inventory, HostList)]
    if not lists or len(lists) < len(given.fleets):
        return None
    return [(name, host) for name, listed in lists for host in listed.hosts]


def _covers(policy: Policy, fleet: str, host: Host, agents: Sequence[str]) -> bool:
    wanted = [*policy.match.agents, *agents] or [""]
    return any(matches(policy, fleet, agent, host) for agent in wanted)


def _why_not(policy: Policy, hosts: Sequence[tuple[str, Host]]) -> tuple[tuple[str, ...], str]:
    """Which word nobody has, or that no host has all of them."""
    match = policy.match
    roles = sorted({role for _, host in hosts for role in host.roles})
    domains = sorted({host.failure_domain for _, host in hosts})
    labels = sorted({f"{key}: {value}" for _, host in hosts for key, value in host.labels})
    wanted = [f"{key}: {value}" for key, value in match.labels]
    for name, words, known in (
        ("roles", match.roles, roles),
        ("failureDomains", match.failure_domains, domains),
        ("labels", wanted, labels),
    ):
        if words and not set(words) & set(known):
            return (name,), f"none has `{words[0]}` ({near(words[0], known)})"
    return (), "each of its conditions is met by some, and no host meets all; they contradict"


def silent(policy: Policy, _: Given) -> Iterator[Advice]:
    """Whether it says anything at all."""
    if all(f"{path}.".startswith("match.") for path, _place in policy.origins):
        what = "it says nothing about the hosts that it covers"
        yield Advice(("spec",), "silent", what, "state limits or gates, or remove it", "warning")


def windows(policy: Policy, given: Given) -> Iterator[Advice]:
    """Whether work can ever go on."""
    calendar = expand((policy.windows,), given.now, YEAR) if policy.windows else None
    if calendar is None:
        return
    begin, end = longest_open(calendar, given.now)
    bake = policy.bake_for or 0.0
    if end <= begin:
        what = "these windows never open within a year"
        do = "shorten `deny`, or widen `allow` and look at its dates"
        yield Advice(("spec", "windows"), "never-open", what, do)
    elif end - begin < bake:
        what = f"they are open for {end - begin:g} s at most, and the bake alone needs {bake:g} s"
        yield Advice(("spec", "windows"), "never-open", what, "widen the windows, or bake for less")


# ---------------------------------------------------------------- its gates


def gates_exist(policy: Policy, given: Given) -> Iterator[Advice]:
    """Whether the gates that it requires are there."""
    known = [gate.name for gate in given.gates]
    named: list[tuple[Path, str]] = [
        (("spec", "gates", "require", n), name) for n, name in enumerate(policy.required_gates)
    ]
    named += [(("spec", "warmUp", "gate"), policy.warm_up.gate)] if policy.warm_up else []
    for at, name in named:
        if known and name not in known:
            what = f"there is no gate `{name}` ({near(name, known)})"
            do = "add the gate, or mend the name; a plan is refused until then"
            yield Advice(at, "no-gate", what, do)


def felt(policy: Policy, given: Given) -> Iterator[Advice]:
    """Whether any of its gates measures what users feel."""
    names = policy.required_gates
    do = "require one that is (`feltByUsers: true` in the gate)"
    if not names:
        if policy.cache_critical:
            what = "it is cache-critical and requires no gate, so nothing is watched because of it"
            yield Advice(("spec", "cacheCritical"), "not-felt", what, do)
        return
    there = [gate for gate in given.gates if gate.name in names]
    if len(there) < len(set(names)) or any(gate.felt_by_users for gate in there):
        return
    what = (
        f"none of its gates is one that users feel ({', '.join(names)}): all of them may pass "
        "while users get errors"
    )
    severe: Severity = "error" if policy.cache_critical else "warning"
    yield Advice(("spec", "gates", "require"), "not-felt", what, do, severe)


def slow_gates(policy: Policy, given: Given) -> Iterator[Advice]:
    """Whether a gate that it requires can fail within its bake."""
    for n, name in enumerate(policy.required_gates):
        gate, bake = given.gate(name), policy.bake_for
        takes = gate.every * gate.fail_after if gate is not None else 0.0
        if bake and takes > bake:
            what = (
                f"gate {name} needs {takes:g} s of bad readings to fail (failAfter x every), and "
                f"the bake is {bake:g} s: it can never fail within one"
            )
            do = "lower failAfter or every in the gate, or bake for longer"
            yield Advice(("spec", "gates", "require", n), "never-fails", what, do)


# ---------------------------------------------------------------- what it lets through


def open_limits(policy: Policy, _: Given) -> Iterator[Advice]:
    """Limits that limit nothing."""
    limits, failures = policy.limits, policy.limits.failures
    if failures is not None and failures.share is not None and failures.share.value > HALF:
        what = f"{failures.share} of the hosts may fail before anything holds, more than half"
        do = "a few per cent at most; `hosts: 0` where each one counts"
        yield Advice((*LIMITS, "failures", "share"), "error-rate", what, do)
    most = HALF if policy.cache_critical else WHOLE
    kept = (("unavailable", limits.unavailable), ("coldCapacity", limits.cold_capacity))
    for key, amount in kept:
        if amount is not None and amount.percent and amount.value >= most:
            what = f"{amount} of the hosts may be {'away' if key == 'unavailable' else key} at once"
            yield Advice((*LIMITS, key), "fails-open", what, "a share that the service can lose")
    if policy.bake_for == 0:
        what = "no bake: the next wave begins before anything can be seen of this one"
        do = "bake for longer than the slowest gate needs to fail"
        yield Advice(("spec", "bake", "for"), "fails-open", what, do)


def open_evidence(policy: Policy, _: Given) -> Iterator[Advice]:
    """Missing or old evidence that is let through for as long as a bake lasts."""
    grace, age, bake = policy.evidence.grace, policy.evidence.max_age, policy.bake_for
    if bake and grace is not None and grace > bake:
        what = (
            f"evidence may be missing for {grace:g} s before anybody is told, longer than "
            f"the whole bake of {bake:g} s"
        )
        yield Advice(("spec", "evidence", "grace"), "fails-open", what, "a few readings, as 10s")
    if bake and age is not None and age.seconds is not None and age.seconds > bake:
        what = f"evidence from before the bake ({age.seconds:g} s old) passes all its {bake:g} s"
        do = "3 scrapes is a good limit"
        yield Advice(("spec", "evidence", "maxAge"), "fails-open", what, do)


def open_people(policy: Policy, _: Given) -> Iterator[Advice]:
    """What goes on without the person that somebody counts on."""
    recover, approvals, critical = policy.recover, policy.approvals, policy.cache_critical
    if critical and policy.rollback_when == "auto":
        what = "a rollback by itself restarts the same cache hosts, in a system short of cache"
        yield Advice(
            ("spec", "rollback", "when"), "fails-open", what, "`ask`: a person looks first"
        )
    if critical and recover.by == "evidence":
        what = "after a failing gate a cache-critical operation goes on with nobody looking"
        do = "`person`, which is the default there"
        yield Advice(("spec", "recover", "by"), "fails-open", what, do, "warning")
    if recover.by == "evidence" and recover.good_for == 0:
        what = "one good reading ends the hold of a failing gate"
        do = "some minutes of good evidence"
        yield Advice(("spec", "recover", "for"), "fails-open", what, do)
    if approvals is not None and not approvals.not_requester and approvals.count == 1:
        what = "whoever asks may approve alone: this approval asks nobody"
        at: Path = ("spec", "approvals", "notRequester")
        yield Advice(at, "fails-open", what, "`true`, or a count of 2", "warning")


def age(policy: Policy, given: Given) -> Iterator[Advice]:
    """Whether the samples of its gates can be as fresh as it wants them."""
    if policy.evidence.max_age is None:
        return
    known = [given.scrapes[name] for name in policy.required_gates if name in given.scrapes]
    at: Path = ("spec", "evidence", "maxAge")
    yield from too_young(at, policy.evidence.max_age, max(known, default=None))


Check = Callable[[Policy, Given], Iterator[Advice]]

POLICY_CHECKS: tuple[Check, ...] = (
    unreachable,
    silent,
    windows,
    gates_exist,
    felt,
    slow_gates,
    open_limits,
    open_evidence,
    open_people,
    age,
)
