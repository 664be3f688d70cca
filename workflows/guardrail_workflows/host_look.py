"""What is on a host, what do others say of it, and what is not yet as it should be?

The host is never asked alone: what is installed, what runs, and the node as the catalog's servers
see it must agree.
"""

from dataclasses import dataclass, replace

from guardrail.model.change import Change
from guardrail.model.fleet import Host
from guardrail.ports import Catalog, CatalogEntry, Probing


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a host, and at what others say of it. `lacks` is what is not as it should be."""

    installed: str | None
    running: str | None
    entry: CatalogEntry | None
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """How one host is looked at; `target` is the version that it is to have."""

    host: Host
    change: Change
    target: str
    probing: Probing
    catalog: Catalog | None

    @property
    def has_process(self) -> bool:
        """Whether what runs is read apart from what is installed, and may differ from it."""
        return self.change.running != self.change.installed

    async def once(self) -> Seen:
        """What is there. Raises Unreachable, BadCredentials, Unanswered, Refused."""
        installed = await self.probing.installed(self.host, self.change)
        running = installed
        if self.has_process:
            running = await self.probing.running(self.host, self.change)
        return Seen(installed, running, await self._entry())

    async def against(self, before: Seen) -> Seen:
        """The same, with what is lacking after a change; `before` is from before it."""
        seen = await self.once()
        return replace(seen, lacks=tuple(self._lacking(before, seen)))

    async def _entry(self) -> CatalogEntry | None:
        if self.catalog is None or self.change.verify_catalog is None:
            return None
        return await self.catalog.entry(self.host.name)

    def _lacking(self, before: Seen, now: Seen) -> list[str]:
        lacks = []
        for what, version in (("installed", now.installed), ("running", now.running)):
            if version != self.target:
                lacks.append(f"{version or 'no known version'} is {what}, not {self.target}")
        if self.change.verify_catalog is not None:
            lacks += self._lacking_in_catalog(before.entry, now.entry)
        return lacks

    def _lacking_in_catalog(
        self, before: CatalogEntry | None, entry: CatalogEntry | None
    ) -> list[str]:
        """What the servers do not show. Services are those from before, or the host's roles.

        A check that was critical before says nothing about the change.
        """
        if entry is None:
            return ["the catalog does not have the node"]
        lacks = []
        if not entry.alive:
            lacks.append("the servers do not see the agent alive")
        if entry.version != self.target:
            lacks.append(f"the servers see version {entry.version or '?'}, not {self.target}")
        services = before.services if before else self.host.roles
        if missing := sorted(set(services) - set(entry.services)):
            lacks.append(f"the catalog lacks {', '.join(missing)} on it")
        if failing := sorted(set(entry.failing) - set(before.failing if before else ())):
            lacks.append(f"critical since: {', '.join(failing)}")
        return lacks
