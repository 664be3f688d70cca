"""What one run hands to the next comes back whole, through JSON too."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from pydantic import TypeAdapter

from guardrail.decide.carry import LEFT_BEHIND, pack, unpack
from guardrail.decide.transition import decide
from guardrail.errors import Refused
from guardrail.model.messages import CARRIED_FORMAT, Carried, Said
from guardrail.model.operation import WatchAgain
from guardrail.twins import Drive, Script, drive

import checks
from builders import course, stories

WIRE = TypeAdapter(Carried)


def through_json(carried):
    return WIRE.validate_json(WIRE.dump_json(carried))


@settings(max_examples=100)
@given(stories())
def test_packed_and_unpacked_is_the_same(story):
    run = drive(*story, until=300.0)
    carried = pack(run.state)
    assert carried.state.course == LEFT_BEHIND
    assert unpack(through_json(carried), run.state.course) == run.state


def test_sets_of_a_hundred_thousand_hosts_stay_small():
    run = drive(course(100_000), Script(), until=1.0)
    assert len(WIRE.dump_json(pack(run.state))) < 60_000
    assert unpack(through_json(pack(run.state)), run.state.course).waiting == run.state.waiting


def test_answers_keep_their_order():
    said = tuple((f"{n}", Said(f"answer {n}", n, ())) for n in (2, 10, 1))
    run = drive(course(2), Script(), until=3.0)
    assert through_json(pack(run.state, said)).answered == said


def test_what_was_carried_before_there_were_formats_is_the_first_and_is_read():
    run = drive(course(2), Script(), until=3.0)
    wire = WIRE.dump_python(pack(run.state), mode="json")
    assert wire.pop("format") == CARRIED_FORMAT
    assert unpack(WIRE.validate_python(wire), run.state.course) == run.state


def test_what_a_newer_build_carried_is_refused_with_what_to_do():
    run = drive(course(2), Script(), until=3.0)
    newer = replace(pack(run.state), format=CARRIED_FORMAT + 1)
    with pytest.raises(Refused, match=r"newer build .* run a worker of that build"):
        unpack(through_json(newer), run.state.course)


class Interrupted(Drive):
    """An operation whose workflow continues as new after each answer of a host."""

    def happen(self, event):
        super().happen(event)
        if event.kind == "host_answered" and not self.state.finished:
            self.state = unpack(through_json(pack(self.state)), self.state.course)
            super().happen(WatchAgain(self.now))


def test_an_operation_that_continues_as_new_at_every_answer_completes():
    from guardrail.model.operation import Started, State

    run = Interrupted(State(course(1, 3, 6), "op"), Script())
    run.happen(Started(0.0))
    assert run.run(5000.0).phase == "completed"
    assert run.state.changed == 0b111111
    checks.watched(run)


def test_a_continued_run_begins_nothing_on_what_was_known_before():
    run = drive(course(3), Script(), until=2.0)
    after = decide(unpack(pack(run.state), run.state.course), WatchAgain(3.0))
    assert [action.kind for action in after.actions] == ["watch"]
    assert after.wake_at == 18.0
