"""How is a state made from the one before, quickly?

`dataclasses.replace` looks every field up by name and took half of the time that `decide` needs.
`replace` here does the same for `State`: copy all fields at once, then set the ones that change.
"""

from typing import Any

from guardrail.model.operation import State

_NAMES = State.__dataclass_fields__.keys()
_COUNT = len(_NAMES)


def replace(state: State, **changes: Any) -> State:
    """The state with these fields changed. Raises KeyError for a field that it has not."""
    new: State = object.__new__(State)
    fields = new.__dict__
    fields.update(state.__dict__)
    fields.update(changes)
    if len(fields) != _COUNT:
        raise KeyError(*sorted(changes.keys() - _NAMES))
    return new
