"""Which of two words on one thing is the stricter one?

One table says it for every field that policies have; docs/policies.md has the same table, and a
test compares them. `merge` is commutative, associative and idempotent (tests/decide/test_merge.py):

    one value    the stricter of the two, with the place where it was written; of equal ones the
                 place that comes first by file and line, whatever the order of the files
    all of them  what either says: gates, points of approval
    both hold    two limits that neither implies the other: churn over different times
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from guardrail.decide.terms import Stated, Terms
from guardrail.model.calendar import Windows
from guardrail.model.policy import Churn, WarmUp

Rank = Callable[[Any], float]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What "stricter" means for a field: in words, and as a number of which the lowest wins.

    path: how documents spell it.
    """

    path: str
    words: str
    rank: Rank


def _smaller(path: str, why: str) -> Meaning:
    return Meaning(path, f"the smaller number: {why}", lambda value: value)


def _larger(path: str, why: str) -> Meaning:
    return Meaning(path, f"the larger number: {why}", lambda value: -value)


def _in_order(path: str, *words: object) -> Meaning:
    listed = ", then ".join(f"`{str(w).lower() if isinstance(w, bool) else w}`" for w in words)
    return Meaning(path, f"the first of {listed}", lambda word: float(words.index(word)))


FIELDS: dict[str, Meaning] = {
    "unavailable": _smaller("limits.unavailable", "fewer hosts away or down"),
    "unavailable_per_domain": _smaller(
        "limits.unavailablePerDomain", "fewer hosts away or down in one failure domain"
    ),
    "domains_at_once": _smaller("limits.domainsAtOnce", "fewer failure domains with hosts away"),
    "failures": _smaller(
        "limits.failures.hosts, or share", "fewer hosts may fail; of both in one policy the fewer"
    ),
    "failures_share": _smaller(
        "limits.failures.share", "fewer of the hosts tried by the end of a wave may fail"
    ),
    "failures_consecutive": _smaller("limits.failures.consecutive", "fewer may fail in a row"),
    "wave": _smaller("limits.wave", "smaller waves"),
    "cold_capacity": _smaller("limits.coldCapacity", "less of the tier cold at once"),
    "spares": _larger("limits.spares", "more spares of the ring before the start"),
    "pace": _larger("limits.pace.between", "more time between two begins"),
    "bake": _larger("bake.for", "a longer bake after each wave"),
    "grace": _smaller("evidence.grace", "missing evidence is held sooner"),
    "max_age_seconds": _smaller("evidence.maxAge, a duration", "fresher evidence"),
    "max_age_scrapes": _smaller("evidence.maxAge, in scrapes", "fresher evidence"),
    "recover_by": _in_order("recover.by", "person", "evidence"),
    "recover_for": _larger("recover.for", "evidence must be good for longer"),
    "rollback_when": _in_order("rollback.when", "never", "ask", "auto"),
    "approval_count": _larger("approvals.count", "more people must agree"),
    "not_requester": _in_order("approvals.notRequester", True, False),
    "verified": _in_order("approvals.verified", True, False),
    "cache_critical": _in_order("cacheCritical", True, False),
    "leader_last": _in_order("leaderLast", True, False),
}
"""The fields of `Terms` of which one value counts."""

TOGETHER = {
    "approval_points": ("approvals.at", "all of them: every point that any policy names"),
    "gates": ("gates.require", "all of them: every gate that any policy requires"),
    "churn": (
        "limits.churn",
        "both hold, unless one implies the other: fewer departures in no less time",
    ),
    "warm_up": ("warmUp", "every gate that any policy names, each with its shortest time"),
    "windows": (
        "windows",
        (
            "closed is what any policy closes; going back keeps to those that say "
            "`rollback: same`, and a bake covers every peak whose policy says so"
        ),
    ),
    "policies": ("metadata.name", "all that cover a host are named, with their digests"),
    "owners": ("metadata.owners", "all: each policy's are asked where its word is exceeded"),
}
"""The fields of `Terms` of which more than one value counts."""


def merge(one: Terms, other: Terms) -> Terms:
    """Per field the stricter of two; of points, gates, owners and policies all."""
    fields: dict[str, Any] = {
        name: _stricter(getattr(one, name), getattr(other, name), meaning.rank)
        for name, meaning in FIELDS.items()
    }
    return Terms(
        **fields,
        approval_points=_union(one.approval_points, other.approval_points),
        gates=_union(one.gates, other.gates),
        churn=_strictest_churn((*one.churn, *other.churn)),
        warm_up=_shortest_warm_up((*one.warm_up, *other.warm_up)),
        windows=_all_windows((*one.windows, *other.windows)),
        policies=tuple(sorted({*one.policies, *other.policies})),
        owners=tuple(sorted({*one.owners, *other.owners})),
    )


def _place(stated: Stated[Any]) -> tuple[str, int, str, str, str]:
    origin = stated.origin
    return origin.file, origin.line, origin.document, origin.revision, stated.written


def _stricter(one: Stated[Any] | None, other: Stated[Any] | None, rank: Rank) -> Stated[Any] | None:
    stated = [value for value in (one, other) if value is not None]
    return min(stated, key=lambda value: (rank(value.value), _place(value)), default=None)


def _union(one: tuple[Stated[str], ...], other: tuple[Stated[str], ...]) -> tuple[Stated[str], ...]:
    known: dict[str, Stated[str]] = {}
    for stated in sorted((*one, *other), key=_place):
        known.setdefault(stated.value, stated)
    return tuple(known[word] for word in sorted(known))


def _strictest_churn(stated: Sequence[Stated[Churn]]) -> tuple[Stated[Churn], ...]:
    """Those that no other one implies; of equal ones the first by place."""
    kept: list[Stated[Churn]] = []
    for one in sorted(stated, key=lambda s: (s.value.departures, -s.value.per, _place(s))):
        if not any(other.value.implies(one.value) for other in kept):
            kept.append(one)
    return tuple(kept)


def _all_windows(stated: Sequence[Stated[Windows]]) -> tuple[Stated[Windows], ...]:
    """What each policy closes, in order of place."""
    return tuple(sorted(set(stated), key=lambda s: (_place(s), repr(s.value))))


def _shortest_warm_up(stated: Sequence[Stated[WarmUp]]) -> tuple[Stated[WarmUp], ...]:
    """Every gate once, with the shortest time: whoever is cold for longer holds the operation."""
    kept: dict[str, Stated[WarmUp]] = {}
    for one in sorted(stated, key=lambda s: (s.value.within, _place(s))):
        kept.setdefault(one.value.gate, one)
    return tuple(kept[gate] for gate in sorted(kept))
