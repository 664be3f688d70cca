"""How is only that command imported which is called?

`guardrail rollout pause` is typed while something goes wrong: it must not wait for the lab, the
calendars and the simulation to be imported first. Each module has an `app` with its commands in
it: a group under the app's name, or a few commands that belong to the group above.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, ClassVar, cast

import typer
from typer._click.core import Command, Context
from typer.core import TyperGroup
from typer.main import get_group


class Group(TyperGroup):
    """A group with commands whose modules are imported when they are asked for.

    later: the module in guardrail.cli of each, in the order of the help, after the group's others.
    """

    later: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        # They are looked up in here, and never added.
        self.commands = cast(
            "MutableMapping[str, Command]", _Commands(dict(self.commands), self.later)
        )

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:  # noqa: ARG002 (the base's)
        """The command of that name, imported now; None where there is none."""
        # `get` would take a KeyError in a module for a name that is not known.
        known = cmd_name in self.commands
        return self.commands[cmd_name] if known else None

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002 (the base's)
        """The names, for which nothing need be imported."""
        return list(self.commands)


class _Commands(Mapping[str, Command]):
    """Commands by name; looking one up imports its module."""

    def __init__(self, made: dict[str, Command], later: Mapping[str, str]) -> None:
        self._made, self._later = made, later
        self._names = dict.fromkeys((*made, *later))

    def __getitem__(self, name: str) -> Command:
        if name not in self._made:
            self._made |= _in_module(self._later[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _in_module(module: str) -> dict[str, Command]:
    whole = typer.Typer(rich_markup_mode=None)
    whole.add_typer(import_module(f"guardrail.cli.{module}").app)
    return dict(get_group(whole).commands)
