"""How is a contract kept in one file, and read again years later?

JSON, for programs and for who wants to look. `digest` is the plan's, as a store names it; `sum` is
over all of the contract, and is made again when the file is read, so that an edit is known:

    {"format": "guardrail/plan-file/v1", "sum": "sha256:…", "contract": {"digest": "sha256:…",
     "request": {…}, "plan": {hosts, versions, limits, windows, …}, "policies": […],
     "prediction": null}}
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from guardrail.errors import Refused
from guardrail.files.planfile import digest_of
from guardrail.model.contract import Contract
from guardrail.model.messages import PlanRequest
from guardrail.model.plan import Plan
from guardrail.model.policy import Policy

FORMAT = "guardrail/plan-file/v"
VERSION = 1
"""The format written, and the newest one read."""
LOOKED_AT = 4_096
"""Bytes at a file's beginning that tell whether it is a plan file."""


@dataclass(frozen=True, slots=True)
class _File:
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    sum: str
    contract: Contract
    format: Literal["guardrail/plan-file/v1"] = "guardrail/plan-file/v1"


@cache  # not at import: it takes tens of milliseconds, and few commands see a plan file
def _file() -> TypeAdapter[_File]:
    return TypeAdapter(_File)


@cache
def _contract() -> TypeAdapter[Contract]:
    return TypeAdapter(Contract)


def contract_of(request: PlanRequest, plan: Plan, policies: tuple[Policy, ...]) -> Contract:
    """The contract that this plan is; of the policies those that cover any of its hosts."""
    covering = {name for name, _ in plan.policies}
    rests_on = tuple(policy for policy in policies if policy.name in covering)
    return Contract(request, plan, rests_on, digest_of(plan))


def written(contract: Contract) -> bytes:
    """The file of a contract."""
    content = _file().dump_python(_File(_sum(contract), contract), mode="json")
    content = {"format": content.pop("format"), **content}
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _sum(contract: Contract) -> str:
    content = _contract().dump_python(contract, mode="json")
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def is_contract(path: Path) -> bool:
    """Whether a path is a plan file, by its first words."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        begin = file.read(LOOKED_AT)
    return begin.lstrip().startswith(b"{") and FORMAT.encode() in begin


def read(data: bytes, name: str) -> Contract:
    """The contract in a file. Raises Refused when it is none, was edited, or is too new."""
    _refuse_newer(data, name)
    try:
        file = _file().validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "content"
        raise Refused(
            f"{name} is no plan file that this version can read: {where}: {first['msg']}; make it "
            "anew: guardrail plan FILE... -o PLAN.json"
        ) from error
    contract = file.contract
    if _sum(contract) != file.sum or digest_of(contract.plan) != contract.digest:
        raise Refused(
            f"{name} was edited: it does not say any more what it was made with; make it anew: "
            "guardrail plan FILE... -o PLAN.json"
        )
    return contract


def _refuse_newer(data: bytes, name: str) -> None:
    try:
        content = json.loads(data)
    except ValueError:
        return
    named = str(content.get("format")) if isinstance(content, dict) else ""
    version = named.removeprefix(FORMAT)
    if named.startswith(FORMAT) and version.isdecimal() and int(version) > VERSION:
        raise Refused(
            f"{name} was made by a newer guardrail (format {named}; this one reads up to "
            f"{FORMAT}{VERSION}): use that one, or plan again"
        )
