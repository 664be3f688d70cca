"""What does a person see of a plan before anything is touched?

What stands against it comes first, then what will be done in which order, then the limits with
the place each comes from. A large fleet is shortened in the middle, and says by how much.
"""

from collections import Counter
from collections.abc import Sequence

from guardrail.cli.plan_more import about_waves
from guardrail.cli.text import (
    Line,
    Look,
    Span,
    clean,
    count,
    duration,
    line,
    moment,
    offset,
    table,
    wrap,
)
from guardrail.decide.calendar import local, span_words
from guardrail.decide.people import needs_signature
from guardrail.model.calendar import Closed
from guardrail.model.plan import ApprovalPoint, GateRule, Limit, Plan, PlannedHost

SHOWN_WHOLE = 60
"""A longer list is shortened in the middle."""

ENDS = 12
"""So many rows are left at each end of a shortened list."""

MOST_NAMES = 6
"""So many hosts that restart alike are named."""


def plan_rows(plan: Plan, look: Look, *, everything: bool = False) -> list[Line]:
    """The plan as lines; `everything` shortens nothing."""
    sections = (
        head(plan, look),
        objections(plan, look),
        waves(plan, look),
        hosts(plan, look, everything=everything),
        restarts(plan, look),
        excluded(plan, look, everything=everything),
        limits(plan, look),
        gates(plan, look),
        approvals(plan, look),
        windows(plan, look),
        end(plan, look),
    )
    rows: list[Line] = []
    for section in sections:
        if section:
            rows += [(), *section] if rows else section
    return rows


def head(plan: Plan, look: Look) -> list[Line]:
    """What, on what, for whom."""
    change = plan.change
    what = f"{change.name} {change.old} to {change.new} on fleet {plan.fleet}"
    rows = wrap(
        line(Span(clean(plan.rollout, look), "strong"), "  ", clean(what, look)), look.width, 2
    )
    about = ", ".join(part for part in (plan.description, plan.ticket) if part)
    rows += wrap(line(Span(clean(about, look), "quiet")), look.width, 2) if about else []
    asked = f"asked for by {plan.requester}" if plan.requester else ""
    rows += wrap(line(Span(clean(asked, look), "quiet")), look.width, 2) if asked else []
    return rows


def objections(plan: Plan, look: Look) -> list[Line]:
    """Why it may not start, and what a person should know."""
    rows: list[Line] = []
    for reason in plan.refusals:
        rows += wrap(line(Span("refused: ", "bad"), clean(reason, look)), look.width, 4)
    for warning in plan.warnings:
        rows += wrap(line(Span("warning: ", "warn"), clean(warning, look)), look.width, 4)
    return rows


# ---------------------------------------------------------------- waves and hosts


def waves(plan: Plan, look: Look) -> list[Line]:
    """The waves: stage, hosts added, hosts in all, and the bake after each."""
    title = count(len(plan.waves), "wave")
    bake = f", a bake of {duration(plan.bake_for)} after each" if plan.bake_for else ""
    rows = wrap(line(Span("Waves", "strong"), Span(f"  {title}{bake}", "quiet")), look.width, 2)
    cells = [
        [
            Span(f"{number}"),
            Span(f"to {clean(wave.stage, look)}", "strong"),
            Span(count(wave.end - wave.begin, "host")),
            Span(f"{wave.end:,} of {len(plan.hosts):,}"),
            Span(f"hosts {wave.begin + 1:,} to {wave.end:,}", "quiet"),
        ]
        for number, wave in enumerate(plan.waves, 1)
    ]
    return rows + _table(cells, look) + about_waves(plan, look)


def hosts(plan: Plan, look: Look, *, everything: bool) -> list[Line]:
    """The hosts in order, under the wave that each is in."""
    title = f"  {count(len(plan.hosts), 'host')} in this order"
    rows = wrap(line(Span("Hosts", "strong"), Span(title, "quiet")), look.width, 2)
    shown, hidden = _shortened(range(len(plan.hosts)), everything=everything)
    wave_of = [
        number for number, wave in enumerate(plan.waves, 1) for _ in range(wave.begin, wave.end)
    ]
    cells = [
        _host_cells(plan.hosts[i], i, wave_of[i] if i < len(wave_of) else 0, look) for i in shown
    ]
    drawn = table(cells, look.width)
    if hidden:
        more = f"  ... {count(hidden, 'more host')}; see them with --all"
        drawn.insert(ENDS, [line(Span(more, "quiet"))])
    return rows + [row for host in drawn for row in host]


