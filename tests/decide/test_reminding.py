"""Does a reminder reach somebody at its time, once, and is nothing done without evidence?"""

import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reminders import (
    BEGINS,
    DAY,
    HOUR,
    LEADS,
    TASKS,
    VERIFY,
    World,
    moment,
    reminder,
    wanted,
)

from guardrail.decide.occasions import moments
from guardrail.decide.proving import all_hold, missing, standing
from guardrail.decide.reminding import begin, remind
from guardrail.edges.holidays import free_for
from guardrail.errors import Refused
from guardrail.model.occasion import Occasion, WorkingDay
from guardrail.model.reminder import (
    Acked,
    Amended,
    Ask,
    DoneSaid,
    Evidence,
    Lead,
    People,
    ReadWanted,
    Snoozed,
    Task,
    Tick,
    TicketGiven,
    Wanted,
    WasRead,
)

FIRST = BEGINS - 30 * DAY
GOOD = {"quota": 50.0, "verify": 60.0}


def by(name, kind=Acked, **fields):
    """What a person does, at the world's time."""

    def does(world):
        given = dict(fields)
        if "lasting" in given:
            given["until"] = world.now + given.pop("lasting")
        world.say(kind(world.now, name, **given))

    return does


def prepared(world):
    """Everything that is needed, except that somebody says so."""
    world.values.update(GOOD)
    world.say(TicketGiven(world.now, "ann", "ask", "CASE-7"))
    world.say(ReadWanted(world.now))


# ---------------------------------------------------------------- when, and to whom


def test_the_owner_is_told_at_the_first_lead_time_and_not_before():
    world = World(wanted())
    world.until(FIRST - 1)
    assert world.sent == []
    world.until(FIRST)
    assert world.told == [(FIRST, ("ann",))]


def test_nobody_acknowledges_and_it_goes_to_the_deputy_and_then_the_channel():
    world = World(wanted())
    world.until(FIRST + 10 * DAY)
    assert world.told == [
        (FIRST, ("ann",)),
        (FIRST + 4 * HOUR, ("bob",)),
        (FIRST + 8 * HOUR, ("oncall",)),
    ]
    second = world.sent[1][1].message.lines
    assert any("ann has not acknowledged within 4 h" in line for line in second)


def test_an_acknowledgement_by_a_named_person_ends_the_escalation_until_the_next_lead_time():
    world = World(wanted())
    world.until(FIRST + 15 * DAY, [(FIRST + 5 * HOUR, by("bob"))])
    assert world.told[:2] == [(FIRST, ("ann",)), (FIRST + 4 * HOUR, ("bob",))]
    assert world.state.call.by == "bob"
    world.until(BEGINS - 14 * DAY)
    assert world.told[2:] == [(BEGINS - 14 * DAY, ("ann",))]


def test_who_cannot_be_reached_is_passed_over_at_once():
    world = World(wanted(), refusing={"ann", "bob"})
    world.until(FIRST)
    assert world.told == [(FIRST, ("ann",)), (FIRST, ("bob",)), (FIRST, ("oncall",))]
    assert "ann could not be reached" in world.sent[1][1].message.lines[1]


def test_where_nobody_can_be_reached_the_channel_is_tried_again_and_again():
    world = World(wanted(), refusing={"ann", "bob", "oncall"})
    world.until(FIRST + 8 * HOUR)
    assert [at for at, to in world.told if to == ("oncall",)] == [
        FIRST,
        FIRST + 4 * HOUR,
        FIRST + 8 * HOUR,
    ]
    world.refusing.clear()
    world.until(FIRST + 5 * DAY)
    assert world.told[-1] == (FIRST + 12 * HOUR, ("oncall",))


def test_lead_times_closer_than_the_limit_do_not_keep_it_at_the_owner():
    often = tuple(Lead("ticket", hours * HOUR) for hours in range(12, 0, -1))
    world = World(wanted(leads=often, tasks=TASKS[:1], verify=None))
    world.until(BEGINS - HOUR)
    assert "oncall" in {name for _, to in world.told for name in to}


