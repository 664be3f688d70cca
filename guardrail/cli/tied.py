"""How does a child end when its parent is killed and cannot say so? (run as a script)

    python -I -S tied.py PARENT_PID COMMAND ARGUMENT...

Linux delivers SIGTERM to a process whose parent dies if it asked for that (prctl(2),
PR_SET_PDEATHSIG); the wish outlives exec, so any program can be tied this way. It is asked for
here, in the child and after fork, and the parent is looked at afterwards, since it may have died
before. Elsewhere than on Linux the command simply runs. Imports nothing of guardrail.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Tie this process to PARENT_PID, then become COMMAND."""
    parent, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(0)
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
