"""Several operations on the same roles, whatever happens to them: limits hold over all of them.

Each has hosts, gates and people of its own that behave badly; keepers are lost, operations die with
hosts in flight, people break leases, the table is lost. After every step: of an exclusive role one
operation at most has hosts away or cold, and of a shared one all together stay within the limits
of each. What a person has broken, or an ended operation has left behind, is their doing.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from guardrail.decide import leases, leasing, limits
from guardrail.model.lease import Break, Need
from guardrail.model.operation import LeaseTold, Started, State
from guardrail.twins import Drive, Script, TwinLeases

from builders import courses, helpful, people, turns, works

UNTIL = 2500.0
ROLES = ("memcached", "web")
TROUBLES = ("keeper", "dies", "break", "table")


@dataclass
class World:
    """Operations on one clock and one table. `dead` ones do nothing more, and keep their leases."""

    drives: list[Drive]
    table: TwinLeases
    dead: set[str] = field(default_factory=set)
    excused: set[str] = field(default_factory=set)
    together: int = 0

    def run(self, troubles):
        todo = sorted(troubles)
        while (following := self.following()) is not None:
            at, run = following
            while todo and todo[0][0] <= at:
                self.trouble(*todo.pop(0))
            if run.state.name not in self.dead:
                run.step()
            self.check()

    def following(self):
        live = [run for run in self.drives if run.state.name not in self.dead]
        known = [(at, n) for n, run in enumerate(live) if (at := run.next_at()) is not None]
        if not known or min(known)[0] > UNTIL:
            return None
        return min(known)[0], live[min(known)[1]]

    def trouble(self, at, kind, which):
        run = self.drives[which % len(self.drives)]
        name, state = run.state.name, run.state
        if kind == "dies":
            self.dead.add(name)
            if at < self.table.table.careful_until:  # before it could say that it has a lease
                self.excused.add(name)
        elif kind == "keeper" and state.lease_ask and name not in self.dead:
            run.now = max(run.now, at)
            run.happen(LeaseTold(run.now, state.lease_turn, "lost", ("silent",)))
        elif kind == "break":
            said = Break(ROLES[which % 2], "cid", "because")
            self.excused |= {
                x.holder.operation for x in leases.breaking(self.table.table, said, at)
            }
            self.table.table = leases.broken(self.table.table, said, at)
        elif kind == "table" and not self.dead:  # a lost table forgets the dead
            self.table.table = leases.opened(at, careful=True)

    # ------------------------------------------------------------ what must hold

    def check(self):
        away = {}
        for run in self.drives:
            name, state = run.state.name, run.state
            if name in self.excused or state.finished:
                continue
            if not leasing.unsettled(state) and (state.lease is None or not leasing.cold(state)):
                continue
            away[name] = (state, limits.away_by_domain(state))
        for role in ROLES:
            users = {n: each for n, each in away.items() if has_role(each[0], role)}
            if len(users) > 1:
                self.together += 1
                self.check_role(role, users)

    def check_role(self, role, users):
        total = Counter()
        for _, counts in users.values():
            total += counts
        for name, (state, _) in users.items():
            need = next(need for need in state.course.leases if need.role == role)
            assert not need.exclusive, f"{role} is {name}'s alone, and {sorted(users)} have it"
            caps, down = state.course.caps, state.course.down
            assert total.total() + sum(down) <= max(caps.unavailable, 1), (name, total)
            assert len(total) <= caps.domains_at_once, (name, total)
            for domain, count in total.items():
                assert count + down[domain] <= caps.unavailable_per_domain, (name, total)


def has_role(state, role):
    """Whether the operation has hosts of that role away, or cold ones of its lease's wave."""
    away = limits.not_serving(state) | sum(1 << flight.index for flight in state.in_flight)
    ours = next(need for need in state.course.leases if need.role == role)
    held = state.lease is not None and role in state.lease.roles
    return held or bool(int(ours.hosts, 16) & away)


@st.composite
def worlds(draw):
    """Two or three operations; whether a role is exclusive is the same for all."""
    exclusive = {role: draw(st.sampled_from([True, False, False])) for role in ROLES}
    down = draw(st.sampled_from([0, 0, 0, 1]))
    told = []
    for _ in range(draw(st.sampled_from([2, 2, 3]))):
        plan = draw(courses())
        web = draw(st.integers(0, (1 << plan.hosts) - 1))
        both = {"web": web, "memcached": (1 << plan.hosts) - 1 & ~web or 1}
        needs = tuple(Need(role, exclusive[role], f"{both[role]:x}") for role in sorted(both))
        wide = draw(st.sampled_from([0, 0, 3]))  # room for others beside a wave of few hosts
        caps = replace(
            plan.caps,
            unavailable=plan.caps.unavailable + wide + down,
            unavailable_per_domain=plan.caps.unavailable_per_domain + wide + down,
            domains_at_once=3 if wide else plan.caps.domains_at_once,
        )
        plan = replace(plan, leases=needs, down=(down, 0, 0), caps=caps)
        calm = draw(st.booleans())
        gates = () if calm else draw(turns([rule.name for rule in plan.gates]))
        said = draw(people(plan.hosts)) + draw(st.sampled_from([(), helpful(), helpful()]))
        told.append((plan, draw(st.integers(0, 2**32)), calm, gates, said, draw(st.booleans())))
    some = st.tuples(st.integers(0, 900), st.sampled_from(TROUBLES), st.integers(0, 5))
    return told, draw(st.lists(some, max_size=5))


def made(told):
    """The world as it was drawn, at its beginning."""
    world = World([], TwinLeases())
    for name, (plan, seed, calm, gates, said, urgent) in zip("abc", told, strict=False):
        script = Script(works(seed, good=calm), gates, said, first_report=1.0)
        run = Drive(State(plan, name), script, leases=world.table, urgent=urgent)
        run.schedule()
        run.happen(Started(0.0))
        world.drives.append(run)
    return world


@settings(max_examples=150)
@given(worlds())
def test_limits_hold_over_all_operations(drawn):
    told, troubles = drawn
    world = made(told)
    world.run([(float(at), kind, which) for at, kind, which in troubles])


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # never shown
def test_operations_are_away_together_and_come_to_an_end():
    """The rule above is looked at where it matters."""

    def shared(drawn):
        told, _ = drawn
        world = made(told)
        world.run([])
        return world.together and all(run.state.finished for run in world.drives)

    find(worlds(), shared, settings=settings(phases=[Phase.generate], max_examples=5_000))
