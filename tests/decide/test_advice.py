"""What is right by every word and protects nothing is named; what protects is left alone."""

from dataclasses import replace

import pytest
from decide.plan_builders import CHANGE, amount, gate, hosts, percent, policy
from decide.reminders import reminder
from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide.advice import advice
from guardrail.decide.advice_gates import always, never
from guardrail.model.advice import Given, Shape
from guardrail.model.calendar import Window, Windows
from guardrail.model.checklist import Checklist
from guardrail.model.common import Secret
from guardrail.model.fleet import ConsulInventory, Fleet, HostList
from guardrail.model.gate import Age, Bound, GateEvidence, Source, Targets
from guardrail.model.notice import Channel
from guardrail.model.policy import (
    Approvals,
    Failures,
    Match,
    PolicyEvidence,
    Recover,
    WarmUp,
)

FELT = replace(gate("boots"), felt_by_users=True)
MARGIN = gate("margin")


def rules(*policies, gates=(FELT, MARGIN), **fields):
    """(rule, severity, path) of all that is said."""
    said = advice(Given(policies=policies, gates=gates, **fields))
    assert all(one.what and one.do and one.kind and one.name for one in said)
    return [(one.rule, one.severity, ".".join(map(str, one.path))) for one in said]


GOOD = policy(
    "good",
    match=Match(roles=("memcached",)),
    cache_critical=True,
    limits={"unavailable": amount(1), "failures": Failures(hosts=0)},
    required_gates=("boots", "margin"),
    bake_for=600.0,
    evidence=PolicyEvidence(Age(scrapes=3), 10.0),
    recover=Recover("person", 300.0),
    rollback_when="ask",
    approvals=Approvals(("start",), 1, not_requester=True),
)
LISTED = Fleet("cache", HostList(hosts(3)))


def test_a_policy_and_gates_that_protect_are_left_alone():
    assert rules(GOOD, fleets=(LISTED,), changes=(CHANGE,)) == []


@pytest.mark.parametrize(
    ("match", "path"),
    [
        (Match(fleets=("cahce",)), "spec.match.fleets"),
        (Match(agents=("consull",)), "spec.match.agents"),
        (Match(roles=("memcashed",)), "spec.match.roles"),
        (Match(failure_domains=("z",)), "spec.match.failureDomains"),
        (Match(labels=(("env", "prod"),)), "spec.match.labels"),
        (Match(roles=("memcached",), failure_domains=("b",)), "spec.match"),
    ],
)
def test_a_policy_that_covers_no_known_host_is_unreachable(match, path):
    fleet = Fleet("cache", HostList((*hosts(2), *hosts(2, roles=("web",), domains="b"))))
    said = rules(replace(GOOD, match=match), fleets=(fleet,), changes=(CHANGE,))
    assert said == [("unreachable", "error", path)]


def test_where_an_inventory_would_have_to_be_asked_only_names_are_compared():
    asked = Fleet("far", ConsulInventory("http://127.0.0.1", "memcached"))
    assert rules(replace(GOOD, match=Match(roles=("odd",))), fleets=(LISTED, asked)) == []
    said = rules(replace(GOOD, match=Match(fleets=("fra",))), fleets=(LISTED, asked))
    assert said == [("unreachable", "error", "spec.match.fleets")]


def test_without_fleets_nothing_is_said_about_reach():
    assert rules(replace(GOOD, match=Match(fleets=("any",), agents=("any",)))) == []


def test_windows_that_never_open_or_are_shorter_than_the_bake():
    day, night = Window(begins=360, ends=1080), Window(begins=1080, ends=360)
    shut = replace(GOOD, windows=Windows("UTC", deny=(day, night)))
    assert rules(shut, now=1.77e9) == [("never-open", "error", "spec.windows")]
    short = replace(GOOD, windows=Windows("UTC", allow=(Window(begins=360, ends=365),)))
    assert rules(short, now=1.77e9) == [("never-open", "error", "spec.windows")]
    fine = replace(GOOD, windows=Windows("UTC", deny=(day,)))
    assert rules(fine, now=1.77e9) == []


