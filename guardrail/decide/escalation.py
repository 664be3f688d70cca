"""Who is asked next to take a message, when a channel does not?

First the channels that a message names, or those that get its kind. For each that fails the one it
names with `otherwise`. Where nobody has taken it in the end, every other channel there is, one
after the other: a message goes to the wrong people rather than to none. No channel is asked twice.
"""

from collections.abc import Sequence

from guardrail.model.notice import Answer, Failed, Message, Route, Sent


def next_round(
    routes: Sequence[Route], message: Message, answers: Sequence[Answer]
) -> tuple[str, ...]:
    """The channels to be asked now, all at once; none: it is done, well or badly."""
    if not answers:
        return _first(routes, message)
    known = {route.name: route for route in routes}
    asked = {answer.channel for answer in answers}
    failed = [answer.channel for answer in answers if isinstance(answer, Failed)]
    others = [known[name].otherwise for name in failed if name in known]
    named = tuple(dict.fromkeys(name for name in others if name in known and name not in asked))
    if named or any(isinstance(answer, Sent) for answer in answers):
        return named
    return _last_resort(routes, message, asked)


def _first(routes: Sequence[Route], message: Message) -> tuple[str, ...]:
    if message.to:
        return tuple(dict.fromkeys(message.to))
    return tuple(route.name for route in routes if message.kind in route.tells)


def _last_resort(routes: Sequence[Route], message: Message, asked: set[str]) -> tuple[str, ...]:
    left = [route for route in routes if route.name not in asked]
    willing = [route.name for route in left if message.kind in route.tells]
    return tuple([*willing, *(route.name for route in left)][:1])


def is_wanted(routes: Sequence[Route], message: Message) -> bool:
    """Whether anybody is to get it: a kind that no channel asks for goes nowhere."""
    return bool(_first(routes, message))


def faults(routes: Sequence[Route]) -> tuple[str, ...]:
    """What is wrong with the channels as a whole, in words."""
    known = {route.name: route for route in routes}
    wrong = [
        f"channel {route.name}: there is no channel `{route.otherwise}` to go to otherwise"
        for route in routes
        if route.otherwise and route.otherwise not in known
    ]
    own = [
        f"channel {route.name}: it names itself as `otherwise`"
        for route in routes
        if route.otherwise == route.name
    ]
    return (*wrong, *own)