def test_a_message_says_what_when_and_why_and_ends_with_what_to_do():
    world = World(Wanted(reminder(), moment(estimate=True, known_by=("holidays 0.109",))))
    world.until(FIRST)
    message = world.sent[0][1].message
    assert message.subject == "gateway: transit gateway to 50 Gbit/s: 30 d left"
    assert message.lines == (
        "gateway: transit gateway to 50 Gbit/s.",
        "Why now: ticket 30 d before it begins.",
        ("When: 1970-04-11 00:00 UTC (first working day); an estimate, the day may still move."),
        "It rests on: holidays 0.109.",
        "- ask: ask the provider; needs a ticket such as CASE-[0-9]+",
        "- quota: see the quota; needs above 49",
        (
            "State: open, not done: ask has no ticket; quota cannot be read: nobody has asked "
            "yet; verify cannot be read: nobody has asked yet."
        ),
        "If nobody acknowledges it by 1970-03-12 04:00 UTC, bob is told.",
        "guardrail remind ack gateway/2027",
    )


def test_steps_that_have_their_evidence_are_not_spoken_of():
    world = World(wanted(), values={"quota": 50.0})
    world.until(BEGINS - 4 * DAY, [(FIRST, by("ann"))])
    assert [at for at, _ in world.told] == [FIRST]
    assert any("have their evidence already" in note.text for note in world.state.story)


def test_the_occasion_begins_and_all_hear_that_it_is_not_done():
    world = World(wanted())
    world.until(BEGINS)
    at, to = world.told[-1]
    assert (at, to) == (BEGINS, ("ann", "bob", "oncall"))
    world.until(BEGINS + 5 * DAY)
    last = world.sent[-1][1].message
    assert (world.told[-1][0], world.wake, world.state.over) == (BEGINS + 2 * DAY, None, True)
    assert "nobody said that it was done" in last.lines[1]
    assert len(world.told) == len({send.message.cause for _, send in world.sent})


# ---------------------------------------------------------------- snooze


def test_a_snooze_is_quiet_until_it_ends_and_says_what_it_covered():
    world = World(wanted())
    snooze = by("ann", Snoozed, lasting=2 * DAY, reason="the provider is closed")
    world.until(BEGINS - 13 * DAY, [(BEGINS - 15 * DAY, snooze)])
    late = [(at, to) for at, to in world.told if at > BEGINS - 15 * DAY]
    assert late == [(BEGINS - 13 * DAY, ("ann",))]
    why = world.sent[-1][1].message.lines[1]
    assert "ann had put it off until now: the provider is closed" in why
    assert "quota 14 d before it begins (some of it should have been said earlier)" in why


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"until": FIRST + DAY, "reason": " "}, "a reason is needed"),
        ({"until": FIRST - 1, "reason": "x"}, "a later time"),
        ({"until": FIRST + 3 * DAY + 1, "reason": "x"}, "for 3 d at most"),
        ({"until": BEGINS, "reason": "x"}, "the occasion begins at 1970-04-11 00:00 UTC"),
    ],
)
def test_a_snooze_has_a_reason_and_a_limit(fields, said):
    world = World(wanted())
    world.until(FIRST)
    with pytest.raises(Refused, match=said):
        remind(world.state, Snoozed(FIRST, "ann", **fields))


def test_it_can_be_put_off_so_many_times_only():
    world = World(wanted())
    snooze = by("ann", Snoozed, lasting=HOUR, reason="x")
    world.until(FIRST + 5 * HOUR, [(FIRST + n * HOUR, snooze) for n in (0, 1, 2)])
    with pytest.raises(Refused, match="put off 3 times already"):
        remind(world.state, Snoozed(world.now, "ann", world.now + HOUR, "x"))


# ---------------------------------------------------------------- evidence


def test_requested_confirmed_verified_and_done_are_four_things():
    world = World(wanted())
    world.until(FIRST)
    assert standing(world.state) == "open"
    by("ann", TicketGiven, task="ask", text="CASE-7")(world)
    assert standing(world.state) == "requested"
    world.values["quota"] = 50.0
    world.until(FIRST + HOUR)
    assert standing(world.state) == "confirmed"
    world.values["verify"] = 50.0
    world.until(FIRST + 2 * HOUR)
    assert standing(world.state) == "verified"
    by("ann", DoneSaid)(world)
    assert standing(world.state) == "done"
    count = len(world.sent)
    world.until(BEGINS + 10 * DAY)
    assert len(world.sent) == count
    assert world.state.over


