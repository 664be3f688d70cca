"""What becomes of the table of leases when somebody asks, gives back, or breaks one?

All roles that an operation asks for are granted together or not at all, each grant with a token
that is higher than all before. A lease is its holder's until it is given back:

    held ── renewed in time ──▶ held           the holder asks again, with the same turn
      │ └── silent for 30 s ──▶ orphaned       still blocking: its hosts may be away
      │                            │ └── the holder is there again: held, with a new token
      │                            └── a person breaks it: free
      ├── a person breaks it ──▶ broken        still blocking, until its holder has settled
      └── given back ──▶ free

So nothing but its holder, or a person who says so, ever ends a lease: time alone does not. Who
waits is served in order, the urgent first, and nobody is passed by for a role they wait for.
Every function is pure, and takes the time (seconds since the epoch) as an argument.
"""

import re
from dataclasses import replace

from guardrail.model.lease import (
    LAST_FOR,
    Answer,
    Break,
    Broken,
    Claim,
    Done,
    Grant,
    Holder,
    Lease,
    Part,
    Share,
    Table,
    Waiting,
    Wanted,
    Word,
)

REMEMBER = 3_600.0
"""Seconds for which it is remembered what was given back: no ask is late for so long."""
BREAKS = 100
"""Breaks that are remembered."""


def opened(now: float, *, careful: bool) -> Table:
    """The table at its beginning. careful: there was one before it, which was lost."""
    return Table(careful_until=now + LAST_FOR if careful else 0.0)


# ---------------------------------------------------------------- asking


def ask(table: Table, wanted: Wanted, now: float) -> tuple[Table, Answer]:
    """An operation asks for roles, or renews what it has. The same ask twice is harmless."""
    name = wanted.holder.operation
    if _is_late(table, wanted):
        return table, Answer("superseded", ("a later ask of this operation has been made",))
    table = _tidy(table, now)
    mine = table.of(name)
    if (told := _broken(table, mine, wanted)) is not None:
        return _over(_heard(table, mine, now), name, wanted.turn - 1, now), told
    if mine is not None and mine.turn == wanted.turn:
        return _renewed(table, mine, wanted, now)
    if mine is not None and not wanted.keep:
        table, mine = _without(table, name), None
    table = _over(_heard(table, mine, now), name, wanted.turn - 1, now)
    reasons = blockers(table, wanted, now)
    if reasons:
        return _queued(table, wanted, now), Answer("waits", reasons)
    return _granted(table, wanted, now)


def look(table: Table, wanted: Wanted, now: float) -> Answer:
    """What asking now would be answered; nothing is changed."""
    return ask(table, wanted, now)[1]


def _is_late(table: Table, wanted: Wanted) -> bool:
    """Whether it comes from a keeper that was replaced, or after its lease was given back."""
    name = wanted.holder.operation
    mine = table.of(name)
    over = [turn for operation, turn, _ in table.ended if operation == name]
    over += [mine.turn - 1] if mine is not None else []
    return any(wanted.turn <= turn for turn in over)


def _broken(table: Table, mine: Lease | None, wanted: Wanted) -> Answer | None:
    """What its holder is told of a lease that a person broke."""
    if mine is not None and mine.broken_by:
        why = f"the lease on {_and(mine.roles)} was broken by {mine.broken_by}: "
        return Answer("broken", (why + mine.broken_because,), by=mine.broken_by)
    if mine is not None or not wanted.token:
        return None
    name = wanted.holder.operation
    past = [b for b in table.broken if (b.operation, b.token) == (name, wanted.token)]
    if not past:
        return None
    why = f"the lease on {_and(past[-1].roles)} was broken by {past[-1].by}: {past[-1].reason}"
    return Answer("broken", (why,), by=past[-1].by)


def _heard(table: Table, mine: Lease | None, now: float) -> Table:
    """Its holder lives, and asks for more: what it has lasts on, unless it was lost already."""
    if mine is None or mine.orphaned(now):
        return table
    return _put(table, replace(mine, expires_at=now + LAST_FOR))


def _renewed(table: Table, mine: Lease, wanted: Wanted, now: float) -> tuple[Table, Answer]:
    """It has that already; what was orphaned is its own again, with a new token."""
    lost = mine.orphaned(now)
    token = _next_token(table, wanted, now) if lost else mine.token
    lease = replace(mine, token=token, expires_at=now + LAST_FOR)
    table = _put(table, lease)
    urgent = wanted_by(table, lease, now)
    word: Word = "wanted" if urgent else "granted"
    return table, Answer(word, urgent, grant_of(lease), anew=lost)


