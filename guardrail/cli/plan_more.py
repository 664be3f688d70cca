"""What else is there to know of a plan's waves: which hosts go first, who is last, and which are
read again?"""

from guardrail.cli.text import Line, Look, Span, clean, line, wrap
from guardrail.decide import canaries, still_true
from guardrail.model.plan import Plan


def about_waves(plan: Plan, look: Look) -> list[Line]:
    """The kinds that canaries cover, who comes last, and the changed hosts that are read again."""
    said = [canaries.in_words(plan.canaries)] if plan.canaries is not None else []
    if plan.leader_last:
        who = plan.leader or "whoever leads"
        now = " (it leads now)" if plan.leader else ""
        said.append(f"one server after the other, {who} last{now}; looked at before each of them")
    share = still_true.share_of(cache_critical=plan.cache_critical)
    said.append(f"read again at each stage's end: {still_true.share_in_words(share)}")
    rows: list[Line] = []
    for words in said:
        rows += wrap(line("  ", Span(clean(words, look), "quiet")), look.width, 4)
    return rows
