"""How does a message reach a person? Through apprise: mail, chat, pagers, and whatever takes HTTP.

A channel's address is an apprise URL, which is a secret: it is read at each use, given to apprise,
and never repeated; what went wrong is said in words of ours (edges/notify_why.py). Every try runs
in a thread of its own, so that a receiver that hangs keeps nobody else waiting.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from guardrail.decide.escalation import next_round
from guardrail.edges.notify_why import Why, caught, why
from guardrail.edges.secrets import place, read_secret
from guardrail.errors import GuardrailError, Refused
from guardrail.model.notice import Answer, Channel, Failed, Message, Route, Sent
from guardrail.ports import Notifier

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""Seconds between two tries at most."""
MOST_SUBJECT, MOST_TEXT = 200, 8_000
"""Letters of a subject and of a text that are sent; the rest is to be read by the command."""


class _Wrong(Exception):
    """This try did not work, and why."""

    def __init__(self, reason: Why) -> None:
        super().__init__(reason.words)
        self.reason = reason


@dataclass(slots=True)
class Channels:
    """The worker's channels. documents: reads them, anew at each use, so that what is changed in
    the worker's source counts at once; it may raise GuardrailError."""

    documents: Callable[[], Sequence[Channel]]

    def routes(self) -> tuple[Route, ...]:
        """See ports.Notifier."""
        known = sorted(self.documents(), key=lambda channel: channel.name)
        return tuple(Route(one.name, one.tells, one.otherwise) for one in known)

    async def send(self, message: Message, channel: str) -> Answer:
        """See ports.Notifier."""
        try:
            found = await asyncio.to_thread(self._find, channel)
        except GuardrailError as error:
            return Failed(channel, time.time(), str(error), tries=0)
        return await _deliver(found, message)

    def _find(self, name: str) -> Channel:
        known = {channel.name: channel for channel in self.documents()}
        if name in known:
            return known[name]
        listed = ", ".join(sorted(known)) or "none"
        raise Refused(f"there is no channel `{name}` in the worker's source; there: {listed}")


async def _deliver(channel: Channel, message: Message) -> Answer:
    """With the channel's tries, and twice the wait each time."""
    for number in range(1, channel.tries + 1):
        try:
            await _try(channel, message)
        except _Wrong as wrong:
            reason = wrong.reason
        else:
            return Sent(channel.name, time.time(), number)
        if number == channel.tries or not reason.again:
            break
        await asyncio.sleep(min(LONGEST_WAIT, channel.wait * 2 ** (number - 1)))
    return Failed(channel.name, time.time(), reason.words, number)


async def _try(channel: Channel, message: Message) -> None:
    """Once, within the channel's time. Raises _Wrong."""
    try:
        await asyncio.wait_for(_in_thread(lambda: _say(channel, message)), channel.timeout)
    except TimeoutError:
        raise _Wrong(Why(f"it did not answer within {channel.timeout:g} s", True)) from None


async def _in_thread(work: Callable[[], T]) -> T:
    """Not in a pool: one that hangs must not take a place from others, nor keep us from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_it: Callable[[Any], None], value: object) -> None:
        if not done.done():
            set_it(value)

    def run() -> None:
        try:
            told: tuple[Callable[[Any], None], object] = (done.set_result, work())
        except Exception as error:
            told = (done.set_exception, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *told)

    threading.Thread(target=run, name=f"notify-{id(done):x}", daemon=True).start()
    return await done


# ---------------------------------------------------------------- in the thread


def _say(channel: Channel, message: Message) -> None:
    """Have apprise send it. Raises _Wrong; what apprise raises or says is not let through."""
    with caught() as said:
        try:
            service = _service(channel)
            taken = service.notify(title=subject_of(message), body=text_of(message), **_plain())
        except (_Wrong, GuardrailError) as error:
            raise error if isinstance(error, _Wrong) else _Wrong(Why(str(error), False)) from None
        except Exception as error:
            raise _Wrong(why([*said, f"{type(error).__name__}: {error}"])) from None
    if not taken:
        raise _Wrong(why(said))


def _service(channel: Channel) -> Any:
    """apprise's sender for this channel. Raises _Wrong, Refused."""
    from apprise import Apprise  # here, since it takes half a second, and most send nothing

    service = Apprise.instantiate(read_secret(channel.address).text(), asset=_asset())
    where = place(channel.address)
    if service is None:
        raise _Wrong(Why(f"what {where} holds is no address that apprise takes", False))
    if not service.verify_certificate:
        raise _Wrong(Why(f"what {where} holds says verify=no: TLS has to be checked", False))
    service.socket_connect_timeout = service.socket_read_timeout = channel.timeout
    return service


def _asset() -> Any:
    from apprise import AppriseAsset, PersistentStoreMode

    return AppriseAsset(
        app_id="guardrail",
        app_desc="guardrail",
        app_url="",
        async_mode=False,
        storage_mode=PersistentStoreMode.MEMORY,
        pgp_autogen=False,
        pem_autogen=False,
        http_redirects=False,
        interpret_emojis=False,
    )


def _plain() -> dict[str, Any]:
    from apprise import NotifyFormat, NotifyType

    return {"body_format": NotifyFormat.TEXT, "notify_type": NotifyType.WARNING}


# ---------------------------------------------------------------- its words


def subject_of(message: Message) -> str:
    """One line."""
    return " ".join(message.subject.split())[:MOST_SUBJECT]


def text_of(message: Message) -> str:
    """The lines; of very many the last ones stay, which say what to do."""
    text = "\n".join(message.lines)
    if len(text) <= MOST_TEXT:
        return text
    last = "\n".join(message.lines[-3:])[:MOST_TEXT]
    return f"{text[: max(0, MOST_TEXT - len(last) - 3)]}\n…\n{last}"


# ---------------------------------------------------------------- to everybody it is for


async def deliver(
    notifier: Notifier,
    message: Message,
    before: Sequence[Answer] = (),
    heard: Callable[[tuple[Answer, ...]], None] = lambda _: None,
) -> tuple[Answer, ...]:
    """Give a message to its channels, and for each that fails to the next (decide/escalation.py).

    before: answers that are known from an earlier try at the same. heard: told all answers after
    each round. Raises what `routes` raises, and Refused when there is no channel at all: that is
    no answer to a message that somebody wanted.
    """
    routes = await asyncio.to_thread(notifier.routes)
    if not routes:
        raise Refused("the worker's source has no channel any more: nobody can be told")
    answers = tuple(before)
    while asked := next_round(routes, message, answers):
        sending = [notifier.send(message, channel) for channel in asked]
        answers = (*answers, *await asyncio.gather(*sending))
        heard(answers)
    return answers
