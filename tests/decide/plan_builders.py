"""Policies, hosts and requests for tests of plans, from few words and from hypothesis."""

from dataclasses import replace

from hypothesis import strategies as st

from guardrail.decide.found import Found, Seen, Watching
from guardrail.decide.plan import make_plan
from guardrail.model.calendar import Window, Windows
from guardrail.model.change import Change, ChangeRef, RunProbe
from guardrail.model.common import Amount, Origin
from guardrail.model.fleet import Fleet, Host, HostList
from guardrail.model.gate import Age, Bound, Gate
from guardrail.model.messages import PlanRequest
from guardrail.model.policy import (
    Approvals,
    Churn,
    Failures,
    Match,
    Policy,
    PolicyEvidence,
    PolicyLimits,
    Recover,
    WarmUp,
)
from guardrail.model.rollout import Order, Rollout

OLD, NEW = "1.8.7", "1.8.8"


def percent(value):
    return Amount(value, percent=True)


def amount(word):
    """25 or "25%"."""
    text = str(word)
    return percent(float(text[:-1])) if text.endswith("%") else Amount(float(text))


def hosts(count, *, domains="a", roles=("memcached",), down=0, prefix="cache"):
    """`count` hosts, spread over the domains in turn; the first `down` of them are down."""
    return tuple(
        Host(
            "list",
            f"{prefix}-{i + 1:03d}",
            f"127.0.20.{i % 250 + 1}",
            domains[i % len(domains)],
            roles=roles,
            down=i < down,
            down_reason="serfHealth critical" if i < down else "",
        )
        for i in range(count)
    )


def policy(name="cache", *, match=None, limits=None, **fields):
    where = {
        path: Origin(f"policy {name}", f"{name}.yaml", 10 + i)
        for i, path in enumerate(
            ["limits.unavailable", "limits.failures", "gates.require", "approvals.at"]
        )
    }
    return Policy(
        name,
        match or Match(),
        limits=PolicyLimits(**(limits or {})),
        origins=tuple(where.items()),
        file=f"{name}.yaml",
        digest=f"sha256:{name}",
        **fields,
    )


def gate(name="margin", **fields):
    words = {"every": 2.0, "fail_after": 2, "pass_after": 3} | fields
    return Gate(name, name, "safety", f"q_{name}", Bound(below=0.7), **words)


CHANGE = Change(
    "consul-agent",
    "consul",
    "ssh",
    RunProbe(("consul", "version"), "v(.*)"),
    RunProbe(("consul", "version"), "v(.*)"),
    (),
    (("restart", "consul"),),
    None,
    None,
    300.0,
    digest="sha256:change",
    obtainable=("fetch", "{version}"),
)


def request(*stages, gates=("margin",), order=None, digest="", old=OLD, new=NEW):
    stages = tuple(amount(word) for word in stages or (1, "25%", "50%", "100%"))
    rollout = Rollout(
        "consul-1.8.8",
        "cache",
        ChangeRef("consul-agent", old, new, digest),
        stages,
        gates=tuple(gates),
        order=order or Order(),
    )
    return PlanRequest("op", rollout, Fleet("cache", HostList(())), "ann")


def found(fleet, *, policies=(), gates=("margin",), change=CHANGE, seen=None, **fields):
    there = {host.name: Seen(OLD, OLD) for host in fleet if not host.down}
    return Found(
        hosts=tuple(fleet),
        seen=there | (seen or {}),
        change=change,
        policies=tuple(policies),
        gates=tuple(gate(name) for name in gates),
        watching={name: Watching(1.0, 2.0) for name in gates},
        **fields,
    )


def plan(fleet, *stages, order=None, asks=("margin",), guards=frozenset(), **fields):
    """A plan of these hosts through these stages."""
    asked = request(*stages, gates=asks, order=order)
    return make_plan(asked, found(fleet, **fields), now=1000.0, guards=guards)


# ---------------------------------------------------------------- hypothesis

amounts = st.one_of(
    st.integers(0, 20).map(lambda n: Amount(float(n))),
    st.integers(1, 100).map(lambda n: percent(float(n))),
)
seconds = st.integers(0, 1000).map(float)
some = st.none
ROLES = ("memcached", "web")
DOMAINS = ("a", "b", "c")


NIGHT, NOON = Window((0, 1, 2, 3, 4), 22 * 60, 5 * 60), Window(begins=12 * 60, ends=13 * 60)
SOME_WINDOWS = (
    Windows("Europe/Berlin", (NOON,)),
    Windows("Europe/Berlin", (NOON,), (), "same"),
    Windows("America/Los_Angeles", (replace(NOON, peak=True),), (NIGHT,), covers_peak=True),
)


@st.composite
def policies(draw, name=None):
    name = name or draw(st.sampled_from(["p", "q", "r", "s"]))
    approvals = st.builds(
        Approvals,
        at=st.sampled_from([("start",), ("25%", "start"), ("50%",)]),
        count=st.integers(1, 3),
        not_requester=st.booleans(),
    )
    failures = st.builds(
        Failures,
        hosts=some() | st.integers(0, 9),
        share=some() | st.integers(0, 100).map(lambda n: percent(float(n))),
        consecutive=some() | st.integers(0, 3),
    )
    ages = st.one_of(
        st.builds(Age, seconds=st.integers(1, 60).map(float)),
        st.builds(Age, scrapes=st.integers(1, 5).map(float)),
    )
    line = draw(st.integers(1, 5))
    return Policy(
        name,
        Match(roles=draw(st.sampled_from([(), ("memcached",), ("web",)]))),
        cache_critical=draw(st.booleans()),
        limits=PolicyLimits(
            unavailable=draw(some() | amounts),
            unavailable_per_domain=draw(some() | amounts),
            domains_at_once=draw(some() | st.integers(1, 3)),
            failures=draw(some() | failures),
            wave=draw(some() | amounts),
            pace_between=draw(some() | seconds),
            cold_capacity=draw(some() | amounts),
            spares=draw(some() | st.integers(1, 4)),
            churn=draw(some() | st.builds(Churn, st.integers(1, 9), st.integers(1, 90).map(float))),
        ),
        required_gates=tuple(draw(st.sets(st.sampled_from(["a", "b", "c"]), max_size=2))),
        evidence=PolicyEvidence(draw(some() | ages), draw(some() | seconds)),
        bake_for=draw(some() | seconds),
        approvals=draw(some() | approvals),
        recover=Recover(
            draw(st.sampled_from([None, "person", "evidence"])), draw(some() | seconds)
        ),
        rollback_when=draw(st.sampled_from([None, "never", "ask", "auto"])),
        warm_up=draw(
            some() | st.builds(WarmUp, st.sampled_from(["v", "w"]), st.integers(1, 90).map(float))
        ),
        windows=draw(some() | some() | st.sampled_from(SOME_WINDOWS)),
        owners=draw(st.sampled_from([(), ("ann",), ("ann", "bob")])),
        origins=(("limits", Origin(f"policy {name}", f"{name}.yaml", line)),),
        file=f"{name}.yaml",
        digest=f"sha256:{name}{line}",
    )


@st.composite
def fleets(draw, least=1):
    count = draw(st.integers(least, 25))
    return tuple(
        Host(
            "list",
            f"h-{i:02d}",
            "127.0.0.1",
            draw(st.sampled_from(DOMAINS)),
            roles=draw(st.sampled_from([(), ("memcached",), ("web",), ROLES])),
            labels=draw(st.sampled_from([(), (("os", "debian12"),), (("os", "debian13"),)])),
            down=draw(st.sampled_from([False] * 5 + [True])),
        )
        for i in range(count)
    )
