"""In which order do hosts come, where is the order cut into waves, and who agrees before which?

Worked example: 30 hosts, stages 1, 25%, 50%, 100%, no wave above 10 hosts:

    stage   brings the fleet to   waves (begin, end)
    1       1                     (0, 1)
    25%     7  (7.5, down)        (1, 7)
    50%     15                    (7, 15)
    100%    30                    (15, 25) (25, 30)      cut at 10, the label stays
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from guardrail.model.common import Amount
from guardrail.model.fleet import Host
from guardrail.model.plan import Wave
from guardrail.model.rollout import FirstOf, Order

START = "start"

FACTS: dict[FirstOf, Callable[[Host, Mapping[str, str | None]], object]] = {
    "role": lambda host, _versions: tuple(sorted(host.roles)),
    "os": lambda host, _versions: host.label("os"),
    "version": lambda host, versions: versions.get(host.name),
}
"""What tells hosts apart when canaries are picked; a fact that is not known is one of its own."""


def in_order(
    hosts: Iterable[Host],
    order: Order,
    versions: Mapping[str, str | None],
    guards: frozenset[str] = frozenset(),
    leader: str = "",
) -> tuple[Host, ...]:
    """The hosts as they will be begun: canaries, the rest, the guard's own, and the leader last.

    `versions` has the running version by name, `guards` the names of hosts that this program
    itself stands on; leader: the name of a host that leads the others, where that matters. These
    are never canaries.
    """
    listed = sorted(hosts, key=_place(order))
    late = guards | {leader}
    others = [host for host in listed if host.name not in late]
    first = _canaries(others, order.canaries, versions)
    names = {host.name for host in first}
    rest = [host for host in others if host.name not in names]
    own = [host for host in listed if host.name in guards and host.name != leader]
    return (*first, *rest, *own, *(host for host in listed if host.name == leader))


def _place(order: Order) -> Callable[[Host], tuple[str, str]]:
    by_domain = order.by == "failureDomain"
    return lambda host: (host.failure_domain if by_domain else "", host.name)


def _canaries(
    hosts: Sequence[Host], facts: tuple[FirstOf, ...], versions: Mapping[str, str | None]
) -> tuple[Host, ...]:
    """The first host of each combination of facts; none where no facts are asked for."""
    if not facts:
        return ()
    first: dict[tuple[object, ...], Host] = {}
    for host in hosts:
        first.setdefault(tuple(FACTS[fact](host, versions) for fact in facts), host)
    return tuple(first.values())


def cut(
    stages: Iterable[Amount], hosts: int, *, most: int | None = None, alone: int = 0
) -> tuple[Wave, ...]:
    """The waves that bring `hosts` hosts to each stage in turn; never an empty one.

    A stage is rounded down and is at least one host; one that an earlier stage has reached has
    no wave. most: no wave has more hosts. alone: this many hosts at the end get a wave each.
    """
    waves: list[Wave] = []
    begin = 0
    for stage in stages:
        target = stage.of(hosts)
        while begin < target:
            end = _end(begin, target, most or hosts, hosts - alone)
            waves.append(Wave(str(stage), begin, end))
            begin = end
    return tuple(waves)


def cut_again(waves: tuple[Wave, ...], most: int | None, first: int) -> tuple[Wave, ...]:
    """The waves with none of more than `most` hosts from number `first` on; each begins where it
    began, and may end earlier, with the rest in waves of their own."""
    if most is None:
        return waves
    again: list[Wave] = list(waves[:first])
    for wave in waves[first:]:
        begins = range(wave.begin, wave.end, most)
        again += [Wave(wave.stage, begin, min(begin + most, wave.end)) for begin in begins]
    return tuple(again)


def _end(begin: int, target: int, most: int, first_alone: int) -> int:
    if begin >= first_alone:
        return begin + 1
    return min(target, begin + most, first_alone)


def label(point: str) -> str:
    """A point of approval as plans name it; `all` is the stage 100%."""
    return "100%" if point == "all" else point


def begins_at(
    point: str, stages: Sequence[Amount], waves: Sequence[Wave], hosts: int
) -> int | None:
    """The number of the wave that may not begin before the approval; None: no such stage.

    An approval at a stage is asked for before the *first* wave of that stage: nobody goes
    from 1 towards 25% without it. A stage without a wave of its own (25% of 3 hosts, after
    stage 1) is asked for before the wave that reaches it.
    """
    if point == START:
        return 0
    stage = next((stage for stage in stages if str(stage) == label(point)), None)
    if stage is None:
        return None
    own = (i for i, wave in enumerate(waves) if wave.stage == str(stage))
    reaching = (i for i, wave in enumerate(waves) if wave.end >= stage.of(hosts))
    return next(own, next(reaching, 0))
