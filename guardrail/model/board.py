"""What stands in all operations that somebody should know, and what of it has been said?

An operation tells all of it each time (`Tidings`), so that a telling that is lost, late or repeated
does no harm. The workflow that hears them keeps a `Board`. Times are seconds since the epoch.
"""

from dataclasses import dataclass

from guardrail.model.notice import Answer, Message, MessageKind, Route

NOTICES = "Notices"
"""The workflow type; there is one in a namespace."""
NOTICES_ID = "notices"
HEAR = "hear"
"""A signal: `Tidings`."""
BOARD = "board"
"""A query: `Board`."""

TRIAL = "NoticeTrial"
"""The workflow type of a look at a worker's channels, and of a message that tries one: a
`TrialAsked`, answered by `Tried`."""

TELL = "tell_notices"
"""An activity: `Tidings`, which it takes to that workflow, and starts it where it is not there."""
DUE = "notices_due"
"""A local activity: a `DueTask`, answered by `Due`."""
DELIVER = "deliver_message"
"""An activity: a `Message`, answered by `Delivered`."""


@dataclass(frozen=True, slots=True)
class Tiding:
    """One thing that stands in an operation, or has happened to it.

    like: what it has in common with those of other operations, which are said together:
    `hold:gate:boot-success`. lasts: it stands until it is told no more; else it happened once.
    patience: seconds that it has to stand before it is worth saying. what, many: words that follow
    an operation's name, and the words `12 operations`. lines: the text, which ends as design.md §9
    says. count: how many holds it stands for.
    """

    like: str
    kind: MessageKind
    what: str
    many: str
    lines: tuple[str, ...]
    lasts: bool = True
    patience: float = 0.0
    count: int = 1


@dataclass(frozen=True, slots=True)
class Tidings:
    """All that stands in an operation now. run: Temporal's id of its first run; number: of the
    event after which it was so; over: nothing will follow."""

    operation: str
    run: str
    number: int
    at: float
    standing: tuple[Tiding, ...] = ()
    over: bool = False


# ---------------------------------------------------------------- the board


@dataclass(frozen=True, slots=True)
class Member:
    """An operation in which something stands. since: when that was heard first. said: a message has
    told of it. gone: since when it stands no more. lines: none where many others have theirs."""

    operation: str
    run: str
    since: float
    patience: float
    lines: tuple[str, ...]
    count: int = 1
    said: bool = False
    gone: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """What is said together. last: when something was said of it last, 0.0: never. joined, again:
    messages since the first that were because of newcomers, and because it still stands. failed:
    how often in a row no channel took one."""

    like: str
    kind: MessageKind
    what: str
    many: str
    lasts: bool
    members: tuple[Member, ...] = ()
    last: float = 0.0
    joined: int = 0
    again: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Heard:
    """The newest telling of an operation."""

    operation: str
    run: str
    number: int
    at: float


@dataclass(frozen=True, slots=True)
class Board:
    """Groups by `like`, sorted; the newest tellings, sorted by operation."""

    groups: tuple[Group, ...] = ()
    heard: tuple[Heard, ...] = ()


@dataclass(frozen=True, slots=True)
class Saying:
    """A message that is due. fresh: operations that it tells of for the first time; all others of
    the group that stand are told of again."""

    like: str
    message: Message
    fresh: tuple[str, ...]
    operations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be said now, and when to look again (None: when something is heard)."""

    sayings: tuple[Saying, ...] = ()
    wake_at: float | None = None


@dataclass(frozen=True, slots=True)
class DueTask:
    """Look at this board at that time."""

    board: Board
    now: float


@dataclass(frozen=True, slots=True)
class Delivered:
    """What each channel answered, in the order in which they were asked."""

    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True)
class NoticesInput:
    """The workflow's argument. number: of messages so far. run_events: see RolloutInput."""

    board: Board = Board()
    number: int = 0
    run_events: int = 2_000


# ---------------------------------------------------------------- trying a channel


@dataclass(frozen=True, slots=True)
class TrialAsked:
    """Try this channel (empty: none, only say which there are). by: who asks."""

    channel: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """The worker's channels, and what the one that was tried answered (None: none was)."""

    routes: tuple[Route, ...] = ()
    answer: Answer | None = None
