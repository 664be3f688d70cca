"""What has changed since the last look? One plain line a change, for pipes and simple terminals.

Every line begins with a time stamp and is whole in itself, so that `grep` and a person reading
a build log both get what they need. What has not changed is never said again.
"""

from collections.abc import Iterable, Sequence

from guardrail.cli.fleet_view import goes_back, host_name
from guardrail.cli.text import Look, clean, count, stamp
from guardrail.cli.view import Snapshot, number_in_words
from guardrail.model.messages import GateState, HostState, Status
from guardrail.model.operation import FINAL, Note
from guardrail.model.plan import Plan


def first_lines(snapshot: Snapshot, look: Look, plan: Plan | None = None) -> list[str]:
    """What a newcomer must know: the state, its holds, what each gate says, who is in flight."""
    status = snapshot.status
    at = status.as_of
    told = [(at, f"{status.operation}: {status.sentence}")]
    for hold in status.holds:
        told += [(at, f"held on {hold.name}: {reason}") for reason in hold.reasons]
        told.append((at, f"{hold.name} ends by: {hold.clears}"))
    told += [(at, gate_in_words(gate)) for gate in status.gates]
    if status.in_flight:
        word = "goes back" if goes_back(status) else "in flight"
        told.append((at, f"{word}: {_names(status.in_flight, plan)}"))
    told += _advice(status) if status.holds else []
    return _lines(told, look)


def changes(before: Snapshot, after: Snapshot, look: Look, plan: Plan | None = None) -> list[str]:
    """One line for each thing that is different now, oldest first."""
    old, new = before.status, after.status
    told = [(note.at, note.text) for note in new_notes(old, new)]
    told += [(new.as_of, words) for words in _hosts(old, new, plan)]
    told += [(new.as_of, words) for words in _gates(old, new)]
    held = {hold.name for hold in new.holds} - {hold.name for hold in old.holds}
    told += [
        (new.as_of, f"{hold.name} ends by: {hold.clears}")
        for hold in new.holds
        if hold.name in held
    ]
    told += _advice(new) if held and new.phase not in FINAL else []
    return _lines(told, look)


def _lines(told: Iterable[tuple[float, str]], look: Look) -> list[str]:
    return [line_at(at, words, look) for at, words in told]


def line_at(at: float, words: str, look: Look) -> str:
    """One line with its time stamp."""
    return f"{stamp(at, look.zone)} {clean(words, look)}"


def _advice(status: Status) -> list[tuple[float, str]]:
    return [(status.as_of, words) for words in status.advice]


def new_notes(old: Status, new: Status) -> tuple[Note, ...]:
    """The notes that were added: the new story begins with what is left of the old one."""
    for dropped in range(len(old.story) + 1):
        kept = old.story[dropped:]
        if new.story[: len(kept)] == kept:
            return new.story[len(kept) :]
    return new.story


# ---------------------------------------------------------------- hosts and gates


def _hosts(old: Status, new: Status, plan: Plan | None) -> list[str]:
    """Hosts begun, how many are done; a host that failed is in the story already."""
    words, back = [], goes_back(new)
    flew = {host.index for host in old.in_flight}
    begun = [host for host in new.in_flight if host.index not in flew]
    if begun:
        words.append(f"{'goes back' if back else 'begun'}: {_names(begun, plan)}")
    if back and new.reverted != old.reverted:
        words.append(
            f"{new.reverted:,} of {new.reverted + new.to_take_back:,} hosts back at the former "
            f"version, {len(new.in_flight)} in flight"
        )
    elif new.changed != old.changed:
        words.append(
            f"{new.changed:,} of {count(new.hosts, 'host')} changed, {len(new.in_flight)} in flight"
        )
    if (new.step, new.direction) != (old.step, old.direction) and new.phase == "running":
        doing = "taking hosts back" if back and new.step == "changing" else new.step
        words.append(f"{doing} in wave {new.wave + 1} of {len(new.waves)}")
    return words


def _names(hosts: Sequence[HostState], plan: Plan | None) -> str:
    shown = [host_name(host, plan) for host in hosts[:5]]
    more = len(hosts) - len(shown)
    return ", ".join([*shown, f"and {more} more"] if more else shown)


def _gates(old: Status, new: Status) -> list[str]:
    known = {gate.name: _verdict(gate) for gate in old.gates}
    return [gate_in_words(gate) for gate in new.gates if known.get(gate.name) != _verdict(gate)]


def _verdict(gate: GateState) -> tuple[str, str] | None:
    """What must differ for a gate to be told again: a new value alone is no news."""
    return (gate.judgement.verdict, gate.judgement.kind or "") if gate.judgement else None


def gate_in_words(gate: GateState) -> str:
    """`gate database-margin: fail, 0.83 (below 0.7): reasons`."""
    judged = gate.judgement
    if judged is None:
        return f"gate {gate.name}: not judged yet ({gate.bound})"
    kind = f" ({judged.kind})" if judged.kind else ""
    why = f": {'; '.join(judged.reasons)}" if judged.reasons else ""
    value = number_in_words(judged.value)
    return f"gate {gate.name}: {judged.verdict}{kind}, {value} ({gate.bound}){why}"
