"""How does a plan become a file that somebody can agree to, and an operation that keeps to it?"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from guardrail.cli import start
from guardrail.cli.session import progress
from guardrail.cli.signing import Signing, signature_over
from guardrail.decide.signing import start_statement
from guardrail.edges.store import PlanFolder
from guardrail.errors import Refused
from guardrail.files import contractfile
from guardrail.model.contract import Contract
from guardrail.model.messages import PlanRequest
from guardrail.settings import Settings

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="PLAN", help="Write the plan, to start exactly this."),
]


def write(path: Path, contract: Contract) -> None:
    """Write the plan file, whole or not at all. Raises Refused."""
    beside = path.with_name(f"{path.name}.part")
    try:
        beside.write_bytes(contractfile.written(contract))
        beside.replace(path)
    except OSError as error:
        raise Refused(f"the plan cannot be written to {path}: {error.strerror or error}") from error
    progress(f"plan {contract.digest} is in {path}; start it: guardrail rollout start {path}")


def requested(files: Sequence[Path], requester: str, name: str, known: Settings) -> PlanRequest:
    """What these files ask for: a rollout, or a plan that has to be kept to.

    A plan file goes to the plan store, where the worker finds it. Raises InvalidFile, Refused,
    Unanswered.
    """
    plans = [path for path in files if contractfile.is_contract(path)]
    if not plans:
        return start.requested(files, requester, name)
    if len(files) > 1:
        raise Refused(f"{plans[0]} is a plan file: it has all that is needed, so name it alone")
    data = plans[0].read_bytes()
    contract = contractfile.read(data, str(plans[0]))
    start.named(name)
    digest = PlanFolder(known.plans).put(data)
    return replace(contract.request, operation=name, requester=requester, contract=digest)


def start_signature(
    files: Sequence[Path], operation: str, how: Signing, *, shadow: bool
) -> str | None:
    """The signature of who asks, over the plan in a plan file; empty: none was asked for.

    None: only the text was printed. Raises Refused where there is no plan file, or no signature.
    """
    if not how.wanted:
        return ""
    plans = [path for path in files if contractfile.is_contract(path)]
    if not plans:
        raise Refused(
            "a start is signed over the plan of a plan file: make one and look at it, guardrail "
            "plan FILE... -o PLAN.json, and start that"
        )
    digest = contractfile.read(plans[0].read_bytes(), str(plans[0])).digest
    text = start_statement(operation, digest, shadow=shadow)
    return signature_over(text, how, f"--name {operation}")
