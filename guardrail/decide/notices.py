"""When is something said to people, and when is it not said again?

One message a cause: what is alike in many operations is one cause. What is new is said once it has
stood for its patience, with all that came within a few seconds; newcomers to a cause that was said
wait longer each time; what still stands is said again at growing intervals; what comes back soon
after it went is no news. Pure: the board before, what was heard, the time; the board after.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from guardrail.decide.notice_words import message
from guardrail.model.board import Board, Due, Group, Heard, Member, Saying, Tiding, Tidings

GATHER, GATHER_MOST = 3.0, 15.0
"""Seconds for which more has to come, to be gathered into one message; and that takes at most."""
JOINS = (60.0, 300.0, 900.0, 3600.0)
"""Seconds after a message before newcomers to its cause are said; the last one for all later."""
REPEATS = (900.0, 3600.0, 14_400.0, 86_400.0)
"""Seconds after a message before what still stands is said again; the last one for all later."""
RETRIES = (60.0, 300.0, 900.0, 3600.0)
"""Seconds before a message that no channel took is said again."""
CALM = 600.0
"""Seconds for which what went is remembered: what comes back within them is the same."""
LOST = 90 * 86_400.0
"""Seconds after which an operation that was never heard to end is forgotten."""
WITH_LINES = 20
"""Members of a group that keep their text: a message has the text of one and the names of these."""


# ---------------------------------------------------------------- hearing


def hear(board: Board, said: Tidings, now: float) -> Board:
    """The board after an operation has told what stands in it; what is older changes nothing."""
    known = {heard.operation: heard for heard in board.heard}
    if (before := known.get(said.operation)) is not None and not _is_newer(said, before):
        return board
    known[said.operation] = Heard(said.operation, said.run, said.number, said.at)
    groups = {group.like: group for group in board.groups}
    for tiding in said.standing:
        group = groups.get(tiding.like) or _new_group(tiding)
        groups[tiding.like] = _stands(group, said, tiding, now)
    stands = {tiding.like for tiding in said.standing}
    for like, group in groups.items():
        if like not in stands or said.over:
            groups[like] = _stands_no_more(group, said, now)
    return _sorted(groups, known)


def _is_newer(said: Tidings, before: Heard) -> bool:
    if said.run == before.run:
        return said.number > before.number
    return said.at >= before.at


def _new_group(tiding: Tiding) -> Group:
    return Group(tiding.like, tiding.kind, tiding.what, tiding.many, tiding.lasts)


def _stands(group: Group, said: Tidings, tiding: Tiding, now: float) -> Group:
    members = {member.operation: member for member in group.members}
    old = members.get(said.operation)
    roomy = old is not None or len(members) < WITH_LINES
    lines = tiding.lines if roomy else ()
    if old is None or old.run != said.run:
        new = Member(said.operation, said.run, now, tiding.patience, lines, tiding.count)
    else:
        since = now if old.gone is not None and not old.said else old.since
        lines = lines if old.lines or len(members) <= WITH_LINES else ()
        new = replace(
            old,
            since=since,
            lines=lines,
            count=tiding.count,
            gone=None,
            patience=tiding.patience,
        )
    members[said.operation] = new
    return replace(group, what=tiding.what, many=tiding.many, members=_in_order(members))


def _stands_no_more(group: Group, said: Tidings, now: float) -> Group:
    """What happened once is not undone; it is done with when the operation is over."""
    if group.lasts or said.over:
        members = tuple(
            replace(member, gone=now)
            if member.operation == said.operation and member.gone is None
            else member
            for member in group.members
        )
        return replace(group, members=members)
    return group


def _in_order(members: dict[str, Member]) -> tuple[Member, ...]:
    return tuple(sorted(members.values(), key=lambda member: (member.since, member.operation)))


def _sorted(groups: dict[str, Group], heard: dict[str, Heard]) -> Board:
    """Without groups that are empty."""
    kept = tuple(groups[like] for like in sorted(groups) if groups[like].members)
    return Board(kept, tuple(heard[name] for name in sorted(heard)))


# ---------------------------------------------------------------- what is due


def due(board: Board, now: float) -> Due:
    """What is to be said now, and when to look again."""
    sayings = tuple(said for group in board.groups if (said := _due(group, now)) is not None)
    after = board
    for saying in sayings:
        after = saying_now(after, saying, now)
    return Due(sayings, wake_at(after, now))


def _due(group: Group, now: float) -> Saying | None:
    at = _next(group)
    if at is None or at > now:
        return None
    fresh = tuple(member for member in _waiting(group) if _ready(member) <= now)
    again = _standing(group)
    words = message(group, fresh, again, now)
    everyone = tuple(member.operation for member in (*fresh, *again))
    return Saying(group.like, words, tuple(member.operation for member in fresh), everyone)


def wake_at(board: Board, now: float) -> float | None:
    """When something may be due, or forgotten; None: not before something is heard."""
    times = [at for group in board.groups if (at := _next(group)) is not None]
    times += [at for group in board.groups for at in _ends(group)]
    return max(now, min(times)) if times else None


def _next(group: Group) -> float | None:
    """When something is to be said of this group."""
    times = []
    if waiting := _waiting(group):
        times.append(max(_earliest(group), _gathered(waiting)))
    if group.lasts and _standing(group):
        times.append(group.last + _step(REPEATS, group.again))
    return min(times, default=None)


def _gathered(waiting: tuple[Member, ...]) -> float:
    """When no more has come for a while."""
    first, *others = sorted(map(_ready, waiting))
    at = first + GATHER
    for ready in others:
        if ready > at:
            break
        at = min(ready + GATHER, first + GATHER_MOST)
    return at


def _earliest(group: Group) -> float:
    """Before that, nothing new is said of it."""
    if group.failed:
        return group.last + _step(RETRIES, group.failed - 1)
    return group.last + _step(JOINS, group.joined) if group.last else 0.0


def _waiting(group: Group) -> tuple[Member, ...]:
    """Those of which nothing was said yet, and which have not ended by themselves."""
    return tuple(
        member
        for member in group.members
        if not member.said and (member.gone is None or not group.lasts)
    )


def _standing(group: Group) -> tuple[Member, ...]:
    """Those that were said, and stand."""
    return tuple(member for member in group.members if member.said and member.gone is None)


def _ready(member: Member) -> float:
    return member.since + member.patience


def _step(steps: tuple[float, ...], number: int) -> float:
    return steps[min(number, len(steps) - 1)]


# ---------------------------------------------------------------- once it is said


def saying_now(board: Board, saying: Saying, now: float) -> Board:
    """The board while that message is on its way: it is not due again."""

    def said(group: Group) -> Group:
        members = _marked(group, saying, said=True)
        first = group.last == 0.0 or group.failed > 0
        joined = group.joined + (1 if saying.fresh and not first else 0)
        again = group.again + _repeats(saying)
        return replace(group, members=members, last=now, joined=joined, again=again)

    return _with(board, saying.like, said)


def _marked(group: Group, saying: Saying, *, said: bool) -> tuple[Member, ...]:
    """The group's members, with those that are new in the message said, or not."""
    fresh = set(saying.fresh)
    return tuple(
        replace(member, said=said) if member.operation in fresh else member
        for member in group.members
    )


