"""Nothing begins under a hold, without evidence, or before a bake; and all of it is explained."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from guardrail.decide.commands import refusal
from guardrail.decide.explain import explain, first_hold
from guardrail.model.operation import (
    Commanded,
    Event,
    Hold,
    State,
)
from guardrail.model.plan import Course
from guardrail.simulation.record import Record
from guardrail.simulation.rule import BAKE_EXACT, LATE, Rule, Seen, late_answer
from guardrail.simulation.service import CATALOG, CHURN, DOWN
from guardrail.twins import Begun


class NoStartUnderHold(Rule):
    """Nothing is asked under a hold, nothing begins later than 1.3 s after one; holds stand when
    they must, are looked at in time, and end by what they say."""

    name = "no_start_under_hold"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.held_since: float | None = None
        self.turned_at: float | None = None

    def observe(self, seen: Seen) -> None:
        record, state = seen.record, seen.state
        if seen.asked:
            self.check(not seen.holding, "asked to begin under", seen.holding)
            self.check(not record.draining, "asked to begin while draining")
        if not seen.holding:
            self.held_since = None
        elif self.held_since is None:
            self.held_since = seen.event.at
        if state.phase == "running":
            self._stand(seen)
        if seen.before is not None and seen.before.holds is not state.holds:
            self._end_rightly(seen, seen.before)

    def _stand(self, seen: Seen) -> None:
        record = seen.record
        if record.missed is not None:
            self.broken("nobody looked when time was up at", record.missed)
        must = record.must_hold()
        if must:
            missing = must - {hold.name for hold in seen.state.holds}
            self.check(not missing, "not held:", sorted(missing))
        silent = record.silent()
        if silent:
            about = {index for hold in seen.state.holds for index in hold.hosts}
            self.check(silent <= about, "silent and not held:", silent - about)

    def _end_rightly(self, seen: Seen, before: State) -> None:
        now = {hold.name for hold in seen.state.holds}
        for hold in before.holds:
            if hold.name not in now:
                right = ended(hold.name, seen.event, seen.record) or _said_by(hold.name, now)
                self.check(right, "ended without a reason:", hold.name)

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        since = self.held_since
        late = since is not None and begun.at > since + LATE
        self.check(not late, f"host {begun.index} began at {begun.at:g}, held since {since}")


def _said_by(name: str, now: set[str]) -> bool:
    """Whether another hold says the same now: no room is not told beside what took it."""
    return name == "limit:unavailable" and "limit:failures" in now


def ended(name: str, event: Event, record: Record) -> bool:
    """Whether that hold may end with that event."""
    kind, _, about = name.partition(":")
    if name in (CATALOG, CHURN, DOWN):
        return record.books.may_end(name, record.ours())
    if name in ("limit:unavailable", "limit:coldCapacity") and event.kind == "fleet_seen":
        return True  # hosts that were down serve again, slots have a warm server
    said = event if isinstance(event, Commanded) else None
    verb = said.verb if said else ""
    if kind == "operator" and said:
        over = said.over == about and bool(said.reason)
        return verb == "resume" and (said.by == about or over)
    if kind in ("gate", "evidence"):
        return _evidence_ended(kind, about, verb, record)
    return ENDED_BY.get(kind, _by_nothing)(event.kind, verb, bool(record.turned))


def _by_nothing(_happened: str, _verb: str, _turned: bool) -> bool:
    return False


ENDED_BY: dict[str, Callable[[str, str, bool], bool]] = {
    "approval": lambda _, verb, turned: verb == "approve" or turned,
    "host": lambda _, verb, turned: verb in ("retry", "skip") or turned,
    "limit": lambda _, verb, turned: verb in ("retry", "skip", "override", "approve") or turned,
    "override": lambda happened, verb, _: (
        happened in ("host_answered", "fleet_seen") or verb == "override"
    ),
    "rollback": lambda _, __, turned: turned,
    "journal": lambda happened, _, __: happened == "journal_said",
    "policy": lambda happened, _, __: happened == "policy_merged",
    "window": lambda *_: True,  # see WindowsHold
    "freeze": lambda *_: True,  # see FreezesHold
    "reverted": lambda _, verb, turned: verb in ("retry", "skip") or turned,
    "plan": lambda happened, verb, turned: (
        happened == "plan_observed" or verb == "resume" or turned
    ),
    "reread": lambda happened, verb, turned: (
        happened == "hosts_read" or verb in ("retry", "skip") or turned
    ),
}
"""Which event, which command, and whether a turn round ends a hold of that kind."""


def _evidence_ended(kind: str, gate: str, verb: str, record: Record) -> bool:
    rule = next(rule for rule in record.course.gates if rule.name == gate)
    good = record.good_for(rule) >= rule.good_for - 1e-9
    if kind == "evidence":
        return good
    asked = verb == "resume" and record.verdicts[gate][0] == "pass"
    return asked or (good and (rule.recover_by == "evidence" or record.direction == "back"))


class InconclusiveNeverAdvances(Rule):
    """No host is asked and no wave ends or begins unless every gate that binds passes."""

    name = "inconclusive_never_advances"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.was_good = False

    def observe(self, seen: Seen) -> None:
        record, state, before = seen.record, seen.state, seen.before
        for watched in state.watched:
            told = watched.judgement.verdict if watched.judgement else None
            known = record.verdicts[watched.gate][0]
            if told != known:
                self.broken(f"gate {watched.gate} is {known}, taken for {told}")
        if not seen.passing and (seen.asked or self._moved(seen)):
            why = {gate: verdict for gate, (verdict, _) in record.verdicts.items()}
            self.broken("went on with", why)
        if before is not None and not self.was_good and state.step == before.step == "baking":
            self.check(
                state.baked <= before.baked + 1e-9, "a bake counted seconds without evidence"
            )
        flying = record.open or seen.asked
        self.was_good = seen.passing and not seen.holding and not flying

    def _moved(self, seen: Seen) -> bool:
        state, before = seen.state, seen.before
        if before is None or seen.record.turned:
            return False
        settled = state.direction == before.direction and not late_answer(seen)
        return (
            (state.wave != before.wave and settled)
            or (state.step == "changing" and before.step == "baking")
            or state.phase in ("completed", "rolled_back")
        )


class ResumeBakesFirst(Rule):
    """After a hold, a wave or a turn round: nothing in flight, then a whole bake, then go on."""

    name = "resume_bakes_first"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.must_bake, self.asked_before = False, False
        self.baked, self.good_since = 0.0, -1.0
        self.changing_until = -1.0

    def observe(self, seen: Seen) -> None:
        record, state, now = seen.record, seen.state, seen.event.at
        if self.good_since >= 0:
            self.baked += now - self.good_since
        held = bool(seen.holding)
        moved = seen.before is not None and seen.before.wave != state.wave
        self.must_bake = self.must_bake or held or moved or bool(record.turned)
        quiet = seen.passing and not held and not record.open
        if held or record.turned:
            self.baked = 0.0
        if seen.asked:
            if self.must_bake:
                self._has_baked(record, quiet)
            self.must_bake, self.asked_before, self.baked = False, True, 0.0
        self.good_since = now if quiet and not seen.asked else -1.0
        if state.step == "changing" or (seen.before and seen.before.step == "changing"):
            self.changing_until = now if state.step == "baking" else float("inf")

    def _has_baked(self, record: Record, quiet: bool) -> None:
        self.check(quiet, "went on while hosts were in flight or gates did not pass")
        first = record.direction == "back" and not record.gone_back
        if self.asked_before and not first:
            need = self.course.bake_for
            self.check(self.baked >= need - BAKE_EXACT, f"baked {self.baked:g} of {need:g} s")

    def begun(self, begun: Begun, record: Record, state: State) -> None:
        late = begun.at > self.changing_until + LATE
        self.check(
            not late and self.changing_until >= 0, f"host {begun.index} began before the bake"
        )


class Explained(Rule):
    """Each hold and each end has reasons, and the command that is advised would be taken."""

    name = "explained"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.last: tuple[Any, ...] = ()

    def observe(self, seen: Seen) -> None:
        state = seen.state
        now = (state.holds, state.phase, state.direction, state.exceptional)
        if now == self.last:
            return
        for hold in state.holds:
            self._reasons(hold)
        said, self.last = self.last, now
        if said and _but_for_reasons(said) == _but_for_reasons(now):
            return
        told = explain(state)  # the sentence comes first, and what is advised last
        self.check(told, "nothing is explained")
        self._sentence(seen, told[0].removeprefix(f"{state.name}: ").removesuffix("."))
        if seen.holding and not state.finished:
            self._advice_is_taken(state, seen.event.at, told[-1])
        self.check(state.finish_reasons or not state.finished, "an end without reasons")

    def _reasons(self, hold: Hold) -> None:
        if not hold.clears or not hold.reasons or not all(map(str.strip, hold.reasons)):
            self.broken("a hold without reasons or end:", hold.name)
        if hold.name.startswith("gate:"):
            readings = hold.judgement.readings if hold.judgement else ()
            self.check(readings, "no readings behind", hold.name)

    def _sentence(self, seen: Seen, text: str) -> None:
        state = seen.state
        if state.finished or state.phase == "planned":
            return
        for hold in state.holds:
            if hold.name not in text and hold.name in seen.holding:
                self.broken(f"{hold.name} is not in the sentence:", text)

    def _advice_is_taken(self, state: State, now: float, command: str) -> None:
        """The command that is advised would not be refused, said by somebody it is meant for."""
        if command == "guardrail freeze status":
            return
        words = command.removeprefix("guardrail rollout ").split()
        verb, name, rest = words[0], words[1], words[2:]
        self.check(name == state.name, "advice for another operation:", name)
        if verb == "explain":
            return
        options = dict(zip(rest[::2], rest[1::2], strict=True))
        hold = first_hold(state)
        said = Commanded(
            now,
            verb,  # type: ignore[arg-type]
            hold.by if hold else "",
            verified="--sign" in options,
            point=options.get("--point", ""),
            scope="wave" if options.get("--scope") == "wave" else "all",
        )
        people = [said.by] if said.by else ["eve", "fay", "gus"]
        taken = any(refusal(state, replace(said, by=who)) is None for who in people)
        self.check(taken, "the advice would be refused:", " ".join(words))


def _but_for_reasons(known: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the sentence and the advice are about."""
    holds, *others = known
    return (tuple((hold.name, hold.clears, hold.hosts) for hold in holds), *others)