def _host_cells(host: PlannedHost, index: int, wave: int, look: Look) -> list[Span]:
    return [
        Span(f"{index + 1}", "quiet"),
        Span(f"wave {wave}", "quiet"),
        Span(clean(host.name, look)),
        Span(clean(host.failure_domain or "(none)", look)),
        Span(clean(", ".join(host.roles) or "no known role", look)),
        Span(
            clean(host.version_seen or "version not seen", look), "" if host.version_seen else "bad"
        ),
        Span(clean(host.address, look), "quiet"),
    ]


def restarts(plan: Plan, look: Look) -> list[Line]:
    """What restarting the agents will do to the catalog; hosts that are alike together."""
    groups: dict[str, list[str]] = {}
    for host in plan.hosts:
        if host.restart:
            general = host.restart.replace(host.name, "the host")
            groups.setdefault(general, []).append(host.name)
    rows: list[Line] = [line(Span("Restarts", "strong"))] if groups else []
    for words, names in groups.items():
        which = clean(_which(names, len(plan.hosts)), look)
        said = line("  ", Span(which, "strong"), f": {clean(words, look)}")
        rows += wrap(said, look.width, 4)
    return rows


def _which(names: Sequence[str], hosts: int) -> str:
    """`cache-001`, `all 30 hosts`, `2 hosts (cache-001, cache-002)`."""
    if len(names) == 1:
        return names[0]
    if len(names) == hosts:
        return f"all {hosts:,} hosts"
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return f"{len(names):,} hosts ({', '.join(names[:MOST_NAMES])}{more})"


def excluded(plan: Plan, look: Look, *, everything: bool) -> list[Line]:
    """The hosts that are left out, and why; those that are down count against the limits."""
    if not plan.excluded:
        return []
    down = sum(1 for host in plan.excluded if host.down)
    words = f"  {count(len(plan.excluded), 'host')}; {down} down, which count against the limits"
    rows = wrap(line(Span("Left out", "strong"), Span(words, "quiet")), look.width, 2)
    shown, hidden = _shortened(range(len(plan.excluded)), everything=everything)
    cells = [
        [
            Span(clean(host.name, look)),
            Span(clean(host.failure_domain, look)),
            Span(clean(host.reason, look)),
        ]
        for host in (plan.excluded[i] for i in shown)
    ]
    drawn = table(cells, look.width)
    if hidden:
        why = Counter("down" if host.down else host.reason for host in plan.excluded)
        kinds = ", ".join(f"{number:,} {reason}" for reason, number in why.most_common(4))
        more = line(
            Span(clean(f"... {hidden:,} more (in all {kinds}); see them with --all", look), "quiet")
        )
        drawn.insert(ENDS, wrap(line("  ", *more), look.width, 4))
    return rows + [row for host in drawn for row in host]


def _shortened(numbers: range, *, everything: bool) -> tuple[list[int], int]:
    """What is shown of a long list, and how many in its middle are not."""
    if everything or len(numbers) <= SHOWN_WHOLE:
        return list(numbers), 0
    return [*numbers[:ENDS], *numbers[-ENDS:]], len(numbers) - 2 * ENDS


# ---------------------------------------------------------------- limits, gates, approvals


def limits(plan: Plan, look: Look) -> list[Line]:
    """Each limit as written, as a number, and where it comes from."""
    if not plan.limits:
        return []
    cells = [
        [
            Span(clean(limit.name, look)),
            Span(in_units(limit), "strong"),
            Span(clean(f"written {limit.written}", look)),
            Span(clean(str(limit.origin), look), "quiet"),
        ]
        for limit in plan.limits
    ]
    found = sorted({limit.origin.revision for limit in plan.limits if limit.origin.revision})
    by = f"  policies of revision {', '.join(found)}" if found else ""
    return [line(Span("Limits", "strong"), Span(clean(by, look), "quiet")), *_table(cells, look)]


def in_units(limit: Limit) -> str:
    """`3 hosts`, `1 min 30 s`."""
    if limit.unit == "seconds":
        return duration(limit.value)
    if limit.unit == "percent":
        return f"{limit.value:g}% of the hosts up to the end of each wave"
    singular = {"people": "person"}.get(limit.unit, limit.unit.removesuffix("s"))
    return f"{limit.value:,g} {singular if limit.value == 1 else limit.unit}"


