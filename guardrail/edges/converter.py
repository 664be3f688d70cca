"""How do records travel to Temporal and back? As JSON by pydantic, with no time lost on the way.

The SDK's own pydantic converter is right, and slow in two places. It is made anew for every run of
a workflow, and each works out again how every record is read (50 ms a run, and 140 ms for the first
one of a process, while somebody waits for a worker that has taken over). And it asks for every
payload whether its parts want to know what they convert, which none of ours does. On the wire
nothing differs.
"""

from typing import Self

from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    SerializationContext,
)

_PARTS = tuple(PydanticPayloadConverter().converters.values())


class Records(CompositePayloadConverter):
    """The pydantic converter, of which all instances share what they know of the records."""

    def __init__(self) -> None:
        super().__init__(*_PARTS)

    def with_context(self, context: SerializationContext) -> Self:  # noqa: ARG002
        """The same: no part of it depends on what is converted."""
        return self


class _Converter(DataConverter):
    def with_context(self, context: SerializationContext) -> Self:  # noqa: ARG002
        return self


CONVERTER = _Converter(payload_converter_class=Records)
"""What every client and worker of ours converts with."""
