"""How does the notices' workflow hear of an operation, without holding it up?

What stands is told whole, by one activity at a time, when something worth telling has changed. A
telling that does not work is given up after a while for the next one, which says all there is to
say. Where no channels were set up at the start of the operation, nothing of this happens.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from guardrail.decide.notice_moments import NOTHING, Mark, mark, tidings
    from guardrail.model import board
    from guardrail.model.operation import State

PAUSE = timedelta(seconds=2)
"""Between two tellings: what changes meanwhile is told with the next. Not at the end."""
GIVEN_UP = timedelta(seconds=60)
AGAIN_AFTER = timedelta(seconds=30)
"""A telling that takes longer, and how long until the next one."""
TOLD_AGAIN = timedelta(hours=6)
"""What stands is told again, in case somebody has ended the notices' workflow by force."""
AT_THE_END = timedelta(seconds=30)
"""How long the end of an operation waits for its last telling."""


@dataclass(slots=True)
class Teller:
    """What was told last. known: the mark of the state; None: nothing was told in this run, so that
    the first telling tells what an earlier run may not have got through. state: what to tell next,
    with the number and the time of its event."""

    on: bool
    state: Callable[[], tuple[State, int, float]]
    known: Mark | None = None
    news: bool = False
    telling: bool = False

    def note(self, state: State) -> None:
        """Look whether anything is to be told."""
        if self.on and (now := mark(state)) != self.known:
            self.known, self.news = now, True

    async def run(self) -> None:
        """Tell, one at a time, for as long as the workflow lives."""
        while self.on:
            with suppress(TimeoutError):
                wait = None if self.known == NOTHING else TOLD_AGAIN
                await workflow.wait_condition(lambda: self.news, timeout=wait)
            self.news, self.telling = False, True
            told = await self._tell()
            self.news, self.telling = self.news or not told, False
            if not told:
                await workflow.sleep(AGAIN_AFTER)
            with suppress(TimeoutError):
                await workflow.wait_condition(self._is_over, timeout=PAUSE)

    async def _tell(self) -> bool:
        state, number, at = self.state()
        run = workflow.info().first_execution_run_id
        try:
            await workflow.execute_activity(
                board.TELL,
                tidings(state, run, number, at),
                start_to_close_timeout=timedelta(seconds=10),
                schedule_to_close_timeout=GIVEN_UP,
                retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=10)),
                summary="notices",
            )
        except FailureError:
            return False
        return True

    def _is_over(self) -> bool:
        return self.state()[0].finished

    async def settle(self) -> bool:
        """Wait for the last telling, for a while; whether it was told."""
        if not self._is_quiet():  # else not even a timer: histories of before have none here
            with suppress(TimeoutError):
                await workflow.wait_condition(self._is_quiet, timeout=AT_THE_END)
        return self._is_quiet()

    def _is_quiet(self) -> bool:
        return not (self.news or self.telling)
