"""Is the world still as it was when a plan was made, and if not: exactly what has moved?

    hosts        came, went, came back, moved; newly down is tolerated: it counts against the limits
    versions     a host has another version than the plan saw
    policies     came, went, or say something else: which field, from what to what, in which line
    change       other steps
    gates        other questions

A difference is a reason against starting, in words, unless the rollout tolerates it
(`plan.tolerate`). Nothing else is tolerated: what a person has agreed to is what is done.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from guardrail.decide.found import counted, named
from guardrail.decide.merge import where
from guardrail.model.common import Amount
from guardrail.model.contract import Contract
from guardrail.model.plan import Plan, PlannedHost
from guardrail.model.policy import Policy


def moved(
    given: Contract, now: Contract, *, changed: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """What is otherwise now, beyond what the rollout tolerates; empty: nothing.

    changed: the names of hosts that this operation has brought to the new version since.
    """
    return (
        *_hosts(given, now, changed),
        *_versions(given, now, changed),
        *_documents(given, now),
        *_change(given.plan, now.plan),
        *_gates(given.plan, now.plan),
    )


# ---------------------------------------------------------------- hosts and versions


def _hosts(given: Contract, now: Contract, changed: frozenset[str]) -> list[str]:
    before, after = given.plan, now.plan
    was, here = _known(before), _known(after)
    went = sorted(was.keys() - here.keys() - changed)
    came = sorted(here.keys() - was.keys())
    back = [name for name in was if was[name] == "down" and here.get(name, "down") != "down"]
    done = [name for name in was if (was[name], here.get(name)) == ("to do", "done")]
    done = [name for name in done if name not in changed]
    other = _elsewhere(before, after)
    told = [
        *_told(came, "came since the plan was made"),
        *_told(went, "went since the plan was made"),
        *_told(back, "down then, and back now"),
        *_told(done, f"changed since by somebody else, now at {after.change.new}"),
        *other,
    ]
    count = len({*came, *went, *back, *done}) + len(other)
    return _unless(told, count, given.request.rollout.tolerate.hosts, len(was), "hosts")


def _known(plan: Plan) -> dict[str, str]:
    """Each host of the fleet: to do, done, or down."""
    known = {host.name: "to do" for host in plan.hosts}
    return known | {host.name: "down" if host.down else "done" for host in plan.excluded}


def _told(names: list[str], what: str) -> list[str]:
    return [f"{counted(len(names))} {what}: {named(names)}"] if names else []


def _elsewhere(before: Plan, after: Plan) -> list[str]:
    """Hosts whose address, failure domain or roles are others."""
    here = {host.name: host for host in after.hosts}
    pairs = [(host, here[host.name]) for host in before.hosts if host.name in here]
    return [f"host {a.name}: {words}" for a, b in pairs if (words := _facts_moved(a, b))]


def _facts_moved(before: PlannedHost, after: PlannedHost) -> str:
    facts = (
        ("address", before.address, after.address),
        ("failure domain", before.failure_domain, after.failure_domain),
        ("roles", ", ".join(before.roles), ", ".join(after.roles)),
    )
    return "; ".join(f"{what} {a or 'none'} → {b or 'none'}" for what, a, b in facts if a != b)


def _versions(given: Contract, now: Contract, changed: frozenset[str]) -> list[str]:
    here = {host.name: host.version_seen for host in now.plan.hosts}
    told = [
        f"{host.name} ({host.version_seen or 'none'} → {here[host.name] or 'none'})"
        for host in given.plan.hosts
        if host.name not in changed and here.get(host.name, host.version_seen) != host.version_seen
    ]
    reasons = [f"{counted(len(told))} with another version than then: {named(told)}"]
    limit = given.request.rollout.tolerate.versions
    return _unless(reasons, len(told), limit, len(given.plan.hosts), "versions")


def _unless(reasons: list[str], count: int, limit: Amount, of: int, what: str) -> list[str]:
    """The reasons, unless there are no more differences than are tolerated."""
    if count <= limit.of(of, least=0):
        return []
    allowed = f"; tolerated ({what}): {limit}" if limit.value else ""
    return [f"{reason}{allowed}" for reason in reasons]


# ---------------------------------------------------------------- policies


def _documents(given: Contract, now: Contract) -> list[str]:
    """By field where the documents of then are there, else by digest."""
    if given.policies or not given.plan.policies:
        return _policies(given.policies, now.policies)
    was, here = dict(given.plan.policies), dict(now.plan.policies)
    names = sorted(name for name in {*was, *here} if was.get(name) != here.get(name))
    return [f"policy {name} is not the one that the plan was made with" for name in names]


def _policies(before: tuple[Policy, ...], after: tuple[Policy, ...]) -> list[str]:
    was, here = {p.name: p for p in before}, {p.name: p for p in after}
    reasons = [
        f"policy {name} ({here[name].file}) covers hosts now, and did not then"
        for name in sorted(here.keys() - was.keys())
    ]
    reasons += [
        f"policy {name} ({was[name].file}) covered hosts then, and does not now"
        for name in sorted(was.keys() - here.keys())
    ]
    for name in sorted(was.keys() & here.keys()):
        if was[name].digest != here[name].digest:
            reasons += _fields_moved(was[name], here[name])
    return reasons


def _fields_moved(before: Policy, after: Policy) -> list[str]:
    """`policy cache changed: limits.unavailable 1 → 2 at cache.yaml:12`, one for each field."""
    was, here = dict(said(before)), dict(said(after))
    paths = [path for path in sorted({*was, *here}) if was.get(path) != here.get(path)]
    told = [
        f"policy {after.name} changed: {path} {was.get(path, 'not said')} → "
        f"{here.get(path, 'not said')} at {_place(after, path)}"
        for path in paths
    ]
    return told or [f"policy {after.name} changed: {after.file} is written otherwise"]


def _place(policy: Policy, path: str) -> str:
    at = where(policy, path)
    return f"{at.file or policy.file}:{at.line}" if at.line else policy.file


PATHS: Mapping[str, str] = {
    "limits.paceBetween": "limits.pace.between",
    "requiredGates": "gates.require",
    "bakeFor": "bake.for",
    "recover.goodFor": "recover.for",
    "rollbackWhen": "rollback.when",
}
"""Where a file has a value whose name in the model is another."""

NOT_SAID = ("name", "owners", "origins", "file", "digest")


def said(policy: Policy) -> Iterator[tuple[str, str]]:
    """What a policy says, as words by their path in its file."""
    for field in dataclasses.fields(policy):
        if field.name not in NOT_SAID:
            yield from _flat(_camel(field.name), getattr(policy, field.name))
    yield "metadata.owners", ", ".join(policy.owners) or "none"


def _flat(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """The words of a value; of a record without words of its own those of its fields."""
    if value is None or value == ():
        return
    if not dataclasses.is_dataclass(value) or "__str__" in vars(type(value)):
        yield PATHS.get(path, path), _words(value)
        return
    for field in dataclasses.fields(value):
        yield from _flat(f"{path}.{_camel(field.name)}", getattr(value, field.name))


def _words(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(_words(item) for item in value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


# ---------------------------------------------------------------- change and gates


def _change(before: Plan, after: Plan) -> list[str]:
    if before.change == after.change:
        return []
    was, here = before.change, after.change
    if (was.name, was.old, was.new) != (here.name, here.old, here.new):
        return [
            f"change {was.name} {was.old} → {was.new} is now {here.name} {here.old} → {here.new}"
        ]
    return [
        (
            f"change {was.name} has other steps or probes now ({was.digest[:19]} then, "
            f"{here.digest[:19] or 'not in the source'} now)"
        )
    ]


def _gates(before: Plan, after: Plan) -> list[str]:
    was = {rule.name: rule for rule in before.gates}
    here = {rule.name: rule for rule in after.gates}
    reasons = [
        f"gate {name} is asked for now, and was not" for name in sorted(here.keys() - was.keys())
    ]
    reasons += [
        f"gate {name} was asked for, and is not now" for name in sorted(was.keys() - here.keys())
    ]
    for name in sorted(was.keys() & here.keys()):
        a, b = was[name], here[name]
        if a.digest != b.digest:
            bound = (
                f": {a.bound} → {b.bound}" if a.bound != b.bound else ", its question or evidence"
            )
            reasons.append(f"gate {name} changed{bound}")
    return reasons
