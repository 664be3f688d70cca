"""A ring as it is written in a key: what is no ring is an error that says why."""

import pytest

from guardrail.edges.consul_ring import decoded, ring_of
from guardrail.model.budget import RingListed, RingSize


def test_slots_and_spares_and_words_that_are_nobodys_business():
    ring = ring_of({"slots": ["a", None, "b"], "spares": ["c"], "version": 7, "addresses": {}})
    assert ring == RingListed(("a", "", "b"), ("c",))
    assert ring.size == RingSize(3, 1, empty=1)
    assert ring.serving == {"a", "b"}


def test_no_spares_are_none():
    assert ring_of({"slots": ["a"]}).spares == ()


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ({"slots": []}, "at least one"),
        ({"slots": {"0": "a"}}, "are lists"),
        ({"slots": ["a"], "spares": "b"}, "are lists"),
        ({"slots": ["a", ""]}, "a name"),
        ({"slots": ["a", 3]}, "a name"),
        ({"slots": ["a"], "spares": [None]}, "a name"),
        ({"slots": ["a", "b", "a"]}, "these have more: a"),
        ({"slots": ["a"], "spares": ["a"]}, "these have more: a"),
    ],
)
def test_what_is_no_ring_says_why(written, why):
    with pytest.raises(ValueError, match=why):
        ring_of(written)


def test_consuls_answer_is_decoded():
    assert decoded([{"Key": "ring", "Value": "eyJzbG90cyI6IFsiYSJdfQ=="}]) == {"slots": ["a"]}
    with pytest.raises(ValueError, match="Expecting value"):
        decoded([{"Key": "ring", "Value": "bm90IGpzb24="}])
