"""The rules of design.md §4 over whole worlds that are made from seeds, and each of them can fail.

`make prove` runs a hundred times as many (guardrail.simulation.campaign).
"""

import pytest

from guardrail.simulation.campaign import (
    broken,
    readable,
    run_seeds,
    seeds_needed,
    tallies,
)
from guardrail.simulation.faults import FAULTS, planted
from guardrail.simulation.from_seed import story
from guardrail.simulation.rules import RULES
from guardrail.simulation.story import in_words, shrink, without_operation
from guardrail.simulation.world import World

SEEDS = 2_000
PER_RULE = 3
"""Faults a rule that are tried here; `make prove` tries all."""


def test_two_thousand_seeds_break_no_rule():
    total = list(tallies(0, SEEDS, 2))
    assert sum(tally.seeds for tally in total) == SEEDS
    assert [found for tally in total for found in tally.found] == []
    phases = {phase for tally in total for phase, _ in tally.phases}
    assert phases == {"completed", "rolled_back", "aborted"}


def some_of_each():
    """The first faults of each rule; `make prove` plants all."""
    for rule in RULES:
        yield from [fault for fault in FAULTS if fault.rule == rule.name][:PER_RULE]


@pytest.mark.parametrize(
    "fault", list(some_of_each()), ids=lambda fault: f"{fault.rule}: {fault.what}"
)
def test_a_planted_fault_is_found(fault):
    assert seeds_needed(fault) is not None


def test_every_rule_has_at_least_two_faults():
    counts = {rule.name: sum(fault.rule == rule.name for fault in FAULTS) for rule in RULES}
    assert min(counts.values()) >= 2, counts


def test_a_seed_is_the_same_world_every_time():
    def told(seed):
        world = World(story(seed), lines=[])
        world.run()
        return world.lines, world.events

    assert story(7) == story(7)
    assert told(7) == told(7)
    assert story(7) != story(8)


def test_a_fault_is_gone_once_it_is_no_longer_planted():
    before = run_seeds(0, 5)
    for fault in FAULTS:
        with planted(fault):
            pass
    assert run_seeds(0, 5) == before


# ---------------------------------------------------------------- stories that break a rule


@pytest.fixture
def failing():
    """A seed that breaks a rule, with the fault that makes it."""
    fault = next(
        fault for fault in FAULTS if fault.name == "_failed" or fault.what == "one host too many"
    )
    count = seeds_needed(fault)
    with planted(fault):
        yield count - 1, fault


def test_a_failing_seed_is_a_short_story_in_words(failing):
    seed, _ = failing
    found = broken(story(seed))
    text = readable(found)
    assert text[0].startswith(f"seed {seed};")
    assert f"broken: {found.rule}" in text[-2]
    assert text[-1] == f"again: guardrail simulate --from {seed} --seeds 1"
    assert "what happened:" in text


def test_a_shrunken_story_breaks_the_same_rule_and_no_part_can_go(failing):
    seed, _ = failing
    rule = broken(story(seed)).rule

    def breaks(told):
        found = broken(told)
        return found is not None and found.rule == rule

    small = shrink(story(seed), breaks)
    assert breaks(small)
    assert len(small.parts) <= len(story(seed).parts)
    for number in range(len(small.parts)):
        rest = small.parts[:number] + small.parts[number + 1 :]
        assert not breaks(type(small)(small.seed, small.operations, rest, small.calm))


def test_without_an_operation_the_others_keep_their_parts():
    three = next(told for told in map(story, range(200)) if len(told.operations) == 3)
    two = without_operation(three, 1)
    assert [planned.name for planned in two.operations] == ["op-1", "op-3"]
    assert {part.operation for part in two.parts} <= {0, 1}
    assert len(in_words(two)) >= len(two.parts)
