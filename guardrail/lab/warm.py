"""Is the cache still the one that was warm when the lab was last as good as new?

It is while the same processes serve the same slots and the load has gone on. Agents may have come
and gone beside that.
"""

from dataclasses import astuple

from guardrail.lab import health
from guardrail.lab.layout import RING_KEY
from guardrail.lab.parameters import LOADS
from guardrail.lab.ready import CALM_DEMAND, is_steady
from guardrail.lab.register import Register

_FILE = "warm"


def note(register: Register) -> None:
    """Write down what the cache is made of: it is warm now."""
    (register.layout.state / _FILE).write_text(_made_of(register))


def is_untouched(register: Register) -> bool:
    """Whether the cache is as warm as it was when that was written down last."""
    file = register.layout.state / _FILE
    if len(register.running()) < len(register.parts) or not file.exists():
        return False
    calm = is_steady(register.layout, LOADS[register.load], CALM_DEMAND)
    return calm and file.read_text() == _made_of(register)


def _made_of(register: Register) -> str:
    """The processes that are no host's agents, and who serves which slot."""
    agents = ("/consul", "/exporter", "/sshd")
    found = sorted(register.running().items())
    served = [f"{name} {astuple(one)}" for name, one in found if not name.endswith(agents)]
    ring = health.fetch(register.layout.consul_address, 8500, f"/v1/kv/{RING_KEY}?raw")
    return "\n".join([*served, ring])
