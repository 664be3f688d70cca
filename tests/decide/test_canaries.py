"""One of each kind goes first, and what the first stage does not cover is said."""

from dataclasses import replace

import plan_builders as pb

from guardrail.cli.plan_view import plan_rows
from guardrail.cli.text import Look, plain
from guardrail.decide.canaries import in_words
from guardrail.decide.found import Seen
from guardrail.model.rollout import Order

KINDS = Order(canaries=("role", "os", "version"))


def fleet():
    """Six memcached hosts on two systems, two web hosts, one host of an older version."""
    cache = [
        replace(host, labels=(("os", "debian12" if n < 4 else "debian13"),))
        for n, host in enumerate(pb.hosts(6, domains="ab"))
    ]
    web = [replace(host, roles=("web",)) for host in pb.hosts(2, domains="ab", prefix="web")]
    return (*cache, *web)


SEEN = {"cache-004": Seen("1.8.6", "1.8.6")}


def test_the_first_of_each_kind_come_first_in_the_order_of_domains():
    made = pb.plan(fleet(), 4, "100%", order=KINDS, seen=SEEN)
    first = [host.name for host in made.hosts[:4]]
    assert first == ["cache-001", "cache-005", "web-001", "cache-004"]
    assert made.canaries.kinds == 4
    assert made.canaries.missing == ()
    assert (
        in_words(made.canaries) == "canaries cover 4 of 4 kinds of role × os × version in stage 4"
    )
    assert not [words for words in made.warnings if "canaries" in words]


def test_kinds_that_the_first_stage_has_no_room_for_are_named():
    made = pb.plan(fleet(), 2, "100%", order=KINDS, seen=SEEN)
    words = in_words(made.canaries)
    assert words.startswith(
        "canaries cover 2 of 4 kinds of role × os × version in stage 2; not covered"
    )
    assert "web × unknown × 1.8.7 (2 hosts)" in words
    assert "memcached × debian12 × 1.8.6 (1 host)" in words
    (warning,) = [words for words in made.warnings if "canaries" in words]
    assert warning.endswith("a first stage of 4 hosts would try all")


def test_a_stage_of_several_waves_counts_as_one():
    limited = pb.policy("p", limits={"wave": pb.amount(1)})
    made = pb.plan(fleet(), 4, "100%", order=KINDS, seen=SEEN, policies=(limited,))
    assert made.waves[0].end == 1
    assert made.canaries.missing == ()


def test_without_canaries_nothing_is_said():
    made = pb.plan(fleet(), 1, "100%")
    assert made.canaries is None
    assert not [words for words in made.warnings if "canaries" in words]


def shown(plan):
    return " ".join(" ".join(plain(plan_rows(plan, Look(width=100)))).split())


def test_the_coverage_and_what_is_read_again_are_shown():
    made = pb.plan(fleet(), 2, "100%", order=KINDS, seen=SEEN)
    text = shown(made)
    assert "canaries cover 2 of 4 kinds of role × os × version in stage 2; not covered: " in text
    assert "read again at each stage's end: 10% of the changed hosts, at least 5" in text
    critical = replace(made, cache_critical=True)
    text = shown(critical)
    assert "read again at each stage's end: all changed hosts" in text