def gates(plan: Plan, look: Look) -> list[Line]:
    """Each gate's bound, what a failure does, and who requires it."""
    if not plan.gates:
        return [line(Span("Gates", "strong"), Span("  none", "warn"))]
    cells = [_gate_cells(gate, look) for gate in plan.gates]
    return [line(Span("Gates", "strong")), *_table(cells, look)]


def _gate_cells(gate: GateRule, look: Look) -> list[Span]:
    recovers = "a person" if gate.recover_by == "person" else f"good for {duration(gate.good_for)}"
    return [
        Span(clean(gate.name, look)),
        Span(clean(gate.bound, look), "strong"),
        Span(gate.gate_class),
        Span(f"ends by {recovers}"),
        Span(clean(f"required by {gate.required_by}", look), "quiet"),
    ]


def approvals(plan: Plan, look: Look) -> list[Line]:
    """Who must agree, and when."""
    cells = [_approval_cells(point, look) for point in plan.approvals]
    return [line(Span("Approvals", "strong")), *_table(cells, look)] if cells else []


def _approval_cells(point: ApprovalPoint, look: Look) -> list[Span]:
    people = "1 person" if point.count == 1 else f"{point.count} people"
    others = ", not the requester" if point.not_requester else ""
    signed = needs_signature(point)
    others += ", by signature" if signed else ""
    others += "; one more where the start is not signed" if signed and point.not_requester else ""
    return [
        Span(clean(point.point, look), "strong"),
        Span(f"before wave {point.wave + 1}"),
        Span(f"{people}{others}"),
        Span(clean(str(point.origin), look), "quiet"),
    ]


def windows(plan: Plan, look: Look) -> list[Line]:
    """When no host begins: why, on whose clock, when next, and where that is written."""
    calendar = plan.calendar
    if calendar is None:
        return []
    known = (
        f"  known up to {local(calendar.known_until, 0)}; a host begins only if it is baked before"
    )
    title = wrap(line(Span("Windows", "strong"), Span(known, "quiet")), look.width, 2)
    return title + _table([_rule_cells(plan, by, look) for by in range(len(calendar.rules))], look)


def _rule_cells(plan: Plan, by: int, look: Look) -> list[Span]:
    calendar = plan.calendar
    assert calendar is not None  # noqa: S101 - its rules are shown
    rule = calendar.rules[by]
    times = (one for one in calendar.closed if one.by == by and one.opens_at > plan.created_at)
    settle = f" and {span_words(rule.settle)} before" if rule.settle else ""
    kinds = ("going back too" if rule.binds_back else "", "covered by a bake" if rule.peak else "")
    return [
        Span(clean(rule.reason or "closed", look), "strong"),
        Span(clean(f"{rule.written} {rule.timezone}{settle}", look)),
        Span(_next_time(next(times, None), plan.created_at)),
        Span(", ".join(kind for kind in kinds if kind)),
        Span(clean(str(rule.origin), look), "quiet"),
    ]


def _next_time(one: Closed | None, now: float) -> str:
    if one is None:
        return "not in this time"
    if one.closes_at <= now:
        return f"closed until {local(one.opens_at, one.open_offset)}"
    return f"closes at {local(one.closes_at, one.close_offset)}"


def end(plan: Plan, look: Look) -> list[Line]:
    """How long it takes and when it would end, or that it would not start."""
    if plan.refusals:
        said = f"It would be refused: {count(len(plan.refusals), 'reason')} above."
        return wrap(line(Span(said, "bad")), look.width, 2)
    finish = plan.created_at + plan.seconds_expected
    when = moment(finish, look.zone)
    shown = f"{when:%Y-%m-%d %H:%M} {offset(finish, look.zone)}" if when else "no known time"
    waits = " and nobody is waited for" if plan.approvals else ""
    words = f"Started now, it ends at {shown} if nothing holds it{waits}"
    closed = f", {duration(plan.seconds_closed)} of it waiting" if plan.seconds_closed >= 1 else ""
    took = f" (about {duration(plan.seconds_expected)}{closed})."
    return wrap(line(Span(words, "strong"), took), look.width, 2)


# ---------------------------------------------------------------- tables on any screen


def _table(cells: Sequence[Sequence[Span]], look: Look) -> list[Line]:
    return [row for rows in table(cells, look.width) for row in rows]
