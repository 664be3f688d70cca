"""How does a person follow an operation until it ends, without ever holding it up?

`watch` asks about once a second and shows what it hears: on a terminal as one screen that is
drawn in place, elsewhere as one plain line a change. It only looks: nothing it does, and nothing
that happens to it, changes the operation. Nobody answering for a while is shown, not an end.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import tzinfo
from types import TracebackType
from typing import IO, Protocol, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live

from guardrail.cli.plain import changes, first_lines, line_at
from guardrail.cli.text import Look, clock, to_rich
from guardrail.cli.view import Snapshot, needs_a_person, screen
from guardrail.errors import Unanswered
from guardrail.model.operation import FINAL
from guardrail.model.plan import Plan

Fetch = Callable[[], Awaitable[Snapshot]]
Pause = Callable[[float], Awaitable[None]]

EVERY = 1.0
"""Seconds between two questions."""

ANSWER_WITHIN = 5.0
"""Seconds that one question may take."""

FIRST_TRIES = 3
"""How often the first question is asked before nobody is there."""

MISSES_TOLD = 2
"""After how many unanswered questions in a row it is said."""


class Show(Protocol):
    """Where snapshots go. Entered before the first one, left at the end, whatever happens."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was, with the last state on it."""

    def snapshot(self, snapshot: Snapshot) -> None:
        """An answer came."""

    def silence(self, notice: str) -> None:
        """No answer came; what was shown last is old."""


async def watch(
    fetch: Fetch,
    show: Show,
    *,
    until_held: bool = False,
    pause: Pause = asyncio.sleep,
    zone: tzinfo | None = None,
) -> int:
    """Follow an operation to its end; the exit code of design.md §9.

    0: completed. 1: aborted or rolled back, or, with `until_held`, held on something that only
    a person clears, with nothing in flight. Raises Unanswered when nobody has ever answered.
    """
    last = await first_answer(fetch, pause)
    misses = 0
    with show:
        show.snapshot(last)
        while (code := ended(last, until_held=until_held)) is None:
            await pause(EVERY)
            try:
                last = await asyncio.wait_for(fetch(), ANSWER_WITHIN)
            except (Unanswered, TimeoutError) as error:
                misses += 1
                if misses >= MISSES_TOLD:
                    show.silence(silence_in_words(last, error, zone))
                continue
            misses = 0
            show.snapshot(last)
    return code


async def first_answer(fetch: Fetch, pause: Pause) -> Snapshot:
    """The first snapshot. Raises Unanswered after a few tries."""
    for _ in range(FIRST_TRIES - 1):
        try:
            return await asyncio.wait_for(fetch(), ANSWER_WITHIN)
        except (Unanswered, TimeoutError):
            await pause(EVERY)
    try:
        return await asyncio.wait_for(fetch(), ANSWER_WITHIN)
    except TimeoutError as error:
        why = f"nothing came in {ANSWER_WITHIN:g} s; start one with: guardrail worker"
        raise Unanswered("a worker", "the operation's task queue", why) from error


def ended(snapshot: Snapshot, *, until_held: bool) -> int | None:
    """The exit code, or None while there is something to wait for."""
    status = snapshot.status
    if status.phase in FINAL:
        return 0 if status.phase == "completed" else 1
    stuck = needs_a_person(status) and not status.in_flight
    return 1 if until_held and stuck else None


def silence_in_words(last: Snapshot, error: Exception, zone: tzinfo | None) -> str:
    """That what is shown is old, since when, and why."""
    why = f": {error}" if str(error) else f": no answer in {ANSWER_WITHIN:g} s"
    return f"no worker answers, as of {clock(last.status.as_of, zone)}{why}"


# ---------------------------------------------------------------- where it is shown


def show_for(console: Console, plan: Plan | None = None) -> Show:
    """A screen on a terminal that can redraw, plain lines anywhere else."""
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveScreen(console, plan)
    return PlainLines(console.file, plan)


def look_of(console: Console, *, whole: bool = False) -> Look:
    """What this terminal can show now; `whole` does not limit the height."""
    height = None if whole else max(4, console.height)
    return Look(console.width, height, console.encoding)


class LiveScreen:
    """One screen, drawn in place on the terminal's second page; the last state stays behind."""

    def __init__(self, console: Console, plan: Plan | None = None) -> None:
        self._console, self._plan = console, plan
        self._page = _Page(plan)
        self._live = Live(
            self._page, console=console, screen=True, auto_refresh=False, redirect_stdout=False
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()
        if self._page.latest is not None:
            look = look_of(self._console, whole=True)
            rows = screen(self._page.latest, look, self._plan, self._page.notice)
            self._console.print(to_rich(rows), end="")

    def snapshot(self, snapshot: Snapshot) -> None:
        self._page.latest, self._page.notice = snapshot, ""
        self._live.refresh()

    def silence(self, notice: str) -> None:
        self._page.notice = notice
        self._live.refresh()


class _Page:
    """What rich draws: laid out at the size the terminal has at that moment."""

    def __init__(self, plan: Plan | None) -> None:
        self.latest: Snapshot | None = None
        self.notice = ""
        self._plan = plan

    def __rich_console__(self, console: Console, _: ConsoleOptions) -> RenderResult:
        if self.latest is not None:
            yield to_rich(screen(self.latest, look_of(console), self._plan, self.notice))


class PlainLines:
    """One line a change, each with its time stamp, and never a code. Flushed at once."""

    def __init__(
        self,
        file: IO[str],
        plan: Plan | None = None,
        look: Look | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        encoding = getattr(file, "encoding", None) or "utf-8"
        self._look = look or Look(encoding=encoding)
        self._file, self._plan, self._now = file, plan, now
        self._last: Snapshot | None = None
        self._silent = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.flush()

    def snapshot(self, snapshot: Snapshot) -> None:
        if self._silent:
            self._write([line_at(snapshot.status.as_of, "a worker answers again", self._look)])
        self._silent = False
        last, self._last = self._last, snapshot
        self._write(
            first_lines(snapshot, self._look, self._plan)
            if last is None
            else changes(last, snapshot, self._look, self._plan)
        )

    def silence(self, notice: str) -> None:
        """Said once, until somebody answers again."""
        if not self._silent:
            self._write([line_at(self._now(), notice, self._look)])
        self._silent = True

    def _write(self, lines: list[str]) -> None:
        for words in lines:
            self._file.write(words + "\n")
        self._file.flush()
