"""Is a host that was changed still at the version that it was brought to?

What is installed and what runs are read as before a change; nothing is changed. A host that does
not answer is asked once more before it is called silent: one lost packet must not hold a fleet.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from guardrail.model.change import Change
from guardrail.model.fleet import Host
from guardrail.model.operation import HostFound
from guardrail.planning import AT_ONCE, each
from guardrail.ports import BadCredentials, Probing, Unreachable

ASKED = 2
"""How often a host is asked before it is called silent."""
MOST_WRONG = 100
"""Hosts of one window that are named."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is wrong with hosts that were read again, see `operation.HostsRead`."""

    read: int
    wrong: tuple[HostFound, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Reading:
    """How changed hosts are read again. target: the version that they were brought to."""

    change: Change
    target: str
    probing: Probing

    async def of(
        self, hosts: Sequence[tuple[int, Host]], beat: Callable[[int, int], None]
    ) -> Found:
        """What is wrong with these hosts, by plan index."""
        answers = await each(self._host, hosts, at_once=AT_ONCE, progress=beat)
        wrong = sorted(
            (one for one in answers if one is not None),
            key=lambda one: (not one.answered, one.index),
        )
        return Found(len(hosts), tuple(wrong[:MOST_WRONG]), len(wrong[MOST_WRONG:]))

    async def _host(self, numbered: tuple[int, Host]) -> HostFound | None:
        index, host = numbered
        said = ""
        for _ in range(ASKED):
            try:
                return await self._look(index, host)
            except Unreachable as error:
                said = f"does not answer: {error}"
            except BadCredentials as error:
                said = f"refuses our credentials: {error}"
        return HostFound(index, host.name, " ".join(said.split()), answered=False)

    async def _look(self, index: int, host: Host) -> HostFound | None:
        installed = await self.probing.installed(host, self.change)
        running = installed
        if self.change.running != self.change.installed:
            running = await self.probing.running(host, self.change)
        if installed == running == self.target:
            return None
        words = in_words(installed, running, self.target)
        return HostFound(index, host.name, words, away=running is None)


def in_words(installed: str | None, running: str | None, target: str) -> str:
    """What was found, in words that follow "HOST is"."""
    known = installed or "a version that cannot be told"
    if running is None:
        return f"not running (installed is {known}), and was brought to {target}"
    if installed == running:
        return f"at {running}, and was brought to {target}"
    return f"running {running} with {known} installed, and was brought to {target}"
