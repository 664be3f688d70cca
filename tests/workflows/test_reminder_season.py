"""A whole season of reminders by time skipping: the workflow does what the engine decides."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from decide.reminders import DAY, HOUR, LEADS, VERIFY, World, reminder
from reminder_world import Told, skipping_server

from guardrail.decide.occasions import moments
from guardrail.decide.proving import standing
from guardrail.edges.holidays import free_for
from guardrail.edges.reminders import Reminding
from guardrail.errors import Refused
from guardrail.model.occasion import Occasion, WorkingDay
from guardrail.model.remind import REMINDER, ReminderInput, Word, reminder_id
from guardrail.model.reminder import (
    Acked,
    DoneSaid,
    ReadWanted,
    ReminderState,
    Snoozed,
    TicketGiven,
    Wanted,
)

pytestmark = pytest.mark.temporal
ZONES = {
    "US": "America/Los_Angeles",
    "GB-ENG": "Europe/London",
    "GB-SCT": "Europe/London",
    "JP": "Asia/Tokyo",
    "NZ": "Pacific/Auckland",
}
OCTOBER = datetime(2026, 10, 1, tzinfo=UTC).timestamp()
MARCH = datetime(2027, 3, 1, tzinfo=UTC).timestamp()
OUTAGE = (
    datetime(2026, 12, 20, 12, tzinfo=UTC).timestamp(),
    datetime(2026, 12, 22, 12, tzinfo=UTC).timestamp(),
)
"""Two days, over the second lead time of all five regions."""
GOOD = {"quota": 50.0, "verify": 60.0}
LATE = 120.0
"""Seconds that a message may come after its moment here."""


def season(region: str) -> Wanted:
    """The reminder of a region; read twice a day, so that a season is quick."""
    occasion = Occasion(ZONES[region], 360, 5 * DAY, working_day=WorkingDay(region, 1))
    found = moments(occasion, free_for(occasion, OCTOBER, MARCH), OCTOBER, MARCH)
    name = f"gateway-{region.lower()}"
    verify = replace(VERIFY, every=DAY / 2)
    return Wanted(reminder(name=name, occasion=occasion, verify=verify), found[0])


def shifted(wanted: Wanted, by: float) -> Wanted:
    """The same so many seconds later: the server's time begins today."""
    moment = wanted.moment
    there = replace(moment, begins_at=moment.begins_at + by, ends_at=moment.ends_at + by)
    return replace(wanted, moment=there)


def people(wanted: Wanted):
    """Who does what and when: acknowledged by the deputy, put off, prepared, said to be done."""
    first, _, third = (wanted.moment.begins_at - lead.before for lead in LEADS)
    back = OUTAGE[1]
    return (
        (first + 5 * HOUR, Word("ack-1", "ack", "bob")),
        (back + HOUR, Word("snooze", "snooze", "ann", reason="holidays", until=2 * DAY)),
        (back + 2 * DAY + 2 * HOUR, Word("ack-2", "ack", "ann")),
        (third + HOUR, Word("ticket", "ticket", "ann", task="ask", text="CASE-7")),
        (third + 3 * HOUR, Word("done", "done", "ann")),
    )


def expected(wanted: Wanted) -> World:
    """The engine alone, driven by time, with the same people and the same outage."""
    world = World(wanted, now=OCTOBER, down=(OUTAGE,))

    def does(word: Word):
        def act(there: World) -> None:
            match word.verb:
                case "ack":
                    there.say(Acked(there.now, word.by))
                case "snooze":
                    there.say(Snoozed(there.now, word.by, there.now + word.until, word.reason))
                case "ticket":
                    there.values.update(GOOD)
                    there.say(TicketGiven(there.now, word.by, word.task, word.text))
                case "done":
                    there.say(ReadWanted(there.now))
                    there.say(DoneSaid(there.now, word.by))

        return act

    world.until(MARCH, [(at, does(word)) for at, word in people(wanted)])
    return world


