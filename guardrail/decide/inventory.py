"""Is the inventory's answer to be believed, and is this program itself among the hosts?

An inventory that has lost hosts since last time says nothing wrong, and is wrong all the same: the
hosts that it forgot are neither changed, nor counted when they are down. A few that are gone are
told; more than a tenth, or than the rollout tolerates (`plan.tolerate.hosts`), are refused.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from guardrail.decide.found import counted, named
from guardrail.model.common import Amount
from guardrail.model.fleet import ConsulInventory, Fleet, Host, KnownFleet
from guardrail.model.plan import Plan

MOST_GONE = Amount(10, percent=True)


def key_of(fleet: Fleet) -> str:
    """What makes a fleet the same one next time; empty where its file lists the hosts itself."""
    source = fleet.inventory
    if not isinstance(source, ConsulInventory):
        return ""
    where = (source.address, source.datacenter, source.namespace, source.partition)
    return repr((fleet.name, *where, source.service, source.filter, source.node_meta))


def known_fleet(plan: Plan) -> KnownFleet:
    """The hosts that a plan has found, for the next time."""
    names = [*(host.name for host in plan.hosts), *(host.name for host in plan.excluded)]
    return KnownFleet(plan.fleet, tuple(sorted(names)), plan.created_at)


def gone(before: KnownFleet, hosts: Sequence[Host], tolerated: Amount) -> tuple[str, ...]:
    """Why an inventory that is smaller than last time is refused; empty: it is not."""
    missing, allowed = _missing(before, hosts), max(_of(MOST_GONE, before), _of(tolerated, before))
    if len(missing) <= allowed:
        return ()
    return (
        (
            f"{_smaller(before, hosts, missing)}; if they are gone for good, say so in the rollout "
            f"(plan: {{tolerate: {{hosts: {len(missing)}}}}}), else mend the inventory"
        ),
    )


def told(before: KnownFleet, hosts: Sequence[Host], tolerated: Amount) -> tuple[str, ...]:
    """That hosts are gone, where that does not refuse."""
    missing = _missing(before, hosts)
    if not missing or gone(before, hosts, tolerated):
        return ()
    return (_smaller(before, hosts, missing),)


def _missing(before: KnownFleet, hosts: Iterable[Host]) -> list[str]:
    here = {host.name for host in hosts}
    return [name for name in before.hosts if name not in here]


def _of(amount: Amount, before: KnownFleet) -> int:
    return amount.of(len(before.hosts), least=0)


def _smaller(before: KnownFleet, hosts: Sequence[Host], missing: list[str]) -> str:
    at = f"{datetime.fromtimestamp(before.at, UTC):%Y-%m-%d %H:%M} UTC"
    return (
        f"the inventory has {counted(len(hosts))} now and had {len(before.hosts)} at {at}, when a "
        f"rollout on fleet {before.fleet} was planned last; not there any more: {named(missing)}"
    )


# ---------------------------------------------------------------- this program itself


def own_hosts(hosts: Iterable[Host], servers: frozenset[str]) -> frozenset[str]:
    """The names of the hosts that are this program's own servers, by name or by address."""
    return frozenset(host.name for host in hosts if servers & {host.name, host.address})


def own_words(names: frozenset[str]) -> tuple[str, ...]:
    """What a person should know where this program stands on hosts that it changes."""
    if not names:
        return ()
    return (
        (
            f"{counted(len(names))} this program itself stands on (worker, Temporal, Consul or "
            f"Prometheus), planned last, one at a time: {named(sorted(names))}"
        ),
    )
