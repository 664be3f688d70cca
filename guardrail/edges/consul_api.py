"""What did Consul answer, and is the answer whole?

Every read goes through `ConsulApi.get`: bounded in time, to the leader, as JSON or with one line
that says who did not answer and why. Plain httpx: the usual clients drop the response headers,
and one of those says that ACLs have hidden a part of the answer.
"""

import asyncio
import os
import ssl
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import httpx

from guardrail.edges.secrets import read_secret
from guardrail.errors import Refused, Unanswered
from guardrail.model.common import Secret, Tls

FILTERED = "X-Consul-Results-Filtered-By-ACLs"
INDEX = "X-Consul-Index"
LIMIT = 5.0
"""Seconds of silence before Consul counts as silent; a whole answer may take twice that."""

_MOST_ALIKE = 8
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which part of Consul is meant; None is the server's own."""

    datacenter: str | None = None
    namespace: str | None = None
    partition: str | None = None

    def query(self) -> list[tuple[str, str]]:
        named = (("dc", self.datacenter), ("ns", self.namespace), ("partition", self.partition))
        return [(key, value) for key, value in named if value]


class ConsulApi:
    """One Consul address. The environment's proxies are not used: these are inside addresses."""

    def __init__(
        self,
        address: str,
        *,
        token: Secret | None = None,
        tls: Tls | None = None,
        scope: Scope | None = None,
        limit: float | None = None,
    ) -> None:
        self.address = address.rstrip("/")
        self.scope = scope or Scope()
        self.limit = limit or LIMIT
        self._token = token
        self._extensions = {"sni_hostname": tls.server_name} if tls and tls.server_name else {}
        self._client = httpx.AsyncClient(
            verify=tls_context(tls), timeout=self.limit, trust_env=False
        )
        self._places = asyncio.Semaphore(_MOST_ALIKE)

    async def get(self, path: str, *query: tuple[str, str]) -> Any:
        """The answer's JSON. Raises Unanswered, or Refused when it is not whole."""
        _, answer = await self._get(path, *query)
        return answer

    async def get_numbered(self, path: str, *query: tuple[str, str]) -> tuple[int, Any]:
        """The same with the catalog's number of what it shows, which blocking queries go by."""
        response, answer = await self._get(path, *query)
        number = response.headers.get(INDEX, "")
        if not number.isdigit() or not int(number):
            raise self._silent(f"{path} answered without a number ({INDEX}: {number!r})")
        return int(number), answer

    async def _get(self, path: str, *query: tuple[str, str]) -> tuple[httpx.Response, Any]:
        response = await self._ask(path, [*self.scope.query(), *query])
        self._check(path, response)
        try:
            return response, response.json()
        except ValueError:
            raise self._silent(f"{path} answered something that is not JSON") from None

    async def get_if_there(self, path: str, *query: tuple[str, str]) -> Any:
        """The answer's JSON, or None where Consul has no such thing (a key)."""
        response = await self._ask(path, [*self.scope.query(), *query])
        if response.status_code == httpx.codes.NOT_FOUND and not response.content:
            return None  # with a text in it, it is somebody else's 404
        self._check(path, response)
        try:
            return response.json()
        except ValueError:
            raise self._silent(f"{path} answered something that is not JSON") from None

    async def get_list(self, path: str, *query: tuple[str, str]) -> list[dict[str, Any]]:
        """The same where a list of records is due; null counts as an empty one."""
        answer = await self.get(path, *query) or []
        if not isinstance(answer, list) or not all(isinstance(one, dict) for one in answer):
            raise self._silent(f"{path} answered {type(answer).__name__} where a list was due")
        return answer

    async def get_state(self, path: str, *query: tuple[str, str]) -> dict[str, Any]:
        """A record that says how servers are: 429 is "not well", with the record all the same."""
        response = await self._ask(path, [*self.scope.query(), *query])
        if response.status_code != httpx.codes.TOO_MANY_REQUESTS:
            self._check(path, response)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._silent(f"{path} gave HTTP {response.status_code}: {one_line(response)}")
        return answer

    async def get_record(self, path: str, *query: tuple[str, str]) -> dict[str, Any]:
        """The same where one record is due; null counts as an empty one."""
        answer = await self.get(path, *query) or {}
        if not isinstance(answer, dict):
            raise self._silent(f"{path} answered {type(answer).__name__} where a record was due")
        return answer

    async def put(self, path: str, body: object = None, *query: tuple[str, str]) -> Any:
        """What Consul answers to what is put there (null: nothing), as JSON. Raises Unanswered."""
        response = await self._ask(path, [*self.scope.query(), *query], ("PUT", body))
        self._check(path, response)
        try:
            return response.json()
        except ValueError:
            raise self._silent(f"{path} answered something that is not JSON") from None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(
        self, path: str, query: list[tuple[str, str]], how: tuple[str, object] = ("GET", None)
    ) -> httpx.Response:
        # Read at each request: a rotated token takes effect.
        headers = {"X-Consul-Token": read_secret(self._token).text()} if self._token else {}
        params: list[tuple[str, str | int | float | bool | None]] = [*query]
        try:
            async with self._places, asyncio.timeout(2 * self.limit):
                return await self._client.request(
                    how[0],
                    self.address + path,
                    json=how[1],
                    params=params,
                    headers=headers,
                    extensions=self._extensions,
                )
        except (httpx.TimeoutException, TimeoutError):
            raise self._silent(f"nothing came within {self.limit:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as fault:
            raise self._silent(cause(fault)) from fault

    def _check(self, path: str, response: httpx.Response) -> None:
        if response.status_code in (400, 500) and "boolean expression" in response.text:
            raise Refused(f"Consul does not accept the inventory's filter: {one_line(response)}")
        if response.status_code != httpx.codes.OK:
            raise self._silent(f"{path} gave HTTP {response.status_code}: {one_line(response)}")
        if response.headers.get(FILTERED, "").lower() == "true":
            raise Refused(
                f"Consul at {self.address} hides part of {path} from this token "
                f"({FILTERED}: true), so hosts would be missing unseen: give the token node:read "
                "and service:read on all of them"
            )
        if response.headers.get("X-Consul-Knownleader", "true").lower() != "true":
            raise self._silent("it has no leader, so what it knows may be old")

    def _silent(self, reason: str) -> Unanswered:
        return Unanswered("Consul", self.address, reason)


async def together(*asks: Awaitable[T]) -> list[T]:
    """All answers; the first fault, once every request has come to its end (a left-over one
    would use a client that is being closed)."""
    answers = await asyncio.gather(*asks, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return cast("list[T]", answers)


def one_line(response: httpx.Response) -> str:
    """The start of a body, for a message of one line."""
    return " ".join(response.text.split())[:200] or "(no text)"


def cause(fault: BaseException) -> str:
    """The reason nearest to the system: "connection refused" says more than what wraps it."""
    found: BaseException | None = fault
    while found is not None:
        if isinstance(found, OSError) and found.errno:
            # asyncio's own words for it have no reason in them: "Connect call failed (...)".
            system = found.errno > 0 and not isinstance(found, ssl.SSLError)
            return os.strerror(found.errno) if system else found.strerror or str(found)
        if isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        else:
            found = found.__cause__ or found.__context__
    return str(fault) or type(fault).__name__


def refused_connection(fault: BaseException) -> bool:
    """Whether a machine answered that nothing listens there."""
    found: BaseException | None = fault
    while found is not None:
        if isinstance(found, ConnectionRefusedError):
            return True
        if isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        else:
            found = found.__cause__ or found.__context__
    return False


def tls_context(tls: Tls | None) -> ssl.SSLContext:
    """The system's authorities or the named one; never unchecked. Raises Refused."""
    if tls is None:
        return ssl.create_default_context()
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if tls.certificate_file:
            context.load_cert_chain(tls.certificate_file, tls.key_file)
    except (OSError, ssl.SSLError) as fault:
        files = ", ".join(f for f in (tls.ca_file, tls.certificate_file, tls.key_file) if f)
        raise Refused(f"the TLS files {files} cannot be used: {fault}") from fault
    return context
