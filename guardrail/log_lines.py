"""How does a log line look?

One JSON line on a pipe, readable on a terminal. Of the standard library's loggers, so that
temporalio and httpx look like ours.
"""

import logging
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor

BEFORE: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
)


def formatter(stream: TextIO) -> logging.Formatter:
    """What makes the lines that go to this stream."""
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if stream.isatty():
        last.append(structlog.dev.ConsoleRenderer())
    else:
        last += [
            structlog.processors.format_exc_info,
            _words_first,
            structlog.processors.JSONRenderer(),
        ]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=list(BEFORE), processors=last)


def _words_first(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Time, level and words first: what a person looks for in a long line."""
    first = {key: event[key] for key in ("timestamp", "level", "event") if key in event}
    return first | {key: value for key, value in event.items() if key not in first}
