"""How do YAML documents become models, and what is said when they cannot?"""

from pathlib import Path

from guardrail.files.documents import Documents
from guardrail.files.loader import API_VERSION, KINDS, Survey, load, parse, survey

__all__ = [
    "API_VERSION",
    "KINDS",
    "Documents",
    "Survey",
    "load",
    "parse",
    "shipped_policies",
    "survey",
]


def shipped_policies() -> Path:
    """The folder of the shipped policies, changes, gates and schemas.

    In an installed wheel they lie inside the package, in a checkout beside it.
    """
    package = Path(__file__).resolve().parent.parent
    inside = package / "policies"
    return inside if inside.is_dir() else package.parent / "policies"
