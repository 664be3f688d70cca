"""The rules of design.md §4, each under its name, over operations that are made up.

Every story has hosts that fail, hang, answer late or twice, gates that come and go, watchers
that fall silent, and people who pause, resume, retry, skip, abort and go back. The rules
(guardrail.simulation.rules) look at the record of a drive, not at the code that made it;
tests/simulation shows that each of them can fail.
"""

import pytest
from hypothesis import given, settings

from guardrail.simulation.rules import RULES
from guardrail.twins import drive

import checks
from builders import stories

STORIES = settings(max_examples=60)


@pytest.mark.parametrize("rule", [rule.name for rule in RULES if rule.name != "progress"])
def test_rule(rule):
    @STORIES
    @given(stories())
    def holds(story):
        checks.watched(drive(*story, until=3000.0), rule)

    holds()


@STORIES
@given(stories())
def test_rule_progress(story):
    """Give any story good evidence and people who answer: it reaches an end."""
    checks.progress(*story)


@STORIES
@given(stories())
def test_time_is_looked_at_when_it_is_up(story):
    checks.looked_at_in_time(drive(*story, until=3000.0))
