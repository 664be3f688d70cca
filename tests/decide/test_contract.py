"""A plan as a contract: whatever is otherwise than it was agreed to is said, exactly."""

from dataclasses import replace

import plan_builders as pb
import pytest

from guardrail.contracting import compared
from guardrail.decide.contract import moved
from guardrail.decide.found import Seen
from guardrail.decide.plan import make_plan
from guardrail.files.contractfile import contract_of
from guardrail.model.common import Amount, Origin
from guardrail.model.gate import Bound
from guardrail.model.rollout import Tolerate


def contract(fleet=None, *, tolerate=None, policies=(), now=1000.0, **fields):
    asked = pb.request()
    asked = replace(asked, rollout=replace(asked.rollout, tolerate=tolerate or Tolerate()))
    fleet = pb.hosts(10, domains="ab") if fleet is None else fleet
    found = pb.found(fleet, policies=policies, **fields)
    return contract_of(asked, make_plan(asked, found, now=now), policies)


def limited(unavailable, line=12, **fields):
    made = pb.policy("cache-critical", limits={"unavailable": Amount(unavailable)}, **fields)
    origin = Origin("policy cache-critical", "cache-critical.yaml", line)
    return replace(made, origins=(("limits.unavailable", origin),), digest=f"sha256:{made}")


FLEET = pb.hosts(10, domains="ab")


def test_nothing_has_moved():
    assert moved(contract(), contract(now=2000.0)) == ()


def test_hosts_that_came_and_went_are_named():
    more = (*FLEET[1:], *pb.hosts(2, prefix="new"))
    assert moved(contract(), contract(more)) == (
        "2 hosts came since the plan was made: new-001, new-002",
        "1 host went since the plan was made: cache-001",
    )


def test_hosts_newly_down_are_tolerated_and_those_that_are_back_are_not():
    down = (replace(FLEET[0], down=True), *FLEET[1:])
    roomy = (limited(5),)
    assert moved(contract(policies=roomy), contract(down, policies=roomy)) == ()
    assert moved(contract(down, policies=roomy), contract(policies=roomy)) == (
        "1 host down then, and back now: cache-001",
    )


def test_a_host_somebody_else_changed_is_named_unless_it_was_this_operation():
    done = {"cache-003": Seen(pb.NEW, pb.NEW)}
    (reason,) = moved(contract(), contract(seen=done))
    assert reason == "1 host changed since by somebody else, now at 1.8.8: cache-003"
    assert moved(contract(), contract(seen=done), changed=frozenset({"cache-003"})) == ()


def test_another_version_is_named_with_both():
    mixed = {"cache-002": Seen(pb.NEW, pb.OLD), "cache-004": Seen(pb.OLD, pb.NEW)}
    (reason,) = moved(contract(), contract(seen=mixed))
    assert reason == "1 host with another version than then: cache-004 (1.8.7 → 1.8.8)"


def test_a_host_at_another_address_or_in_another_zone_is_named():
    other = (replace(FLEET[0], address="127.9.9.9", failure_domain="z"), *FLEET[1:])
    assert moved(contract(), contract(other)) == (
        "host cache-001: address 127.0.20.1 → 127.9.9.9; failure domain a → z",
    )


@pytest.mark.parametrize(
    ("hosts", "tolerated"), [(0, False), ("10%", False), (1, False), (2, True), ("20%", True)]
)
def test_what_the_rollout_tolerates_is_counted(hosts, tolerated):
    allowed = Tolerate(hosts=pb.amount(hosts))
    fleet = (*FLEET[1:], *pb.hosts(1, prefix="new"))
    reasons = moved(contract(tolerate=allowed), contract(fleet, tolerate=allowed))
    assert (not reasons) == tolerated
    if hosts == 1:
        assert reasons[0].endswith("; tolerated (hosts): 1")


def test_versions_are_tolerated_on_their_own():
    allowed = Tolerate(versions=Amount(1))
    seen = {"cache-004": Seen(pb.OLD, pb.NEW)}
    assert moved(contract(tolerate=allowed), contract(seen=seen)) == ()


def test_an_edited_policy_is_named_with_field_values_and_line():
    before, after = contract(policies=(limited(1),)), contract(policies=(limited(2, line=14),))
    assert moved(before, after) == (
        "policy cache-critical changed: limits.unavailable 1 → 2 at cache-critical.yaml:14",
    )


def test_a_field_that_came_is_named_too():
    added = limited(1, bake_for=60.0, cache_critical=True, rollback_when="never")
    assert set(moved(contract(policies=(limited(1),)), contract(policies=(added,)))) == {
        "policy cache-critical changed: bake.for not said → 60 at cache-critical.yaml:1",
        "policy cache-critical changed: cacheCritical false → true at cache-critical.yaml:1",
        "policy cache-critical changed: rollback.when not said → never at cache-critical.yaml:1",
    }


def test_policies_that_came_or_went_are_named():
    before, after = contract(policies=(limited(5),)), contract(policies=(pb.policy("other"),))
    assert moved(before, after) == (
        "policy other (other.yaml) covers hosts now, and did not then",
        "policy cache-critical (cache-critical.yaml) covered hosts then, and does not now",
    )


def test_a_change_with_other_steps_is_named():
    other = replace(pb.CHANGE, digest="sha256:other")
    (reason,) = moved(contract(), contract(change=other))
    assert reason.startswith(
        "change consul-agent has other steps or probes now (sha256:change then"
    )


def test_a_gate_that_asks_otherwise_is_named():
    given = contract()
    rule = replace(given.plan.gates[0], digest="sha256:new", bound=str(Bound(below=0.9)))
    now = replace(given, plan=replace(given.plan, gates=(rule,)))
    (reason,) = moved(given, now)
    assert reason.startswith("gate margin changed: ")
    assert "0.9" in reason
    none = replace(given, plan=replace(given.plan, gates=()))
    assert moved(given, none) == ("gate margin was asked for, and is not now",)
    assert moved(none, given) == ("gate margin is asked for now, and was not",)


# ---------------------------------------------------------------- what is done


def test_the_plan_of_the_file_is_done_where_nothing_moved():
    given, now = contract(), contract(now=5000.0)
    assert compared(given, now) == given.plan


def test_another_requester_has_a_plan_of_their_own():
    given, now = contract(), contract(now=5000.0)
    now = replace(now, plan=replace(now.plan, requester="bob"))
    assert compared(given, now) == now.plan


def test_what_is_tolerated_is_done_by_the_new_plan():
    allowed = Tolerate(hosts=Amount(3))
    given = contract(tolerate=allowed)
    now = contract((*FLEET, *pb.hosts(1, prefix="new")), tolerate=allowed)
    assert compared(given, now) == now.plan


def test_what_moved_refuses_with_every_reason():
    made = compared(contract(), contract(FLEET[1:]))
    assert made.refusals[0] == (
        "since the plan file was made: 1 host went since the plan was made: cache-001"
    )
    assert "guardrail plan FILE... -o PLAN.json" in made.refusals[-1]


def test_a_plan_that_was_refused_when_it_was_made_stays_so():
    given = contract()
    given = replace(given, plan=replace(given.plan, refusals=("no",)))
    assert "was refused when it was made" in " ".join(compared(given, contract()).refusals)