@pytest.mark.parametrize(
    ("values", "ticket", "said"),
    [
        ({}, "CASE-7", "quota cannot be read: no data"),
        ({"quota": 49.0, "verify": 60.0}, "CASE-7", "quota is 49, and above 49 is needed"),
        ({"quota": 50.0, "verify": 49.0}, "CASE-7", "verify is 49, and at least 50 is needed"),
        ({"quota": 50.0, "verify": 60.0}, "", "has no ticket yet: a ticket such as CASE"),
    ],
)
def test_done_is_refused_with_what_is_missing(values, ticket, said):
    world = World(wanted(), values=dict(values))
    world.until(FIRST)
    if ticket:
        world.say(TicketGiven(FIRST, "ann", "ask", ticket))
    with pytest.raises(Refused, match=said):
        remind(world.state, DoneSaid(FIRST, "ann"))


def test_done_wants_readings_of_just_now():
    world = World(wanted())
    world.until(FIRST)
    prepared(world)
    with pytest.raises(Refused, match="quota, verify: read longer ago than 5 min"):
        remind(world.state, DoneSaid(FIRST + 301, "ann"))
    with pytest.raises(Refused, match="say who you are"):
        remind(world.state, DoneSaid(FIRST, " "))


@pytest.mark.parametrize(
    ("task", "text", "said"),
    [
        ("ask", "CASE-", "is no ticket such as CASE"),
        ("quota", "CASE-7", "`quota` is read back by a query; steps with a ticket: ask"),
        ("asks", "CASE-7", "`asks` is no step"),
    ],
)
def test_a_ticket_has_to_look_like_one(task, text, said):
    state = begin(wanted(), 0.0).state
    with pytest.raises(Refused, match=said):
        remind(state, TicketGiven(0.0, "ann", task, text))


def test_what_was_done_and_then_fails_is_open_again_and_escalates():
    world = World(wanted())
    world.until(FIRST)
    prepared(world)
    by("ann", DoneSaid)(world)
    count = len(world.sent)
    world.values["verify"] = 20.0
    world.until(FIRST + 9 * HOUR)
    again = world.told[count:]
    assert again == [
        (FIRST + HOUR, ("ann",)),
        (FIRST + 5 * HOUR, ("bob",)),
        (FIRST + 9 * HOUR, ("oncall",)),
    ]
    assert "verify is 20, and at least 50 is needed" in world.sent[count][1].message.lines[1]
    assert world.state.done_by == ""


def test_what_cannot_be_read_for_a_while_is_not_verified_any_more():
    world = World(wanted())
    world.until(FIRST)
    prepared(world)
    by("ann", DoneSaid)(world)
    count = len(world.sent)
    world.values.clear()
    world.until(FIRST + 2 * HOUR)
    assert world.state.done_by == "ann"
    world.until(FIRST + 3 * HOUR)
    assert world.state.done_by == ""
    assert "cannot be read: no data" in world.sent[count][1].message.lines[1]


def test_a_gap_in_the_readings_that_ends_is_forgiven():
    world = World(wanted())
    world.until(FIRST)
    prepared(world)
    for hour in range(1, 20):
        world.values.update(GOOD if hour % 2 else {"verify": None})
        world.until(FIRST + hour * HOUR)
    assert world.state.verified
    assert len(world.sent) == 3  # the first message, to three


def test_it_is_read_again_until_the_occasion_is_over():
    world = World(wanted(), values=dict(GOOD))
    world.until(BEGINS + 10 * DAY)
    times = [at for at, _ in world.asks]
    assert times[0] == FIRST
    assert times[-1] == BEGINS + 2 * DAY - HOUR
    assert {b - a for a, b in pairwise(times)} == {HOUR}


