"""Where does a secret come from, and how is it kept out of every message?

Documents name secrets and never hold them. What is read here stays inside a `Sealed` that prints
nothing; it is read anew at each use, so that a rotated file takes effect.
"""

import os
from pathlib import Path

from guardrail.errors import Refused
from guardrail.model.common import Secret

_MOST = 1024 * 1024


class Sealed:
    """A secret's value. Shows itself to nobody who does not ask for it by name."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """The bytes themselves; keep them out of messages and logs."""
        return self._value

    def text(self) -> str:
        """The value as one line, without its line end. Raises Refused if it is not UTF-8."""
        try:
            return self._value.decode().strip()
        except UnicodeDecodeError:
            raise Refused("a secret that must be text is not UTF-8") from None

    def __repr__(self) -> str:
        return "Sealed(…)"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not to be stored or sent")


def read_secret(secret: Secret) -> Sealed:
    """The value. Raises Refused, naming the place and never the value, when there is none."""
    value = _from_environment(secret.name) if secret.kind == "env" else _from_file(secret.name)
    if not value.strip():
        raise Refused(f"the secret in {place(secret)} is empty: put the value there")
    return Sealed(value)


def place(secret: Secret) -> str:
    """Where it is, in words."""
    return f"environment variable {secret.name}" if secret.kind == "env" else secret.name


def _from_environment(name: str) -> bytes:
    value = os.environ.get(name)
    if value is None:
        raise Refused(f"environment variable {name} is not set: set it where the worker starts")
    return value.encode(errors="surrogateescape")


def _from_file(name: str) -> bytes:
    path = Path(name).expanduser()
    try:
        with path.open("rb") as file:
            value = file.read(_MOST + 1)
    except OSError as fault:
        raise Refused(f"{path} cannot be read here: {fault.strerror}") from None
    if len(value) > _MOST:
        raise Refused(f"{path} holds more than 1 MiB, which no secret does: is it the right file?")
    return value
