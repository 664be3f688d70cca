"""An inventory that lost hosts is told or refused; own servers are known among the hosts."""

from dataclasses import replace

import plan_builders as pb
import pytest

from guardrail.decide.inventory import gone, key_of, known_fleet, own_hosts, own_words, told
from guardrail.model.fleet import ConsulInventory, Fleet, HostList, KnownFleet

FLEET = pb.hosts(30)
BEFORE = KnownFleet("cache", tuple(host.name for host in FLEET), 1_764_000_000.0)


@pytest.mark.parametrize(
    ("lost", "tolerated", "refused"),
    [(0, 0, False), (3, 0, False), (4, 0, True), (4, 4, False), (30, "50%", True)],
)
def test_more_than_a_tenth_or_than_is_tolerated_is_refused(lost, tolerated, refused):
    allowed = pb.amount(tolerated)
    reasons = gone(BEFORE, FLEET[lost:], allowed)
    assert bool(reasons) == refused
    assert bool(told(BEFORE, FLEET[lost:], allowed)) == (lost > 0 and not refused)


def test_the_hosts_are_named_with_the_time_and_what_helps():
    (reason,) = gone(BEFORE, FLEET[4:], pb.amount(0))
    assert reason == (
        "the inventory has 26 hosts now and had 30 at 2025-11-24 16:00 UTC, when a rollout on "
        "fleet cache was planned last; not there any more: cache-001, cache-002, cache-003, "
        "cache-004; if they are gone for good, say so in the rollout (plan: {tolerate: "
        "{hosts: 4}}), else mend the inventory"
    )


def test_hosts_that_came_make_nothing_smaller():
    more = (*FLEET[1:], *pb.hosts(9, prefix="new"))
    (words,) = told(BEFORE, more, pb.amount(0))
    assert "not there any more: cache-001" in words
    assert gone(BEFORE, more, pb.amount(0)) == ()


def test_a_plan_knows_all_hosts_that_were_found():
    down = (replace(FLEET[0], down=True), *FLEET[1:])
    made = pb.plan(down, policies=(pb.policy("p", limits={"unavailable": pb.amount(5)}),))
    assert known_fleet(made) == replace(BEFORE, at=made.created_at)


def test_another_filter_is_another_fleet_and_a_listed_one_has_no_last_time():
    consul = ConsulInventory("http://127.0.0.1:8500", "memcached")
    assert key_of(Fleet("cache", HostList(()))) == ""
    keys = {
        key_of(Fleet("cache", consul)),
        key_of(Fleet("cache", replace(consul, filter='Node matches "a"'))),
        key_of(Fleet("other", consul)),
    }
    assert len(keys) == 3


def test_own_servers_are_known_by_name_and_by_address():
    servers = frozenset({"cache-002", "127.0.20.5"})
    assert own_hosts(FLEET, servers) == {"cache-002", "cache-005"}
    (words,) = own_words(frozenset({"cache-005", "cache-002"}))
    assert words.endswith("planned last, one at a time: cache-002, cache-005")
    assert own_words(frozenset()) == ()
