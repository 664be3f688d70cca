"""How does a person talk to guardrail, and how does every command end?

Exit codes (design.md §9): 0 done, 1 refused, 2 invalid file or usage, 3 a service did not answer,
130 Ctrl-C. This is the one place where errors become messages and codes.
"""

import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated, Any, ClassVar, NoReturn

import typer
from typer._click.core import Context

from guardrail import logs
from guardrail.cli.commands import Group
from guardrail.errors import GuardrailError
from guardrail.settings import Settings

INTERRUPTED = 130


class Root(Group):
    """The root command: finds every command below it, and ends it."""

    later: ClassVar[Mapping[str, str]] = {
        "up": "up",
        "worker": "up",
        "stop": "stop",
        "plan": "plan",
        "simulate": "simulate",
        "rollout": "rollout",
        "policy": "policy",
        "gate": "gate",
        "journal": "journal",
        "lease": "lease",
        "override": "override",
        "freeze": "freeze",
        "remind": "remind",
        "season": "season",
        "notify": "notify",
        "lab": "lab",
    }

    def invoke(self, ctx: Context) -> Any:
        """Run the command; errors become one message each and an exit code."""
        try:
            return super().invoke(ctx)
        except GuardrailError as error:
            _say(str(error))
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            _say("Interrupted. Operations go on; come back with: guardrail rollout list")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            raise  # who read our output went away: typer ends quietly
        except Exception as error:
            if not _is_ours(error) or _debugging():
                raise
            _say(_unexpected(error))
            raise typer.Exit(1) from None


def _is_ours(error: Exception) -> bool:
    """Whether an error is unexpected: typer's own (usage, exit) have their own way out."""
    return not type(error).__module__.startswith(("typer.", "click."))


def _debugging() -> bool:
    return os.environ.get("GUARDRAIL_DEBUG", "").lower() in ("1", "true", "yes", "on")


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _unexpected(error: Exception) -> str:
    """One line for an error that nobody foresaw, and where to read the rest."""
    told = " ".join(str(error).split())[:300]
    try:
        kept = logs.keep_traceback(Settings.read().logs, error)
    except GuardrailError:
        kept = None
    where = f"what led to it is in {kept}" if kept else "see it all with GUARDRAIL_DEBUG=1"
    return f"guardrail met an error of its own, {type(error).__name__}: {told}; {where}"


app = typer.Typer(
    name="guardrail",
    cls=Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Roll a change over a fleet host by host, gated on evidence; stop in seconds.",
    epilog="Example: guardrail up, then in another terminal: guardrail rollout start FILE",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"guardrail {version('guardrail-orchestrator')}")
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which one.")
    ] = False,
) -> None:
    """Set up what every command needs."""
    logs.set_up()


def main() -> NoReturn:
    """The console script."""
    code: object = 1
    try:
        app()
    except SystemExit as end:
        code = end.code
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 1
    # A Temporal call that is still open crashes the interpreter's own way out (exit 139, tried
    # with temporalio 1.35), so the process ends here, with everything written.
    os._exit(code if isinstance(code, int) else (0 if code is None else 1))
