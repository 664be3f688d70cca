"""What else is there to know of a plan's waves: which hosts go first, and which are read again?"""

from guardrail.cli.text import Line, Look, Span, clean, line, wrap
from guardrail.decide import canaries, still_true
from guardrail.model.plan import Plan


def about_waves(plan: Plan, look: Look) -> list[Line]:
    """The kinds that canaries cover, and the changed hosts that are read again."""
    said = [canaries.in_words(plan.canaries)] if plan.canaries is not None else []
    share = still_true.share_of(cache_critical=plan.cache_critical)
    said.append(f"read again at each stage's end: {still_true.share_in_words(share)}")
    rows: list[Line] = []
    for words in said:
        rows += wrap(line("  ", Span(clean(words, look), "quiet")), look.width, 4)
    return rows
