"""Which policy does each value come from, and what would it be without that policy?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from guardrail.decide.merge import each_said, matches, resolve, together
from guardrail.decide.stricter import FIELDS, TOGETHER
from guardrail.decide.terms import Resolved, Stated, Terms
from guardrail.model.common import Origin
from guardrail.model.fleet import Host
from guardrail.model.policy import Policy

UNITS = {
    "unavailable": "hosts",
    "unavailable_per_domain": "hosts",
    "domains_at_once": "domains",
    "failures": "hosts",
    "failures_share": "% of the hosts tried by the end of a wave",
    "failures_consecutive": "hosts",
    "wave": "hosts",
    "cold_capacity": "hosts",
    "spares": "nodes",
    "pace": "s",
    "bake": "s",
    "grace": "s",
    "max_age_seconds": "s",
    "max_age_scrapes": "scrapes",
    "recover_for": "s",
    "approval_count": "people",
}

SEVERAL = ("gates", "approval_points", "churn", "warm_up", "windows")
NO_LIMIT = "no limit"
NOT_ASKED = "not asked for"


@dataclass(frozen=True, slots=True)
class Traced:
    """One value: as it counts, as it was written, and from where.

    without: what counts when the policy it comes from is taken away, and from where then; a
    built-in default has nothing to take away.
    """

    name: str
    value: str
    written: str
    origin: Origin
    without: str = ""
    without_origin: Origin | None = None


def traced(
    policies: Sequence[Policy], fleet: str, agent: str, hosts: Sequence[Host], host: str = ""
) -> tuple[Traced, ...]:
    """Every value that an operation on this fleet keeps to, or, with `host`, that one host asks
    for: then only policies that cover it count, with shares of all the hosts they cover."""
    about = [one for one in hosts if host in ("", one.name)]
    covering = [p for p in policies if any(matches(p, fleet, agent, one) for one in about)]
    said = each_said(covering, fleet, agent, hosts)
    care = resolve(together(words for _, words in said))
    return tuple(sorted(_rows(care, said), key=lambda row: _place_in_table(row.name)))


def _rows(care: Resolved, said: Sequence[tuple[Policy, Terms]]) -> Iterator[Traced]:
    for name in FIELDS:
        stated = _stated(care, said, name)
        if stated is not None:
            less = _less(said, stated.origin)
            yield _row(path_of(name), name, stated, _stated(less, said, name) if less else None)
    for name in SEVERAL:
        for stated in getattr(care, name):
            less = _less(said, stated.origin)
            left = (
                next((s for s in getattr(less, name) if _same(s, stated)), None) if less else None
            )
            yield _row(path_of(name), name, stated, left)


def path_of(name: str) -> str:
    """How documents spell a field."""
    return FIELDS[name].path if name in FIELDS else TOGETHER[name][0]


def _place_in_table(path: str) -> int:
    return [path_of(name) for name in (*FIELDS, *SEVERAL)].index(path)


def _less(said: Sequence[tuple[Policy, Terms]], origin: Origin) -> Resolved | None:
    """What counts without the policy that a value comes from; None for a default."""
    if not origin.line:
        return None
    others = [words for policy, words in said if f"policy {policy.name}" != origin.document]
    return resolve(together(others))


def _stated(
    care: Resolved, said: Sequence[tuple[Policy, Terms]], name: str
) -> Stated[object] | None:
    """The value with its place; two fields of `Resolved` are plain truths, whose places are those
    of what was said."""
    value = getattr(care, name)
    if not isinstance(value, bool):
        return value if isinstance(value, Stated) else None
    if not value:
        return None
    found: Stated[object] | None = getattr(together(words for _, words in said), name)
    return found or Stated(value, "true", Origin("built-in default", "", 0))


def _same(one: Stated[object], other: Stated[object]) -> bool:
    """Whether two entries of a list are about the same: the same word, or the same warm-up gate."""
    gates = (getattr(one.value, "gate", one.value), getattr(other.value, "gate", other.value))
    return gates[0] == gates[1]


SWITCHES = ("not_requester", "verified", "cache_critical", "leader_last")


def _row(path: str, name: str, stated: Stated[object], left: Stated[object] | None) -> Traced:
    row = Traced(path, in_words(name, stated), stated.written, stated.origin)
    if not stated.origin.line:
        return row
    none = NOT_ASKED if name in SEVERAL or name in SWITCHES else NO_LIMIT
    without = in_words(name, left) if left is not None else none
    return Traced(path, row.value, row.written, row.origin, without, left.origin if left else None)


def in_words(name: str, stated: Stated[object]) -> str:
    """`1 host`, `30 s`, `person`."""
    value, unit = stated.value, UNITS.get(name, "")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = f"{value:g}" if isinstance(value, float) else text
    if text == "1" and unit:
        unit = {"people": "person"}.get(unit, unit.removesuffix("s") or unit)
    return f"{text} {unit}".strip()
