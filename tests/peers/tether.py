"""Runs a program that dies with the process that wanted it, however that one ends.

In: `python tether.py PARENT_PID PROGRAM [ARGUMENT...]`. Out: the program, in place of this one.
Linux only. It stands between parent and peer because a `preexec_fn` is not safe beside threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # Source: linux/prctl.h


def main() -> None:
    parent, program = int(sys.argv[1]), sys.argv[2]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.exit(f"cannot tether {program}: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it ended before the tether held
        sys.exit(f"cannot tether {program}: process {parent} is gone")
    os.execv(program, sys.argv[2:])


if __name__ == "__main__":
    main()
