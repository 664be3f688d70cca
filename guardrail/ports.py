"""What does the program need from the outside world? One small Protocol for each thing.

Edges fulfil these on real parts, twins in memory; one contract test serves both.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from guardrail.model.budget import Listing, RingListed
from guardrail.model.change import Change, Command
from guardrail.model.fleet import Fleet, Host, KnownFleet, Leading
from guardrail.model.gate import Age, Reading
from guardrail.model.journal import Entry, Head
from guardrail.model.notice import Answer, Message, Route


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One node as the catalog's servers see it. `version` is what the agent gossips.

    `failing` names the checks of the node that are critical.
    """

    node: str
    address: str
    version: str | None
    alive: bool
    services: tuple[str, ...]
    failing: tuple[str, ...] = ()


class Inventory(Protocol):
    """Where the hosts of a fleet are found."""

    async def hosts(self, fleet: Fleet) -> tuple[Host, ...]:
        """All hosts, sorted by name.

        Raises Refused when the answer is not whole (filtered by ACLs, empty), Unanswered when
        there is none.
        """


@runtime_checkable
class Rings(Protocol):
    """Which nodes of a fleet's tier serve the slots of its ring."""

    async def ring(self, fleet: Fleet) -> RingListed | None:
        """The ring; None: the fleet names none. Raises Refused (it is not there, or is no ring),
        Unanswered."""


class Leaders(Protocol):
    """Who leads servers that choose a leader among them."""

    async def leading(self, fleet: Fleet) -> Leading:
        """Who leads now, and whether all are well. Raises Unanswered; Refused: nobody to ask."""


class Catalog(Protocol):
    """The service catalog as its servers see it, not as one host's agent tells it."""

    async def entry(self, node: str) -> CatalogEntry | None:
        """One node, or None when it is not in the catalog. Raises Unanswered."""


class Listings(Protocol):
    """The nodes of a fleet's service, each time they change."""

    async def next(self) -> Listing:
        """The nodes once they have changed, or after a few seconds. Raises Unanswered, Refused."""


@dataclass(frozen=True, slots=True)
class RestartEffect:
    """What restarting a host's agent will do to the catalog.

    leaves: whether a stop takes the node out of the catalog; None: the agent does not say.
    services: what goes with it.
    """

    version: str | None
    leaves: bool | None
    services: tuple[str, ...]

    def __str__(self) -> str:
        named = ", ".join(self.services) or "no service"
        if self.leaves is None:
            return f"this restart may deregister the node with {named}: its agent does not say"
        if self.leaves:
            return f"this restart will deregister the node with {named} for about 5 s"
        return f"this restart keeps the node and {named} registered"


class Restarts(Protocol):
    """What a restart of the agent on one host will do, asked before it is done."""

    async def restart_effect(self, host: Host) -> RestartEffect:
        """Read from the host's own agent. Raises Unreachable, BadCredentials."""


class Metrics(Protocol):
    """A place where service indicators are read."""

    async def read(self, query: str, max_age: Age | None = None) -> Reading:
        """One instant query, as a reading: absence and faults are readings too; never raises.

        With `max_age`, a reading that rests on older samples is `stale`; each selector of the
        query is judged against its own scrape interval.
        """

    async def age(self, query: str) -> float | None:
        """Seconds since the oldest newest-sample among the query's selectors; None: no data."""

    async def scrape_interval(self, query: str) -> float | None:
        """Measured seconds between samples of the query's slowest selector; None: unknown."""


@dataclass(frozen=True, slots=True)
class Token:
    """The fencing token of one attempt on one host; compared left to right."""

    lease: int
    turn: int
    attempt: int


