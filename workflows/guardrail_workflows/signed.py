"""Who has signed a command? An operation asks a worker, and refuses what it cannot tell.

A validator may not wait, so a signed command is let in unchecked, and refused here: what it says
counts only with the name that the worker's keys give it.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from guardrail.decide.signing import statement
    from guardrail.errors import Refused
    from guardrail.model import messages
    from guardrail.model.identity import NOBODY, Signed, Signer
    from guardrail.model.messages import PlanRequest, Say, SignedRequest

ANSWERS = timedelta(seconds=10)
"""How long a worker may take: a person waits for 15 s at the most."""


async def signer_of(say: Say, operation: str, plan: str) -> Signer:
    """Whose signature is on it. Raises ApplicationError (Refused) when that cannot be told."""
    try:
        signed = Signed(statement(operation, plan, say), say.signature)
        signer: Signer = await workflow.execute_activity(
            messages.CHECK_SIGNATURE,
            signed,
            result_type=Signer,
            schedule_to_close_timeout=ANSWERS,
            retry_policy=RetryPolicy(maximum_attempts=3),
            summary=f"signature of {say.verb}",
        )
    except Refused as why:
        raise ApplicationError(str(why), type="Refused") from None
    except ActivityError:
        told = "no worker has checked the signature in time; nothing was done: say it again"
        raise ApplicationError(told, type="Refused") from None
    if signer.problem or not signer.name:
        raise ApplicationError(signer.problem or "the signature is nobody's", type="Refused")
    return signer


async def who_asks(request: PlanRequest, signature: str) -> Signer:
    """Who signed the start; nobody, where there is no signature.

    Raises ApplicationError (Refused) when there is one and it cannot be told whose it is.
    """
    if not signature:
        return NOBODY
    signer: Signer = await workflow.execute_activity(
        messages.WHO_ASKS,
        SignedRequest(request, signature),
        result_type=Signer,
        start_to_close_timeout=ANSWERS,
        retry_policy=RetryPolicy(maximum_attempts=3),
    )
    if signer.problem or not signer.name:
        why = signer.problem or "the signature is nobody's"
        raise ApplicationError("the start is refused", why, type="Refused", non_retryable=True)
    return signer
