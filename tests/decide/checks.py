"""The rules of design.md §4 as checks of a drive's record."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

from record import told

from guardrail.decide.commands import refusal
from guardrail.decide.explain import advice, explain, first_hold, sentence
from guardrail.model.operation import Commanded, GateJudged, HostAnswered, WatcherLost
from guardrail.twins import Script, Turn, Work, drive

from builders import works

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
    _reasons_hold(run)
    _holds_end_rightly(run)


def _reasons_hold(run):
    """Each reason of design.md §4 has its hold, at the moment it is one, by the record alone."""
    for before, moment, record in told(run):
        if moment.state.phase != "running":
            continue
        held = {hold.name for hold in moment.state.holds}
        about = {index for hold in moment.state.holds for index in hold.hosts}
        missing = record.must_hold(moment.event.at) - held
        assert not missing, (moment.event, missing)
        assert record.silent() <= about, (moment.event, record.silent(), about)
        late = before is not None and record.missed
        assert not late, f"nobody looked at {record.missed}, only at {moment.event.at}"


def _holds_end_rightly(run):
    """A hold ends by what its text says, and by nothing else."""
    for before, moment, record in told(run):
        if before is None:
            continue
        held = {hold.name for hold in moment.state.holds}
        for hold in before.state.holds:
            if hold.name not in held:
                assert ended(hold.name, moment.event, record), (hold.name, moment.event)


def ended(name, event, record):
    """Whether that hold may end with that event."""
    kind, _, about = name.partition(":")
    verb = event.verb if isinstance(event, Commanded) else None
    if kind == "operator":
        over = event.over == about and event.reason if verb else False
        return verb == "resume" and (event.by == about or over)
    if kind == "approval":
        return verb == "approve"
    if kind in ("host", "limit"):
        return verb in ("retry", "skip")
    if kind in ("gate", "evidence"):
        verdict, since = record.verdicts[about]
        rule = next(rule for rule in record.course.gates if rule.name == about)
        good = verdict == "pass" and event.at - since >= rule.good_for - 1e-9
        if kind == "evidence":
            return good
        asked = verb == "resume" and verdict == "pass"
        return asked or (good and rule.recover_by == "evidence")
    return False


def verdicts(state):
    return {w.gate: w.judgement.verdict if w.judgement else None for w in state.watched}


def inconclusive_never_advances(run):
    """No host is asked and no wave ends or begins unless every gate passes at that moment."""
    for before, moment, record in told(run):
        state = moment.state
        assert before is None or verdicts(state) == record.verdicts_now(), moment.event
        moved = before is not None and (
            state.wave != before.state.wave
            or (state.step == "changing" and before.state.step == "baking")
            or state.phase == "completed"
        )
        if moment.asked or moved:
            assert record.all_pass(), (moment.event, record.verdicts)
    _bakes_are_good_evidence(run)


def _bakes_are_good_evidence(run):
    """Seconds without a pass of every gate, or with hosts in flight, never count as baked."""
    was_good = False
    for before, moment, record in told(run):
        state = moment.state
        if before is not None and not was_good and state.step == before.state.step == "baking":
            assert state.baked <= before.state.baked + 1e-9, (before.event, moment.event)
        was_good = record.all_pass() and not state.holds and not record.open


def limits_hold(run):
    """At every begin the limits hold, counted from the record alone: who began, who answered."""
    course, caps = run.state.course, run.state.course.caps
    for _, moment, record in told(run):
        if not moment.asked:
            continue
        gone = record.away()
        assert len(gone) + sum(course.down) <= caps.unavailable, "too many hosts away"
        by_domain = Counter(course.domains[i] for i in gone)
        for domain, count in by_domain.items():
            assert count + course.down[domain] <= caps.unavailable_per_domain, "domain"
        assert len(by_domain) <= caps.domains_at_once, "too many domains"
        assert record.failures() <= caps.failures, "failures"
        most = caps.failures_consecutive
        assert most is None or record.row <= most, "failures in a row"
    _pace_holds(run)


def _pace_holds(run):
    times = [moment.event.at for moment in run.moments for _ in moment.asked]
    gaps = pairwise(times)
    assert all(b - a >= run.state.course.caps.pace - 1e-9 for a, b in gaps), "pace"


def one_change_per_host(run):
    """A host begins once, and once more for each retry by a person after it had begun."""
    allowed = Counter()
    for _, _, record in told(run):
        allowed.update(record.retried)
        assert not record.again, f"asked again without being told to: {record.again}"
    for index, count in Counter(b.index for b in run.begun).items():
        assert count <= 1 + allowed[index], f"host {index} began {count} times"
    turns = Counter(b.turn for b in run.begun)
    assert all(count == 1 for count in turns.values()), "a turn began twice"
    asked = [act.turn for moment in run.moments for act in moment.asked]
    assert asked == sorted(set(asked)), "a turn was given twice"


def answers_match_turns(run):
    """An event with a turn that is not the one asked for last changes nothing but time's work."""
    for before, after in pairwise(run.moments):
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
    _begun_only_while_changing(run)


def _begun_only_while_changing(run):
    """A host that was asked before a hold and is ready after it waits for the bake as well."""
    for begun in run.begun:
        lately = [m.state for m in run.moments if begun.at - LATE <= m.event.at <= begun.at]
        at_last = [m.state for m in run.moments if m.event.at < begun.at - LATE][-1:]
        steps = {state.step for state in (*at_last, *lately)}
        assert "changing" in steps, f"{begun} begun before the bake"


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
        _advice_is_taken(moment.state, moment.event.at)
    if run.state.finished:
        assert run.state.finish_reasons


def _advice_is_taken(state, now):
    """The command that is advised would not be refused, said by somebody it is meant for."""
    if state.finished or not state.holds:
        return
    command = advice(state)[-1].removeprefix("guardrail rollout ")
    verb, name, *rest = command.split()
    assert name == state.name
    if verb != "explain":
        said = Commanded(now, verb, first_hold(state).by, point=(*rest, "", "")[1])
        by = [said.by] if said.by else ["eve", "fay", "gus"]
        assert any(refusal(state, replace(said, by=who)) is None for who in by), command


def goes_by_itself(course, seed):
    """In a good world an operation completes without anybody saying anything."""
    run = drive(replace(course, approvals=()), Script(work=works(seed, good=True)), until=20_000.0)
    assert run.state.phase == "completed", explain(run.state)
    assert run.state.changed == (1 << course.hosts) - 1, explain(run.state)


def progress(course, script):
    """Whatever happened before, from t=1000 on all is well and people answer: it ends."""
    goes_by_itself(course, len(script.people))
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
    state = run.state
    if state.phase == "completed":
        known = state.changed | state.set_aside | state.failed | state.blocked
        assert known == (1 << course.hosts) - 1, "a host was forgotten"


def helpers():
    """People who come by every minute: approve, retry what failed, resume what they paused."""
    said = []
    for at in range(1001, 30_000, 300):
        said += [Commanded(float(at), "approve", by, point="start") for by in ("bob", "cid")]
        said.append(Commanded(at + 1.0, "retry", "bob"))
        said += [Commanded(at + 2.0, "resume", by) for by in ("ann", "bob", "cid")]
    return tuple(said)
