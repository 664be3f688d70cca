"""Which commands bring a host to a version, forward or back, and which ask whether they can?

Placeholders are filled word by word in one pass: a value that looks like a placeholder stays as
it is, and a word stays one word whatever it is filled with.
"""

import re
from dataclasses import dataclass

from guardrail.model.change import Change, Command
from guardrail.model.operation import Direction

_PLACEHOLDER = re.compile(r"\{(from|to|version|host)\}")


@dataclass(frozen=True, slots=True)
class Steps:
    """`prepare` is harmless and may be run again; `apply` is run once.

    `unprepare` undoes `prepare` where `apply` was never begun; best effort.
    """

    prepare: tuple[Command, ...]
    apply: tuple[Command, ...]
    unprepare: tuple[Command, ...] = ()


def steps_for(change: Change, direction: Direction, old: str, new: str, host: str) -> Steps:
    """The commands for one host; `old` and `new` as the rollout states them, both directions.

    Going back without steps of its own is the same steps with the versions exchanged; with its
    own `undo`, `{from}` and `{to}` keep their meaning and nothing is prepared.

    Going back nothing is unprepared: what was fetched is the former version, and throwing that
    away could leave a host without a way back.
    """
    if direction == "forward":
        values = {"from": old, "to": new, "version": new, "host": host}
        return Steps(
            filled(change.prepare, values),
            filled(change.apply, values),
            filled(change.unprepare, values),
        )
    if change.undo is None:
        values = {"from": new, "to": old, "version": old, "host": host}
        return Steps(filled(change.prepare, values), filled(change.apply, values))
    values = {"from": old, "to": new, "version": old, "host": host}
    return Steps((), filled(change.undo, values))


def asks_whether(change: Change, version: str, host: str) -> Command | None:
    """The command that ends with 0 where this version can be brought to the host; None: none."""
    if change.obtainable is None:
        return None
    (command,) = filled((change.obtainable,), {"version": version, "host": host})
    return command


def filled(commands: tuple[Command, ...], values: dict[str, str]) -> tuple[Command, ...]:
    """The commands with their placeholders replaced."""
    return tuple(
        tuple(_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in command)
        for command in commands
    )
