"""Do messages reach real receivers, and is no address told to anybody when they do not?"""

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from receivers import Hook, MailBox, free_port, mail_box, web_hook

from guardrail.edges.notify import MOST_TEXT, Channels, text_of
from guardrail.edges.notify_why import why
from guardrail.model.common import Secret
from guardrail.model.notice import Answer, Channel, Failed, Message, Sent

SAID = Message(
    "hold",
    "consul-1.8.8",
    "hold:gate:boot-success",
    "guardrail: consul-1.8.8 is held on gate:boot-success",
    (
        "boot-success is 0.91, and passes above 0.99.",
        "held on gate:boot-success; 12 of 30 hosts changed, 0 in flight",
        "If nobody acts nothing more is changed. It ends by: a person.",
        "guardrail rollout rollback consul-1.8.8",
    ),
)


@pytest.fixture
def box() -> Iterator[MailBox]:
    with mail_box() as box:
        yield box


@pytest.fixture
def hook() -> Iterator[Hook]:
    with web_hook() as hook:
        yield hook


async def say(url: str, monkeypatch: pytest.MonkeyPatch, **rest: object) -> Answer:
    monkeypatch.setenv("DUTY_URL", url)
    channel = Channel("duty", Secret("env", "DUTY_URL"), wait=0.01, tries=3, timeout=5.0)
    return await Channels(lambda: (replace(channel, **rest),)).send(SAID, "duty")  # type: ignore[arg-type]


