"""Reminders for tests, and a world that answers them: people, channels, queries, outages."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from guardrail.decide.reminding import begin, remind
from guardrail.model.gate import Bound
from guardrail.model.occasion import Moment, Occasion
from guardrail.model.reminder import (
    Ask,
    Evidence,
    Lead,
    NotDelivered,
    People,
    ReadBack,
    Reminder,
    ReminderEvent,
    ReminderState,
    Send,
    Task,
    Tick,
    Verify,
    Wanted,
    WasRead,
)

DAY, HOUR = 86_400.0, 3600.0
BEGINS = 100 * DAY
PEOPLE = People("ann", "bob", "oncall", after=4 * HOUR)
TASKS = (
    Task("ask", "ask the provider", "ticket", Evidence("ticket", pattern="CASE-[0-9]+")),
    Task("quota", "see the quota", "quota", Evidence("quota", query="q", bound=Bound(above=49))),
)
LEADS = (Lead("ticket", 30 * DAY), Lead("quota", 14 * DAY), Lead("quota", 3 * DAY))
VERIFY = Verify(Evidence("target", query="v", target=50.0), every=HOUR)


def reminder(**fields) -> Reminder:
    given = {
        "name": "gateway",
        "what": "transit gateway to 50 Gbit/s",
        "occasion": Occasion("UTC"),
        "leads": LEADS,
        "people": PEOPLE,
        "tasks": TASKS,
        "verify": VERIFY,
    }
    return Reminder(**{**given, **fields})


def moment(begins: float = BEGINS, key: str = "2027", lasts: float = 2 * DAY, **fields) -> Moment:
    return Moment(key, begins, begins + lasts, 0, "first working day", "UTC", **fields)


def wanted(begins: float = BEGINS, **fields) -> Wanted:
    return Wanted(reminder(**fields), moment(begins))


@dataclass
class World:
    """Drives one reminder by time. values: what queries answer; None or missing: nothing.

    refusing: channels that take nothing. down: (from, to): nobody carries anything then.
    """

    wanted: Wanted
    now: float = 0.0
    values: dict[str, float | None] = field(default_factory=dict)
    refusing: set[str] = field(default_factory=set)
    down: tuple[tuple[float, float], ...] = ()
    sent: list[tuple[float, Send]] = field(default_factory=list)
    asks: list[tuple[float, int]] = field(default_factory=list)
    events: list[ReminderEvent] = field(default_factory=list)
    state: ReminderState = field(init=False)
    wake: float | None = field(init=False)

    def __post_init__(self) -> None:
        self._take(begin(self.wanted, self.now))

    def say(self, event: ReminderEvent) -> None:
        before = self.state.at
        decision = remind(self.state, event)
        self.events.append(event)
        assert decision.state.at >= before
        self._take(decision)

    def _take(self, decision) -> None:
        self.state, self.wake = decision.state, decision.wake_at
        assert self.wake is None or self.wake > self.state.at, "each wake is in the future"
        for action in decision.actions:
            self._do(action)

    def _do(self, action: Send | Ask) -> None:
        if isinstance(action, Send):
            self.sent.append((self.now, action))
            if set(action.message.to) <= self.refusing:
                self.say(NotDelivered(self.now, action.number, "refused"))
        else:
            self.asks.append((self.now, action.turn))
            names = [name for name, _ in self.state.wanted.reminder.reads]
            read = tuple(ReadBack(n, self.values.get(n), self.now, "no data") for n in names)
            self.say(WasRead(self.now, action.turn, read))

    def until(self, at: float, people: Iterable[tuple[float, Callable[["World"], None]]] = ()):
        """Let time pass; people do what they do at their times."""
        todo = sorted(people, key=lambda each: each[0])
        while True:
            nexts = [t for t in (self.wake, todo[0][0] if todo else None) if t is not None]
            if not nexts or min(nexts) > at:
                self.now = max(self.now, at)
                return
            self.now = max(self.now, self._up(min(nexts)))
            if self.wake is not None and self.wake <= min(nexts):
                self.say(Tick(self.now))
            else:
                todo.pop(0)[1](self)

    def _up(self, at: float) -> float:
        """The first time from `at` on at which somebody carries things."""
        return max([at, *(end for begin, end in self.down if begin <= at < end)])

    @property
    def told(self) -> list[tuple[float, tuple[str, ...]]]:
        """When whom something was sent."""
        return [(at, send.message.to) for at, send in self.sent]
