"""Where do log lines go, and how do they look there?

To standard error, never to standard output: one JSON line each on a pipe, readable on a terminal.
structlog's and the standard library's loggers end in the same place, so that temporalio and httpx
look like ours. The worker uses this too.
"""

import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor

SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
)
QUIET = ("httpx", "httpcore", "asyncssh", "asyncio")
"""Loggers that speak of every single request; only their warnings are of use here."""


def set_up(stream: TextIO | None = None, level: int = logging.WARNING) -> None:
    """Send every log line of this process to `stream` (default: standard error)."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(stream))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    structlog.configure(
        processors=[*SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _formatter(stream: TextIO) -> structlog.stdlib.ProcessorFormatter:
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if stream.isatty():
        last.append(structlog.dev.ConsoleRenderer())
    else:
        last += [
            structlog.processors.format_exc_info,
            _words_first,
            structlog.processors.JSONRenderer(),
        ]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=list(SHARED), processors=last)


def _words_first(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Time, level and words first: what a person looks for in a long line."""
    first = {key: event[key] for key in ("timestamp", "level", "event") if key in event}
    return first | {key: value for key, value in event.items() if key not in first}


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
