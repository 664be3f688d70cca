"""On which machines does this program itself stand: worker, Temporal, Consul, Prometheus?

Names and addresses, as hosts of an inventory may have them. 127.0.0.1 and its names are nobody's
address: every machine is that to itself.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from guardrail.model.fleet import ConsulInventory, Fleet
from guardrail.model.gate import Source

WITHIN = 3.0
"""Seconds for asking what names stand for; what is not known by then is compared by name only."""
NOBODYS = frozenset(("127.0.0.1", "::1", "localhost", "0.0.0.0", "::"))  # noqa: S104 - compared


async def own_servers(temporal: str, fleet: Fleet, sources: Iterable[Source]) -> frozenset[str]:
    """The names and addresses of this program's servers. temporal: `host:port`; empty: unknown."""
    named = {machine for machine in (temporal_host(temporal), *_urls(fleet, sources)) if machine}
    here = socket.gethostname()
    found = set(named) | {here, here.partition(".")[0]}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WITHIN):
            for known in await asyncio.gather(*(_addresses(name) for name in (*named, here))):
                found |= known
    return frozenset(found - NOBODYS)


def temporal_host(address: str) -> str:
    """The machine of `host:port`; an IPv6 address stands in brackets."""
    return urlsplit(f"//{address}").hostname or ""


def _urls(fleet: Fleet, sources: Iterable[Source]) -> list[str]:
    urls = [source.address for source in sources]
    if isinstance(fleet.inventory, ConsulInventory):
        urls.append(fleet.inventory.address)
    return [urlsplit(url).hostname or "" for url in urls]


async def _addresses(name: str) -> set[str]:
    """What a name stands for, as far as that can be told; an address stands for itself."""
    with contextlib.suppress(ValueError):
        return {str(ipaddress.ip_address(name))}
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(address[0]) for *_, address in found}
