"""A real SMTP and a real HTTP receiver on loopback, which take messages or refuse them."""

import email
import email.policy
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session


@dataclass(frozen=True)
class Mail:
    """One mail as it arrived."""

    sender: str
    receivers: tuple[str, ...]
    subject: str
    text: str


@dataclass
class MailBox:
    """An SMTP server's mails. refuse: what it answers to a mail instead of taking it, one answer a
    mail and the last one for ever; an empty one takes it."""

    port: int = 0
    mails: list[Mail] = field(default_factory=list)
    refuse: list[str] = field(default_factory=list)
    asked: int = 0

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        self.asked += 1
        answer = self.refuse[min(self.asked, len(self.refuse)) - 1] if self.refuse else ""
        if answer:
            return answer
        content = envelope.content
        assert isinstance(content, bytes)
        said = email.message_from_bytes(content, policy=email.policy.default)
        body = said.get_body(("plain", "html"))
        text = str(body.get_content()) if body is not None else ""
        receivers = tuple(envelope.rcpt_tos)
        self.mails.append(Mail(str(envelope.mail_from), receivers, str(said["Subject"]), text))
        return "250 taken"

    def url(self, *, to: str = "duty@example.com", login: str = "") -> str:
        """The apprise URL of a mail to that person."""
        who = f"{login}@" if login else ""
        return f"mailto://{who}127.0.0.1:{self.port}/{to}?from=guardrail@example.com"


@contextmanager
def mail_box(*, user: str = "", password: str = "") -> Iterator[MailBox]:
    """An SMTP server on loopback; with a user it wants that name and password."""
    box = MailBox()

    def right(_server: SMTP, _s: Session, _e: Envelope, _m: str, data: Any) -> AuthResult:
        good = (data.login, data.password) == (user.encode(), password.encode())
        return AuthResult(success=good, handled=False)

    options: dict[str, Any] = {}
    if user:
        options = {"authenticator": right, "auth_require_tls": False}
    controller = Controller(box, hostname="127.0.0.1", port=free_port(), **options)
    controller.start()
    box.port = controller.port
    try:
        yield box
    finally:
        controller.stop()


@dataclass
class Hook:
    """An HTTP receiver's messages. answers: statuses, one a request and the last one for ever.
    silent: it accepts, and never answers."""

    port: int = 0
    got: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    answers: list[int] = field(default_factory=lambda: [200])
    silent: bool = False
    let_go: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str = "/hook", *, secure: bool = False, login: str = "") -> str:
        """The apprise URL that posts JSON there."""
        who = f"{login}@" if login else ""
        return f"json{'s' if secure else ''}://{who}127.0.0.1:{self.port}{path}"


@contextmanager
def web_hook(certificate: Path | None = None) -> Iterator[Hook]:
    """An HTTP server on loopback; TLS with a PEM file of a certificate and its key."""
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.paths.append(self.path)
            if hook.silent:
                hook.let_go.wait(10)
                return
            status = hook.answers[min(len(hook.paths), len(hook.answers)) - 1]
            if status == 200:
                hook.got.append(json.loads(body))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"http://127.0.0.1:{hook.port}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # a client that hangs up on our certificate

    server = Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    hook.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hook
    finally:
        hook.let_go.set()
        server.shutdown()
        thread.join()
        server.server_close()


def free_port() -> int:
    """A port that nobody listens on just now."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(what: Any, limit: float = 10.0) -> None:
    """Wait for a condition, at most so many seconds."""
    end = time.monotonic() + limit
    while not what():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.02)
