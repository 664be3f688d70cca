"""Why did a channel not take a message, in words that can hold no address?

apprise says it to its logger only, and names hosts, users, tokens and whole URLs there. So what it
says is caught before anything else hears it, compared with what is known, and answered by words of
ours; none of its own are repeated.
"""

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_LOUDEST = 200
"""Lines of one try that are looked at: the last ones."""


@dataclass(frozen=True, slots=True)
class Why:
    """The reason, and whether the same may work a little later."""

    words: str
    again: bool


UNKNOWN = Why("it did not take the message, and gave no reason that can be repeated here", True)
_HTTP = re.compile(r"\berror[=:] ?(\d{3})\b")
_SMTP = re.compile(r"[({:] ?\(?([45]\d\d), b?['\"]|was refused: ([45]\d\d) ")
_TRUST = (
    "its TLS certificate cannot be trusted here; a private authority is named to the worker by "
    "SSL_CERT_FILE and REQUESTS_CA_BUNDLE"
)
_TELLING = (
    ("certificate verify failed|CERTIFICATE_VERIFY|Hostname mismatch|doesn't match", _TRUST, False),
    (
        "SSLError|SSL:|STARTTLS extension not supported|SSLZeroReturn",
        "it does not speak TLS, or not as is needed",
        False,
    ),
    ("Connection refused", "its connection was refused", True),
    ("timed out|[Tt]imeout", "it did not answer in time", True),
    (
        "Name or service not known|getaddrinfo|NameResolution|name resolution|No address assoc",
        "its host's name is not known here",
        True,
    ),
    ("unreachable|No route to host", "its network cannot be reached", True),
    ("AUTH extension not supported", "it takes no user names and passwords", False),
    ("reset by peer|RemoteDisconnected|aborted|closed|Broken pipe", "it hung up", True),
)


def why(said: list[str]) -> Why:
    """The reason among the lines that were caught; never a word of them."""
    text = "\n".join(said[-_LOUDEST:])
    if (found := _HTTP.search(text)) is not None:
        return _http(int(found[1]))
    if (found := _SMTP.search(text)) is not None:
        return _smtp(int(found[1] or found[2]))
    for pattern, words, again in _TELLING:
        if re.search(pattern, text):
            return Why(words, again)
    return UNKNOWN


def _http(status: int) -> Why:
    words = f"it answered HTTP {status}"
    if status in (401, 403):
        return Why(f"{words}: it does not accept who we say we are", False)
    if 300 <= status < 400:
        return Why(f"{words}: it sends elsewhere, which is not followed", False)
    return Why(words, status >= 500 or status in (408, 425, 429))


def _smtp(code: int) -> Why:
    words = f"it answered SMTP {code}"
    if code in (530, 534, 535, 538):
        return Why(f"{words}: it does not accept who we say we are", False)
    if code in (550, 551, 553, 554):
        return Why(f"{words}: it refuses the sender, a receiver or the message", False)
    return Why(words, code < 500)


# ---------------------------------------------------------------- catching what is said


class _Catcher(logging.Handler):
    """Keeps what the present thread's try says; of threads that try nothing, nothing is kept."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.kept = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """What tells of a fault; what was sent is among the rest, and may speak of others."""
        lines: list[str] | None = getattr(self.kept, "lines", None)
        if lines is None:
            return
        said = record.getMessage()
        if record.levelno >= logging.WARNING or said.startswith("Socket Exception"):
            lines.append(said)


_CATCHER = _Catcher()


def hush() -> None:
    """apprise speaks to us alone from here on, and urllib3, which names paths, to nobody."""
    logger = logging.getLogger("apprise")
    logger.handlers[:] = [_CATCHER]
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logging.getLogger("urllib3").setLevel(logging.CRITICAL)


@contextmanager
def caught() -> Iterator[list[str]]:
    """What apprise says in this thread meanwhile."""
    hush()
    lines: list[str] = []
    _CATCHER.kept.lines = lines
    try:
        yield lines
    finally:
        _CATCHER.kept.lines = None
