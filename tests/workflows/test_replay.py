"""Does today's code carry on what earlier builds began? Recorded histories, replayed.

Temporal's own check sees another kind of command, or one too many or too few. It does not see which
host was asked, nor with what an operation ended: both are compared here.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from record_histories import HISTORIES, RUNS, SCENARIOS, files, read
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import (
    Interceptor,
    Replayer,
    WorkflowInboundInterceptor,
    WorkflowOutboundInterceptor,
)
from temporalio.workflow import NondeterminismError

from guardrail.decide import limits, transition
from guardrail.model import messages
from guardrail.model.messages import HostTask, RolloutInput, Status, WatchTask
from guardrail_workflows.rollout import RolloutWorkflow
from guardrail_workflows.worker import sandbox

SMALL = 150_000
"""Bytes that a recorded history may have."""
TASKS = {messages.CHANGE_HOST: HostTask, messages.WATCH_GATES: WatchTask}
SAME = ("phase", "changed_hosts", "failed", "unknown", "set_aside", "reverted", "to_take_back")
"""What of an end must be the same; its wording may differ."""


# ---------------------------------------------------------------- what a replay is compared with


@dataclass
class Told:
    """What a run asked of activities, in order, and what came out of it."""

    asked: list[Any] = field(default_factory=list)
    came_to: dict[str, Any] = field(default_factory=dict)

    def as_known_to(self, earlier: "Told") -> "Told":
        """Without sets of hosts that the earlier build did not have."""
        return Told(self.asked, {name: self.came_to.get(name) for name in earlier.came_to})


def outcome(value: Status | RolloutInput) -> dict[str, Any]:
    """What must be the same of an end, or of what the next run gets."""
    if isinstance(value, Status):
        return {name: getattr(value, name) for name in SAME}
    carried = value.carried
    assert carried is not None
    state = carried.state
    said = [ident for ident, _ in carried.answered]
    holds = [hold.name for hold in state.holds]
    where = {"phase": state.phase, "wave": state.wave, "turn": state.turn}
    return {"plan": carried.digest, **where, "holds": holds, "said": said, **dict(carried.sets)}


class Listens(Interceptor):
    """Hears what the replayed workflow asks for and ends with."""

    def __init__(self) -> None:
        self.told = told = Told()

        class Outbound(WorkflowOutboundInterceptor):
            def start_activity(self, input):  # noqa: A002 - the SDK's name
                if input.activity in TASKS:
                    told.asked.append(input.args[0])
                return super().start_activity(input)

            def continue_as_new(self, input):  # noqa: A002
                told.came_to = outcome(input.args[0])
                super().continue_as_new(input)

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound):
                super().init(Outbound(outbound))

            async def execute_workflow(self, input):  # noqa: A002
                end = await super().execute_workflow(input)
                told.came_to = outcome(end)
                return end

        self.inbound = Inbound

    def workflow_interceptor_class(self, input):  # noqa: A002
        return self.inbound


async def recorded(history: WorkflowHistory) -> Told:
    """What the history says was asked and came out."""
    told = Told()
    for event in history.events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            task = event.activity_task_scheduled_event_attributes
            if task.activity_type.name in TASKS:
                told.asked.append(await _one(task.input, TASKS[task.activity_type.name]))
    last = history.events[-1]
    if last.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
        ended = last.workflow_execution_completed_event_attributes
        told.came_to = outcome(await _one(ended.result, Status))
    if last.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
        new = last.workflow_execution_continued_as_new_event_attributes
        told.came_to = outcome(await _one(new.input, RolloutInput))
    return told


async def _one(payloads: Any, kind: type) -> Any:
    return (await pydantic_data_converter.decode(list(payloads.payloads), [kind]))[0]


async def replayed(history: WorkflowHistory) -> Told:
    """Replay as a worker would; what is told as the history knows it.

    Raises NondeterminismError.
    """
    listens = Listens()
    replayer = Replayer(
        workflows=[RolloutWorkflow],
        workflow_runner=sandbox(),
        data_converter=pydantic_data_converter,
        interceptors=[listens],
    )
    await replayer.replay_workflow(history)
    return listens.told.as_known_to(await recorded(history))


# ---------------------------------------------------------------- today's code


@pytest.mark.parametrize("name", sorted(files()))
async def test_a_recorded_operation_is_carried_on_as_it_was(name):
    history = read(files()[name])
    before = await recorded(history)
    assert (not before.came_to) == (name == "refused")
    assert await replayed(history) == before


def test_each_scenario_is_recorded_small_with_its_build():
    assert {path.stem for path in HISTORIES.iterdir()} == set(files())
    assert len(files()) >= len(SCENARIOS)
    for name, path in files().items():
        content = json.loads(path.read_text())
        assert content["recorded"] in SCENARIOS
        assert path.stat().st_size < SMALL, name
        # The server wrote down the build too: it was a versioned worker that decided.
        assert content["build"] in path.read_text().split('"events"')[1], name


def test_what_was_continued_as_new_is_recorded_from_its_first_run():
    for name in ("continued", "drained"):
        runs = [read(files()[f"{name}-run-{run}"]) for run in range(1, RUNS + 1)]
        begun = [run.events[0].workflow_execution_started_event_attributes for run in runs]
        assert [bool(each.continued_execution_run_id) for each in begun] == [False, True]
        new = runs[0].events[-1].workflow_execution_continued_as_new_event_attributes
        assert new.new_execution_run_id == begun[1].original_execution_run_id


async def test_what_was_carried_before_there_were_formats_is_carried_on():
    history = read(files()["continued-run-2"])
    given = history.events[0].workflow_execution_started_event_attributes.input.payloads[0]
    content = json.loads(given.data)
    assert content["carried"].pop("format") == messages.CARRIED_FORMAT
    given.data = json.dumps(content).encode()
    assert await replayed(history) == await recorded(history)


async def test_what_a_newer_build_carried_waits_for_a_worker_of_it():
    history = read(files()["continued-run-2"])
    given = history.events[0].workflow_execution_started_event_attributes.input.payloads[0]
    content = json.loads(given.data)
    content["carried"]["format"] = messages.CARRIED_FORMAT + 1
    given.data = json.dumps(content).encode()
    # The workflow task fails, to be tried again; the operation itself does not.
    with pytest.raises(RuntimeError, match="run a worker of that build, nothing is lost"):
        await replayed(history)


# ---------------------------------------------------------------- it can fail


def last_waiting(real):
    """A planted change: hosts begin from the other end."""

    def next_host(state, *now):
        return None if real(state, *now) is None else state.waiting.bit_length() - 1

    return next_host


PLANTED = {
    "hosts begin in another order": (limits, "next_host", last_waiting),
    "no bake": (transition, "bake_needed", lambda _: lambda _state: 0.0),
    "nothing is watched for a hold": (transition, "binding", lambda _: lambda _state: ()),
}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("hosts begin in another order", "completes"),
        ("hosts begin in another order", "continued-run-2"),
        ("no bake", "completes"),
        ("nothing is watched for a hold", "gate-fails"),
        ("nothing is watched for a hold", "rolled-back-by-a-person"),
    ],
)
async def test_a_changed_decision_is_found(change, name, monkeypatch):
    module, function, made = PLANTED[change]
    monkeypatch.setattr(module, function, made(getattr(module, function)))
    with pytest.raises(NondeterminismError, match="TMPRL1100"):
        await replayed(read(files()[name]))


async def test_another_end_is_found_though_temporal_does_not_see_it(monkeypatch):
    real = transition.finish

    def finish(state, now, phase, reasons):
        return real(state, now, "completed" if phase == "aborted" else phase, reasons)

    monkeypatch.setattr(transition, "finish", finish)
    history = read(files()["aborted"])
    assert (await replayed(history)).came_to != (await recorded(history)).came_to


async def test_another_host_asked_is_found_though_temporal_does_not_see_it(monkeypatch):
    """The same commands for another host: Temporal compares no inputs of activities."""
    real = transition.BeginHost

    def begin(index, turn, direction):
        return real(index + 100 if turn == 1 else index, turn, direction)

    monkeypatch.setattr(transition, "BeginHost", begin)
    history = read(files()["completes"])
    assert (await replayed(history)).asked != (await recorded(history)).asked
