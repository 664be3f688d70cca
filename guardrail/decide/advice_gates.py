"""Can a gate fail, can it pass, and does missing evidence stop it?"""

import difflib
import math
import re
from collections.abc import Callable, Iterator, Sequence

from guardrail.model.advice import Advice, Given, Path
from guardrail.model.gate import Age, Bound, Gate

HALF = 0.5
FEW_SCRAPES = 2.0
"""A sample is up to one scrape old just before the next: a limit below two is missed too often."""

BAD_WORDS = re.compile(r"error|errs?\b|fail|5xx|5\.\.|timeout|dropped|refused", re.IGNORECASE)
GOOD_WORDS = re.compile(r"success|succeed|\bok\b|_ok_|availab|healthy", re.IGNORECASE)
PARTS = re.compile(r"shard|database|(^|_)db(_|$)|mysql|mariadb|postgres|partition", re.IGNORECASE)

HIDES = {
    "sum": "a sum over shards is held against a constant: it grows with every shard, and",
    "avg": "this is the mean over shards:",
    "sum/sum": "a ratio of sums over shards is their mean:",
}


def near(word: str, known: Sequence[str]) -> str:
    """What there is, and the one most likely meant: `there: a, b; did you mean `a`?`"""
    likely = difflib.get_close_matches(word, known, n=1)
    hint = f"; did you mean `{likely[0]}`?" if likely else ""
    return f"there: {', '.join(sorted(known)) or 'none'}{hint}"


def too_young(at: Path, age: Age, interval: float | None) -> Iterator[Advice]:
    """Whether samples can be that fresh. interval: seconds between two, where that is known."""
    do = "3 scrapes is a good limit"
    if age.scrapes is not None and age.scrapes < FEW_SCRAPES:
        what = (
            f"a limit of {age.scrapes:g} scrapes: just before the next scrape a sample is as old "
            "as that, so evidence is stale again and again"
        )
        yield Advice(at, "too-young", what, do)
    if age.seconds is not None and interval and age.seconds < FEW_SCRAPES * interval:
        what = (
            f"{age.seconds:g} s is shorter than two scrapes, which are {interval:g} s apart: "
            "evidence is stale again and again"
        )
        yield Advice(at, "too-young", what, do)


def reach(gate: Gate, given: Given) -> Iterator[Advice]:
    """Whether there is a value on the bad side of its bound, and one on the good side."""
    shape = given.shapes.get(gate.name)
    if shape is None:
        return
    at, bound = ("spec", "pass"), gate.bound
    answers = f"the query answers from {shape.low:g} to {shape.high:g}, and {bound}"
    if always(bound, shape.low, shape.high):
        what = f"it can never fail: {answers} is always so"
        yield Advice(at, "never-fails", what, "bound what the query can reach")
    elif never(bound, shape.low, shape.high):
        what = f"it can never pass: {answers} is never so"
        yield Advice(at, "never-passes", what, "mend the bound, or the query")


def always(bound: Bound, low: float, high: float) -> bool:
    """Whether every value from low to high is on the good side."""
    if bound.below is not None:
        return high < bound.below
    if bound.above is not None:
        return low > bound.above
    least, most = bound.within or (math.inf, -math.inf)
    return least <= low and high <= most


def never(bound: Bound, low: float, high: float) -> bool:
    """Whether none is."""
    if bound.below is not None:
        return low >= bound.below
    if bound.above is not None:
        return high <= bound.above
    least, most = bound.within or (-math.inf, math.inf)
    return low > most or high < least


def error_rate(gate: Gate, given: Given) -> Iterator[Advice]:
    """Whether more than half may go wrong before it fails."""
    shape = given.shapes.get(gate.name)
    if shape is None or not shape.ratio:
        return
    wrong = may_go_wrong(gate, " ".join((gate.name, gate.title, *shape.selects)))
    if wrong > HALF:
        what = f"{wrong:.0%} may go wrong before it fails, more than half"
        do = "a few per cent at most: users leave long before"
        yield Advice(("spec", "pass"), "error-rate", what, do)


def may_go_wrong(gate: Gate, words: str) -> float:
    """The share that may go wrong while it passes; 0 where it does not count good or bad."""
    bound = gate.bound
    least, most = bound.within or (bound.above, bound.below)
    if GOOD_WORDS.search(words):
        return 0.0 if least is None else 1 - least
    return most if most is not None and BAD_WORDS.search(words) else 0.0


def worst_part(gate: Gate, given: Given) -> Iterator[Advice]:
    """Whether one full shard would show."""
    shape = given.shapes.get(gate.name)
    if shape is None or not shape.over or not any(PARTS.search(word) for word in shape.selects):
        return
    what = f"{HIDES[shape.over]} the one shard that is full, and fails every scatter, is hidden"
    do = "judge the worst one: max(demand / capacity), each against its own"
    yield Advice(("spec", "query"), "worst-shard", what, do)


def let_through(gate: Gate, given: Given) -> Iterator[Advice]:
    """Whether a missing reading counts as a good one."""
    shape, zero = given.shapes.get(gate.name), given.zero_shapes.get(gate.name)
    if shape is not None and shape.filled:
        what = "`or` puts a number where there is no data, so that silence looks like a reading"
        do = "leave it out; `evidence.zeroWhen` says when nothing means zero"
        yield Advice(("spec", "query"), "fails-open", what, do)
    if zero is not None and zero.presence_always:
        what = "it has an answer also while nothing is measured, so no data always counts as 0"
        do = "a query that has data only while this metric's source is there"
        yield Advice(("spec", "evidence", "zeroWhen"), "fails-open", what, do)
    targets = gate.evidence.targets
    if targets is not None and targets.at_least < HALF:
        what = f"{1 - targets.at_least:.0%} of the targets may be missing; what is left decides"
        do = "98%: hosts in flight are not expected anyway"
        yield Advice(("spec", "evidence", "targets", "atLeast"), "fails-open", what, do)


def age(gate: Gate, given: Given) -> Iterator[Advice]:
    """Whether samples can be as fresh as it wants them, and its ranges long enough for two."""
    interval, shape = given.scrapes.get(gate.name), given.shapes.get(gate.name)
    yield from too_young(("spec", "evidence", "maxAge"), gate.evidence.max_age, interval)
    for length in shape.windows if shape is not None else ():
        if interval and length < FEW_SCRAPES * interval:
            what = (
                f"it looks back over {length:g} s, and scrapes are {interval:g} s apart: with "
                "fewer than two samples there is no answer"
            )
            yield Advice(("spec", "query"), "too-young", what, "a range of four scrapes")


def source(gate: Gate, given: Given) -> Iterator[Advice]:
    """Whether it is known where to read it."""
    known = [source.name for source in given.sources]
    if gate.source is not None and known and gate.source not in known:
        what = f"there is no source `{gate.source}` ({near(gate.source, known)})"
        yield Advice(("spec", "source"), "no-source", what, "mend the name, or add the Source")


Check = Callable[[Gate, Given], Iterator[Advice]]

GATE_CHECKS: tuple[Check, ...] = (reach, error_rate, worst_part, let_through, age, source)
