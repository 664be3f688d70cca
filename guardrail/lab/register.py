"""What did the lab start, and where is that written down?

One JSON file in the state folder, written anew after each start, so that `down` finds
everything even when `up` was killed half-way.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from guardrail.errors import Refused
from guardrail.lab.layout import Layout
from guardrail.lab.parameters import Load
from guardrail.lab.parts import Part
from guardrail.lab.processes import Identity


@dataclass(slots=True)
class Register:
    """The parts by name, and the layout they were started for.

    `id` marks this lab's processes; `complete` says that `up` came to its end.
    """

    layout: Layout
    id: str
    started: float
    load: Load = "peak"
    complete: bool = False
    parts: dict[str, Part] = field(default_factory=dict)

    def add(self, *parts: Part) -> None:
        """Write down parts, replacing those of the same name."""
        self.parts.update({part.name: part for part in parts})
        self.write()

    def running(self) -> dict[str, Identity]:
        """The live processes by part."""
        found = ((name, part.running()) for name, part in self.parts.items())
        return {name: process for name, process in found if process}

    def write(self) -> None:
        """Write the file whole or not at all."""
        body = {
            "id": self.id,
            "started": self.started,
            "block": self.layout.block,
            "count": self.layout.count,
            "load": self.load,
            "complete": self.complete,
            "parts": [part.as_json() for part in self.parts.values()],
        }
        path = self.layout.state_file
        part_file = path.with_suffix(".part")
        part_file.write_text(json.dumps(body, indent=1))
        part_file.replace(path)


def read_register(state: Path) -> Register:
    """What `up` wrote in this folder; raises Refused when no lab was started there."""
    path = Layout(state).state_file
    try:
        body = json.loads(path.read_text())
        layout = Layout(state, body["block"], body["count"])
        parts = {fields["name"]: Part.from_json(fields) for fields in body["parts"]}
        return Register(
            layout, body["id"], body["started"], body["load"], body.get("complete", False), parts
        )
    except FileNotFoundError:
        raise Refused(f"no lab was started in {state}; start one with: guardrail lab up") from None
    except (ValueError, KeyError, TypeError) as fault:
        raise Refused(f"{path} is not a lab's register ({fault}); remove it") from fault
