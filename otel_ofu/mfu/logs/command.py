"""The output of a command that runs on -> its new bytes.

Enters: an argument list, never a shell line. Leaves: pieces of its standard output. Reading does
not block; a command that ends is started again, later each time.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress

from otel_ofu.model.clock import Clock

CHUNK_BYTES = 256 * 1024  # starting value, as of a file
FIRST_PAUSE_S = 10.0  # starting value
LONGEST_PAUSE_S = 300.0  # starting value
STOP_S = 2.0  # starting value: to end after SIGTERM
EXIT_S = 0.2  # starting value: between the end of output and of the process


class CommandTail:
    """Follows one command. `problem` is why it does not run now, or is empty.

    Its text stays the same while the cause lasts, so that it is logged once.
    """

    def __init__(self, argv: Sequence[str], clock: Clock) -> None:
        if not argv:
            raise ValueError("command: expected a program and its arguments")
        self._argv = tuple(argv)
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._pause_s = FIRST_PAUSE_S
        self._not_before_s = float("-inf")
        self.problem = ""
        self.starts = 0

    def chunks(self, budget_bytes: int) -> Iterator[bytes | None]:
        """What it printed since the last poll, in order; None where its output ended."""
        if self._process is None and not self._started():
            return
        while budget_bytes > 0:
            chunk = self._read(min(CHUNK_BYTES, budget_bytes))
            if chunk is None:
                return
            if not chunk:
                self._ended()
                yield None
                return
            self._pause_s = FIRST_PAUSE_S
            budget_bytes -= len(chunk)
            yield chunk

    def close(self) -> None:
        """Stops the command and what it started; waits up to two seconds, then insists."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdout is not None:
            process.stdout.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            # A command of another user (sudo) cannot be signalled: its closed output ends it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
                return

    def _started(self) -> bool:
        if self._clock.monotonic_s() < self._not_before_s:
            return False
        try:
            # A session of its own, so that its children end with it; no shell reads the arguments.
            process = subprocess.Popen(  # noqa: S603 - the command is the user's configuration
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._later(f"cannot be started: {reason}")
            return False
        if process.stdout is not None:
            os.set_blocking(process.stdout.fileno(), False)
        self._process, self.problem = process, ""
        self.starts += 1
        return True

    def _read(self, size: int) -> bytes | None:
        """A piece, b"" at the end, None when nothing is there now."""
        if self._process is None or self._process.stdout is None:
            return None
        try:
            return os.read(self._process.stdout.fileno(), size)
        except BlockingIOError:
            return None

    def _ended(self) -> None:
        why = "closed its output"
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                why = f"ended with {self._process.wait(EXIT_S)}"
        self.close()
        self._later(why)

    def _later(self, problem: str) -> None:
        self.problem = f"{problem}; tried again, later each time"
        self._not_before_s = self._clock.monotonic_s() + self._pause_s
        self._pause_s = min(2.0 * self._pause_s, LONGEST_PAUSE_S)
