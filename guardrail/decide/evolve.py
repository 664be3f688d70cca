"""How is a state made from the one before, quickly?

`dataclasses.replace` looks every field up by name and took half of the time that `decide` needs.
`replace` here does the same for `State`: copy all slots, then set the ones that change.
"""

from operator import attrgetter
from typing import Any

from guardrail.model.operation import State

_NAMES = tuple(State.__dataclass_fields__)
_VALUES = attrgetter(*_NAMES)
_SET = {name: State.__dict__[name].__set__ for name in _NAMES}
_SETTERS = tuple(_SET.values())


def replace(state: State, **changes: Any) -> State:
    """The state with these fields changed. Raises KeyError for a field that it has not."""
    new: State = object.__new__(State)
    for put, value in zip(_SETTERS, _VALUES(state), strict=True):
        put(new, value)
    for name, value in changes.items():
        _SET[name](new, value)
    return new
