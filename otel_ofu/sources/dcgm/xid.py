"""Counts driver errors: enters samples of DCGM's "last XID", leaves a count per code.

The field holds the last code for ever and its time is that of the error, so a change of time is
an error. Two errors between two looks (at most a second apart) count as one.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_ofu.model import Gap
from otel_ofu.sources.dcgm import codes
from otel_ofu.sources.dcgm.judge import Moment, value_of
from otel_ofu.sources.dcgm.wire import Sample


class XidCounts:
    """Counts by device since `started_s` (Unix seconds); errors from before do not count."""

    def __init__(self, started_s: float) -> None:
        self._started_us = started_s * 1e6
        self._last_us: dict[str, int] = {}
        self._counts: dict[str, dict[int, int]] = {}

    def keys(self, uuid: str) -> list[str]:
        """The keys of codes that were seen on a device."""
        return [f"xid:{code}" for code in self._counts.get(uuid, ())]

    def outcome(
        self, uuid: str, samples: Sequence[Sample], moment: Moment
    ) -> dict[str, float | Gap]:
        """All counts of a device, or their gap; empty while there was no error."""
        gap = None
        for sample in samples:
            value = value_of(sample, moment)
            gap = value if isinstance(value, Gap) and sample.status != codes.NO_DATA else None
            if not isinstance(value, Gap):
                self._count(uuid, int(value), sample.ts_us)
        counts = self._counts.get(uuid, {})
        return {f"xid:{code}": gap or float(n) for code, n in counts.items()}

    def _count(self, uuid: str, code: int, at_us: int) -> None:
        before = self._last_us.get(uuid)
        self._last_us[uuid] = at_us
        is_new = at_us >= self._started_us if before is None else at_us != before
        if is_new and code > 0:
            counts = self._counts.setdefault(uuid, {})
            counts[code] = counts.get(code, 0) + 1
