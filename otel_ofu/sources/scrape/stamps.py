"""Which time a stamped sample speaks about.

Enters: the stamps of a page's samples and the instants of its reads. Leaves: the gap in place of a
sample that is too old or ahead of the clock, and the window of each sample that is new.

Stamps stand on pages that pass on what was read before: `/federate` of a Prometheus, a
pushgateway, exporters with a cache (Ascend npu-exporter). A sample is used once, with its own time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from otel_ofu.model import Gap, GapReason, Window

FRESH_S = 120.0
"""Starting value: twice the usual scrape interval of a Prometheus that stands in between."""
AHEAD_S = 10.0
"""Starting value: clocks of machines that keep time by NTP agree within a second."""
STAMPED = "the sample is stamped"
"""How the detail of a gap begins that stands in place of a sample from the future."""
STALE_AFTER_PERIODS = 3
"""A page may be late; one that stands still for longer than this is an exporter's fault."""


@dataclass(frozen=True, slots=True)
class StampLimits:
    """The stamps that a read at `now_s` takes: at most `oldest_s` old, not ahead of the clock."""

    now_s: float
    oldest_s: float = FRESH_S

    def gap(self, stamp_s: float) -> Gap | None:
        """The gap in place of a sample of this stamp; None if it is recent."""
        age_s = self.now_s - stamp_s
        if stamp_s > 0 and -AHEAD_S <= age_s <= self.oldest_s:
            return None
        if stamp_s > 0 and age_s > 0:
            return Gap(GapReason.STALE, f"the sample is {age_s:.0f} s old")
        return Gap(GapReason.OUT_OF_RANGE, f"{STAMPED} {_instant(stamp_s)}")


def _instant(stamp_s: float) -> str:
    try:
        return datetime.fromtimestamp(stamp_s, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{stamp_s:.6g} s"


class StampedWindows:
    """The last stamp of each device and key. Belongs to one endpoint."""

    def __init__(self) -> None:
        self._used: dict[str, dict[str, float]] = {}

    def judge(
        self, uuid: str, stamps: Mapping[str, float], now_s: float, period_s: float
    ) -> tuple[dict[str, Window], dict[str, Gap]]:
        """The windows of the samples that are new, and the gaps of those that were used before.

        `period_s` is the time between two samples as far as it is known.
        """
        used = self._used.setdefault(uuid, {})
        windows, gaps = dict[str, Window](), dict[str, Gap]()
        for key, stamp_s in stamps.items():
            before_s = used.get(key)
            if before_s is not None and stamp_s <= before_s <= now_s + AHEAD_S:
                gaps[key] = Gap(GapReason.NOT_READY, "the exporter has no newer sample yet")
                continue
            is_next = before_s is not None and 0 < stamp_s - before_s <= 2 * period_s
            start_s = before_s if before_s is not None and is_next else stamp_s - period_s
            windows[key] = Window(start_s, stamp_s)
            used[key] = stamp_s
        return windows, gaps

    def forget(self, before_s: float) -> None:
        """Forgets devices without a sample since then: what is older is not used anyway."""
        self._used = {
            uuid: used
            for uuid, used in self._used.items()
            if used and max(used.values()) >= before_s
        }


def apart(times_s: Mapping[str, float], period_s: float) -> dict[str, Gap]:
    """The gaps of what is too old for the newest of `times_s`: they may not be multiplied."""
    newest_s = max(times_s.values(), default=0.0)
    return {
        key: Gap(
            GapReason.STALE, f"{newest_s - time_s:.0f} s older than what it is multiplied with"
        )
        for key, time_s in times_s.items()
        if newest_s - time_s > period_s
    }
