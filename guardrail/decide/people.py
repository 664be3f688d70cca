"""Whose word counts, where a rule wants more than one person, or one who is not who asked?

A name from the environment is what somebody typed. It is recorded, and does for a rule that wants
one other person; two such names may be one person, so they never make two people.
"""

from guardrail.model.operation import Commanded, State
from guardrail.model.plan import ApprovalPoint

TWO = 2


def needs_signature(point: ApprovalPoint) -> bool:
    """Whether only verified people count at that point: its policy says so, or it wants two."""
    return point.verified or point.count >= TWO


def consents(state: State, point: ApprovalPoint) -> tuple[str, ...]:
    """The distinct people whose consent counts at that point, sorted."""
    signed = needs_signature(point)
    given = [a for a in state.approved if a.point == point.point and (a.verified or not signed)]
    people = {approved.by for approved in given}
    return tuple(sorted(people - ({state.course.requester} if point.not_requester else set())))


def asked_for_it(state: State, command: Commanded) -> bool:
    """Whether this person asked for the operation, by any name that is known."""
    return state.course.requester in (command.by, *command.groups)


def refuse_approval(state: State, point: ApprovalPoint, command: Commanded) -> str | None:
    """Why this person's consent does not count at that point."""
    if point.not_requester and asked_for_it(state, command):
        return f"{command.by} asked for this operation; {point.origin} wants somebody else"
    if needs_signature(point) and not command.verified:
        return sign_it(command.by, f"{point.origin} wants verified people at {point.point}")
    if command.by in consents(state, point):
        return f"{command.by} has approved {command.point} already"
    same = [
        a.by for a in state.approved if a.key and (a.point, a.key) == (point.point, command.key)
    ]
    if same:
        return f"this key has approved {command.point} already, as {same[0]}"
    return None


def sign_it(by: str, why: str) -> str:
    """What to do where a name from the environment is not enough."""
    return (
        f"nobody vouches for the name {by}, and {why}: say it again with --sign KEYFILE (or see "
        "what to sign with --what-to-sign, and bring it with --signature FILE)"
    )


def how(state: State, point: str) -> str:
    """What to add to `approve` for that point."""
    points = {each.point: each for each in state.course.approvals}
    signed = point in points and needs_signature(points[point])
    return f"--point {point}{' --sign KEYFILE' if signed else ''}"
