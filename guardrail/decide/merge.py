"""Of all policies that cover an operation's hosts, what is the strictest word on each thing?

Every policy that matches any host of the fleet applies to the whole operation, also where it
matches only hosts that are down or need no change: an outage does not ask which list a host
was on. Three steps:

    terms    one policy   → what it says, its percentages resolved to hosts
    merge    two of these → per field the stricter one, with where it was written
    resolve  the result   → a built-in default where nobody has said anything

A percentage is of the hosts which *its* policy matches, whether they are up, down or finished
(5 % of 288 is 14, also when 20 of the 288 are down), per domain of the smallest such domain; a
count of hosts is what it says. `merge` is commutative, associative and idempotent, so the order
of files never matters, and another policy can only make what is said stricter; decide/stricter.py
has what that means for each field. What a caller adds cannot loosen a default either (`with_more`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar

from guardrail.decide.stricter import merge
from guardrail.decide.terms import BUILT_IN, Resolved, Scope, Stated, Terms
from guardrail.model.calendar import Window, Windows
from guardrail.model.common import Amount, Origin
from guardrail.model.fleet import Host
from guardrail.model.gate import Age
from guardrail.model.policy import Failures, Policy, RecoverBy, RollbackWhen

T = TypeVar("T")


# ---------------------------------------------------------------- which hosts


def matches(policy: Policy, fleet_name: str, agent: str, host: Host) -> bool:
    """Whether a policy covers a host.

    A condition is met by one of its words, and every condition that is there must be met. A
    host with no known role meets every condition on roles, and one with no known failure domain
    every one on domains: what is not known may be what the policy protects.
    """
    match = policy.match
    return (
        (not match.roles or not host.roles or not set(match.roles).isdisjoint(host.roles))
        and (not match.fleets or fleet_name in match.fleets)
        and (not match.labels or not set(match.labels).isdisjoint(host.labels))
        and (not match.agents or agent in match.agents)
        and (
            not match.failure_domains
            or not host.failure_domain
            or host.failure_domain in match.failure_domains
        )
    )


def scope(policy: Policy, fleet_name: str, agent: str, hosts: Sequence[Host]) -> Scope:
    """How many hosts a policy covers. `hosts`: all of the fleet."""
    domains = Counter(h.failure_domain for h in hosts if matches(policy, fleet_name, agent, h))
    return Scope(len(hosts), domains.total(), min(domains.values(), default=0))


# ---------------------------------------------------------------- what one policy says


def terms(policy: Policy, over: Scope) -> Terms:
    """What one policy says, with its percentages resolved.

    A cache-critical policy that is silent on `recover.by` says "person": were that only a
    default, a second policy saying "evidence" would loosen the first.
    """
    limits, recover, asked = policy.limits, policy.recover, policy.approvals
    by: RecoverBy | None = recover.by or ("person" if policy.cache_critical else None)
    age = policy.evidence.max_age or Age()

    def said(value: T | None, path: str, suffix: str = "") -> Stated[T] | None:
        return None if value is None else Stated(value, f"{_word(value)}{suffix}", at(path))

    def at(path: str) -> Origin:
        return where(policy, path)

    def hosts(amount: Amount | None, path: str, of: int) -> Stated[int] | None:
        return None if amount is None else Stated(_hosts(amount, of, over), str(amount), at(path))

    return Terms(
        unavailable=hosts(limits.unavailable, "limits.unavailable", over.matched),
        unavailable_per_domain=hosts(
            limits.unavailable_per_domain, "limits.unavailablePerDomain", over.smallest_domain
        ),
        domains_at_once=said(limits.domains_at_once, "limits.domainsAtOnce"),
        failures=_failures(policy, over),
        failures_share=_failures_share(policy),
        failures_consecutive=said(
            limits.failures.consecutive if limits.failures else None, "limits.failures.consecutive"
        ),
        wave=hosts(limits.wave, "limits.wave", over.matched),
        cold_capacity=hosts(limits.cold_capacity, "limits.coldCapacity", over.matched),
        spares=said(limits.spares, "limits.spares"),
        pace=said(limits.pace_between, "limits.pace.between", " s"),
        bake=said(policy.bake_for, "bake.for", " s"),
        grace=said(policy.evidence.grace, "evidence.grace", " s"),
        max_age_seconds=said(age.seconds, "evidence.maxAge", " s"),
        max_age_scrapes=said(age.scrapes, "evidence.maxAge", " scrapes"),
        recover_by=said(by, "recover.by" if recover.by else "cacheCritical"),
        recover_for=said(recover.good_for, "recover.for", " s"),
        rollback_when=said(policy.rollback_when, "rollback.when"),
        approval_count=said(asked.count if asked else None, "approvals.count"),
        not_requester=said(asked.not_requester if asked else None, "approvals.notRequester"),
        verified=_verified(policy),
        cache_critical=said(policy.cache_critical or None, "cacheCritical"),
        leader_last=said(policy.leader_last or None, "leaderLast"),
        approval_points=_words(policy, asked.at if asked else (), "approvals.at"),
        gates=_words(policy, policy.required_gates, "gates.require"),
        churn=some(said(limits.churn, "limits.churn")),
        warm_up=some(said(policy.warm_up, "warmUp")),
        windows=some(said(_windows(policy), "windows")),
        policies=((policy.name, policy.digest),),
        owners=((policy.name, policy.owners),) if policy.owners else (),
    )


def some(stated: Stated[T] | None) -> tuple[Stated[T], ...]:
    return () if stated is None else (stated,)


def _windows(policy: Policy) -> Windows | None:
    """The policy's windows with the place of each entry: what closes says where it is written."""
    known = policy.windows
    if known is None:
        return None

    def placed(entries: Sequence[Window], path: str) -> tuple[Window, ...]:
        return tuple(replace(e, origin=where(policy, f"{path}.{i}")) for i, e in enumerate(entries))

    return replace(
        known,
        deny=placed(known.deny, "windows.deny"),
        allow=placed(known.allow, "windows.allow"),
        origin=where(policy, "windows.allow" if known.allow else "windows"),
    )