def test_a_late_answer_to_an_older_question_says_nothing():
    world = World(wanted())
    world.until(FIRST)
    turn = world.state.asked
    good = tuple(replace(each, value=99.0) for each in world.state.readings)
    late = remind(world.state, WasRead(FIRST, turn - 1, good)).state
    assert standing(late) == "open"
    assert not late.verified
    assert remind(world.state, WasRead(FIRST, turn, good)).state.verified


def test_an_answer_that_leaves_something_out_verifies_nothing():
    world = World(wanted())
    world.until(FIRST)
    good = tuple(replace(each, value=99.0) for each in world.state.readings)
    state = remind(world.state, WasRead(FIRST, world.state.asked, good[:1])).state
    assert not state.verified


def test_without_queries_done_needs_its_tickets():
    world = World(wanted(leads=LEADS[:1], tasks=TASKS[:1], verify=None))
    world.until(FIRST)
    with pytest.raises(Refused, match="has no ticket"):
        remind(world.state, DoneSaid(FIRST, "ann"))
    by("ann", TicketGiven, task="ask", text="CASE-1")(world)
    by("ann", DoneSaid)(world)
    assert standing(world.state) == "done"
    assert world.asks == []


# ---------------------------------------------------------------- what changes on the way


def test_a_day_that_moves_is_told_to_who_knew_the_old_one():
    world = World(wanted())
    world.until(FIRST, [(FIRST, by("ann"))])
    world.say(Amended(FIRST + HOUR, wanted(BEGINS + DAY)))
    assert world.told[-1] == (FIRST, ("ann",))
    assert "the day has moved from 1970-04-11" in world.sent[-1][1].message.lines[1]
    same = remind(world.state, Amended(FIRST + HOUR, wanted(BEGINS + DAY)))
    assert same.actions == ()


def test_a_day_that_moves_before_anybody_knew_it_is_told_at_its_time():
    world = World(wanted())
    world.say(Amended(HOUR, wanted(BEGINS - DAY)))
    world.until(FIRST)
    assert world.told == [(FIRST - DAY, ("ann",)), *world.told[1:]]


def test_a_document_that_asks_for_more_opens_what_was_done():
    world = World(wanted())
    world.until(FIRST)
    prepared(world)
    by("ann", DoneSaid)(world)
    more = Task("call", "call them", "ticket", Evidence("ticket", pattern="CALL-[0-9]+"))
    world.say(Amended(FIRST, wanted(tasks=(*TASKS, more))))
    assert world.state.done_by == ""
    assert "it was done, and now needs more: call" in world.sent[-1][1].message.lines[1]


def test_nothing_is_taken_once_it_is_over():
    world = World(wanted())
    world.until(BEGINS + 3 * DAY)
    for said in (Acked(world.now, "ann"), DoneSaid(world.now, "ann")):
        with pytest.raises(Refused, match="is over"):
            remind(world.state, said)
    with pytest.raises(Refused, match="nothing of gateway/2027 was sent yet"):
        remind(begin(wanted(), 0.0).state, Acked(0.0, "ann"))


# ---------------------------------------------------------------- outages


def test_an_outage_of_two_days_drops_nothing_and_says_it_once():
    down = (BEGINS - 15 * DAY, BEGINS - 13 * DAY)
    with_it, without = World(wanted(), down=(down,)), World(wanted())
    for world in (with_it, without):
        world.until(BEGINS + 5 * DAY, [(FIRST + HOUR, by("ann"))])
    assert [to for _, to in with_it.told] == [to for _, to in without.told]
    assert (BEGINS - 13 * DAY, ("ann",)) in with_it.told
    assert with_it.state.settled == without.state.settled


def test_after_an_outage_over_several_lead_times_there_is_one_message_about_all():
    world = World(wanted(), down=((FIRST - DAY, BEGINS - 2 * DAY),))
    world.until(BEGINS - 2 * DAY)
    ((at, send),) = world.sent
    assert at == BEGINS - 2 * DAY
    for lead in ("ticket 30 d", "quota 14 d", "quota 3 d"):
        assert lead in send.message.lines[1]


# ---------------------------------------------------------------- a whole season

