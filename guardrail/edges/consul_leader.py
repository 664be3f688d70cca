"""Who leads the Consul servers, and do they call themselves well?

Autopilot's own account, as the leader gives it: whose name it is, whether each server is healthy,
and how many may be lost without losing the quorum. The token needs `operator:read`.
"""

from typing import Any

from guardrail.edges.consul import open_api
from guardrail.errors import Refused, Unanswered
from guardrail.model.fleet import ConsulInventory, Fleet, Leading

HEALTH = "/v1/operator/autopilot/health"


class ConsulLeader:
    """The servers of the Consul that a fleet is found in."""

    async def leading(self, fleet: Fleet) -> Leading:
        """Who leads them now, by the name of its node. Raises Unanswered; Refused: no Consul."""
        source = fleet.inventory
        if not isinstance(source, ConsulInventory):
            raise Refused(
                f"fleet {fleet.name} lists its hosts itself, so there is no Consul to ask: find "
                "its servers in Consul (inventory: {consul: {service: consul, ...}}); or say their "
                "roles, where they are no servers"
            )
        api = open_api(source)
        try:
            return _leading(await api.get_state(HEALTH), api.address)
        except (KeyError, TypeError, AttributeError) as fault:
            reason = f"an answer without its usual fields ({fault!r})"
            raise Unanswered("Consul", api.address, reason) from fault
        finally:
            await api.close()


def _leading(told: dict[str, Any], address: str) -> Leading:
    servers = told["Servers"]
    leaders = [server["Name"] for server in servers if server["Leader"]]
    if len(leaders) != 1:
        raise Unanswered("Consul", address, f"{len(leaders)} of its servers say that they lead")
    ill = sorted(server["Name"] for server in servers if not server["Healthy"])
    if ill or not told["Healthy"]:
        named = ", ".join(ill) or "which of them it does not say"
        return Leading(leaders[0], f"Consul's autopilot calls its servers not healthy: {named}")
    if told["FailureTolerance"] < 1:
        lost = f"none of its {len(servers)} servers may be lost without losing the quorum"
        return Leading(leaders[0], f"Consul's autopilot says that {lost}")
    return Leading(leaders[0])
