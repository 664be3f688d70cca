"""Does `examples/holiday-season/README.md` work word by word?

Each `$` line is run as it stands, from the top of the checkout; each line below it must be in the
output, in that order, where `…` stands for anything. A command that says that it is ready goes on
running, as in another terminal.
"""

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from guardrail.files import load

TOP = Path(__file__).resolve().parent.parent
EXAMPLE = TOP / "examples" / "holiday-season"
CODE = re.compile(r"\s+# exit code (\d+)$")
EARLY = (
    *("warming_up", "no_data", "unreachable", "stale"),  # a reading
    *("not found", "has no schedule", "not been gone through yet", "has not ended yet"),
)
"""What a command says that comes before there is something to be said."""
BESIDE = ("ready: ", "guardrail is up: ")


@dataclass(frozen=True, slots=True)
class Step:
    """A command, its exit code, and lines that it shows."""

    words: tuple[str, ...]
    code: int
    shown: tuple[str, ...]


def steps(text: str) -> Iterator[Step]:
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = piece.splitlines()
            code = CODE.search(command)
            words = tuple(shlex.split(CODE.sub("", command)))
            yield Step(words, int(code[1]) if code else 0, tuple(shown))


@dataclass
class Terminal:
    """Runs steps in a folder that looks like the checkout, with an environment of its own."""

    folder: Path
    stack: ExitStack
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, step: Step) -> None:
        if step.words[0] == "export":
            key, _, value = step.words[1].partition("=")
            self.environment[key] = value
        elif any(line.startswith(BESIDE) for line in step.shown):
            self.stack.enter_context(self.beside(step))
        elif step.words[0] == "guardrail":
            raise AssertionError(f"{step.words}: the page has no such program on its PATH")
        else:
            self.finished(step)

    def finished(self, step: Step, limit: float = 60.0) -> None:
        """Run it; a reading that is too early is taken again, as the page says."""
        end = time.monotonic() + limit
        while True:
            done = self.done(step)
            missing = next(iter(unseen(step.shown, done.stdout)), None)
            early = any(word in done.stdout + done.stderr for word in EARLY)
            right = done.returncode == step.code and missing is None
            if right or not early or time.monotonic() > end:
                break
            time.sleep(0.5)
        assert done.returncode == step.code, f"{step.words}: {done.stdout}{done.stderr}"
        assert missing is None, f"{step.words} does not show {missing!r}:\n{done.stdout}"

    def done(self, step: Step) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            step.words,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def beside(self, step: Step) -> Iterator[None]:
        with subprocess.Popen(
            step.words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline().rstrip() == step.shown[0]
                yield
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(60)


def unseen(wanted: tuple[str, ...], output: str) -> Iterator[str]:
    """The lines that are not in the output, after those before them."""
    lines = iter(output.splitlines())
    for each in wanted:
        pattern = ".*".join(map(re.escape, each.split("…")))
        if not any(re.fullmatch(pattern, line) for line in lines):
            yield each
            return


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Links to the checkout's parts, so that what the page writes is not left in it."""
    for name in (".venv", "examples", "policies"):
        (tmp_path / name).symlink_to(TOP / name)
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    own = {"TZ": "UTC", "GUARDRAIL_STATE": str(tmp_path / "state")}
    tools = {"GUARDRAIL_TOOLS": os.environ.get("GUARDRAIL_TOOLS", str(TOP / ".tools"))}
    with ExitStack() as stack:
        yield Terminal(tmp_path, stack, {**kept, **own, **tools})


@pytest.mark.real
def test_every_command_of_the_page_does_what_the_page_says(terminal: Terminal) -> None:
    found = list(steps((EXAMPLE / "README.md").read_text()))
    assert len(found) > 8
    for step in found:
        terminal.run(step)
    assert (terminal.folder / "season.ics").read_bytes().startswith(b"BEGIN:VCALENDAR")


def test_the_page_and_the_documents_name_the_same_things() -> None:
    documents = load([EXAMPLE / "source"])
    for item in documents.checklist().items:
        documents.source(item.source)
    assert {each.name for each in documents.reminders} == {
        "transit-gateway-us",
        "transit-gateway-scotland",
    }
    for name in documents.checklist().tells:
        documents.channel(name)
    for reminder in documents.reminders:
        for name in reminder.people.levels:
            documents.channel(name)
        documents.source(reminder.source)
    text = (EXAMPLE / "README.md").read_text()
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (EXAMPLE / link).exists(), link


def test_a_line_that_is_not_shown_is_found_missing() -> None:
    assert list(unseen(("a …", "c"), "x\na b\nc\n")) == []
    assert list(unseen(("c", "a …"), "x\na b\nc\n")) == ["a …"]
