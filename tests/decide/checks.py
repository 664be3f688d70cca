"""The rules of design.md §4 (guardrail.simulation.rules) over the record of a drive."""

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

from guardrail.decide.explain import explain
from guardrail.model.operation import Commanded
from guardrail.simulation.rules import Referee
from guardrail.twins import Begun, Script, Turn, Work, drive

from builders import signed, works


def watched(run, *rules):
    """Show a drive, moment by moment, to these rules (to all if none is named)."""
    referee = Referee(run.state.course, only=rules or None)
    moments = [(moment.event.at, 0, n, moment) for n, moment in enumerate(run.moments)]
    begun = [(begun.at, 1, n, begun) for n, begun in enumerate(run.begun)]
    for _, _, _, each in sorted(moments + begun, key=lambda row: row[:3]):
        (referee.begun if isinstance(each, Begun) else referee.observe)(each)
    return referee


def looked_at_in_time(run):
    """Whoever carries the events will look again when time alone must raise a hold."""
    due = watched(run, "no_start_under_hold").record.next_due()
    if not run.state.finished and run.moments and due is not None:
        next_at = run.next_at()
        assert next_at is not None, f"nobody will look at {due}"
        assert next_at <= due + 1e-6, f"nobody will look at {due}"


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
    watched(drive(course, replace(helped, work=work), until=40_000.0)).end()


def helpers():
    """People who come by every five minutes: approve, retry what failed, go on with what waits."""
    said = []
    for at in range(1001, 30_000, 300):
        said += [signed(float(at), "approve", by, point="start") for by in ("bob", "cid", "dee")]
        said.append(Commanded(at + 1.0, "retry", "bob"))
        said += [Commanded(at + 2.0, "resume", by) for by in ("ann", "bob", "cid")]
        if at > 1900:
            said.append(Commanded(at + 3.0, "rollback", "dan", scope="all"))
    return tuple(said)


def turns_back(run):
    """When the operation turned round, by the record: (at, direction) of each change."""
    pairs = pairwise(run.moments)
    return [
        (b.event.at, b.state.direction) for a, b in pairs if a.state.direction != b.state.direction
    ]
