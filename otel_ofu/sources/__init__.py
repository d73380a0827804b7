"""Where readings come from. Each module builds one `Source`; none knows another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from otel_ofu.model import Reading


class Source(Protocol):
    """Reads every device that it owns.

    `read` may block; the sampler bounds the wait. It raises `SourceError` when nothing at all
    could be read; what is missing of one device or counter is a gap in its reading, never an
    exception. `now_s` is the scheduled instant (Unix seconds) and is used for windows only.
    `close` releases handles, may be called twice, and is called from the reading thread.
    """

    @property
    def name(self) -> str: ...

    def read(self, now_s: float) -> Sequence[Reading]: ...

    def close(self) -> None: ...
