"""Where do log lines go?

To standard error, never to standard output; log_lines.py says how they look there.
"""

import logging
import sys
import traceback
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TextIO

QUIET = ("httpx", "httpcore", "asyncssh", "asyncio")
"""Loggers that speak of every single request; only their warnings are of use here."""


def set_up(stream: TextIO | None = None, level: int = logging.WARNING) -> None:
    """Send every log line of this process to `stream` (default: standard error)."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Lines(stream))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


class _Lines(logging.Formatter):
    """Imports what makes lines at the first one: most commands log none."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    @cached_property
    def _lines(self) -> logging.Formatter:
        from guardrail.log_lines import formatter

        return formatter(self._stream)

    def format(self, record: logging.LogRecord) -> str:
        return self._lines.format(record)


def keep_traceback(folder: Path, error: BaseException) -> Path | None:
    """Write an unexpected error's traceback to `folder`/errors.log; None if it cannot be kept."""
    path = folder / "errors.log"
    text = "".join(traceback.format_exception(error))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as kept:
            kept.write(f"{datetime.now(UTC).isoformat()} {' '.join(sys.argv)}\n{text}\n")
    except OSError:
        return None
    return path


def last_lines(path: Path, count: int = 10, since: int = 0) -> list[str]:
    """The last lines of a log file, from byte `since` on; none where it cannot be read."""
    try:
        with path.open("rb") as log:
            log.seek(0, 2)
            log.seek(max(since, log.tell() - 20_000))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return []
    return text.splitlines()[-count:]