ZONES = {
    "US": "America/Los_Angeles",
    "GB-ENG": "Europe/London",
    "GB-SCT": "Europe/London",
    "JP": "Asia/Tokyo",
    "NZ": "Pacific/Auckland",
}
SEASON = {
    "US": "2027-01-04T06:00:00-08:00",
    "GB-ENG": "2027-01-04T06:00:00+00:00",
    "GB-SCT": "2027-01-05T06:00:00+00:00",
    "JP": "2027-01-04T06:00:00+09:00",
    "NZ": "2027-01-05T06:00:00+13:00",
}


def season(region: str) -> tuple[Wanted, float, float]:
    """The reminder of a region from October to February."""
    first = datetime(2026, 10, 1, tzinfo=UTC).timestamp()
    last = datetime(2027, 3, 1, tzinfo=UTC).timestamp()
    occasion = Occasion(ZONES[region], 360, 5 * DAY, working_day=WorkingDay(region, 1))
    (found,) = moments(occasion, free_for(occasion, first, last), first, last)
    return Wanted(reminder(occasion=occasion), found), first, last


@pytest.mark.parametrize("region", SEASON)
@pytest.mark.parametrize("outage", [False, True])
def test_a_season_from_october_to_february(region, outage):
    want, first, last = season(region)
    begins = datetime.fromisoformat(SEASON[region]).timestamp()
    assert want.moment.begins_at == begins
    lead = [begins - each.before for each in LEADS]
    # Two days without anybody to carry anything, over the second lead time.
    down = ((lead[1] - DAY, lead[1] + DAY),) if outage else ()
    world = World(want, now=first, values={}, down=down)
    second = lead[1] + DAY if outage else lead[1]

    def fulfilled(there):
        there.values.update(GOOD)
        there.say(TicketGiven(there.now, "ann", "ask", "CASE-7"))

    people = [
        (lead[0] + 5 * HOUR, by("bob")),  # acknowledged by the deputy, after an escalation
        (second + HOUR, by("ann", Snoozed, lasting=2 * DAY, reason="holidays")),
        (second + 2 * DAY + 2 * HOUR, by("ann")),
        (lead[2] + HOUR, fulfilled),
        (lead[2] + 3 * HOUR, by("ann", DoneSaid)),
    ]
    world.until(last, people)
    assert world.told == [
        (lead[0], ("ann",)),
        (lead[0] + 4 * HOUR, ("bob",)),
        (second, ("ann",)),
        (second + 2 * DAY + HOUR, ("ann",)),
        (lead[2], ("ann",)),
    ]
    assert standing(world.state) == "done"
    assert world.state.verified
    assert world.state.over
    assert world.asks[-1][0] > want.moment.ends_at - HOUR - 1


# ---------------------------------------------------------------- properties

DAILY = replace(VERIFY, every=DAY)
SAYERS = st.sampled_from(("ann", "bob", "cid"))
STEPS = st.one_of(
    st.tuples(st.just("pass"), st.floats(0, 40 * DAY)),
    st.tuples(st.just("ack"), SAYERS),
    st.tuples(st.just("snooze"), st.floats(1, 4 * DAY)),
    st.tuples(st.just("ticket"), SAYERS),
    st.tuples(st.just("done"), SAYERS),
    st.tuples(st.just("values"), st.sampled_from((40.0, 50.0, 60.0, None))),
    st.tuples(st.just("refusing"), st.sets(st.sampled_from(("ann", "bob", "oncall")))),
    st.tuples(st.just("read"), SAYERS),
    st.tuples(st.just("move"), st.floats(-3 * DAY, 3 * DAY)),
)
LEAD_LISTS = st.lists(
    st.builds(
        Lead, st.sampled_from(("ticket", "quota")), st.integers(1, 60).map(lambda n: n * DAY)
    ),
    min_size=1,
    max_size=6,
    unique=True,
)


def lived(leads, after, steps) -> World:
    """A reminder's whole life, with these things happening; then time passes to its end."""
    people = People("ann", "bob", "oncall", after=after)
    world = World(wanted(leads=tuple(leads), people=people, verify=DAILY))
    for word, what in steps:
        _step(world, word, what)
    world.until(BEGINS + 30 * DAY)
    return world


