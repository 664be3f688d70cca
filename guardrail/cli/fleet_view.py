"""Which host is in which state? One sign a host for a small fleet, a bar a failure domain else.

With the plan every host keeps its place in its failure domain's row; without it (no plan could
be read) the signs of a domain are sorted by state, since only their numbers are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len

from guardrail.cli.text import Line, Look, Meaning, Span, clean, count, duration, line, wrap
from guardrail.decide.bits import has
from guardrail.model.messages import DomainCount, HostState, Status
from guardrail.model.plan import Plan

MOST_SIGNS = 400
"""A larger fleet is shown as bars."""

MOST_DOMAINS = 16
MOST_NAMES = 8

STATES: dict[str, Meaning] = {
    "changed": "good",
    "in flight": "busy",
    "waiting": "quiet",
    "failed": "bad",
    "unknown": "bad",
    "set aside": "warn",
    "back": "good",
}
"""Every state a host can be in, in the order of the legend."""


@dataclass(frozen=True, slots=True)
class Row:
    """One failure domain: its name, how many hosts are in which state, and each one's state."""

    name: str
    counts: DomainCount
    states: tuple[str, ...]


def hosts_section(status: Status, plan: Plan | None, look: Look, *, brief: bool) -> list[Line]:
    """The hosts by failure domain and state, and by name those that are not simply done."""
    if not status.domains:
        return []
    named = names_section(status, plan, look)
    if brief:
        return named
    rows = wrap(line(Span("Hosts", "strong"), Span(excluded(plan), "quiet")), look.width, 2)
    shown, rest = _shown(_domain_rows(status, plan, look))
    widest = max(cell_len(row.name) for row in shown)
    for row in shown:
        rows += _signs(row, widest, look) if status.hosts <= MOST_SIGNS else _bar(row, widest, look)
    rows += _rest(rest, look)
    back = goes_back(status)
    rows += legend(look, back=back) if status.hosts <= MOST_SIGNS else []
    return rows + named


def sign(state: str, look: Look) -> str:
    """The sign of a state."""
    symbols = look.symbols
    return {
        "changed": symbols.changed,
        "in flight": symbols.in_flight,
        "waiting": symbols.waiting,
        "failed": symbols.failed,
        "unknown": symbols.unknown,
        "set aside": symbols.set_aside,
        "back": symbols.back,
    }[state]


def legend(look: Look, *, back: bool) -> list[Line]:
    """What each sign means. back: whether any host can be back at the former version."""
    spans = [Span("  ")]
    for state, meaning in STATES.items():
        if state == "back" and not back:
            continue
        # No break inside an entry: the space between sign and word is not one to wrap at.
        spans += [Span(sign(state, look), meaning), Span(f"\u00a0{state}".replace(" ", "\u00a0"))]
        spans += [Span("  ")]
    rows = wrap(tuple(spans[:-1]), look.width, 2)
    return [tuple(Span(s.text.replace("\u00a0", " "), s.meaning) for s in row) for row in rows]


def excluded(plan: Plan | None) -> str:
    """How many hosts the plan leaves out."""
    if plan is None or not plan.excluded:
        return ""
    down = sum(1 for host in plan.excluded if host.down)
    return f"  {len(plan.excluded)} excluded by the plan, {down} of them down"


# ---------------------------------------------------------------- rows


def _domain_rows(status: Status, plan: Plan | None, look: Look) -> list[Row]:
    states = _states_by_domain(status, plan) if plan and status.hosts <= MOST_SIGNS else {}
    return [
        Row(
            clean(_domain_name(counts.domain, plan), look),
            counts,
            states.get(_domain_name(counts.domain, plan)) or _states_by_count(counts),
        )
        for counts in status.domains
    ]


def _domain_name(number: int, plan: Plan | None) -> str:
    if plan is not None and 0 <= number < len(plan.domains):
        return plan.domains[number] or "(none)"
    return f"domain {number}"


def _states_by_domain(status: Status, plan: Plan) -> dict[str, tuple[str, ...]]:
    """Each domain's hosts in plan order, by state."""
    known = _known_states(status)
    changed, back = changed_set(status), _bit_set(status.reverted_hosts)
    found: dict[str, list[str]] = {}
    for index, host in enumerate(plan.hosts):
        simply = "back" if has(back, index) else "changed" if has(changed, index) else "waiting"
        state = known.get(index, simply)
        found.setdefault(host.failure_domain or "(none)", []).append(state)
    return {domain: tuple(states) for domain, states in found.items()}


def changed_set(status: Status) -> int:
    """The changed hosts as a bit set; none where the status does not tell."""
    return _bit_set(status.changed_hosts)


def goes_back(status: Status) -> bool:
    """Whether it goes back, or has gone."""
    return status.direction == "back"


def _bit_set(digits: str) -> int:
    try:
        return max(0, int(digits or "0", 16))
    except ValueError:
        return 0


def _known_states(status: Status) -> dict[int, str]:
    """Hosts that are in flight or exceptional. One that is tried again is in flight."""
    states = {host.index: _state_of(host) for host in status.exceptional}
    return states | {host.index: "in flight" for host in status.in_flight}


def _state_of(host: HostState) -> str:
    """The state that an outcome amounts to; a word that is not known here is `unknown`."""
    if host.outcome in STATES:
        return host.outcome
    as_good_as = {"blocked": "failed", "gone": "set aside"}
    return as_good_as.get(host.outcome, "waiting" if host.outcome in NOT_TOUCHED else "unknown")


