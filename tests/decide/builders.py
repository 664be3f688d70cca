"""Courses and scripts for tests, from few words and from hypothesis."""

from collections import Counter
from random import Random

from hypothesis import strategies as st

from guardrail.model.common import Origin
from guardrail.model.identity import NOBODY, Signer
from guardrail.model.operation import BeginHost, Commanded, HostFound
from guardrail.model.plan import ApprovalPoint, Caps, Course, GateRule, Wave
from guardrail.twins import Script, Turn, Work

ORIGIN = Origin("policy test", "test.yaml", 1)


def gate(name="margin", *, by="person", grace=10.0, good_for=20.0, first=15.0, kind="safety"):
    return GateRule(name, kind, grace, by, good_for, first, ORIGIN, "q", "below 0.7")


def waves(*ends):
    starts = (0, *ends[:-1])
    return tuple(Wave(f"{e}", b, e) for b, e in zip(starts, ends, strict=True))


def course(*ends, caps=None, gates=None, approvals=(), bake=30.0, domains=None, down=None,
           when="ask", reread=0):  # fmt: skip
    hosts = ends[-1]
    domains = tuple(domains) if domains is not None else tuple(i % 3 for i in range(hosts))
    down = tuple(down) if down is not None else (0,) * (max(domains) + 1)
    gates = (gate(),) if gates is None else tuple(gates)
    caps = caps or Caps(1, 1, 3, 0)
    return Course("sha256:x", "ann", waves(*ends), domains, down, caps, gates, approvals, bake,
                  rollback_when=when, reread=reread)  # fmt: skip


def approval(point="start", wave=0, count=1, not_requester=True):
    return ApprovalPoint(point, wave, count, not_requester, ORIGIN)


def say(at, verb, by="bob", **fields):
    return Commanded(float(at), verb, by, **fields)


def signed(at, verb, by="bob", **fields):
    """The same by somebody whose key was checked."""
    return say(at, verb, by, verified=True, key=f"SHA256:{by}", **fields)


# ---------------------------------------------------------------- hypothesis

SAFE, HEALTH = (("a", "safety"),), (("b", "health"),)


@st.composite
def courses(draw, *, approvals=True):
    ends = sorted(draw(st.sets(st.integers(1, 12), min_size=1, max_size=4)))
    hosts = ends[-1]
    domains = draw(st.lists(st.integers(0, 2), min_size=hosts, max_size=hosts))
    caps = Caps(
        unavailable=draw(st.sampled_from([1, 2, 4])),
        unavailable_per_domain=draw(st.sampled_from([1, 2, 4])),
        domains_at_once=draw(st.integers(1, 3)),
        failures=draw(st.sampled_from([0, 1, 5])),
        failures_consecutive=draw(st.sampled_from([None, 1])),
        pace=draw(st.sampled_from([0.0, 0.0, 7.0])),
    )
    rules = [
        gate(name, by=draw(st.sampled_from(["person", "evidence"])), kind=kind)
        for name, kind in draw(st.sampled_from([SAFE, (*SAFE, *HEALTH), (*SAFE, ("b", "safety"))]))
    ]
    most_down = min(caps.unavailable, caps.unavailable_per_domain) - 1
    down = (draw(st.integers(0, most_down)), 0, 0)
    points = (
        draw(st.sampled_from([(), (), (approval(),), (approval(count=2),)])) if approvals else ()
    )
    bake = draw(st.sampled_from([0.0, 10.0, 30.0]))
    when = draw(st.sampled_from(["ask", "ask", "auto", "never"]))
    return course(*ends, caps=caps, gates=rules, approvals=points, bake=bake,
                  domains=domains, down=down, when=when,
                  reread=draw(st.sampled_from([0, 10, 100])))  # fmt: skip


OUTCOMES = ("changed",) * 6 + ("failed", "unknown", "not_begun", "blocked", "credentials", "gone")
FAILING = ("changed", "failed", "failed")