def test_gates_that_are_not_there_and_gates_that_users_do_not_feel():
    assert rules(replace(GOOD, required_gates=("boots", "margins"))) == [
        ("no-gate", "error", "spec.gates.require.1")
    ]
    assert rules(replace(GOOD, required_gates=("margin",))) == [
        ("not-felt", "error", "spec.gates.require")
    ]
    plain = replace(GOOD, required_gates=("margin",), cache_critical=False)
    assert rules(plain) == [("not-felt", "warning", "spec.gates.require")]
    assert rules(replace(GOOD, required_gates=())) == [("not-felt", "error", "spec.cacheCritical")]
    assert rules(replace(GOOD, warm_up=WarmUp("warm", 60.0))) == [
        ("no-gate", "error", "spec.warmUp.gate")
    ]


def test_a_gate_that_needs_longer_than_the_bake_to_fail():
    slow = replace(MARGIN, every=10.0, fail_after=61)
    assert rules(GOOD, gates=(FELT, slow)) == [("never-fails", "error", "spec.gates.require.1")]
    assert rules(GOOD, gates=(FELT, replace(slow, fail_after=60))) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"limits": replace(GOOD.limits, failures=Failures(share=percent(51)))},
         ("error-rate", "error", "spec.limits.failures.share")),
        ({"limits": replace(GOOD.limits, unavailable=percent(50))},
         ("fails-open", "error", "spec.limits.unavailable")),
        ({"limits": replace(GOOD.limits, cold_capacity=percent(60))},
         ("fails-open", "error", "spec.limits.coldCapacity")),
        ({"evidence": PolicyEvidence(None, 601.0)},
         ("fails-open", "error", "spec.evidence.grace")),
        ({"evidence": PolicyEvidence(Age(seconds=601.0))},
         ("fails-open", "error", "spec.evidence.maxAge")),
        ({"evidence": PolicyEvidence(Age(scrapes=1))},
         ("too-young", "error", "spec.evidence.maxAge")),
        ({"rollback_when": "auto"}, ("fails-open", "error", "spec.rollback.when")),
        ({"recover": Recover("evidence", 60.0)}, ("fails-open", "warning", "spec.recover.by")),
        ({"recover": Recover("evidence", 0.0), "cache_critical": False},
         ("fails-open", "error", "spec.recover.for")),
        ({"approvals": Approvals(("start",), 1, not_requester=False)},
         ("fails-open", "warning", "spec.approvals.notRequester")),
        ({"origins": ()}, ("silent", "warning", "spec")),
    ],
)  # fmt: skip
def test_what_a_policy_lets_through(changes, said):
    assert rules(replace(GOOD, **changes)) == [said]


def test_no_bake_is_no_look():
    assert rules(replace(GOOD, bake_for=0.0)) == [("fails-open", "error", "spec.bake.for")]


def test_a_policys_age_is_compared_with_its_gates_scrapes():
    young = replace(GOOD, evidence=PolicyEvidence(Age(seconds=20.0), 10.0))
    assert rules(young, scrapes={"margin": 15.0}) == [
        ("too-young", "error", "spec.evidence.maxAge")
    ]
    assert rules(young, scrapes={"margin": 10.0}) == []


# ---------------------------------------------------------------- gates


def one(found, shape=None, zero=None, **fields):
    shapes = {found.name: shape} if shape else {}
    zeros = {found.name: zero} if zero else {}
    return rules(gates=(found,), shapes=shapes, zero_shapes=zeros, **fields)


@pytest.mark.parametrize(
    ("bound", "rule"),
    [
        (Bound(below=1.1), "never-fails"),
        (Bound(below=1.0), None),
        (Bound(above=-0.1), "never-fails"),
        (Bound(above=0.0), None),
        (Bound(within=(0.0, 1.0)), "never-fails"),
        (Bound(within=(0.1, 1.0)), None),
        (Bound(below=0.0), "never-passes"),
        (Bound(above=1.0), "never-passes"),
        (Bound(within=(2.0, 3.0)), "never-passes"),
    ],
)
def test_a_gate_must_be_able_to_fail_and_to_pass(bound, rule):
    said = one(replace(MARGIN, bound=bound), Shape(0.0, 1.0))
    assert said == ([(rule, "error", "spec.pass")] if rule else [])


numbers = st.integers(-4, 4).map(float)
bounds = (
    st.builds(Bound, below=numbers)
    | st.builds(Bound, above=numbers)
    | st.tuples(numbers, numbers).map(lambda p: Bound(within=(min(p), max(p))))
)


