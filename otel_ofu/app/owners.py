"""Who owns each GPU: the config put into what `jobs` needs.

Enters: the config, and what the sampler knows. Leaves: a `JobFinder`, or nothing when it is off.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from otel_ofu.config import Config
from otel_ofu.jobs import JobFinder
from otel_ofu.model import Device, Owner
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import SourceError, SourceUnavailable
from otel_ofu.sources.nvml import GpuProcess, NvmlProcesses

log = logging.getLogger(__name__)


class DriverProcesses:
    """The processes on each GPU, from the driver, whichever source reads the counters.

    A machine without the driver has none, which is logged once.
    """

    def __init__(self, library: str, clock: Clock) -> None:
        self._source = NvmlProcesses(library, clock)
        self._lock = threading.Lock()
        self._worked = False
        self._logged = False

    def processes(self) -> Sequence[GpuProcess]:
        """Raises SourceError when a driver that worked before does not answer."""
        with self._lock:
            try:
                found = self._source.processes()
            except SourceUnavailable as error:
                self._source.close()
                if self._worked:
                    raise
                self._log(error)
                return ()
            except SourceError:
                self._source.close()
                raise
            self._worked = True
            return found

    def _log(self, error: SourceUnavailable) -> None:
        if not self._logged:
            self._logged = True
            log.info("no process on a GPU is seen, so owners and flags are not: %s", error)

    def close(self) -> None:
        """Does not wait for a call that hangs."""
        if self._lock.acquire(timeout=0.5):
            self._source.close()
            self._lock.release()


def job_finder(
    config: Config,
    processes: Callable[[], Sequence[GpuProcess]],
    devices: Callable[[], Sequence[Device]],
    source_owners: Callable[[], Mapping[str, Sequence[Owner]]],
) -> JobFinder | None:
    """The finder that the config asks for; None when it is off."""
    if not config.jobs.enabled:
        return None
    return JobFinder(
        config.jobs,
        processes=processes,
        devices=devices,
        source_owners=source_owners,
    )
