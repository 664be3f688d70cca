"""Whose word counts, where a rule wants more than one person, or one who is not who asked?

A name from the environment is what somebody typed. It is recorded, and does for a rule that wants
one other person; two such names may be one person, so they never make two people.

Who asked counts as anybody else does: with a signature it is known who that is, by name and by
key. Without one any of those who sign may be that person, under another name. Where only verified
people count and whoever asked must not, one more of them is then wanted: of `count` + 1 different
keys at the most one is that person's. Two different keys are two people; a person who is given two
by whoever keeps the file of allowed signers is not found out here.
"""

from guardrail.model.operation import Commanded, State
from guardrail.model.plan import ApprovalPoint

TWO = 2


def needs_signature(point: ApprovalPoint) -> bool:
    """Whether only verified people count at that point: its policy says so, or it wants two."""
    return point.verified or point.count >= TWO


def anybody_asked(state: State, point: ApprovalPoint) -> bool:
    """Whether any of the verified people who agree at that point may be who asked, since nobody
    vouches for who that is."""
    return point.not_requester and needs_signature(point) and not state.asked_by.name


def wanted(state: State, point: ApprovalPoint) -> int:
    """How many distinct people must agree at that point."""
    return point.count + anybody_asked(state, point)


def consents(state: State, point: ApprovalPoint) -> tuple[str, ...]:
    """The distinct people whose consent counts at that point, sorted."""
    if not state.approved:
        return ()
    signed = needs_signature(point)
    given = [a for a in state.approved if a.point == point.point and (a.verified or not signed)]
    people = {approved.by for approved in given}
    return tuple(sorted(people - (_who_asked(state) if point.not_requester else set())))


def _who_asked(state: State) -> set[str]:
    """Whoever asked for the operation, by each name that is known."""
    return {state.course.requester, *state.asked_by.names} - {""}


def asked_for_it(state: State, command: Commanded) -> bool:
    """Whether this person asked for the operation, by any name that is known, or by key."""
    same_key = bool(command.key) and command.key == state.asked_by.key
    return same_key or command.by in _who_asked(state) or state.course.requester in command.groups


def sign_the_start(state: State, why: str) -> str:
    """What to say where it matters who asked, and nobody vouches for that."""
    return (
        f"nobody vouches for {state.course.requester or 'whoever'} who asked for this operation, "
        f"and {why}; one that is started with rollout start PLAN --sign KEYFILE has that"
    )


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
