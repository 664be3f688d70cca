"""What do a gate's readings, taken together, say: pass, fail, or that nobody can tell?

    reading                     what it does to the verdict
    inconclusive (any kind)     `inconclusive` at once, with that kind
    good, new sample            `pass` after `pass_after` in a row
    bad, new sample             `fail` after `fail_after` in a row; until then it stays what it was
    the same sample again       neither counts nor ends a row; `stale` once it lasts too long

"In a row" starts anew with every inconclusive reading, so what was seen before counts no more.
Before the first verdict there is none (`judge` answers None): that is not a pass.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

from guardrail.model.gate import Gate, Judgement, Kind, Reading, Verdict

KEPT = 12
"""Readings that a judgement and a trend carry, at most."""
LONGEST_SCRAPE = 60.0
"""Seconds between samples that are assumed where no two have been seen yet."""

Effect = Literal["good", "bad", "repeated"]


@dataclass(frozen=True, slots=True)
class Track:
    """What is remembered of one gate. `good` and `bad` are the lengths of the present rows.

    `sampled_at` is the newest sample that counted, `seen_at` when it was first read, and `gap` the
    longest time between two samples lately, in seconds.
    """

    verdict: Verdict | None = None
    kind: Kind | None = None
    good: int = 0
    bad: int = 0
    sampled_at: float | None = None
    seen_at: float | None = None
    gap: float | None = None
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True)
class Trend:
    """A gate's last readings, small enough for a heartbeat; newest last.

    `verdict` is empty before the first one, and a value of None is a reading without one.
    """

    gate: str
    verdict: Verdict | Literal[""]
    kind: Kind | None
    values: tuple[float | None, ...]


def judge(
    gate: Gate, track: Track, reading: Reading, source: str = ""
) -> tuple[Track, Judgement | None]:
    """The track with this reading in it, and the judgement that now stands; None: none yet."""
    reading = _checked(gate, track, reading)
    track = _inconclusive(track, reading) if reading.kind else _counted(gate, track, reading)
    return track, judgement(gate, track, source)


def judgement(gate: Gate, track: Track, source: str = "") -> Judgement | None:
    """What stands now, in words; None before the first verdict."""
    if track.verdict is None:
        return None
    kind = track.kind if track.verdict == "inconclusive" else None
    reasons = _reasons(gate, track)
    return Judgement(gate.name, track.verdict, kind, reasons, track.readings, gate.query, source)


def judge_once(gate: Gate, reading: Reading, source: str = "") -> Judgement:
    """One reading by its bound alone: rows (`failAfter`, `passAfter`) need a watch."""
    once = replace(gate, fail_after=1, pass_after=1)
    _, found = judge(once, Track(), reading, source)
    assert found is not None  # noqa: S101 - one reading is enough, whichever it is
    return found


def trend(gate: str, track: Track) -> Trend:
    """The track as a person watches it."""
    values = tuple(reading.value for reading in track.readings)
    return Trend(gate, track.verdict or "", track.kind, values)


def differs(one: Judgement | None, other: Judgement | None) -> bool:
    """Whether somebody who knows the one has to be told of the other."""
    if one is None or other is None:
        return one is not other
    return (one.verdict, one.kind) != (other.verdict, other.kind)


def pending(gate: Gate, track: Track) -> str:
    """How far the way to the next verdict is, in words."""
    if track.bad:
        return f"{track.bad} of {gate.fail_after} bad readings in a row"
    return f"{track.good} of {gate.pass_after} good readings in a row"


def _checked(gate: Gate, track: Track, reading: Reading) -> Reading:
    """The reading, with the kind that only those before it show."""
    if reading.kind:
        return reading if reading.value is None else replace(reading, value=None)
    if reading.value is None:
        return _spoiled(reading, "no_data", "the reading has no value")
    if not math.isfinite(reading.value):
        return _spoiled(reading, "not_finite", f"the value is {reading.value}")
    if reading.sampled_at is None or not math.isfinite(reading.sampled_at):
        return _spoiled(reading, "stale", "its sample has no time: it may be an old one")
    return _checked_time(gate, track, reading, reading.sampled_at)


def _checked_time(gate: Gate, track: Track, reading: Reading, sampled_at: float) -> Reading:
    if track.sampled_at is None or track.seen_at is None or sampled_at > track.sampled_at:
        return reading
    limit = _longest_repeat(gate, track)
    if track.sampled_at - sampled_at > limit:
        return _spoiled(reading, "stale", "its sample is older than those read before")
    lasted = reading.taken_at - track.seen_at
    if lasted > limit:
        return _spoiled(reading, "stale", f"the same sample for {lasted:.1f} s, limit {limit:g} s")
    return reading


def _spoiled(reading: Reading, kind: Kind, why: str) -> Reading:
    detail = f"{why}; {reading.detail}" if reading.detail else why
    return replace(reading, value=None, kind=kind, detail=detail)


def _longest_repeat(gate: Gate, track: Track) -> float:
    """Seconds for which one sample may be read again and again.

    The reader judges age by the samples' own times; this holds where it cannot: behind a cache,
    or a server that answers from a copy.
    """
    gap = LONGEST_SCRAPE if track.gap is None else track.gap
    return gate.evidence.max_age.limit(max(gap, gate.every)) or 0.0


def _inconclusive(track: Track, reading: Reading) -> Track:
    """Rows end. The last sample stays known, so that it never counts a second time."""
    at, seen_at, readings = track.sampled_at, track.seen_at, _with(track, reading)
    went_back = (
        reading.kind == "stale"
        and reading.sampled_at is not None
        and track.sampled_at is not None
        and reading.sampled_at < track.sampled_at
    )
    # A clock that was ahead and was put right: go on from where it is now.
    if went_back:
        at, seen_at = reading.sampled_at, reading.taken_at
    return Track("inconclusive", reading.kind, 0, 0, at, seen_at, None, readings)


def _with(track: Track, reading: Reading) -> tuple[Reading, ...]:
    return (*track.readings, reading)[-KEPT:]


def _counted(gate: Gate, track: Track, reading: Reading) -> Track:
    effect = _effect(gate, track, reading)
    if effect == "repeated":
        return replace(track, readings=_with(track, reading))
    good = track.good + 1 if effect == "good" else 0
    bad = track.bad + 1 if effect == "bad" else 0
    verdict, kind = track.verdict, track.kind
    if good >= gate.pass_after:
        verdict, kind = "pass", None
    elif bad >= gate.fail_after:
        verdict, kind = "fail", None
    gap, sampled_at, seen_at = _gap(track, reading), reading.sampled_at, reading.taken_at
    return Track(verdict, kind, good, bad, sampled_at, seen_at, gap, _with(track, reading))


def _effect(gate: Gate, track: Track, reading: Reading) -> Effect:
    at, value = reading.sampled_at, reading.value
    newer = at is not None and (track.sampled_at is None or at > track.sampled_at)
    if value is None or not newer:
        return "repeated"
    return "good" if gate.bound.holds(value) else "bad"


def _gap(track: Track, reading: Reading) -> float | None:
    """The longest time between two samples lately, with this one."""
    gap = track.gap
    # Within a row only: between rows lies a hole. Slowly forgotten, since the samples of two jobs
    # come one soon and one long after the other.
    if (
        (track.good or track.bad)
        and reading.sampled_at is not None
        and track.sampled_at is not None
    ):
        gap = max(reading.sampled_at - track.sampled_at, 0.9 * (gap or 0.0))
    return gap


def _reasons(gate: Gate, track: Track) -> tuple[str, ...]:
    newest = track.readings[-1]
    if track.verdict == "inconclusive":
        return _doubts(gate, track, newest)
    value = "" if newest.value is None else f"{newest.value:g} "
    holds = newest.value is not None and gate.bound.holds(newest.value)
    reasons = [f"{value}is {'' if holds else 'not '}{gate.bound}"]
    if track.bad if track.verdict == "pass" else track.good:
        reasons.append(f"still {track.verdict}: {pending(gate, track)}")
    if newest.detail:
        reasons.append(newest.detail)
    return tuple(reasons)


def _doubts(gate: Gate, track: Track, newest: Reading) -> tuple[str, ...]:
    if newest.kind:
        return (f"{newest.kind}: {newest.detail}" if newest.detail else newest.kind,)
    last = next((each for each in reversed(track.readings) if each.kind), None)
    why = f"{last.kind}: {last.detail}" if last and last.detail else str(track.kind)
    return (f"evidence is back, {pending(gate, track)}", f"before that {why}")
