"""Which edges do these documents need, and who closes them?

`plan` and the worker's activities build the same edges from the same documents here. Nothing is
connected and no secret is read when an edge is built; each does so when it is first used.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from guardrail.edges.consul import ConsulCatalog, ConsulHosts, open_api
from guardrail.edges.consul_leader import ConsulLeader
from guardrail.edges.exec import ExecDriver
from guardrail.edges.hostlist import ListedHosts
from guardrail.edges.probes import ConsulRestarts, Probes
from guardrail.edges.prometheus import Prometheus
from guardrail.edges.store import PlanFolder
from guardrail.model.change import Change, ConsulAgentProbe
from guardrail.model.fleet import ConsulInventory, Fleet, Host, SshReach
from guardrail.model.gate import Source
from guardrail.ports import HostDriver, Inventory, PlanStore, Restarts


class Driver(HostDriver, Protocol):
    """A host driver that may keep connections."""

    def ahead(self, host: Host) -> None:
        """A host's turn is near: do now what can be done without touching it."""

    async def close(self) -> None:
        """Close the connections."""


def inventory_of(fleet: Fleet) -> Inventory:
    """Where the fleet says that its hosts are found."""
    return ConsulHosts() if isinstance(fleet.inventory, ConsulInventory) else ListedHosts()


def catalog_of(fleet: Fleet) -> ConsulCatalog | None:
    """The catalog as the fleet's Consul servers see it; None where there is no Consul."""
    source = fleet.inventory
    return ConsulCatalog(open_api(source)) if isinstance(source, ConsulInventory) else None


def driver_of(change: Change | None, fleet: Fleet) -> Driver:
    """The hands that the change asks for, reaching hosts as the fleet says."""
    if change is not None and change.driver == "ssh":
        from guardrail.edges.ssh import SshDriver  # asyncssh; a worker has it from its start

        return SshDriver(fleet.reach.ssh or SshReach())
    return ExecDriver()


def probing_of(driver: HostDriver, fleet: Fleet) -> Probes:
    """How versions are read; Consul agents are asked with the inventory's token and TLS."""
    source = fleet.inventory
    if isinstance(source, ConsulInventory):
        return Probes(driver, token=source.token, tls=source.tls)
    return Probes(driver)


def restarts_of(probes: Probes, change: Change | None) -> Restarts:
    """How it is read what a restart will do: at the agent that the change probes."""
    probe = change.running if change is not None else None
    return ConsulRestarts(probes, probe if isinstance(probe, ConsulAgentProbe) else None)


def store_of(url: str) -> PlanStore:
    """The plan store at an fsspec URL."""
    return PlanFolder(url)


@dataclass(slots=True)
class MetricsPool:
    """One connection to each source, made when it is first asked for."""

    _open: dict[Source, Prometheus] = field(default_factory=dict)

    def __call__(self, source: Source) -> Prometheus:
        """The metrics of that source."""
        if source not in self._open:
            self._open[source] = Prometheus(source)
        return self._open[source]

    async def close(self) -> None:
        """Close what was opened."""
        while self._open:
            _, prometheus = self._open.popitem()
            await prometheus.close()


@dataclass(frozen=True, slots=True)
class Edges:
    """All that one fleet and one change need of the outside world."""

    inventory: Inventory
    driver: Driver
    probing: Probes
    restarts: Restarts
    catalog: ConsulCatalog | None
    metrics_of: MetricsPool
    leaders: ConsulLeader


@asynccontextmanager
async def edges_of(fleet: Fleet, change: Change | None) -> AsyncIterator[Edges]:
    """The edges, closed at the end in the reverse order, whatever happens."""
    async with AsyncExitStack() as stack:
        driver = driver_of(change, fleet)
        stack.push_async_callback(driver.close)
        probing = probing_of(driver, fleet)
        stack.push_async_callback(probing.close)
        catalog = catalog_of(fleet)
        if catalog is not None:
            stack.push_async_callback(catalog.close)
        metrics = MetricsPool()
        stack.push_async_callback(metrics.close)
        yield Edges(
            inventory=inventory_of(fleet),
            driver=driver,
            probing=probing,
            restarts=restarts_of(probing, change),
            catalog=catalog,
            metrics_of=metrics,
            leaders=ConsulLeader(),
        )
