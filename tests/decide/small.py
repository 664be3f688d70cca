"""Small operations for tests with times that an operator can check by hand.

Hosts answer 5 s after they were asked; the first verdicts come at t=1; a bake takes 30 s; missing
evidence may be missing for 10 s and must be good again for 20 s.
"""

from guardrail.twins import Script, Work, drive


def hosts(outcomes=(), takes=5.0, times=None):
    """Work that takes so long, with these outcomes by (host, how often it was asked)."""
    asked, outcomes, times = {}, dict(outcomes), times or {}

    def work(begin, _now):
        asked[begin.index] = asked.get(begin.index, 0) + 1
        outcome = outcomes.get((begin.index, asked[begin.index]), "changed")
        return Work(0.0, 0.0, times.get(begin.index, takes), outcome)

    return work


def go(plan, *, until=10_000.0, work=None, gates=(), people=(), lost=(), first=1.0):
    script = Script(work or hosts(), tuple(gates), tuple(people), tuple(lost), first)
    return drive(plan, script, until=until)


def begins(run, direction=None):
    """(when, host) of each host that was asked, in that direction."""
    asked = [(moment.event.at, act) for moment in run.moments for act in moment.asked]
    return [(at, act.index) for at, act in asked if direction in (None, act.direction)]


def held(run, at):
    """The names of the holds after the last event at or before that time."""
    state = [moment.state for moment in run.moments if moment.event.at <= at][-1]
    return [hold.name for hold in state.holds]


def span(run, name):
    """From when to when a hold stood; None at the end: it still does."""
    times = [m.event.at for m in run.moments if m.state.hold(name)]
    after = [m.event.at for m in run.moments if m.event.at > times[-1]]
    return times[0], (after[0] if after else None)


def drive_on(run, *events, until=9000.0):
    """Have something happen to an operation that has stood still, and go on."""
    for event in events:
        run.now = event.at
        run.happen(event)
    run.run(until)
    return run
