"""Which kinds of hosts does the first stage try, and which come later with nobody before them?

A kind is what the rollout tells hosts apart by (`order.canaries.firstOf`): role, os (the label),
version seen. The first of each kind comes before all others (decide/waves.py); how many of them the
first stage takes is for the stage to say, and here is what that comes to.
"""

from collections.abc import Mapping, Sequence

from guardrail.decide.found import counted
from guardrail.decide.waves import FACTS
from guardrail.model.fleet import Host
from guardrail.model.plan import Canaries, Kind, Wave
from guardrail.model.rollout import Order

MOST_KINDS = 20
"""So many kinds that are not covered are named."""


def covered(
    hosts: Sequence[Host], waves: Sequence[Wave], order: Order, versions: Mapping[str, str | None]
) -> Canaries | None:
    """What the first stage covers, of hosts in plan order; None: no canaries are asked for."""
    if not order.canaries or not waves:
        return None
    stage = waves[0].stage
    end = max(wave.end for wave in waves if wave.stage == stage)
    kinds: dict[tuple[str, ...], int] = {}
    tried: set[tuple[str, ...]] = set()
    for place, host in enumerate(hosts):
        kind = tuple(_word(FACTS[fact](host, versions)) for fact in order.canaries)
        kinds[kind] = kinds.get(kind, 0) + 1
        if place < end:
            tried.add(kind)
    missing = tuple(Kind(kind, count) for kind, count in kinds.items() if kind not in tried)
    return Canaries(order.canaries, stage, len(kinds), missing)


def _word(fact: object) -> str:
    """A fact in words: roles are several."""
    text = ", ".join(map(str, fact)) if isinstance(fact, tuple) else str(fact or "")
    return text or "unknown"


def in_words(canaries: Canaries) -> str:
    """`canaries cover 4 of 5 kinds of role × os in stage 4; not covered: web × 12 (2 hosts)`."""
    count, missing = canaries.kinds, canaries.missing
    facts = " × ".join(canaries.facts)
    cover = f"canaries cover {count - len(missing)} of {count} kinds of {facts}"
    said = f"{cover} in stage {canaries.stage}"
    if not missing:
        return said
    named = [f"{' × '.join(kind.facts)} ({counted(kind.hosts)})" for kind in missing[:MOST_KINDS]]
    more = f" and {len(missing) - MOST_KINDS} more" if len(missing) > MOST_KINDS else ""
    return f"{said}; not covered: {', '.join(named)}{more}"


def warnings(canaries: Canaries | None) -> tuple[str, ...]:
    """That a kind is met for the first time when many hosts change."""
    if canaries is None or not canaries.missing:
        return ()
    return (f"{in_words(canaries)}; a first stage of {canaries.kinds} hosts would try all",)
