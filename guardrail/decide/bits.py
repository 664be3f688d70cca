"""How are sets of hosts kept? As whole numbers: bit i says whether host i is in the set."""

from collections.abc import Iterator


def bit(index: int) -> int:
    """The set of one host."""
    return 1 << index


def span(begin: int, end: int) -> int:
    """The set of hosts begin (included) to end (excluded)."""
    return (1 << end) - (1 << begin)


def members(hosts: int) -> Iterator[int]:
    """The indexes in a set, lowest first."""
    while hosts:
        lowest = hosts & -hosts
        yield lowest.bit_length() - 1
        hosts ^= lowest


def has(hosts: int, index: int) -> bool:
    """Whether a host is in a set."""
    return bool(hosts >> index & 1)