@given(bounds, numbers, numbers, numbers)
def test_always_and_never_are_so_for_every_value_in_range(bound, one_end, other_end, value):
    low, high = min(one_end, other_end), max(one_end, other_end)
    value = min(high, max(low, value))
    assert not always(bound, low, high) or bound.holds(value)
    assert not never(bound, low, high) or not bound.holds(value)


@pytest.mark.parametrize(
    ("title", "bound", "wrong"),
    [
        ("Requests that end in an error", Bound(below=0.51), True),
        ("Requests that end in an error", Bound(below=0.5), False),
        ("Timeouts of all queries", Bound(within=(0.0, 0.8)), True),
        ("Boots that succeed", Bound(above=0.49), True),
        ("Boots that succeed", Bound(above=0.9), False),
        ("Demand over capacity", Bound(below=0.9), False),
        ("Cache hits over gets", Bound(above=0.3), False),
    ],
)
def test_more_than_half_may_not_go_wrong(title, bound, wrong):
    said = one(replace(MARGIN, title=title, bound=bound), Shape(0.0, ratio=True))
    assert said == ([("error-rate", "error", "spec.pass")] if wrong else [])


@pytest.mark.parametrize("over", ["sum", "avg", "sum/sum"])
def test_one_full_shard_must_show(over):
    shards = Shape(0.0, over=over, selects=("shard_queries_total",))
    assert one(MARGIN, shards) == [("worst-shard", "error", "spec.query")]
    assert one(MARGIN, Shape(0.0, over=over, selects=("departures_total",))) == []
    assert one(MARGIN, Shape(0.0, selects=("shard_queries_total",))) == []


def test_missing_data_may_not_count_as_good():
    assert one(MARGIN, Shape(filled=True)) == [("fails-open", "error", "spec.query")]
    always_there = Shape(presence_always=True)
    assert one(MARGIN, zero=always_there) == [("fails-open", "error", "spec.evidence.zeroWhen")]
    few = replace(MARGIN, evidence=GateEvidence(targets=Targets("count(up)", 0.4)))
    assert one(few) == [("fails-open", "error", "spec.evidence.targets.atLeast")]


def test_evidence_must_be_able_to_be_fresh():
    five = replace(MARGIN, evidence=GateEvidence(Age(seconds=5.0)))
    assert one(five, scrapes={"margin": 15.0}) == [("too-young", "error", "spec.evidence.maxAge")]
    assert one(five, scrapes={"margin": 2.0}) == []
    assert one(five) == []
    short = Shape(windows=(20.0,))
    assert one(MARGIN, short, scrapes={"margin": 15.0}) == [("too-young", "error", "spec.query")]


def test_a_source_that_is_not_there():
    there = (Source("prometheus", "http://127.0.0.1:9090"),)
    said = one(replace(MARGIN, source="promteheus"), sources=there)
    assert said == [("no-source", "error", "spec.source")]


# ---------------------------------------------------------------- channels


def test_channels_that_go_nowhere_or_leave_a_hold_unheard():
    url = Secret("env", "URL")
    pager = Channel("pager", url, otherwise="mail")
    assert rules(channels=(pager, Channel("mail", url))) == []
    assert rules(channels=(pager,)) == [("goes-nowhere", "warning", "spec.otherwise")]
    itself = replace(pager, otherwise="pager")
    assert rules(channels=(itself,)) == [("goes-nowhere", "warning", "spec.otherwise")]
    few = Channel("mail", url, ("finish", "hold"))
    assert rules(channels=(few, replace(few, name="m"))) == [("unheard", "warning", "spec.tells")]


def test_people_that_no_channel_reaches_are_named_where_they_stand():
    url = Secret("env", "URL")
    there = (Channel("ann", url), Channel("bob", url), Channel("oncall", url))
    asked = Checklist("c", "0 9 * * *", "UTC", (), tells=("oncall", "oncal"))
    assert rules(channels=there, reminders=(reminder(),)) == []
    assert rules(channels=there[1:], reminders=(reminder(),)) == [
        ("nobody", "error", "spec.people.owner")
    ]
    assert rules(channels=there, checklists=(asked,)) == [("nobody", "error", "spec.tells.1")]
    (said,) = advice(Given(channels=there, checklists=(asked,)))
    assert (said.kind, said.name) == ("Checklist", "c")
    assert said.do.endswith("did you mean `oncall`?")
