"""Does the plan that was made now keep to the one that somebody agreed to?

The worker plans anew from its own source, whatever is in a plan file, and compares. Where nothing
has moved the plan in the file is the one that is done, digest and all, so that approvals given for
it hold; where only what is tolerated has moved it is the new one.
"""

from dataclasses import replace

from guardrail.decide.bits import has
from guardrail.decide.contract import moved
from guardrail.decide.signing import start_statement
from guardrail.errors import Refused
from guardrail.files.contractfile import contract_of, read
from guardrail.model.contract import Contract
from guardrail.model.messages import PlanRequest
from guardrail.model.plan import Plan
from guardrail.model.policy import Policy
from guardrail.ports import PlanStore

ANEW = "make the plan file anew and look at it: guardrail plan FILE... -o PLAN.json"


def kept(store: PlanStore, request: PlanRequest, made: Plan, policies: tuple[Policy, ...]) -> Plan:
    """The plan that is to be done. Its refusals say what has moved since the plan file was made.

    Raises Refused when the file is not in the plan store, Unanswered when that is silent.
    """
    if not request.contract:
        return made
    given = read(store.get(request.contract), f"the plan file {request.contract[:19]}")
    return compared(given, contract_of(request, made, policies))


def start_text(store: PlanStore, request: PlanRequest) -> str:
    """The text that whoever asks for this has signed: it names the plan of the plan file.

    Raises Refused where there is no plan file, or it is not in the plan store; Unanswered.
    """
    if not request.contract:
        raise Refused(
            "a start is signed over the plan of a plan file, and there is none: make one, "
            "guardrail plan FILE... -o PLAN.json, and start that"
        )
    given = read(store.get(request.contract), f"the plan file {request.contract[:19]}")
    return start_statement(request.operation, given.digest, shadow=request.shadow)


def since(request: PlanRequest, then: Plan, now: Plan, done: int) -> tuple[str, ...]:
    """What has moved since an operation's plan was made; of hosts in the set `done` nothing is
    compared: the operation itself has had to do with them."""
    changed = frozenset(host.name for n, host in enumerate(then.hosts) if has(done, n))
    return moved(Contract(request, then), Contract(request, now), changed=changed)


def compared(given: Contract, now: Contract) -> Plan:
    """The plan of the file where nothing has moved, else the new one, refused where it must be."""
    reasons = [*moved(given, now)]
    if given.plan.refusals:
        reasons.append("the plan in the file was refused when it was made")
    if reasons:
        told = tuple(f"since the plan file was made: {reason}" for reason in reasons)
        return replace(now.plan, refusals=(*now.plan.refusals, *told, ANEW))
    same = _facts(given.plan) == _facts(now.plan) and not now.plan.refusals
    return given.plan if same and given.plan.requester == now.plan.requester else now.plan


def _facts(plan: Plan) -> Plan:
    """The plan without what is another one each time: its time, and what is told along with it."""
    return replace(
        plan, created_at=0.0, seconds_expected=0.0, seconds_closed=0.0, warnings=(), calendar=None,
        gates=tuple(replace(rule, first_within=0.0) for rule in plan.gates),
    )  # fmt: skip
