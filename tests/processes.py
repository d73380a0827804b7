"""Real processes to look at, with an environment of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# What setproctitle does: it writes over the block that the kernel shows as the environment.
OVERWRITES = """
import ctypes, sys
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
start, end = int(fields[47]), int(fields[48])
ctypes.memset(start, 0, end - start)
print("ready", flush=True)
sys.stdin.read()
"""
WAITS = 'import sys; print("ready", flush=True); sys.stdin.read()'


@contextmanager
def child(program: str, environment: dict[str, str], *arguments: str) -> Iterator[int]:
    """A process that has run `program` up to its "ready"; gone at the end."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()
