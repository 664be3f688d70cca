"""What time is it for an operation, so that a replay sees the same?

The obvious answer, `workflow.time()`, is not safe: after a workflow task that timed out on a
stalled worker's sticky queue, a workflow that is still cached was seen to run with the time of the
task before, and its replay with the right one. A decision that hangs on a few seconds then differs,
and the workflow can never be replayed again. So the time comes from what is in history: who
reports something says when, and a timer says what it was set to. Only a clock that is far off is
not believed, and time never runs backwards.
"""

from dataclasses import dataclass

SKEW = 60.0
"""Seconds by which a reporter's clock may differ from the server's."""


@dataclass(slots=True)
class Clock:
    """The time of an operation, in seconds since the epoch."""

    now: float

    def hears(self, said: float, server: float) -> float:
        """The time of a report: what it said, or the server's time where that is far off."""
        believed = said if abs(said - server) <= SKEW else server
        return self.reaches(believed)

    def reaches(self, at: float) -> float:
        """It is at least that late."""
        self.now = max(self.now, at)
        return self.now
