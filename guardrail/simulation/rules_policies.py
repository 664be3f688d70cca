"""Policies that are merged again make an operation stricter at once, and never looser."""

from dataclasses import replace

from guardrail.decide.bits import members
from guardrail.model.operation import (
    Direction,
    PolicyMerged,
    State,
)
from guardrail.model.plan import Caps, Course, Merged, Wave
from guardrail.simulation.record import Record
from guardrail.simulation.rule import Rule, Seen


class PoliciesTighten(Rule):
    """No host is asked unless the policies were merged since the last hold and the last wave; what
    they say applies where it is stricter, from then on, and never where it is looser."""

    name = "policies_tighten"
    SMALLER = ("unavailable", "unavailable_per_domain", "domains_at_once")

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.told = False
        self.strictest = course.caps
        self.compared = (course.caps, self.strictest)
        self.was_changing = False
        self.said: list[Merged] = []

    @classmethod
    def concerns(cls, course: Course) -> bool:
        return course.merges

    def observe(self, seen: Seen) -> None:
        event, state = seen.event, seen.state
        if event.kind == "policy_merged" and seen.before is not None:
            self._heard(event, seen.before, seen.record.direction)
        self._strict(state.course.caps)
        self._recut(seen)
        self._warmed(seen)
        if seen.asked:
            self.check(self.told, "asked to begin before the policies were merged")
            self._within(seen)
        ended = self.was_changing and state.step == "baking"
        self.told = self.told and not seen.holding and not ended
        self.was_changing = state.step == "changing"

    def _within(self, seen: Seen) -> None:
        before = set(seen.record.away())
        more = {act.index for act in seen.asked} - before  # one that is away takes nothing away
        if more and not seen.state.overrides:
            down = sum(seen.record.books.before)
            gone, most = len(before | more), self.strictest.unavailable - down
            self.check(gone <= max(1, most), f"{gone} hosts away, {most} allowed by now")

    def _heard(self, event: PolicyMerged, before: State, direction: Direction) -> None:
        if event.turn != before.merge_turn or not before.merge_pending:
            return
        self.told = event.merged is not None or direction == "back"
        if event.merged is not None:
            self.said.append(event.merged)
            said, kept = event.merged.caps, self.strictest
            least = {name: min(getattr(said, name), getattr(kept, name)) for name in self.SMALLER}
            self.strictest = replace(kept, **least, pace=max(said.pace, kept.pace))

    def _strict(self, caps: Caps) -> None:
        if caps is self.compared[0] and self.strictest is self.compared[1]:
            return  # the very same two have been compared
        self.compared = (caps, self.strictest)
        for name in (*self.SMALLER, "pace"):
            now, least = getattr(caps, name), getattr(self.strictest, name)
            self.check(now == least, f"{name} is {now:g}, and the strictest word is {least:g}")

    def _recut(self, seen: Seen) -> None:
        """Waves get smaller only, keep every host in its place, and none that has begun is cut; at
        its first host each is as small as anybody has said."""
        waves, before = seen.state.course.waves, seen.before
        if before is not None and before.course.waves is not waves:
            old = before.course.waves
            ends = [wave.end for wave in waves]
            self.check([w.begin for w in waves] == [0, *ends[:-1]], "a host twice, or none")
            self.check(ends[-1] == old[-1].end, "the last waves are lost")
            self.check({w.end for w in old} <= set(ends), "a wave became larger")
            touched = [wave for wave in old if self._touched(wave, seen.record)]
            self.check(set(touched) <= set(waves), "a wave that has begun was cut")
        if not seen.asked or seen.state.direction == "back":
            return
        wave = waves[seen.state.wave]
        for said in () if self._touched(wave, seen.record) else self.said:
            self._small(said, set(range(wave.begin, wave.end)))

    def _touched(self, wave: Wave, record: Record) -> bool:
        known = record.touched | record.done | record.astray | record.open.keys()
        return not known.isdisjoint(range(wave.begin, wave.end))

    def _small(self, said: Merged, hosts: set[int]) -> None:
        small = said.wave is None or len(hosts) <= said.wave
        self.check(small, f"a wave of {len(hosts)} begins, {said.wave} are allowed")
        for tier in said.tiers:
            mine = hosts & set(members(int(tier.hosts, 16)))
            self.check(len(mine) <= tier.most, f"{len(mine)} of {tier.role}, not {tier.most}")

    def _warmed(self, seen: Seen) -> None:
        """Whatever anybody has said that hosts must show, those asked from then on must show."""
        if seen.before is None or seen.event.kind != "policy_merged":
            return
        rules, turn = seen.state.course.budget.warm, seen.before.turn + 1
        old = seen.before.course.budget.warm
        self.check(set(old) <= set(rules), "what hosts must show was dropped")
        late = [rule for rule in rules if rule not in old and rule.after != turn - 1]
        self.check(not late, "it binds hosts that were asked before, or not the next:", late)
        wanted = [rule for said in self.said for rule in said.warm]
        for index in range(self.course.hosts) if wanted else ():
            shown = {r.gate: r for r in seen.state.course.budget.warm_rules(index, turn)}
            for rule in wanted:
                mine = replace(rule, after=0).binds(index, turn)
                strict = rule.gate in shown and shown[rule.gate].within <= rule.within
                self.check(not mine or strict, f"host {index} need not show {rule.gate}")


def tightest(one: Caps, other: Caps | None) -> Caps:
    """Of each limit on hosts away the smaller one."""
    if other is None:
        return one
    names = PoliciesTighten.SMALLER
    return replace(one, **{name: min(getattr(one, name), getattr(other, name)) for name in names})
