"""A channel that fails is followed by the next, and no message vanishes."""

from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide.escalation import faults, next_round
from guardrail.model.notice import KINDS, Answer, Failed, Message, Route, Sent

SAID = Message("hold", "op", "hold:x", "s")
NAMES = ("a", "b", "c", "d")


def asked(routes, message, refusing):
    """The rounds in which channels are asked, and what they answered."""
    answers: list[Answer] = []
    rounds = []
    while now := next_round(routes, message, answers):
        rounds.append(now)
        for name in now:
            bad = name in refusing or name not in {route.name for route in routes}
            answers.append(Failed(name, 0.0, "no") if bad else Sent(name, 0.0))
        assert len(rounds) < 20
    return rounds, answers


def test_a_failed_channel_escalates_to_the_one_it_names() -> None:
    routes = (Route("mail", ("finish",)), Route("pager", ("hold",), "mail"))
    assert asked(routes, SAID, {"pager"})[0] == [("pager",), ("mail",)]
    assert asked(routes, SAID, set())[0] == [("pager",)]


def test_with_nobody_named_every_other_channel_is_tried_before_it_is_given_up() -> None:
    routes = (Route("a", ("finish",)), Route("b", ("hold",)), Route("c", ("hold",)))
    assert asked(routes, SAID, {"b", "c"})[0] == [("b", "c"), ("a",)]


def test_one_of_two_that_fails_is_still_followed_by_its_own_next() -> None:
    routes = (Route("a", ("hold",), "c"), Route("b", ("hold",)), Route("c", ("finish",)))
    assert asked(routes, SAID, {"a"})[0] == [("a", "b"), ("c",)]


def test_a_name_that_there_is_not_goes_to_the_others() -> None:
    named = Message("reminder", "r", "r", "s", to=("gone",))
    assert asked((Route("a", ("hold",)),), named, set())[0] == [("gone",), ("a",)]


def test_a_kind_that_nobody_asks_for_goes_nowhere() -> None:
    assert asked((Route("a", ("finish",)),), SAID, set())[0] == []


def test_channels_that_cannot_be_gone_to_are_named() -> None:
    assert faults((Route("a", KINDS, "b"), Route("c", KINDS, "c"))) == (
        "channel a: there is no channel `b` to go to otherwise",
        "channel c: it names itself as `otherwise`",
    )


routes_there = st.lists(
    st.builds(
        Route,
        st.sampled_from(NAMES),
        st.sets(st.sampled_from(KINDS), min_size=1).map(tuple),
        st.sampled_from(("", *NAMES)),
    ),
    unique_by=lambda route: route.name,
).map(tuple)


@given(routes_there, st.sets(st.sampled_from(NAMES)), st.lists(st.sampled_from(NAMES)))
def test_no_channel_is_asked_twice_and_a_failed_one_escalates(routes, refusing, to) -> None:
    message = Message("hold", "op", "hold:x", "s", to=tuple(to))
    rounds, answers = asked(routes, message, refusing)
    names = [name for now in rounds for name in now]
    assert len(names) == len(set(names))
    took = {answer.channel for answer in answers if isinstance(answer, Sent)}
    able = {route.name for route in routes} - refusing
    if rounds and able:
        assert took, "it vanished, though a channel would have taken it"
    for route in routes:
        if route.name in names and route.name in refusing and route.otherwise in able:
            assert route.otherwise in took
