"""One lab for the whole test session, on its own addresses and in its own folder."""


from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from guardrail.lab import ready
from guardrail.lab.health import fetch
from guardrail.lab.layout import LabHost, Layout
from guardrail.lab.parameters import LOADS
from guardrail.lab.processes import wait_until
from guardrail.lab.supervisor import down, up

# Not the block of a lab that a person has up, which a test must never meet.
SESSION_BLOCK = 40


@dataclass(frozen=True, slots=True)
class Lab:
    """The running lab, as tests need it."""

    layout: Layout

    @property
    def state(self) -> Path:
        return self.layout.state

    @property
    def prometheus_url(self) -> str:
        return self.layout.prometheus_url

    @property
    def consul_url(self) -> str:
        return self.layout.consul_url

    @property
    def hosts(self) -> tuple[LabHost, ...]:
        return self.layout.hosts

    @property
    def ssh_key(self) -> Path:
        return self.layout.ssh_key

    @property
    def known_hosts(self) -> Path:
        return self.layout.known_hosts

    def value(self, query: str) -> float | None:
        """One number from Prometheus; None without data."""
        return ready.value(self.layout, query)

    def set_load(self, rate: float) -> None:
        """Fresh boots per second."""
        address, _, port = self.layout.load_url.removeprefix("http://").partition(":")
        fetch(address, int(port), f"/ctl?lam={rate}", "POST")

    def set_cap(self, cap: float | None) -> None:
        """Boots admitted per second; None lifts the cap."""
        address, _, port = self.layout.boot_url.removeprefix("http://").partition(":")
        fetch(address, int(port), f"/ctl?cap={'none' if cap is None else cap}", "POST")

    def rewarm(self) -> None:
        """Put the cache back into its long-run state, and wait until demand says so."""
        address, _, port = self.layout.boot_url.removeprefix("http://").partition(":")
        fetch(address, int(port), f"/prewarm?lam={LOADS['peak']}", "POST")
        assert self.wait_for(lambda: (self.value(ready.DEMAND) or 1.0) < 0.3, 60)

    @staticmethod
    def wait_for(condition: Callable[[], bool], limit: float) -> bool:
        """Wait on a condition of the real parts; whether it came true in time."""
        return wait_until(condition, limit)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab at peak load, stopped at the end whatever happens."""
    layout = Layout(tmp_path_factory.mktemp("lab") / "state", SESSION_BLOCK)
    try:
        up(layout)
        yield Lab(layout)
    finally:
        down(layout.state)
