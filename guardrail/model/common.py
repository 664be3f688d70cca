"""What do all documents share? Amounts, secret references, and where a value came from."""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of hosts, or a share of a known total, as a policy or a rollout file states it.

    `value` is a count of hosts (>= 0), or per cent (0 to 100) where `percent` is true.
    """

    value: float
    percent: bool = False

    def of(self, total: int, *, least: int = 1) -> int:
        """Hosts out of `total`, rounded down; at least `least`, at most `total`.

        25 % of 30 is 7, 99 % of 3 is 2, 1 % of 10 is 1 (with least 1). A count is never all
        hosts unless 100 % or that many were asked for.
        """
        # 1e-9: 29 % of 100 is 28.999999999999996 in binary.
        exact = self.value * total / 100 if self.percent else self.value
        return min(total, max(least, math.floor(exact + 1e-9)))

    def __str__(self) -> str:
        return f"{self.value:g}%" if self.percent else f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a secret is, never the secret: an environment variable or a file on the worker."""

    kind: Literal["env", "file"]
    name: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The place in a file that a value was read from. Line counts from 1; 0 says "built in".

    revision: of the folder in git, ending in `+` where files in it differ from that revision;
    empty where there is none.
    """

    document: str
    file: str
    line: int
    revision: str = ""

    def __str__(self) -> str:
        return f"{self.document} ({self.file}:{self.line})" if self.line else self.document


@dataclass(frozen=True, slots=True)
class Tls:
    """How to speak TLS to a service; paths are on the machine that connects."""

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
