"""One message a cause, nothing dropped, nothing said twice, and no storm."""

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from guardrail.decide.notices import (
    CALM,
    GATHER,
    JOINS,
    REPEATS,
    RETRIES,
    due,
    forget,
    hear,
    not_taken,
    saying_now,
    taken,
)
from guardrail.model.board import Board, Saying, Tiding, Tidings

DAY = 86_400.0


def hold(name: str = "gate:x", patience: float = 0.0, lasts: bool = True) -> Tiding:
    lines = ("a reason", "held", "If nobody acts nothing more is changed.", "guardrail …")
    return Tiding(
        f"hold:{name}",
        "hold",
        f"is held on {name}",
        f"are held on {name}",
        lines,
        lasts,
        patience,
    )


@dataclass
class World:
    """A board, and everything that was said from it. takes: whether channels take things, by the
    time."""

    board: Board = field(default_factory=Board)
    now: float = 0.0
    said: list[tuple[float, Saying]] = field(default_factory=list)
    refused: list[tuple[float, Saying]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    dark: tuple[tuple[float, float], ...] = ()

    def tell(self, operation: str, *standing: Tiding, over: bool = False, number: int = 0) -> None:
        count = self.numbers[operation] = self.numbers.get(operation, 0) + 1
        told = Tidings(operation, "run", number or count, self.now, standing, over)
        self.board = hear(self.board, told, self.now)

    def run(self, until: float) -> None:
        """Time goes on, as the workflow would have it."""
        for _ in range(100_000):
            found = due(self.board, self.now)
            for saying in found.sayings:
                self.board = saying_now(self.board, saying, self.now)
                if any(begin <= self.now < end for begin, end in self.dark):
                    self.refused.append((self.now, saying))
                    self.board = not_taken(self.board, saying, self.now)
                else:
                    self.said.append((self.now, saying))
                    self.board = taken(self.board, saying)
            self.board = forget(self.board, self.now)
            wake = due(self.board, self.now).wake_at
            if wake is None or wake > until:
                break
            assert wake > self.now, "it would look again and again, and time stands still"
            self.now = wake
        self.now = until

    @property
    def fresh(self) -> list[str]:
        """Operations in the order in which they were said for the first time."""
        return [name for _, saying in self.said for name in saying.fresh]


# ---------------------------------------------------------------- tables


def test_a_thousand_identical_holds_make_one_message_with_the_count() -> None:
    world = World()
    for number in range(1000):
        world.now = number / 1000
        world.tell(f"op-{number:03d}", hold())
    world.run(60.0)
    ((at, saying),) = world.said
    assert at <= 1.0 + GATHER
    assert saying.message.subject == "guardrail: 1000 operations are held on gate:x"
    assert "op-000" in saying.message.lines[0]
    assert "and 980 more" in saying.message.lines[0]
    assert saying.message.lines[-1] == "guardrail …"
    assert len(saying.fresh) == 1000


def test_what_still_stands_is_said_again_at_growing_intervals_and_no_more_once_it_went() -> None:
    world = World()
    world.tell("op", hold())
    world.run(7 * DAY)
    times = [at for at, _ in world.said]
    gaps = [round(b - a) for a, b in pairwise(times)]
    assert gaps[:5] == [900, 3600, 14_400, 86_400, 86_400]
    assert world.said[1][1].message.subject == "guardrail: op is held on gate:x (still)"
    assert world.said[1][1].message.lines[0].startswith("It has been so for 15 min")
    world.tell("op")
    count = len(world.said)
    world.run(30 * DAY)
    assert len(world.said) == count
    assert world.board == Board()


def test_a_hold_that_ends_by_itself_is_said_only_if_it_lasts() -> None:
    world = World()
    world.tell("op", hold(patience=300.0))
    world.run(200.0)
    world.tell("op")
    world.run(1000.0)
    assert world.said == []
    world.tell("op", hold(patience=300.0))
    world.run(1200.0)
    assert world.said == []
    world.run(1400.0)
    assert world.fresh == ["op"]


def test_a_hold_that_comes_and_goes_is_one_cause() -> None:
    world = World()
    for turn in range(20):
        world.tell("op", *(() if turn % 2 else (hold(),)))
        world.run(world.now + 30.0)
    assert world.fresh == ["op"]
    world.tell("op")
    world.run(world.now + CALM + 1)
    world.tell("op", hold())
    world.run(world.now + 10.0)
    assert world.fresh == ["op", "op"]


def test_newcomers_to_what_was_said_are_gathered_for_longer_each_time() -> None:
    world = World()
    for number in range(400):
        world.tell(f"op-{number:03d}", hold())
        world.run(world.now + 30.0)
    times = [at for at, _ in world.said]
    gaps = [round(b - a) for a, b in pairwise(times)]
    assert gaps[:4] == [60, 300, 900, 3600]
    world.run(world.now + JOINS[-1] + GATHER)
    assert sorted(world.fresh) == [f"op-{number:03d}" for number in range(400)]


def test_a_message_that_nobody_took_is_said_again_until_somebody_does() -> None:
    world = World(dark=((0.0, 500.0),))
    world.tell("op", hold())
    world.run(DAY)
    assert [round(at) for at, _ in world.refused] == [3, 63, 363]
    assert round(world.said[0][0]) == 363 + RETRIES[2]
    assert world.fresh == ["op"]


def test_what_has_happened_once_is_said_once_however_often_it_is_told() -> None:
    world = World()
    for _ in range(50):
        world.tell("op", hold("turned", lasts=False))
        world.run(world.now + 3600.0)
    world.tell("op", hold("end", lasts=False), over=True)
    world.run(world.now + DAY)
    assert [saying.like for _, saying in world.said] == ["hold:turned", "hold:end"]
    assert world.board == Board()


def test_an_end_that_comes_while_every_channel_is_dark_is_said_afterwards() -> None:
    world = World(dark=((0.0, DAY),))
    world.tell("op", hold("end", lasts=False), over=True)
    world.run(2 * DAY)
    assert world.fresh == ["op"]
    assert world.board == Board()


def test_what_is_told_late_changes_nothing() -> None:
    world = World()
    world.tell("op", hold(), number=7)
    board = world.board
    world.tell("op", number=3)
    assert world.board == board


def test_an_operation_of_the_same_name_is_another_one() -> None:
    world = World()
    world.tell("op", hold("end", lasts=False), over=True)
    world.run(10.0)
    again = Tidings("op", "another run", 1, world.now, (hold("end", lasts=False),), over=True)
    world.board = hear(world.board, again, world.now)
    world.run(DAY)
    assert world.fresh == ["op", "op"]


# ---------------------------------------------------------------- properties


@dataclass(frozen=True)
class Step:
    after: float
    operation: str
    holds: frozenset[str]


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from((0.0, 0.5, 20.0, 200.0, 700.0, 5000.0)),
        st.sampled_from([f"op-{number}" for number in range(6)]),
        st.frozensets(st.sampled_from(("gate:x", "gate:y", "host")), max_size=3),
    ),
    max_size=40,
)
darkness = st.lists(st.tuples(st.floats(0.0, 20_000.0), st.floats(1.0, 5_000.0)), max_size=3).map(
    lambda found: tuple((begin, begin + length) for begin, length in found)
)


