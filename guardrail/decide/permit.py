"""What does an operation answer when a worker asks whether hosts may begin, and whom does it let?

One answer serves all hosts of the operation for 0.3 s, so it must say for whom it is. A turn can
be asked about by who has it no more: a worker that stood still, came back, and does not know that
its host was given up and answered for by somebody else. Such a zombie is refused here, by the
operation; the host's own token stands behind that.

    turn in flight                 yes
    turn newer than the answer     yes: it was given after the answer was made, so less than 0.3 s
                                   ago, and no work is lost and done again by others within that
    any other turn                 no: it has been answered
    another operation of the name  no

The order of turns stands for time: no clock of one machine is compared with another's.
"""

from dataclasses import replace

from guardrail.decide.transition import may_begin
from guardrail.model.messages import MayBegin
from guardrail.model.operation import State


def permit(state: State, reason: str = "", run: str = "") -> MayBegin:
    """The answer for all hosts. reason: what the operation does or is held on; run: which it is."""
    turns = tuple(flight.turn for flight in state.in_flight)
    return MayBegin(may_begin(state), reason, turns, state.turn, run)


def for_turn(answer: MayBegin, turn: int, run: str = "") -> MayBegin:
    """The same answer for the host that was asked with this turn, by that run."""
    if not answer.allowed:
        return answer
    if run and answer.run and run != answer.run:
        return replace(answer, allowed=False, reason="another operation has this name now")
    if turn <= answer.newest and turn not in answer.turns:
        told = f"turn {turn} is not in flight any more: its host was answered for"
        return replace(answer, allowed=False, reason=told)
    return answer
