"""What do probes make of answers, of refusals and of silence?"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hands import own_address
from http_part import Answer, HttpPart, listening, serving

from guardrail.edges import probes
from guardrail.edges.exec import ExecDriver
from guardrail.edges.probes import ConsulRestarts, Probes, first_group
from guardrail.model.change import Change, Command, ConsulAgentProbe, HttpProbe, Probe, RunProbe
from guardrail.model.common import Secret
from guardrail.model.fleet import Host
from guardrail.ports import BadCredentials, RestartEffect, Unreachable

pytestmark = pytest.mark.real
RUN = RunProbe(("echo", "Consul v1.8.7 on {host}"), r"Consul v(\S+)")
AGENT = ConsulAgentProbe()
PAGE = HttpProbe(8500, "/metrics", r'version="([^"]+)"')


def change(running: Probe = AGENT, installed: RunProbe | HttpProbe = RUN) -> Change:
    return Change("c", "consul", "exec", installed, running, (), (("true",),), None, None, 60.0)


@pytest.fixture
async def agent() -> AsyncIterator[HttpPart]:
    async with serving(own_address()) as part:
        part.answers = {
            "/v1/agent/self": Answer(
                {"Config": {"Version": "1.8.8"}, "DebugConfig": {"LeaveOnTerm": True}}
            ),
            "/v1/agent/services": Answer(
                {"b": {"Service": "memcached"}, "c": {"Service": "memcached"}, "a": {"X": 1}}
            ),
            "/metrics": Answer('# HELP\nbuild_info{version="1.1.0"} 1\n'),
        }
        yield part


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[Probes]:
    found = Probes(ExecDriver(tmp_path))
    yield found
    await found.close()


def host(part: HttpPart) -> Host:
    return Host("test", "cache-001", part.address, "a")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (None, None),
        (("true", "{version}"), None),
        (("sh", "-c", 'echo "no $0"; echo on $1 >&2; exit 4', "{version}", "{host}"),
         "no 1.8.7 on cache-001"),
        (("false", "{version}"), "false ended with status 1"),
        (("no-such-program", "{version}"), "no-such-program: not found on this machine"),
    ],
)  # fmt: skip
async def test_a_host_says_whether_a_version_can_be_had(
    reader: Probes, agent: HttpPart, command: Command | None, said: str | None
) -> None:
    asked = replace(change(), obtainable=command)
    assert await reader.obtainable(host(agent), asked, "1.8.7") == said


async def test_versions_are_read_from_commands_agents_and_pages(
    reader: Probes, agent: HttpPart
) -> None:
    assert await reader.installed(host(agent), change()) == "1.8.7"
    assert await reader.running(host(agent), change()) == "1.8.8"
    assert await reader.running(host(agent), change(PAGE)) == "1.1.0"
    named = RunProbe(("echo", "Consul v1.8.7 on {host}"), r"on (\S+)")
    assert await reader.installed(host(agent), change(installed=named)) == "cache-001"


@pytest.mark.parametrize(
    "run",
    [
        RunProbe(("no-such-program",), "(.*)"),
        RunProbe(("false",), "(.*)"),
        RunProbe(("sh", "-c", "echo v1; exit 1"), "v(.)"),
        RunProbe(("echo", "no version"), r"v(\d+)"),
        RunProbe(("echo", "v1"), "v1"),
        RunProbe(("echo", "v"), r"v(\d*)"),
    ],
)
async def test_a_command_that_does_not_tell_is_none(
    reader: Probes, agent: HttpPart, run: RunProbe
) -> None:
    assert await reader.installed(host(agent), change(installed=run)) is None


@pytest.mark.parametrize(
    "answer",
    [
        Answer("x", 500),
        Answer("not json"),
        Answer([]),
        Answer({}),
        Answer({"Config": None}),
        Answer({"Config": {"Version": 1}}),
    ],
)
async def test_an_agent_that_does_not_tell_is_none(
    reader: Probes, agent: HttpPart, answer: Answer
) -> None:
    agent.answers["/v1/agent/self"] = answer
    assert await reader.running(host(agent), change()) is None


async def test_a_page_with_another_status_is_none(reader: Probes, agent: HttpPart) -> None:
    agent.answers["/metrics"] = Answer('version="9"', 500)
    assert await reader.running(host(agent), change(PAGE)) is None


async def test_an_agent_that_does_not_run_is_none(reader: Probes) -> None:
    nobody = Host("test", "cache-001", own_address(), "a")
    assert await reader.running(nobody, change()) is None
    assert await reader.running(nobody, change(PAGE)) is None


@pytest.mark.parametrize("probe", [ConsulAgentProbe(), PAGE])
async def test_silence_is_unreachable(
    reader: Probes, agent: HttpPart, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "HTTP_LIMIT", 0.2)
    agent.silent = True
    with pytest.raises(Unreachable, match=r"nothing came within 0\.2 s"):
        await reader.running(host(agent), change(probe))


async def test_a_connection_that_breaks_off_is_unreachable(reader: Probes) -> None:
    address = own_address()

    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nversion=")

    async with listening(break_off, address, 8500):
        with pytest.raises(Unreachable):
            await reader.running(Host("test", "h", address, "a"), change(PAGE))


@pytest.mark.parametrize("status", [401, 403])
async def test_an_agent_that_refuses_to_tell_is_bad_credentials(
    reader: Probes, agent: HttpPart, status: int
) -> None:
    agent.answers["/v1/agent/self"] = Answer("Permission denied", status)
    with pytest.raises(BadCredentials, match="Permission denied"):
        await reader.running(host(agent), change())


async def test_the_token_goes_to_agents_and_to_nobody_else(
    agent: HttpPart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_HERE", "t0ken")
    reader = Probes(ExecDriver(tmp_path), token=Secret("env", "TOKEN_HERE"))
    await reader.running(host(agent), change())
    await reader.running(host(agent), change(PAGE))
    await reader.close()
    assert [asked.headers.get("x-consul-token") for asked in agent.asked] == ["t0ken", None]


@pytest.mark.parametrize(
    ("debug", "leaves", "words"),
    [
        ({"LeaveOnTerm": True}, True, "this restart will deregister the node with memcached"),
        ({"LeaveOnTerm": False}, False, "this restart keeps the node and memcached registered"),
        ({}, None, "this restart may deregister the node with memcached"),
        (None, None, "this restart may deregister the node with memcached"),
    ],
)
async def test_what_a_restart_will_do(
    reader: Probes, agent: HttpPart, debug: object, leaves: bool | None, words: str
) -> None:
    own = {"Config": {"Version": "1.8.7"}, "DebugConfig": debug}
    agent.answers["/v1/agent/self"] = Answer(own)
    effect = await ConsulRestarts(reader).restart_effect(host(agent))
    assert effect == RestartEffect("1.8.7", leaves, ("memcached",))
    assert words in str(effect)


async def test_an_agent_that_is_not_there_cannot_say_what_a_restart_does(reader: Probes) -> None:
    nobody = Host("test", "h", own_address(), "a")
    with pytest.raises(Unreachable):
        await ConsulRestarts(reader).restart_effect(nobody)


async def test_another_port(reader: Probes) -> None:
    async with serving(own_address(), 8600) as part:
        part.answers["/v1/agent/self"] = Answer({"Config": {"Version": "2"}})
        asked = change(replace(ConsulAgentProbe(), port=8600))
        assert await reader.running(host(part), asked) == "2"


def test_the_first_group_is_the_version() -> None:
    assert first_group(r"^v(\S+) *$", "x\nv1.2  \ny") == "1.2"
    assert first_group(r"v(x)?", "v") is None
