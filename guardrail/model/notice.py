"""What is said to people, and what became of saying it?

A `Message` names channels and never holds an address: where a channel leads is known to the worker
only (files/channel.py, edges/notify.py). Times are seconds since the epoch.
"""

from dataclasses import dataclass
from typing import Literal

from guardrail.model.common import Secret

MessageKind = Literal["hold", "approval", "finish", "rollback", "reminder", "check"]
KINDS: tuple[MessageKind, ...] = ("hold", "approval", "finish", "rollback", "reminder", "check")


@dataclass(frozen=True, slots=True)
class Message:
    """One thing to be said, as people read it.

    about: the operation, the reminder or the checklist, by name. cause: what it is said for, the
    same as long as it is the same thing (`hold:gate:boot-success`): there is one message a cause.
    lines: the text, of which the last ones say what happens if nobody acts and the one command most
    likely right.
    to: channels by name; none: those that the worker's documents have for this kind. at: when it
    was decided on.
    """

    kind: MessageKind
    about: str
    cause: str
    subject: str
    lines: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Channel:
    """A way to reach somebody. address: where its URL is (an apprise URL: `mailtos://…`,
    `https://…`), never the URL itself.

    tells: kinds of messages that it gets without being named. otherwise: the channel that a message
    goes to where this one fails; empty: none. timeout: seconds for one try. tries: how many, 1 to
    10; wait: seconds before the second, which double each time.
    """

    name: str
    address: Secret
    tells: tuple[MessageKind, ...] = KINDS
    otherwise: str = ""
    timeout: float = 10.0
    tries: int = 4
    wait: float = 1.0


@dataclass(frozen=True, slots=True)
class Route:
    """What a workflow may know of a channel: everything but where it leads."""

    name: str
    tells: tuple[MessageKind, ...] = KINDS
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """The channel took the message, after so many tries."""

    channel: str
    at: float
    tries: int = 1
    kind: Literal["sent"] = "sent"


@dataclass(frozen=True, slots=True)
class Failed:
    """The channel did not take it, and why, in words that name no address."""

    channel: str
    at: float
    why: str
    tries: int = 1
    kind: Literal["failed"] = "failed"


Answer = Sent | Failed


@dataclass(frozen=True, slots=True)
class SendTask:
    """The activity's argument: a message, and the one channel that it goes to now."""

    message: Message
    channel: str


SEND = "send_message"
"""An activity: a `SendTask`, answered by `Sent` or `Failed`; it never raises for a channel."""
ROUTES = "notice_routes"
"""An activity: the worker's channels as a list of `Route`."""