def _verified(policy: Policy) -> Stated[bool] | None:
    """Whether only verified people count: two people always have to be."""
    asked = policy.approvals
    if asked is None or not (asked.verified or asked.count > 1):
        return None
    return Stated(True, "true", where(policy, "approvals.verified"))


def where(policy: Policy, path: str) -> Origin:
    """Where a value was written, or the nearest thing around it whose place is known."""
    known = dict(policy.origins)
    while path not in known and "." in path:
        path = path.rpartition(".")[0]
    return policy.origin(path)


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _words(policy: Policy, words: Sequence[str], path: str) -> tuple[Stated[str], ...]:
    """Each word of a list once, sorted, with the place of its first mention."""
    first = {word: where(policy, f"{path}.{words.index(word)}") for word in words}
    return tuple(Stated(word, word, first[word]) for word in sorted(first))


def _hosts(amount: Amount, of: int, over: Scope) -> int:
    """A share is of the hosts that the policy matches, a count is of the fleet; at least one."""
    return max(1, amount.of(of if amount.percent else over.fleet))


def _failures(policy: Policy, over: Scope) -> Stated[int] | None:
    """The fewer of the hosts and the share that may fail; zero is a word here."""
    stated: Failures = policy.limits.failures or Failures()
    path = "limits.failures"
    found: list[Stated[int]] = []
    if stated.hosts is not None:
        found.append(Stated(stated.hosts, f"{stated.hosts}", where(policy, f"{path}.hosts")))
    if stated.share is not None:
        of = over.matched if stated.share.percent else over.fleet
        allowed = stated.share.of(of, least=0)
        found.append(Stated(allowed, str(stated.share), where(policy, f"{path}.share")))
    return min(found, key=lambda one: one.value, default=None)


def _failures_share(policy: Policy) -> Stated[float] | None:
    """The share of the hosts that are tried by the end of a wave; what it is of all of the hosts
    that the policy covers is `failures`."""
    stated = policy.limits.failures
    if stated is None or stated.share is None or not stated.share.percent:
        return None
    share = stated.share
    return Stated(share.value, str(share), where(policy, "limits.failures.share"))