NOT_TOUCHED = ("not_begun", "credentials")


def _states_by_count(counts: DomainCount) -> tuple[str, ...]:
    numbers = _numbers(counts)
    order = ("changed", "back", "in flight", "failed", "unknown", "set aside", "waiting")
    return tuple(state for state in order for _ in range(numbers[state]))


def _numbers(counts: DomainCount) -> dict[str, int]:
    known = {
        "changed": counts.changed,
        "in flight": counts.in_flight,
        "failed": counts.failed,
        "unknown": counts.unknown,
        "set aside": counts.set_aside,
        "back": counts.reverted,
    }
    return known | {"waiting": max(0, counts.total - sum(known.values()))}


# ---------------------------------------------------------------- drawing


def _shown(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows to draw, and the rest: where there are many, the ones with trouble or work first."""
    if len(rows) <= MOST_DOMAINS:
        return rows, []
    ranked = sorted(rows, key=lambda row: (-_trouble(row.counts), -row.counts.in_flight))
    chosen = {row.counts.domain for row in ranked[:MOST_DOMAINS]}
    return (
        [row for row in rows if row.counts.domain in chosen],
        [row for row in rows if row.counts.domain not in chosen],
    )


def _trouble(counts: DomainCount) -> int:
    return counts.failed + counts.unknown


def _rest(rows: list[Row], look: Look) -> list[Line]:
    if not rows:
        return []
    changed = sum(row.counts.changed for row in rows)
    total = sum(row.counts.total for row in rows)
    hosts = f"{changed:,} of {count(total, 'host')} changed"
    words = f"  and {count(len(rows), 'more failure domain')}: {hosts}"
    return wrap(line(Span(words, "quiet")), look.width, 4)


def _signs(row: Row, widest: int, look: Look) -> list[Line]:
    """The name, a sign for each host in tens, and how many are changed."""
    narrow = widest > look.width // 3
    name = f"  {row.name}" + " " * (0 if narrow else widest - cell_len(row.name))
    spans = [Span(f"{name}  ")]
    for number in range(0, len(row.states), 10):
        for state, run in groupby(row.states[number : number + 10]):
            spans.append(Span(sign(state, look) * len(list(run)), STATES[state]))
        spans.append(Span(" "))
    spans.append(Span(f" {_in_words(row.counts)}"))
    return wrap(tuple(spans), look.width, 4 if narrow else widest + 4)


def _bar(row: Row, widest: int, look: Look) -> list[Line]:
    width = 20 if look.width >= 72 else 10
    share = row.counts.changed / row.counts.total if row.counts.total else 1.0
    full = min(width, int(share * width))
    drawn = [
        Span(look.symbols.full * full, "good"),
        Span(look.symbols.empty * (width - full), "quiet"),
    ]
    name = f"  {row.name}{' ' * min(widest - cell_len(row.name), look.width // 3)}  "
    return wrap(line(name, *drawn, "  ", _in_words(row.counts)), look.width, 4)


def _in_words(counts: DomainCount) -> str:
    """`8 of 10`, and whatever is not simply changed or waiting."""
    numbers = _numbers(counts)
    parts = [f"{counts.changed:,} of {counts.total:,}"]
    for state in ("back", "in flight", "failed", "unknown", "set aside"):
        parts += [f"{numbers[state]:,} {state}"] if numbers[state] else []
    return ", ".join(parts)


# ---------------------------------------------------------------- hosts by name


def names_section(status: Status, plan: Plan | None, look: Look) -> list[Line]:
    """Hosts in flight and hosts that are not as they should be, in full and by name."""
    rows = _flying(status, plan, look)
    for host in status.exceptional[-MOST_NAMES:]:
        state = _state_of(host)
        mark = Span(f"  {sign(state, look)} ", STATES[state])
        reason = f": {host.reason}" if host.reason else ""
        words = f"{host_name(host, plan)} {host.outcome.replace('_', ' ')}{reason}"
        rows += wrap(line(mark, clean(words, look)), look.width, 4)
    more = len(status.exceptional) - MOST_NAMES
    if more > 0:
        rows += wrap(
            line(f"  and {count(more, 'earlier one')}: see rollout explain"), look.width, 4
        )
    if status.unnamed:
        told = f"  and {count(status.unnamed, 'host')} more, counted and not kept by name"
        rows += wrap(line(told), look.width, 4)
    return rows


def _flying(status: Status, plan: Plan | None, look: Look) -> list[Line]:
    if not status.in_flight:
        return []
    shown: Sequence[HostState] = status.in_flight[:MOST_NAMES]
    names = [
        f"{clean(host_name(host, plan), look)} ({duration(status.as_of - host.since)})"
        for host in shown
    ]
    more = len(status.in_flight) - len(shown)
    names += [f"and {more:,} more"] if more else []
    head = Span(f"  {look.symbols.in_flight} ", "busy")
    return wrap(line(head, "in flight: ", ", ".join(names)), look.width, 4)


def host_name(host: HostState, plan: Plan | None) -> str:
    """The host's name, or its place in the plan where no name is known."""
    if host.name:
        return host.name
    if plan is not None and 0 <= host.index < len(plan.hosts):
        return plan.hosts[host.index].name
    return f"host {host.index + 1}"