def works(seed, *, good=False):
    """A work for each (host, how often it was asked): from the seed, whatever the order."""
    asked = Counter()

    one = Random(f"{seed}")
    calm, kinds = one.choice([0.0, 0.3, 0.8]), one.choice([OUTCOMES, FAILING])

    def work(begin: BeginHost, _now: float) -> Work:
        asked[begin.index] += 1
        random = Random(f"{seed}/{begin.index}/{asked[begin.index]}")
        well = good or asked[begin.index] > 3 or random.random() < calm
        return Work(
            ready=random.choice([0.0, 0.1, 0.9, 3.0] if good else [0.0, 0.1, 0.9, 3.0, 60.0]),
            go=random.choice([0.0, 0.5, 1.0, 1.2]) if not well else 0.1,
            takes=random.choice([1.0, 5.0, 40.0]),
            outcome="changed" if well else random.choice(kinds),
            echoes=random.choice([(), (), (0.5,), (30.0, 200.0)]),
            stale=random.choice([0.0, 0.3]),
        )

    return work


VERBS = ("pause", "resume", "resume", "approve", "retry", "skip", "rollback", "rollback", "abort")
PEOPLE = ("ann", "bob", "cid")


@st.composite
def people(draw, hosts):
    said = draw(
        st.lists(
            st.tuples(
                st.integers(0, 600),
                st.sampled_from(VERBS),
                st.sampled_from(PEOPLE),
                st.sampled_from(("", *PEOPLE)),
                st.lists(st.integers(0, hosts - 1), max_size=2),
                st.booleans(),
                st.booleans(),
            ),
            max_size=8,
        )
    )
    return tuple(
        say(
            at,
            verb,
            by,
            over=over if verb == "resume" else "",
            reason="because",
            point="start",
            hosts=tuple(f"host-{i:03d}" for i in which) if verb in ("retry", "skip") else (),
            scope="wave" if verb == "rollback" and len(which) == 1 else "all",
            accept_churn=verb == "rollback" and churn,
            verified=vouched,
        )
        for at, verb, by, over, which, churn, vouched in said
    )


def other_hands(seed):
    """Changed hosts that are otherwise when they are read again, now and then until t=600."""
    share = Random(f"{seed}/hands").choice([0.0, 0.0, 0.2])

    def reread(index, now):
        random = Random(f"{seed}/{index}/{now}")
        if now > 600 or random.random() >= share:
            return None
        answered = random.random() < 0.5
        away = answered and random.random() < 0.3
        return HostFound(index, f"host-{index:03d}", "at old, not at new", answered, away)

    return reread


def helpful():
    """People who come by now and then: some approve, somebody retries, everybody resumes."""
    said = []
    for at in range(0, 600, 97):
        said += [signed(at + after, "approve", by, point="start")
                 for after, by in ((0, "ann"), (1, "bob"), (45, "cid"), (60, "dee"))]  # fmt: skip
        said += [say(at + 50, "retry"), *(say(at + 51, "resume", by) for by in PEOPLE)]
    return tuple(said)


@st.composite
def turns(draw, names):
    verdicts = st.sampled_from(("pass", "pass", "fail", "inconclusive"))
    drawn = draw(
        st.lists(st.tuples(st.integers(0, 600), st.sampled_from(names), verdicts), max_size=8)
    )
    return tuple(Turn(float(at), name, verdict) for at, name, verdict in drawn)


@st.composite
def stories(draw):
    """A course and anything that may happen to it, good or bad."""
    plan = draw(courses())
    names = [rule.name for rule in plan.gates]
    calm = draw(st.booleans())  # half of them get far: only hosts and people make trouble
    lost = draw(st.lists(st.integers(0, 600), max_size=0 if calm else 2))
    script = Script(
        work=works(draw(st.integers(0, 2**32))),
        gates=() if calm else draw(turns(names)),
        people=draw(people(plan.hosts)) + draw(st.sampled_from([(), helpful()])),
        lost=tuple(float(at) for at in lost),
        reread=other_hands(draw(st.integers(0, 2**32))),
        first_report=draw(st.sampled_from([0.0, 1.0] if calm else [0.0, 1.0, 8.0, 60.0, None])),
        asked_by=draw(st.sampled_from([NOBODY, Signer("ann", (), "SHA256:ann")])),
    )
    return plan, script
