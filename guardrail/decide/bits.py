"""How are sets of hosts kept? As whole numbers: bit i says whether host i is in the set."""

from collections.abc import Iterable, Iterator


def bit(index: int) -> int:
    """The set of one host."""
    return 1 << index


def span(begin: int, end: int) -> int:
    """The set of hosts begin (included) to end (excluded)."""
    return (1 << end) - (1 << begin)


def union(spans: Iterable[tuple[int, int]]) -> int:
    """The set of hosts of several stretches (begin included, end excluded), which may overlap."""
    hosts = 0
    for begin, end in spans:
        hosts |= span(begin, end)
    return hosts


def members(hosts: int) -> Iterator[int]:
    """The indexes in a set, lowest first; byte by byte, so that 100,000 hosts take 10 ms."""
    first = max(0, (hosts & -hosts).bit_length() - 1) // 8 * 8
    rest = hosts >> first
    for byte in rest.to_bytes((rest.bit_length() + 7) // 8, "little"):
        left = byte
        while left:
            lowest = left & -left
            yield first + lowest.bit_length() - 1
            left ^= lowest
        first += 8


def newest_first(hosts: int) -> Iterator[int]:
    """The indexes in a set, highest first: the hosts that were changed last."""
    while hosts:
        highest = hosts.bit_length() - 1
        yield highest
        hosts ^= 1 << highest


def has(hosts: int, index: int) -> bool:
    """Whether a host is in a set."""
    return bool(hosts >> index & 1)
