"""Which host is number 12 of the plan? The plan store knows; without it numbers are shown."""

import asyncio
from dataclasses import dataclass, replace

from guardrail.decide.bits import members
from guardrail.edges.store import PlanFolder
from guardrail.errors import GuardrailError
from guardrail.model.messages import HostState, Status
from guardrail.model.plan import Plan
from guardrail.settings import Settings

READ = 5.0
"""Seconds a plan store may take; names are a comfort and never worth a wait."""


@dataclass(frozen=True, slots=True)
class Names:
    """A plan, or why it could not be read."""

    plan: Plan | None
    missing: str = ""

    def of(self, index: int) -> str:
        """The host's name; its number where the plan is not at hand."""
        if self.plan is None or index >= len(self.plan.hosts):
            return f"host #{index}"
        return self.plan.hosts[index].name

    def changed(self, status: Status) -> list[str]:
        """The names of the changed hosts, in plan order."""
        return [self.of(index) for index in members(int(status.changed_hosts, 16))]

    def named(self, status: Status) -> Status:
        """The status with the names that the engine does not carry."""
        return replace(
            status,
            in_flight=tuple(self._named(host) for host in status.in_flight),
            exceptional=tuple(self._named(host) for host in status.exceptional),
        )

    def _named(self, host: HostState) -> HostState:
        return host if host.name else replace(host, name=self.of(host.index))


async def names_of(settings: Settings, digest: str) -> Names:
    """The names behind a plan's digest; never raises and never takes long."""
    if not digest:
        return Names(None, "there is no plan yet")
    try:
        work = asyncio.to_thread(_load, settings.plans, digest)
        return Names(await asyncio.wait_for(work, READ))
    except TimeoutError:
        reason = f"no answer within {READ:g} s"
    except GuardrailError as error:
        reason = str(error).splitlines()[0]
    return Names(None, f"hosts are shown by number: the plan cannot be read here ({reason})")


def _load(url: str, digest: str) -> Plan:
    from guardrail.files.planfile import load_plan  # pydantic works out a whole plan's format

    return load_plan(PlanFolder(url), digest)
