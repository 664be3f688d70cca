"""Which hosts does the fleet document itself list?"""

from collections import Counter

from guardrail.errors import Refused
from guardrail.model.fleet import Fleet, Host, HostList


class ListedHosts:
    """The inventory of a fleet that is written down in its document."""

    async def hosts(self, fleet: Fleet) -> tuple[Host, ...]:
        """The hosts as written, sorted by name. Raises Refused when there are none, or twins."""
        source = fleet.inventory
        if not isinstance(source, HostList):
            raise Refused(f"fleet {fleet.name} does not list its hosts itself")
        if not source.hosts:
            raise Refused(f"fleet {fleet.name} lists no host: write them under inventory.hosts")
        counts = Counter(host.name for host in source.hosts)
        twins = sorted(name for name, count in counts.items() if count > 1)
        if twins:
            raise Refused(f"fleet {fleet.name} lists hosts twice: {', '.join(twins)}")
        return tuple(sorted(source.hosts, key=lambda host: host.name))
