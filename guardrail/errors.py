"""Whose fault is it, and what does the person have to do?

Three answers, three classes; every message is written for the person who reads it.
"""

from dataclasses import dataclass


class GuardrailError(Exception):
    """Base of every error that guardrail raises on purpose."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in a file. Line and column count from 1."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class InvalidFile(GuardrailError):
    """A document cannot be used as written; carries all faults that were found."""

    exit_code = 2

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        self.faults = faults
        super().__init__("\n".join(str(fault) for fault in faults))


class Refused(GuardrailError):
    """What was asked is understood and not allowed; carries every reason."""

    exit_code = 1

    def __init__(self, *reasons: str) -> None:
        self.reasons = reasons
        super().__init__("\n".join(reasons))


class Unanswered(GuardrailError):
    """A service that is needed did not answer, or not with an answer that can be used."""

    exit_code = 3

    def __init__(self, service: str, address: str, reason: str) -> None:
        self.service = service
        self.address = address
        self.reason = reason
        super().__init__(f"{service} at {address} did not answer: {reason}")
