"""What may be exceeded, by how much, until when, and who says so?"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Override:
    """A recorded permission to exceed one limit of one operation, which ends by itself.

    limit: as the plan names it. value: in the limit's unit; planned: what the plan allows. until:
    seconds since the epoch, whole ones. wants: (policy, its owners) of which one has to agree
    still; with any of them it is not in force. agreed: who did. verified: whether the name of who
    asked is.
    """

    limit: str
    value: float
    planned: float
    until: float
    by: str
    at: float
    reason: str
    verified: bool = False
    wants: tuple[tuple[str, tuple[str, ...]], ...] = ()
    agreed: tuple[str, ...] = ()

    @property
    def in_force(self) -> bool:
        """Whether everybody who has to has agreed."""
        return not self.wants
