"""How do YAML documents become models, and what is said when they cannot?"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guardrail.files.documents import Documents
    from guardrail.files.loader import API_VERSION, KINDS, Survey, load, parse, survey
else:

    def __getattr__(name: str) -> object:
        """What is the loader's, imported with every format when it is first asked for."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("guardrail.files.loader"), name)


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
