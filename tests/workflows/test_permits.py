"""Permits: one question in flight, good for 0.3 s from sending; silence is not consent."""

import asyncio

import pytest

from guardrail.model.messages import MayBegin
from guardrail_workflows.permits import VALID, Permits


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


YES, NO = MayBegin(True), MayBegin(False, "held on operator:bob", newest=9)


async def test_an_answer_is_shared_and_good_for_three_tenths_of_a_second():
    clock, asked = Clock(), []

    async def ask(operation):
        asked.append(operation)
        return YES

    permits = Permits(ask, clock)
    answers = await asyncio.gather(*(permits.may_begin("op", 1) for _ in range(50)))
    assert answers == [YES] * 50
    assert asked == ["op"]
    clock.now += VALID - 0.01
    await permits.may_begin("op", 1)
    assert len(asked) == 1
    clock.now += 0.02
    await permits.may_begin("op", 1)
    assert len(asked) == 2


async def test_an_answer_that_took_too_long_is_asked_for_again():
    clock, delays = Clock(), [0.4, 0.1]

    async def ask(_):
        clock.now += delays.pop(0)
        return YES if not delays else NO

    assert await Permits(ask, clock).may_begin("op", 1) == YES
    assert delays == []


async def test_an_explicit_no_is_a_no_at_once():
    said = [NO]

    async def ask(_):
        return said.pop()

    assert await Permits(ask, Clock()).may_begin("op", 1) == NO


@pytest.mark.parametrize("then", [NO, YES])
async def test_a_no_from_before_the_host_was_asked_is_asked_anew(then):
    """The watch of the gates asks while all bakes; then the gate passes, and a host is asked."""
    baking = MayBegin(False, "baking", newest=6)
    clock, said = Clock(), [then, baking, baking]

    async def ask(_):
        return said.pop()

    permits = Permits(ask, clock)
    assert await permits.answer("op") == baking
    assert await permits.may_begin("op", 6) == baking
    clock.now += VALID - 0.1
    permits.ahead("op")  # one more is on its way
    assert (await permits.may_begin("op", 7)).allowed == then.allowed
    assert said == []


async def test_who_never_hears_of_a_turn_is_not_asked_for_ever():
    asked = []

    async def ask(_):
        asked.append(NO)
        return NO

    assert await Permits(ask, Clock()).may_begin("op", 10) == NO
    assert len(asked) == 3


async def test_silence_ends_in_a_no_that_says_so():
    clock = Clock()

    async def ask(_):
        clock.now += 3.0
        raise OSError("no worker")

    answer = await Permits(ask, clock).may_begin("op", 1)
    assert not answer.allowed
    assert "no permit within 10 s" in answer.reason


async def test_operations_do_not_share_answers():
    async def ask(operation):
        return YES if operation == "a" else NO

    permits = Permits(ask, Clock())
    assert (await permits.may_begin("a", 1)).allowed
    assert not (await permits.may_begin("b", 1)).allowed


@pytest.mark.parametrize("limit", [0.05])
async def test_a_question_that_hangs_does_not_hang_the_host(limit):
    forever = asyncio.Event()

    async def ask(_):
        await forever.wait()
        return YES

    permits = Permits(ask, patience=limit)
    answer = await permits.may_begin("op", 1)
    assert not answer.allowed
    question = permits._known["op"].question
    question.cancel()


async def test_one_answer_serves_those_in_flight_and_refuses_whose_turn_is_over():
    asked = []

    async def ask(operation):
        asked.append(operation)
        return MayBegin(True, "changing", turns=(4, 7), newest=7, run="a")

    permits = Permits(ask, Clock())
    turns = [4, 5, 7, 8]
    answers = [await permits.may_begin("op", turn, "a") for turn in turns]
    assert [answer.allowed for answer in answers] == [True, False, True, True]
    assert not (await permits.may_begin("op", 8, "b")).allowed
    assert len((await permits.answer("op")).turns) == 2
    assert asked == ["op"]


async def test_an_answer_on_its_way_is_the_one_that_a_ready_host_gets():
    clock, asked = Clock(), []

    async def ask(operation):
        asked.append(operation)
        return YES

    permits = Permits(ask, clock)
    permits.ahead("op")
    permits.ahead("op")  # one question in flight, whoever is about to be ready
    await asyncio.sleep(0)
    clock.now += VALID / 4
    permits.ahead("op")  # it will still be good
    assert await permits.may_begin("op", 1) == YES
    assert asked == ["op"]
    clock.now += VALID
    assert await permits.may_begin("op", 2) == YES
    assert asked == ["op", "op"]
