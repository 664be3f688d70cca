"""Will somebody hear, or do these channels only look as if?"""

from collections.abc import Iterator

from guardrail.decide.advice_gates import near
from guardrail.model.advice import Advice, Given, Path
from guardrail.model.checklist import Checklist
from guardrail.model.notice import Channel
from guardrail.model.reminder import Reminder

NEEDED = ("hold", "approval")
"""What somebody has to hear, or an operation waits and nobody knows."""


def otherwise(channel: Channel, given: Given) -> Iterator[Advice]:
    """Whether there is somebody to go to where a channel fails."""
    known = [other.name for other in given.channels]
    at = ("spec", "otherwise")
    if channel.otherwise == channel.name:
        what = "it names itself as the channel to go to where it fails"
        yield Advice(at, "goes-nowhere", what, "name another channel", "warning")
    elif channel.otherwise and channel.otherwise not in known:
        what = f"there is no channel `{channel.otherwise}` to go to where this one fails"
        do = f"name one that is {near(channel.otherwise, known)}"
        yield Advice(at, "goes-nowhere", what, do, "warning")


def unheard(channel: Channel, given: Given) -> Iterator[Advice]:
    """Whether what needs a person is told to any channel; said once, at the first of them."""
    told = {kind for other in given.channels for kind in other.tells}
    missing = [kind for kind in NEEDED if kind not in told]
    if missing and channel is given.channels[0]:
        what = f"no channel is told of: {', '.join(missing)}; an operation would wait unheard"
        yield Advice(("spec", "tells"), "unheard", what, "add it to a channel's `tells`", "warning")


def people(reminder: Reminder, given: Given) -> Iterator[Advice]:
    """Whether those that a reminder goes to can be reached."""
    told = reminder.people
    for part, name in (("owner", told.owner), ("deputy", told.deputy), ("channel", told.channel)):
        yield from _reached(("spec", "people", part), name, given)


def hearers(checklist: Checklist, given: Given) -> Iterator[Advice]:
    """Whether those that hear of a checklist can be reached."""
    for number, name in enumerate(checklist.tells):
        yield from _reached(("spec", "tells", number), name, given)


def _reached(at: Path, name: str, given: Given) -> Iterator[Advice]:
    known = [channel.name for channel in given.channels]
    if name not in known:
        what = f"there is no channel `{name}`: who is meant would not be told"
        yield Advice(at, "nobody", what, f"name one that is {near(name, known)}")


CHANNEL_CHECKS = (otherwise, unheard)
