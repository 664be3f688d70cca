"""The rules of design.md §4 as checks of a drive's record."""

from collections import Counter, defaultdict
from dataclasses import replace

from guardrail.decide.explain import explain, sentence
from guardrail.model.operation import Commanded, GateJudged, HostAnswered, WatcherLost
from guardrail.twins import Script, Turn, Work, drive

LATE = 1.3 + 1e-9
"""Seconds: a permit of 0.3 s, and a host's own second between ready and go (design.md §5)."""


def held_spans(run):
    """When holds stood: (from, to) pairs; the last one may be open."""
    spans, since = [], None
    for moment in run.moments:
        if moment.state.holds and since is None:
            since = moment.event.at
        elif not moment.state.holds and since is not None:
            spans.append((since, moment.event.at))
            since = None
    return [*spans, (since, float("inf"))] if since is not None else spans


def no_start_under_hold(run):
    spans = held_spans(run)
    for moment in run.moments:
        assert not (moment.asked and moment.state.holds), "asked to begin under a hold"
    for begun in run.begun:
        for since, to in spans:
            assert not since + LATE < begun.at < to, f"{begun} begun under a hold since {since}"


def verdicts(state):
    return {w.gate: w.judgement.verdict if w.judgement else None for w in state.watched}


def inconclusive_never_advances(run):
    """No host is asked and no wave ends or begins unless every gate passes at that moment."""
    before = None
    for moment in run.moments:
        state = moment.state
        moved = before is not None and (
            state.wave != before.wave
            or (state.step == "changing" and before.step == "baking")
            or state.phase == "completed"
        )
        if moment.asked or moved:
            assert set(verdicts(state).values()) == {"pass"}, (moment.event, verdicts(state))
        before = state
    _bakes_are_good_evidence(run)


def _bakes_are_good_evidence(run):
    """Seconds without a pass of every gate never count as baked."""
    for before, after in zip(run.moments, run.moments[1:], strict=False):
        state, elapsed = before.state, after.event.at - before.event.at
        good = set(verdicts(state).values()) == {"pass"} and not state.holds
        if not good and after.state.step == "baking" and state.step == "baking":
            assert after.state.baked <= state.baked + 1e-9, (before.event, elapsed)


def limits_hold(run):
    """At every begin the limits hold, counted from the record alone: who began, who answered."""
    course, caps = run.state.course, run.state.course.caps
    for moment in run.moments:
        state = moment.state
        if not moment.asked:
            continue
        gone = {f.index for f in state.in_flight}
        gone |= {i for i in range(course.hosts) if (state.unknown | state.failed) >> i & 1}
        assert len(gone) + sum(course.down) <= caps.unavailable, "too many hosts away"
        by_domain = Counter(course.domains[i] for i in gone)
        for domain, count in by_domain.items():
            assert count + course.down[domain] <= caps.unavailable_per_domain, "domain"
        assert len(by_domain) <= caps.domains_at_once, "too many domains"
        assert (state.failed | state.blocked).bit_count() <= caps.failures, "failures"
    _pace_holds(run)
    _hosts_away_by_record(run)


def _pace_holds(run):
    times = [moment.event.at for moment in run.moments for _ in moment.asked]
    gaps = zip(times, times[1:], strict=False)
    assert all(b - a >= run.state.course.caps.pace - 1e-9 for a, b in gaps), "pace"


def _hosts_away_by_record(run):
    """The same limit from outside: asked and not answered with that turn, whatever state says."""
    asked, answered = {}, set()
    for moment in run.moments:
        if isinstance(moment.event, HostAnswered):
            answered.add((moment.event.index, moment.event.turn))
        asked |= {(a.index, a.turn): moment.event.at for a in moment.asked}
        open_ = [key for key in asked if key not in answered]
        most = run.state.course.caps.unavailable - sum(run.state.course.down)
        assert len(open_) <= most, f"{len(open_)} asked and unanswered, {most} allowed"


