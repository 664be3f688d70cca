"""What may a document hold, told to an editor?

`python -m guardrail.files.schema` writes one JSON Schema a kind into `policies/schema/`. They are
made from the same formats that the loader uses; what needs more than one field to be judged (that
stages grow, that a query parses) only the loader says.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from guardrail.files import KINDS, shipped_policies


class _Generator(GenerateJsonSchema):
    """Without titles made from names, and without null: a key that is given has a value."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def encode_default(self, dft: Any) -> Any:
        """As the file would have it: `3 scrapes`, not the record that it becomes."""
        return dft if isinstance(dft, str | int | float) else None

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Without the words that this version does not keep yet."""
        described = super().model_schema(schema)
        for key in getattr(schema["cls"], "later", ()):
            described.get("properties", {}).pop(key, None)
        return described

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        described = super().default_schema(schema)
        if described.get("default") is None:
            described.pop("default", None)
        return described


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of one kind of document. Raises KeyError for a kind there is not."""
    made = KINDS[kind].format.model_json_schema(by_alias=True, schema_generator=_Generator)
    for piece in made.get("$defs", {}).values():
        piece.pop("title", None)
    return {"$schema": GenerateJsonSchema.schema_dialect, **made, "title": kind}


def text(kind: str) -> str:
    """The schema as its file has it."""
    return json.dumps(schema(kind), indent=2, ensure_ascii=False) + "\n"


def write(folder: Path) -> tuple[Path, ...]:
    """Write `<kind>.json` for every kind; the paths written. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in KINDS:
        path = folder / f"{kind.lower()}.json"
        path.write_text(text(kind), encoding="utf-8")
        written.append(path)
    return tuple(written)


if __name__ == "__main__":
    for path in write(shipped_policies() / "schema"):
        sys.stdout.write(f"{path}\n")
