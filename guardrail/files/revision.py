"""Which git revision do the documents of a folder come from?

`revision(folder)` answers `1a2b3c4d5e6f`, with a `+` behind it where a file in the folder is not as
that revision has it, and an empty text where there is no git, or no repository around the folder.
"""

import os
import subprocess
from pathlib import Path

PATIENCE = 5.0
"""Seconds that git may take; documents are loaded without a revision then."""

LETTERS = 12


def revision(folder: Path) -> str:
    """The revision of a folder, see above; raises nothing."""
    head = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    if not head:
        return ""
    # What git does not know is a difference as well; only this folder counts.
    changed = _git(folder, "status", "--porcelain", "--untracked-files=normal", "--", ".")
    return head[:LETTERS] + ("" if changed == "" else "+")


def _git(folder: Path, *words: str) -> str | None:
    """What git says, without anything that a repository's own settings could have it run."""
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *words]
    settings = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    # Variables of a git that called us (a hook) would name another repository than the folder's.
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603 - an argument list, no shell
            command,
            cwd=folder,
            env=kept | settings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None
