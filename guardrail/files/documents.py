"""Which documents are there, and which one does a name mean?"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from guardrail.errors import Refused
from guardrail.model.change import Change
from guardrail.model.checklist import Checklist
from guardrail.model.fleet import Fleet
from guardrail.model.gate import Gate, Source
from guardrail.model.notice import Channel
from guardrail.model.policy import Policy
from guardrail.model.reminder import Reminder
from guardrail.model.rollout import Rollout


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_T = TypeVar("_T", bound=_Named)


@dataclass(frozen=True, slots=True)
class Documents:
    """What was loaded, by kind, in the order of the files; names are unique within a kind."""

    fleets: tuple[Fleet, ...] = ()
    changes: tuple[Change, ...] = ()
    rollouts: tuple[Rollout, ...] = ()
    gates: tuple[Gate, ...] = ()
    policies: tuple[Policy, ...] = ()
    sources: tuple[Source, ...] = ()
    channels: tuple[Channel, ...] = ()
    reminders: tuple[Reminder, ...] = ()
    checklists: tuple[Checklist, ...] = ()

    def fleet(self, name: str) -> Fleet:
        """Raises Refused, with the near names, when there is none of that name (all lookups)."""
        return _find("Fleet", self.fleets, name)

    def change(self, name: str) -> Change:
        return _find("Change", self.changes, name)

    def rollout(self, name: str | None = None) -> Rollout:
        """The rollout of that name; without a name, the only one there is."""
        return _find("Rollout", self.rollouts, name)

    def gate(self, name: str | None = None) -> Gate:
        """The gate of that name; without a name, the only one there is."""
        return _find("Gate", self.gates, name)

    def policy(self, name: str) -> Policy:
        return _find("Policy", self.policies, name)

    def source(self, name: str | None = None) -> Source:
        """The source of that name; without a name (`Gate.source` None), the only one there is."""
        return _find("Source", self.sources, name)

    def channel(self, name: str) -> Channel:
        return _find("Channel", self.channels, name)

    def reminder(self, name: str | None = None) -> Reminder:
        """The reminder of that name; without a name, the only one there is."""
        return _find("Reminder", self.reminders, name)

    def checklist(self, name: str | None = None) -> Checklist:
        """The checklist of that name; without a name, the only one there is."""
        return _find("Checklist", self.checklists, name)

    def joined(self, other: "Documents") -> "Documents":
        """Both together; what both have alike counts once.

        Raises Refused where a name means two different documents, and names them all.
        """
        clashes: list[str] = []
        together = Documents(
            fleets=_join("Fleet", self.fleets, other.fleets, clashes),
            changes=_join("Change", self.changes, other.changes, clashes),
            rollouts=_join("Rollout", self.rollouts, other.rollouts, clashes),
            gates=_join("Gate", self.gates, other.gates, clashes),
            policies=_join("Policy", self.policies, other.policies, clashes),
            sources=_join("Source", self.sources, other.sources, clashes),
            channels=_join("Channel", self.channels, other.channels, clashes),
            reminders=_join("Reminder", self.reminders, other.reminders, clashes),
            checklists=_join("Checklist", self.checklists, other.checklists, clashes),
        )
        if clashes:
            raise Refused(*clashes)
        return together


def _find(kind: str, there: Sequence[_T], name: str | None) -> _T:
    names = [document.name for document in there]
    if name is None and len(names) == 1:
        return there[0]
    for document in there:
        if document.name == name:
            return document
    listed = ", ".join(names) or "none"
    if name is None:
        raise Refused(f"one {kind} is needed, found {len(names)}: {listed}; name one")
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    raise Refused(f"there is no {kind} `{name}` in the files given; there: {listed}{hint}")


def _join(
    kind: str, ours: tuple[_T, ...], theirs: tuple[_T, ...], clashes: list[str]
) -> tuple[_T, ...]:
    known = {document.name: document for document in ours}
    clashes.extend(
        f"{kind} `{document.name}` is given twice, with different content; rename one"
        for document in theirs
        if document.name in known and not _alike(known[document.name], document)
    )
    return (*ours, *(document for document in theirs if document.name not in known))


def _alike(one: _Named, other: _Named) -> bool:
    """By digest where there is one: it does not look at the file a policy came from."""
    digest = getattr(one, "digest", "")
    return bool(digest and digest == getattr(other, "digest", "")) or one == other
