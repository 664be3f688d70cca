"""What is said to people, other than at a command line?"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """One message to people or channels, by the names under which a worker knows their addresses.

    cause: what it is about; whoever sends a message of the same cause twice means one message.
    lines: the last ones are the state in a sentence, what happens if nobody acts, and the command
    most likely right. at: when it was decided on, seconds since the epoch.
    """

    cause: str
    subject: str
    lines: tuple[str, ...]
    to: tuple[str, ...]
    at: float = 0.0