async def test_a_season_of_five_regions_with_an_outage_of_two_days():
    regions = {region: season(region) for region in ZONES}
    told = Told()
    async with skipping_server() as env:
        by = (await env.get_current_time()).timestamp() - OCTOBER
        handles = {}
        for region, wanted in regions.items():
            handles[region] = await env.client.start_workflow(
                REMINDER,
                ReminderInput(shifted(wanted, by)),
                id=reminder_id(wanted.id),
                task_queue="guardrail",
                result_type=ReminderState,
            )
        desk = Reminding(env.client)
        todo = [
            (at + by, region, word)
            for region, wanted in regions.items()
            for at, word in people(wanted)
        ]
        todo.sort(key=lambda each: each[0])
        told.outage = (OUTAGE[0] + by, OUTAGE[1] + by)
        async with told.worker(env.client):
            await _act(env, desk, told, regions, todo)
            ends = {region: await handle.result() for region, handle in handles.items()}
    for region, wanted in regions.items():
        world = expected(wanted)
        sent = told.sent[wanted.id]
        assert [to for _, to in sent] == [to for _, to in world.told], region
        for (at, _), (moment, _) in zip(sent, world.told, strict=True):
            assert 0 <= at - by - moment < LATE, (region, at - by - moment)
        assert standing(ends[region]) == standing(world.state) == "done"
        assert (ends[region].over, ends[region].verified) == (True, True)
        assert ends[region].settled == world.state.settled
    assert len(told.causes) == len(set(told.causes))
    assert len(told.entries) == len(told.causes)


async def _until(env, at: float) -> None:
    left = at - (await env.get_current_time()).timestamp()
    if left > 0:
        await env.sleep(left)


async def _act(env, desk, told, regions, todo) -> None:
    for at, region, word in todo:
        await _until(env, at)
        now = (await env.get_current_time()).timestamp()
        said = replace(word, until=now + word.until if word.until else 0.0)
        name = regions[region].id
        if word.verb == "ticket":
            told.values[regions[region].reminder.name] = dict(GOOD)
        if word.verb == "done":
            assert standing(await desk.state(name)) in ("requested", "verified")
        await desk.say(name, said)


async def test_done_reads_first_and_is_refused_with_what_it_found():
    told = Told()
    async with skipping_server() as env, told.worker(env.client):
        now = (await env.get_current_time()).timestamp()
        wanted = shifted(season("US"), now + 10 * DAY - season("US").moment.begins_at)
        await env.client.start_workflow(
            REMINDER,
            ReminderInput(wanted),
            id=reminder_id(wanted.id),
            task_queue="guardrail",
        )
        desk = Reminding(env.client)
        with pytest.raises(Refused, match=r"ask .* has no ticket yet"):
            await desk.say(wanted.id, Word(uuid.uuid4().hex, "done", "ann"))
        await desk.say(wanted.id, Word("t", "ticket", "ann", task="ask", text="CASE-1"))
        told.values[wanted.reminder.name] = {"quota": 50.0, "verify": 20.0}
        with pytest.raises(Refused, match="verify is 20, and at least 50 is needed"):
            await desk.say(wanted.id, Word("d1", "done", "ann"))
        told.broken = True
        with pytest.raises(Refused, match="verify cannot be read: the answer does not name it"):
            await desk.say(wanted.id, Word("d3", "done", "ann"))
        told.broken = False
        told.values[wanted.reminder.name] = dict(GOOD)
        state = await desk.say(wanted.id, Word("d2", "done", "ann"))
        assert standing(state) == "done"
        with pytest.raises(Refused, match="say who you are"):
            await desk.say(wanted.id, Word("a", "ack", " "))
        with pytest.raises(Refused, match="is no step"):
            await desk.say(wanted.id, Word("x", "ticket", "ann", task="asks", text="CASE-1"))
