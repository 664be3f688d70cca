"""An operation that is told one event after another, and what it asked for."""

from guardrail.decide.transition import decide
from guardrail.model.operation import GateJudged, HostAnswered, Started, State, Ticked
from guardrail.twins import Turn, judgement


class Told:
    """Begun at `at` with this course; `asked` are the hosts that it asked to begin."""

    def __init__(self, plan, at):
        self.state, self.asked, self.now, self.wake = State(plan, "x"), [], at, None
        self(Started(at))

    def __call__(self, event):
        self.now = event.at
        decision = decide(self.state, event)
        self.state, self.wake = decision.state, decision.wake_at
        self.asked += [act.index for act in decision.actions if act.kind == "begin_host"]
        return self

    def judged(self, at, verdict="pass"):
        """What every gate says now."""
        for rule in self.state.course.gates:
            told = judgement(Turn(at, rule.name, verdict))
            self(GateJudged(at, self.state.watch_turn, told))

    def answer(self, at, index, outcome="changed"):
        turn = self.state.flight(index).turn
        return self(HostAnswered(at, index, turn, outcome, f"host-{index:03d}"))

    def tick_until(self, at):
        """Time passes, and whenever it asks to be woken it is."""
        while self.wake is not None and self.wake <= at:
            self(Ticked(self.wake))
        return self(Ticked(at))

    @property
    def holds(self):
        return [hold.name for hold in self.state.holds]
