"""NVML as a source: the driver, opened at the first use and again after it was reloaded.

Enters: the path of the driver's library. Leaves: readings, and what each GPU supports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from otel_ofu.model import Reading, Trouble
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import SourceError
from otel_ofu.sources.nvml.client import open_library
from otel_ofu.sources.nvml.read import NAME
from otel_ofu.sources.nvml.session import NvmlSession, SessionOptions
from otel_ofu.sources.nvml.support import DeviceSupport


class NvmlSource:
    """Opens the driver at the first use, and again after `close`. One thread uses it.

    The first reading of a device has no GPM metrics: they need two samples, 100 ms apart.
    Every method raises `SourceUnavailable` when the driver cannot be opened, and `SourceError`
    when it has to be closed and opened again (it was reloaded).
    """

    def __init__(
        self, library: str = "", *, clock: Clock, options: SessionOptions | None = None
    ) -> None:
        self._library = library
        self._options = options or SessionOptions()
        self._clock = clock
        self._session: NvmlSession | None = None
        self._spent_s = 0.0

    @property
    def name(self) -> str:
        return NAME

    def open(self) -> None:
        """Opens the driver if it is not open."""
        self._opened()

    def read(self, now_s: float) -> Sequence[Reading]:  # noqa: ARG002 - samples have their own time
        """One reading for each GPU and each MIG instance; windows end when it was read."""
        return self._opened().read()

    def describe(self) -> tuple[DeviceSupport, ...]:
        """What each GPU supports, read anew."""
        return self._opened().describe()

    def events(self) -> Sequence[Reading]:
        """XIDs since the last call, also while `read` takes long; from any thread."""
        session = self._session
        return [] if session is None else session.events()

    def troubles(self) -> Sequence[Trouble]:
        """GPUs that are listed and cannot be read, and XIDs that are not counted."""
        return [] if self._session is None else list(self._session.troubles())

    def costs(self) -> Mapping[str, float]:
        """What reading costs beside `read`, by registry key: the thread that samples the clock."""
        if self._session is None:
            return {}
        sampler = self._session.sampler
        return {
            "clock_sampler_time": self._spent_s + sampler.total_s,
            "clock_sampler_interval": sampler.short_s,
        }

    def close(self) -> None:
        session, self._session = self._session, None
        if session:
            session.close()
            self._spent_s += session.sampler.total_s

    def _opened(self) -> NvmlSession:
        if self._session is None:
            session = NvmlSession(open_library(self._library), self._clock, self._options)
            try:
                session.start()
            except SourceError:
                session.close()
                raise
            self._session = session
        return self._session
