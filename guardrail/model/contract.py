"""What did a person see and agree to, before anything was started? A plan as a contract.

A contract is a plan as it was made, what was asked for, and the policies it rests on. It is kept
as one file, and `rollout start` asks whether the world is still so.
"""

from dataclasses import dataclass

from guardrail.model.messages import PlanRequest
from guardrail.model.plan import Plan
from guardrail.model.policy import Policy


@dataclass(frozen=True, slots=True)
class Contract:
    """A plan, what was asked for, and the policies that cover any of its hosts.

    digest: of the plan as a store keeps it: what approvals are signed over. prediction: none is
    made yet.
    """

    request: PlanRequest
    plan: Plan
    policies: tuple[Policy, ...] = ()
    digest: str = ""
    prediction: None = None