@dataclass(frozen=True, slots=True)
class StepRequest:
    """What the host-side runner is to do, once: `steps` in order, under the agent's lock.

    `limit` is in seconds, for all steps together. `direction` is "forward" or "back". `run` tells
    this operation from an earlier one of the same name; what that one left is none of its work.
    `look_again`: nothing is asked and nothing begins where other steps may have run since the
    caller has looked; the result says so.
    """

    operation: str
    agent: str
    direction: str
    token: Token
    steps: tuple[Command, ...]
    limit: float
    run: str = ""
    look_again: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    """What became of the steps.

    kind: "done" (exit status and output are those of the last step run), "not_begun" (the
    permit was refused or came late), "refused" (a higher token is stored), "died" (the steps
    had begun, and their runner ended without leaving a status), "running" (they have begun and
    run still, past their limit), "blocked" (nothing was begun), "look_again" (nothing was begun:
    other steps were waited for, or an earlier turn has run here; none of it runs any more, and
    nothing older begins).
    """

    kind: str
    exit_status: int | None = None
    output: str = ""
    reason: str = ""


Permit = Callable[[], Awaitable[bool]]
"""Asked last, just before the host is told "go": may it begin?"""


class HostDriver(Protocol):
    """The hands on one host. Every call may raise Unreachable (below) or BadCredentials."""

    async def run(self, host: Host, command: Command, *, limit: float) -> tuple[int, str]:
        """Run a harmless command (a probe, `prepare`); exit status and output. Seconds `limit`."""

    async def apply(self, host: Host, request: StepRequest, permit: Permit) -> StepResult:
        """Run the steps on the host detached and once, after asking the permit."""


class Unreachable(Exception):
    """A host did not answer, or the connection died before an exit status came."""


class BadCredentials(Exception):
    """A host answered and refused who we are (or is not who its host key should say)."""


class Probing(Protocol):
    """How the versions of an agent on a host are read, and whether one can be brought there."""

    async def installed(self, host: Host, change: Change) -> str | None:
        """The version that is installed; None: answered, and it cannot be told."""

    async def running(self, host: Host, change: Change) -> str | None:
        """The version that the live process reports; None: it does not run."""

    async def obtainable(self, host: Host, change: Change, version: str) -> str | None:
        """Whether the version can be brought to the host: None: it can, or the change does not
        say how to ask; else what the host said against it. Nothing is changed by asking."""


class PlanStore(Protocol):
    """Content-addressed bytes: what is put is found under its digest."""

    def put(self, data: bytes) -> str:
        """Store, and return the digest (`sha256:…`). Raises Unanswered."""

    def get(self, digest: str) -> bytes:
        """The bytes of that digest, checked. Raises Unanswered, or Refused when they differ."""


@runtime_checkable
class FleetMemory(Protocol):
    """What hosts fleets had when rollouts on them were planned last. Both raise Unanswered."""

    def recall(self, key: str) -> KnownFleet | None:
        """The hosts of that fleet then; None: nothing is known of it. key: `inventory.key_of`."""

    def remember(self, key: str, known: KnownFleet) -> None:
        """Keep them for the next time."""


class Journal(Protocol):
    """What is kept of operations for good: a chain of lines for each (decide/chain.py)."""

    def append(self, entries: Sequence[Entry]) -> Head:
        """Record the entries of one operation, each once, in their order; the chain's new head.

        What is answered for survives a loss of power. Entries that are there already are passed
        by. Raises Unanswered when it cannot be written (try again: nothing comes twice), Refused
        when an entry is there with other content.
        """

    def read(self, operation: str) -> bytes:
        """All lines of one operation, as they are. Raises Unanswered; Refused: there are none."""

    def operations(self) -> tuple[str, ...]:
        """The names of all operations that have a journal, sorted. Raises Unanswered."""


class Notifier(Protocol):
    """How people are reached, by channels that have names."""

    def routes(self) -> tuple[Route, ...]:
        """The channels there are, sorted by name. Raises InvalidFile, Unanswered."""

    async def send(self, message: Message, channel: str) -> Answer:
        """Say it on this one channel, with the channel's own tries; `message.to` is not looked at.

        Never raises: a channel that there is not, a secret that is missing and a receiver that
        refuses are `Failed`, with the reason and without the address.
        """


class Clock(Protocol):
    """The time, where a program has to ask for it."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def ticks(self, every: float) -> AsyncIterator[float]:
        """The time, now and then every so many seconds."""