def _granted(table: Table, wanted: Wanted, now: float) -> tuple[Table, Answer]:
    name = wanted.holder.operation
    mine = table.of(name)
    parts = [_part(table, claim, name) for claim in wanted.claims]
    lease = Lease(
        wanted.holder,
        wanted.turn,
        _next_token(table, wanted, now),
        tuple(sorted(parts, key=lambda part: part.role)),
        now if mine is None else mine.since,
        now + LAST_FOR,
    )
    lost = mine.orphaned(now) if mine is not None else bool(wanted.token) and wanted.keep
    table = replace(_put(_not_waiting(table, name), lease), last=lease.token)
    return table, Answer("granted", (), grant_of(lease), anew=lost)


def _next_token(table: Table, wanted: Wanted, now: float) -> int:
    """Higher than any before, also those of a table that was lost: it counts milliseconds."""
    return max(table.last + 1, wanted.token + 1, int(now * 1000))


def grant_of(lease: Lease) -> Grant:
    """What its holder may have away: the least of what it has of each role."""
    share = lease.parts[0].share
    for part in lease.parts:
        share = share.least(part.share)
    return Grant(lease.token, share, lease.roles)


def _roles(wanted: Wanted) -> set[str]:
    return {claim.role for claim in wanted.claims}


# ---------------------------------------------------------------- who stands in the way


def blockers(table: Table, wanted: Wanted, now: float) -> tuple[str, ...]:
    """Why it cannot be granted now, in words; empty where it can."""
    name = wanted.holder.operation
    reasons = [
        told(lease, claim.role, now)
        for claim in wanted.claims
        for lease in table.leases
        if lease.holder.operation != name and _bars(table, claim, lease, name)
    ]
    if reasons:
        return tuple(dict.fromkeys(reasons))
    if now < table.careful_until:
        left = table.careful_until - now
        return (f"the table of leases was lost; who held one has {left:.0f} s to say so",)
    return tuple(_ahead(table, wanted, now))


def _bars(table: Table, claim: Claim, lease: Lease, name: str) -> bool:
    """Whether this lease of another operation leaves nothing of the role."""
    part = lease.part(claim.role)
    if part is None:
        return False
    return claim.exclusive or part.exclusive or _share(table, claim, name).empty


def _share(table: Table, claim: Claim, name: str) -> Share:
    """What may be granted of a role: what is asked for, out of what the others leave."""
    others = [
        part
        for lease in table.leases
        if lease.holder.operation != name and (part := lease.part(claim.role)) is not None
    ]
    if not others:
        return claim.ask
    left = claim.limit
    for part in others:
        left = left.least(part.limit)
    for part in others:
        left = left.less(part.share)
    return claim.ask.least(left)


def _part(table: Table, claim: Claim, name: str) -> Part:
    return Part(claim.role, claim.exclusive, _share(table, claim, name), claim.limit)


def _ahead(table: Table, wanted: Wanted, now: float) -> list[str]:
    """Those who wait for one of the roles and come first: who had it when the table was lost, the
    urgent, the earlier. Who has something already waits for nobody: it may be what they wait for.
    """
    name = wanted.holder.operation
    if table.of(name) is not None:
        return []
    own = next((w.since for w in table.waiting if w.holder.operation == name), now)
    place = _place(wanted.holder, wanted.token if wanted.keep else 0, own)
    return [
        f"{other.holder.operation} ({other.holder.person}: {other.holder.reason}) waits for "
        f"{_and(sorted(_roles(wanted) & {c.role for c in other.claims}))} and comes first"
        for other in table.waiting
        if other.holder.operation != name
        and _roles(wanted) & {claim.role for claim in other.claims}
        and _place(other.holder, other.token, other.since) < place
    ]


def _place(holder: Holder, token: int, since: float) -> tuple[int, int, float, str]:
    return (-token, _rank(holder), since, holder.operation)


def _rank(holder: Holder) -> int:
    return 0 if holder.priority == "urgent" else 1


def wanted_by(table: Table, lease: Lease, now: float) -> tuple[str, ...]:
    """Who is more urgent than this lease's holder and waits for what it has."""
    return tuple(
        f"{other.holder.operation} is urgent ({other.holder.person}: {other.holder.reason}) and "
        f"waits for {_and(sorted(set(lease.roles) & {c.role for c in other.claims}))}"
        for other in table.waiting
        if other.until >= now
        and _rank(other.holder) < _rank(lease.holder)
        and any(_bars(table, claim, lease, other.holder.operation) for claim in other.claims)
    )


def told(lease: Lease, role: str, now: float) -> str:
    """A lease in words: who holds it, why, since when and until when."""
    holder = lease.holder
    until = f"until {clock(lease.expires_at)} unless renewed"
    if lease.orphaned(now):
        until = f"orphaned: not renewed since {clock(lease.expires_at - LAST_FOR)}"
    if lease.broken_by:
        until += f"; broken by {lease.broken_by}, and its hosts have not settled"
    return (
        f"{role} is held by {holder.operation} ({holder.person}: {holder.reason}) since "
        f"{clock(lease.since)}, {until}"
    )


