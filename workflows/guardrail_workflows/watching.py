"""How are all gates of one operation watched at once, so that none hides behind another?

Each gate has a loop of its own. A heartbeat says "the last read of some gate has ended, and every
change of verdict has been told": a watcher that hangs, or cannot tell, falls silent, and its
silence is an event of its own (design.md §7).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from guardrail.decide.judge import Track, Trend, differs, trend
from guardrail.edges.gate_reader import GateReader, follow
from guardrail.model.gate import Judgement

Report = Callable[[Judgement], Awaitable[None]]
"""Tells the operation of a changed verdict; told again after the next reading if it raises."""
Heartbeat = Callable[[Sequence[Trend]], None]
"""Shows life, with each gate's last readings (JSON once a converter has written it)."""


@dataclass(slots=True)
class Watch:
    """The state of one watcher: what it knows, and what it still has to tell."""

    readers: Sequence[GateReader]
    report: Report
    heartbeat: Heartbeat
    tracks: dict[str, Track] = field(default_factory=dict)
    known: dict[str, Judgement] = field(default_factory=dict)
    untold: dict[str, deque[Judgement]] = field(default_factory=dict)

    async def run(self) -> None:
        """Watch until cancelled. An error of the watcher itself ends it, and is raised."""
        async with asyncio.TaskGroup() as group:
            for reader in self.readers:
                group.create_task(self._watch(reader))

    async def _watch(self, reader: GateReader) -> None:
        name = reader.gate.name
        async with aclosing(follow(reader, self.tracks.get(name))) as readings:
            async for track, judgement in readings:
                self.tracks[name] = track
                self._note(name, judgement)
                await self._tell(name)
                # An untold `fail` would look like a pass to those who see us alive.
                if not any(self.untold.values()):
                    self.heartbeat(self.trends())

    def _note(self, name: str, judgement: Judgement | None) -> None:
        if judgement is not None and differs(self.known.get(name), judgement):
            self.known[name] = judgement
            self.untold.setdefault(name, deque()).append(judgement)

    async def _tell(self, name: str) -> None:
        """All that is untold, in order: a `fail` is told even if it has passed since."""
        waiting = self.untold.setdefault(name, deque())
        while waiting:
            try:
                await self.report(waiting[0])
            except Exception:  # whatever it is: tried again after the next read
                return
            waiting.popleft()

    def trends(self) -> tuple[Trend, ...]:
        """Each gate's last readings, in the gates' order."""
        names = [reader.gate.name for reader in self.readers]
        return tuple(trend(name, self.tracks.get(name, Track())) for name in names)


async def watch(readers: Sequence[GateReader], report: Report, heartbeat: Heartbeat) -> None:
    """Watch gates until cancelled: `report` changes of verdict, `heartbeat` after each read.

    A changed verdict is reported after the reading that changed it, at once; a changed kind of an
    inconclusive one too. Names of the gates are distinct.
    """
    await Watch(readers, report, heartbeat).run()
