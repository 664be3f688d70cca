"""Whom does the ssh driver trust, and what does it make of silence?"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest
from hands import own_address, until, yes
from http_part import listening
from sshd_part import PORT, Sshd

from guardrail.edges.ssh import SshDriver
from guardrail.errors import Refused
from guardrail.model.common import Secret
from guardrail.model.fleet import SshReach
from guardrail.ports import BadCredentials, StepRequest, Token, Unreachable

pytestmark = pytest.mark.real
ECHO = ("echo", "hello")
Make = Callable[..., SshDriver]


@pytest.fixture
async def driver(sshd: Sshd) -> AsyncIterator[Make]:
    made: list[SshDriver] = []

    def make(*, most_connections: int = 9, **changes: object) -> SshDriver:
        made.append(SshDriver(sshd.reach(**changes), most_connections=most_connections))
        return made[-1]

    yield make
    for each in made:
        await each.close()


def file(path: Path, text: str) -> Secret:
    path.write_text(text)
    return Secret("file", str(path))


# ---------------------------------------------------------------- host keys


async def test_a_host_with_another_key_is_bad_credentials(
    sshd: Sshd, driver: Make, tmp_path: Path
) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    known = file(tmp_path / "known", f"[{sshd.address}]:{PORT} {other}")
    with pytest.raises(BadCredentials, match="not who its host key should say"):
        await driver(known_hosts=known).run(sshd.host(), ECHO, limit=10)


@pytest.mark.parametrize("line", ["", "[127.0.0.9]:2222 {key}", "# nothing\n\n", "{address} {key}"])
async def test_an_unknown_host_is_bad_credentials(
    sshd: Sshd, driver: Make, tmp_path: Path, line: str
) -> None:
    key = (sshd.folder / "host_key.pub").read_text()
    known = file(tmp_path / "known", "# keys\n" + line.format(key=key, address="127.0.0.9"))
    with pytest.raises(BadCredentials, match="known_hosts"):
        await driver(known_hosts=known).run(sshd.host(), ECHO, limit=10)


async def test_a_revoked_host_key_is_bad_credentials(
    sshd: Sshd, driver: Make, tmp_path: Path
) -> None:
    line = sshd.known_hosts.read_text()
    known = file(tmp_path / "known", f"{line}@revoked {line}")
    with pytest.raises(BadCredentials):
        await driver(known_hosts=known).run(sshd.host(), ECHO, limit=10)


async def test_a_missing_known_hosts_file_is_refused_with_what_to_do(
    sshd: Sshd, driver: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Secret("file", str(tmp_path / "none"))
    with pytest.raises(Refused, match="cannot be read"):
        await driver(known_hosts=missing).run(sshd.host(), ECHO, limit=10)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Refused, match=r"knownHosts"):
        await driver(known_hosts=None).run(sshd.host(), ECHO, limit=10)


@pytest.mark.parametrize(
    "written", ["UserKnownHostsFile none", "UserKnownHostsFile /nowhere/known"]
)
async def test_a_configuration_file_cannot_turn_the_check_off(
    sshd: Sshd, driver: Make, tmp_path: Path, written: str
) -> None:
    config = tmp_path / "config"
    config.write_text(f"StrictHostKeyChecking no\n{written}\n")
    with pytest.raises(Refused, match="known_hosts"):
        await driver(known_hosts=None, config=str(config)).run(sshd.host(), ECHO, limit=10)


async def test_a_jump_host_is_checked_too(sshd: Sshd, driver: Make, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host 127.0.0.1 localhost\n UserKnownHostsFile none\n Port {PORT}\n"
        f"Host *\n UserKnownHostsFile {sshd.known_hosts}\n Port {PORT}\n"
    )
    reach = {"known_hosts": None, "config": str(config), "port": None}
    assert await driver(**reach).run(sshd.host(), ECHO, limit=10) == (0, "hello\n")
    with pytest.raises(Refused, match="turns host key checks off"):
        await driver(**reach, jump="127.0.0.1").run(sshd.host(), ECHO, limit=10)


# ---------------------------------------------------------------- who we are


async def test_a_key_that_the_host_does_not_know_is_bad_credentials(
    sshd: Sshd, driver: Make, tmp_path: Path
) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    with pytest.raises(BadCredentials, match="refuses to let us in"):
        await driver(identity=file(tmp_path / "k", key)).run(sshd.host(), ECHO, limit=10)


@pytest.mark.parametrize("what", ["not a key", "locked"])
async def test_a_key_that_cannot_be_used_is_bad_credentials(
    sshd: Sshd, driver: Make, tmp_path: Path, what: str
) -> None:
    if what == "locked":
        key = asyncssh.read_private_key(str(sshd.client_key))
        what = key.export_private_key("pkcs8-pem", passphrase="hidden").decode()
    with pytest.raises(BadCredentials, match="cannot be used") as caught:
        await driver(identity=file(tmp_path / "k", what)).run(sshd.host(), ECHO, limit=10)
    assert what not in str(caught.value)


async def test_a_key_may_be_in_the_environment(
    sshd: Sshd, driver: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", sshd.client_key.read_text())
    identity = Secret("env", "LAB_KEY")
    assert await driver(identity=identity).run(sshd.host(), ECHO, limit=10) == (0, "hello\n")


async def test_a_certificate_opens_a_host_that_does_not_know_the_key(
    sshd: Sshd, driver: Make, tmp_path: Path
) -> None:
    authority = asyncssh.read_private_key(str(sshd.folder / "ca"))
    key = asyncssh.generate_private_key("ssh-ed25519")
    user = sshd.reach().user or ""
    signed = authority.generate_user_certificate(key, "test", principals=[user])
    identity = file(tmp_path / "k", key.export_private_key().decode())
    certificate = file(tmp_path / "c", signed.export_certificate().decode())
    hands = driver(identity=identity, certificate=certificate)
    assert await hands.run(sshd.host(), ECHO, limit=10) == (0, "hello\n")


async def test_the_openssh_configuration_file_is_honoured(
    sshd: Sshd, driver: Make, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host 127.*\n User {sshd.reach().user}\n Port {PORT}\n IdentityFile {sshd.client_key}\n"
        f" UserKnownHostsFile {sshd.known_hosts}\n"
    )
    hands = SshDriver(SshReach(config=str(config)))
    assert await hands.run(sshd.host(), ECHO, limit=10) == (0, "hello\n")
    await hands.close()


@pytest.mark.parametrize("where", ["fleet", "file"])
async def test_a_jump_host_is_gone_through(
    sshd: Sshd, driver: Make, tmp_path: Path, where: str
) -> None:
    log = sshd.folder / "sshd.log"
    before = log.read_text().count("Accepted publickey")
    if where == "fleet":
        hands = driver(jump=f"{sshd.reach().user}@{sshd.address}:{PORT}")
    else:
        config = tmp_path / "config"
        config.write_text(f"Match originalhost {sshd.address}\n ProxyJump {sshd.address}:{PORT}\n")
        hands = driver(config=str(config))
    assert await hands.run(sshd.host(), ECHO, limit=10) == (0, "hello\n")
    assert log.read_text().count("Accepted publickey") == before + 2


@pytest.mark.parametrize("jump", ["@", "host:port", ":22"])
async def test_a_jump_that_is_none_is_refused(sshd: Sshd, driver: Make, jump: str) -> None:
    with pytest.raises(Refused, match="jump host is written"):
        await driver(jump=jump).run(sshd.host(), ECHO, limit=10)


# ---------------------------------------------------------------- silence


async def test_a_connection_that_dies_in_a_command_is_unreachable_not_success(
    sshd: Sshd, driver: Make, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    command = ("sh", "-c", 'echo x >"$0"; exec sleep 60', str(mark))
    running = asyncio.create_task(driver().run(sshd.host(), command, limit=20))
    await until(mark.exists)
    sshd.cut()
    with pytest.raises(Unreachable, match="before an exit status came"):
        await running


async def test_a_command_that_a_signal_ended_is_no_success(sshd: Sshd, driver: Make) -> None:
    status, _ = await driver().run(sshd.host(), ("sh", "-c", "kill -9 $$"), limit=10)
    assert status != 0


async def test_nobody_there_is_unreachable(sshd: Sshd, driver: Make) -> None:
    nobody = replace(sshd.host(), address=own_address())
    with pytest.raises(Unreachable, match="does not answer over SSH"):
        await driver().run(nobody, ECHO, limit=10)


async def test_a_host_that_accepts_and_says_nothing_is_unreachable_in_time(
    sshd: Sshd, driver: Make
) -> None:
    silent = own_address()
    with socket.create_server((silent, PORT)), pytest.raises(Unreachable, match=r"within 0\.5 s"):
        await driver().run(replace(sshd.host(), address=silent), ECHO, limit=0.5)


async def test_a_host_that_is_no_ssh_server_is_unreachable(sshd: Sshd, driver: Make) -> None:
    other = own_address()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)

    async with listening(talk, other, PORT):
        with pytest.raises(Unreachable):
            await driver().run(replace(sshd.host(), address=other), ECHO, limit=5)


# ---------------------------------------------------------------- connections


async def test_one_connection_serves_many_commands(sshd: Sshd, driver: Make) -> None:
    hands = driver()
    log = sshd.folder / "sshd.log"
    before = log.read_text().count("Accepted publickey")
    answers = await asyncio.gather(*(hands.run(sshd.host(), ECHO, limit=20) for _ in range(30)))
    assert answers == [(0, "hello\n")] * 30
    assert log.read_text().count("Accepted publickey") == before + 1


async def test_a_host_reached_ahead_is_logged_in_to_once(sshd: Sshd, driver: Make) -> None:
    hands = driver()
    log = sshd.folder / "sshd.log"
    before = log.read_text().count("Accepted publickey")
    hands.ahead(sshd.host())
    await until(lambda: log.read_text().count("Accepted publickey") == before + 1)
    assert await hands.run(sshd.host(), ECHO, limit=10) == (0, "hello\n")
    assert log.read_text().count("Accepted publickey") == before + 1


async def test_what_hinders_reaching_ahead_is_told_when_the_turn_comes(
    sshd: Sshd, driver: Make
) -> None:
    hands = driver(known_hosts=Secret("file", "/nonexistent/known_hosts"))
    hands.ahead(sshd.host())
    with pytest.raises((Refused, BadCredentials)):
        await hands.run(sshd.host(), ECHO, limit=10)


async def test_close_does_not_wait_for_who_is_being_reached(sshd: Sshd, driver: Make) -> None:
    address = own_address()
    with socket.create_server((address, PORT)) as silent:
        hands = driver()
        hands.ahead(replace(sshd.host(), address=address))
        accepted, _ = await asyncio.to_thread(silent.accept)
        with accepted:
            await asyncio.wait_for(hands.close(), 5)


async def test_a_dead_connection_is_replaced(sshd: Sshd, driver: Make) -> None:
    hands = driver()
    for _ in range(3):
        assert await hands.run(sshd.host(), ECHO, limit=10) == (0, "hello\n")
        sshd.cut()


async def test_a_restarted_server_is_found_again(sshd: Sshd, driver: Make) -> None:
    hands = driver()
    await hands.run(sshd.host(), ECHO, limit=10)
    sshd.stop()
    with pytest.raises(Unreachable):
        await hands.run(sshd.host(), ECHO, limit=10)
    sshd.start()
    assert await hands.run(sshd.host(), ECHO, limit=10) == (0, "hello\n")


async def test_the_pool_is_bounded(sshd: Sshd, driver: Make, tmp_path: Path) -> None:
    others = [Sshd(tmp_path / str(n), own_address()) for n in range(2)]
    known = sshd.known_hosts.read_text()
    for part in others:
        part.folder.mkdir()
        for name in ("client", "client.pub", "host_key", "ca.pub"):
            (part.folder / name).write_bytes((sshd.folder / name).read_bytes())
        (part.folder / "host_key").chmod(0o600)
        part.start()
        known += known.replace(sshd.address, part.address)
    try:
        hands = driver(known_hosts=file(tmp_path / "known", known), most_connections=2)
        for part in (sshd, *others):
            await hands.run(part.host(), ECHO, limit=10)
        await until(lambda: sum(bool(part.sessions()) for part in (sshd, *others)) <= 2)
        assert all(part.sessions() for part in others)
    finally:
        for part in others:
            part.stop()


async def test_close_leaves_nothing_on_the_host(sshd: Sshd, driver: Make) -> None:
    hands = driver()
    await hands.run(sshd.host(), ECHO, limit=10)
    await hands.close()
    await until(lambda: not sshd.sessions())


async def test_noise_of_a_login_shell_is_not_taken_for_an_answer(sshd: Sshd, driver: Make) -> None:
    """What a profile prints before the script is ignored; without an answer it is shown."""
    hands = driver()
    asked = StepRequest("op", "noisy", "forward", Token(0, 1, 1), (("echo", "out"),), 10.0)
    profile = sshd.home / ".bashrc"
    profile.write_text("echo Welcome to; echo the machine\n")
    try:
        assert (await hands.run(sshd.host(), ECHO, limit=10))[1].startswith("Welcome")
        result = await hands.apply(sshd.host("noisy"), asked, yes)
        assert (result.kind, result.output) == ("done", "out\n")
        profile.write_text("echo out of order; exit 5\n")
        with pytest.raises(Unreachable, match=r"status 5.*out of order"):
            await hands.apply(sshd.host("noisier"), asked, yes)
    finally:
        profile.unlink()
