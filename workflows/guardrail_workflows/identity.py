"""Whose signature is it? An activity, since the keys that count are the worker's.

`signed.py` asks from within an operation.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from temporalio import activity

from guardrail.edges.signatures import ALLOWED, signer_of
from guardrail.errors import Refused
from guardrail.model import messages
from guardrail.model.identity import Signed, Signer


@dataclass(frozen=True, slots=True)
class Identity:
    """The keys of one worker. `allowed`: its file of allowed signers."""

    allowed: Path

    @classmethod
    def of(cls, source: Path, named: Path | None = None) -> "Identity":
        """The file that is named, or the one in the worker's source folder."""
        return cls(named or source / ALLOWED)

    @activity.defn(name=messages.CHECK_SIGNATURE)
    async def check_signature(self, signed: Signed) -> Signer:
        """Who signed it; nobody, with the reason, where that cannot be told for certain."""
        try:
            return await asyncio.to_thread(signer_of, signed.text, signed.signature, self.allowed)
        except Refused as why:
            return Signer(problem=str(why))
