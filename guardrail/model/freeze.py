"""When may nothing begin, because somebody says so, and where was that said?

A freeze is set by command (kept in one small workflow), by a file on a worker, or at a URL or a
key of Consul's. Set anywhere is frozen. Times are seconds since the epoch.
"""

from dataclasses import dataclass

FREEZES = "Freezes"
"""The workflow type of those set by command; there is one in a namespace."""
FREEZES_ID = "freezes"
FREEZE_ON = "freeze_on"
FREEZE_OFF = "freeze_off"
"""Updates: a `Freeze` and a `Lift`, both answered by `Frozen`."""
FROZEN = "frozen"
"""A query: `Frozen`."""

COMMAND = "command"
"""The place of a freeze that was set by command."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """Nothing begins, from `since` to `until` (None: until it is lifted); `until` itself is free.

    place: `command`, `file:PATH`, `url:…` or `kv:…`. roles, fleets: whom it concerns, all where
    there are none. binds_back: whether going back waits for its end, too. unreadable: nobody said
    so, but the place could not be read for too long.
    """

    name: str
    reason: str
    by: str
    since: float
    until: float | None = None
    place: str = COMMAND
    roles: tuple[str, ...] = ()
    fleets: tuple[str, ...] = ()
    binds_back: bool = True
    unreadable: bool = False


@dataclass(frozen=True, slots=True)
class Lift:
    """A person ends a freeze that was set by command."""

    name: str
    by: str
    reason: str
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Lifted:
    """A freeze that was ended before its time: whose, by whom, why and when."""

    freeze: Freeze
    by: str
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class Frozen:
    """All freezes that were set by command, sorted by name, and those that were lifted lately."""

    freezes: tuple[Freeze, ...] = ()
    lifted: tuple[Lifted, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What all places say at one time. unread: those that were not read yet, and why not."""

    freezes: tuple[Freeze, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Concerned:
    """What of an operation a freeze can be about. unknown: it has hosts without a known role."""

    fleet: str
    roles: tuple[str, ...] = ()
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A freeze that a worker has refused to begin a host for, until that host is asked again."""

    freeze: Freeze
    again_at: float


@dataclass(frozen=True, slots=True)
class Known:
    """What an operation knows of freezes.

    told: the present watch has read every place. standing: as it told last. elsewhere: what workers
    have refused to begin hosts for, and the watch has not told of.
    """

    told: bool = False
    standing: tuple[Freeze, ...] = ()
    elsewhere: tuple[Refused, ...] = ()


UNTOLD = Known()


@dataclass(frozen=True, slots=True)
class FreezesInput:
    """The workflow's argument. run_events: see RolloutInput. said: how often something was
    recorded."""

    at: float = 0.0
    frozen: Frozen = Frozen()
    run_events: int = 4_000
    said: int = 0
