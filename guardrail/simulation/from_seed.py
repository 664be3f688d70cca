"""What is the story of a number?

Everything is drawn from dice that the seed alone sets, so that a seed tells the same story
everywhere. What came later has dice of its own: all else in a story stays as it is without it.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random

from guardrail.decide.overrides import clock
from guardrail.model.calendar import Calendar, Closed, ClosedBy, Shut
from guardrail.model.gate import GateClass, Kind, Verdict
from guardrail.model.identity import NOBODY, Signer
from guardrail.model.operation import Commanded, Outcome, Scope, Verb
from guardrail.model.plan import ApprovalPoint, Caps, Course, GateRule, Limit, Wave, Word
from guardrail.model.policy import RollbackWhen
from guardrail.simulation.freezing import happenings as frozen
from guardrail.simulation.freezing import may_be_frozen
from guardrail.simulation.policing import edited
from guardrail.simulation.service import churning, followed, happenings
from guardrail.simulation.story import (
    CALM,
    ORIGIN,
    PEOPLE,
    Behaviour,
    Noise,
    Part,
    Planned,
    Said,
    Signal,
    Story,
    Trouble,
    TroubleKind,
    key_of,
)


def story(seed: int) -> Story:
    """The story of that number; the same one everywhere and always."""
    dice = Random(seed)
    horizon = dice.choice((60.0, 200.0, 600.0))
    count = dice.choice((1, 1, 1, 1, 1, 1, 2, 3))
    operations = tuple(_operation(dice, number, small=count > 1) for number in range(count))
    for name, more in TRAITS.items():
        each = enumerate(operations)
        operations = tuple(more(Random(f"{seed}/{number}/{name}"), one) for number, one in each)
    parts: list[Part] = []
    for number, operation in enumerate(operations):
        parts += _catalog(Random(f"{seed}/{number}/service"), number, operation, horizon)
        parts += _frozen(Random(f"{seed}/{number}/ice"), number, operation, horizon)
        parts += _flees(Random(f"{seed}/{number}/flees"), number, operation)
        parts += _behaviours(dice, number, operation.course)
        parts += _gates(dice, number, operation.course, horizon)
        parts += _people(dice, number, operation.course, horizon)
        parts += _troubles(dice, number, operation, horizon)
        own = Random(f"{seed}/{number}/overrides")
        parts += exceeding(own, number, operation.course, horizon)
        parts += _row(Random(f"{seed}/{number}/row"), number, operation.course)
        parts += _zombie(Random(f"{seed}/{number}/zombie"), number, operation)
    return Story(seed, operations, tuple(parts))


def _followed(dice: Random, planned: Planned) -> Planned:
    return replace(planned, course=followed(dice, planned.course))


def _frozen_at_times(dice: Random, planned: Planned) -> Planned:
    return replace(planned, course=may_be_frozen(dice, planned.course))


def _policed(dice: Random, planned: Planned) -> Planned:
    """Some operations have policies that change while they run."""
    course, policies = edited(dice, planned.course, CALM)
    return replace(planned, course=course, policies=policies)


def _churning(dice: Random, planned: Planned) -> Planned:
    """Some have a new version whose hosts keep leaving the catalog."""
    course, every = churning(dice, planned.course)
    return replace(planned, course=course, churns=every)


def _operation(dice: Random, number: int, *, small: bool) -> Planned:
    course = _course(dice, dice.choice((2, 4, 6) if small else (1, 3, 6, 6, 9, 12)))
    return Planned(
        f"op-{number + 1}",
        course,
        starts=0.0 if number == 0 else float(dice.randrange(60)),
        first_report=dice.choice((0.0, 1.0, 1.0, 1.0, 8.0, 40.0)),
        first_host=dice.randrange(3) if number else 0,
        sick=dice.random() < 0.15,
    )


def _course(dice: Random, hosts: int) -> Course:
    ends = sorted({hosts, *(dice.randint(1, hosts) for _ in range(dice.randrange(3)))})
    waves = tuple(Wave(f"{e}", b, e) for b, e in zip((0, *ends[:-1]), ends, strict=True))
    domains = tuple(dice.randrange(3) for _ in range(hosts))
    caps = Caps(
        unavailable=dice.choice((1, 2, 4)),
        unavailable_per_domain=dice.choice((1, 2, 4)),
        domains_at_once=dice.randint(1, 3),
        failures=dice.choice((0, 1, 5)),
        failures_consecutive=dice.choice((None, None, 1)),
        pace=dice.choice((0.0, 0.0, 7.0)),
        failures_share=Random(hosts * 1000 + ends[0]).choice((None, 0.25, 0.5)),
    )
    most = min(caps.unavailable, caps.unavailable_per_domain) - 1
    points = dice.choice((0, 0, 0, 1, 2))
    approvals = (ApprovalPoint("start", 0, points, True, ORIGIN),) if points else ()
    when: RollbackWhen = dice.choice(("ask", "ask", "auto", "auto", "never"))
    bake = dice.choice((0.0, 10.0, 30.0))
    down = (dice.randint(0, most), 0, 0)
    rules = _rules(dice)
    return Course("sha256:made-up", "ann", waves, domains, down, caps, rules, approvals, bake,
                  rollback_when=when, reread=dice.choice((10, 100, 100)),
                  observe_after=dice.choice((60.0, 200.0, 3600.0)))  # fmt: skip


WINDOWS = 0.35
"""The share of operations with windows."""
LAST = 60_000.0


def _with_windows(dice: Random, planned: Planned) -> Planned:
    """Some operations are closed now and then; they have dice of their own, so that all else in a
    story stays as it is without windows."""
    if dice.random() >= WINDOWS:
        return planned
    every, length = dice.choice((400.0, 700.0, 1200.0)), dice.choice((20.0, 60.0, 150.0))
    first = dice.randrange(-100, int(every))
    rule = ClosedBy(
        "a made-up peak", "now and then", "UTC", ORIGIN,
        binds_back=dice.random() < 0.5, settle=dice.choice((0.0, 5.0)), peak=dice.random() < 0.4,
    )  # fmt: skip
    begins = [first + number * every for number in range(int(LAST / every))]
    closed = tuple([Closed(begin, begin + length, 0) for begin in begins])
    shut = tuple([Shut(begin, begin + length) for begin in begins])
    calendar = Calendar(LAST, (rule,), closed, shut, shut if rule.binds_back else ())
    return replace(planned, course=replace(planned.course, host_timeout=60.0, calendar=calendar))


OVERRIDES = 0.4
"""The share of operations with limits that people override."""


def _owned(dice: Random, planned: Planned) -> Planned:
    """Some operations have a policy whose owners must agree when one of its limits is exceeded."""
    caps = planned.course.caps
    most = {"unavailable": caps.unavailable, "unavailablePerDomain": caps.unavailable_per_domain}
    owned = [name for name in most if dice.random() < 0.4]
    limits = tuple(
        Limit(name, "", float(most[name]), "hosts", ORIGIN,
              (Word("made-up", float(most[name]), ("cid", "dan")),))
        for name in owned
    )  # fmt: skip
    return replace(planned, course=replace(planned.course, limits=limits))


def _rules(dice: Random) -> tuple[GateRule, ...]:
    classes: tuple[GateClass, ...] = dice.choice(
        (("safety",), ("safety", "health"), ("safety", "health"), ("safety", "safety"), ("health",))
    )
    return tuple(
        GateRule(
            name, gate_class, 10.0, dice.choice(("person", "evidence")), 20.0, 15.0, ORIGIN,
            "q", "below 0.7",
        )
        for name, gate_class in zip(("a", "b"), classes, strict=False)
    )  # fmt: skip


BAD = 0.06
"""The share of operations whose version is bad, where only a row of failures is one too many."""
ROW = 1


def _bad_version(dice: Random, planned: Planned) -> Planned:
    """Some may have many failures, but not one after another."""
    if dice.random() >= BAD:
        return planned
    caps = replace(
        planned.course.caps, unavailable=4, unavailable_per_domain=4, domains_at_once=3,
        failures=5, failures_share=None, failures_consecutive=ROW,
    )  # fmt: skip
    return replace(planned, course=replace(planned.course, caps=caps))


def _row(dice: Random, number: int, course: Course) -> Iterable[Part]:
    """Where a row of failures is limited, and many failures are not, there sometimes is one."""
    caps = course.caps
    many = caps.failures > ROW and caps.failures_share is None
    if caps.failures_consecutive != ROW or not many or dice.random() < 0.5:
        return
    first = dice.randrange(course.hosts)
    for index in range(first, min(first + 3, course.hosts)):
        yield Behaviour(number, index, 1, outcome="failed", takes=dice.choice((1.0, 5.0)))


ZOMBIES = 0.04


def _zombie(dice: Random, number: int, operation: Planned) -> Iterable[Part]:
    """A worker stops before a slow host is ready, another one hears that the host is spoiled, and
    the first comes back: its turn has been answered."""
    if dice.random() >= ZOMBIES:
        return
    at = round(operation.starts + operation.first_report + dice.uniform(2.0, 60.0), 1)
    yield Trouble(at, number, "the worker stops and comes back", dice.choice((9.0, 12.0, 30.0)))
    for index in range(min(3, operation.course.hosts)):
        second = dice.choice(SPOILING)
        yield Behaviour(number, index, 1, ready=45.0, takes=1.0, second=second)


SPOILING: tuple[Outcome, ...] = ("blocked", "not_begun")

OUTCOMES: tuple[Outcome, ...] = (
    *("changed", "changed", "changed", "failed", "failed", "unknown"),
    *("not_begun", "blocked", "blocked", "credentials", "gone"),
)


def _behaviours(dice: Random, number: int, course: Course) -> Iterable[Part]:
    share = dice.choice((0.0, 0.1, 0.3, 0.7))
    for index in range(course.hosts):
        for nth in range(1, 4):
            if dice.random() >= share:
                break
            yield Behaviour(
                number, index, nth,
                outcome=dice.choice(OUTCOMES),
                ready=dice.choice((0.0, 0.1, 0.9, 3.0, 45.0)),
                go=dice.choice((0.0, 0.1, 0.9, 1.2)),
                takes=dice.choice((1.0, 5.0, 5.0, 40.0, 40.0, 900.0)),
                stale=dice.choice((0.0, 0.3)),
                echo=dice.choice((None, None, 0.5, 30.0)),
                second=dice.choice((None, None, "blocked", "not_begun")),
            )  # fmt: skip


KINDS: tuple[Kind, ...] = ("no_data", "stale", "unreachable", "not_finite", "partial")


def _gates(dice: Random, number: int, course: Course, horizon: float) -> Iterable[Part]:
    for rule in course.gates:
        if dice.random() < 0.1:
            shares = [dice.choice((0.0, 0.1, 0.4)) for _ in range(3)]
            yield Noise(number, rule.name, dice.randrange(1 << 30), *shares)
            continue
        for _ in range(dice.choice((0, 0, 0, 1, 2, 3))):
            verdict: Verdict = dice.choice(("pass", "fail", "fail", "inconclusive"))
            kind = dice.choice(KINDS) if verdict == "inconclusive" else None
            yield Signal(round(dice.random() * horizon, 1), number, rule.name, verdict, kind)
        if dice.random() < 0.15:  # evidence is missing for less than its grace
            at = round(dice.random() * horizon, 1)
            yield Signal(at, number, rule.name, "inconclusive", "no_data")
            yield Signal(at + 4.0, number, rule.name, "pass")


VERBS: tuple[Verb, ...] = (
    *("pause", "resume", "resume", "approve", "retry", "retry", "skip"),
    *("rollback", "rollback", "rollback", "abort"),
)


def _people(dice: Random, number: int, course: Course, horizon: float) -> Iterable[Part]:
    if dice.random() < 0.5:
        yield from _helpful(number)
    if dice.random() < 0.1:  # the last wave, then all
        at = round(dice.random() * horizon, 1)
        yield Said(number, Commanded(at, "rollback", "bob", scope="wave"))
        yield Said(number, Commanded(at + dice.choice((40.0, 90.0, 150.0)), "rollback", "bob"))
    for _ in range(dice.choice((0, 0, 1, 2, 4))):
        at, verb = round(dice.random() * horizon, 1), dice.choice(VERBS)
        by, over = dice.choice(PEOPLE), dice.choice(("", "", *PEOPLE))
        scope: Scope = dice.choice(("wave", "all"))
        named = verb in ("retry", "skip") and dice.random() < 0.5
        yield Said(
            number,
            _maybe_vouched(Commanded(
                at, verb, by, "because", "start",
                hosts=(f"host-{dice.randrange(course.hosts):03d}",) if named else (),
                over=over if verb == "resume" else "",
                scope=scope if verb == "rollback" else "all",
                accept_churn=verb == "rollback" and dice.random() < 0.4,
            )),
        )  # fmt: skip


def _signed(dice: Random, planned: Planned) -> Planned:
    """Somebody vouches for who asked for half of the operations."""
    signer = Signer("ann", (), "SHA256:ann") if dice.random() < 0.5 else NOBODY
    return replace(planned, asked_by=signer)


def vouched(said: Commanded) -> Commanded:
    """The same with a signature."""
    return replace(said, verified=True, key=key_of(said.by))


def _maybe_vouched(said: Commanded) -> Commanded:
    """Three of four who consent to something have signed; it hangs on the time, not on dice."""
    consents = said.verb in ("approve", "rollback")
    return vouched(said) if consents and int(said.at * 10) % 4 else said


def exceeding(dice: Random, number: int, course: Course, horizon: float) -> Iterable[Part]:
    """People who override limits for a while; some have no right to, and some are mistaken."""
    if dice.random() >= OVERRIDES:
        return
    if dice.random() < 0.5:
        yield from _well_made(dice, number, course)
    for _ in range(dice.choice((1, 1, 2))):
        at = round(dice.random() * horizon, 1)
        limit = dice.choice(("unavailable", "unavailablePerDomain", "domainsAtOnce", "failures",
                             "failures.consecutive", "pace.between", "wave"))  # fmt: skip
        value, lasts = dice.choice((0.0, 1.0, 2.0, 3.0, 6.0)), dice.choice((5, 20, 60, 200, -5))
        said = Commanded(
            at, "override", dice.choice(PEOPLE), dice.choice(("because",) * 5 + ("",)),
            limit=limit, value=value, until=float(int(at) + lasts),
        )  # fmt: skip
        yield Said(number, vouched(said) if dice.random() < 0.8 else said)
        if dice.random() < 0.6:
            point = f"override:{limit}={value:.10g}@{clock(said.until)}"
            agrees = Commanded(at + dice.choice((1.0, 30.0)), "approve", "cid", point=point)
            yield Said(number, vouched(agrees) if dice.random() < 0.8 else agrees)


def _well_made(dice: Random, number: int, course: Course) -> Iterable[Part]:
    """Somebody with a key has many hosts away for a while; they are slow to be ready."""
    at, lasts = dice.choice((2.0, 20.0, 45.0)), dice.choice((10, 25, 60))
    for limit in ("unavailable", "unavailablePerDomain", "domainsAtOnce"):
        said = Commanded(at, "override", "bob", "because", limit=limit, value=6.0,
                         until=at + lasts)  # fmt: skip
        yield Said(number, vouched(said))
    for index in range(course.hosts):
        ready = dice.choice((0.1, 5.0, 8.0, 9.5))
        yield Behaviour(number, index, 1, ready=ready, takes=dice.choice((5.0, 40.0)))


def _helpful(number: int) -> Iterable[Part]:
    """People who come by now and then: they approve, retry what failed, go on with what waits."""
    for at in (3.0, 130.0, 290.0):
        for after, by in ((0.0, "bob"), (1.0, "cid")):
            yield Said(number, vouched(Commanded(at + after, "approve", by, point="start")))
        if at > 100.0:
            yield Said(number, Commanded(at + 50.0, "retry", "bob"))
            yield Said(number, Commanded(at + 51.0, "resume", "bob"))


TROUBLES: tuple[TroubleKind, ...] = (
    "the worker dies",
    "the worker stops and comes back",
    "the server is away",
    "the watcher falls silent",
    "it continues as new",
    "it is drained",
    "a host cannot be reached",
    "the journal cannot be written",
    "a host is put back by hand",
)


def _troubles(dice: Random, number: int, operation: Planned, horizon: float) -> Iterable[Part]:
    for _ in range(dice.choice((0, 0, 0, 1, 2, 4))):
        kind = dice.choice(TROUBLES)
        length = dice.choice((2.0, 8.0, 30.0, 90.0)) if kind in LASTING else 0.0
        if kind == "the server is away" and dice.random() < 0.1:
            length = 3600.0  # or its clock jumps: it is the same to the engine
        host = operation.first_host + dice.randrange(operation.course.hosts)
        yield Trouble(round(dice.random() * horizon, 1), number, kind, length, host)


def _frozen(dice: Random, number: int, operation: Planned, horizon: float) -> Iterable[Part]:
    """Somebody freezes everything for a while."""
    for kind, at, length in frozen(dice, operation.course, horizon):
        yield Trouble(at, number, kind, length)  # type: ignore[arg-type]


def _catalog(dice: Random, number: int, operation: Planned, horizon: float) -> Iterable[Part]:
    """Nodes leave the catalog, hosts fall, and it is silent."""
    for kind, at, length in happenings(dice, operation.course, horizon):
        host = operation.first_host + dice.randrange(operation.course.hosts)
        yield Trouble(at, number, kind, length, host)  # type: ignore[arg-type]


def _flees(dice: Random, number: int, operation: Planned) -> Iterable[Part]:
    """Somebody sees that the version churns, and goes back."""
    if operation.churns and operation.course.rollback_when != "never":
        at = round(operation.starts + 15.0 + 60.0 * dice.random(), 1)
        yield Said(number, Commanded(at, "rollback", "eve"))


LASTING = (
    "the worker stops and comes back",
    "the server is away",
    "a host cannot be reached",
    "the journal cannot be written",
)


TRAITS: dict[str, Callable[[Random, Planned], Planned]] = {
    "bad": _bad_version,
    "windows": _with_windows,
    "owners": _owned,
    "catalog": _followed,
    "frozen": _frozen_at_times,
    "policies": _policed,
    "churns": _churning,
    "asked": _signed,
}
"""What some operations have that others have not, each by dice of its own."""
