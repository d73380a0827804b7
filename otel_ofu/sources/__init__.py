"""Where readings come from. Each module builds one `Source`; none knows another.

A package of its own brings a source as an entry point of the group `otel_ofu.sources` that leads to
a `SourceFactory`; docs/plugins.md explains it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from otel_ofu.model import Reading
from otel_ofu.model.clock import Clock

GROUP = "otel_ofu.sources"
BUILT_IN = ("dcgm", "nvml", "scrape", "demo")


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


class SourceFactory(Protocol):
    """Builds the source of another package; it opens nothing, that is for the first `read`.

    `settings` is the block `receivers.gpu.plugins.<name>`, empty without one. A ValueError is a
    mistake in it and is shown with its line.
    """

    def __call__(
        self, settings: Mapping[str, object], *, interval_s: float, clock: Clock
    ) -> Source: ...
