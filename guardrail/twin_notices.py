"""Who hears what, where nobody is to be reached? The twin of `ports.Notifier`."""

from dataclasses import dataclass, field

from guardrail.model.notice import Answer, Failed, Message, Route, Sent


@dataclass(slots=True)
class TwinNotifier:
    """Channels in memory. refusing: those that take nothing. heard: what each channel took, in
    order. now: the time of the next answer, in seconds."""

    known: tuple[Route, ...]
    refusing: set[str] = field(default_factory=set)
    heard: list[tuple[str, Message]] = field(default_factory=list)
    asked: list[tuple[str, Message]] = field(default_factory=list)
    now: float = 0.0

    def routes(self) -> tuple[Route, ...]:
        """The channels, sorted by name."""
        return tuple(sorted(self.known, key=lambda route: route.name))

    async def send(self, message: Message, channel: str) -> Answer:
        """Taken, unless there is no such channel or it refuses."""
        self.asked.append((channel, message))
        if all(route.name != channel for route in self.known):
            return Failed(channel, self.now, f"there is no channel `{channel}`")
        if channel in self.refusing:
            return Failed(channel, self.now, "it refuses")
        self.heard.append((channel, message))
        return Sent(channel, self.now)
