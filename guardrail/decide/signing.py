"""Which words exactly does a person sign, so that a signature is for one thing and no other?

    guardrail statement 1
    verb: approve
    operation: consul-1.8.8
    plan: sha256:9f2c…
    point: start

The plan's digest is in it: a changed plan, or another operation of that name, needs another
signature.
"""

from typing import TYPE_CHECKING, Protocol

from guardrail.decide.overrides import clock
from guardrail.errors import Refused
from guardrail.model.identity import Signer

if TYPE_CHECKING:
    from guardrail.model.journal import Pairs

SIGNABLE = ("approve", "rollback", "override")
"""What can be signed of what is said to an operation: what some rule wants a verified person for.
The start is signed, too (`start_statement`)."""


class Words(Protocol):
    """What a command says; `messages.Say` and `operation.Commanded` do."""

    @property
    def verb(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def point(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def accept_churn(self) -> bool: ...
    @property
    def limit(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def until(self) -> float: ...


def statement(operation: str, plan: str, said: Words) -> str:
    """The text to sign, ending in a newline. Raises Refused for what cannot be signed."""
    if said.verb not in SIGNABLE:
        raise Refused(f"{said.verb} is not signed; what can be: {', '.join(SIGNABLE)}")
    return _text(said.verb, operation, plan, _particular(said))


def start_statement(operation: str, plan: str, *, shadow: bool) -> str:
    """The text to sign by whoever asks for an operation under that name, on the plan of a plan
    file with this digest. Raises Refused as `statement` does."""
    return _text("start", operation, plan, [("shadow", "yes" if shadow else "no")])


def _text(verb: str, operation: str, plan: str, particular: list[tuple[str, str]]) -> str:
    lines = [("verb", verb), ("operation", operation), ("plan", plan), *particular]
    for name, value in lines:
        if not value or not value.isprintable():
            raise Refused(f"the {name} of what is signed has to be one line of text, not {value!r}")
    return "\n".join(["guardrail statement 1", *(f"{k}: {v}" for k, v in lines), ""])


def _particular(said: Words) -> list[tuple[str, str]]:
    if said.verb == "approve":
        return [("point", said.point)]
    if said.verb == "rollback":
        return [("scope", said.scope), ("accepts churn", "yes" if said.accept_churn else "no")]
    value = f"{said.value:.10g}"
    return [
        *(("limit", said.limit), ("value", value), ("until", clock(said.until))),
        ("reason", said.reason),
    ]


def vouched(signer: Signer) -> "Pairs":
    """What the journal has of who signed the start; nothing where nobody did."""
    return (("signed by", signer.name), ("key", signer.key)) if signer.name else ()


MOST_LETTERS = 16_384
"""A signature is not longer; it is kept in history."""


def refuse_unchecked(verb: str, signature: str, *, finished: bool) -> str | None:
    """Why a signed command is not even worth checking; None: only its signer is to be told."""
    if finished:
        return "the operation has ended; nothing can be said to it any more"
    if verb not in SIGNABLE:
        return f"{verb} is not signed; what can be: {', '.join(SIGNABLE)}"
    if len(signature) > MOST_LETTERS:
        return f"that is no signature: it has more than {MOST_LETTERS:,} letters"
    return None
