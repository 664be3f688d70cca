"""Which version is installed on a host, which one runs, which can be had, what will a restart do?

Three kinds of probe: a command through the fleet's driver, the host's own Consul agent, and a
page of the host's own HTTP server. `None` is an answer (it runs not, or does not tell); silence
is `Unreachable`.
"""

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any

import httpx

from guardrail.decide.steps import asks_whether
from guardrail.edges.consul_api import cause, refused_connection, tls_context
from guardrail.edges.secrets import read_secret
from guardrail.model.change import Change, ConsulAgentProbe, HttpProbe, Probe, RunProbe
from guardrail.model.common import Secret, Tls
from guardrail.model.fleet import Host
from guardrail.ports import BadCredentials, HostDriver, RestartEffect, Unreachable

RUN_LIMIT = 20.0
HTTP_LIMIT = 5.0
"""Seconds for one probe."""
ASK_LIMIT = 60.0
"""Seconds for asking whether a version can be had: a repository may be slow."""
MOST_SAID = 300

_MOST_PAGE = 4 * 1024 * 1024
_FORBIDDEN = (401, 403)


@dataclass(frozen=True, slots=True)
class _Page:
    """An HTTP answer; `status` None: the machine answered that nothing listens there."""

    status: int | None
    text: str


class Probes:
    """Reads versions on hosts. `close` it at the end. `token` is for their Consul agents."""

    def __init__(
        self, driver: HostDriver, *, token: Secret | None = None, tls: Tls | None = None
    ) -> None:
        self._driver = driver
        self._token = token
        self._client = httpx.AsyncClient(
            verify=tls_context(tls), timeout=HTTP_LIMIT, trust_env=False
        )

    async def installed(self, host: Host, change: Change) -> str | None:
        """The version that is installed; None: answered, and it cannot be told."""
        return await self._read(host, change.installed)

    async def running(self, host: Host, change: Change) -> str | None:
        """The version that the live process reports; None: it does not run."""
        return await self._read(host, change.running)

    async def obtainable(self, host: Host, change: Change, version: str) -> str | None:
        """None: it can be brought there, or nothing tells; else what was said against it."""
        command = asks_whether(change, version, host.name)
        if command is None:
            return None
        status, output = await self._driver.run(host, command, limit=ASK_LIMIT)
        said = " ".join(output.split())[-MOST_SAID:]
        return None if status == 0 else said or f"{command[0]} ended with status {status}"

    async def close(self) -> None:
        """Close the connections; the driver is its owner's to close."""
        await self._client.aclose()

    async def _read(self, host: Host, probe: Probe) -> str | None:
        match probe:
            case RunProbe():
                return await self._run(host, probe)
            case ConsulAgentProbe():
                return await self._agent(host, probe)
            case HttpProbe():
                page = await self._fetch(host, f"http://{_at(host, probe.port)}{probe.path}")
                return (
                    first_group(probe.match, page.text) if page.status == httpx.codes.OK else None
                )

    async def _run(self, host: Host, probe: RunProbe) -> str | None:
        command = tuple(word.replace("{host}", host.name) for word in probe.run)
        status, output = await self._driver.run(host, command, limit=RUN_LIMIT)
        return first_group(probe.match, output) if status == 0 else None

    async def _agent(self, host: Host, probe: ConsulAgentProbe) -> str | None:
        version = _within(await self.agent_self(host, probe), "Config", "Version")
        return version if isinstance(version, str) else None

    # ------------------------------------------------------------ the host's own Consul agent

    async def agent_self(self, host: Host, probe: ConsulAgentProbe) -> dict[str, Any] | None:
        """`/v1/agent/self` of the host's own agent; None: it runs not, or tells nothing."""
        return await self.agent_get(host, probe, "/v1/agent/self")

    async def agent_get(
        self, host: Host, probe: ConsulAgentProbe, path: str
    ) -> dict[str, Any] | None:
        """One record from the host's own agent. Raises Unreachable, BadCredentials."""
        headers = {"X-Consul-Token": read_secret(self._token).text()} if self._token else {}
        url = f"{probe.scheme}://{_at(host, probe.port)}{path}"
        page = await self._fetch(host, url, headers)
        if page.status in _FORBIDDEN:
            raise BadCredentials(
                f"the Consul agent of {host.name} refuses to tell: {page.text[:200]}; give the "
                "fleet's token agent:read and service:read"
            )
        if page.status != httpx.codes.OK:
            return None
        try:
            found = json.loads(page.text)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    async def _fetch(self, host: Host, url: str, headers: dict[str, str] | None = None) -> _Page:
        try:
            async with (
                asyncio.timeout(HTTP_LIMIT),
                self._client.stream("GET", url, headers=headers) as response,
            ):
                body = b""
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > _MOST_PAGE:
                        break
                text = body.decode(errors="replace")
                return _Page(response.status_code, text)
        except httpx.ConnectError as fault:
            if refused_connection(fault):
                return _Page(None, "")
            raise Unreachable(f"{host.name} does not answer at {url}: {cause(fault)}") from fault
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError) as fault:
            late = isinstance(fault, httpx.TimeoutException | TimeoutError)
            reason = f"nothing came within {HTTP_LIMIT:g} s" if late else cause(fault)
            raise Unreachable(f"{host.name} does not answer at {url}: {reason}") from fault


class ConsulRestarts:
    """What a restart of a host's Consul agent will do, from the agent's own configuration."""

    def __init__(self, probes: Probes, probe: ConsulAgentProbe | None = None) -> None:
        self._probes = probes
        self._probe = probe or ConsulAgentProbe()

    async def restart_effect(self, host: Host) -> RestartEffect:
        """On SIGTERM a client leaves unless `leave_on_terminate` is false. Raises Unreachable."""
        own = await self._probes.agent_self(host, self._probe)
        if own is None:
            raise Unreachable(f"the Consul agent of {host.name} does not answer at {host.address}")
        services = await self._probes.agent_get(host, self._probe, "/v1/agent/services") or {}
        leaves = _within(own, "DebugConfig", "LeaveOnTerm")
        version = _within(own, "Config", "Version")
        names = {_within(service, "Service") for service in services.values()}
        return RestartEffect(
            version=version if isinstance(version, str) else None,
            leaves=leaves if isinstance(leaves, bool) else None,
            services=tuple(sorted(name for name in names if isinstance(name, str))),
        )


def first_group(pattern: str, text: str) -> str | None:
    """What the pattern's first group found, without spaces around; None: nothing."""
    found = re.search(pattern, text, re.MULTILINE)
    if found is None or not found.groups() or not found.group(1):
        return None
    return found.group(1).strip()


def _within(found: Any, *keys: str) -> Any:
    """What stands under these keys; None where one is missing or is no record."""
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _at(host: Host, port: int) -> str:
    return f"[{host.address}]:{port}" if ":" in host.address else f"{host.address}:{port}"
