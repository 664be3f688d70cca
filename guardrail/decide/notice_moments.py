"""Which moments of an operation are worth telling somebody who does not look?

A hold that a person must clear, at once; one that ends by itself, if it lasts; an approval that is
wanted; that it turned back, and that it came to an end. All of it follows from the state alone.
"""

import dataclasses
from collections.abc import Iterator

from guardrail.decide import evolve
from guardrail.decide.catalog_holds import goes_on_by_itself
from guardrail.decide.explain import advice, first_hold, sentence
from guardrail.decide.freeze_holds import FREEZE
from guardrail.decide.holds import ABORT
from guardrail.decide.leasing import OWN
from guardrail.decide.record import text
from guardrail.decide.rollback import binding
from guardrail.decide.windows import BY_A_PERSON, WINDOW
from guardrail.model.board import Tiding, Tidings
from guardrail.model.notice import MessageKind
from guardrail.model.operation import Hold, State

LASTS = 300.0
"""Seconds after which a hold that ends by itself, or with evidence, is worth a message."""
PLANNED = 3600.0
"""The same of what others have and give back: a freeze, a lease."""
CLOSED = 86_400.0
"""The same of a window: it is closed because a policy says so, every day."""
MOST_REASONS = 5
"""Reasons of a hold that are in a message; all are in `guardrail rollout explain`."""

Mark = tuple[tuple[str, float, int], ...]
NOTHING: Mark = (("back", 0.0, 0),)
"""The mark of an operation of which there is nothing to tell."""


def mark(state: State) -> Mark:
    """What of a state has to change for anything new to be told: cheap, since every event asks.

    Of many holds of one kind only the order of their number counts, so that a thousand hosts that
    fail one after the other are told ten times, not a thousand.
    """
    holds: dict[str, tuple[float, int]] = {}
    for hold in binding(state) if not state.finished else ():
        like = _like(hold)
        patience, count = holds.get(like, (CLOSED, 0))
        holds[like] = (min(patience, _patience(state, hold)), count + max(1, len(hold.hosts)))
    once = ("end", 0.0, 1) if state.finished else ("back", 0.0, int(state.direction == "back"))
    return (*((like, *_order(*found)) for like, found in sorted(holds.items())), once)


def _order(patience: float, count: int) -> tuple[float, int]:
    return patience, count.bit_length()


def tidings(state: State, run: str, number: int, at: float) -> Tidings:
    """All that stands in an operation now."""
    standing = tuple(_ends(state)) if state.finished else (*_holds(state), *_turned(state))
    if state.course.shadow:
        standing = tuple(map(_of_a_shadow, standing))
    return Tidings(state.name, run, number, at, standing, over=state.finished)


def _of_a_shadow(said: Tiding) -> Tiding:
    """It is never said together with what stands in earnest."""
    like, what, many = f"shadow:{said.like}", f"{said.what} (shadow)", f"{said.many} (shadow)"
    return dataclasses.replace(said, like=like, what=what, many=many)


# ---------------------------------------------------------------- holds


def _holds(state: State) -> Iterator[Tiding]:
    alike: dict[str, list[Hold]] = {}
    for hold in binding(state):
        alike.setdefault(_like(hold), []).append(hold)
    for like, holds in sorted(alike.items()):
        yield _hold(state, like, holds)


def _like(hold: Hold) -> str:
    """What holds of other operations are the same: by their name, but for those of single hosts."""
    family, _, _ = hold.name.partition(":")
    return f"hold:{'host' if family == 'host' else hold.name}"


def _hold(state: State, like: str, holds: list[Hold]) -> Tiding:
    first = holds[0]
    count = sum(max(1, len(hold.hosts)) for hold in holds)
    kind, what, many = _words(first, count)
    reasons = [text(reason) for hold in holds for reason in hold.reasons]
    more = len(reasons) - MOST_REASONS
    lines = (*reasons[:MOST_REASONS], *((f"and {more} more",) if more > 0 else ()))
    patience = min(_patience(state, hold) for hold in holds)
    return Tiding(
        like=like,
        kind=kind,
        what=what,
        many=many,
        lines=(*lines, *_end(state, first)),
        patience=patience,
        count=count,
    )


def _words(hold: Hold, count: int) -> tuple[MessageKind, str, str]:
    family, _, name = hold.name.partition(":")
    if family == "approval":
        return "approval", f"waits for approval at {name}", f"wait for approval at {name}"
    many_hosts = family == "host" and count > 1
    held = f"{hold.name} and {count - 1} more like it" if many_hosts else hold.name
    general = family if family == "host" else hold.name
    return "hold", f"is held on {held}", f"are held on {general}"


def _patience(state: State, hold: Hold) -> float:
    """How long it has to stand; 0: a person has to do something about it."""
    if hold.name == WINDOW:
        return 0.0 if hold.clears.startswith(BY_A_PERSON) else CLOSED
    if hold.name == FREEZE or (hold.name in OWN and not state.lease_broken):
        return PLANNED
    by_itself = goes_on_by_itself(hold) or hold.name == ABORT
    evidence = hold.name.startswith("evidence:") or hold.clears.startswith("evidence")
    return LASTS if by_itself or evidence else 0.0


def _end(state: State, hold: Hold) -> tuple[str, ...]:
    """The state, what happens if nobody acts, and the command most likely right for this hold."""
    alone = state if hold is first_hold(state) else evolve.replace(state, holds=(hold,))
    return (f"{state.name}: {sentence(state)}.", *advice(alone))


# ---------------------------------------------------------------- turning back, and the end


def _turned(state: State) -> Iterator[Tiding]:
    if state.direction == "back":
        begun = [note.text for note in state.story if note.text.startswith("rollback of ")]
        yield Tiding(
            like="rollback:begun",
            kind="rollback",
            what="is going back",
            many="are going back",
            lines=(*map(text, begun[-1:]), f"{state.name}: {sentence(state)}.", *advice(state)),
            lasts=False,
        )


def _ends(state: State) -> Iterator[Tiding]:
    back = state.phase == "rolled_back"
    ended = "came back" if back else state.phase
    words = {"completed": "has completed", "aborted": "was aborted"}.get(state.phase, ended)
    yield Tiding(
        like=f"end:{state.phase}",
        kind="rollback" if back else "finish",
        what=words,
        many=words.replace("has ", "have ").replace("was ", "were "),
        lines=(
            *(text(reason) for reason in state.finish_reasons[:MOST_REASONS]),
            f"{state.name}: {sentence(state)}.",
            "If nobody acts nothing more happens.",
            f"guardrail rollout report {state.name}",
        ),
        lasts=False,
    )
