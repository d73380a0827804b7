"""Which values of a page are new.

Enters: the values of each read of one endpoint. Leaves: for each device its window, or the gap
that stands in place of values that were used before.

Pages of exporters mostly have no timestamps, and many exporters refresh them less often than they
are read. A device whose values are all equal to the last ones, bit by bit, has not been refreshed
if one of them cannot stand still (energy used, cycles elapsed, a timestamp): its *witness*. Without
a witness equality proves nothing - an idle device may well be constant - and the rest of the page
decides: where anything changed, the page is new. Where nothing did, constant values are taken once
for each refresh period, learned from the pages that did change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from otel_ofu.model import Gap, GapReason, Window
from otel_ofu.sources.scrape.stamps import STALE_AFTER_PERIODS

FORGET_AFTER_S = 600.0
"""A device that was not on the page for so long is new when it comes back."""
MOST_DEVICES = 4096
"""Devices of one endpoint, those that left its page a short while ago included. Starting value."""
_LEARN_FROM = 5  # starting value: the last refresh periods
_WITNESSES = ("energy", "sm_cycles_elapsed")


@dataclass(frozen=True, slots=True)
class DeviceValues:
    """What one read shows of a device; `timestamp_s` is the newest of its samples or None."""

    values: Mapping[str, float]
    timestamp_s: float | None = None

    @property
    def has_witness(self) -> bool:
        counters = (self.values.get(key, 0) for key in _WITNESSES)
        return self.timestamp_s is not None or any(value > 0 for value in counters)


@dataclass(frozen=True, slots=True)
class Age:
    """The window of a device's values, and the gap in their place if they are not new."""

    window: Window
    gap: Gap | None = None


@dataclass(slots=True)
class _History:
    seen: DeviceValues
    used_s: float
    on_page_s: float


class Freshness:
    """The history of one endpoint, read every `interval_s`."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._devices: dict[str, _History] = {}
        self._periods_s: deque[float] = deque(maxlen=_LEARN_FROM)
        self._changed_s: float | None = None
        self._read_s: float | None = None
        self.is_crowded = False
        """Whether devices were forgotten early at the last read, for there are too many."""

    @property
    def learned_s(self) -> float | None:
        """The shortest of the last times between two different pages; None until known."""
        return min(self._periods_s, default=None)

    @property
    def devices(self) -> Collection[str]:
        """The devices that are remembered."""
        return self._devices.keys()

    def judge(
        self, now_s: float, page: Mapping[str, DeviceValues], assumed_s: float
    ) -> dict[str, Age]:
        """The age of each device's values.

        `now_s` is the instant of this read; `assumed_s` is the exporter's refresh period as far as
        nothing was learned, 0 for an exporter that reads its devices on every request.
        """
        known = {uuid: self._devices[uuid] for uuid in page if uuid in self._devices}
        changed = {uuid for uuid in page if uuid not in known or known[uuid].seen != page[uuid]}
        period_s = max(self.learned_s or assumed_s, self._interval_s)
        self._learn(now_s, has_changed=bool(changed))
        is_proof = any(seen.has_witness for seen in page.values())
        ages = {}
        for uuid, seen in page.items():
            is_due = uuid in known and now_s - known[uuid].used_s >= min(period_s, assumed_s)
            is_constant = not seen.has_witness and (bool(changed) or (is_due and not is_proof))
            if uuid in changed or is_constant:
                ages[uuid] = self._use(now_s, uuid, seen, period_s)
            else:
                ages[uuid] = self._repeated(now_s, known[uuid], period_s)
        self._forget(now_s)
        return ages

    def _learn(self, now_s: float, *, has_changed: bool) -> None:
        if self._read_s is not None and now_s - self._read_s > 2 * self._interval_s:
            self._changed_s = None  # not read for a while: the next change may not be the first
        self._read_s = now_s
        if not has_changed:
            return
        if self._changed_s is not None and now_s > self._changed_s:
            self._periods_s.append(now_s - self._changed_s)
        self._changed_s = now_s

    def _use(self, now_s: float, uuid: str, seen: DeviceValues, period_s: float) -> Age:
        before = self._devices.get(uuid)
        # After a long silence the values speak about the last refresh, not about all of it.
        start_s = max(before.used_s, now_s - 2 * period_s) if before else now_s - self._interval_s
        self._devices[uuid] = _History(seen, now_s, now_s)
        return Age(Window(min(start_s, now_s), now_s))

    def _repeated(self, now_s: float, history: _History, period_s: float) -> Age:
        history.on_page_s = now_s
        window = Window(now_s - self._interval_s, now_s)
        if now_s - history.used_s <= STALE_AFTER_PERIODS * period_s:
            detail = f"the exporter refreshes its page about every {period_s:g} s"
            return Age(window, Gap(GapReason.NOT_READY, detail))
        limit_s = STALE_AFTER_PERIODS * period_s
        detail = f"the exporter has not refreshed these values for more than {limit_s:g} s"
        return Age(window, Gap(GapReason.STALE, detail))

    def _forget(self, now_s: float) -> None:
        recent = {
            uuid: history
            for uuid, history in self._devices.items()
            if now_s - history.on_page_s <= FORGET_AFTER_S
        }
        self.is_crowded = len(recent) > MOST_DEVICES
        if self.is_crowded:
            by_age = sorted(recent, key=lambda uuid: recent[uuid].on_page_s, reverse=True)
            recent = {uuid: recent[uuid] for uuid in by_age[:MOST_DEVICES]}
        self._devices = recent
