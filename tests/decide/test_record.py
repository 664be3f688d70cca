"""What is recorded of a step: what happened, what followed, always the same, and never a secret."""

from dataclasses import dataclass, replace

from hypothesis import given, settings

from guardrail.decide.chain import content_of
from guardrail.decide.record import MOST_REASONS, MOST_TEXT, entries, text
from guardrail.decide.transition import decide
from guardrail.model.journal import (
    CommandSaid,
    Ended,
    GateTold,
    HoldCleared,
    HoldRaised,
    HostAsked,
    HostTold,
    PlanFixed,
    WatchBegun,
    WaveBegun,
)
from guardrail.model.operation import (
    Decision,
    GateJudged,
    Hold,
    HostAnswered,
    Started,
    State,
    Ticked,
    WatchAgain,
    WatcherLost,
)
from guardrail.twins import Turn, drive, judgement

from builders import approval, course, gate, say, stories


@dataclass
class Taken:
    """An operation step by step, with what was recorded of each."""

    state: State
    number: int = 0

    def step(self, event, facts=()):
        decision = decide(self.state, event)
        made = entries(self.state, event, decision, number=self.number, run="r", facts=facts)
        assert made == entries(
            self.state, event, decision, number=self.number, run="r", facts=facts
        )
        assert [(e.id.run, e.id.event, e.id.part) for e in made] == [
            ("r", self.number, part) for part in range(len(made))
        ]
        assert {(e.operation, e.at) for e in made} <= {(self.state.name, event.at)}
        self.state, self.number = decision.state, self.number + 1
        return [each.record for each in made]


def taken(plan):
    return Taken(State(plan, "op"))


def judged(at, verdict="pass", name="margin", turn=1):
    return GateJudged(at, turn, judgement(Turn(at, name, verdict)))


def answered(at, index, turn, outcome="changed", reason=""):
    return HostAnswered(at, index, turn, outcome, f"host-{index:03d}", reason)


def test_the_plan_is_recorded_with_who_asked_for_it():
    op = taken(course(1, 3, approvals=(approval(wave=1, point="3"),)))
    plan, wave = op.step(Started(10.0), facts=(("change", "agent"), ("from", "1"), ("to", "2")))
    assert plan == PlanFixed(
        plan="sha256:x",
        requester="ann",
        hosts=3,
        stages=("1", "3"),
        limits=(
            ("unavailable", "1"),
            ("unavailablePerDomain", "1"),
            ("domainsAtOnce", "3"),
            ("failures", "0"),
            ("paceSeconds", "0"),
            ("bakeSeconds", "30"),
        ),
        gates=(("margin", ""),),
        approvals=(("3", "1"),),
        facts=(("change", "agent"), ("from", "1"), ("to", "2")),
    )
    assert wave == WaveBegun(1, 2, "1", 1, "forward")


def test_a_small_rollout_from_beginning_to_end():
    op = taken(course(1, 2, bake=0.0))
    op.step(Started(0.0))
    told = op.step(judged(1.0))
    assert (told[0].gate, told[0].verdict, told[0].counted) == ("margin", "pass", True)
    assert told[1:] == [HostAsked(0, 1, "forward")]
    assert op.step(Ticked(3.0)) == []
    first = op.step(answered(5.4, 0, 1), facts=(("running", "2"),))
    assert first == [
        HostTold(0, 1, "host-000", "changed", "", 4, (("running", "2"),)),
        WaveBegun(2, 2, "2", 1, "forward"),
        HostAsked(1, 2, "forward"),
    ]
    last = op.step(answered(10.0, 1, 2))
    assert last[1:] == [Ended("completed", ("2 of 2 hosts changed",), 2, 2)]
    assert op.step(answered(11.0, 1, 2)) == [HostTold(1, 2, "host-001", "changed", "", None)]
    assert op.step(say(12.0, "pause")) == []


def test_an_answer_that_nobody_waits_for_is_recorded_as_such():
    op = taken(course(2))
    op.step(Started(0.0))
    op.step(judged(1.0))
    assert op.step(answered(5.0, 0, 9)) == [HostTold(0, 9, "host-000", "changed", "", None)]
    assert op.step(answered(6.0, 0, 1))[0].seconds == 5


def test_holds_come_and_go_with_their_reasons():
    op = taken(course(2))
    op.step(Started(0.0))
    op.step(judged(1.0))
    said, held = op.step(say(2.0, "pause", reason="lunch"))
    assert said == CommandSaid("pause", "bob", "lunch")
    assert (held.name, held.reasons, held.by, held.again) == (
        "operator:bob",
        ("lunch",),
        "bob",
        False,
    )
    _, again = op.step(say(3.0, "pause", reason="dinner"))
    assert (again.reasons, again.again) == (("dinner",), True)
    assert op.step(say(3.5, "pause", reason="dinner"))[1:] == []
    _, gone = op.step(say(4.0, "resume"))
    assert gone == HoldCleared("operator:bob", "resumed by bob", "bob")


