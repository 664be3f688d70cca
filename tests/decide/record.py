"""What has happened to an operation, told from the record of a drive and from nothing else?

It knows the rules of design.md §4 in its own words: which answers count, which commands are
taken, which hosts are away. The checks compare the engine with it, so a fault in the engine's
own book-keeping does not hide itself.
"""

from collections import Counter

from guardrail.model.operation import Commanded, GateJudged, HostAnswered, WatchAgain, WatcherLost
from guardrail.twins import host_name

EXACT = 1e-6
BLOCKED_TRIES = 3


def told(run):
    """(moment before, moment, record after it) for each moment of a drive."""
    record, before = Record(run.state.course), None
    for moment in run.moments:
        record.learn(moment)
        yield before, moment, record
        before = moment
    if before is not None and not run.state.finished and (due := record.next_due()) is not None:
        next_at = run._next_at()
        assert next_at is not None, f"nobody will look at {due}"
        assert next_at <= due + EXACT, f"nobody will look at {due}"


class Record:
    def __init__(self, course):
        self.course = course
        self.verdicts = {rule.name: (None, 0.0) for rule in course.gates}
        self.open = {}  # host -> the turn it was asked with and has not answered
        self.stuck = {}  # host -> failed, unknown, blocked or credentials, until a person acts
        self.done = set()
        self.tries = Counter()  # refusals in a row
        self.row = 0  # failures one after another
        self.paused, self.consents, self.retried = set(), {}, []
        self.watch_turn, self.wave, self.at, self.missed = 0, 0, 0.0, None

    def learn(self, moment):
        event, due = moment.event, self.next_due()
        self.missed = due if due is not None and due < event.at - EXACT else None
        self.at, self.retried, self.again = event.at, [], set()
        if isinstance(event, HostAnswered) and self.open.get(event.index) == event.turn:
            self.answered(event)
        elif isinstance(event, GateJudged) and event.turn == self.watch_turn:
            self.judged(event)
        elif isinstance(event, WatcherLost | WatchAgain) or event.kind == "started":
            self.watch_again(event)
        elif isinstance(event, Commanded):
            self.said(event)
        self.again = {asked.index for asked in moment.asked} & self.touched()
        self.open |= {asked.index: asked.turn for asked in moment.asked}
        self.wave = moment.state.wave

    # ------------------------------------------------------------ evidence

    def judged(self, event):
        gate, verdict = event.judgement.gate, event.judgement.verdict
        old, since = self.verdicts[gate]
        self.verdicts[gate] = (verdict, since if verdict == old else event.at)

    def watch_again(self, event):
        if isinstance(event, WatcherLost) and event.turn != self.watch_turn:
            return
        self.watch_turn += 1
        self.verdicts = dict.fromkeys(self.verdicts, (None, event.at))

    def verdicts_now(self):
        return {gate: verdict for gate, (verdict, _) in self.verdicts.items()}

    def all_pass(self):
        return set(self.verdicts_now().values()) <= {"pass"}

    def missing_from(self):
        """When missing evidence must be held, by gate."""
        for rule in self.course.gates:
            verdict, since = self.verdicts[rule.name]
            if verdict in (None, "inconclusive"):
                yield rule.name, since + (rule.grace if verdict else rule.first_within)

    def next_due(self):
        """The next time at which time alone must raise a hold; None: there is none."""
        return min((at for _, at in self.missing_from() if at > self.at), default=None)

    # ------------------------------------------------------------ hosts

    def answered(self, event):
        del self.open[event.index]
        if event.outcome != "not_begun":
            again = event.outcome == "blocked"
            self.tries[event.index] = self.tries[event.index] + 1 if again else 0
        given_up = event.outcome == "blocked" and self.tries[event.index] == BLOCKED_TRIES
        if event.outcome in ("failed", "unknown", "credentials") or given_up:
            self.stuck[event.index] = event.outcome
        self.row += event.outcome == "failed" or given_up
        if event.outcome == "changed":
            self.done.add(event.index)
            self.row *= self.too_many_failures()  # a row that holds is ended by a person

    def touched(self):
        """Hosts that a change has been tried on, and that nobody has said to try again."""
        return self.done | self.away()

    def away(self):
        kept = {i for i, outcome in self.stuck.items() if outcome in ("failed", "unknown")}
        return set(self.open) | kept

    def silent(self):
        """Hosts that must be named by a hold."""
        return {i for i, outcome in self.stuck.items() if outcome in ("unknown", "credentials")}

    def failures(self):
        return sum(outcome in ("failed", "blocked") for outcome in self.stuck.values())

    def too_many_failures(self):
        caps = self.course.caps
        most = caps.failures_consecutive
        return self.failures() > caps.failures or (most is not None and self.row > most)

    # ------------------------------------------------------------ people

    def said(self, event):
        if event.verb == "pause":
            self.paused.add(event.by)
        allowed = not event.over or (event.reason and event.over in self.paused)
        if event.verb == "resume" and allowed:
            self.paused -= {event.by, event.over}
        if event.verb == "approve":
            self.consents.setdefault(event.point, set()).add(event.by)
        if event.verb in ("retry", "skip"):
            self.dealt_with(event)

    def dealt_with(self, event):
        names = {host_name(index): index for index in self.stuck}
        if not names or set(event.hosts) - set(names):
            return  # refused: nobody is stuck, or somebody named is not
        for index in [names[name] for name in dict.fromkeys(event.hosts or names)]:
            if self.stuck.pop(index) in ("failed", "unknown") and event.verb == "retry":
                self.retried.append(index)
            self.tries[index] = self.row = 0

    # ------------------------------------------------------------ what must hold

    def must_hold(self, now):
        """The names of the holds that must stand now, but for those of silent hosts."""
        names = {f"operator:{by}" for by in self.paused}
        names |= {f"gate:{gate}" for gate, (v, _) in self.verdicts.items() if v == "fail"}
        names |= {f"evidence:{gate}" for gate, at in self.missing_from() if now >= at}
        names |= {"limit:failures"} if self.too_many_failures() else set()
        for point in self.course.approvals:
            given = self.consents.get(point.point, set())
            given = given - ({self.course.requester} if point.not_requester else set())
            if self.wave >= point.wave and len(given) < point.count:
                names.add(f"approval:{point.point}")
        return names
