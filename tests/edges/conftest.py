"""Both drivers behind one fixture: the contract of `HostDriver` is tested once, on real parts."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hands import Hands, cut_shells, last, own_address
from sshd_part import Sshd

from guardrail.edges.exec import ExecDriver
from guardrail.edges.ssh import SshDriver
from guardrail.model.fleet import Host


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """One server for a module, on an address that no other module has."""
    part = Sshd(tmp_path_factory.mktemp("sshd"), own_address())
    part.start()
    yield part
    part.stop()


@pytest.fixture(params=["exec", "ssh"])
async def hands(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Hands]:
    """Each test has a host of its own name, so that markers of tests never meet."""
    name = f"host-{next(last)}"
    drivers: list[ExecDriver | SshDriver] = []
    make: Callable[[], ExecDriver | SshDriver]
    if request.param == "exec":
        host = Host("test", name, "127.0.0.1", "a")
        state = tmp_path / "state"

        def make() -> ExecDriver | SshDriver:
            drivers.append(ExecDriver(state))
            return drivers[-1]

        yield Hands(make(), state / name, tmp_path, host, cut_shells, make)
    else:
        part: Sshd = request.getfixturevalue("sshd")
        host = part.host(name)

        def make() -> ExecDriver | SshDriver:
            drivers.append(SshDriver(part.reach()))
            return drivers[-1]

        yield Hands(make(), part.home / "state", tmp_path, host, part.cut, make)
    for driver in drivers:
        await driver.close()
