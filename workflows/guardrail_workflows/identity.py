"""Whose signature is it? An activity, since the keys that count are the worker's.

`signed.py` asks from within an operation; who asks for one is looked at when it is planned.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from temporalio import activity
from temporalio.exceptions import ApplicationError

from guardrail.contracting import start_text
from guardrail.edges.signatures import ALLOWED, signer_of
from guardrail.errors import Refused, Unanswered
from guardrail.model import messages
from guardrail.model.identity import Signed, Signer
from guardrail.model.messages import SignedRequest
from guardrail.ports import PlanStore


@dataclass(frozen=True, slots=True)
class Identity:
    """The keys of one worker. `allowed`: its file of allowed signers. store: with plan files."""

    allowed: Path
    store: PlanStore

    @classmethod
    def of(cls, source: Path, named: Path | None, store: PlanStore) -> "Identity":
        """The file that is named, or the one in the worker's source folder."""
        return cls(named or source / ALLOWED, store)

    @property
    def all(self) -> Sequence[Callable[..., Awaitable[Signer]]]:
        """The activities."""
        return (self.check_signature, self.who_asks)

    @activity.defn(name=messages.CHECK_SIGNATURE)
    async def check_signature(self, signed: Signed) -> Signer:
        """Who signed it; nobody, with the reason, where that cannot be told for certain."""
        try:
            return await asyncio.to_thread(signer_of, signed.text, signed.signature, self.allowed)
        except Refused as why:
            return Signer(problem=str(why))

    @activity.defn(name=messages.WHO_ASKS)
    async def who_asks(self, asked: SignedRequest) -> Signer:
        """Who signed the start of an operation, as `check_signature`.

        Raises ApplicationError (Unanswered) when the plan store is silent.
        """
        try:
            text = await asyncio.to_thread(start_text, self.store, asked.request)
        except Refused as why:
            return Signer(problem=str(why))
        except Unanswered as error:
            raise ApplicationError(str(error), type="Unanswered") from error
        return await self.check_signature(Signed(text, asked.signature))
