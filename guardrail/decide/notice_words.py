"""How is a message worded, so that whoever reads it at night knows what to do?

It ends as every message that wants a person (design.md §9): the state in one sentence, what happens
if nobody acts, and the one command most likely right. Where many operations have the same, the text
is of one of them, and the others are named and counted.
"""

from collections.abc import Sequence

from guardrail.model.board import Group, Member
from guardrail.model.notice import Message

NAMED = 20
"""Operations that are named; the rest are counted."""


def message(group: Group, fresh: Sequence[Member], again: Sequence[Member], now: float) -> Message:
    """The message of what is new in a group, and of what still stands in it."""
    everyone = (*fresh, *again)
    first = next((member for member in everyone if member.lines), everyone[0])
    news = () if not fresh or not again else (f"{len(fresh)} of them newly.",)
    lines = (
        *(_still(again, now) if not fresh else ()),
        *_names(everyone),
        *news,
        *(first.lines or _bare(first)),
    )
    about = first.operation if len(everyone) == 1 else counted(len(everyone))
    return Message(
        kind=group.kind,
        about=about,
        cause=group.like,
        subject=subject(group, fresh, everyone),
        lines=lines,
        at=now,
    )


def subject(group: Group, fresh: Sequence[Member], everyone: Sequence[Member]) -> str:
    """What it is about, in one line."""
    still = "" if fresh or not group.lasts else " (still)"
    if len(everyone) == 1:
        return f"guardrail: {everyone[0].operation} {group.what}{still}"
    return f"guardrail: {counted(len(everyone))} {group.many}{still}"


def counted(operations: int) -> str:
    """So many operations."""
    return "1 operation" if operations == 1 else f"{operations} operations"


def _names(everyone: Sequence[Member]) -> tuple[str, ...]:
    if len(everyone) == 1:
        return ()
    named = ", ".join(member.operation for member in everyone[:NAMED])
    more = len(everyone) - NAMED
    rest = f" and {more} more (guardrail rollout list)" if more > 0 else ""
    return (f"{counted(len(everyone))}: {named}{rest}.", "Of the first:")


def _still(again: Sequence[Member], now: float) -> tuple[str, ...]:
    since = min(member.since for member in again)
    return (f"It has been so for {span(now - since)}, and was said before.",)


def _bare(member: Member) -> tuple[str, ...]:
    """Where a member's own text was not kept."""
    return (
        f"{member.operation} has it, too; what it says itself is not kept here.",
        "If nobody acts it stays as it is.",
        f"guardrail rollout explain {member.operation}",
    )


def span(seconds: float) -> str:
    """So long, in the two largest units."""
    minutes = max(0, int(seconds // 60))
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
