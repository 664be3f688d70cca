"""Which node serves which slot of a tier's ring? As its control plane keeps it in Consul.

A key holds the ring as JSON, {"slots": [node or null, ...], "spares": [node, ...]}; other words in
it are nobody's business here. What is not there, or cannot be such a ring, is no answer: a ring
that is taken for smaller than it is would let too many slots be cold.
"""

import json
from base64 import b64decode
from collections import Counter
from typing import Any
from urllib.parse import quote

from guardrail.edges.consul_api import ConsulApi
from guardrail.errors import Refused, Unanswered
from guardrail.model.budget import RingListed


async def read_ring(api: ConsulApi, key: str) -> RingListed:
    """The ring under that key.

    Raises Refused where there is no such key or it holds no ring, Unanswered.
    """
    found = await api.get_if_there(f"/v1/kv/{quote(key)}", ("consistent", ""))
    if found is None:
        raise Refused(
            f"Consul at {api.address} has no key {key}, which the fleet names as its ring: check "
            "`inventory.consul.ring`, and that the token may read it"
        )
    try:
        return ring_of(decoded(found))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as fault:
        why = f"key {key} holds no ring ({fault})"
        raise Unanswered("Consul", api.address, why) from fault


def decoded(found: Any) -> Any:
    """What a key holds, from Consul's answer. Raises ValueError and the like."""
    return json.loads(b64decode(found[0]["Value"], validate=True))


def ring_of(written: Any) -> RingListed:
    """The ring as it is written. Raises ValueError with what is wrong with it."""
    slots, spares = written["slots"], written.get("spares", [])
    if not isinstance(slots, list) or not slots or not isinstance(spares, list):
        raise ValueError("`slots` and `spares` are lists of nodes, the first of at least one")
    nodes = [*(slot for slot in slots if slot is not None), *spares]
    if not all(isinstance(node, str) and node for node in nodes):
        raise ValueError("a node is a name, and a slot without one is null")
    twice = sorted(node for node, places in Counter(nodes).items() if places > 1)[:3]
    if twice:
        raise ValueError(f"a node has one place, and these have more: {', '.join(twice)}")
    return RingListed(tuple(slot or "" for slot in slots), tuple(spares))