def test_a_gate_that_fails_and_evidence_that_comes_back():
    op = taken(course(2, gates=[gate(by="evidence")]))
    op.step(Started(0.0))
    told, held = op.step(judged(1.0, "fail"))
    assert isinstance(told, GateTold)
    assert (held.name, held.by) == ("gate:margin", "")
    op.step(judged(2.0))
    gone, _asked = op.step(Ticked(22.0))
    assert gone == HoldCleared("gate:margin", "evidence good for 20 s; on at half the pace", "")


def test_a_verdict_of_an_earlier_watch_does_not_count():
    op = taken(course(2))
    op.step(Started(0.0))
    assert op.step(WatchAgain(1.0)) == [WatchBegun(2)]
    assert [told.counted for told in op.step(judged(2.0, turn=1))] == [False]


def test_a_lost_watcher_is_recorded_once_with_the_holds_it_raises():
    op = taken(course(2))
    op.step(Started(0.0))
    begun, held = op.step(WatcherLost(1.0, 1, "heartbeat"))
    assert begun == WatchBegun(2, "heartbeat")
    assert isinstance(held, HoldRaised)
    assert op.step(WatcherLost(2.0, 1, "heartbeat")) == []


def test_a_command_that_is_refused_is_recorded_with_why():
    op = taken(course(2))
    op.step(Started(0.0))
    assert op.step(say(1.0, "resume")) == [CommandSaid("resume", "bob", refusal="nothing is held")]


def test_approvals_say_by_whom():
    op = taken(course(2, approvals=(approval(count=1),)))
    assert isinstance(op.step(Started(0.0))[1], HoldRaised)
    said, gone = op.step(say(1.0, "approve", point="start"))
    assert (said.verb, said.by, said.point) == ("approve", "bob", "start")
    assert said.options == ()
    assert gone == HoldCleared("approval:start", "approved by bob", "bob")


# ---------------------------------------------------------------- what is kept of texts


def test_no_password_in_a_url_and_no_endless_output():
    assert text("no answer from http://ann:secret@db:9090/x") == "no answer from http://…@db:9090/x"
    assert text("x" * 2000) == "x" * MOST_TEXT + "…"
    op = taken(course(2))
    op.step(Started(0.0))
    op.step(judged(1.0))
    reason = "curl https://token@example.test failed " + "x" * 2000
    for record in op.step(answered(2.0, 0, 1, "unknown", reason)):
        assert "token" not in str(record)
        assert len(str(record)) < 2 * MOST_TEXT


def test_a_gates_query_and_source_are_not_recorded():
    op = taken(course(2))
    op.step(Started(0.0))
    verdict = replace(
        judgement(Turn(1.0, "margin", "fail")), query="up{token='x'}", source="http://a:b@c"
    )
    for record in op.step(GateJudged(1.0, 1, verdict)):
        assert "token" not in str(record)
        assert "http" not in str(record)


def test_a_hold_shared_by_many_hosts_stays_short():
    state = State(course(2), "op", phase="running")
    many = Hold(
        "host:a", 1.0, tuple(f"h{n} is unknown" for n in range(500)), "x", hosts=tuple(range(500))
    )
    after = Decision(replace(state, holds=(many,)))
    (made,) = entries(state, Ticked(1.0), after, number=3)
    assert made.record.reasons[-1] == f"and {500 - MOST_REASONS} more"
    assert len(content_of(made)) < 2_000


# ---------------------------------------------------------------- any story


@given(stories())
@settings(max_examples=80)
def test_a_journal_tells_the_whole_story(story):
    """From the records alone: which hosts are open, which holds stand, how it ended."""
    plan, script = story
    run = drive(plan, script, until=700.0)
    state = State(plan, run.state.name, asked_by=script.asked_by)
    holds, asked, told = {}, {}, {}
    ended = None
    for number, moment in enumerate(run.moments):
        decision = decide(state, moment.event)
        for made in entries(state, moment.event, decision, number=number):
            content_of(made)
            match made.record:
                case HoldRaised(name=name, again=again):
                    assert again == (name in holds)
                    holds[name] = made.record
                case HoldCleared(name=name):
                    del holds[name]
                case HostAsked(index=index, turn=turn):
                    asked[turn] = index
                case HostTold(index=index, turn=turn, seconds=seconds) if seconds is not None:
                    assert asked[turn] == index
                    assert turn not in told
                    told[turn] = made.record.outcome
                case Ended(phase=phase):
                    assert ended is None
                    ended = phase
        state = decision.state
        assert set(holds) == {hold.name for hold in state.holds}
        assert set(asked) - set(told) == {flight.turn for flight in state.in_flight}
    assert state == run.state
    assert ended == (state.phase if state.finished else None)
