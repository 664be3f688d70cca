"""Does a plan come back as it was, and does its digest say exactly what will be done?"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from decide.plan_builders import found, hosts, policies, policy, request
from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide.found import Seen
from guardrail.decide.plan import make_plan
from guardrail.errors import Refused
from guardrail.files import planfile
from guardrail.files.planfile import load_head, load_host, load_plan, store_plan
from guardrail.model.gate import Age
from guardrail.model.policy import Approvals, PolicyEvidence
from guardrail.twins import TwinStore

STORED = Path(__file__).parent / "stored" / "plan-v1"
STORED_PLAN = "ccb25bab93aef13f45dc0b0838198ed9f0367462fd1424f7a2e80e8d14107724"


class Counted(TwinStore):
    """A store that counts what is asked of it."""

    asked = 0

    def get(self, digest):
        self.asked += 1
        return super().get(digest)


def plan_of(count, *known, **fields):
    fleet = hosts(count, domains="abc", **fields)
    return make_plan(request(), found(fleet, policies=known), now=1000.5)


FULL = policy(
    "full",
    cache_critical=True,
    evidence=PolicyEvidence(Age(scrapes=3.0), 5.0),
    approvals=Approvals(("start", "25%"), 2),
)


@pytest.mark.parametrize("count", [0, 1, 249, 250, 251, 600])
def test_a_plan_comes_back_as_it_was_for_any_number_of_hosts(count):
    store, plan = TwinStore(), plan_of(count, FULL)
    assert load_plan(store, store_plan(store, plan)) == plan
    assert len(store.kept) == 1 + -(-count // 250)


@given(st.lists(policies(), max_size=3), st.integers(0, 30), st.integers(0, 3))
def test_a_plan_of_any_policies_comes_back_as_it_was(known, count, down):
    store, plan = TwinStore(), plan_of(count, *known, down=down)
    assert load_plan(store, store_plan(store, plan)) == plan


def test_the_same_plan_has_the_same_digest_and_any_difference_another():
    plan = plan_of(300, FULL)
    digest = store_plan(TwinStore(), plan)
    assert store_plan(TwinStore(), plan_of(300, FULL)) == digest
    last = replace(plan.hosts[-1], address="127.0.0.9")
    for other in (
        replace(plan, bake_for=601.0),
        replace(plan, hosts=(*plan.hosts[:-1], last)),
        replace(plan, hosts=(plan.hosts[1], plan.hosts[0], *plan.hosts[2:])),
    ):
        assert store_plan(TwinStore(), other) != digest


def test_one_host_is_read_from_the_head_and_one_window_and_then_remembered():
    store, plan = Counted(), plan_of(600, FULL, policy("for-this-test"))
    digest = store_plan(store, plan)
    assert load_host(store, digest, 599) == plan.hosts[599]
    assert store.asked == 2
    assert [load_host(store, digest, i) for i in range(500, 600)] == list(plan.hosts[500:])
    assert store.asked == 2
    assert load_host(store, digest, 0) == plan.hosts[0]
    assert store.asked == 3
    assert load_head(store, digest) == replace(plan, hosts=())
    assert store.asked == 3


def test_what_is_remembered_stays_small():
    store = TwinStore()
    for count in range(1, 40):
        load_host(store, store_plan(store, plan_of(count)), 0)
    assert len(planfile._heads.kept) == len(planfile._windows.kept) == planfile.KEPT


@pytest.mark.parametrize("index", [-1, 3, 250])
def test_a_host_that_the_plan_does_not_have_is_refused(index):
    store = TwinStore()
    digest = store_plan(store, plan_of(3))
    with pytest.raises(Refused, match=f"has 3 hosts; there is none with index {index}"):
        load_host(store, digest, index)


def damaged(change):
    """A store with a plan of 300 hosts whose head has been changed, and its digest."""
    store = TwinStore()
    head = json.loads(store.get(store_plan(store, plan_of(300))))
    change(head)
    return store, store.put(json.dumps(head).encode())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda head: head.update(hosts=200), "do not fit its windows"),
        (lambda head: head.update(windows=head["windows"][::-1]), "damaged: it has 50 hosts"),
        (lambda head: head.update(format="guardrail/plan/v9"), "made by a newer guardrail"),
        (lambda head: head.update(format="guardrail/plan/v9", more=1), "reads up to .*/v1"),
        (lambda head: head.update(format="something/v1"), "format: Input should be"),
        (lambda head: head["plan"].pop("caps"), "plan.caps"),
        (lambda head: head.update(surprise=1), "surprise"),
    ],
)
def test_a_head_that_does_not_hold_together_is_refused(change, says):
    store, digest = damaged(change)
    with pytest.raises(Refused, match=says):
        load_plan(store, digest)


def test_what_is_no_plan_is_refused_in_words():
    store = TwinStore()
    with pytest.raises(Refused, match="is no plan that this version can read"):
        load_host(store, store.put(b"\x00not a plan"), 0)


def test_what_was_seen_on_hosts_is_kept_with_them():
    seen = {"cache-001": Seen("1.8.7", "1.8.7", leaves="yes")}
    plan = make_plan(request(), found(hosts(1), seen=seen), now=1.0)
    store = TwinStore()
    kept = load_host(store, store_plan(store, plan), 0)
    assert kept.version_seen == "1.8.7"
    assert kept.restart.startswith("SIGTERM deregisters cache-001")


def test_a_plan_that_an_earlier_build_stored_is_still_read():
    """Never made again by the test itself: these are the bytes as they were stored once."""
    store = TwinStore()
    for piece in sorted(STORED.glob("*.json")):
        assert store.put(piece.read_bytes()) == f"sha256:{piece.stem}"
    plan = load_plan(store, f"sha256:{STORED_PLAN}")
    assert [host.name for host in plan.hosts] == ["cache-001", "cache-002", "cache-003"]
    assert [wave.end for wave in plan.waves][-1] == 3
    assert plan.approvals[0].count == 2
