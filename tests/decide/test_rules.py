"""The rules of design.md §4, each under its name, over operations that are made up.

Every story has hosts that fail, hang, answer late or twice, gates that come and go, watchers
that fall silent, and people who pause, resume, retry and skip. The checks look at the record of
a drive, not at the code that made it. `test_mutations.py` shows that each of them can fail.
"""

from hypothesis import given, settings

import checks
from builders import stories
from guardrail.twins import drive

STORIES = settings(max_examples=400, deadline=None)


@STORIES
@given(stories())
def test_no_start_under_hold(story):
    checks.no_start_under_hold(drive(*story, until=3000.0))


@STORIES
@given(stories())
def test_inconclusive_never_advances(story):
    checks.inconclusive_never_advances(drive(*story, until=3000.0))


@STORIES
@given(stories())
def test_limits_hold(story):
    checks.limits_hold(drive(*story, until=3000.0))


@STORIES
@given(stories())
def test_one_change_per_host(story):
    checks.one_change_per_host(drive(*story, until=3000.0))


@STORIES
@given(stories())
def test_answers_match_turns(story):
    checks.answers_match_turns(drive(*story, until=3000.0))


@STORIES
@given(stories())
def test_resume_bakes_first(story):
    checks.resume_bakes_first(drive(*story, until=3000.0))


@STORIES
@given(stories())
def test_explained(story):
    checks.explained(drive(*story, until=3000.0))


@STORIES
@given(stories())
def test_progress(story):
    """Give any story good evidence and people who answer: it reaches an end."""
    checks.progress(*story)
