"""Which policies does a caller add to those of the worker's source?

The caller may add and not remove: whoever knows something about these hosts that the source does
not say can pass it beside the rollout. It loosens nothing: neither what the source says, nor the
defaults that hold where the source is silent. A policy by a name of the source and with another
content is refused: nobody could tell whose word, and whose owners, a plan means by that name.
"""

from collections.abc import Collection, Sequence

from guardrail.decide.merge import together, with_more
from guardrail.decide.terms import Terms
from guardrail.model.policy import Policy


def with_added(source: Sequence[Policy], added: Sequence[Policy]) -> tuple[Policy, ...]:
    """The source's policies, and the caller's by other names."""
    known = {policy.name for policy in source}
    return (*source, *(one for one in added if one.name not in known))


def in_all(said: Sequence[tuple[Policy, Terms]], added: Collection[str]) -> Terms:
    """What policies say together, where those that are named in `added` are a caller's."""
    own = together(words for policy, words in said if policy.name not in added)
    more = [words for policy, words in said if policy.name in added]
    return with_more(own, together(more)) if more else own


def refuse_added(source: Sequence[Policy], added: Sequence[Policy]) -> tuple[str, ...]:
    """Why policies of the caller cannot be added: the source has that name for another one."""
    known = {policy.name: policy for policy in source}
    return tuple(
        f"policy {one.name} ({one.file}) is not the one that the worker's source has by that name "
        f"({known[one.name].file}): the source's counts and can only be added to; leave yours out, "
        "or give it another name, and then both apply"
        for one in added
        if one.name in known and one.digest != known[one.name].digest
    )
