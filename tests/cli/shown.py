"""A made-up operation for the tests of what is shown: thirty cache hosts in three zones."""

from dataclasses import replace

from hypothesis import strategies as st

from guardrail.cli.view import Snapshot, Trend
from guardrail.model.change import ChangeRef
from guardrail.model.common import Origin
from guardrail.model.fleet import Fleet, HostList
from guardrail.model.gate import Judgement, Reading
from guardrail.model.messages import DomainCount, GateState, HostState, Status
from guardrail.model.operation import Hold, Note
from guardrail.model.plan import (
    ApprovalPoint,
    Caps,
    Excluded,
    GateRule,
    Limit,
    Plan,
    PlannedHost,
    Wave,
)

T = 1_764_458_000.0  # 2025-11-29 23:13:20 UTC
ORIGIN = Origin("policy cache", "policies/cache.yaml", 12)
NAME = "consul-1.8.8"


def plan(many: int = 30, **fields: object) -> Plan:
    waves = (
        Wave("1", 0, 1),
        Wave("25%", 1, many // 4),
        Wave("50%", many // 4, many // 2),
        Wave("100%", many // 2, many),
    )
    made = Plan(
        rollout=NAME,
        fleet="cache",
        change=ChangeRef("consul-agent", "1.8.7", "1.8.8"),
        requester="ana",
        created_at=T,
        hosts=tuple(host(number) for number in range(many)),
        waves=waves,
        domains=("a", "b", "c"),
        excluded=(Excluded("cache-900", "a", "down: serfHealth critical", True),),
        caps=Caps(2, 1, 1, 1),
        limits=(Limit("unavailable", "10%", 3.0, "hosts", ORIGIN),),
        gates=(GateRule("margin", "safety", 10, "person", 60, 15, ORIGIN, "q", "below 0.7"),),
        approvals=(ApprovalPoint("start", 0, 1, True, ORIGIN),),
        bake_for=20.0,
        policies=(("cache", "sha256:a"),),
        seconds_expected=300.0,
        where=Fleet("cache", HostList(())),
        host_timeout=60.0,
        warnings=("the baseline is young",),
    )
    return replace(made, **fields)


def host(number: int) -> PlannedHost:
    return PlannedHost(
        f"cache-{number + 1:03d}",
        f"127.0.20.{10 + number % 200}",
        "abc"[number % 3],
        roles=("memcached",),
        version_seen="1.8.7",
        restart="stays registered: leave_on_terminate is false",
    )


def judged(gate: str, verdict: str, value: float | None, *reasons: str, kind=None) -> Judgement:
    return Judgement(gate, verdict, kind, reasons, (Reading(value, kind, T),))


def running() -> Snapshot:
    """In wave 3, 12 of 30 changed, one in flight, every gate passing."""
    gates = (
        GateState("margin", "below 0.7", T - 200, judged("margin", "pass", 0.31, "fine")),
        GateState("hit-ratio", "above 0.6", T - 200, judged("hit-ratio", "pass", 0.98)),
    )
    status = Status(
        operation=NAME,
        plan="sha256:ab",
        phase="running",
        direction="forward",
        step="changing",
        sentence="changing hosts in wave 3 of 4 (to 50%); 12 of 30 hosts changed, 1 in flight",
        requester="ana",
        wave=2,
        waves=plan().waves,
        hosts=30,
        changed=12,
        failed=0,
        unknown=0,
        set_aside=0,
        in_flight=(HostState(12, "", "in flight", "", T - 4),),
        exceptional=(),
        domains=(
            DomainCount(0, 10, 4, 1, 0, 0, 0),
            DomainCount(1, 10, 4, 0, 0, 0, 0),
            DomainCount(2, 10, 4, 0, 0, 0, 0),
        ),
        gates=gates,
        holds=(),
        story=(Note(T - 90, "started"), Note(T - 40, "wave 3 of 4 begins (to 50%)")),
        baked=0.0,
        bake_needed=20.0,
        as_of=T,
        started_at=T - 252,
        finished_at=None,
        finish_reasons=(),
        advice=("If nobody acts it goes on by itself.", f"guardrail rollout watch {NAME}"),
        changed_hosts="fff",
    )
    return Snapshot(status, (Trend("margin", "pass", None, (0.3, 0.31, 0.29, 0.31)),))


def held() -> Snapshot:
    """The same, held by a gate and by a host that is silent; one host was set aside."""
    why = "0.83 is not below 0.7, in 2 samples in a row"
    fail = judged("margin", "fail", 0.83, why)
    gone = judged("hit-ratio", "inconclusive", None, "the sample is 14 s old", kind="stale")
    silent = "no answer from 127.0.20.20 port 2222 in 30 s"
    status = replace(
        running().status,
        sentence="held on gate:margin, host:cache-011; 10 of 30 hosts changed, 0 in flight",
        changed=10,
        unknown=1,
        set_aside=1,
        in_flight=(),
        exceptional=(
            HostState(10, "cache-011", "unknown", silent, T - 20),
            HostState(5, "cache-006", "set aside", "exit 4: no consul 9.9.9", T - 90),
        ),
        domains=(
            DomainCount(0, 10, 4, 0, 0, 0, 0),
            DomainCount(1, 10, 3, 0, 0, 1, 0),
            DomainCount(2, 10, 3, 0, 0, 0, 1),
        ),
        gates=(
            GateState("margin", "below 0.7", T - 42, fail),
            GateState("hit-ratio", "above 0.6", T - 3, gone),
        ),
        holds=(
            Hold("gate:margin", T - 42, (why,), "a person (resume), once the gate passes"),
            Hold("host:cache-011", T - 20, (f"cache-011 is unknown: {silent}",), "a person: retry"),
        ),
        story=(*running().status.story, Note(T - 42, f"hold gate:margin: {why}")),
        advice=("If nobody acts nothing more is changed.", f"guardrail rollout retry {NAME}"),
        changed_hosts=f"{0xFFF & ~(1 << 10) & ~(1 << 5):x}",
    )
    return Snapshot(status, (Trend("margin", "fail", None, (0.12, 0.2, 0.4, 0.61, 0.75, 0.83)),))


def finished(phase: str = "completed") -> Snapshot:
    status = replace(
        running().status,
        phase=phase,
        step="baking",
        sentence=f"{phase}: 30 of 30 hosts changed",
        changed=30,
        in_flight=(),
        finished_at=T,
        finish_reasons=("30 of 30 hosts changed",),
        advice=(),
        domains=tuple(DomainCount(n, 10, 10, 0, 0, 0, 0) for n in range(3)),
        changed_hosts=f"{(1 << 30) - 1:x}",
        story=(*held().status.story, Note(T, f"{phase}: 30 of 30 hosts changed")),
    )
    return Snapshot(status)


# ---------------------------------------------------------------- anything at all

words = st.text(max_size=40)
times = st.one_of(st.floats(), st.floats(0, 4e9))
counts = st.integers(0, 2000)
indexes = st.integers(-1, 50)
host_states = st.builds(HostState, indexes, words, words, words, times)
domains = st.builds(DomainCount, indexes, counts, counts, counts, counts, counts, counts)
readings = st.builds(Reading, st.none() | st.floats(), st.sampled_from([None, "stale"]), times)
judgements = st.builds(
    Judgement,
    gate=words,
    verdict=st.sampled_from(["pass", "fail", "inconclusive"]),
    kind=st.sampled_from([None, "no_data", "rejected_query"]),
    reasons=st.lists(words, max_size=3).map(tuple),
    readings=st.lists(readings, max_size=3).map(tuple),
)
gates = st.builds(GateState, words, words, times, st.none() | judgements)
holds = st.builds(Hold, words, times, st.lists(words, max_size=6).map(tuple), words, by=words)
waves = st.builds(Wave, words, st.just(0), st.just(1))


def some(strategy: st.SearchStrategy, most: int = 4) -> st.SearchStrategy:
    return st.lists(strategy, max_size=most).map(tuple)


statuses = st.builds(
    Status,
    operation=words,
    plan=words,
    phase=st.sampled_from(["planned", "running", "completed", "rolled_back", "aborted"]),
    direction=st.sampled_from(["forward", "back"]),
    step=st.sampled_from(["changing", "baking"]),
    sentence=words,
    requester=words,
    wave=st.integers(0, 6),
    waves=st.lists(waves, min_size=1, max_size=6).map(tuple),
    hosts=counts,
    changed=counts,
    failed=counts,
    unknown=counts,
    set_aside=counts,
    in_flight=some(host_states, 10),
    exceptional=some(host_states, 10),
    domains=some(domains, 20),
    gates=some(gates),
    holds=some(holds),
    story=some(st.builds(Note, times, words), 8),
    baked=times,
    bake_needed=times,
    as_of=times,
    started_at=st.none() | times,
    finished_at=st.none() | times,
    finish_reasons=some(words),
    advice=some(words, 3),
    changed_hosts=st.sampled_from(["0", "fff", "", "none"]),
    reverted_hosts=st.sampled_from(["0", "f0", "", "none"]),
    reverted=counts,
    to_take_back=counts,
)
trends = st.builds(
    Trend,
    words,
    st.sampled_from(["", "pass", "fail"]),
    st.none(),
    st.lists(st.none() | st.floats(), max_size=20).map(tuple),
)


@st.composite
def snapshots(draw) -> Snapshot:
    """Any status at all, with trends for its gates among others."""
    status = draw(statuses)
    drawn = draw(some(trends))
    named = tuple(
        replace(one, gate=gate.name) for one, gate in zip(drawn, status.gates, strict=False)
    )
    return Snapshot(status, (*named, *drawn))
