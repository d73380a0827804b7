"""The directory of a store, held by one process at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from otel_ofu.model.errors import OtelOfuError


class StateUnusable(OtelOfuError):  # noqa: N818 - a state, not a fault
    """The directory cannot hold the history, with the reason of the system."""


class StateInUse(StateUnusable):
    """Another process keeps its history in the same directory."""


class StateFolder:
    """`path` is None when history is kept in memory alone. Raises StateUnusable."""

    def __init__(self, state_dir: Path | None) -> None:
        self.path = state_dir / "store" if state_dir else None
        self._lock: int | None = None
        if self.path is not None:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock = _lock(self.path)
            except OSError as error:
                raise StateUnusable(f"{self.path}: {error.strerror}") from error

    def release(self) -> None:
        """Lets another process in; may be called twice."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _lock(folder: Path) -> int:
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StateInUse(f"{folder}: another otel-ofu keeps its history there") from None
    return descriptor
