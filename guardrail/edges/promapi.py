"""What did Prometheus answer to one query? A result, or a fault with one of the named kinds.

Speaks the HTTP API that Prometheus, Thanos, Mimir and VictoriaMetrics share. Everything that is
not a whole and usable answer is a `Fault`, so that the callers read results only.
"""

import asyncio
import ipaddress
import os
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from guardrail.edges.secrets import read_secret
from guardrail.errors import Refused
from guardrail.model.common import Secret, Tls
from guardrail.model.gate import Kind, Source

# Part of an answer is no answer: each server has its own word for that, and ignores the others'.
_WHOLE = {"partial_response": "false", "deny_partial_response": "1", "nocache": "1"}
# Says how a metric is named, not that anything is missing from the answer.
_HARMLESS = "PromQL info: metric might not be a counter"
_TOO_SLOW = ("context deadline exceeded", "query timed out", "timeout expired")
_ERROR_TYPES: dict[str, Kind] = {
    "bad_data": "rejected_query",
    "execution": "rejected_query",
    "too_many_requests": "throttled",
}


class Fault(Exception):
    """Why there is no usable answer: one of the named kinds, and the words for it."""

    def __init__(self, kind: Kind, detail: str) -> None:
        self.kind: Kind = kind
        self.detail = detail
        super().__init__(f"{kind}: {detail}")


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer: (time, value) oldest first; seconds since the epoch.

    A value of None is something that is not a number (a native histogram).
    """

    labels: tuple[tuple[str, str], ...]
    samples: tuple[tuple[float, float | None], ...]

    def label(self, name: str) -> str:
        return next((value for key, value in self.labels if key == name), "")


class Api:
    """Queries to one source. Use within one event loop; `close` it afterwards."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.address = shown(source.address)
        self.sent = 0
        self._client: httpx.AsyncClient | None = None

    async def query(self, query: str) -> tuple[Series, ...]:
        """The series of an instant query, evaluated at the server's own time. Raises Fault."""
        self.sent += 1
        try:
            async with asyncio.timeout(self.source.timeout):
                response = await self._post(query)
        except (TimeoutError, httpx.TimeoutException):
            raise Fault("unreachable", f"no answer within {self.source.timeout:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, ValueError) as error:
            raise Fault("unreachable", _words(error)) from error
        return _result(response)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _post(self, query: str) -> httpx.Response:
        source = self.source
        if self._client is None:
            self._client = _client(source)
        tls = source.tls.server_name if source.tls else None
        return await self._client.post(
            source.address.rstrip("/") + "/api/v1/query",
            data={"query": query, "timeout": f"{round(source.timeout * 1000)}ms", **_WHOLE},
            headers=_headers(source),
            extensions={"sni_hostname": tls} if tls else None,
        )


def shown(address: str) -> str:
    """An address without the user name and password that it may carry."""
    try:
        parts = urlsplit(address)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    except ValueError:
        return address.rpartition("@")[2]


def _client(source: Source) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=8, keepalive_expiry=30)
    return httpx.AsyncClient(
        timeout=source.timeout,
        limits=limits,
        verify=_context(source.tls) if source.tls else True,
        auth=_basic(source),
        trust_env=not _is_loopback(source.address),  # no proxy between us and ourselves
    )


def _is_loopback(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca_file)
    if tls.certificate_file:
        context.load_cert_chain(tls.certificate_file, tls.key_file)
    return context


def _basic(source: Source) -> httpx.BasicAuth | None:
    if source.username is None:
        return None
    return httpx.BasicAuth(source.username, _secret(source.password) if source.password else "")


def _headers(source: Source) -> dict[str, str]:
    """Read anew for every query: tokens in files are exchanged while a rollout runs."""
    headers = dict(source.headers)
    if source.token:
        headers["Authorization"] = f"Bearer {_secret(source.token)}"
    return headers


def _secret(secret: Secret) -> str:
    try:
        return read_secret(secret).text()
    except Refused as refused:
        raise Fault("unreachable", f"no credentials: {refused}") from refused


def _words(error: Exception) -> str:
    """The innermost cause says it best: httpx wraps "connection refused" twice."""
    seen: BaseException = error
    while (inner := seen.__cause__ or seen.__context__) is not None:
        seen = inner
    if isinstance(seen, OSError) and seen.errno is not None and seen.errno > 0:
        return os.strerror(seen.errno)
    return str(seen) or str(error) or type(seen).__name__


def _result(response: httpx.Response) -> tuple[Series, ...]:
    body = _body(response)
    if response.status_code != 200 or body is None or body.get("status") != "success":
        raise _refusal(response, body or {})
    _whole(body)
    try:
        return _series(body["data"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Fault("unreachable", f"an answer of a shape not known: {error!r}") from error


def _body(response: httpx.Response) -> dict[str, Any] | None:
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _refusal(response: httpx.Response, body: dict[str, Any]) -> Fault:
    status, words = response.status_code, str(body.get("error", ""))[:400]
    if status == 429:
        wait = response.headers.get("retry-after")
        return Fault("throttled", "too many requests" + (f", retry after {wait} s" if wait else ""))
    if any(word in words for word in _TOO_SLOW):
        return Fault("unreachable", f"the query took too long: {words}")
    if status in (400, 422):
        return Fault("rejected_query", words or f"HTTP {status}: {_start(response)}")
    if status == 200 and body:
        kind = _ERROR_TYPES.get(str(body.get("errorType")), "unreachable")
        return Fault(kind, words or "it says neither success nor why not")
    return Fault("unreachable", _status_words(response, words))


def _status_words(response: httpx.Response, words: str) -> str:
    status = response.status_code
    if status == 200:
        return f"its answer is not JSON: {_start(response)}"
    if status in (401, 403):
        return f"it refuses our credentials (HTTP {status}): see the Source's token or user name"
    if 300 <= status < 400:
        return f"it redirects to {shown(response.headers.get('location', '?'))}: use that address"
    if status == 404:
        return "there is no Prometheus API at this address (HTTP 404): a path is missing?"
    return f"HTTP {status}: {words or _start(response)}"


def _start(response: httpx.Response) -> str:
    return " ".join(response.text[:120].split()) or "an empty body"


def _whole(body: dict[str, Any]) -> None:
    notes = [*(body.get("warnings") or ()), *(body.get("infos") or ())]
    notes = [str(note) for note in notes if not str(note).startswith(_HARMLESS)]
    if body.get("isPartial"):
        notes.append("the server says that its answer is partial")
    if notes:
        raise Fault("partial", "; ".join(notes)[:400])


def _series(data: dict[str, Any]) -> tuple[Series, ...]:
    kind, result = data["resultType"], data["result"]
    if kind == "scalar":
        return (Series((), (_sample(result),)),)
    if kind == "vector":
        return tuple(
            Series(_labels(item), (_sample(item["value"]) if "value" in item else _odd(item),))
            for item in result
        )
    if kind == "matrix":
        return tuple(
            Series(_labels(item), tuple(_sample(pair) for pair in item.get("values", ())))
            for item in result
        )
    raise ValueError(f"result type {kind!r}")


def _labels(item: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((str(key), str(value)) for key, value in item["metric"].items())


def _sample(pair: list[Any]) -> tuple[float, float | None]:
    at, value = pair
    return float(at), float(value)


def _odd(item: dict[str, Any]) -> tuple[float, float | None]:
    return float(item["histogram"][0]), None
