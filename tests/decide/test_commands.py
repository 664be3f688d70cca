"""What a person may say, when it is refused, and with which words."""

import pytest

from guardrail.decide.commands import answer, obey, refusal
from guardrail.decide.transition import decide
from guardrail.model.plan import Caps
from guardrail.twins import Script, Turn, Work, drive

from builders import approval, course, say, signed


def stopped(*, outcomes=("changed",), gates=(), people=(), approvals=(), until=100.0):
    """An operation on two hosts after 100 s."""
    plan = course(2, caps=Caps(2, 2, 3, 0), approvals=approvals)
    works = dict(enumerate(outcomes))

    def work(begin, _now):
        return Work(0.0, 0.0, 5.0, works.get(begin.index, "changed"))

    return drive(plan, Script(work, tuple(gates), tuple(people)), until=until).state


FAILING = (Turn(3.0, "margin", "fail"),)
BACK = (*FAILING, Turn(50.0, "margin", "pass"))
PAUSED = (say(2, "pause"),)
POINT = (approval(),)


@pytest.mark.parametrize(
    ("given", "said", "words"),
    [
        ({"people": PAUSED}, say(100, "pause", ""), "say who you are"),
        ({"until": 1e4}, say(1e4, "pause"), "the operation is completed already"),
        ({"until": 20.0}, say(20, "resume"), "nothing is held"),
        ({"people": PAUSED}, say(100, "resume", "cid"), "operator:bob ends by bob (resume)"),
        ({"people": PAUSED}, say(100, "resume", "cid", over="bob"), "needs --reason"),
        ({"people": PAUSED}, say(100, "resume", over="ann", reason="x"), "ann holds nothing"),
        ({"gates": FAILING}, say(100, "resume"), "gate:margin ends by a person (resume), once"),
        ({"approvals": POINT}, say(100, "approve", point="25%"), "points of this plan: start"),
        ({"approvals": POINT}, say(100, "approve", "ann", point="start"), "ann asked for this"),
        ({"outcomes": ("failed",)}, say(100, "retry", hosts=("host-001",)), "are: host-000"),
        ({"people": PAUSED}, say(100, "skip"), "Hosts that are: none"),
    ],
)
def test_refused(given, said, words):
    state = stopped(**given)
    why = refusal(state, said)
    assert why is not None
    assert words in why
    assert obey(state, said) == state


def test_approving_twice_is_refused():
    state = stopped(approvals=(approval(count=2),), people=[signed(9, "approve", point="start")])
    why = refusal(state, signed(100, "approve", point="start"))
    assert why == "bob has approved start already"


def test_while_aborting_nobody_pauses_or_aborts_again():
    aborting = drive(course(2), Script(people=(say(2, "abort"),)), until=3.0).state
    assert refusal(aborting, say(3, "abort")) == "it is being aborted already"
    assert "aborted: nothing new begins" in str(refusal(aborting, say(3, "pause")))


@pytest.mark.parametrize(
    ("given", "said", "left"),
    [
        ({"people": PAUSED}, say(100, "resume"), []),
        ({"people": PAUSED}, say(100, "resume", "cid", over="bob", reason="asleep"), []),
        ({"people": PAUSED}, say(100, "pause", "cid"), ["operator:bob", "operator:cid"]),
        ({"gates": BACK}, say(100, "resume"), []),
        ({"approvals": POINT}, say(100, "approve", point="start"), []),
        ({"approvals": (approval(count=2),)}, signed(100, "approve", point="start"),
         ["approval:start"]),
        ({"outcomes": ("failed",)}, say(100, "retry"), []),
        ({"outcomes": ("failed",)}, say(100, "skip", hosts=("host-000",)), []),
        ({"outcomes": ("credentials", "unknown")}, say(100, "retry", hosts=("host-001",)),
         ["host:host-000"]),
    ],
)  # fmt: skip
def test_obeyed(given, said, left):
    before = stopped(**given)
    assert refusal(before, said) is None
    after = decide(before, said).state
    assert [hold.name for hold in after.holds] == left
    assert after.story[len(before.story)].text.startswith(f"{said.verb} by {said.by}")


def test_a_host_named_twice_is_dealt_with_once():
    before = stopped(outcomes=("unknown", "unknown"))
    after = decide(before, say(100, "retry", hosts=("host-000", "host-000"))).state
    assert (after.unknown, after.waiting) == (0b10, 0b01)


def test_a_pause_answers_with_an_upper_bound():
    running = drive(course(2), Script(), until=2.0).state
    paused = decide(running, say(2, "pause")).state
    assert answer(paused, say(2, "pause")) == ("nothing new is asked to begin; at most 1 in flight")


def test_a_resume_says_what_still_holds():
    two = stopped(people=[*PAUSED, say(3, "pause", "cid")])
    after = decide(two, say(100, "resume")).state
    assert answer(after, say(100, "resume")).startswith("still held: operator:cid (cid (resume)")
    free = decide(after, say(101, "resume", "cid")).state
    assert answer(free, say(101, "resume", "cid")) == "nothing holds; it settles, bakes and goes on"