async def test_a_mail_arrives_as_it_was_said(box: MailBox, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await say(box.url(), monkeypatch)
    assert isinstance(answer, Sent), answer
    (mail,) = box.mails
    assert mail.subject == SAID.subject
    assert mail.text.strip().splitlines() == list(SAID.lines)
    assert (mail.sender, mail.receivers) == ("guardrail@example.com", ("duty@example.com",))


async def test_a_web_hook_gets_the_subject_and_the_text(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(await say(hook.url(), monkeypatch), Sent)
    (got,) = hook.got
    assert got["title"] == SAID.subject
    assert got["message"].splitlines() == list(SAID.lines)


async def test_what_fails_for_a_moment_is_tried_again_and_said_once(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.answers = [503, 429, 200]
    answer = await say(hook.url(), monkeypatch)
    assert isinstance(answer, Sent)
    assert answer.tries == 3
    assert len(hook.got) == 1


async def test_tries_have_a_limit_and_what_was_wrong_is_said(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.answers = [503]
    answer = await say(hook.url(), monkeypatch)
    assert isinstance(answer, Failed)
    assert (answer.why, answer.tries) == ("it answered HTTP 503", 3)


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "it answered HTTP 404"), (401, "does not accept who we say we are"), (302, "elsewhere")],
)
async def test_what_will_not_get_better_is_not_tried_again(
    status: int, words: str, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.answers = [status]
    answer = await say(hook.url(), monkeypatch)
    assert isinstance(answer, Failed)
    assert words in answer.why
    assert answer.tries == 1
    assert hook.paths == ["/hook"]  # a message is not carried on to where a receiver sends it


async def test_nobody_listening_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await say(f"json://127.0.0.1:{free_port()}/hook", monkeypatch)
    assert isinstance(answer, Failed)
    assert (answer.why, answer.tries) == ("its connection was refused", 3)


async def test_a_receiver_that_hangs_is_left_in_time_and_keeps_nobody_waiting(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.silent = True
    began, ticks = time.monotonic(), 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    answer = await say(hook.url(), monkeypatch, timeout=0.6, tries=1)
    ticking.cancel()
    assert isinstance(answer, Failed)
    assert "did not answer" in answer.why
    assert time.monotonic() - began < 3
    assert ticks > 10, "the loop of the worker stood still meanwhile"


# ---------------------------------------------------------------- mail servers that refuse


async def test_a_mail_server_that_refuses_is_believed(
    box: MailBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.refuse = ["554 no"]
    answer = await say(box.url(), monkeypatch)
    assert isinstance(answer, Failed)
    assert answer.why.startswith("it answered SMTP 554: it refuses the sender")
    assert answer.tries == 1


async def test_a_mail_server_that_is_busy_is_asked_again(
    box: MailBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.refuse = ["451 later", ""]
    answer = await say(box.url(), monkeypatch)
    assert isinstance(answer, Sent)
    assert (answer.tries, len(box.mails)) == (2, 1)


async def test_a_wrong_password_is_said_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with mail_box(user="guard", password="right") as box:
        answer = await say(box.url(login="guard:hunter2hunter2"), monkeypatch)
        assert isinstance(answer, Failed)
        assert "does not accept who we say we are" in answer.why
        assert "hunter2" not in answer.why
        assert isinstance(await say(box.url(login="guard:right"), monkeypatch), Sent)


# ---------------------------------------------------------------- TLS


def certificate(path: Path) -> Path:
    """A certificate of its own making, and its key, in one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


async def test_a_certificate_that_nobody_vouches_for_gets_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_hook(certificate(tmp_path / "self.pem")) as hook:
        answer = await say(hook.url(secure=True), monkeypatch)
        assert isinstance(answer, Failed)
        assert "certificate cannot be trusted" in answer.why
        assert (hook.paths, answer.tries) == ([], 1)


async def test_tls_cannot_be_left_unchecked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_hook(certificate(tmp_path / "self.pem")) as hook:
        answer = await say(f"{hook.url(secure=True)}?verify=no", monkeypatch)
        assert isinstance(answer, Failed)
        assert "verify=no: TLS has to be checked" in answer.why
        assert hook.paths == []


# ---------------------------------------------------------------- no address is told

SECRETS = (
    "hunter2hunter2",
    "T0KENPART",
    "B1LLINGPART",
    "someone",
    "very-secret-value",
    "127.0.0.1",
)
REST = "/T0KENPART/B1LLINGPART?+X-Key=very-secret-value"


@pytest.mark.parametrize("ends", ["taken", "500", "refused", "silent", "nonsense", "unchecked"])
async def test_no_part_of_an_address_is_in_logs_or_answers(
    ends: str, hook: Hook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    logging.getLogger("apprise").setLevel(1)
    hook.answers = [500] if ends == "500" else [200]
    hook.silent = ends == "silent"
    url = hook.url(REST, login="someone:hunter2hunter2")
    if ends == "refused":
        url = url.replace(str(hook.port), str(free_port()))
    url = url.replace("json://", "nothing-we-know://") if ends == "nonsense" else url
    url += "&verify=no" if ends == "unchecked" else ""
    answer = await say(url, monkeypatch, timeout=0.6, tries=2)
    assert isinstance(answer, Sent) == (ends == "taken")
    heard = [f"{record.getMessage()} {record.exc_text}" for record in caplog.records]
    told = "\n".join([repr(answer), *heard])
    assert [secret for secret in SECRETS if secret in told] == []


async def test_a_secret_that_is_not_there_is_named_by_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DUTY_URL", raising=False)
    known = Channels(lambda: (Channel("duty", Secret("env", "DUTY_URL")),))
    answer = await known.send(SAID, "duty")
    assert isinstance(answer, Failed)
    assert answer.why.startswith("environment variable DUTY_URL is not set")
    answer = await known.send(SAID, "dutty")
    assert isinstance(answer, Failed)
    assert "no channel `dutty`" in answer.why


async def test_an_address_in_a_file_is_read_anew_each_time(
    tmp_path: Path, box: MailBox, hook: Hook
) -> None:
    path = tmp_path / "duty"
    known = Channels(lambda: (Channel("duty", Secret("file", str(path))),))
    for url in (box.url(), hook.url()):
        path.write_text(f"{url}\n")
        assert isinstance(await known.send(SAID, "duty"), Sent)
    assert (len(box.mails), len(hook.got)) == (1, 1)


# ---------------------------------------------------------------- words


def test_what_a_receiver_says_of_itself_is_never_repeated() -> None:
    said = ["Socket Exception: HTTPSConnectionPool(host='secret.example'): SECRET"]
    assert "ecret" not in why(said).words


def test_a_message_that_speaks_of_timeouts_is_no_reason(
    monkeypatch: pytest.MonkeyPatch, hook: Hook
) -> None:
    hook.answers = [400]
    talk = replace(SAID, lines=("timed out", "error=503", "Connection refused"))
    monkeypatch.setenv("DUTY_URL", hook.url())
    known = Channels(lambda: (Channel("duty", Secret("env", "DUTY_URL")),))
    answer = asyncio.run(known.send(talk, "duty"))
    assert isinstance(answer, Failed)
    assert answer.why == "it answered HTTP 400"


def test_a_very_long_text_keeps_its_advice() -> None:
    long = replace(SAID, lines=(*("reason " * 20 for _ in range(500)), *SAID.lines[-3:]))
    text = text_of(long)
    assert len(text) <= MOST_TEXT
    assert text.endswith("\n".join(SAID.lines[-3:]))
    assert json.dumps(text)