def spoken_of(world: World, lead: Lead) -> int:
    """In how many messages, escalations aside, this lead time was told."""
    label = re.compile(rf"\b{lead.request} {lead.before / DAY:.0f} d\b")
    again = ("has not acknowledged", "could not be reached")
    whys = [send.message.lines[1] for _, send in world.sent]
    return sum(bool(label.search(why)) for why in whys if not any(word in why for word in again))


def _step(world: World, word: str, what) -> None:
    now = world.now
    match word:
        case "pass":  # an outage: nothing is carried until then
            world.now = now + what
            world.say(Tick(world.now))
        case "values":
            world.values = {"quota": what, "verify": what}
        case "refusing":
            world.refusing = set(what)
        case "read":
            world.say(ReadWanted(now))
        case "move":
            old = world.state.wanted
            moved = moment(BEGINS + what)
            world.say(Amended(now, Wanted(old.reminder, moved)))
        case _:
            said = {
                "ack": lambda: Acked(now, what),
                "snooze": lambda: Snoozed(now, "ann", now + what, "so it is"),
                "ticket": lambda: TicketGiven(now, what, "ask", "CASE-1"),
                "done": lambda: DoneSaid(now, what),
            }[word]()
            try:
                world.say(said)
            except Refused:
                return
            if isinstance(said, DoneSaid):
                assert not missing(world.state)
                assert all_hold(world.state)


LIFE = given(LEAD_LISTS, st.floats(600, 5 * DAY), st.lists(STEPS, max_size=14))


@LIFE
@settings(max_examples=60)
def test_nothing_is_sent_twice(leads, after, steps):
    world = lived(leads, after, steps)
    causes = [send.message.cause for _, send in world.sent]
    assert len(causes) == len(set(causes))
    assert all(spoken_of(world, lead) <= 1 for lead in leads)
    together = [(at, send.message.to, send.message.lines[1]) for at, send in world.sent]
    assert len(together) == len(set(together))


@LIFE
@settings(max_examples=60)
def test_nothing_is_dropped_after_an_outage_of_any_length(leads, after, steps):
    world = lived(leads, after, steps)
    assert world.state.over
    assert world.wake is None
    if not world.state.done_by:
        assert world.sent, "its end at least is said"
        assert "nobody said that it was done" in world.sent[-1][1].message.lines[1]


@given(LEAD_LISTS, st.lists(st.floats(0, BEGINS), max_size=30), st.floats(600, 5 * DAY))
@settings(max_examples=100)
def test_each_lead_time_is_in_exactly_one_call(leads, looks, after):
    """However rarely somebody looks: a lead that has come is in the next message, once."""
    people = People("ann", "bob", "oncall", after=after)
    world = World(wanted(leads=tuple(leads), people=people, verify=DAILY))
    for at in sorted(looks):
        world.now = at
        world.say(Tick(at))
        come = {each for each in leads if BEGINS - each.before <= at}
        assert {each: spoken_of(world, each) for each in come} == dict.fromkeys(come, 1)
        assert set(world.state.settled) == come


@LIFE
@settings(max_examples=60)
def test_done_needs_evidence(leads, after, steps):
    world = lived(leads, after, steps)
    if world.state.done_by:
        assert any(each.task == "ask" for each in world.state.tickets)
        assert world.state.verified


@LIFE
@settings(max_examples=60)
def test_a_snooze_ends(leads, after, steps):
    world = lived(leads, after, steps)
    assert world.state.snooze is None


@LIFE
@settings(max_examples=60)
def test_each_wake_is_in_the_future(leads, after, steps):
    """Asserted at each decision, see World."""
    assert lived(leads, after, steps).wake is None


@LIFE
@settings(max_examples=60)
def test_the_same_events_lead_to_the_same_actions(leads, after, steps):
    world = lived(leads, after, steps)
    people = People("ann", "bob", "oncall", after=after)
    state = begin(wanted(leads=tuple(leads), people=people, verify=DAILY), 0.0).state
    numbers = []
    for event in world.events:
        decision = remind(state, event)
        state = decision.state
        numbers += [a.number for a in decision.actions if not isinstance(a, Ask)]
    assert state == world.state
    assert numbers == [send.number for _, send in world.sent][-len(numbers) :]
