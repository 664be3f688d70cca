"""What would a rollback do if it were asked for now, and what would it wait for?

Nothing is changed by asking: the command is obeyed on a copy of the state, by the same functions
that would obey it in earnest, and what stands then is told.
"""

from guardrail.decide import churning, downs
from guardrail.decide.commands import obey, refusal
from guardrail.decide.found import counted
from guardrail.decide.holds import gate_binds, passing_since
from guardrail.decide.limits import gap, most_away
from guardrail.decide.overrides import caps_now
from guardrail.decide.rollback import binding
from guardrail.decide.transition import bake_needed, look
from guardrail.model.messages import GateWait, WayBack
from guardrail.model.operation import Commanded, Scope, State


def way_back(state: State, command: Commanded) -> WayBack:
    """What `rollback` with these words would do at `command.at` (seconds since the epoch)."""
    refused = refusal(state, command)
    if refused is not None:
        return WayBack(state.name, state.course.plan, command.scope, refused)
    after = look(obey(state, command), command.at)
    caps = caps_now(state)
    return WayBack(
        operation=state.name,
        plan=state.course.plan,
        scope=after.scope,
        hosts=f"{after.take_back | after.flying:x}",
        count=(after.take_back | after.flying).bit_count(),
        settling=len(after.in_flight),
        away=most_away(after),
        per_domain=caps.unavailable_per_domain,
        domains=caps.domains_at_once,
        down=sum(downs.before(state)),
        pace=gap(after),
        before_recovery=churning.why(after, command.at) if after.back_gap is not None else "",
        bake=bake_needed(after),
        gates=tuple(
            GateWait(
                rule.name,
                judged.judgement.verdict if judged.judgement else "",
                rule.good_for,
                None if (since := passing_since(judged)) is None else command.at - since,
                binds=gate_binds(after, rule),
            )
            for rule, judged in zip(after.course.gates, after.watched, strict=False)
        ),
        holds=binding(after),
    )


def if_asked(state: State, scope: Scope = "all") -> WayBack:
    """The same where nobody has asked: as of the last that happened, by whoever asks."""
    at = state.story[-1].at if state.story else 0.0
    return way_back(state, Commanded(at, "rollback", state.course.requester or "?", scope=scope))


# ---------------------------------------------------------------- in words


def in_words(way: WayBack) -> tuple[str, ...]:
    """What it would do, one thing a line: how many, within what, after what."""
    if way.refused:
        return (f"no rollback now: {way.refused}",)
    then = "; then it holds until --scope all, or abort" if way.scope == "wave" else ""
    of = "of the last wave " if way.scope == "wave" else ""
    why = f"before recovery, since it is the new version: {way.before_recovery}"
    lines = (
        f"takes {counted(way.count)} {of}back to the former version, newest first{then}",
        *([why] if way.before_recovery else []),
        _limits(way),
        _waits(way),
    )
    ignored = [gate.name for gate in way.gates if not gate.binds]
    more = [f"gates that do not stand in its way: {', '.join(ignored)}"] if ignored else []
    held = [f"held on {h.name}: {'; '.join(h.reasons)}; ends by: {h.clears}" for h in way.holds]
    return (*lines, *more, *held)


def _limits(way: WayBack) -> str:
    down = f" ({way.down} of them down already)" if way.down else ""
    pace = f", begun at least {way.pace:g} s apart" if way.pace else ""
    return (
        f"at most {counted(way.away)} away or down at once{down}, {way.per_domain} in a failure "
        f"domain, in {way.domains} {'domain' if way.domains == 1 else 'domains'} at once{pace}"
    )


def _waits(way: WayBack) -> str:
    """What must be before the first host goes back, with how each gate stands now."""
    flying = f"{counted(way.settling)} in flight to answer, then " if way.settling else ""
    gates = [f"{g.name} ({_stands(g)})" for g in way.gates if g.binds]
    named = f": {', '.join(gates)}" if gates else ""
    return f"waits for {flying}{way.bake:g} s with every safety gate passing{named}"


def _stands(gate: GateWait) -> str:
    if gate.passing is None:
        return f"{gate.verdict or 'not judged'} now"
    return f"passes for {max(0.0, gate.passing):.0f} s"