def clock(at: float) -> str:
    """The time of day in UTC: `14:05:09Z`."""
    seconds = int(at) % 86_400
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}Z"


def _and(words: tuple[str, ...] | list[str]) -> str:
    return ", ".join(words)


def differs(before: Answer | None, now: Answer) -> bool:
    """Whether its operation has to hear of it: not that somebody's lease was renewed once more."""
    if before is None or (before.word, before.grant) != (now.word, now.grant) or now.anew:
        return True
    return [_for_good(text) for text in before.reasons] != [_for_good(text) for text in now.reasons]


def _for_good(reason: str) -> str:
    """A reason without what changes by itself."""
    return re.sub(r"until \S+ unless|has \d+ s", "", reason)


# ---------------------------------------------------------------- giving back, breaking


def give_back(table: Table, done: Done, now: float) -> Table:
    """An operation ends what it asked for up to this turn."""
    name = done.operation
    mine = table.of(name)
    if mine is not None and mine.turn <= done.turn:
        table = _without(table, name)
    waiting = tuple(w for w in table.waiting if w.holder.operation != name or w.turn > done.turn)
    return _over(replace(table, waiting=waiting), name, done.turn, now)


def _over(table: Table, name: str, turn: int, now: float) -> Table:
    """Asks of that operation with this turn or a lower one are late from now on."""
    last = max((e[1] for e in table.ended if e[0] == name), default=turn)
    rest = tuple(e for e in table.ended if e[0] != name)
    return replace(table, ended=(*rest, (name, max(last, turn), now)))


def breaking(table: Table, said: Break, now: float) -> tuple[Lease, ...]:
    """The leases that this would break."""
    return tuple(
        lease
        for lease in table.leases
        if lease.part(said.role) is not None
        and said.operation in ("", lease.holder.operation)
        and not lease.broken_by
        and (lease.orphaned(now) or not said.orphaned)
    )


def refusal(table: Table, said: Break, now: float) -> str | None:
    """Why nothing can be broken; None where something can."""
    if not said.by:
        return "say who you are: --by NAME, or GUARDRAIL_USER in the environment"
    if not said.reason:
        return "breaking a lease needs --reason: its holder is told"
    if breaking(table, said, now):
        return None
    held = sorted({role for lease in table.leases for role in lease.roles})
    broken = [lease for lease in table.leases if lease.part(said.role) and lease.broken_by]
    if broken:
        return (
            f"the lease on {said.role} is broken already; it is free once the hosts of "
            f"{broken[0].holder.operation} in flight have answered"
        )
    whose = f" by {said.operation}" if said.operation else ""
    return f"nobody holds {said.role}{whose}; held are: {_and(held) or 'none'}"


def broken(table: Table, said: Break, now: float) -> Table:
    """A person breaks leases: an orphaned one is free at once; a live one blocks until its holder
    has heard of it and has settled, so that there never are two."""
    for lease in breaking(table, said, now):
        name = lease.holder.operation
        entry = Broken(name, lease.token, lease.roles, said.by, said.reason, now)
        table = replace(table, broken=(*table.broken, entry)[-BREAKS:])
        if lease.orphaned(now):
            table = _without(table, name)
        else:
            table = _put(table, replace(lease, broken_by=said.by, broken_because=said.reason))
    return table


# ---------------------------------------------------------------- the records


def _tidy(table: Table, now: float) -> Table:
    """Forget who does not wait any more, what was given back long ago, and broken leases whose
    holder is silent."""
    return replace(
        table,
        leases=tuple(x for x in table.leases if not (x.broken_by and x.orphaned(now))),
        waiting=tuple(w for w in table.waiting if w.until >= now),
        ended=tuple(e for e in table.ended if e[2] + REMEMBER >= now),
    )


def _queued(table: Table, wanted: Wanted, now: float) -> Table:
    """It waits; asked again, it keeps its place."""
    name = wanted.holder.operation
    since = next((w.since for w in table.waiting if w.holder.operation == name), now)
    token = wanted.token if wanted.keep else 0
    mine = Waiting(wanted.holder, wanted.turn, wanted.claims, since, now + LAST_FOR, token)
    return replace(table, waiting=(*_not_waiting(table, name).waiting, mine))


def _not_waiting(table: Table, operation: str) -> Table:
    rest = tuple(w for w in table.waiting if w.holder.operation != operation)
    return replace(table, waiting=rest)


def _without(table: Table, operation: str) -> Table:
    rest = tuple(x for x in table.leases if x.holder.operation != operation)
    return replace(table, leases=rest)


def _put(table: Table, lease: Lease) -> Table:
    rest = _without(table, lease.holder.operation).leases
    leases = tuple(sorted((*rest, lease), key=lambda x: x.holder.operation))
    return replace(table, leases=leases, last=max(table.last, lease.token))
