"""Where does a document stand, and what do paths and digests in it come to?

Paths in documents (`{file: …}`, `caFile`, `config`) are made absolute when a document is loaded:

    ssh/id_ed25519               relative to the folder of the document's own file
    ~/.ssh/config                `~` and `~user` as a shell reads them
    $XDG_STATE_HOME/guardrail/…  the state folder, ~/.local/state when the variable is not set;
                                 no other variable is expanded
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from guardrail.files.tree import Placed, walk_paths
from guardrail.files.values import SecretFormat, TlsFormat
from guardrail.model.common import Origin, Secret, Tls

_STATE = "$XDG_STATE_HOME/"


@dataclass(frozen=True, slots=True)
class Place:
    """What mapping a format onto a model needs to know about its file. revision: asks git for it,
    and only documents whose values are traced back ask."""

    placed: Placed
    revision: Callable[[], str] = str

    @property
    def file(self) -> str:
        return self.placed.file

    def path(self, written: str) -> str:
        """An absolute path, however it was written (see above)."""
        if written.startswith(_STATE):
            state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
            written = f"{state}/{written.removeprefix(_STATE)}"
        expanded = os.path.expanduser(written)  # noqa: PTH111 - Path's raises for an unknown user
        return os.path.normpath(Path(self.file).absolute().parent / expanded)

    def optional_path(self, written: str | None) -> str | None:
        return None if written is None else self.path(written)

    def secret(self, written: SecretFormat | None) -> Secret | None:
        if written is None:
            return None
        if written.env is not None:
            return Secret("env", written.env)
        return Secret("file", self.path(written.file or ""))

    def tls(self, written: TlsFormat | None) -> Tls | None:
        if written is None:
            return None
        return Tls(
            ca_file=self.optional_path(written.ca_file),
            certificate_file=self.optional_path(written.certificate_file),
            key_file=self.optional_path(written.key_file),
            server_name=written.server_name,
        )

    def digest(self) -> str:
        """`sha256:…` of what the document says; comments and layout do not change it.

        It is taken over the words as written, so `60s` and `1m` differ, and the paths in it do
        not depend on where the file lies.
        """
        options = {"sort_keys": True, "separators": (",", ":"), "ensure_ascii": True}
        canonical = json.dumps(self.placed.data, allow_nan=False, **options)  # type: ignore[arg-type]
        return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()

    def origins(self, document: str) -> tuple[tuple[str, Origin], ...]:
        """The line of every value in `spec`, by dotted path: `limits.wave`, `gates.require.0`."""
        revision = self.revision()
        return tuple(
            (".".join(map(str, path[1:])), Origin(document, self.file, spot.line, revision))
            for path, spot, _ in walk_paths(self.placed)
            if path[0] == "spec" and len(path) > 1
        )
