"""Who says so, and does anybody vouch for it?

A name from the environment is what somebody typed: it is recorded, and nobody vouches for it. A
name behind a signature is verified: a worker has checked it against the keys that it was given.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signed:
    """A text as its signer had it, and the signature in armor (`-----BEGIN SSH SIGNATURE-----`)."""

    text: str
    signature: str


@dataclass(frozen=True, slots=True)
class Signer:
    """Whose signature it is. problem: why it cannot be told; then nobody's, and the rest is empty.

    groups: other names for which this person may speak, such as the owners of a policy. key: the
    fingerprint (`SHA256:…`).
    """

    name: str = ""
    groups: tuple[str, ...] = ()
    key: str = ""
    problem: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The person, and all for whom the person may speak."""
        return (self.name, *self.groups)


NOBODY = Signer()
"""Nobody vouches for it."""
