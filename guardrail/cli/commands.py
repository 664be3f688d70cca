"""Which module has which command, and how is only the one that is called imported?

`guardrail rollout pause` is typed while something goes wrong: it must not wait for the lab, the
calendars and the simulation to be imported first. Each module has an `app` with its commands in
it: those of a group, whose name is the app's, or a few that stand at the root by themselves.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module

import typer
from typer._click.core import Command
from typer.main import get_group

MODULES = {
    "up": "up",
    "worker": "up",
    "stop": "stop",
    "plan": "plan",
    "simulate": "simulate",
    "rollout": "rollout",
    "policy": "policy",
    "gate": "gate",
    "journal": "journal",
    "lease": "lease",
    "override": "override",
    "freeze": "freeze",
    "remind": "remind",
    "season": "season",
    "notify": "notify",
    "lab": "lab",
}
"""Each command of the root, in the order of its help, and its module in guardrail.cli."""


class Commands(Mapping[str, Command]):
    """The root's commands by name; looking one up imports its module."""

    def __init__(self) -> None:
        self._made: dict[str, Command] = {}

    def __getitem__(self, name: str) -> Command:
        if name not in self._made:
            self._made |= _in_module(MODULES[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


def _in_module(module: str) -> dict[str, Command]:
    whole = typer.Typer(rich_markup_mode=None)
    whole.add_typer(import_module(f"guardrail.cli.{module}").app)
    return dict(get_group(whole).commands)
