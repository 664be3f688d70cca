"""What does the person who rolls out ask for? (The document, not the running operation.)"""

from dataclasses import dataclass, field
from typing import Literal

from guardrail.model.change import ChangeRef
from guardrail.model.common import Amount
from guardrail.model.lease import Priority

FirstOf = Literal["role", "os", "version"]


@dataclass(frozen=True, slots=True)
class Order:
    """In which order hosts come: grouped by failure domain or by name, canaries before all.

    `canaries` asks for the first host of each combination of these facts up front.
    """

    by: Literal["failureDomain", "name"] = "failureDomain"
    canaries: tuple[FirstOf, ...] = ()


NONE = Amount(0)


@dataclass(frozen=True, slots=True)
class Tolerate:
    """How many hosts, and how many versions, may be otherwise than a plan file has them."""

    hosts: Amount = NONE
    versions: Amount = NONE


NOTHING = Tolerate()


@dataclass(frozen=True, slots=True)
class Rollout:
    """The document `Rollout`. Stages are cumulative; the last one is 100 %."""

    name: str
    fleet: str
    change: ChangeRef
    stages: tuple[Amount, ...]
    gates: tuple[str, ...] = ()
    order: Order = field(default_factory=Order)
    description: str = ""
    ticket: str = ""
    priority: Priority = "normal"
    tolerate: Tolerate = NOTHING