# ---------------------------------------------------------------- all of them


def each_said(
    policies: Iterable[Policy], fleet_name: str, agent: str, hosts: Sequence[Host]
) -> tuple[tuple[Policy, Terms], ...]:
    """The policies that cover any of the fleet's hosts, and what each of them says."""
    scopes = ((policy, scope(policy, fleet_name, agent, hosts)) for policy in policies)
    return tuple((policy, terms(policy, over)) for policy, over in scopes if over.matched)


def together(said: Iterable[Terms]) -> Terms:
    """What several policies say together."""
    return reduce(merge, said, Terms())


def terms_of(
    policies: Iterable[Policy], fleet_name: str, agent: str, hosts: Sequence[Host]
) -> Terms:
    """What all policies that cover any of the fleet's hosts say together."""
    return together(said for _, said in each_said(policies, fleet_name, agent, hosts))


def filled(said: Terms) -> Terms:
    """The terms, with a safe default where no policy has said anything: never a free pass.

    Defaults: one host away, one a domain, one domain, no failure, a bake of 10 minutes, 10 s of
    grace, good for 5 minutes, and a person to end a gate's hold where cache-critical. Hosts that
    no policy at all covers go in waves of at most 10, and somebody else than the requester must
    agree before the first.
    """
    person: RecoverBy = "person" if said.cache_critical else "evidence"
    ask: RollbackWhen = "ask"
    return replace(
        said,
        unavailable=said.unavailable or _default(1),
        unavailable_per_domain=said.unavailable_per_domain or _default(1),
        domains_at_once=said.domains_at_once or _default(1),
        failures=said.failures or _default(0),
        wave=said.wave or (None if said.policies else _default(10)),
        pace=said.pace or _default(0.0, " s"),
        bake=said.bake or _default(600.0, " s"),
        grace=said.grace or _default(10.0, " s"),
        recover_by=said.recover_by or _default(person),
        recover_for=said.recover_for or _default(300.0, " s"),
        rollback_when=said.rollback_when or _default(ask),
        approval_count=said.approval_count or _default(1),
        not_requester=said.not_requester or _default(not said.policies),
        approval_points=said.approval_points or (() if said.policies else (_default("start"),)),
    )


def with_more(said: Terms, more: Terms) -> Terms:
    """What is said, and what somebody adds who may loosen nothing: also not the defaults that
    hold where nobody else has said anything."""
    return merge(filled(said), filled(merge(said, more)))


def resolve(said: Terms) -> Resolved:
    """The terms, with the defaults of `filled` where no policy has said anything."""
    full = filled(said)

    def sure(field: str) -> Any:
        """What has a default, and so is there."""
        return getattr(full, field)

    return Resolved(
        unavailable=sure("unavailable"),
        unavailable_per_domain=sure("unavailable_per_domain"),
        domains_at_once=sure("domains_at_once"),
        failures=sure("failures"),
        failures_share=full.failures_share,
        failures_consecutive=full.failures_consecutive,
        wave=full.wave,
        cold_capacity=full.cold_capacity,
        spares=full.spares,
        pace=sure("pace"),
        bake=sure("bake"),
        grace=sure("grace"),
        max_age_seconds=full.max_age_seconds,
        max_age_scrapes=full.max_age_scrapes,
        recover_by=sure("recover_by"),
        recover_for=sure("recover_for"),
        rollback_when=sure("rollback_when"),
        approval_count=sure("approval_count"),
        not_requester=sure("not_requester").value,
        verified=full.verified is not None and full.verified.value,
        cache_critical=full.cache_critical is not None,
        leader_last=full.leader_last is not None,
        approval_points=full.approval_points,
        gates=full.gates,
        churn=full.churn,
        warm_up=full.warm_up,
        windows=full.windows,
        policies=full.policies,
        owners=full.owners,
    )


def _default(value: T, suffix: str = "") -> Stated[T]:
    return Stated(value, f"{_word(value)}{suffix}", BUILT_IN)
