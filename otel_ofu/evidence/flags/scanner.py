"""Flags of the processes on the GPUs, scanned rarely, asked for often.

Enters: what to search for, who holds which device, the instant. Leaves: the last `FlagScan`, at
once or after a bounded wait; never an exception.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from otel_ofu.evidence.flags.catalogue import FlagCatalogue
from otel_ofu.evidence.flags.scan import FlagReport, FlagScan, Holder, Scan, ScanInputs
from otel_ofu.evidence.settings import FlagSettings
from otel_ofu.files.procfs import ProcFs
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.model.log_once import CountedLogOnce
from otel_ofu.model.worker import Worker

log = logging.getLogger(__name__)

PROC = Path("/proc")
BUDGET_S = 0.5
"""Starting value: the longest that `FlagScanner.scan` waits."""
HANGS = (
    "a scan has not ended for four intervals: the driver or a file of a process does not answer;"
    " another scan begins without that process"
)


class FlagScanner:
    """`scan` may be called at every tick, by one thread at a time.

    A scan runs in a thread of its own: /proc of a process that hangs in the driver may not answer.
    After four intervals such a scan is left, and another one begins without that process.
    `processes`: which process holds which device. `architectures`: device UUID -> architecture
    ("hopper"), for flags that depend on it. Both are called in the scanning thread.
    """

    def __init__(  # noqa: PLR0913 - each a seam of its own
        self,
        flags: FlagCatalogue,
        proc_root: Path = PROC,
        clock: Clock | None = None,
        *,
        processes: Callable[[], Sequence[Holder]],
        architectures: Callable[[], Mapping[str, str]] = dict,
        settings: FlagSettings | None = None,
        budget_s: float = BUDGET_S,
    ) -> None:
        settings = settings or FlagSettings()
        self._clock = clock or SystemClock()
        self._processes = processes
        self._architectures = architectures
        troubles = CountedLogOnce(log, "flag evidence unavailable: ")
        procfs = ProcFs(proc_root)
        self._scan = Scan(flags, procfs, troubles, trust_pids=settings.trust_pids)
        self._hangs_at: int | None = None
        self._worker = Worker(
            "otel-ofu-flags",
            self._run,
            interval_s=settings.interval,
            budget_s=budget_s,
            on_hang=self._begin_anew,
        )
        self._last = FlagScan()

    def scan(self, now_s: float) -> FlagScan:
        """The flags as of the last scan; waits `budget_s` at the longest. `now_s`: Unix seconds.

        A scan that is older than four intervals has nothing of any device.
        """
        self._worker.run(now_s)
        report = self._last.report
        at_s = report.scanned_at_s
        if at_s is not None and self._worker.is_stale(at_s, now_s):
            return FlagScan(report=report)
        return self._last

    def report(self) -> FlagReport:
        """How the last scan went, for doctor and the agent's own metrics."""
        return self._last.report

    def _begin_anew(self) -> None:
        self._hangs_at = self._scan.at
        self._scan = self._scan.successor()
        troubles = self._scan.troubles
        troubles.note("scan_hangs", HANGS)
        report = self._last.report
        report = replace(report, problems=troubles.problems(), counts=troubles.counts())
        self._last = replace(self._last, report=report)

    def _run(self, now_s: float) -> None:
        scanning = self._scan
        last = self._scanned(scanning, now_s)
        if scanning is self._scan:  # else it hung, and another one took over
            self._last = last

    def _scanned(self, scanning: Scan, now_s: float) -> FlagScan:
        started_s = self._clock.monotonic_s()
        troubles = scanning.troubles
        troubles.begin()
        avoided = self._hangs_at if self._worker.hangs else None
        try:
            inputs = ScanInputs(now_s, self._processes(), self._architectures(), avoided)
            scan = scanning.run(inputs)
        except Exception as error:  # noqa: BLE001 - bindings of the driver raise what they like
            # Its text and its trace may hold a value of an environment: only its kind is reported.
            text = f"a scan failed: {type(error).__name__} in {_position(error)}"
            troubles.note("scan_failed", text)
            report = FlagReport(now_s, problems=troubles.problems(), counts=troubles.counts())
            scan = FlagScan(report=report)
        seconds = self._clock.monotonic_s() - started_s
        return replace(scan, report=replace(scan.report, seconds=seconds))


def _position(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "?"
        if trace is None
        else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    )