def _repeats(saying: Saying) -> int:
    """1: it tells of some again. A message with newcomers does that, too, and counts for it."""
    return int(len(saying.operations) > len(saying.fresh))


def taken(board: Board, saying: Saying) -> Board:
    """At least one channel took it."""
    return _with(board, saying.like, lambda group: replace(group, failed=0))


def not_taken(board: Board, saying: Saying, now: float) -> Board:
    """No channel took it: what was new in it is new still, and is said again after a while."""

    def unsaid(group: Group) -> Group:
        members = _marked(group, saying, said=False)
        again = max(0, group.again - _repeats(saying))
        return replace(group, members=members, last=now, failed=group.failed + 1, again=again)

    return _with(board, saying.like, unsaid)


def _with(board: Board, like: str, change: Callable[[Group], Group]) -> Board:
    groups = tuple(change(group) if group.like == like else group for group in board.groups)
    return replace(board, groups=groups)


# ---------------------------------------------------------------- forgetting


def forget(board: Board, now: float) -> Board:
    """Without what is over and done with: it is said, and has been gone for long enough."""
    groups = {}
    for group in board.groups:
        kept = tuple(member for member in group.members if not _is_over(group, member, now))
        groups[group.like] = replace(group, members=kept)
    named = {member.operation for group in groups.values() for member in group.members}
    heard = {
        known.operation: known
        for known in board.heard
        if known.operation in named or known.at > now - CALM
    }
    return _sorted(groups, heard)


def _is_over(group: Group, member: Member, now: float) -> bool:
    end = _end(group, member)
    return end is not None and end <= now


def _end(group: Group, member: Member) -> float | None:
    """When a member may be forgotten; None: not before something else happens."""
    if member.gone is None:
        return member.since + LOST if member.said else None
    return member.gone + CALM if member.said or group.lasts else None


def _ends(group: Group) -> Iterator[float]:
    """When members that are gone are forgotten; the others are no reason to wake up."""
    for member in group.members:
        end = _end(group, member)
        if member.gone is not None and end is not None:
            yield end