@dataclass
class Episodes:
    """Since when each cause stands, and the episodes that ended: what comes back within CALM goes
    on with the same."""

    open: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    all: list[tuple[str, str, list[float]]] = field(default_factory=list)

    def see(self, step: Step, now: float) -> None:
        for name in ("gate:x", "gate:y", "host"):
            key = (step.operation, f"hold:{name}")
            found = self.open.get(key)
            if name in step.holds:
                if found is None or (found[1] >= 0 and now >= found[1] + CALM):
                    self.open[key] = found = [now, -1.0]
                    self.all.append((*key, found))
                found[1] = -1.0
            elif found is not None and found[1] < 0:
                found[1] = now


@settings(max_examples=150)
@given(steps, darkness)
def test_one_message_a_cause_and_nothing_dropped_and_nothing_said_twice(found, dark) -> None:
    world, episodes = World(dark=dark), Episodes()
    for step in found:
        world.run(world.now + step.after)
        episodes.see(step, world.now)
        world.tell(step.operation, *(hold(name) for name in sorted(step.holds)))
    world.run(world.now + 3 * DAY)
    times: dict[tuple[str, str], list[float]] = {}
    for at, saying in world.said:
        for name in saying.fresh:
            times.setdefault((name, saying.like), []).append(at)
    for operation, like, (since, gone) in episodes.all:
        end = gone if gone >= 0 else float("inf")
        told = [at for at in times.get((operation, like), ()) if since <= at <= end]
        assert len(told) <= 1, "it was said twice"
        if gone < 0:
            assert told, "it stands, and was dropped"
    assert sum(map(len, times.values())) <= len(episodes.all), "said though it never was"


@settings(max_examples=100)
@given(steps, darkness)
def test_no_storm(found, dark) -> None:
    world = World(dark=dark)
    for step in found:
        world.run(world.now + step.after)
        world.tell(step.operation, *(hold(name) for name in sorted(step.holds)))
    world.run(world.now + 3 * DAY)
    by_cause: dict[str, list[float]] = {}
    for at, saying in sorted([*world.said, *world.refused], key=lambda one: one[0]):
        by_cause.setdefault(saying.like, []).append(at)
    for times in by_cause.values():
        close = [b - a for a, b in pairwise(times) if b - a < JOINS[0] - 0.01]
        # Only a cause that had gone for long enough to be forgotten is said anew at once.
        assert close == []
    assert all(gap <= REPEATS[-1] for gap in REPEATS)