def one_change_per_host(run):
    """A host begins once, and once more for each retry by a person that named it."""
    allowed = Counter()
    for before, after in zip(run.moments, run.moments[1:], strict=False):
        if isinstance(after.event, Commanded) and after.event.verb == "retry":
            names = {known.index for known in before.state.exceptional}
            allowed.update(names - {known.index for known in after.state.exceptional})
    for index, count in Counter(b.index for b in run.begun).items():
        assert count <= 1 + allowed[index], f"host {index} began {count} times"
    turns = Counter(b.turn for b in run.begun)
    assert all(count == 1 for count in turns.values()), "a turn began twice"


def answers_match_turns(run):
    """An event with a turn that is not the one asked for last changes nothing but time's work."""
    for before, after in zip(run.moments, run.moments[1:], strict=False):
        event, state = after.event, before.state
        if isinstance(event, HostAnswered):
            flight = state.flight(event.index)
            if flight is None or flight.turn != event.turn:
                _hosts_unchanged(state, after)
        if isinstance(event, GateJudged | WatcherLost) and event.turn != state.watch_turn:
            assert after.state.watched == state.watched
            assert after.state.watch_turn == state.watch_turn


def _hosts_unchanged(state, after):
    for field in ("changed", "failed", "unknown", "blocked", "set_aside", "exceptional"):
        assert getattr(after.state, field) == getattr(state, field), field
    kept = set(after.state.in_flight)
    assert set(state.in_flight) <= kept, "a flight ended by somebody else's answer"


def resume_bakes_first(run):
    """Between the end of a hold and the next begin: nothing in flight, then a whole bake."""
    need, quiet_since, asked_before = run.state.course.bake_for, None, False
    held = False
    for moment in run.moments:
        state, now = moment.state, moment.event.at
        held = held or bool(state.holds)
        flights = len(state.in_flight) - len(moment.asked)
        good = not state.holds and flights == 0 and set(verdicts(state).values()) == {"pass"}
        quiet_since = (now if quiet_since is None else quiet_since) if good else None
        if moment.asked and held:
            assert quiet_since is not None, "began while not settled"
            if asked_before:
                assert now - quiet_since >= need - 0.01, f"baked {now - quiet_since} of {need}"
            held = False
        asked_before = asked_before or bool(moment.asked)


def explained(run):
    for moment in run.moments:
        for hold in moment.state.holds:
            assert hold.reasons, hold.name
            assert all(reason.strip() for reason in hold.reasons), hold.name
            assert hold.clears, hold.name
            if hold.name.startswith("gate:"):
                assert hold.judgement is not None, hold.name
                assert hold.judgement.readings, hold.name
            assert hold.name in sentence(moment.state) or moment.state.finished
        assert explain(moment.state)
    if run.state.finished:
        assert run.state.finish_reasons


def progress(course, script):
    """Whatever happened before, from t=1000 on all is well and people answer: it ends."""
    names = [rule.name for rule in course.gates]
    well = tuple(Turn(1000.0, name, "pass") for name in names)
    helped = replace(script, gates=(*script.gates, *well), people=(*script.people, *helpers()))
    seen = defaultdict(int)

    def work(begin, now):
        seen[begin.index] += 1
        return script.work(begin, now) if now < 1000 else Work()

    if script.first_report is None:
        helped = replace(helped, first_report=8.0)
    run = drive(course, replace(helped, work=work), until=40_000.0)
    assert run.state.finished, explain(run.state)
    assert run.state.phase in ("completed", "aborted")
    left = run.state.changed | run.state.set_aside
    if run.state.phase == "completed":
        assert left == (1 << course.hosts) - 1, "a host was forgotten"


def helpers():
    """People who come by every minute: approve, retry what failed, resume what they paused."""
    said = []
    for at in range(1001, 30_000, 300):
        for by in ("bob", "cid"):
            said.append(Commanded(float(at), "approve", by, point="start"))
        said.append(Commanded(at + 1.0, "retry", "bob"))
        said += [Commanded(at + 2.0, "resume", by) for by in ("ann", "bob", "cid")]
    return tuple(said)
