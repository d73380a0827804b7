"""The plain counters of one device: what to ask again, what not, and when.

Enters: a device handle. Leaves: values in registry units, or the gap of a call that failed.
"""

from __future__ import annotations

import math
from functools import partial
from types import ModuleType

from otel_ofu.model import Gap, GapReason
from otel_ofu.sources.nvml.devices import Handle
from otel_ofu.sources.nvml.statuses import FieldRefused, Retry, gap_of
from otel_ofu.sources.nvml.table import ROWS, Pace, Row

# Process lists take the driver's global lock for milliseconds: every 10 s at most, less a margin
# so that a 10 s interval with jitter does not skip every other time.
PROCESS_INTERVAL_S = 9.5

_LATER = Gap(GapReason.NOT_READY, f"asked for every {PROCESS_INTERVAL_S:g} s")


class Counter:
    """One row on one device: asks, remembers what the driver does not know, waits its turn."""

    def __init__(self, nvml: ModuleType, handle: Handle, row: Row) -> None:
        self._nvml = nvml
        self._row = row
        # Bound once, for these run at every tick. Older bindings lack newer functions.
        self._asks = [
            (ask, partial(getattr(nvml, ask.function), handle, *ask.arguments))
            for ask in row.asks
            if hasattr(nvml, ask.function)
        ]
        self._retry = Retry()
        self._kept: tuple[float, ...] | None = None
        self._last_s = -math.inf

    @property
    def keys(self) -> tuple[str, ...]:
        return self._row.keys

    def read(self, values: dict[str, float], gaps: dict[str, Gap], monotonic_s: float) -> None:
        """Adds a value or a gap for each key; a seldom call that is not due is `not_ready`.

        Raises `DeviceLost` and `SourceError`.
        """
        answer = self._kept or (self._answer(monotonic_s) if self._due(monotonic_s) else _LATER)
        if isinstance(answer, Gap):
            gaps.update(dict.fromkeys(self._row.keys, answer))
            return
        values.update(zip(self._row.keys, answer, strict=True))
        if self._row.pace is Pace.ONCE:
            self._kept = answer

    def _due(self, monotonic_s: float) -> bool:
        if self._row.pace is not Pace.SELDOM:
            return True
        if monotonic_s - self._last_s < PROCESS_INTERVAL_S:
            return False
        self._last_s = monotonic_s
        return True

    def _answer(self, monotonic_s: float) -> tuple[float, ...] | Gap:
        standing = self._retry.standing(monotonic_s)
        if standing:
            return standing
        gap = Gap(GapReason.NOT_SUPPORTED, f"{self._row.asks[0].function}: not in these bindings")
        while self._asks:
            ask, call = self._asks[0]
            try:
                answer = ask.convert(call())
            except (self._nvml.NVMLError, FieldRefused) as error:
                gap = gap_of(self._nvml, error.value, ask.function)
            else:
                self._retry.succeeded()
                return answer
            if gap.reason is not GapReason.NOT_SUPPORTED:
                break
            self._asks.pop(0)
        self._retry.failed(gap, monotonic_s)
        return gap


def counters_of(nvml: ModuleType, handle: Handle, *, mig: bool) -> list[Counter]:
    """The counters of a GPU, or the few that a MIG device has for itself."""
    return [Counter(nvml, handle, row) for row in ROWS if row.on_mig or not mig]
